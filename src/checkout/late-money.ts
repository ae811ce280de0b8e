import type { HoldId, OrderId } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import type { Arbiter, Retry } from '../inventory/arbiter.ts';
import type { LateSeats, OperationStep, Order, SalesRecord } from '../orders/record.ts';
import type { PaymentView } from '../payments/provider.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Steps } from './steps.ts';

/** `extend` leaves five minutes anyway; what is left over when this process dies meanwhile is short. */
const lateHoldMs = 60_000;
/** Together shorter than a claim's lease. */
const triesMax = 4;
const waitMaxMs = 2_000;
const askAgainMs = 1_000;

/**
 * Handles money that was reserved after its order had been closed at the deadline. Claims the same seats again as any buyer does: at the arbiter, with a hold in the order's name that counts
 * in its holder's quota, waits while receipts are being collected, and becomes an order only through the record.
 */
export interface LateMoney {
  /** `late`: the arbiter could not be asked now, nothing has changed. */
  carryOn(
    late: LateStep,
    view: PaymentView,
    endKey: string,
  ): Promise<OperationStep<'authorised' | 'ending' | 'late'>>;
}

type LateStep = OperationStep<'authorised' | 'ending' | 'late'>;

export interface LateMoneyOptions {
  record: SalesRecord;
  arbiter: Pick<Arbiter, 'hold' | 'extend' | 'release'>;
  /** Derives the hold's id from the order's, so that every process claims the same hold. */
  lateHoldOf(order: OrderId): HoldId;
  steps: Steps;
  clock: Clock;
  log: Logger;
}

/** `orGone`: if it goes on like this, the seats cannot be had. */
type Asked = LateSeats | { kind: 'later'; afterMs: number; orGone: boolean };

export function createLateMoney(options: LateMoneyOptions): LateMoney {
  const { record, arbiter, lateHoldOf, steps, clock, log } = options;

  async function carryOn(late: LateStep, view: PaymentView, endKey: string): Promise<LateStep> {
    const { operation } = late.operation;
    const decide = (seats: LateSeats) =>
      steps.taken(() => record.authorised(operation, view, endKey, steps.claimOf, seats));
    let step = late;
    let orGone = false;
    for (let tries = 1; step.kind === 'late' && tries <= triesMax; tries += 1) {
      const asked = await ask(step.order);
      if (asked.kind === 'later') {
        ({ orGone } = asked);
        if (tries < triesMax) await clock.sleep(Math.min(asked.afterMs, waitMaxMs));
        continue;
      }
      step = await decide(asked);
      // `late` again: the hold's epoch is over and the hold with it. Releasing it in the new epoch would use up its id.
      if (asked.kind === 'held' && step.kind !== 'late' && step.order.hold !== asked.hold)
        await letGo(step.order, asked);
    }
    if (step.kind === 'late' && orGone) step = await decide({ kind: 'gone' });
    const { kind } = step;
    if (kind !== 'late') log.info({ order: step.order.order, kind }, 'money came late');
    return step;
  }

  /** Asks the arbiter about the order's seats: held for the order, gone, or not known now. */
  async function ask(order: Order): Promise<Asked> {
    const seatsMax = await record.lateSeatsMax(order.order);
    const { eventNo: event, partition, visitor, holder } = order;
    const hold = lateHoldOf(order.order);
    assert(hold !== order.hold || order.state !== 'reserved', 'a hold of its own');
    const at = { event, partition, hold, visitor };
    const seats = order.lines.map(({ seat }) => seat).sort((a, b) => a - b);
    if (seats.length === 0) return { kind: 'gone' };
    const held = await reach(() =>
      arbiter.hold({
        ...at,
        holder,
        request: order.order,
        claim: { kind: 'seats', seats },
        ttlMs: lateHoldMs,
        seatsMax,
        replaces: null,
        notAfter: null,
      }),
    );
    if (held.kind === 'retry') return later(held);
    // Seats that come back reopen the sale within a second or two.
    if (held.kind === 'not_open' && held.phase === 'sold_out')
      return { kind: 'later', afterMs: askAgainMs, orGone: true };
    // With another id: the visitor has chosen just these seats again by himself.
    if (held.kind !== 'granted' || held.hold.hold !== hold) return { kind: 'gone' };
    const bound = await reach(() => arbiter.extend({ ...at, order: order.order }));
    if (bound.kind === 'retry') return later(bound);
    if (bound.kind !== 'extended') return { kind: 'gone' };
    return { kind: 'held', hold, epoch: bound.hold.epoch, deadline: bound.hold.deadline };
  }

  /** A store that does not answer decides nothing. */
  async function reach<Outcome>(
    call: () => Promise<Outcome>,
  ): Promise<Outcome | { kind: 'retry'; afterMs: number }> {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof StoreFault)) throw error;
      log.warn({ err: error }, 'the seats of a late payment cannot be asked for just now');
      return { kind: 'retry', afterMs: waitMaxMs };
    }
  }

  /** Releases a hold that the order cannot use, so that the next buyer has the seats at once. */
  async function letGo(order: Order, held: LateSeats & { kind: 'held' }): Promise<void> {
    const { eventNo: event, partition, visitor } = order;
    await reach(() => arbiter.release({ event, partition, hold: held.hold, visitor, force: order.order }));
  }

  return { carryOn };
}

function later({ afterMs }: Retry): Asked & { kind: 'later' } {
  return { kind: 'later', afterMs, orGone: false };
}
