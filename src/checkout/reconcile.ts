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
  failed: number;
}

const gapMs = 1_000;
const batchMax = 16;
/** A pass ends even when new work keeps coming. */
const batchesMax = 200;

/**
 * Where our record and the provider's meet: drives every money operation by its due_at and closes orders that were not paid in
 * time. Several may run at once: claims keep them apart. The provider's events have a loop of their own (inbox.ts), so that a
 * flood of them keeps nothing waiting here.
 */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { record, checkout, clock, log } = options;
  const { payments } = checkout;
  let first = true;
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function runOnce(): Promise<ReconcilePass> {
    const driven = await driveDue();
    const closed = await closeOverdue();
    return { driven: driven.driven, closed: closed.closed, failed: driven.failed + closed.failed };
  }

  const newPass = (): ReconcilePass => ({ driven: 0, closed: 0, failed: 0 });

  async function driveDue(): Promise<ReconcilePass> {
    const pass = newPass();
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
    return pass;
  }

  async function closeOverdue(): Promise<ReconcilePass> {
    const pass = newPass();
    for (const order of await record.overdue(batchMax * 8)) {
      await attempt(pass, { order }, async () => {
        await checkout.expire(order);
        pass.closed += 1;
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

  async function loop(part: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await part().catch((err: unknown) => log.error({ err }, 'a reconcile pass failed'));
      await clock.sleep(gapMs, signal).catch(() => {});
    }
  }

  return {
    runOnce,
    start: () => {
      if (running) return;
      stopping = new AbortController();
      const { signal } = stopping;
      // A provider that is silent keeps no order from being closed that is not at the provider's.
      running = Promise.all([loop(driveDue, signal), loop(closeOverdue, signal)]).then(() => {});
    },
    stop: async () => {
      stopping?.abort();
      await running;
      running = undefined;
      stopping = undefined;
    },
  };
}
