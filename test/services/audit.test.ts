import assert from 'node:assert/strict';
import test, { before, describe } from 'node:test';
import { type AuditReport, auditEvent } from '../../src/audit/audit.ts';
import type { AuditSources } from '../../src/audit/audit-sources.ts';
import { createEvents } from '../../src/catalogue/events.ts';
import type { Snapshot } from '../../src/inventory/arbiter.ts';
import type { StoredHold } from '../../src/inventory/modes.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { testScope } from '../support/app.ts';
import { type AuditedWorld, auditedWorld } from '../support/audited-event.ts';
import { contradictions } from '../support/contradictions.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';

/** The wait before looking twice takes no time here. */
function impatientClock(): typeof systemClock {
  let slept = 0;
  return {
    ...systemClock,
    monotonic: () => systemClock.monotonic() + slept,
    sleep: async (ms) => {
      slept += ms;
    },
  };
}

const holdSeatsMax = 6;

async function audit(db: Db, world: AuditedWorld, own: Partial<AuditSources> = {}): Promise<AuditReport> {
  const clock = impatientClock();
  const sources: AuditSources = {
    db,
    clock,
    modes: (event) => createEvents({ db, clock }).modes(event),
    arbiter: createPostgresArbiter({ db }),
    redisHolds: null,
    numbers: null,
    money: world.money,
    ...own,
  };
  return await auditEvent(sources, { event: world.event, id: world.id, currency: 'EUR', holdSeatsMax });
}

/** Broken promises with what was said; missing indexes are left out where they are missing on purpose. */
function broken(report: AuditReport): string[] {
  return report.promises.flatMap(({ promise, violations }) =>
    violations.filter(({ says }) => !says.startsWith('no valid')).map(({ says }) => `${promise} ${says}`),
  );
}

const uniques = [
  'tickets_one_owner',
  'money_one_under_way',
  'money_one_authorisation',
  'orders_open_visitor',
];
const constraints = [
  ['orders', 'orders_hold_id_key'],
  ['money_operations', 'money_operations_key_key'],
  ['passes', 'passes_pkey'],
  ['passes', 'passes_event_no_shard_number_key'],
];

async function withoutUniques(database: TestDatabase): Promise<void> {
  for (const index of uniques) await database.query(`DROP INDEX ${index}`);
  for (const [table, name] of constraints)
    await database.query(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`);
}

describe('audit', () => {
  const scope = testScope();
  let database: TestDatabase;
  let db: Db;
  before(async () => {
    database = await testDatabase();
    db = createDb({ url: database.url, poolSize: 2, clock: systemClock, log: silentLogger });
    scope.after(() => db.close());
  });
  test.after(() => scope.close());

  test('S1 S8 P8 W1 W3: an event that kept its promises is found so, with counts, and writes nothing', async () => {
    const world = await auditedWorld(database);
    const report = await audit(db, world);
    assert.deepEqual(broken(report), []);
    assert.equal(report.violations, 0);
    assert.equal(report.atRest, false, 'a payment is under way');
    assert.equal(report.facts.transit.operations, 1);
    for (const { promise, state, evidence, unchecked } of report.promises) {
      if (promise === 'W6')
        assert.deepEqual([state, evidence, unchecked], ['not_checked', [], ['there is no public log yet']]);
      else assert.equal(state, 'kept', `${promise}: ${unchecked}`);
    }
    const s1 = report.promises.find(({ promise }) => promise === 'S1');
    assert.equal(s1?.evidence[0], '20 seats, 5 tickets, 1 live hold in Postgres');
    const p8 = report.promises.find(({ promise }) => promise === 'P8');
    assert.match(p8?.evidence.at(-1) ?? '', /2 settled, 106.00 EUR due, 106.00 captured and kept/);
  });

  test('P8: what the provider’s side was not asked is never called kept', async () => {
    const world = await auditedWorld(database);
    const none = await audit(db, world, { money: { kind: 'none', why: 'it is away' } });
    const few = await audit(db, world, {
      money: {
        kind: 'lookups',
        name: 'the provider',
        most: 2,
        look: async (object) => world.payments.find((seen) => seen.object === object) ?? null,
      },
    });
    for (const report of [none, few]) {
      const p8 = report.promises.find(({ promise }) => promise === 'P8');
      assert.equal(p8?.state, 'partly');
      assert.equal(report.violations, 0);
    }
    assert.match(JSON.stringify(few), /2 of 4 orders: their payments were not looked up/);
  });

  test('S8 P8: what differs only for a moment, between two looks, is no contradiction', async () => {
    const world = await auditedWorld(database);
    const arbiter = createPostgresArbiter({ db });
    let looks = 0;
    const report = await audit(db, world, {
      arbiter: {
        snapshot: async (event, partition) => {
          const snapshot = await arbiter.snapshot(event, partition);
          looks += 1;
          if (looks === 1) snapshot.codes[0] = 0;
          return snapshot;
        },
      },
    });
    assert.ok(looks > 1);
    assert.equal(report.violations, 0);
  });
});

describe('audit of a corrupted record', () => {
  const scope = testScope();
  let database: TestDatabase;
  let db: Db;
  before(async () => {
    database = await testDatabase();
    await withoutUniques(database);
    db = createDb({ url: database.url, poolSize: 2, clock: systemClock, log: silentLogger });
    scope.after(() => db.close());
  });
  test.after(() => scope.close());

  test('S1 P1 P5 W3: a missing unique index is found, each of them', async () => {
    const report = await audit(db, await auditedWorld(database));
    const missing = report.promises.flatMap(({ violations }) => violations.map(({ says }) => says));
    assert.equal(
      missing.filter((says) => says.startsWith('no valid unique index')).length,
      uniques.length + constraints.length,
    );
  });

  for (const { promises, title, says, sql, payments, snapshot } of contradictions) {
    test(`${promises.join(' ')}: ${title} is found`, async () => {
      const world = await auditedWorld(database);
      for (const statement of sql?.(world).split(';') ?? []) {
        if (statement.trim()) await database.query(statement, [world.event]);
      }
      payments?.(world.payments, world);
      const arbiter = createPostgresArbiter({ db });
      const seen = async (event: number, partition: number): Promise<Snapshot> => {
        const answer = await arbiter.snapshot(event, partition);
        snapshot?.(answer.codes);
        return answer;
      };
      const found = broken(await audit(db, world, { arbiter: { snapshot: seen } }));
      assert.ok(
        found.some((line) => says.test(line)),
        `${says} in\n${found.join('\n')}`,
      );
      assert.deepEqual(
        [...new Set(found.map((line) => line.slice(0, 2)))].sort(),
        promises,
        found.join('\n'),
      );
    });
  }
});

describe('audit of holds in Redis', () => {
  const scope = testScope();
  let database: TestDatabase;
  let db: Db;
  before(async () => {
    database = await testDatabase();
    db = createDb({ url: database.url, poolSize: 2, clock: systemClock, log: silentLogger });
    scope.after(() => db.close());
  });
  test.after(() => scope.close());

  const now = systemClock.now();
  const hold = (fields: Partial<StoredHold>): StoredHold => ({
    hold: 'first',
    visitor: 'a',
    holder: 'a',
    request: '',
    seats: [9, 10],
    grantedAt: now,
    deadline: now + 600_000,
    grant: 1,
    order: null,
    state: 'live',
    ...fields,
  });
  const cases: { broken: string[]; title: string; holds: StoredHold[]; held?: number[]; says?: RegExp }[] = [
    { broken: [], title: 'a live hold of its seats', holds: [hold({})] },
    { broken: [], title: 'a lapsed hold of free seats', holds: [hold({ deadline: now - 1 })], held: [] },
    { broken: [], title: 'a hold that a decision overrode', holds: [hold({ seats: [0, 9] })], held: [9] },
    {
      broken: ['S2'],
      title: 'a hold short of a seat',
      holds: [hold({})],
      held: [9],
      says: /S2 holds 9,10, but 10 are free/,
    },
    {
      broken: ['S3'],
      title: 'a seat under two holds',
      holds: [hold({}), hold({ hold: 'second', holder: 'b', seats: [10] })],
      says: /S3 .*first,second/,
    },
    {
      broken: ['S4'],
      title: 'a seat held by nobody',
      holds: [hold({})],
      held: [9, 10, 11],
      says: /S4 .*held by no live hold/,
    },
    {
      broken: ['S6'],
      title: 'a hold of twenty minutes',
      holds: [hold({ deadline: now + 20 * 60_000 })],
      says: /S6 granted at/,
    },
    {
      broken: ['S7'],
      title: 'a holder above the quota',
      holds: [hold({ holder: 'reserved', seats: [9, 10, 11, 12, 13] })],
      held: [9, 10, 11, 12, 13],
      says: /S7 holder reserved has 7/,
    },
  ];
  for (const { broken: promises, title, holds, held, says } of cases) {
    test(`S2 S3 S4 S6 S7: ${title} in Redis is ${promises.length > 0 ? 'found' : 'no contradiction'}`, async () => {
      const world = await auditedWorld(database);
      await database.query(`UPDATE event_partitions SET mode = 'redis' WHERE event_no = $1`, [world.event]);
      const arbiter = createPostgresArbiter({ db });
      const report = await audit(db, world, {
        redisHolds: async () => holds,
        arbiter: {
          snapshot: async (event, partition) => {
            const snapshot = await arbiter.snapshot(event, partition);
            snapshot.codes.forEach((code, seat) => {
              if (code === 1) snapshot.codes[seat] = 0;
            });
            for (const seat of held ?? [9, 10]) snapshot.codes[seat] = 1;
            return snapshot;
          },
        },
      });
      const found = broken(report);
      assert.deepEqual([...new Set(found.map((line) => line.slice(0, 2)))], promises, found.join('\n'));
      if (says) assert.match(found[0] ?? '', says);
    });
  }
});
