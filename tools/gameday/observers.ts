import type { Db } from '../../src/postgres/db.ts';
import type { Clock } from '../../src/runtime/clock.ts';
import type { Random } from '../../src/runtime/random.ts';
import { type Buyer, createBuyer } from '../crowd/buyer.ts';
import { createHttpClients } from '../crowd/http-client.ts';

/** A partition's row as it changed; times are epoch ms of this machine, which has one clock. */
export interface ModeChange {
  partition: number;
  mode: 'postgres' | 'moving' | 'redis';
  epoch: number;
  at: number;
  graceUntil: number | null;
  reason: string | null;
}

export interface ModeWatch {
  changes: readonly ModeChange[];
  now(partition: number): ModeChange | undefined;
  /** Answers false when it did not come within `withinMs`. */
  until(condition: () => boolean, withinMs: number): Promise<boolean>;
  stop(): Promise<void>;
}

const lookEveryMs = 40;

/** Follows the rows of an event's partitions. */
export function watchModes(parts: { db: Db; clock: Clock; event: number }): ModeWatch {
  const { db, clock, event } = parts;
  const changes: ModeChange[] = [];
  const stopping = new AbortController();
  const now = (partition: number): ModeChange | undefined =>
    changes.findLast((change) => change.partition === partition);
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      const rows = await db
        .query<ModeChange>(
          'gameday_modes',
          `SELECT partition, mode, epoch, changed_at AS at, grace_until AS "graceUntil", reason
           FROM event_partitions WHERE event_no = $1`,
          [event],
        )
        .catch(() => []);
      for (const row of rows) {
        const last = now(row.partition);
        if (last?.mode !== row.mode || last.epoch !== row.epoch) changes.push(row);
      }
      await clock.sleep(lookEveryMs);
    }
  })();
  return {
    changes,
    now,
    async until(condition, withinMs) {
      const end = clock.monotonic() + withinMs;
      while (!condition()) {
        if (clock.monotonic() > end) return false;
        await clock.sleep(lookEveryMs);
      }
      return true;
    },
    async stop() {
      stopping.abort();
      await loop;
    },
  };
}

/** One attempt to hold a seat; times are epoch ms. */
export interface Probe {
  sentAt: number;
  answeredAt: number;
  answer: 'granted' | 'refused' | 'passed' | 'failed';
  code: string;
}

export interface Prober {
  probes: readonly Probe[];
  stop(): Promise<void>;
}

const probeEveryMs = 50;
/** Its session ends long before that many. */
const linePatienceMs = 60_000;

/**
 * A buyer who holds a seat and gives it back, over and over, in one section. Shows to a twentieth of a second when holding was
 * possible. Resolves once it has its pass.
 */
export async function startProber(parts: {
  url: string;
  event: string;
  section: string;
  clock: Clock;
  random: Random;
}): Promise<Prober> {
  const { clock, section } = parts;
  const clients = createHttpClients({ url: parts.url, clock, connectionsMax: 2, timeoutMs: 10_000 });
  const buyer = createBuyer(clients.browser(), parts.event, parts.random);
  const pass = await passOf(buyer, clock);
  const probes: Probe[] = [];
  const stopping = new AbortController();
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      const sentAt = clock.now();
      const held = await buyer.holdBest(pass, { quantity: 1, section }).catch((error: Error) => error);
      const answeredAt = clock.now();
      if (held instanceof Error) probes.push({ sentAt, answeredAt, answer: 'failed', code: held.message });
      else {
        const code = held.body.code ?? '';
        probes.push({
          sentAt,
          answeredAt,
          answer: answerOf(held.status, code),
          code: code || `${held.status}`,
        });
        const mine = held.status < 300 ? held.body.hold : (held.body.hold as string | undefined);
        if (mine) await buyer.release(mine).catch(() => {});
      }
      await clock.sleep(probeEveryMs);
    }
    clients.close();
  })();
  return {
    probes,
    async stop() {
      stopping.abort();
      await loop;
    },
  };
}

function answerOf(status: number, code: string): Probe['answer'] {
  if (status === 200 || status === 201) return 'granted';
  if (status === 503) return 'refused';
  // Other buyers want the seats, or the prober's own hold was not given back yet. This says nothing about the
  // store.
  return ['taken', 'hold_exists', 'quota'].includes(code) ? 'passed' : 'failed';
}

async function passOf(buyer: Buyer, clock: Clock): Promise<string> {
  const until = clock.monotonic() + linePatienceMs;
  let ticket = '';
  while (clock.monotonic() < until) {
    if (!ticket) {
      const joined = await buyer.join();
      if (joined.status === 200) ticket = joined.body.ticket;
    } else {
      const redeemed = await buyer.pass(ticket);
      if (redeemed.status === 200) return redeemed.body.pass;
    }
    await clock.sleep(200);
  }
  throw new Error('the prober did not come through the line');
}

/** The longest time in which nothing was granted although it was asked for, from `from` on. Milliseconds. */
export function longestRefusal(
  probes: readonly Probe[],
  from: number,
  to = Number.POSITIVE_INFINITY,
): number {
  let longest = 0;
  let since: number | null = null;
  for (const { sentAt, answeredAt, answer } of probes) {
    if (sentAt < from || sentAt > to || answer === 'passed') continue;
    if (answer === 'granted') {
      if (since !== null) longest = Math.max(longest, answeredAt - since);
      since = null;
    } else since ??= sentAt;
  }
  const last = probes.at(-1);
  if (since !== null && last) longest = Math.max(longest, last.answeredAt - since);
  return longest;
}

/**
 * The longest time between two grants to a buyer who asks all the time: refusals, and slow responses. Grants to others in
 * between say nothing. Milliseconds.
 */
export function longestQuiet(probes: readonly Probe[], from: number): number {
  let longest = 0;
  let last: number | null = null;
  for (const { sentAt, answeredAt, answer } of probes) {
    if (sentAt < from) continue;
    if (answer === 'granted' && last !== null) longest = Math.max(longest, answeredAt - last);
    if (answer === 'granted') last = answeredAt;
    else if (answer === 'passed') last = null;
  }
  return longest;
}

/** Returns when the first hold was granted that was requested after `from`. Null if there was none. */
export function firstGrantAfter(probes: readonly Probe[], from: number): number | null {
  return probes.find(({ sentAt, answer }) => answer === 'granted' && sentAt >= from)?.answeredAt ?? null;
}
