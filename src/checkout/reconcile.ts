import type { MoneyOperation, SalesRecord } from '../orders/record.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loops } from '../runtime/loops.ts';
import type { CheckoutParts } from './checkout.ts';
import { createPlaces } from './places.ts';

export interface ReconcilerOptions {
  record: SalesRecord;
  /** The result of `createCheckout`. Operations are driven by the same steps as a buyer's request. */
  checkout: Pick<CheckoutParts, 'payments' | 'expire'>;
  clock: Clock;
  log: Logger;
}

export interface Reconciler {
  /** One pass over all that is due now. The first pass takes up what this process's former life had claimed. */
  runOnce(): Promise<ReconcilePass>;
  start(loops: Loops): void;
}

export interface ReconcilePass {
  driven: number;
  closed: number;
  failed: number;
}

const gapMs = 1_000;
/** A round over a full queue asks the provider thousands of times. */
const roundLateMs = 10 * 60_000;
/** Operations that are driven at the same time: each waits for calls to the provider. */
const placesMax = 16;
const overdueMax = 128;

/**
 * Where our record and the provider's meet: drives every money operation by its due_at and closes orders that were not paid in
 * time. Several may run at once: claims keep them apart. The provider's events have a loop of their own (inbox.ts), so that a
 * flood of them keeps nothing waiting here.
 */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { record, checkout, clock, log } = options;
  const { payments } = checkout;
  let first = true;

  const places = createPlaces<MoneyOperation>({
    places: placesMax,
    claim: (limit) => record.claim({ ...payments.claimOf, limit }),
    clock,
  });

  const newPass = (): ReconcilePass => ({ driven: 0, closed: 0, failed: 0 });

  async function runOnce(): Promise<ReconcilePass> {
    const pass = newPass();
    await takeUp();
    await places.drain((operation) => drive(operation, pass));
    await closeOverdue(pass);
    await checkRefunds(pass);
    return pass;
  }

  /** Releases the claims that this process held before it was restarted. */
  async function takeUp(): Promise<void> {
    if (first) await record.releaseClaims(payments.claimOf.owner);
    first = false;
  }

  async function driveDue(pass: ReconcilePass, signal: AbortSignal): Promise<void> {
    await takeUp();
    await places.fill((operation) => drive(operation, pass), signal);
  }

  const drive = (operation: MoneyOperation, pass: ReconcilePass): Promise<void> =>
    attempt(pass, { operation: operation.operation }, async () => {
      await payments.drive(operation);
      pass.driven += 1;
    });

  async function closeOverdue(pass: ReconcilePass): Promise<void> {
    for (const order of await record.overdue(overdueMax)) {
      await attempt(pass, { order }, async () => {
        await checkout.expire(order);
        pass.closed += 1;
      });
    }
  }

  async function checkRefunds(pass: ReconcilePass): Promise<void> {
    await attempt(pass, { what: 'refunds of the last days' }, async () => {
      await payments.checkRefunds();
    });
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

  return {
    runOnce,
    // Loops of their own: a provider that is silent must not delay the closing of orders that have no payment there.
    start(loops) {
      const each = { everyMs: gapMs, lateAfterMs: roundLateMs };
      const driving = { ...each, name: 'drive money operations', ended: places.ended };
      loops.run({ ...driving, turn: (signal) => driveDue(newPass(), signal) });
      loops.run({ ...each, name: 'close unpaid orders', turn: () => closeOverdue(newPass()) });
      loops.run({ ...each, name: 'look at refunds again', turn: () => checkRefunds(newPass()) });
    },
  };
}
