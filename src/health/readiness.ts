import type { PaymentProvider } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import { defaultRedis } from '../runtime/config.ts';
import { degradedParts, degradedSummary } from './background-work.ts';

/** Its last word is a second old at most: a probe that asks often costs nothing. */
const readyFreshMs = 1_000;
const backgroundFreshMs = 3_000;
const publishedAgeMaxMs = 10_000;
const redisPatienceMs = 500;
/** The leader gives a lost Redis up within two seconds. */
const othersReachItAfterMs = 5_000;

interface Part {
  ok: boolean;
  /** A sentence that says what does not work. */
  reason?: string;
}

export interface Readiness {
  ok: boolean;
  parts: Record<string, Part>;
}

/** Whether this process can sell, part by part. */
export function readiness(parts: {
  db: Db;
  published: { ageMs(): number };
  provider: Pick<PaymentProvider, 'ping'>;
  redis: { all: readonly { store: { name: string; primaries(): Promise<unknown> } }[] };
  clock: Clock;
}): () => Promise<Readiness> {
  const { db, published, provider, redis, clock } = parts;
  const awaySince = new Map<string, number>();
  let lastBackground: { at: number; part: Promise<Part> } | null = null;
  let last: { at: number; read: Promise<Readiness> } | null = null;

  /**
   * An unreachable Redis costs speed, and its partitions go to Postgres. But if it still arbitrates after
   * some seconds, other processes can reach it. Then only this process cannot sell, and buyers have to be
   * sent to another one.
   */
  async function redisPart(): Promise<Part & { isOursAlone?: boolean }> {
    const away: string[] = [];
    await Promise.all(
      redis.all.map(async ({ store }) => {
        const late = new AbortController();
        const asked = store.primaries().catch(() => away.push(store.name));
        const patience = clock.sleep(redisPatienceMs, late.signal).then(
          () => away.push(store.name),
          () => {},
        );
        await Promise.race([asked, patience]);
        late.abort();
      }),
    );
    for (const name of awaySince.keys()) if (!away.includes(name)) awaySince.delete(name);
    if (away.length === 0) return { ok: true };
    const missed = await db
      .query<{ store: string }>(
        'ready_stores',
        `SELECT DISTINCT coalesce(p.store, $2) AS store FROM event_partitions p JOIN events e USING (event_no)
         WHERE p.mode = 'redis' AND p.changed_at < clock_timestamp() - $3 * interval '1 ms'
           AND e.phase IN ('open','paused','sold_out') AND coalesce(p.store, $2) = ANY ($1)
           -- An event at rest has no leader who would have given its Redis up. Until the rest is settled it has one.
           AND NOT EXISTS (SELECT FROM event_rests r WHERE r.event_no = p.event_no AND r.settled)`,
        [away, defaultRedis, othersReachItAfterMs],
      )
      .catch(() => []);
    if (missed.length > 0 && stillAway(missed[0]!.store)) {
      const names = missed.map(({ store }) => store).join(', ');
      return {
        ok: false,
        isOursAlone: true,
        reason: `this process cannot reach ${names}, which arbitrates: compare its REDIS_URL and network with the others'`,
      };
    }
    return { ok: false, reason: `no answer from ${away.join(', ')}: Postgres carries the sale meanwhile` };
  }

  /** Since when each was first found away and arbitrating, in a row. */
  function stillAway(store: string): boolean {
    const now = clock.monotonic();
    const since = awaySince.get(store) ?? now;
    awaySince.set(store, since);
    return now - since >= othersReachItAfterMs;
  }

  /** Degraded, not unready: buyers can go on while a person looks. Every few seconds: it reads several tables. */
  async function backgroundPart(): Promise<Part> {
    if (!lastBackground || clock.monotonic() - lastBackground.at > backgroundFreshMs) {
      const asked = degradedParts(db).then(
        (parts): Part => (parts.length === 0 ? { ok: true } : { ok: false, reason: degradedSummary(parts) }),
        (error: Error): Part => ({ ok: false, reason: error.message }),
      );
      lastBackground = { at: clock.monotonic(), part: asked };
    }
    return await lastBackground.part;
  }

  const read = async (): Promise<Readiness> => {
    const [database, paying, stores, background] = await Promise.all([
      db.query('ready', 'SELECT 1').then(
        (): Part => ({ ok: true }),
        (error: Error): Part => ({ ok: false, reason: error.message }),
      ),
      provider.ping(),
      redisPart(),
      backgroundPart(),
    ]);
    const fresh = published.ageMs() < publishedAgeMaxMs;
    const objects: Part = fresh ? { ok: true } : { ok: false, reason: 'the published objects are old' };
    // While the provider is unreachable, buyers can queue and hold but not pay; they learn it when they pay (D3). An
    // unreachable Redis costs speed (D1). If this failed for those, all buyers would lose the pages.
    return {
      ok: database.ok && objects.ok && !stores.isOursAlone,
      parts: {
        database,
        published: objects,
        payments: paying,
        background,
        ...(redis.all.length > 0 ? { redis: { ok: stores.ok, reason: stores.reason } } : {}),
      },
    };
  };
  return () => {
    if (!last || clock.monotonic() - last.at > readyFreshMs) last = { at: clock.monotonic(), read: read() };
    return last.read;
  };
}
