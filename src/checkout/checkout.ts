import type { Hold, HoldId, OrderId } from '../core/hold.ts';
import type { OrderEnd } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { BeginOutcome, Changed, MoneyOperation, Order, SalesRecord } from '../orders/record.ts';
import type { DeclineCode, PaymentProvider } from '../payments/provider.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Checkout, CheckoutReserveOutcome, CloseOutcome, PayCommand, PayOutcome } from './outcomes.ts';
import { createPayments, type Payments, type RefundDriver } from './payments.ts';
import { gapOf, isOpen, type Standing } from './steps.ts';

export interface CheckoutOptions {
  record: SalesRecord;
  arbiter: Pick<Arbiter, 'hold' | 'extend' | 'release' | 'project'>;
  provider: PaymentProvider;
  /** The order's id is made from the hold's, by a keyed hash. */
  orderIdOf(hold: HoldId): OrderId;
  clock: Clock;
  random: Random;
  log: Logger;
  /** This process's name, the same after a restart; the reconciler takes the same. */
  owner: string;
  /** After a step has decided an order or seats; for publishing, metrics and jobs. Not awaited, must not throw. */
  onDecided?(changed: Changed): void;
  /** Called when a provider's event was stored, so that the inbox processes it at once. Must not throw. */
  onProviderEvent?(): void;
  /** Drives refunds. Undefined in processes that do not. */
  refunds?: RefundDriver;
}

/** The purchase as the HTTP layer sees it, and what the reconciler needs besides. */
export interface CheckoutParts extends Checkout {
  payments: Payments;
  /** Closes an order that was not paid in time; loses to an operation under way. */
  expire(order: OrderId): Promise<PayOutcome>;
}

/** A page asks again after this long while a payment is under way, ms; after each look at the provider twice as long. */
const askAgainMs = 1_500;
const askAgainMaxMs = 10_000;
/** The opening of a payment is tried a second time within its request, after the gap that follows the first try, ms. */
const openAgainMs = 2_100;
/** Unless the first try took so long that the buyer's page would give up waiting, ms. */
const openPatienceMs = 3_000;
/** How long a repeated request waits for the first one's result, in ms. After that its client is asked to retry. */
const repeatWaitMs = 4_000;
const repeatPollMs = 150;

/**
 * The purchase: reserve → authorise → confirm → capture. `pay` tells it from top to bottom; the steps that touch money are
 * in payments.ts, the ones that touch seats in the record. The reconciler finishes what a dead process left.
 */
export function createCheckout(options: CheckoutOptions): CheckoutParts {
  const { record, arbiter, clock, log, orderIdOf } = options;
  // An order's second hold, should it need one, is named after the order by the same keyed hash as the order after its first.
  const payments = createPayments({ ...options, lateHoldOf: orderIdOf, decided });

  async function reserve(command: Parameters<Checkout['reserve']>[0]): Promise<CheckoutReserveOutcome> {
    const { hold, ...rest } = command;
    const { event, partition, visitor, holder } = hold;
    const order = orderIdOf(hold.hold);
    // The order outlives its hold: a repeat after the sale still finds it.
    const before = await record.findOrder(order);
    if (before) return repeated(before);
    const proof = await arbiter.extend({ event, partition, hold: hold.hold, visitor, order, receipt: hold });
    if (proof.kind === 'bound') return { kind: 'hold_gone' };
    if (proof.kind === 'hold_gone') {
      const meanwhile = await record.findOrder(order);
      return meanwhile ? repeated(meanwhile) : proof;
    }
    if (proof.kind !== 'extended') return { kind: 'retry', afterMs: 500 };
    const reserveOnce = () =>
      record.reserve({
        ...rest,
        order,
        hold: hold.hold,
        event,
        partition,
        // The epoch of the proof. Under another one the seats may belong to another visitor.
        epoch: proof.hold.epoch,
        deadline: proof.hold.deadline,
        visitor,
        holder,
      });
    const outcome = await reserveOnce().catch((error: unknown) => {
      // Its COMMIT's answer was lost, perhaps: the same step again tells, since its identity is the hold.
      if (error instanceof StoreFault && !error.retriable) return reserveOnce();
      throw error;
    });
    switch (outcome.kind) {
      case 'reserved':
        if (outcome.repeated) return repeated(outcome.order);
        await decided(outcome);
        return { kind: 'order', order: outcome.order, repeated: false };
      case 'stale':
      case 'retry':
        return { kind: 'retry', afterMs: 500 };
      case 'open_order':
      case 'limit':
      case 'code':
      case 'not_open':
      case 'hold_gone':
        return outcome;
    }
  }

  async function pay(command: PayCommand): Promise<PayOutcome> {
    const opened = await openObject(command);
    if (opened.kind !== 'opened') return opened;
    const begun = await record.begin(
      {
        ...payments.newIds(command.order, 'authorise'),
        order: command.order,
        kind: 'authorise',
        clientKey: command.clientKey,
        request: command.request,
        instrument: { ...command.instrument, returnUrl: command.returnUrl },
      },
      payments.claimOf,
    );
    if (begun.kind !== 'begun') return notBegun(begun);
    // authorise → confirm → capture, or → void; whatever stays open has its due_at.
    return told(await payments.send(begun));
  }

  /** The provider's object, whose id is stored before anything is authorised on it. */
  async function openObject(command: PayCommand): Promise<PayOutcome | { kind: 'opened' }> {
    const order = await record.findOrder(command.order);
    if (!order) return { kind: 'unknown_order' };
    if (order.providerObject) return { kind: 'opened' };
    const begun = await record.begin(
      {
        ...payments.newIds(command.order, 'open'),
        order: command.order,
        kind: 'open',
        clientKey: null,
        request: null,
        instrument: null,
      },
      payments.claimOf,
    );
    if (begun.kind === 'opened') return begun;
    let standing: Standing;
    if (begun.kind === 'begun') standing = await openTwice(begun);
    // One opening serves all tries of the order, whatever their keys; one that was just refused is not sent again at once.
    else if (begun.kind === 'repeated' || (begun.kind === 'under_way' && isOpening(begun.operation)))
      standing = await openIfDue(await answered(begun));
    // The object was opened meanwhile: the operation under way is a separate try.
    else if (begun.kind === 'under_way' && begun.order.providerObject) return { kind: 'opened' };
    else return notBegun(begun);
    return standing.order.providerObject ? { kind: 'opened' } : told(standing);
  }

  /** With the same key: nothing is opened twice. What stays unknown the reconciler goes on with. */
  async function openTwice(begun: Standing): Promise<Standing> {
    const startedAt = clock.monotonic();
    const first = await payments.send(begun);
    if (first.operation.state !== 'unknown' || clock.monotonic() - startedAt > openPatienceMs) return first;
    await clock.sleep(openAgainMs);
    return openIfDue(first);
  }

  async function openIfDue({ order, operation }: Standing): Promise<Standing> {
    if (operation.state !== 'unknown') return { order, operation };
    const { operation: id } = operation;
    return (await looked(operation)) ?? (await standingOf(order.order, id)) ?? { order, operation };
  }

  /** Checks an operation under way and continues it. Null if its next check is not due, or another process has claimed it. */
  async function looked({ operation }: MoneyOperation): Promise<Standing | null> {
    const claimed = await record.ask({ ...payments.claimOf, operation, by: 'buyer' });
    return claimed && payments.drive(claimed);
  }

  async function notBegun(begun: Exclude<BeginOutcome, { kind: 'begun' }>): Promise<PayOutcome> {
    switch (begun.kind) {
      case 'repeated':
        return told(await answered(begun));
      case 'too_late':
        return shut(begun.order.order, begun.reason);
      case 'decided':
        return toldOrder(begun.order);
      case 'under_way':
        return { kind: 'under_way', order: begun.order };
      case 'mismatch':
      case 'unknown_order':
        return begun;
      case 'opened':
        return { kind: 'under_way', order: begun.order };
      default:
        return impossible(begun, 'begin');
    }
  }

  /** The first request's answer for its repeat, if it comes soon. */
  async function answered(standing: Standing): Promise<Standing> {
    let now = standing;
    const until = clock.monotonic() + repeatWaitMs;
    while (
      (now.operation.state === 'open' || now.order.state === 'authorised') &&
      clock.monotonic() < until
    ) {
      await clock.sleep(repeatPollMs);
      now = (await standingOf(now.order.order, now.operation.operation)) ?? now;
    }
    return now;
  }

  async function standingOf(orderId: OrderId, operationId?: string): Promise<Standing | null> {
    const [order, all] = await Promise.all([record.findOrder(orderId), record.operationsOf(orderId)]);
    const operations = all.filter(({ kind }) => kind !== 'refund');
    const operation = operationId
      ? operations.find((one) => one.operation === operationId)
      : (operations.find(isOpen) ??
        operations.filter(({ kind }) => kind === 'authorise').at(-1) ??
        operations.at(-1));
    return order && operation ? { order, operation } : null;
  }

  async function refresh(order: OrderId): Promise<PayOutcome> {
    const standing = await standingOf(order);
    if (!standing) {
      const known = await record.findOrder(order);
      return known ? toldOrder(known) : { kind: 'unknown_order' };
    }
    if (!isOpen(standing.operation)) return told(standing);
    return told((await looked(standing.operation)) ?? (await standingOf(order)) ?? standing);
  }

  async function close(order: OrderId): Promise<CloseOutcome> {
    const { claimOf, newEndKey } = payments;
    const outcome = await record.close(order, 'closed_by_buyer', newEndKey(order), claimOf);
    switch (outcome.kind) {
      case 'closed':
        await decided(outcome);
        return { kind: 'closed', order: outcome.order };
      case 'voiding': {
        await decided(outcome);
        const { operation } = outcome;
        if (!operation) return closeOf(outcome.order);
        return closeOf((await payments.voidObject({ order: outcome.order, operation })).order);
      }
      case 'decided':
        return closeOf(outcome.order);
      case 'under_way':
      case 'unknown_order':
        return outcome;
      default:
        return impossible(outcome, 'close');
    }
  }

  /** Closes an order that can no longer be paid. */
  async function shut(order: OrderId, reason: OrderEnd): Promise<PayOutcome> {
    const outcome = await record.close(order, reason, payments.newEndKey(order), payments.claimOf);
    if (outcome.kind === 'unknown_order') return outcome;
    if (outcome.kind === 'closed' || outcome.kind === 'voiding') await decided(outcome);
    return outcome.kind === 'under_way' ? outcome : toldOrder(outcome.order);
  }

  async function abandon(hold: Hold): ReturnType<Checkout['abandon']> {
    const order = orderIdOf(hold.hold);
    const outcome = await record.abandon(hold, order);
    if (outcome.kind === 'ordered') return outcome;
    const { event, partition, visitor } = hold;
    const released = await arbiter.release({
      event,
      partition,
      receipt: hold,
      hold: hold.hold,
      visitor,
      force: order,
    });
    if (released.kind === 'retry') {
      // The order is written as closed, so the leader ends the hold within seconds.
      log.debug(
        { order, answer: released.kind },
        'a hold that was given back stays until it is told as ended',
      );
    }
    return { kind: 'released' };
  }

  async function providerEvent(event: Parameters<Checkout['providerEvent']>[0]): Promise<void> {
    const { repeated } = await record.providerEvent(event);
    if (!repeated) options.onProviderEvent?.();
  }

  /** The arbiter learns what Postgres decided. Should it fail, the leader projects the seat rows again. */
  async function decided(changed: Changed): Promise<void> {
    const { order, seats } = changed;
    const projection = {
      event: order.eventNo,
      partition: order.partition,
      changes: seats,
      ordered: order.state === 'reserved' || order.state === 'authorised' ? [order.hold] : [],
      ended: order.state === 'reserved' || order.state === 'authorised' ? [] : [order.hold],
    };
    if (seats.length > 0) {
      await arbiter
        .project(projection)
        .catch((err: unknown) => log.warn({ err, order: order.order }, 'seats could not be projected'));
    }
    options.onDecided?.(changed);
  }

  return {
    reserve,
    pay,
    refresh,
    close,
    abandon,
    providerEvent,
    find: (order) => record.findOrder(order),
    findOpen: (event, visitor) => record.findOpenOrder(event, visitor),
    payments,
    expire: (order) => shut(order, 'not_paid_in_time'),
  };
}

function repeated(order: Order): CheckoutReserveOutcome {
  // A hold that was given back while bound leaves an order without seats: its hold is gone.
  return order.lines.length === 0 ? { kind: 'hold_gone' } : { kind: 'order', order, repeated: true };
}

/** The buyer's view of an order and its payment. */
function told({ order, operation }: Standing): PayOutcome {
  if (order.state !== 'reserved') return toldOrder(order);
  if (isOpening(operation)) return toldOpening({ order, operation });
  switch (operation.state) {
    case 'waiting':
      return pending(order, operation.answer?.view?.action ?? null, operation);
    case 'open':
    case 'unknown':
    case 'ending':
      return pending(order, null, operation);
    case 'refused':
    case 'voided':
    case 'done':
      return { kind: 'declined', order, decline: declineOf(operation) };
    default:
      return impossible(operation.state, 'operation state');
  }
}

/** An opening alone tries no card. */
function toldOpening({ order, operation }: Standing): PayOutcome {
  switch (operation.state) {
    case 'open':
    case 'ending':
      return pending(order, null, operation);
    case 'waiting':
    case 'unknown':
    case 'refused':
      return { kind: 'unavailable', order, afterMs: gapOf(operation) };
    case 'done':
    case 'voided':
      return { kind: 'unpaid', order };
    default:
      return impossible(operation.state, 'operation state');
  }
}

function isOpening({ kind }: MoneyOperation): boolean {
  return kind === 'open';
}

function toldOrder(order: Order): PayOutcome {
  switch (order.state) {
    case 'confirmed':
    case 'paid':
      return { kind: 'bought', order };
    case 'voiding':
    case 'closed':
    case 'cancelled':
      return { kind: 'ended', order };
    case 'reserved':
      return { kind: 'unpaid', order };
    case 'authorised':
      return pending(order, null);
    default:
      return impossible(order.state, 'order state');
  }
}

function pending(order: Order, action: { url: string } | null, operation?: MoneyOperation): PayOutcome {
  const looks = Math.min(Math.max((operation?.attempts ?? 1) - 1, 0), 5);
  return { kind: 'pending', order, action, afterMs: Math.min(askAgainMaxMs, askAgainMs * 2 ** looks) };
}

function declineOf(operation: MoneyOperation): DeclineCode {
  return (operation.answer?.decline as DeclineCode | undefined) ?? 'processing_error';
}

function closeOf(order: Order): CloseOutcome {
  switch (order.state) {
    case 'closed':
    case 'cancelled':
      return { kind: 'closed', order };
    case 'confirmed':
    case 'paid':
      return { kind: 'bought', order };
    case 'voiding':
      return { kind: 'closing', order };
    case 'reserved':
    case 'authorised':
      return { kind: 'under_way', order };
  }
}
