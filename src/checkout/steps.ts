import type { OrderId } from '../core/hold.ts';
import type { Attention } from '../core/operator-list.ts';
import { operationsUnderWay } from '../core/order.ts';
import type {
  Changed,
  Claim,
  MoneyOperation,
  OperationAnswer,
  OperationStep,
  Order,
  SalesRecord,
} from '../orders/record.ts';
import type { DeclineCode, PaymentView, ProviderAnswer } from '../payments/provider.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { StoreFault } from '../runtime/store-fault.ts';

/** An order with the money operation that tells how its payment stands. */
export interface Standing {
  order: Order;
  operation: MoneyOperation;
}

/** Longer than all provider calls of one drive together; after it another process takes over with the same keys. */
export const claimLeaseMs = 30_000;
/** Providers drop idempotency keys after 24 h: the same key would then do the work again. */
const keyAgeMaxMs = 20 * 3_600_000;
/** A key that goes on answering with a fault is given up at each such attempt, when a look has shown that it did nothing. */
const spentEvery = 3;
const firstGapMs = 2_000;
/** Bounds P4: once the provider answers, an unknown payment ends within two of these. */
const gapMaxMs = 45_000;
/** Used while the buyer is at the bank's page. Webhooks and the buyer's return usually come first. */
const waitingGapMs = 20_000;
/** An opening that got no answer keeps its buyer from paying at all, and moves no money: it is tried again sooner. */
const openingGapMaxMs = 10_000;

/** The record's steps as all parts of a payment take them: repeated until they are known, and told to whom they concern. */
export interface Steps {
  claimOf: Claim;
  newIds(order: OrderId, kind: string): { operation: string; key: string };
  newEndKey(order: OrderId): string;
  /** Every step of the record may be repeated, so an unknown outcome is asked for again, by the same step. */
  surely<Result>(step: () => Promise<Result>): Promise<Result>;
  taken<Kind extends string>(step: () => Promise<OperationStep<Kind>>): Promise<OperationStep<Kind>>;
  /** Not ended yet: looked at again after a gap that grows. */
  park(
    operation: MoneyOperation,
    state: 'waiting' | 'unknown',
    answer: ProviderAnswer | null,
    more?: { attention?: Attention; newKey?: string },
  ): Promise<Standing>;
  /**
   * Whether the operation's key must not be sent again, because it is too old or always repeats a stored
   * fault. Only for an object that was just seen not to have done the work, and whose state prevents the work
   * from being done twice.
   */
  isSpent(operation: MoneyOperation): boolean;
  /** A new key in place of the spent one; due at once. */
  renew(standing: Standing): Promise<Standing>;
}

export interface StepsOptions {
  record: SalesRecord;
  clock: Clock;
  random: Random;
  /** Names this process; stable over restarts, so that it takes up at once what its former life had claimed. */
  owner: string;
  /** Called after a step decided seats or an order, to inform the arbiter and other listeners. Never throws. */
  decided(changed: Changed): Promise<void>;
}

export function createSteps({ record, clock, random, owner, decided }: StepsOptions): Steps {
  const claimOf: Claim = { owner, leaseMs: claimLeaseMs };
  const newIds = (order: OrderId, kind: string) => {
    const operation = random.uuid();
    return { operation, key: `${order}:${kind}:${operation}` };
  };
  const newEndKey = (order: OrderId) => `${order}:void:${random.uuid()}`;

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
    if (result.kind !== 'settled' && result.kind !== 'late') await decided(result);
    return result;
  }

  const park: Steps['park'] = (operation, state, answer, more = {}) => {
    const dueMs = state === 'waiting' ? waitingGapMs : gapOf(operation);
    return taken(() =>
      record.park({
        operation: operation.operation,
        state,
        dueMs,
        answer: answer ? answerOf(answer) : undefined,
        ...more,
      }),
    );
  };

  function isSpent({ firstSentAt, attempts, answer }: MoneyOperation): boolean {
    if (firstSentAt !== null && clock.now() - firstSentAt >= keyAgeMaxMs) return true;
    const stored = answer?.unknown === 'server_error' || answer?.unknown === 'conflict';
    return stored && attempts % spentEvery === 0;
  }

  function renew({ order, operation }: Standing): Promise<Standing> {
    const ending = operation.state === 'ending';
    const newKey = ending ? newEndKey(order.order) : newIds(order.order, operation.kind).key;
    const answer = { detail: `its key was given up: ${operation.answer?.detail ?? 'too old'}` };
    return surely(() =>
      record.park({ operation: operation.operation, state: 'unknown', dueMs: 0, newKey, answer }),
    );
  }

  return { claimOf, newIds, newEndKey, surely, taken, park, isSpent, renew };
}

/** Milliseconds from the last look at an operation whose end is not known until the next look. */
export function gapOf({ kind, state, attempts }: MoneyOperation): number {
  const most = kind === 'open' && state !== 'ending' ? openingGapMaxMs : gapMaxMs;
  return Math.min(most, firstGapMs * 2 ** Math.min(Math.max(attempts - 1, 0), 10));
}

/** P6: whose payment this is, how much, and in what currency, all as we wrote them down before. */
export function believed(view: PaymentView, order: Order): boolean {
  return fits(view, order) && (order.providerObject === null || view.object === order.providerObject);
}

/** As `believed`, for an object that may not be the one that the order knows. */
export function fits(view: PaymentView, order: Pick<Order, 'order' | 'amount' | 'currency'>): boolean {
  return view.reference === order.order && view.amount === order.amount && view.currency === order.currency;
}

/** Under way, or an authorisation that waits to be confirmed. */
export function isOpen(operation: MoneyOperation): boolean {
  return (
    operationsUnderWay.includes(operation.state) || (operation.state === 'done' && operation.dueAt !== null)
  );
}

export function answerOf(answer: ProviderAnswer): OperationAnswer & { decline?: DeclineCode } {
  const view = 'view' in answer && answer.view ? { view: answer.view } : {};
  if (answer.kind === 'refused') return { ...view, decline: answer.decline, detail: answer.detail };
  if (answer.kind === 'unknown')
    return { unknown: answer.reason, detail: `${answer.reason}: ${answer.detail}` };
  return view;
}
