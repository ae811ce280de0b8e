import { createHash } from 'node:crypto';
import type { EventNo, OrderId } from '../core/hold.ts';
import { amountText, stepOf } from '../core/money.ts';
import { entryWords } from '../core/operator-list.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type {
  Cancellation,
  CancellationPreview,
  CancellationRecord,
  CancellationWish,
  NextOrders,
  StartCancellationOutcome,
} from '../orders/cancellations.ts';
import type { PartitionMode } from '../orders/record.ts';
import { refundStates } from '../orders/refunds.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Random } from '../runtime/random.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { Refunds } from './refunds.ts';

export interface CancelEventOptions {
  record: CancellationRecord;
  refunds: Pick<Refunds, 'decided' | 'newAttempt' | 'retryLater'>;
  arbiter: Pick<Arbiter, 'project'>;
  /** Reads the holds of a partition that Redis arbitrates. Null if this process has no connection to it. */
  redisHolds: ((event: EventNo, row: PartitionMode) => Promise<{ hold: string; state: string }[]>) | null;
  modes(event: EventNo): Promise<PartitionMode[]>;
  clock: Clock;
  random: Random;
  log: Logger;
  /** Names this process; the same after a restart, so that it goes on at once. */
  owner: string;
}

export interface CancellationAsked {
  shown: CancellationPreview;
  /** To be brought with the second request, by the same organiser and with the same wish. */
  code: string;
  /** Milliseconds that it lives. */
  livesMs: number;
}

/**
 * Cancelling an event: closed first, in one step, then a run over its orders which any worker carries on. The run decides
 * orders at a rate; the money operations that it writes are the reconciler's, like all others. It may be killed at any
 * instruction and two may run at once: every step is conditional on the order's own state.
 */
export interface CancelEvent {
  /** Returns what would happen, and the code that confirms it (ASVS 2.3.5: a second confirmation for mass refunds). */
  ask(event: EventNo, wish: CancellationWish, actor: string): Promise<CancellationAsked>;
  confirm(
    event: EventNo,
    wish: CancellationWish,
    actor: string,
    code: string,
  ): Promise<StartCancellationOutcome>;
  /** One round over all events that are being cancelled. */
  runOnce(): Promise<CancellationPass>;
  start(loops: Loops): void;
}

export interface CancellationPass {
  /** Orders decided, refunds tried again. */
  orders: number;
  retried: number;
  /** Could not be done; they come up again. */
  failed: number;
  done: EventNo[];
}

export const codeLivesMs = 10 * 60_000;
/** No letter that is taken for another: Crockford's base 32. */
const codeLetters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const leaseMs = 10_000;
const batchMax = 64;
const atOnce = 8;
const gapMs = 250;
const idleGapMs = 1_000;
const roundLateMs = 60_000;
/** A hold granted under a phase that was read as open just before is ended at the next check. */
const holdsEveryMs = 5_000;

export function createCancelEvent(options: CancelEventOptions): CancelEvent {
  const { record, refunds, arbiter, clock, random, log, owner } = options;
  const holdsEndedAt = new Map<EventNo, number>();

  async function ask(event: EventNo, wish: CancellationWish, actor: string): Promise<CancellationAsked> {
    const shown = await record.preview(event, wish.fees);
    const code = newConfirmationCode(random);
    const request = requestOf(wish);
    await record.ask({ event, actor, codeHash: hashOfCode(code), request, shown, ttlMs: codeLivesMs });
    return { shown, code, livesMs: codeLivesMs };
  }

  async function confirm(
    event: EventNo,
    wish: CancellationWish,
    actor: string,
    code: string,
  ): Promise<StartCancellationOutcome> {
    const command = { event, actor, codeHash: hashOfCode(code), request: requestOf(wish), wish };
    const outcome = await record.start(command).catch((error: unknown) => {
      // Its COMMIT's answer was lost, perhaps; then the second answer is `already`.
      if (error instanceof StoreFault && !error.retriable) return record.start(command);
      throw error;
    });
    if (outcome.kind === 'started') {
      log.info({ event, holds: outcome.holds }, 'an event is cancelled');
      await endRedisHolds(event);
    }
    return outcome;
  }

  /** Holds that Redis has can become nothing any more; ended, they do not keep their holders waiting. */
  async function endRedisHolds(event: EventNo): Promise<void> {
    const { redisHolds } = options;
    const last = holdsEndedAt.get(event);
    if (!redisHolds || (last !== undefined && clock.monotonic() - last < holdsEveryMs)) return;
    holdsEndedAt.set(event, clock.monotonic());
    for (const row of await options.modes(event)) {
      if (row.mode !== 'redis') continue;
      try {
        const live = (await redisHolds(event, row)).filter(({ state }) => state === 'live');
        const ended = live.map(({ hold }) => hold);
        if (ended.length === 0) continue;
        const at = { event, partition: row.partition };
        const arrived = await arbiter.project({ ...at, changes: [], ordered: [], ended });
        if (!arrived) log.warn(at, 'could not end the holds of a cancelled event; they lapse');
      } catch (err) {
        if (!(err instanceof StoreFault)) throw err;
        log.warn(
          { err, event, partition: row.partition },
          'could not end the holds of a cancelled event; they lapse',
        );
      }
    }
  }

  async function runOnce(): Promise<CancellationPass> {
    const pass: CancellationPass = { orders: 0, retried: 0, failed: 0, done: [] };
    for (const event of await record.running()) {
      await attempt(pass, { event }, () => endRedisHolds(event));
      const next = await record.next(event, { owner, leaseMs, most: batchMax });
      if (next.kind === 'done') {
        log.info({ event }, 'the run over a cancelled event is done');
        pass.done.push(event);
        holdsEndedAt.delete(event);
      }
      if (next.kind === 'next') {
        await work(pass, next);
        await giveBackCaptured(pass, event);
      }
    }
    return pass;
  }

  async function work(pass: CancellationPass, next: NextOrders & { kind: 'next' }): Promise<void> {
    const step = stepOf(next.currency);
    const acts = [
      ...next.orders.map((order) => () => attempt(pass, { order }, () => cancelOrder(pass, order, step))),
      ...next.retries.map((refund) => () => attempt(pass, { refund }, () => retry(pass, refund))),
    ];
    for (let from = 0; from < acts.length; from += atOnce) {
      await Promise.all(acts.slice(from, from + atOnce).map((act) => act()));
    }
  }

  async function cancelOrder(pass: CancellationPass, order: OrderId, step: number): Promise<void> {
    const ids = {
      refund: random.uuid(),
      ...refunds.newAttempt(order),
      endKey: `${order}:void:${random.uuid()}`,
    };
    const outcome = await record.cancelOrder(order, ids, step);
    switch (outcome.kind) {
      case 'made':
      case 'closed':
        pass.orders += 1;
        await refunds.decided(outcome.order, outcome.seats);
        return;
      case 'too_much':
      case 'not_valid':
      case 'nothing':
        throw new Error(`order ${order} cannot be refunded: ${JSON.stringify(outcome)}`);
      // Its payment is being ended, or another process was there first.
      case 'ending':
      case 'left':
      case 'mismatch':
      case 'not_paid':
      case 'repeated':
      case 'unknown_order':
        return;
    }
  }

  /** A sale of which another amount was captured never becomes a paid order that could be refunded. */
  async function giveBackCaptured(pass: CancellationPass, event: EventNo): Promise<void> {
    for (const { operation, actor } of await record.capturedOtherwise(event)) {
      await attempt(pass, { operation }, async () => {
        const endKey = `${operation}:void:${random.uuid()}`;
        const outcome = await record.giveBack(operation, actor, endKey);
        if (outcome.kind !== 'done') return;
        pass.orders += 1;
        await refunds.decided(outcome.order, outcome.seats);
      });
    }
  }

  async function retry(pass: CancellationPass, refund: string): Promise<void> {
    const outcome = await refunds.retryLater(refund);
    if (outcome?.kind === 'retried') pass.retried += 1;
  }

  /** One failure does not keep the others waiting; it comes up again. */
  async function attempt(pass: CancellationPass, what: object, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (err) {
      pass.failed += 1;
      log.error({ err, ...what }, 'cancelling failed; it will be tried again');
    }
  }

  async function turn(): Promise<{ nextMs: number }> {
    const { orders, retried } = await runOnce();
    return { nextMs: orders + retried > 0 ? gapMs : idleGapMs };
  }

  return {
    ask,
    confirm,
    runOnce,
    start: (loops) =>
      void loops.run({ name: 'cancel events', everyMs: idleGapMs, lateAfterMs: roundLateMs, turn }),
  };
}

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** The code that a person types to confirm an action that cannot be undone. */
export function newConfirmationCode(random: Pick<Random, 'bytes'>): string {
  const letters = [...random.bytes(8)].map((byte) => codeLetters[byte % codeLetters.length]).join('');
  return `${letters.slice(0, 4)}-${letters.slice(4)}`;
}

/** Ignores blanks, dashes and case, as people type codes differently. */
export function hashOfCode(code: string): string {
  return digest(code.toUpperCase().replace(/[^0-9A-Z]/g, ''));
}

function requestOf({ reason, fees, seats, perSecond }: CancellationWish): string {
  return digest(JSON.stringify([reason, fees, seats, perSecond]));
}

const stateTexts = {
  done: 'given back',
  pending: 'accepted by the provider, on their way',
  open: 'under way',
  unknown: 'of unknown outcome; they are asked for again',
  failed: 'failed; the money is still owed unless it went back at the provider ("onsale payments list")',
  elsewhere: 'given back by other means',
} as const;

/** How far a cancelling has come, for people: a line each. */
export function cancellationText(name: string, cancellation: Cancellation): string[] {
  const { currency, state, refunds, earlier, closed, left, ending } = cancellation;
  const sum = (amount: number): string => amountText(amount, currency);
  const lines = [
    `${name}: ${state === 'done' ? 'cancelled, the run is done' : 'being cancelled'} (${cancellation.reason})`,
    ...refundStates.flatMap((one) => {
      const counted = refunds[one];
      return counted ? [`  ${counted.refunds} refunds, ${sum(counted.amount)}: ${stateTexts[one]}`] : [];
    }),
    `  ${closed} unpaid orders closed`,
  ];
  if (left > 0) lines.push(`  ${left} paid orders still to come`);
  if (ending > 0) lines.push(`  ${ending} payments being ended`);
  for (const one of cancellation.waitsFor) {
    const { title } = entryWords(one.attention ?? 'outcome_unknown');
    lines.push(
      `  waits for order ${one.order}: ${title} (${one.kind} ${one.state}, operation-${one.operation})`,
    );
  }
  const more = cancellation.waiting - cancellation.waitsFor.length;
  if (more > 0) lines.push(`  and for ${more} more: see "onsale payments list"`);
  const owed = earlier.failed;
  if (owed) lines.push(`  ${owed.refunds} earlier refunds failed: ${sum(owed.amount)} are still owed`);
  return lines;
}
