import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { SalesRecord } from '../sales/record.ts';
import type { CheckoutParts } from './checkout.ts';

export interface ReconcilerOptions {
  record: SalesRecord;
  /** What `createCheckout` made: it drives operations by the same steps as a buyer's request. */
  checkout: Pick<CheckoutParts, 'payments' | 'expire'>;
  clock: Clock;
  log: Logger;
}

export interface Reconciler {
  /** One pass over all that is due now. The first pass takes up what this process's former life had claimed. */
  runOnce(): Promise<ReconcilePass>;
  start(): void;
  /** Ends after the pass that runs. */
  stop(): Promise<void>;
}

export interface ReconcilePass {
  driven: number;
  closed: number;
  events: number;
  failed: number;
}

const gapMs = 1_000;
const batchMax = 16;
/** A pass ends even when new work keeps coming. */
const batchesMax = 200;

/**
 * Where our record and the provider's meet: drives every money operation by its due_at, closes orders that were not paid in
 * time and takes up provider events that came before our own answers. Several may run at once: claims keep them apart.
 */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { record, checkout, clock, log } = options;
  const { payments } = checkout;
  let first = true;
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function runOnce(): Promise<ReconcilePass> {
    const pass: ReconcilePass = { driven: 0, closed: 0, events: 0, failed: 0 };
    if (first) await record.releaseClaims(payments.claimOf.owner);
    first = false;
    for (let batch = 0; batch < batchesMax && !stopping?.signal.aborted; batch += 1) {
      const claimed = await record.claim({ ...payments.claimOf, limit: batchMax });
      if (claimed.length === 0) break;
      await Promise.all(
        claimed.map((operation) =>
          attempt(pass, { operation: operation.operation }, async () => {
            await payments.drive(operation);
            pass.driven += 1;
          }),
        ),
      );
    }
    const { orders, events } = await record.overdue(batchMax * 8);
    for (const order of orders) {
      await attempt(pass, { order }, async () => {
        await checkout.expire(order);
        pass.closed += 1;
      });
    }
    for (const event of events) {
      await attempt(pass, { event: event.id }, async () => {
        if (!event.order || !(await payments.inspect(event.order))) return;
        await record.providerEventProcessed(event.id);
        pass.events += 1;
      });
    }
    return pass;
  }

  /** One failure does not keep the others waiting; its claim lapses and it comes again. */
  async function attempt(pass: ReconcilePass, what: object, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (err) {
      pass.failed += 1;
      log.error({ err, ...what }, 'reconciling failed; it will be tried again');
    }
  }

  async function loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await runOnce().catch((err: unknown) => log.error({ err }, 'a reconcile pass failed'));
      await clock.sleep(gapMs, signal).catch(() => {});
    }
  }

  return {
    runOnce,
    start: () => {
      if (running) return;
      stopping = new AbortController();
      running = loop(stopping.signal);
    },
    stop: async () => {
      stopping?.abort();
      await running;
      running = undefined;
      stopping = undefined;
    },
  };
}
