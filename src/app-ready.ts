import type { HttpDeps } from './http/deps.ts';
import type { PaymentProvider } from './payments/provider.ts';
import type { Clock } from './runtime/clock.ts';
import type { Db } from './sales/db.ts';

/** Its last word is a second old at most: a probe that asks often costs nothing. */
const readyFreshMs = 1_000;
const publishedAgeMaxMs = 10_000;
const redisPatienceMs = 500;

interface Part {
  ok: boolean;
  reason?: string;
}

/** Whether this process can sell, part by part. */
export function readiness(parts: {
  db: Db;
  published: { ageMs(): number };
  provider: Pick<PaymentProvider, 'ping'>;
  redis: { all: readonly { store: { name: string; primaries(): Promise<unknown> } }[] };
  clock: Clock;
}): HttpDeps['ready'] {
  const { db, published, provider, redis, clock } = parts;
  let last: { at: number; read: ReturnType<HttpDeps['ready']> } | null = null;

  async function redisPart(): Promise<Part> {
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
    if (away.length === 0) return { ok: true };
    return { ok: false, reason: `no answer from ${away.join(', ')}: Postgres carries the sale meanwhile` };
  }

  const read: HttpDeps['ready'] = async () => {
    const [database, paying, stores] = await Promise.all([
      db.query('ready', 'SELECT 1').then(
        (): Part => ({ ok: true }),
        (error: Error): Part => ({ ok: false, reason: error.message }),
      ),
      provider.ping(),
      redisPart(),
    ]);
    const fresh = published.ageMs() < publishedAgeMaxMs;
    const objects: Part = fresh ? { ok: true } : { ok: false, reason: 'the published objects are old' };
    // A provider that is away stops paying, not queueing and holding: buyers are told so when they pay (D3). A Redis that is
    // away costs speed (D1). Failing here would take the pages away from everybody instead.
    return {
      ok: database.ok && objects.ok,
      parts: {
        database,
        published: objects,
        payments: paying,
        ...(redis.all.length > 0 ? { redis: stores } : {}),
      },
    };
  };
  return () => {
    if (!last || clock.monotonic() - last.at > readyFreshMs) last = { at: clock.monotonic(), read: read() };
    return last.read;
  };
}
