import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { Command } from 'commander';
import { registerQueueCommands } from '../../src/cli/queue.ts';
import { createAdmissionTask } from '../../src/controller/admission-task.ts';
import { measureLine } from '../../src/controller/measure.ts';
import type { Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import type { QueueReport } from '../../src/waiting-room/order-records.ts';
import { shardOf } from '../../src/waiting-room/waiting-room.ts';
import { issued, joined, visitorNamed } from '../contract/waiting-room-cases.ts';
import { insertTestEvent } from '../contract/waiting-room-event.ts';
import {
  newPrefix,
  type QueueProcess,
  queueProcess,
  rule,
  turnToRedis,
} from '../contract/waiting-room-redis.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';
import { pause } from '../support/wait.ts';

const shards = 4;

async function setUp(t: TestContext, servers: number, queueShards = shards) {
  const database = await testDatabase(t);
  const event = await insertTestEvent(database, { queueShards });
  await rule(database, event, 1);
  const redis = await Promise.all(Array.from({ length: servers }, () => testRedis(t)));
  const process = queueProcess(t, { database, redis, prefix: newPrefix() });
  if (servers > 0) await turnToRedis(process, event, 1);
  const admission = createAdmissionTask({
    db: process.db,
    control: process.room,
    clock: systemClock,
    seatCounts: async () => ({ available: 50_000, held: 0, reserved: 0, sold: 0, blocked: 0 }),
    arbiterCeiling: () => 200,
    refreshLine: process.stores.refresh,
  });
  const tick = () => admission.run({ event, term: 1, tick: 0, signal: new AbortController().signal });
  return { database, event, redis, process, admission, tick };
}

interface Person {
  shard: number;
  number: number;
  issuedAt: number;
}

/** Visitors come for some seconds, many at first; each to the shard of their name. */
async function crowdFor(ms: number, process: QueueProcess, event: number): Promise<Person[]> {
  const people: Person[] = [];
  const end = systemClock.monotonic() + ms;
  for (let round = 0; systemClock.monotonic() < end; round++) {
    const batches: string[][] = Array.from({ length: shards }, () => []);
    const size = round < 10 ? 200 : 12;
    for (let index = 0; index < size; index++) {
      const visitor = visitorNamed(`${event}/${round}/${index}`);
      batches[shardOf(visitor, shards)]!.push(visitor);
    }
    const answers = await Promise.all(batches.map((batch, shard) => process.room.join(event, shard, batch)));
    people.push(...answers.flat().map(joined));
    await pause(20, 'visitors come one after the other');
  }
  return people;
}

const reportOf = async (db: Db, event: number): Promise<{ text: string; json: QueueReport }> => {
  const printed: string[] = [];
  const run = async (...more: string[]): Promise<string> => {
    const program = new Command();
    registerQueueCommands(program, {
      clock: systemClock,
      print: (text) => printed.push(text),
      fail: assert.fail,
      openDatabase: async () => ({ db, url: '' }),
    });
    await program.parseAsync(['queue', 'report', `e${event - 1}`, ...more], { from: 'user' });
    return printed.at(-1)!;
  };
  return { text: await run(), json: JSON.parse(await run('--json')) };
};

for (const [store, servers, skip] of [
  ['Postgres', 0, false],
  ['two Redis servers', 2, withoutRedis],
] as const) {
  test(`W1: over four shards people are called as they came, to within a second (${store})`, {
    skip,
  }, async (t) => {
    const { event, process: one, admission, tick } = await setUp(t, servers);
    let ended = false;
    const frontiers: number[][] = [];
    const leader = (async () => {
      while (!ended) {
        await tick();
        frontiers.push(admission.measured(event, 1)!.frontier);
        await pause(100, 'the leader’s tick');
      }
    })();
    const people = await crowdFor(3_500, one, event);
    ended = true;
    await leader;
    await tick();
    frontiers.push(admission.measured(event, 1)!.frontier);

    assert.equal(new Set(people.map(({ shard, number }) => `${shard}:${number}`)).size, people.length);
    const calledAt = ({ shard, number }: Person): number => {
      const found = frontiers.findIndex((frontier) => (frontier[shard] ?? 0) >= number);
      return found < 0 ? frontiers.length : found;
    };
    let latest = 0;
    let worstMs = 0;
    const ticks = new Map<number, Person[]>();
    for (const person of people)
      ticks.set(calledAt(person), [...(ticks.get(calledAt(person)) ?? []), person]);
    const called = people.filter((person) => calledAt(person) < frontiers.length).length;
    assert.ok(called > 300, `${called} of ${people.length} were called`);
    for (const [, now] of [...ticks].toSorted(([a], [b]) => a - b)) {
      worstMs = Math.max(worstMs, ...now.map(({ issuedAt }) => latest - issuedAt));
      latest = Math.max(latest, ...now.map(({ issuedAt }) => issuedAt));
    }
    assert.ok(worstMs < 1_000, `${worstMs} ms`);

    const { text, json } = await reportOf(one.db, event);
    assert.equal(json.people, called);
    assert.ok(json.worstInversionSeconds <= 1 && json.worstInversionSeconds * 1_000 >= worstMs);
    assert.deepEqual([json.pairs.inverted, json.tau === null || json.tau === 1], [0, true]);
    assert.deepEqual(
      json.shards.map(({ issued: count }) => count),
      Array.from({ length: shards }, (_, shard) => people.filter((person) => person.shard === shard).length),
    );
    assert.equal(json.clockDifferenceMs > 0, servers > 0, 'measured where clocks of others stamped');
    assert.match(text, /Kendall tau/);
  });
}

test('W1 W3: a visitor with a number of a gap is called when its turn comes, and no visitor waits for the others', {
  skip: withoutRedis,
}, async (t) => {
  const { event, process: one, redis, admission, tick, database } = await setUp(t, 1, 1);
  const names = Array.from({ length: 8 }, (_, index) => visitorNamed(`gap ${index}`));
  await one.room.join(event, 0, names.slice(0, 5));
  await tick();
  assert.deepEqual(admission.measured(event, 1)?.frontier, [5]);
  // Drawn after the leader's last look, by a process that does not come back.
  const [six] = (await one.room.join(event, 0, names.slice(5, 6))).map(joined);
  one.control.seen = async () => {};
  await redis[0]!.kill();
  await tick();
  const { shards: rows } = await one.control.read(event, systemClock.monotonic());
  assert.equal(rows[0]!.mode, 'postgres');
  const [later] = (await one.room.join(event, 0, names.slice(6, 7))).map(joined);
  assert.ok(later!.number > six!.number + 5_000);
  await tick();
  assert.deepEqual(admission.measured(event, 1)?.frontier, [later!.number]);
  await database.query('UPDATE admissions SET tokens = 10, burst = 10');
  for (const [visitor, { number }] of [
    [names[5]!, six!],
    [names[6]!, later!],
  ] as const) {
    issued(
      await one.room.redeem({ event, shard: 0, number, visitor, passId: randomUUID(), sessionMs: 900_000 }),
    );
  }
  const line = await measureLine(one.db, event, 60_000);
  assert.deepEqual([line.pending, line.waiting], [5, 0], 'numbers that nobody has are not expected');
  await database.query(`UPDATE frontier_moves SET at = at - interval '61 s'`);
  const graced = await measureLine(one.db, event, 60_000);
  assert.deepEqual([graced.due, graced.came], [6, 1], 'nor do they count as no-shows');
});

test('W1: a gap that is next is passed although no visitor has joined behind it', {
  skip: withoutRedis,
}, async (t) => {
  const { event, process: one, redis, admission, tick } = await setUp(t, 1, 1);
  await one.room.join(event, 0, [visitorNamed('first')]);
  await tick();
  const [unknown] = (await one.room.join(event, 0, [visitorNamed('second')])).map(joined);
  await redis[0]!.kill();
  await tick();
  await tick();
  const measured = admission.measured(event, 1)!;
  assert.ok(measured.frontier[0]! >= unknown!.number);
  assert.deepEqual([measured.last, measured.gaps], [measured.frontier, [[]]]);
});
