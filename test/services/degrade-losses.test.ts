import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { pino } from 'pino';
import type { HoldAnswer, Problem } from '../../src/http/api-types.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { testScope, until } from '../support/app.ts';
import { closeUnpaid } from '../support/at-rest.ts';
import { type Answer, createTestBuyer, type TestBuyer } from '../support/buyer.ts';
import { programArguments } from '../support/program.ts';
import { testRedis, untilReplicated, withoutRedis } from '../support/redis.ts';
import { type RedisApp, startRedisApp } from '../support/redis-app.ts';
import { serverProcess } from '../support/server-process.ts';
import { auditEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

/**
 * The effects of D1 for a buyer when a Redis is lost in one of its ways. The tests run at the same time, because most of them
 * wait.
 */

/**
 * On a machine without other load it takes two seconds, and one second of refused grants: gameday measures that. Here other tests
 * run at the same time, and the bound only says that nothing waits for a minute-long interval.
 */
const busyMs = 30_000;

interface Holder {
  buyer: TestBuyer;
  held: HoldAnswer;
}

let keys = 0;

/** Behaves like a page: a buyer who has to wait asks again with the same key. */
async function held(buyer: TestBuyer, seat: number): Promise<Answer<HoldAnswer & Problem>> {
  keys += 1;
  const key = `held-${keys}`;
  for (;;) {
    const answer = await buyer.hold([seat], { key });
    if (answer.status !== 503) return answer;
    await pause(100, 'a page paces its repeats');
  }
}

async function holders(app: RedisApp, seats: number[]): Promise<Holder[]> {
  return await Promise.all(
    seats.map(async (seat) => {
      const buyer = await app.admitted();
      const { status, body } = await held(buyer, seat);
      // 200: the first answer was lost, and the repeat found its grant.
      assert.ok(status === 201 || status === 200, JSON.stringify(body));
      return { buyer, held: body };
    }),
  );
}

async function buys(app: RedisApp, seat: number): Promise<void> {
  const [holder] = await holders(app, [seat]);
  await pays(holder!);
}

/** Behaves like a page: presents its receipt until the result of the hold is known. */
async function present({ buyer, held }: Holder): Promise<Answer> {
  for (;;) {
    const answer = await buyer.post(`/api/holds/${held.hold}/recover`, { receipt: held.receipt });
    if (answer.status !== 202 && answer.status !== 503) return answer;
    await pause(100, 'a page paces its repeats');
  }
}

/** Presents the receipt in grace at least once. */
async function presentOnce({ buyer, held }: Holder): Promise<void> {
  const answer = await buyer.post(`/api/holds/${held.hold}/recover`, { receipt: held.receipt });
  assert.equal(answer.status, 202, JSON.stringify(answer.body));
}

async function pays({ buyer, held }: Holder): Promise<void> {
  let ordered = await buyer.order(held.hold);
  while (ordered.status === 503) {
    await pause(100, 'a page paces its repeats');
    ordered = await buyer.order(held.hold);
  }
  assert.equal(ordered.status, 201, JSON.stringify(ordered.body));
  const paid = await buyer.pay(ordered.body.order);
  assert.equal(paid.status, 200, JSON.stringify(paid.body));
}

/** One buyer after the other takes what is best and pays for it, until told to stop. */
function sale(app: RedisApp, size: number) {
  let paid = 0;
  let stopping = false;
  const unexpected: unknown[] = [];
  const known = new Set([409, 410, 503]);
  async function shop(): Promise<void> {
    const buyer = await app.admitted();
    while (!stopping) {
      const held = await buyer.best({ quantity: 1 });
      const ordered = held.status === 201 ? await buyer.order(held.body.hold) : held;
      const bought =
        ordered.status === 201 && held.status === 201
          ? await buyer.pay(ordered.body.order as string)
          : ordered;
      if (bought.status === 200) paid += 1;
      else if (known.has(bought.status)) await pause(100, 'a page paces its repeats');
      else unexpected.push(bought.body);
    }
  }
  const shops = Array.from({ length: size }, shop);
  return {
    paid: () => paid,
    async more(count: number): Promise<void> {
      const goal = paid + count;
      await until(async () => paid >= goal, `${count} more sales`, 40_000);
    },
    async stop(): Promise<void> {
      stopping = true;
      await Promise.all(shops);
      assert.deepEqual(unexpected, []);
    },
  };
}

/** Holds and gives back one seat again and again. Returns the longest time in which it had to wait, ms. */
function refusals(app: RedisApp, seat: number) {
  let stopping = false;
  const run = (async () => {
    const buyer = await app.admitted();
    let since: number | null = null;
    let longest = 0;
    while (!stopping) {
      const began = systemClock.monotonic();
      const held = await buyer.hold([seat]);
      if (held.status === 503) since ??= began;
      else {
        if (since !== null) longest = Math.max(longest, systemClock.monotonic() - since);
        since = null;
      }
      if (held.status === 201) await buyer.request('DELETE', `/api/holds/${held.body.hold}`);
      await pause(20, 'a buyer paces their claims');
    }
    return longest;
  })();
  return async (): Promise<number> => {
    stopping = true;
    return await run;
  };
}

async function auditAtRest(app: RedisApp): Promise<void> {
  await closeUnpaid(app);
  const { paid } = await auditEvent(app.database, app.simulator, app.eventNo);
  const { intents } = await app.simulator.ledger();
  assert.equal(intents.length, paid, 'nobody who was refused reached the provider');
  await app.assertAgreement();
}

/** Reads the log's lines about a restore: from move to flip, ms. */
function pausesIn(text: string): number[] {
  const { pauseMs } = JSON.parse(text) as { pauseMs?: number };
  return pauseMs === undefined ? [] : [pauseMs];
}

test('D1: killed in mid-sale: Postgres takes over, receipts recover, the sale goes on, and Redis takes it back with a short pause', {
  skip: withoutRedis,
}, async (t) => {
  const pauses: number[] = [];
  const line = { write: (text: string) => void pauses.push(...pausesIn(text)) };
  const app = await startRedisApp(t, { log: pino({ level: 'info' }, line) });
  const crowd = sale(app, 6);
  await crowd.more(3);
  const keepers = await holders(app, [190, 191, 192, 193, 194]);
  const [ordering, ...others] = keepers;
  await app.redis.kill();
  const degradedMs = await app.untilMode('postgres');
  assert.ok(degradedMs < busyMs, `degraded after ${degradedMs} ms`);
  // A buyer who was about to pay asks again and again, and never learns that the hold is gone.
  await presentOnce(ordering!);
  const paying = pays(ordering!);
  const recovered = await Promise.all(others.map(present));
  for (const [index, { status, body }] of recovered.entries()) {
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual(
      body.seats.map(({ seat }: { seat: number }) => seat),
      [191 + index],
    );
  }
  await paying;
  await crowd.more(3);
  const longest = refusals(app, 180);
  await app.redis.restart();
  await app.untilMode('redis');
  await crowd.more(3);
  const refusedMs = await longest();
  const [, pauseMs = Number.NaN] = pauses;
  assert.ok(pauseMs < busyMs, `nobody could hold for ${pauseMs} ms`);
  // As a buyer sees it, with all that a busy machine adds.
  assert.ok(refusedMs < busyMs, `a buyer was told to wait for ${refusedMs} ms`);
  await crowd.stop();
  await Promise.all(others.map(pays));
  await auditAtRest(app);
});

async function reasonOf(app: RedisApp, partition: number): Promise<string> {
  const [row] = await app.database.query(
    'SELECT reason FROM event_partitions WHERE event_no = $1 AND partition = $2',
    [app.eventNo, partition],
  );
  return row.reason;
}

/** The failures of the partition's server, each in a separate partition: an app is shared, because most of it is waiting. */
const losses = [
  'flushed',
  'frozen',
  'old',
  'readonly',
  'full',
  'killed',
  'forgetful',
  'away',
  'overwritten',
] as const;
type Loss = (typeof losses)[number];
const sections = ['101', '102', '103', '104', '105', '129', '130', '131', '132'];

describe('a Redis is lost', { skip: withoutRedis }, () => {
  const scope = testScope();
  let app: RedisApp;
  const seats = new Map<number, number[]>();

  before(async () => {
    if (withoutRedis) return;
    app = await startRedisApp(scope, {
      seats: 2_400,
      servers: [...losses],
      settings: { partitions: losses.map((redis, index) => ({ sections: [sections[index]!], redis })) },
    });
    const event = await app.app.events.find(app.event);
    const venue = await app.app.events.venue(event!);
    for (const { seatNo } of venue.seats) {
      const partition = venue.partitionOf(seatNo);
      seats.set(partition, [...(seats.get(partition) ?? []), seatNo]);
    }
  });
  after(() => scope.close());

  /** The partition of its own that a loss is tried on. */
  function at(loss: Loss) {
    const partition = losses.indexOf(loss) + 1;
    const redis = app.servers.get(loss)!;
    return {
      partition,
      redis,
      seats: seats.get(partition)!,
      row: () => app.row(partition),
      reason: () => reasonOf(app, partition),
      endGrace: () => app.endGrace(partition),
      restored: () => app.untilMode('redis', { partition }),
      degraded: () => app.untilMode('postgres', { partition, ms: busyMs }),
    };
  }
  const outcomeOf = async (seat: number): Promise<string> => {
    const { body } = await held(await app.admitted(), seat);
    return body.code ?? 'held';
  };

  describe('in one of its ways', { concurrency: losses.length }, () => {
    test('D1: flushed: it answers as before and knows nothing, so it is not asked any more', async () => {
      const {
        redis,
        seats: [one, two],
        ...its
      } = at('flushed');
      const [keeper, lazy] = await holders(app, [one!, two!]);
      await redis.flush();
      await its.degraded();
      assert.equal(await its.reason(), 'forgot');
      await presentOnce(keeper!);
      await its.endGrace();
      // A receipt that was not presented in grace is worth nothing after it.
      assert.equal((await present(lazy!)).status, 410);
      await its.restored();
      assert.equal((await present(keeper!)).status, 200);
      assert.equal(await outcomeOf(one!), 'taken');
      assert.equal(await outcomeOf(two!), 'held');
      await pays(keeper!);
    });

    test('D1 S5: frozen and later thawed: what it grants late harms nothing', async () => {
      const {
        redis,
        seats: [one, two],
        ...its
      } = at('frozen');
      const [mine] = await holders(app, [one!]);
      const late = await app.admitted();
      redis.freeze();
      // Sent to a Redis that will carry it out when it thaws.
      const lateHold = late.hold([two!], { key: 'late' });
      await its.degraded();
      assert.equal((await lateHold).status, 503);
      await its.endGrace();
      await buys(app, one!);
      redis.thaw();
      await its.restored();
      const refused = await mine!.buyer.order(mine!.held.hold);
      assert.equal(refused.status, 410, JSON.stringify(refused.body));
      assert.equal(await outcomeOf(two!), 'held');
      assert.equal((await late.hold([two!], { key: 'late' })).body.code, 'taken');
    });

    test('D1: back with an old file: its memory is worth nothing, whatever epoch it names', async () => {
      const {
        redis,
        seats: [one, two],
        ...its
      } = at('old');
      await redis.save();
      const [keeper] = await holders(app, [one!]);
      await buys(app, two!);
      await redis.restart('saved');
      await its.degraded();
      await presentOnce(keeper!);
      await its.endGrace();
      await its.restored();
      for (const seat of [one!, two!]) assert.equal(await outcomeOf(seat), 'taken');
      await pays(keeper!);
    });

    test('S3 D1: overwritten by a stale copy while it was a replica for an instant: the holder keeps the seat', async (t) => {
      const {
        redis,
        seats: [one],
        ...its
      } = at('overwritten');
      const client = redis.client();
      const copy = (await testRedis(t)).client();
      for (const each of [client, copy]) await each.config('SET', 'repl-diskless-sync-delay', '0');
      await copy.replicaof('127.0.0.1', redis.port);
      await untilReplicated(copy);
      await copy.replicaof('NO', 'ONE');
      const [keeper] = await holders(app, [one!]);
      await client.replicaof('127.0.0.1', copy.options.port!);
      await untilReplicated(client);
      await client.replicaof('NO', 'ONE');
      const rival = outcomeOf(one!);
      await its.degraded();
      // The last, if the leader looked in just that instant.
      assert.match(await its.reason(), /^(untrusted|forgot|read_only)$/);
      await presentOnce(keeper!);
      await its.endGrace();
      assert.equal(await rival, 'taken');
      await its.restored();
      assert.equal((await present(keeper!)).status, 200);
      assert.equal(await outcomeOf(one!), 'taken');
      await pays(keeper!);
    });

    for (const [loss, reason, lose, mend] of [
      ['readonly', 'read_only', ['replicaof', '127.0.0.1', '1'], ['replicaof', 'no', 'one']],
      ['full', 'full', ['config', 'set', 'maxmemory', '1'], ['config', 'set', 'maxmemory', '0']],
    ] as const) {
      test(`D1: ${loss}: it is left for Postgres until it takes writes again, and is then rebuilt`, async () => {
        const {
          redis,
          seats: [one, two],
          ...its
        } = at(loss);
        const client = redis.client();
        const [keeper] = await holders(app, [one!]);
        const before = await its.row();
        await client.call(lose[0], ...lose.slice(1));
        await its.degraded();
        assert.equal(await its.reason(), reason);
        await presentOnce(keeper!);
        await its.endGrace();
        await buys(app, two!);
        await client.call(mend[0], ...mend.slice(1));
        await its.restored();
        const now = await its.row();
        const runOf = (names: string[]): unknown => names.map((name) => name.split(':')[0]);
        assert.deepEqual([runOf(now.runIds), now.epoch > before.epoch], [runOf(before.runIds), true]);
        // Only the one that was a replica in between has another history of its data.
        assert.equal(now.runIds[0] === before.runIds[0], loss === 'full');
        await pays(keeper!);
      });
    }

    for (const loss of ['killed', 'forgetful'] as const) {
      test(`S5 D1: a process stopped between extend and reserve while its Redis is ${loss} and the seat is sold: refused`, async (t) => {
        const {
          redis,
          partition,
          seats: [seat],
          ...its
        } = at(loss);
        const child = staleBuyer(app, { name: loss, url: redis.url }, partition, seat!);
        t.after(async () => void child.kill('SIGKILL'));
        assert.ok((await child.next()).held);
        assert.deepEqual(await child.next(), { proved: (await its.row()).epoch });
        if (loss === 'killed') await redis.kill();
        else await redis.flush();
        await its.degraded();
        await its.endGrace();
        // Back in Redis, only the epoch tells that the old proof is none.
        if (loss === 'forgetful') await its.restored();
        await buys(app, seat!);
        child.kill('SIGCONT');
        assert.deepEqual(await child.next(), { reserve: 'stale' });
        assert.deepEqual(await child.next(), { purchase: 'retry' });
        if (loss === 'killed') await redis.restart();
        await its.restored();
      });
    }

    test('S5 D1: a web process stopped between hold and payment sells nothing when the seat has gone; a recovered hold is bought through it', async (t) => {
      const {
        redis,
        seats: [one, two],
        ...its
      } = at('away');
      const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-stale-'));
      t.after(async () => fs.rmSync(dataDir, { recursive: true, force: true }));
      const stale = await serverProcess({ ...app.env, ONSALE_DATA_DIR: dataDir }, ['--roles', 'web']);
      t.after(() => stale.kill());
      await stale.start();
      const [lost, kept] = await holders(app, [one!, two!]);
      const through = { lost: over(stale.url, lost!.buyer), kept: over(stale.url, kept!.buyer) };
      const shown = await through.lost.post(`/api/holds/${lost!.held.hold}/recover`, {
        receipt: lost!.held.receipt,
      });
      assert.equal(shown.status, 200, 'it knows the hold from Redis');

      process.kill(stale.pid(), 'SIGSTOP');
      const early = through.lost.order(lost!.held.hold);
      await redis.kill();
      await its.degraded();
      await presentOnce(kept!);
      await its.endGrace();
      await buys(app, one!);
      process.kill(stale.pid(), 'SIGCONT');
      // The stale process still asks the lost Redis at first, and answers that it does not know.
      let refused = await early;
      while (refused.status === 503) refused = await through.lost.order(lost!.held.hold);
      assert.equal(refused.status, 410, JSON.stringify(refused.body));
      await pays({ ...kept!, buyer: through.kept });
      await redis.restart();
      await its.restored();
    });
  });

  test('D1 S1 S8 P8: at rest record, provider and all the Redis servers agree', async () => {
    await auditAtRest(app);
  });
});

/** A process that stops itself: see its script. */
function staleBuyer(app: RedisApp, redis: { name: string; url: string }, partition: number, seat: number) {
  const orders = {
    database: app.database.url,
    simulator: app.simulator.url,
    redis,
    event: app.eventNo,
    partition,
    seats: [seat],
  };
  const child = spawn(
    process.execPath,
    [...programArguments('test/support/stale-buyer.ts'), JSON.stringify(orders)],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    next: async () => JSON.parse((await lines.next()).value ?? '{}') as Record<string, unknown>,
  };
}

/** The same browser at another process. */
function over(url: string, { cookies, pass }: TestBuyer): TestBuyer {
  const buyer = createTestBuyer(url, 'show');
  for (const [name, value] of cookies) buyer.cookies.set(name, value);
  buyer.pass = pass;
  return buyer;
}
