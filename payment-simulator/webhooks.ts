import { createHmac } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { Clock } from '../src/runtime/clock.ts';
import type { Logger } from '../src/runtime/log.ts';
import type { DeliveryOrder, FaultSubject, Faults } from './faults.ts';
import { eventObject } from './render.ts';
import type { EventRow } from './rows.ts';

/** Gaps between tries, ms; the last one repeats. Stripe's grow from seconds to hours. */
const RETRY_GAPS_MS = [200, 1_000, 5_000, 20_000, 60_000];
const TRIES_MAX = 60;
const ANSWER_TIMEOUT_MS = 5_000;

/** The event types that a shop with manual capture needs; the others stay readable under `/v1/events`. */
export const SUBSCRIBED: readonly string[] = [
  'payment_intent.amount_capturable_updated',
  'payment_intent.succeeded',
  'payment_intent.canceled',
  'payment_intent.payment_failed',
  'payment_intent.requires_action',
  'charge.refunded',
  'refund.created',
  'refund.updated',
  'refund.failed',
  'charge.dispute.created',
  'charge.dispute.updated',
  'charge.dispute.closed',
  'charge.dispute.funds_withdrawn',
  'charge.dispute.funds_reinstated',
];

export interface Webhooks {
  /** Sets the address of deliveries from now on. With null, events wait. */
  target(url: string | null): void;
  /** Resolves once each that is to be delivered at once has been tried. */
  deliver(events: EventRow[]): Promise<void>;
  /** Releases events that a fault kept, or that waited for a target. Returns their number. */
  release(): number;
  waiting(): number;
}

/** Delivers events at least once, in no promised order, signed as Stripe signs them. */
export function createWebhooks(deps: {
  secret: string;
  clock: Clock;
  faults: Faults;
  log: Logger;
  /** Ends all tries when the simulator stops. */
  signal: AbortSignal;
  /** The subject of the event, for faults to match. */
  subject(event: EventRow): FaultSubject;
  /** Called once an event was accepted with a 2xx, or a fault let it never be delivered. */
  onDelivered(event: EventRow): void;
}): Webhooks {
  const { clock, faults, log, signal } = deps;
  // One listener a delivery under way: in a crowd more than Node takes for a leak.
  setMaxListeners(0, signal);
  let url: string | null = null;
  let kept: EventRow[] = [];
  /** Keyed by payment: releases the one that waits to be overtaken. */
  const waiting = new Map<string, () => void>();

  const send = async (event: EventRow): Promise<boolean> => {
    const target = url;
    if (target === null) return false;
    const body = JSON.stringify(eventObject(event));
    // One controller for both ends: `AbortSignal.any` on a signal that lives as long as the process leaks.
    const ending = new AbortController();
    const end = (): void => ending.abort();
    const cancel = clock.after(ANSWER_TIMEOUT_MS, end);
    signal.addEventListener('abort', end, { once: true });
    try {
      const response = await fetch(target, {
        method: 'POST',
        redirect: 'manual',
        signal: ending.signal,
        headers: {
          'content-type': 'application/json; charset=utf-8',
          'stripe-signature': signature(body, deps.secret, Math.floor(clock.now() / 1000)),
        },
        body,
      });
      await response.body?.cancel();
      return response.ok;
    } catch (cause) {
      log.debug({ event: event.id, cause }, 'simulator: webhook not delivered');
      return false;
    } finally {
      cancel();
      signal.removeEventListener('abort', end);
    }
  };

  const run = async (event: EventRow, delayMs: number, onTried: () => void): Promise<void> => {
    try {
      if (delayMs > 0) await clock.sleep(delayMs, signal);
      for (let tries = 0; tries < TRIES_MAX; tries++) {
        const accepted = await send(event);
        onTried();
        if (accepted) {
          deps.onDelivered(event);
          return;
        }
        const gap = RETRY_GAPS_MS[Math.min(tries, RETRY_GAPS_MS.length - 1)] ?? 0;
        await clock.sleep(gap, signal);
      }
      log.warn({ event: event.id }, 'simulator: webhook given up');
    } catch (cause) {
      if (!signal.aborted) log.error({ event: event.id, cause }, 'simulator: webhook failed');
    }
  };

  /** Resolves when every copy was tried once; each goes on by itself until it is accepted. */
  const start = async (event: EventRow, copies = 1, delayMs = 0): Promise<void> => {
    const tries = Array.from(
      { length: copies },
      () => new Promise<void>((resolve) => void run(event, delayMs, resolve).then(resolve)),
    );
    await Promise.all(tries);
    if (event.intent !== null) waiting.get(event.intent)?.();
  };

  /** Keeps it until `start` has sent another one about its payment. */
  const letOvertake = (event: EventRow, intent: string, order: DeliveryOrder, withinMs: number): void => {
    const letGo = (): void => {
      cancel();
      waiting.delete(intent);
      void start(event, order.copies, order.delayMs);
    };
    const cancel = clock.after(withinMs, letGo);
    waiting.set(intent, letGo);
  };

  const dispatch = async (event: EventRow): Promise<void> => {
    if (event.delivered) return;
    const order = faults.strike('webhook', deps.subject(event)).delivery();
    const { intent } = event;
    if (order.never) deps.onDelivered(event);
    else if (order.hold || url === null) kept.push(event);
    else if (order.overtakenWithinMs !== null && intent !== null && !waiting.has(intent)) {
      letOvertake(event, intent, order, order.overtakenWithinMs);
    } else await start(event, order.copies, order.delayMs);
  };

  const release = (): number => {
    if (url === null) return 0;
    const count = kept.length + waiting.size;
    for (const letGo of [...waiting.values()]) letGo();
    const events = kept;
    kept = [];
    for (const event of events) void start(event);
    return count;
  };

  return {
    target: (next) => {
      const first = url === null;
      url = next;
      if (first) release();
    },
    deliver: async (events) => {
      await Promise.all(events.map(dispatch));
    },
    release,
    waiting: () => kept.length + waiting.size,
  };
}

/** The `Stripe-Signature` header: `t=<seconds>,v1=<HMAC-SHA256 of "t.body" in hex>`. */
export function signature(body: string, secret: string, seconds: number): string {
  const digest = createHmac('sha256', secret).update(`${seconds}.${body}`, 'utf8').digest('hex');
  return `t=${seconds},v1=${digest}`;
}
