import type { OrderId } from '../core/hold.ts';
import type { Attention } from '../core/operator-list.ts';
import type { OrderEnd } from '../core/order.ts';
import { assert, impossible } from '../core/outcome.ts';
import type { Claim, MoneyOperation, OperationStep, Order, SalesRecord } from '../orders/record.ts';
import type { PaymentProvider, PaymentView, ProviderAnswer } from '../payments/provider.ts';
import type { Logger } from '../runtime/log.ts';
import type { Ending } from './ending.ts';
import { isForeign } from './reconcile-judge.ts';
import { believed, fits, isOpen, type Standing, type Steps, type StepsOptions } from './steps.ts';

/** Refunds are made elsewhere; their operations are due here, like all others. */
export interface RefundDriver {
  /** Carries a claimed operation of kind `refund` on as far as it gets. */
  drive(standing: Standing): Promise<Standing>;
  /** Looks at all of the order's because the provider said so. False: it did not answer, ask again later. */
  inspect(order: Order, operations: readonly MoneyOperation[]): Promise<boolean>;
  /** Looks for disputes of payments that are not the order's sale. False: it did not answer, ask again later. */
  inspectOthers(order: Order, operations: readonly MoneyOperation[]): Promise<boolean>;
  /** Orders whose refunds are to be looked at again by now, up to `limit` refunds. */
  dueChecks(limit: number): Promise<OrderId[]>;
  checked(order: OrderId): Promise<void>;
}

/** The steps of a purchase that touch money (checkout.ts). Each carries a claimed operation on as far as it gets. */
export interface MoneySteps {
  open(standing: Standing): Promise<Standing>;
  authorise(standing: Standing): Promise<Standing>;
  /** Applies the provider's state of the object to its authorisation. */
  apply(standing: Standing, view: PaymentView): Promise<Standing>;
  /** Writes down that the money is reserved. `late`: the order was closed, and its seats could not be asked for now. */
  markAuthorised(
    standing: Standing,
    view: PaymentView,
  ): Promise<OperationStep<'authorised' | 'ending' | 'late'>>;
  confirm(standing: Standing): Promise<Standing>;
  capture(standing: Standing, isOver: boolean, more?: { attention: Attention }): Promise<Standing>;
  /** Applies the provider's state of the object to its capture. */
  applyCapture(
    standing: Standing,
    view: PaymentView | null,
    refusal: (ProviderAnswer & { kind: 'refused' }) | null,
  ): Promise<Standing>;
}

/** Payments whose state has to be looked up at the provider: after faults, after its events, at deadlines, days later. */
export interface Lookups {
  claimOf: Claim;
  /** Finds out the state of a claimed operation, then carries on. What stays open has a `due_at`. */
  drive(operation: MoneyOperation): Promise<Standing>;
  /** An object that is authorised although its deadline ended it. Null if the order cannot go on. */
  cameLate(standing: Standing, view: PaymentView): Promise<Standing | null>;
  /** Checks money again that went back some days ago: the bank may have sent it back since. Returns the number of orders. */
  checkRefunds(): Promise<number>;
  /**
   * Checks a payment after an event of the provider. Returns false if another process has claimed it; try again later. `types`
   * are the types of the events about it.
   */
  inspect(order: OrderId, types: readonly string[]): Promise<boolean>;
  /**
   * Checks a provider's object that no operation names. `foreign`: it is not ours. `unknown`: not decidable yet.
   * `later`: its order has something else to do first.
   */
  inspectStray(object: string, types: readonly string[]): Promise<'done' | 'later' | 'unknown' | 'foreign'>;
}

export interface LookupsOptions extends Pick<StepsOptions, 'decided'> {
  record: SalesRecord;
  provider: PaymentProvider;
  steps: Steps;
  money: MoneySteps;
  ending: Ending;
  log: Logger;
  /** Drives refunds. If undefined, none are started. */
  refunds?: RefundDriver;
}

/**
 * A closed order's late money waits this many times for an arbiter that does not answer. Then it is voided.
 */
const lateTriesMax = 10;
/** Refunds looked at again in one pass: after a cancelled event thousands come due within an hour. */
const checksAtOnce = 4;
const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function createLookups(options: LookupsOptions): Lookups {
  const { record, provider, steps, money, ending, log, decided, refunds } = options;
  const { claimOf, newIds, newEndKey, surely, park } = steps;
  const { end, voidObject } = ending;

  async function drive(operation: MoneyOperation): Promise<Standing> {
    const order = await record.findOrder(operation.order);
    assert(order, `order ${operation.order} of an operation`);
    const standing = { order, operation };
    if (operation.kind === 'refund') {
      assert(refunds, 'somebody who drives refunds');
      return refunds.drive(standing);
    }
    if (operation.state === 'ending') return ending.drive(standing);
    if (operation.kind === 'capture') return driveCapture(standing);
    if (operation.state === 'done') return money.confirm(standing);
    // Uses the record's clock. This process's clock may be wrong by hours and would end a payment that is in time.
    const isLate = await record.isOverdue(order.order);
    if (operation.kind === 'open') return isLate ? end(standing, 'not_paid_in_time') : money.open(standing);
    return driveAuthorise(standing, isLate);
  }

  async function driveAuthorise(standing: Standing, isLate: boolean): Promise<Standing> {
    const { order, operation } = standing;
    const answer = await provider.lookup(operation.providerObject!);
    const view = 'view' in answer ? answer.view : null;
    // Neither silence nor "not found" is a verdict: at the deadline the void asks the provider for its last word.
    if (!view) {
      return isLate ? end(standing, 'not_paid_in_time') : park(operation, 'unknown', answer);
    }
    const nothingYet = view.status === 'new' && operation.state !== 'waiting';
    if (isLate && (nothingYet || view.status === 'waiting' || view.status === 'processing')) {
      return end(standing, 'not_paid_in_time');
    }
    if (!nothingYet || !believed(view, order)) return money.apply(standing, view);
    // Our request may never have arrived: the same key again brings its verdict.
    return steps.isSpent(operation) ? steps.renew(standing) : money.authorise(standing);
  }

  async function driveCapture(standing: Standing): Promise<Standing> {
    const { order, operation } = standing;
    const answer = await provider.lookup(operation.providerObject!);
    const view = 'view' in answer ? answer.view : null;
    const window = await record.captureWindow(order.order);
    const more = window === 'open' ? undefined : ({ attention: 'capture_window' } as const);
    if (!view) return park(operation, 'unknown', answer, more);
    if (view.status !== 'authorised' || !believed(view, order))
      return money.applyCapture(standing, view, null);
    if (steps.isSpent(operation)) return steps.renew(standing);
    return money.capture(standing, window === 'over', more);
  }

  /** Authorised although its deadline ended it: an authorisation goes on by itself, a closed order's object by its last one. */
  async function cameLate({ order, operation }: Standing, view: PaymentView): Promise<Standing | null> {
    if (operation.kind === 'authorise')
      return order.state === 'reserved' ? money.apply({ order, operation }, view) : null;
    if (order.state !== 'closed' || operation.attempts > lateTriesMax || view.refunded > 0) return null;
    const last = (await record.operationsOf(order.order)).filter(({ kind }) => kind === 'authorise').at(-1);
    if (last?.providerObject !== view.object) return null;
    const step = await money.markAuthorised({ order, operation: last }, view);
    if (step.kind === 'authorised') return money.confirm(step);
    return step.kind === 'late' ? park(operation, 'unknown', { kind: 'pending', view }) : null;
  }

  async function inspect(orderId: OrderId, types: readonly string[]): Promise<boolean> {
    const [order, operations] = await Promise.all([record.findOrder(orderId), record.operationsOf(orderId)]);
    if (!order) return true;
    const underWay = operations.find((one) => isOpen(one) && one.kind !== 'refund');
    const settled = underWay ? await inspectUnderWay(underWay) : await inspectSettled(order, operations);
    return (await inspectMoneyBack(orderId, types)) && settled;
  }

  async function inspectUnderWay({ operation }: MoneyOperation): Promise<boolean> {
    const claimed = await record.ask({ ...claimOf, operation, by: 'provider' });
    if (claimed) await drive(claimed);
    return claimed !== null;
  }

  /**
   * Our refunds as the provider shows them, money that went back or is disputed without us, and money of other payments that we gave
   * back and that came back.
   */
  async function inspectMoneyBack(orderId: OrderId, types: readonly string[]): Promise<boolean> {
    if (!refunds) return true;
    const [order, operations] = await Promise.all([record.findOrder(orderId), record.operationsOf(orderId)]);
    const isTold = types.some((type) => provider.tellsOfMoneyBack(type));
    const hasRefunds = operations.some(({ kind }) => kind === 'refund');
    if (!order || !(hasRefunds || isTold)) return true;
    if (!(await refunds.inspect(order, operations))) return false;
    if (!isTold) return true;
    return (await refunds.inspectOthers(order, operations)) && (await checkGivenBack(order, operations));
  }

  async function checkRefunds(): Promise<number> {
    const due = refunds ? await refunds.dueChecks(checksAtOnce) : [];
    await Promise.all(
      due.map(async (id) => {
        const [order, operations] = await Promise.all([record.findOrder(id), record.operationsOf(id)]);
        if (order && (await checkMoneyBack(order, operations))) await refunds!.checked(id);
      }),
    );
    return due.length;
  }

  /** Checks what was refunded, and what went back when an operation was ended. Returns false if the provider did not answer. */
  async function checkMoneyBack(order: Order, operations: MoneyOperation[]): Promise<boolean> {
    const hasRefunds = operations.some(({ kind }) => kind === 'refund');
    if (hasRefunds && !(await refunds!.inspect(order, operations))) return false;
    return checkGivenBack(order, operations);
  }

  /** Gives money back again that the bank sent back. Returns false if the provider did not answer. */
  async function checkGivenBack(order: Order, operations: readonly MoneyOperation[]): Promise<boolean> {
    for (const operation of operations.filter(gaveBack)) {
      const answer = await provider.lookup(operation.providerObject!);
      if (answer.kind === 'unknown') return false;
      const { view } = answer;
      if (view?.status !== 'captured' || view.captured <= view.refunded) continue;
      log.error(
        { order: order.order, object: view.object },
        'the bank sent back money that had been given back',
      );
      await end({ order, operation }, operation.endReason ?? 'capture_refused');
    }
    return true;
  }

  /** Nothing is under way here, yet the provider speaks: a success after our last word would be a late one. */
  async function inspectSettled(order: Order, operations: MoneyOperation[]): Promise<boolean> {
    // Money that was captured for a sale goes back through a refund only.
    if (isCaptured(operations)) return true;
    const last = operations.filter(({ kind }) => kind === 'authorise').at(-1);
    if (!last?.providerObject || !['reserved', 'closed', 'cancelled'].includes(order.state)) return true;
    const answer = await provider.lookup(last.providerObject);
    if (answer.kind === 'unknown') return false;
    const { view } = answer;
    if (!view || !isNews(view, operations)) return true;
    if (
      order.state !== 'reserved' &&
      believed(view, order) &&
      (order.state === 'cancelled' || view.refunded > 0)
    ) {
      await end({ order, operation: last }, (order.reason as OrderEnd | null) ?? 'capture_refused');
      return true;
    }
    const now = await money.apply({ order, operation: last }, view);
    return !('kind' in now && now.kind === 'late');
  }

  /** True if money is on the object, or if money came and went back without a row of ours that says so. */
  function isNews(
    { object, status, captured, refunded }: PaymentView,
    operations: MoneyOperation[],
  ): boolean {
    const ended = operations.filter((one) => one.providerObject === object && one.state === 'voided');
    // An object that an operator settled by other means leads neither to a refund nor to a sale.
    if (ended.some(({ decision }) => decision?.action === 'settle')) return false;
    if (status === 'authorised' || captured > refunded) return true;
    return captured > 0 && !ended.some(({ answer }) => answer?.view?.captured === captured);
  }

  async function inspectStray(object: string, types: readonly string[]) {
    const answer = await provider.lookup(object);
    const view = 'view' in answer ? answer.view : null;
    if (view?.object !== object) return 'unknown';
    const order = uuidForm.test(view.reference) ? await record.findOrder(view.reference) : null;
    if (!order) return isForeign(view, false) ? 'foreign' : 'unknown';
    const ids = newIds(order.order, 'stray');
    const command = {
      order: order.order,
      object,
      fits: fits(view, order),
      ...ids,
      endKey: newEndKey(order.order),
    };
    const outcome = await surely(() => record.stray(command, claimOf));
    switch (outcome.kind) {
      case 'known':
        return (await inspect(order.order, types)) ? 'done' : 'later';
      case 'adopted':
        await decided(outcome);
        return 'done';
      case 'ending':
        log.warn({ order: order.order, object }, 'a payment object that no operation names is cancelled');
        await voidObject(outcome);
        return 'done';
      case 'under_way':
        return 'later';
      case 'unknown_order':
        return 'unknown';
      default:
        return impossible(outcome, 'stray');
    }
  }

  return { claimOf, drive, cameLate, inspect, checkRefunds, inspectStray };
}

function isCaptured(operations: readonly MoneyOperation[]): boolean {
  return operations.some(({ kind, state }) => kind === 'capture' && state === 'done');
}

/** Ended, with money that was taken of it and went back. */
function gaveBack({ kind, state, answer, providerObject }: MoneyOperation): boolean {
  return kind !== 'refund' && state === 'voided' && !!providerObject && (answer?.view?.refunded ?? 0) > 0;
}
