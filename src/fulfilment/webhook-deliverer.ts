import { setMaxListeners } from 'node:events';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loop, Loops } from '../runtime/loops.ts';
import type { Random } from '../runtime/random.ts';
import { recordAttempt, type TakenDelivery, takeDeliveries, tidyDeliveries } from './webhook-endpoints.ts';
import { type SendWebhook, webhookTimeoutMs } from './webhook-sender.ts';

export interface WebhookDelivererOptions {
  db: Db;
  send: SendWebhook;
  clock: Clock;
  random: Random;
  log: Logger;
  /** Replaces the times below, for tests. */
  times?: Partial<WebhookTimes>;
}

export interface WebhookDeliverer {
  start(loops: Loops): void;
  /** Takes nothing more; what is under way has a moment to end, and is sent again later if it did not. */
  stop(): Promise<void>;
}

export interface WebhookTimes {
  /** Gap before the second attempt of a delivery; each further one is three times as long… */
  gapMs: number;
  /** …up to this. */
  gapMaxMs: number;
  /** After this time without success a delivery is given up, and its endpoint disabled. */
  giveUpMs: number;
  /** An endpoint's pause after `failuresMax` failures in a row; twice as long after each further one… */
  restMs: number;
  restMaxMs: number;
  /** After this time a claim lapses, because its process is dead. Longer than an attempt may take. */
  leaseMs: number;
}

/** 5 s, 15 s, 45 s … 6 h: some twenty attempts in the three days. */
const usualTimes: WebhookTimes = {
  gapMs: 5_000,
  gapMaxMs: 6 * 3_600_000,
  giveUpMs: 3 * 24 * 3_600_000,
  restMs: 5_000,
  restMaxMs: 30 * 60_000,
  leaseMs: webhookTimeoutMs + 20_000,
};

/**
 * Attempts under way an endpoint, over all workers. There is no bound over all endpoints, on purpose: slow ones would use it up
 * and the others wait. Their number is bounded instead (`webhookBounds.endpointsMax`).
 */
export const perEndpoint = 4;
/** After so many failures in a row, an endpoint pauses and is then tried with one delivery at a time until it accepts one. */
const failuresMax = 3;
const lookEveryMs = 500;
/**
 * At least this long between two looks, even if places become free all the time. This allows 200 deliveries a
 * second for each endpoint, with 50 queries a second to Postgres.
 */
const lookGapMs = 20;
const tidyEveryMs = 10 * 60_000;
export const deliveriesKeptDays = 30;
const tidyBatch = 10_000;
const stopWithinMs = 3_000;

/** Sends what is due, each endpoint at its own pace. Any number of workers may run one. */
export function createWebhookDeliverer(options: WebhookDelivererOptions): WebhookDeliverer {
  const { db, send, clock, random, log } = options;
  const times = { ...usualTimes, ...options.times };
  const cutting = new AbortController();
  // One listener a delivery under way: more than Node takes for a leak.
  setMaxListeners(0, cutting.signal);
  const underWay = new Set<Promise<void>>();
  let looking: Loop | undefined;
  let tidying: Loop | undefined;

  /** Between half of the gap and all of it: those that failed together do not come back together. */
  function gapAfter(attempt: number): number {
    const gap = Math.min(times.gapMaxMs, times.gapMs * 3 ** Math.min(attempt - 1, 20));
    return Math.round(gap / 2 + random.int(Math.max(1, Math.round(gap / 2))));
  }

  async function deliver(taken: TakenDelivery): Promise<void> {
    const went = await send(taken, cutting.signal);
    const { delivery, attempt } = taken;
    const state = await recordAttempt(db, {
      ...went,
      delivery,
      attempt,
      gapMs: gapAfter(attempt),
      failuresMax,
      restMs: times.restMs,
      restMaxMs: times.restMaxMs,
      giveUpMs: times.giveUpMs,
    });
    if (went.error === null) return;
    log.info(
      { delivery, endpoint: taken.endpoint, attempt, error: went.error, state },
      'a delivery was not taken',
    );
  }

  async function look(): Promise<void> {
    const taken = await takeDeliveries(db, { perEndpoint, failuresMax, leaseMs: times.leaseMs });
    for (const one of taken) {
      const running = deliver(one)
        // Not recorded: its claim lapses, and it is sent again under its id.
        .catch((err) => log.debug({ err, delivery: one.delivery }, 'an attempt was not recorded'))
        .finally(() => {
          underWay.delete(running);
          looking?.wake();
        });
      underWay.add(running);
    }
  }

  /** A look each half a second, and at once when a place became free. */
  async function lookTurn(signal: AbortSignal): Promise<void> {
    await look();
    await clock.sleep(lookGapMs, signal).catch(() => {});
  }

  async function tidyTurn(signal: AbortSignal): Promise<void> {
    let gone = tidyBatch;
    while (gone === tidyBatch && !signal.aborted)
      gone = await tidyDeliveries(db, deliveriesKeptDays, tidyBatch);
  }

  return {
    start(loops) {
      looking ??= loops.run({ name: 'send webhooks', everyMs: lookEveryMs - lookGapMs, turn: lookTurn });
      tidying ??= loops.run({
        name: 'clean old webhook deliveries',
        everyMs: tidyEveryMs,
        waitsFirst: true,
        lateAfterMs: tidyEveryMs,
        turn: tidyTurn,
      });
    },
    async stop() {
      await Promise.all([looking?.stop(), tidying?.stop()]);
      const cancelTimer = clock.after(stopWithinMs, () => cutting.abort());
      await Promise.all(underWay);
      cancelTimer();
    },
  };
}
