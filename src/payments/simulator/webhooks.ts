import { createHmac } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { Clock } from '../../runtime/clock.ts';
import type { Logger } from '../../runtime/log.ts';
import type { Faults } from './faults.ts';
import { eventObject } from './render.ts';
import type { EventRow } from './rows.ts';

/** Gaps between tries, ms; the last one repeats. Stripe's grow from seconds to hours. */
const RETRY_GAPS_MS = [200, 1_000, 5_000, 20_000, 60_000];
const TRIES_MAX = 60;
const ANSWER_TIMEOUT_MS = 5_000;

/** What a shop with manual capture needs to hear of; the others stay readable under `/v1/events`. */
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
];

export interface Webhooks {
  /** Where deliveries go from now on; null: nowhere, events wait. */
  target(url: string | null): void;
  deliver(events: EventRow[]): void;
  /** Lets go what a `webhook_hold` kept, or what waited for a target; answers how many. */
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
  /** Called once an event was accepted with a 2xx. */
  onDelivered(event: EventRow): void;
}): Webhooks {
  const { clock, faults, log, signal } = deps;
  // One listener a delivery under way: in a crowd more than Node takes for a leak.
  setMaxListeners(0, signal);
  let url: string | null = null;
  let kept: EventRow[] = [];

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

  const run = async (event: EventRow, delayMs: number): Promise<void> => {
    try {
      if (delayMs > 0) await clock.sleep(delayMs, signal);
      for (let tries = 0; tries < TRIES_MAX; tries++) {
        if (await send(event)) {
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

  const dispatch = (event: EventRow): void => {
    if (event.delivered) return;
    const { hold, copies, delayMs } = faults
      .strike('webhook', {
        route: undefined,
        card: undefined,
        key: event.key ?? undefined,
        intent: event.intent ?? undefined,
        reference: undefined,
        event: event.type,
      })
      .delivery();
    if (hold || url === null) {
      kept.push(event);
      return;
    }
    for (let copy = 0; copy < copies; copy++) void run(event, delayMs);
  };

  const release = (): number => {
    if (url === null) return 0;
    const events = kept;
    kept = [];
    for (const event of events) void run(event, 0);
    return events.length;
  };

  return {
    target: (next) => {
      const first = url === null;
      url = next;
      if (first) release();
    },
    deliver: (events) => {
      for (const event of events) dispatch(event);
    },
    release,
    waiting: () => kept.length,
  };
}

/** The `Stripe-Signature` header: `t=<seconds>,v1=<HMAC-SHA256 of "t.body" in hex>`. */
export function signature(body: string, secret: string, seconds: number): string {
  const digest = createHmac('sha256', secret).update(`${seconds}.${body}`, 'utf8').digest('hex');
  return `t=${seconds},v1=${digest}`;
}
