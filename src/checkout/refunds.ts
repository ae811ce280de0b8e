import { createHash } from 'node:crypto';
import type { OrderId } from '../core/hold.ts';
import { stepOf } from '../core/money.ts';
import { decideRefund, type PaidOrder, type RefundDecision, type RefundWish } from '../core/money-due.ts';
import type { Attention } from '../core/operator-list.ts';
import { assert, impossible } from '../core/outcome.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Changed, Claim, DecidedSeat, MoneyOperation, Order, SalesRecord } from '../orders/record.ts';
import type {
  MakeRefundOutcome,
  Refund,
  RefundRecord,
  RefundStanding,
  RetryRefundOutcome,
  SettleRefundCommand,
} from '../orders/refunds.ts';
import type { Reversal } from '../orders/reversals.ts';
import type { PaymentProvider, RefundView } from '../payments/provider.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Reversals } from './reversals.ts';
import { claimLeaseMs, type Standing } from './steps.ts';

export interface RefundsOptions {
  record: RefundRecord;
  orders: Pick<SalesRecord, 'findOrder' | 'operationsOf'>;
  reversals: Reversals;
  /** Null if refunds are only decided here. The workers then send them. */
  provider: PaymentProvider | null;
  arbiter: Pick<Arbiter, 'project'>;
  clock: Clock;
  random: Random;
  log: Logger;
  /** Names this process, as in the checkout. */
  owner: string;
  /** After a step has freed seats or ended an order. Not awaited, must not throw. */
  onDecided?(changed: Changed): void;
}

export interface RefundCommand extends RefundWish {
  order: OrderId;
  /** The organiser's Idempotency-Key. A repeat returns the same refund. */
  requestKey: string;
  actor: string;
  reason: string;
  seats: 'release' | 'block';
}

export type RefundOutcome =
  /** As it stands after the first attempt; what is open or unknown the reconciler goes on with. */
  | { kind: 'made'; order: Order; refund: Refund }
  | { kind: 'repeated'; order: Order; refund: Refund }
  | Exclude<MakeRefundOutcome, { kind: 'made' | 'repeated' }>;

export type RefundPreview =
  | RefundDecision
  | { kind: 'unknown_order' }
  /** Nothing was captured for it, or not yet. */
  | { kind: 'not_paid'; order: Order };

/**
 * Refunds: decided once in the record, with the tickets that they cancel, then given back by attempts that are money
 * operations like all others: row and key before the call, driven by their due_at, unknown until the provider's own list says
 * how it went. Every attempt carries its operation's id as reference, so that none is made twice whatever answer was lost.
 */
export interface Refunds {
  /** Computes the refund without changing anything. */
  preview(order: OrderId, wish: RefundWish): Promise<RefundPreview>;
  make(command: RefundCommand): Promise<RefundOutcome>;
  /** Another attempt of one that failed, by an organiser. */
  retry(refund: string, actor: string): Promise<RetryRefundOutcome>;
  /** The same by the run over a cancelled event; the workers send it. Null: the provider did not answer, nothing was decided. */
  retryLater(refund: string): Promise<RetryRefundOutcome | null>;
  elsewhere: RefundRecord['elsewhere'];
  /** Carries a claimed attempt on as far as it gets. */
  drive(standing: Standing): Promise<Standing>;
  /** Looks at all of an order's attempts because the provider said so. False: it did not answer, ask again later. */
  inspect(order: Order, operations: readonly MoneyOperation[]): Promise<boolean>;
  /** Looks for disputes of payments that are not the order's sale: ended attempts, second payments. False: it did not answer. */
  inspectOthers(order: Order, operations: readonly MoneyOperation[]): Promise<boolean>;
  /** Orders whose refunds succeeded some days ago and are to be looked at again, and that this was done. */
  dueChecks: RefundRecord['dueChecks'];
  checked: RefundRecord['checked'];
  /** Tells the arbiter which seats a step has freed or blocked. */
  decided(order: Order, seats: DecidedSeat[]): Promise<void>;
  /** Ids of an attempt that is about to be written. */
  newAttempt(order: OrderId): { operation: string; key: string };
}

/** Providers drop idempotency keys after 24 h: the same key would then do the work again. */
const keyAgeMaxMs = 20 * 3_600_000;
const firstGapMs = 2_000;
/** Bounds P4: once the provider answers, an unknown refund ends within two of these. */
const gapMaxMs = 45_000;
/** A pending one may take days; the provider's event is quicker. */
const pendingGapMs = 10_000;
const pendingGapMaxMs = 6 * 3_600_000;
/** A key that fails this often replays a stored error for ever. The provider's list shows that it had no effect. */
const sameErrorsMax = 4;

export function createRefunds(options: RefundsOptions): Refunds {
  const { record, orders, reversals, arbiter, clock, random, log } = options;
  const claimOf: Claim | null = options.provider && { owner: options.owner, leaseMs: claimLeaseMs };
  const asked = (): PaymentProvider => {
    assert(options.provider, 'a provider to ask');
    return options.provider;
  };

  const newAttempt = (order: OrderId) => {
    const operation = random.uuid();
    return { operation, key: `${order}:refund:${operation}` };
  };

  /** Every step of the record may be repeated, so an unknown outcome is asked for again, by the same step. */
  async function surely<Result>(step: () => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof StoreFault) || attempt >= 3) throw error;
        await clock.sleep(100 * attempt);
      }
    }
  }

  async function preview(id: OrderId, wish: RefundWish): Promise<RefundPreview> {
    const order = await orders.findOrder(id);
    if (!order) return { kind: 'unknown_order' };
    await lookFirst(order);
    const paid = await paidOrder(order);
    if (order.state !== 'paid' && (order.state !== 'cancelled' || paid.refunds.length === 0)) {
      return { kind: 'not_paid', order };
    }
    return decideRefund(paid, wish, stepOf(order.currency));
  }

  async function paidOrder(order: Order): Promise<PaidOrder> {
    const [tickets, refunds, taken, settledThere, reversed] = await Promise.all([
      record.paidTickets(order.eventNo, order.order),
      record.ofOrder(order.order),
      record.taken(order.order),
      record.settledThere(order.order),
      reversals.ofOrder(order.order),
    ]);
    const sumOf = (kind: Reversal['kind']): number =>
      reversed.filter((one) => one.kind === kind).reduce((sum, one) => sum + one.taken, 0);
    const without = { refundedThere: sumOf('refund'), settledThere, disputed: sumOf('dispute') };
    return { tickets, orderFee: order.orderFee, refunds, taken, ...without };
  }

  /**
   * Reads refunds made at the provider first, so that their money is not offered again. Returns false if it does not respond;
   * for a person the record then decides.
   */
  async function lookFirst(order: Order): Promise<boolean> {
    if (!options.provider || (order.state !== 'paid' && order.state !== 'cancelled')) return true;
    return inspect(order, await orders.operationsOf(order.order));
  }

  async function make(command: RefundCommand): Promise<RefundOutcome> {
    const order = await orders.findOrder(command.order);
    if (!order) return { kind: 'unknown_order' };
    await lookFirst(order);
    const ids = { refund: random.uuid(), ...newAttempt(order.order) };
    const request = requestOf(command);
    const outcome = await surely(() =>
      record.make({ ...command, ...ids, request, step: stepOf(order.currency) }, claimOf),
    );
    if (outcome.kind !== 'made') return outcome;
    await decided(outcome.order, outcome.seats);
    return { kind: 'made', ...(await driven(outcome)) };
  }

  async function retry(refund: string, actor: string): Promise<RetryRefundOutcome> {
    const known = await record.find(refund);
    const order = known && (await orders.findOrder(known.order));
    if (!known || !order) return { kind: 'unknown_refund' };
    await lookFirst(order);
    const ids = newAttempt(known.order);
    const outcome = await record.retry({ refund, ...ids, actor }, claimOf);
    if (outcome.kind !== 'retried') return outcome;
    return { ...outcome, ...(await driven(outcome)) };
  }

  /** Looks first: money that went back at the provider before a refund was settled may be the refund's (`order_settled_there`). */
  async function elsewhere(refund: string, actor: string, note: string) {
    const known = await record.find(refund);
    const order = known && (await orders.findOrder(known.order));
    if (order) await lookFirst(order);
    return record.elsewhere(refund, actor, note);
  }

  async function retryLater(refund: string): Promise<RetryRefundOutcome | null> {
    const known = await record.find(refund);
    const order = known && (await orders.findOrder(known.order));
    if (!known || !order) return { kind: 'unknown_refund' };
    if (!(await lookFirst(order))) return null;
    return record.retry({ refund, ...newAttempt(known.order), actor: null }, null);
  }

  /** The refund is decided, whatever becomes of its first attempt here: the reconciler goes on. */
  async function driven(made: {
    order: Order;
    refund: Refund;
    operation: MoneyOperation | null;
  }): Promise<{ order: Order; refund: Refund }> {
    const { order, operation } = made;
    if (!operation || !claimOf) return { order, refund: made.refund };
    try {
      await drive({ order, operation });
    } catch (err) {
      log.error({ err, order: order.order }, 'a refund could not be carried on; it will be tried again');
    }
    return { order, refund: (await record.find(made.refund.refund)) ?? made.refund };
  }

  async function drive({ order, operation }: Standing): Promise<Standing> {
    assert(operation.kind === 'refund' && operation.providerObject, 'a refund is of an object');
    const attempt = await record.attemptOf(operation.operation);
    assert(attempt, `a refund of operation ${operation.operation}`);
    // Its own request may have arrived, and so may one of an attempt before it that seemed to have failed.
    const first = operation.state === 'open' && operation.attempts <= 1 && attempt.others.length === 0;
    if (!first) {
      const seen = await asked().refunds(operation.providerObject);
      if (seen.kind === 'unknown') return undecided(operation, `${seen.reason}: ${seen.detail}`);
      const own = seen.refunds.find(({ reference }) => reference === operation.operation);
      if (own) return takeIn(operation, own);
      const earlier = attempt.others.flatMap((other) =>
        seen.refunds
          .filter(({ reference, status }) => reference === other.operation && status !== 'failed')
          .map((view) => ({ other, view })),
      )[0];
      if (earlier) {
        const standing = await settle({
          operation: operation.operation,
          state: 'refused',
          detail: 'an earlier attempt has gone through',
        });
        await takeIn(earlier.other, earlier.view);
        return standing;
      }
      if (operation.state === 'waiting') {
        log.error({ order: order.order, operation: operation.operation }, 'a pending refund is gone');
        return undecided(operation, 'the provider does not list it any more', 'refund_missing');
      }
      if (!isYoung(operation)) {
        return undecided(operation, 'its key grew too old', undefined, newAttempt(order.order).key);
      }
    }
    return send({ order, operation });
  }

  async function send({ order, operation }: Standing): Promise<Standing> {
    const answer = await asked().refund({
      key: operation.key,
      object: operation.providerObject!,
      amount: operation.amount,
      reference: operation.operation,
    });
    switch (answer.kind) {
      case 'done':
      case 'pending':
        return takeIn(operation, answer.refund);
      case 'refused': {
        log.warn({ order: order.order, detail: answer.detail }, 'a refund was refused');
        const isLess = await lookForReversals(order, operation.providerObject!);
        const { operation: id } = operation;
        const standing = await settle({ operation: id, state: 'refused', detail: answer.detail });
        // The next attempt pays what is left.
        if (isLess)
          await surely(() =>
            record.retry({ refund: standing.refund.refund, ...newAttempt(order.order), actor: null }, null),
          );
        return standing;
      }
      case 'unknown': {
        const stuck = answer.reason === 'server_error' && operation.attempts >= sameErrorsMax;
        const newKey = stuck ? newAttempt(order.order).key : undefined;
        return undecided(operation, `${answer.reason}: ${answer.detail}`, undefined, newKey);
      }
      default:
        return impossible(answer, 'refund answer');
    }
  }

  /** Applies the provider's view of an attempt. */
  function takeIn(operation: MoneyOperation, view: RefundView): Promise<RefundStanding> {
    const { operation: id } = operation;
    if (!believed(view, operation)) {
      log.error({ operation: id, refund: view.refund }, 'a refund does not match its operation');
      return undecided(operation, 'the answer is about something else', 'refund_mismatch', undefined, view);
    }
    switch (view.status) {
      case 'succeeded':
        return settle({ operation: id, state: 'done', view });
      case 'failed':
        return settle({ operation: id, state: 'refused', view, detail: view.reason ?? 'failed' });
      case 'pending': {
        const dueMs = Math.min(pendingGapMaxMs, pendingGapMs * 2 ** Math.min(operation.attempts, 12));
        return settle({ operation: id, state: 'waiting', view, dueMs, detail: view.reason ?? undefined });
      }
      default:
        return impossible(view.status, 'refund status');
    }
  }

  function undecided(
    operation: MoneyOperation,
    detail: string,
    attention?: Attention,
    newKey?: string,
    view?: RefundView,
  ): Promise<RefundStanding> {
    return settle({
      operation: operation.operation,
      // A refund that the provider has accepted stays accepted until the provider reports otherwise.
      state: operation.state === 'waiting' ? 'waiting' : 'unknown',
      dueMs: Math.min(gapMaxMs, firstGapMs * 2 ** Math.min(Math.max(operation.attempts - 1, 0), 10)),
      detail,
      attention,
      newKey,
      view,
    });
  }

  const settle = (command: SettleRefundCommand): Promise<RefundStanding> =>
    surely(() => record.settle(command));

  async function inspect(order: Order, operations: readonly MoneyOperation[]): Promise<boolean> {
    const object = saleObject(operations);
    if (!object) return true;
    const seen = await asked().refunds(object);
    if (seen.kind === 'unknown') return false;
    for (const view of seen.refunds) {
      const known = operations.find(({ operation }) => operation === view.reference);
      if (known?.kind === 'refund' && tells(view, known)) await takeIn(known, view);
    }
    return reversals.inspect(order, object, seen.refunds);
  }

  async function inspectOthers(order: Order, operations: readonly MoneyOperation[]): Promise<boolean> {
    const sale = saleObject(operations);
    const objects = new Set(operations.map(({ providerObject }) => providerObject));
    for (const object of objects) {
      if (object && object !== sale && !(await reversals.inspectDisputes(order, object))) return false;
    }
    return true;
  }

  /**
   * Usual reason for a refusal: the payment was refunded at the provider, or it is disputed. Returns true if a refund made at the
   * provider became known by this look.
   */
  async function lookForReversals(order: Order, object: string): Promise<boolean> {
    const sumOf = async (): Promise<number> =>
      (await reversals.ofOrder(order.order))
        .filter(({ kind }) => kind === 'refund')
        .reduce((sum, { taken }) => sum + taken, 0);
    const before = await sumOf();
    const seen = await asked().refunds(object);
    return (
      seen.kind === 'done' &&
      (await reversals.inspect(order, object, seen.refunds)) &&
      (await sumOf()) > before
    );
  }

  async function decided(order: Order, seats: DecidedSeat[]): Promise<void> {
    if (seats.length > 0) {
      const { eventNo: event, partition, hold } = order;
      await arbiter
        .project({ event, partition, changes: seats, ordered: [], ended: [hold] })
        .catch((err: unknown) => log.warn({ err, order: order.order }, 'seats could not be projected'));
    }
    options.onDecided?.({ order, seats });
  }

  function isYoung(operation: MoneyOperation): boolean {
    return operation.firstSentAt === null || clock.now() - operation.firstSentAt < keyAgeMaxMs;
  }

  return {
    preview,
    make,
    retry,
    retryLater,
    elsewhere,
    drive,
    inspect,
    inspectOthers,
    dueChecks: record.dueChecks,
    checked: record.checked,
    decided,
    newAttempt,
  };
}

/** Returns the payment that paid the order. Undefined if none was captured for it. */
function saleObject(operations: readonly MoneyOperation[]): string | null | undefined {
  return operations.find(({ kind, state }) => kind === 'capture' && state === 'done')?.providerObject;
}

/** P6: which attempt this is of, how much, and in what currency, all as we wrote them down before. */
function believed(view: RefundView, operation: MoneyOperation): boolean {
  return (
    view.reference === operation.operation &&
    view.object === operation.providerObject &&
    view.amount === operation.amount &&
    view.currency === operation.currency
  );
}

/** Whether the view says something that the operation's row does not. */
function tells(view: RefundView, { state }: MoneyOperation): boolean {
  if (view.status === 'succeeded') return state !== 'done';
  if (view.status === 'failed') return state !== 'refused';
  return state === 'open' || state === 'unknown' || state === 'refused';
}

/** The fields that must be equal in a repeat with the same key. */
function requestOf({ tickets, fees, goodwill, pays, seats, reason }: RefundCommand): string {
  const all = [tickets === 'all' ? tickets : [...tickets].sort(), fees, goodwill, seats, reason];
  const wish = pays === false ? [...all, 'unpaid'] : all;
  return createHash('sha256').update(JSON.stringify(wish)).digest('base64url');
}
