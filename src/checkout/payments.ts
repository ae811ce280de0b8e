import type { OrderId } from '../core/hold.ts';
import { type OrderEnd, operationsUnderWay } from '../core/order.ts';
import { assert, impossible } from '../core/outcome.ts';
import type { DeclineCode, PaymentProvider, PaymentView, ProviderAnswer } from '../payments/provider.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Changed, Claim, MoneyOperation, OperationStep, Order, SalesRecord } from '../sales/record.ts';

/** An order with the money operation that tells how its payment stands. */
export interface Standing {
  order: Order;
  operation: MoneyOperation;
}

export interface PaymentsOptions {
  record: SalesRecord;
  provider: PaymentProvider;
  clock: Clock;
  random: Random;
  log: Logger;
  /** Names this process; stable over restarts, so that it takes up at once what its former life had claimed. */
  owner: string;
  /** A step decided seats or an order: tell the arbiter and whoever else wants to know. Never throws. */
  decided(changed: Changed): Promise<void>;
}

/** Longer than all provider calls of one drive together; after it another process takes over with the same keys. */
export const claimLeaseMs = 30_000;
/** Providers drop idempotency keys after 24 h: the same key would then do the work again. */
const keyAgeMaxMs = 20 * 3_600_000;
const firstGapMs = 2_000;
/** Bounds P4: once the provider answers, an unknown payment ends within two of these. */
const gapMaxMs = 45_000;
/** While the buyer is at his bank; webhooks and the buyer's return are quicker. */
const waitingGapMs = 20_000;

/**
 * Money operations, from their row to the provider's last word. Every function takes an operation that this process has
 * claimed and carries on as far as it gets: authorise → confirm → capture, or → void. What stays open has a `due_at`.
 */
export interface Payments {
  claimOf: Claim;
  newIds(order: OrderId, kind: string): { operation: string; key: string };
  newEndKey(order: OrderId): string;
  /** Makes the call of an operation that was just begun. */
  send(standing: Standing): Promise<Standing>;
  /** Finds out how a claimed operation stands, then carries on. */
  drive(operation: MoneyOperation): Promise<Standing>;
  /** From now on the operation is ended (for `reason`), and its object voided. */
  end(standing: Standing, reason: OrderEnd): Promise<Standing>;
  /** Looks at a payment because the provider said so. False: somebody else is at it, ask again later. */
  inspect(order: OrderId): Promise<boolean>;
}

export function createPayments(options: PaymentsOptions): Payments {
  const { record, provider, clock, random, log, decided } = options;
  const claimOf: Claim = { owner: options.owner, leaseMs: claimLeaseMs };

  const newIds = (order: OrderId, kind: string) => {
    const operation = random.uuid();
    return { operation, key: `${order}:${kind}:${operation}` };
  };
  const newEndKey = (order: OrderId) => `${order}:void:${random.uuid()}`;

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

  async function taken<Kind extends string>(step: () => Promise<OperationStep<Kind>>) {
    const result = await surely(step);
    if (result.kind !== 'settled') await decided(result);
    return result;
  }

  // Open: the provider's object, before any money.

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
      // The key may replay this error for ever. An object that nobody knows harms nobody, so another may be opened.
      const hopeless = answer.reason === 'server_error' && operation.attempts >= 2;
      if (hopeless) return taken(() => record.refused(operation.operation, answerOf(answer)));
      return park(operation, 'unknown', answer);
    }
    const view = answer.view;
    if (answer.kind === 'refused' || !view || !believed(view, order)) {
      if (view)
        log.error({ order: order.order, object: view.object }, 'an opened payment does not match its order');
      return taken(() => record.refused(operation.operation, answerOf(answer)));
    }
    return taken(() => record.opened(operation.operation, view.object, answerOf(answer)));
  }

  // Authorise → confirm → capture.

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
    return seen({ order, operation }, answer.view);
  }

  /** What a view of the object means for its authorisation. */
  async function seen({ order, operation }: Standing, view: PaymentView): Promise<Standing> {
    if (!believed(view, order)) return disbelieved({ order, operation }, view);
    switch (view.status) {
      case 'authorised': {
        const step = await taken(() =>
          record.authorised(operation.operation, view, newEndKey(order.order), claimOf),
        );
        if (step.kind === 'authorised') return confirm(step);
        return step.kind === 'ending' ? voidObject(step) : step;
      }
      case 'waiting':
        return park(operation, 'waiting', { kind: 'pending', view });
      case 'new':
        return taken(() =>
          record.refused(operation.operation, { view, decline: view.decline ?? 'processing_error' }),
        );
      case 'cancelled':
        return taken(() => record.voided(operation.operation, { view }));
      case 'captured':
        return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'captured_before_sale' });
      case 'processing':
        return park(operation, 'unknown', { kind: 'pending', view });
      default:
        return impossible(view.status, 'payment status');
    }
  }

  /** A wrong amount under our own reference is ended; an answer about something else says nothing about our payment. */
  async function disbelieved({ order, operation }: Standing, view: PaymentView): Promise<Standing> {
    log.error({ order: order.order, object: view.object }, 'a payment does not match its order');
    if (view.reference === order.order && operation.state !== 'ending')
      return end({ order, operation }, 'payment_mismatch');
    return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'payment_mismatch' });
  }

  async function confirm({ order, operation }: Standing): Promise<Standing> {
    const { operation: capture, key: captureKey } = newIds(order.order, 'capture');
    const ids = { capture, captureKey, endKey: newEndKey(order.order) };
    const outcome = await surely(() => record.confirm(order.order, ids, claimOf));
    switch (outcome.kind) {
      case 'confirmed':
        await decided(outcome);
        return takeMoney(outcome);
      case 'impossible':
        await decided(outcome);
        return voidObject(outcome);
      case 'decided':
        return { order: outcome.order, operation };
      case 'unknown_order':
        throw new Error(`order ${order.order} is gone`);
      default:
        return impossible(outcome, 'confirm');
    }
  }

  /** Capture. P2 by structure: its row exists only because confirm wrote it. */
  async function takeMoney({ order, operation }: Standing): Promise<Standing> {
    assert(operation.kind === 'capture' && operation.providerObject, 'a capture has an object');
    const answer = await provider.capture({
      key: operation.key,
      object: operation.providerObject,
      amount: operation.amount,
    });
    if (answer.kind === 'unknown') return park(operation, 'unknown', answer);
    return captureSeen({ order, operation }, answer.view, answer.kind === 'refused' ? answer : null);
  }

  async function captureSeen(
    { order, operation }: Standing,
    view: PaymentView | null,
    refusal: (ProviderAnswer & { kind: 'refused' }) | null,
  ): Promise<Standing> {
    if (view && !believed(view, order)) {
      return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'payment_mismatch' });
    }
    if (view?.status === 'captured') {
      if (view.captured === operation.amount) return taken(() => record.captured(operation.operation, view));
      return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'captured_amount' });
    }
    if (refusal) return taken(() => record.refused(operation.operation, answerOf(refusal)));
    if (view?.status === 'cancelled') return taken(() => record.refused(operation.operation, { view }));
    return park(operation, 'unknown', view ? { kind: 'pending', view } : null);
  }

  // Ending: the authorisation's own row, with a second key.

  async function end({ order, operation }: Standing, reason: OrderEnd): Promise<Standing> {
    const step = await taken(() => record.end(operation.operation, reason, newEndKey(order.order), claimOf));
    return step.kind === 'ending' ? voidObject(step) : step;
  }

  async function voidObject({ order, operation }: Standing): Promise<Standing> {
    assert(operation.state === 'ending' && operation.endKey, 'only what is ending is voided');
    // An opening whose answer never came: nobody knows the object, so nothing can be authorised on it.
    if (!operation.providerObject) return taken(() => record.voided(operation.operation, {}));
    const answer = await provider.void({ key: operation.endKey, object: operation.providerObject });
    if (answer.kind === 'unknown') return park(operation, 'unknown', answer);
    const { view } = answer;
    if (view?.status === 'cancelled' && view.object === operation.providerObject) {
      return taken(() => record.voided(operation.operation, { view }));
    }
    if (answer.kind === 'pending') return park(operation, 'unknown', answer);
    log.error({ order: order.order, status: view?.status }, 'a payment could not be voided');
    return park(operation, 'unknown', answer, {
      attention: view?.status === 'captured' ? 'captured_before_sale' : 'void_refused',
      newKey: newEndKey(order.order),
    });
  }

  // Finding out.

  async function drive(operation: MoneyOperation): Promise<Standing> {
    const order = await record.findOrder(operation.order);
    assert(order, `order ${operation.order} of an operation`);
    const standing = { order, operation };
    if (operation.state === 'ending') return driveEnding(standing);
    if (operation.kind === 'capture') return driveCapture(standing);
    if (operation.state === 'done') return confirm(standing);
    // By the record's clock: this process's may be wrong by hours, and would end a payment that is in time.
    const late = await record.isOverdue(order.order);
    if (operation.kind === 'open') return late ? end(standing, 'not_paid_in_time') : open(standing);
    assert(operation.kind === 'authorise', `a driver for ${operation.kind}`);
    return driveAuthorise(standing, late);
  }

  async function driveAuthorise(standing: Standing, late: boolean): Promise<Standing> {
    const { order, operation } = standing;
    const answer = await provider.lookup(operation.providerObject!);
    const view = 'view' in answer ? answer.view : null;
    // Neither silence nor "not found" is a verdict: at the deadline the void asks the provider for its last word.
    if (!view) {
      return late ? end(standing, 'not_paid_in_time') : park(operation, 'unknown', answer);
    }
    const nothingYet = view.status === 'new' && operation.state !== 'waiting';
    if (late && (nothingYet || view.status === 'waiting' || view.status === 'processing')) {
      return end(standing, 'not_paid_in_time');
    }
    // Our request may never have arrived: the same key again brings its verdict.
    if (nothingYet && believed(view, order) && isYoung(operation)) return authorise(standing);
    return seen(standing, view);
  }

  async function driveCapture(standing: Standing): Promise<Standing> {
    const { order, operation } = standing;
    const answer = await provider.lookup(operation.providerObject!);
    const view = 'view' in answer ? answer.view : null;
    if (!view) return park(operation, 'unknown', answer);
    if (view.status !== 'authorised' || !believed(view, order)) return captureSeen(standing, view, null);
    if (isYoung(operation)) return takeMoney(standing);
    const renewed = await surely(() =>
      record.park({
        operation: operation.operation,
        state: 'unknown',
        dueMs: 0,
        newKey: newIds(order.order, 'capture').key,
      }),
    );
    return renewed;
  }

  async function driveEnding(standing: Standing): Promise<Standing> {
    const { order, operation } = standing;
    if (!operation.providerObject) return voidObject(standing);
    // A void's key may replay an error for ever although the work was done: the object itself tells.
    const answer = await provider.lookup(operation.providerObject);
    const view = 'view' in answer ? answer.view : null;
    if (!view) return park(operation, 'unknown', answer);
    if (view.status === 'cancelled' && view.object === operation.providerObject) {
      return taken(() => record.voided(operation.operation, { view }));
    }
    // Only the deadline ended it: money that was reserved after all still buys the seats, which nobody else got.
    const onlyLate =
      operation.endReason === 'not_paid_in_time' &&
      operation.kind === 'authorise' &&
      order.state === 'reserved';
    if (onlyLate && view.status === 'authorised' && believed(view, order)) return seen(standing, view);
    return voidObject(standing);
  }

  async function inspect(orderId: OrderId): Promise<boolean> {
    const [order, operations] = await Promise.all([record.findOrder(orderId), record.operationsOf(orderId)]);
    if (!order) return true;
    const open = operations.find(isOpen);
    if (open) {
      const [claimed] = await record.claim({ ...claimOf, limit: 1, operation: open.operation });
      if (!claimed) return false;
      await drive(claimed);
      return true;
    }
    // Nothing is under way here, yet the provider speaks: a success after our last word would be a late one.
    const last = operations.filter(({ kind }) => kind === 'authorise').at(-1);
    if (!last?.providerObject || (order.state !== 'reserved' && order.state !== 'closed')) return true;
    const answer = await provider.lookup(last.providerObject);
    if (answer.kind === 'unknown') return false;
    if (answer.view?.status === 'authorised') await seen({ order, operation: last }, answer.view);
    return true;
  }

  function isYoung(operation: MoneyOperation): boolean {
    return operation.firstSentAt === null || clock.now() - operation.firstSentAt < keyAgeMaxMs;
  }

  async function park(
    operation: MoneyOperation,
    state: 'waiting' | 'unknown',
    answer: ProviderAnswer | null,
    more: { attention?: string; newKey?: string } = {},
  ): Promise<Standing> {
    const dueMs =
      state === 'waiting'
        ? waitingGapMs
        : Math.min(gapMaxMs, firstGapMs * 2 ** Math.min(operation.attempts - 1, 10));
    return taken(() =>
      record.park({
        operation: operation.operation,
        state,
        dueMs,
        answer: answer ? answerOf(answer) : undefined,
        ...more,
      }),
    );
  }

  const send = (standing: Standing): Promise<Standing> =>
    standing.operation.kind === 'open' ? open(standing) : authorise(standing);

  return { claimOf, newIds, newEndKey, send, drive, end, inspect };
}

/** P6: whose payment this is, how much, and in what currency, all as we wrote them down before. */
export function believed(view: PaymentView, order: Order): boolean {
  return (
    view.reference === order.order &&
    view.amount === order.amount &&
    view.currency === order.currency &&
    (order.providerObject === null || view.object === order.providerObject)
  );
}

/** Under way, or an authorisation that waits to be confirmed. */
export function isOpen(operation: MoneyOperation): boolean {
  return (
    operationsUnderWay.includes(operation.state) || (operation.state === 'done' && operation.dueAt !== null)
  );
}

function answerOf(answer: ProviderAnswer): { view?: PaymentView; decline?: DeclineCode; detail?: string } {
  const view = 'view' in answer && answer.view ? { view: answer.view } : {};
  if (answer.kind === 'refused') return { ...view, decline: answer.decline, detail: answer.detail };
  if (answer.kind === 'unknown') return { detail: `${answer.reason}: ${answer.detail}` };
  return view;
}
