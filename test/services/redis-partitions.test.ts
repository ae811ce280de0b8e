import assert from 'node:assert/strict';
import test, { after, before, describe, type TestContext } from 'node:test';
import { createEvents } from '../../src/catalogue/events.ts';
import { createLease } from '../../src/controller/lease.ts';
import type { Arbiter, HoldOutcome } from '../../src/inventory/arbiter.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createPartitionModes } from '../../src/inventory/postgres-modes.ts';
import { rebuild } from '../../src/inventory/rebuild.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { partitionTag } from '../../src/inventory/redis/scripts.ts';
import { createRoutedArbiter } from '../../src/inventory/routed.ts';
import type { PartitionMode } from '../../src/orders/record.ts';
import type { Db } from '../../src/postgres/db.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { systemClock as clock } from '../../src/runtime/clock.ts';
import { silentLogger as log } from '../../src/runtime/log.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import { testDb } from '../contract/arbiter-postgres-world.ts';
import { connectedStore } from '../contract/arbiter-redis-world.ts';
import { minute } from '../contract/arbiter-world.ts';
import { endGrace } from '../support/acts.ts';
import { until } from '../support/app.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { type TestRedis, testRedis, withoutRedis } from '../support/redis.ts';
import { stageEvent, uuidOf } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

/** One event in three partitions, each with a Redis server of its own; two web processes by the router, over the real modes. */

const prefix = 'apart';
const names = ['north', 'south', 'west'];
const processes = 2;
const seatsEach = 200;

interface Process {
  stores: RedisStore[];
  routed: Arbiter;
}
interface Stage {
  event: number;
  rows(): Promise<PartitionMode[]>;
  processes: Process[];
}

let database: TestDatabase;
let db: Db;
let servers: TestRedis[] = [];
let stores: RedisStore[][] = [];

async function stage(): Promise<Stage> {
  const { event } = await stageEvent(database, { mode: 'postgres', seats: seatsEach * names.length });
  await database.query(
    `INSERT INTO event_partitions (event_no, partition, sections)
     SELECT $1, n, ARRAY['part ' || n] FROM generate_series(1, $2) n`,
    [event, names.length - 1],
  );
  await database.query(
    'UPDATE event_partitions SET store = ($2::text[])[partition + 1] WHERE event_no = $1',
    [event, names],
  );
  await database.query('UPDATE seats SET partition = seat_no / $2 WHERE event_no = $1', [event, seatsEach]);
  const modes = createPartitionModes({ db });
  const postgres = createPostgresArbiter({ db });
  const made = stores.map((own, index): Process => {
    const arbiters = own.map((store) => ({
      arbiter: createRedisArbiter({ store, prefix, clock }),
      trust: (eventNo: number, partition: number, runIds: readonly string[]) =>
        store.trust(partitionTag(prefix, eventNo, partition), runIds),
    }));
    const routed = createRoutedArbiter({
      postgres,
      redis: (name) => arbiters[names.indexOf(name ?? '')] ?? null,
      modes: { read: createEvents({ db, clock }).modesRead },
      report: modes.report,
      granted: modes.granted,
      reporter: `web-${index}`,
      clock,
      log,
    });
    return { stores: own, routed };
  });
  const term = (await createLease({ db, owner: 'leader', clock }).keep([event])).get(event)!;
  for (const [partition, server] of servers.entries()) {
    const store = stores[0]![partition]!;
    store.trust(partitionTag(prefix, event, partition), [server.runId]);
    const outcome = await rebuild(
      { modes, clock },
      {
        at: { event, partition, term },
        arbiter: createRedisArbiter({ store, prefix, clock }),
        runIds: [server.runId],
      },
    );
    assert.equal(outcome.kind, 'rebuilt', JSON.stringify(outcome));
  }
  const events = createEvents({ db, clock });
  return {
    event,
    rows: async () => (await events.modesRead(event, clock.monotonic())).modes,
    processes: made,
  };
}

interface Answer {
  at: number;
  ms: number;
  kind: HoldOutcome['kind'];
}

/** Four buyers a partition, who hold a seat and give it back, over and over. */
async function crowd({ event, processes: all }: Stage) {
  const random = seededRandom(event);
  const answers = names.map((): Answer[] => []);
  let [stopped, next] = [false, 0];

  async function buyer(partition: number): Promise<void> {
    while (!stopped) {
      const n = next++;
      const { routed } = all[n % all.length]!;
      const visitor = `${event}/${n}`;
      const seat = partition * seatsEach + random.int(seatsEach);
      const own = { event, partition, hold: uuidOf(visitor), visitor };
      const at = clock.monotonic();
      const { kind } = await routed.hold({
        ...own,
        holder: visitor,
        request: String(seat),
        claim: { kind: 'seats', seats: [seat] },
        ttlMs: 10 * minute,
        seatsMax: 6,
        replaces: null,
        notAfter: null,
      });
      answers[partition]!.push({ at, ms: clock.monotonic() - at, kind });
      if (kind === 'granted') await routed.release(own);
      await pause(10, 'a buyer paces their claims');
    }
  }
  const buyers = Promise.all(
    names.flatMap((_, partition) => Array.from({ length: 4 }, () => buyer(partition))),
  );
  return {
    /** Calls that were made at `from` or later. */
    since: (partition: number, from: number): Answer[] => answers[partition]!.filter(({ at }) => at >= from),
    /** Waits until so many of them were answered in the partition. */
    async more(partition: number, count: number, kind?: Answer['kind']): Promise<void> {
      const from = clock.monotonic();
      await until(
        async () =>
          answers[partition]!.filter((one) => one.at >= from && (!kind || one.kind === kind)).length >= count,
        `${count} answers in partition ${partition}`,
      );
    },
    async stop() {
      stopped = true;
      await buyers;
    },
  };
}

const kindsOf = (answers: readonly Answer[]): string[] =>
  [...new Set(answers.map(({ kind }) => kind))].sort();
function ninetiethOf(answers: readonly Answer[]): number {
  const sorted = answers.map(({ ms }) => ms).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * 0.9)]!;
}

describe('three partitions on three Redis servers', { skip: withoutRedis }, () => {
  before(async () => {
    [database, servers] = await Promise.all([testDatabase(), Promise.all(names.map(() => testRedis()))]);
    db = testDb(database, 8);
    stores = await Promise.all(
      Array.from({ length: processes }, () => Promise.all(servers.map(connectedStore))),
    );
  });
  after(async () => {
    await Promise.all(stores.flat().map((store) => store.close()));
    await db?.close();
  });

  async function loss(t: TestContext, lost: number, lose: (server: TestRedis) => unknown): Promise<void> {
    const its = await stage();
    const others = [0, 1, 2].filter((partition) => partition !== lost);
    const claims = await crowd(its);
    const before = await its.rows();
    const startedAt = clock.monotonic();
    await Promise.all([0, 1, 2].map((partition) => claims.more(partition, 100)));
    const usual = others.map((partition) => ninetiethOf(claims.since(partition, startedAt)));

    const lostAt = clock.monotonic();
    await lose(servers[lost]!);
    await until(async () => (await its.rows())[lost]!.mode === 'postgres', 'the partition in Postgres');
    const degradedMs = clock.monotonic() - lostAt;
    await Promise.all(others.map((partition) => claims.more(partition, 100)));
    await endGrace(database, its.event, lost);
    await claims.more(lost, 10, 'granted');
    await claims.stop();

    const rows = await its.rows();
    for (const [index, partition] of others.entries()) {
      const meanwhile = claims.since(partition, lostAt);
      const slow = ninetiethOf(meanwhile);
      t.diagnostic(
        `partition ${partition}: ${meanwhile.length} claims, nine of ten within ${slow.toFixed(1)} ms, ${usual[index]!.toFixed(1)} before`,
      );
      assert.deepEqual(
        kindsOf(meanwhile).filter((kind) => kind !== 'granted' && kind !== 'taken'),
        [],
        'granted or taken, as before: a call to the lost server would have been a retry after its time-out',
      );
      assert.deepEqual(rows[partition], before[partition], 'its row is as it was');
    }
    t.diagnostic(`degraded after ${Math.round(degradedMs)} ms; ${kindsOf(claims.since(lost, lostAt))}`);
    const known = ['granted', 'retry', 'taken'];
    assert.deepEqual(
      kindsOf(claims.since(lost, lostAt)).filter((kind) => !known.includes(kind)),
      [],
    );
  }

  test('D1: one server frozen: claims in the other two partitions are answered as before', async (t) => {
    await loss(t, 1, (server) => server.freeze());
    servers[1]!.thaw();
  });

  test('D1: one server killed: claims in the other two partitions are answered as before', async (t) => {
    await loss(t, 2, (server) => server.kill());
  });
});
