import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createDemoEvent } from '../src/cli/demo-event.ts';
import type { EventSettings } from '../src/orders/record.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { systemRandom } from '../src/runtime/random.ts';
import { type Credentials, createCredentials } from '../src/waiting-room/credentials.ts';
import { type ServedChild, serveIn } from './child.ts';
import { postBytes } from './http-load.ts';
import { benchDb, type Servers } from './servers.ts';

/** The application in a process of its own, on the bench's servers, with an event on sale that Redis arbitrates. */
export interface Sale {
  served: ServedChild;
  event: string;
  eventNo: number;
  databaseUrl: string;
  /** Seats that are sold individually, ascending: no boxes, no general admission. */
  seats: number[];
  credentials: Credentials;
  /** Resolves when it does: on a busy machine a late answer may have made Postgres arbitrate for a while. */
  redisArbitrates(): Promise<void>;
  stop(): Promise<void>;
}

const secret = 'a secret of the bench that is long enough';
const event = 'show';

/** `waiting`: numbers issued before it starts. Nothing else is kept of those who have them, so nothing else is made. */
export async function openSale(
  servers: Servers,
  options: { seats: number; waiting?: number; settings?: Partial<EventSettings> },
): Promise<Sale> {
  const databaseUrl = await servers.freshDatabase();
  const redis = await servers.redis();
  await migrate(databaseUrl);
  const db = benchDb(databaseUrl, 4);
  await createDemoEvent({
    db,
    clock: systemClock,
    seats: options.seats,
    onProgress: () => {},
    event: { event, name: 'The Show', currency: 'EUR' },
    settings: options.settings,
  });
  if (options.waiting) {
    await db.query(
      'bench_waiting',
      'UPDATE queue_counters SET last_no = $1::bigint, ceiling = $1::bigint + 10000',
      [options.waiting],
    );
  }
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-bench-app-'));
  const served = await serveIn('served-app.ts', {
    DATABASE_URL: databaseUrl,
    REDIS_URL: redis.url,
    // Each sale has events of the same number.
    ONSALE_REDIS_PREFIX: `bench-${path.basename(dataDir).slice(-6).toLowerCase()}`,
    ONSALE_DATA_DIR: dataDir,
    ONSALE_SECRET: secret,
    // The bench is the proxy in front: each request names a client address of its own, so that the limits of any new event apply
    // and are paid for.
    ONSALE_TRUST_PROXY: '1',
    PORT: '0',
  });
  const [row] = await db.query<{ event_no: number }>(
    'bench_event_no',
    'SELECT event_no FROM events WHERE event_id = $1',
    [event],
  );
  const inRedis = async (): Promise<boolean> => {
    const [found] = await db.query<{ modes: string }>(
      'bench_modes',
      'SELECT min(p.mode) || min(q.mode) AS modes FROM event_partitions p JOIN queue_counters q USING (event_no)',
    );
    return found?.modes === 'redisredis';
  };
  const redisArbitrates = (): Promise<void> => until(inRedis, 'Redis to arbitrate');
  await redisArbitrates();
  const seats = await db.query<{ seat_no: number }>(
    'bench_seats',
    `SELECT seat_no FROM event_seats WHERE event_no = $1 AND row_label <> '' AND section_id NOT LIKE 'box%' ORDER BY seat_no`,
    [row!.event_no],
  );
  const credentials = createCredentials({
    secret: Buffer.from(secret),
    random: systemRandom,
    clock: systemClock,
  });
  return {
    served,
    event,
    eventNo: row!.event_no,
    databaseUrl,
    seats: seats.map(({ seat_no }) => seat_no),
    credentials,
    redisArbitrates,
    stop: async () => {
      await served.stop();
      await db.close();
      fs.rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

let clients = 0;
/** A client address that no other request comes from: one of 10.0.0.0/8. */
function clientHeader(): Record<string, string> {
  clients += 1;
  return { 'x-forwarded-for': `10.${(clients >> 16) & 255}.${(clients >> 8) & 255}.${clients & 255}` };
}

/** A join of a visitor who was not there before. */
export function joinRequest(sale: Pick<Sale, 'event' | 'credentials'>): Buffer {
  const cookie = `onsale_visitor=${sale.credentials.newVisitorSecret()}`;
  return postBytes(`/api/events/${sale.event}/queue`, { cookie, ...clientHeader() });
}

/** A hold of a separate visitor, who has a pass without having queued. */
export function holdRequest(sale: Pick<Sale, 'event' | 'eventNo' | 'credentials'>, seats: number[]): Buffer {
  const { credentials, eventNo } = sale;
  const cookie = credentials.newVisitorSecret();
  const visitor = credentials.visitorOf(cookie)!;
  const issuedAt = systemClock.now();
  const pass = credentials.signPass({
    event: eventNo,
    visitor,
    passId: systemRandom.uuid(),
    number: 1,
    issuedAt,
    expiresAt: issuedAt + 15 * 60_000,
  });
  const headers = {
    cookie: `onsale_visitor=${cookie}`,
    'idempotency-key': systemRandom.uuid(),
    ...clientHeader(),
  };
  return postBytes(`/api/events/${sale.event}/holds`, headers, {
    pass,
    seats: seats.map((seat) => ({ seat })),
  });
}

export async function until(
  condition: () => Promise<boolean>,
  what: string,
  withinMs = 60_000,
): Promise<void> {
  const end = systemClock.monotonic() + withinMs;
  while (!(await condition())) {
    if (systemClock.monotonic() > end) throw new Error(`waited in vain for ${what}`);
    await systemClock.sleep(100);
  }
}
