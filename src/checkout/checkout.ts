import type { HoldId, OrderId } from '../core/hold.ts';
import type { Attention } from '../core/operator-list.ts';
import { assert, impossible } from '../core/outcome.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Changed, Order, SalesRecord } from '../orders/record.ts';
import type { PaymentProvider, PaymentView, ProviderAnswer } from '../payments/provider.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import { createClosing } from './closing.ts';
import { createEnding, type Ending } from './ending.ts';
import { createLateMoney } from './late-money.ts';
import { createLookups, type Lookups, type RefundDriver } from './lookups.ts';
import type { Checkout, CheckoutReserveOutcome, PayCommand, PayOutcome } from './outcomes.ts';
import { isOpening, outcomeOf } from './pay-outcome.ts';
import { createRepeats } from './repeats.ts';
import { answerOf, believed, createSteps, type Standing } from './steps.ts';

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
  payments: Lookups;
  /** Closes an order that was not paid in time; loses to an operation under way. */
  expire(order: OrderId): Promise<PayOutcome>;
}

/**
 * The purchase: reserve → open → authorise → confirm → capture, in the order of this file. Requests that come again are
 * answered by repeats.ts; closing.ts and ending.ts end what is not sold; lookups.ts finds out what the provider knows after a
 * fault, so that the reconciler can finish what a dead process left.
 */
export function createCheckout(options: CheckoutOptions): CheckoutParts {
  const { record, arbiter, clock, log, orderIdOf } = options;
  const { provider } = options;
  const steps = createSteps({ ...options, decided });
  const { claimOf, newIds, newEndKey, surely, taken, park } = steps;
  const parts = { ...options, steps, decided };
  // An order's second hold, should it need one, is named after the order by the same keyed hash as the order after its first.
  const late = createLateMoney({ ...parts, lateHoldOf: orderIdOf });
  const ending: Ending = createEnding({ ...parts, cameLate: (...of) => lookups.cameLate(...of) });
  const money = { open, authorise, apply, markAuthorised, confirm, capture, applyCapture };
  const lookups: Lookups = createLookups({ ...parts, money, ending });
  const closing = createClosing({ ...parts, ending });
  const repeats = createRepeats({ record, lookups, clock, open, shut: closing.shut });

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
        ...newIds(command.order, 'authorise'),
        order: command.order,
        kind: 'authorise',
        clientKey: command.clientKey,
        request: command.request,
        instrument: { ...command.instrument, returnUrl: command.returnUrl },
      },
      claimOf,
    );
    if (begun.kind !== 'begun') return repeats.notBegun(begun);
    // authorise → confirm → capture, or → void; whatever stays open has its due_at.
    return outcomeOf(await authorise(begun));
  }

  /** The provider's object, whose id is stored before anything is authorised on it. */
  async function openObject(command: PayCommand): Promise<PayOutcome | { kind: 'opened' }> {
    const order = await record.findOrder(command.order);
    if (!order) return { kind: 'unknown_order' };
    if (order.providerObject) return { kind: 'opened' };
    const begun = await record.begin(
      {
        ...newIds(command.order, 'open'),
        order: command.order,
        kind: 'open',
        clientKey: null,
        request: null,
        instrument: null,
      },
      claimOf,
    );
    if (begun.kind === 'opened') return begun;
    let standing: Standing;
    if (begun.kind === 'begun') standing = await repeats.openTwice(begun);
    // One opening serves all tries of the order, whatever their keys; one that was just refused is not sent again at once.
    else if (begun.kind === 'repeated' || (begun.kind === 'under_way' && isOpening(begun.operation)))
      standing = await repeats.openIfDue(await repeats.answered(begun));
    // The object was opened meanwhile: the operation under way is a separate try.
    else if (begun.kind === 'under_way' && begun.order.providerObject) return { kind: 'opened' };
    else return repeats.notBegun(begun);
    return standing.order.providerObject ? { kind: 'opened' } : outcomeOf(standing);
  }

  async function open({ order, operation }: Standing): Promise<Standing> {
    const answer = await provider.open({
      key: operation.key,
      reference: order.order,
      eventId: order.event,
      amount: operation.amount,
      currency: operation.currency,
      description: `${order.event}: ${order.lines.length} seats`,
      email: order.buyer.email,
    });
    if (answer.kind === 'unknown') {
      // The key may replay this error for ever. An object without a known id is harmless, so another key may open another one.
      const isStored = answer.reason === 'server_error' || answer.reason === 'conflict';
      const newKey = isStored && operation.attempts % 2 === 0 ? newIds(order.order, 'open').key : undefined;
      return park(operation, 'unknown', answer, { newKey });
    }
    const view = answer.view;
    if (answer.kind === 'refused' || !view || !believed(view, order)) {
      if (view)
        log.error({ order: order.order, object: view.object }, 'an opened payment does not match its order');
      return taken(() => record.refused(operation.operation, answerOf(answer)));
    }
    return taken(() => record.opened(operation.operation, view.object, answerOf(answer)));
  }

  async function authorise({ order, operation }: Standing): Promise<Standing> {
    assert(
      operation.instrument && operation.providerObject,
      'an authorisation has an instrument and an object',
    );
    const { returnUrl, ...instrument } = operation.instrument;
    const answer = await provider.authorise({
      key: operation.key,
      object: operation.providerObject,
      instrument,
      returnUrl,
    });
    if (answer.kind === 'unknown') return park(operation, 'unknown', answer);
    if (answer.kind === 'refused') return taken(() => record.refused(operation.operation, answerOf(answer)));
    return apply({ order, operation }, answer.view);
  }

  /** Applies the object's state to its authorisation. */
  async function apply({ order, operation }: Standing, view: PaymentView): Promise<Standing> {
    if (!believed(view, order)) return disbelieved({ order, operation }, view);
    switch (view.status) {
      case 'authorised':
        return applyReserved({ order, operation }, view);
      case 'captured':
        // An operator captured the payment at the provider. As long as the order waits for its money, this pays it.
        log.error({ order: order.order, object: view.object }, 'a payment was captured before the sale');
        // Money that was meanwhile given back at the provider pays for nothing.
        if (view.captured === order.amount && view.refunded === 0)
          return applyReserved({ order, operation }, view);
        return operation.state === 'ending'
          ? ending.voidObject({ order, operation })
          : ending.end({ order, operation }, 'payment_mismatch');
      case 'waiting':
        return park(operation, 'waiting', { kind: 'pending', view });
      case 'new':
        return taken(() =>
          record.refused(operation.operation, { view, decline: view.decline ?? 'processing_error' }),
        );
      case 'cancelled':
        return taken(() => record.voided(operation.operation, { view }));
      case 'processing':
        return park(operation, 'unknown', { kind: 'pending', view });
      default:
        return impossible(view.status, 'payment status');
    }
  }

  async function applyReserved(standing: Standing, view: PaymentView): Promise<Standing> {
    const step = await markAuthorised(standing, view);
    if (step.kind === 'authorised') return confirm(step);
    return step.kind === 'ending' ? ending.voidObject(step) : step;
  }

  async function markAuthorised({ order, operation }: Standing, view: PaymentView) {
    const endKey = newEndKey(order.order);
    const step = await taken(() => record.authorised(operation.operation, view, endKey, claimOf));
    return step.kind === 'late' ? late.carryOn(step, view, endKey) : step;
  }

  /** A wrong amount under our own reference is ended; an answer about something else says nothing about our payment. */
  async function disbelieved({ order, operation }: Standing, view: PaymentView): Promise<Standing> {
    log.error({ order: order.order, object: view.object }, 'a payment does not match its order');
    if (view.reference === order.order && operation.state !== 'ending')
      return ending.end({ order, operation }, 'payment_mismatch');
    return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'payment_mismatch' });
  }

  async function confirm({ order, operation }: Standing): Promise<Standing> {
    const { operation: captureId, key: captureKey } = newIds(order.order, 'capture');
    const ids = { capture: captureId, captureKey, endKey: newEndKey(order.order) };
    const outcome = await surely(() => record.confirm(order.order, ids, claimOf));
    switch (outcome.kind) {
      case 'confirmed':
        await decided(outcome);
        return capture(outcome, false);
      case 'impossible':
        await decided(outcome);
        return ending.voidObject(outcome);
      case 'decided':
        return { order: outcome.order, operation };
      case 'unknown_order':
        throw new Error(`order ${order.order} is gone`);
      default:
        return impossible(outcome, 'confirm');
    }
  }

  /** Capture. P2 by structure: its row exists only because confirm wrote it. */
  async function capture(
    { order, operation }: Standing,
    isOver: boolean,
    more?: { attention: Attention },
  ): Promise<Standing> {
    assert(operation.kind === 'capture' && operation.providerObject, 'a capture has an object');
    const answer = await provider.capture({
      key: operation.key,
      object: operation.providerObject,
      amount: operation.amount,
    });
    if (answer.kind === 'unknown') {
      // The money is reserved but cannot be captured, and its time is over: the provider's answer is final.
      if (isOver && answer.reason === 'conflict')
        return taken(() => record.refused(operation.operation, answerOf(answer)));
      return park(operation, 'unknown', answer, more);
    }
    return applyCapture({ order, operation }, answer.view, answer.kind === 'refused' ? answer : null);
  }

  async function applyCapture(
    { order, operation }: Standing,
    view: PaymentView | null,
    refusal: (ProviderAnswer & { kind: 'refused' }) | null,
  ): Promise<Standing> {
    if (view && !believed(view, order)) {
      return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'payment_mismatch' });
    }
    if (view?.status === 'captured') {
      if (view.captured === operation.amount) return taken(() => record.captured(operation.operation, view));
      // All of it was given back at the provider: nothing pays for the sale any more.
      if (view.refunded >= view.captured) return taken(() => record.refused(operation.operation, { view }));
      return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'captured_amount' });
    }
    if (refusal) return taken(() => record.refused(operation.operation, answerOf(refusal)));
    if (view?.status === 'cancelled') return taken(() => record.refused(operation.operation, { view }));
    return park(operation, 'unknown', view ? { kind: 'pending', view } : null);
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
    refresh: repeats.refresh,
    close: closing.close,
    abandon: closing.abandon,
    providerEvent,
    find: (order) => record.findOrder(order),
    findOpen: (event, visitor) => record.findOpenOrder(event, visitor),
    payments: lookups,
    expire: (order) => closing.shut(order, 'not_paid_in_time'),
  };
}

function repeated(order: Order): CheckoutReserveOutcome {
  // A hold that was given back while bound leaves an order without seats: its hold is gone.
  return order.lines.length === 0 ? { kind: 'hold_gone' } : { kind: 'order', order, repeated: true };
}
