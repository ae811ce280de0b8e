import assert from 'node:assert/strict';
import test, { after, describe, type TestContext } from 'node:test';
import type { Hold } from '../../src/core/hold.ts';
import type { HoldCommand, HoldOutcome, Stale } from '../../src/inventory/arbiter.ts';
import type { RebuildableArbiter, StoredHold } from '../../src/inventory/modes.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { readRedisHolds } from '../../src/inventory/redis/holds.ts';
import { partitionTag } from '../../src/inventory/redis/scripts.ts';
import { RedisFault } from '../../src/redis/faults.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { systemClock as clock } from '../../src/runtime/clock.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import { connectedStore } from '../contract/arbiter-redis-world.ts';
import { idOf, minute, seatsOf } from '../contract/arbiter-world.ts';
import { until } from '../support/app.ts';
import { withoutRedis } from '../support/redis.ts';
import { testRedisCluster } from '../support/redis-cluster.ts';
import { pause } from '../support/wait.ts';

/** The arbiter while a cluster changes under it: four web processes, each with connections of its own to every node. */

const prefix = 'moving';
const cluster = withoutRedis ? null : await testRedisCluster();
const stores: RedisStore[] = cluster
  ? await Promise.all(Array.from({ length: 4 }, () => connectedStore(cluster)))
  : [];
after(() => Promise.all(stores.map((store) => store.close())));

interface Partition {
  event: number;
  tag: string;
  /** One for each process. */
  arbiters: RebuildableArbiter[];
  /** A claim of a visitor of its own; `n` also says which process is asked. */
  hold(n: number, seats: number[]): Promise<HoldOutcome | Stale>;
}
let events = 0;

/** With these holds, as a rebuild takes them along. */
async function openPartition(seats: number, holds: StoredHold[] = []): Promise<Partition> {
  const event = ++events;
  const at = { event, partition: 0, epoch: 1 };
  const tag = partitionTag(prefix, event, 0);
  const runIds = (await stores[0]!.primaries()).map(({ runId }) => runId);
  const arbiters = stores.map((store) => {
    store.trust(tag, runIds);
    return createRedisArbiter({ store, prefix, clock });
  });
  const [first] = arbiters as [RebuildableArbiter];
  const free = Array.from({ length: seats }, (_, seat) => ({
    seat,
    version: 1,
    state: 'available' as const,
  }));
  await surely(() => first.begin(at));
  await surely(() => first.load({ ...at, seats: free }));
  await surely(() => first.remember({ ...at, holds }));
  await surely(() => first.open({ ...at, phase: { phase: 'open', version: 1 }, lastGrant: holds.length }));
  const hold = (n: number, wish: number[]): Promise<HoldOutcome | Stale> =>
    arbiters[n % arbiters.length]!.hold({
      ...at,
      hold: idOf(n),
      visitor: `v${n}`,
      holder: `v${n}`,
      request: wish.join(' '),
      claim: seatsOf(...wish),
      ttlMs: 10 * minute,
      seatsMax: 6,
      replaces: null,
      notAfter: null,
    } satisfies HoldCommand);
  return { event, tag, arbiters, hold };
}

/** Asked again by the same id, as a web process does, until there is an answer. */
async function surely<Outcome>(
  ask: () => Promise<Outcome>,
  failed: (fault: StoreFault) => void = () => {},
): Promise<Outcome> {
  for (;;) {
    try {
      return await ask();
    } catch (fault) {
      if (!(fault instanceof StoreFault)) throw fault;
      failed(fault);
      await pause(2, 'a web process paces its repeats');
    }
  }
}

const buyerCount = 8;
/**
 * On an idle machine it is below the five seconds after which the leader takes it for a loss (busyMsMax of its watch); here other
 * tests run at the same time, and the bound only says that claims go on during the move.
 */
const pauseMsMax = 30_000;

/** Buyers who claim one or two seats of the first `seats` and repeat with the same id until they have a result. */
function crowd({ hold }: Partition, seats: number) {
  const random = seededRandom(77);
  const tally = { granted: 0, taken: 0, busy: 0, late: 0 };
  const grants: Hold[] = [];
  const unexpected: string[] = [];
  let [stopped, next, answeredAt, pauseMs] = [false, 0, clock.monotonic(), 0];

  const failed = (fault: StoreFault): void => {
    if (fault.code === 'store_busy') tally.busy += 1;
    // While a node moves a large key it responds to no client.
    else if (fault instanceof RedisFault && fault.reason === 'timeout') tally.late += 1;
    else unexpected.push(fault.message);
  };
  const claimOf = (n: number, first: number) => () => hold(n, n % 2 === 0 ? [first] : [first, first + 1]);
  async function buyer(): Promise<void> {
    while (!stopped) {
      const first = random.int(seats - 1);
      const outcome = await surely(claimOf(next++, first), failed);
      const now = clock.monotonic();
      pauseMs = Math.max(pauseMs, now - answeredAt);
      answeredAt = now;
      if (outcome.kind === 'granted') {
        tally.granted += 1;
        grants.push(outcome.hold);
      } else if (outcome.kind === 'taken') tally.taken += 1;
      else unexpected.push(outcome.kind);
    }
  }
  const buyers = Promise.all(Array.from({ length: buyerCount }, buyer));
  const answered = (): number => tally.granted + tally.taken;
  return {
    tally,
    /** Waits for so many more answers. */
    more: (count: number) => {
      const goal = answered() + count;
      return until(async () => answered() >= goal, `${count} more answers`);
    },
    /** Whether a claim has to come again; false if so many had a result that some of them were sent after the question. */
    async isBusy(): Promise<boolean> {
      const [busy, answers] = [tally.busy, answered()];
      await until(async () => tally.busy > busy || answered() > answers + 2 * buyerCount, 'any answer');
      return tally.busy > busy;
    },
    /** The grants, the longest time without any response, and all outcomes that no claim may have. */
    async stop() {
      stopped = true;
      await buyers;
      return { grants, pauseMs: Math.round(pauseMs), unexpected };
    },
  };
}

/** S3 and S8 of the partition itself, and that it knows each of these grants (all of them live). */
async function audit(
  { event, arbiters, tag }: Partition,
  grants: readonly Pick<Hold, 'hold' | 'seats' | 'grant'>[],
): Promise<void> {
  const at = { event, partition: 0 };
  const holds = await readRedisHolds(stores[0]!, prefix, at);
  const known = new Map(holds.map((hold) => [hold.hold, hold]));
  assert.equal(known.size, holds.length);
  assert.deepEqual(
    grants.filter(({ hold, seats, grant }) => {
      const found = known.get(hold);
      return found?.state !== 'live' || found.grant !== grant || String(found.seats) !== String(seats);
    }),
    [],
    'every grant that was answered is there',
  );
  const held = holds.flatMap(({ seats }) => seats).sort((a, b) => a - b);
  assert.equal(new Set(held).size, held.length, 'no seat is held twice');
  assert.equal(new Set(holds.map(({ grant }) => grant)).size, holds.length, 'no grant number twice');
  const { codes } = await arbiters[1]!.snapshot(event, 0);
  assert.deepEqual(
    [...codes].flatMap((code, seat) => (code === 1 ? [seat] : [])),
    held,
    `as the picture of ${tag} says`,
  );
}

/** A move of the slot under the crowd's claims: how often none of the two nodes could answer, and for how long. */
async function migrateUnder(
  t: TestContext,
  partition: Partition,
  seats: number,
  before: readonly StoredHold[] = [],
): Promise<number> {
  const { tag } = partition;
  const target = await cluster!.otherPrimary(tag);
  const claims = crowd(partition, seats);
  await claims.more(20);
  let whole = 0;
  let halves = 0;
  await cluster!.migrateSlot(tag, target, async (left) => {
    whole ||= left;
    // The partition is answered while it is wholly on the old node, or wholly on the new node and asked for
    // by ASK. While it is half on each node, it is not answered.
    if (left === whole || left === 0) await claims.more(5);
    else halves += Number(await claims.isBusy());
  });
  await claims.more(20);
  const { grants, pauseMs, unexpected } = await claims.stop();
  const { tally } = claims;
  t.diagnostic(`${seats} seats: nobody was answered for ${pauseMs} ms; ${JSON.stringify(tally)}`);
  // Five keys, moved one by one; the probe's is no claim's.
  assert.ok(halves >= 4, `${halves} times busy`);
  assert.deepEqual(unexpected, []);
  assert.equal(await cluster!.primaryOf(tag), target);
  await audit(partition, [...before, ...grants]);
  return pauseMs;
}

/** A hold of six seats for each number up to `count`, as a former store took them down; the seats from `first` on. */
function storedHolds(count: number, first: number): StoredHold[] {
  const now = clock.now();
  return Array.from({ length: count }, (_, i) => ({
    hold: idOf(1_000_000 + i),
    visitor: `h${i}`,
    holder: `h${i}`,
    request: 'r',
    seats: [0, 1, 2, 3, 4, 5].map((k) => first + 6 * i + k),
    grantedAt: now,
    deadline: now + 10 * minute,
    grant: i + 1,
    order: null,
    state: 'live',
  }));
}

describe('a slot moves between two primaries of a cluster', { skip: withoutRedis }, () => {
  test('D1: a partition without seats or holds answers before its first key goes and once its last key is there', async () => {
    const partition = await openPartition(0);
    const { event, tag, arbiters } = partition;
    const [one, two] = arbiters as [RebuildableArbiter, RebuildableArbiter];
    const asked: string[] = [];
    await cluster!.migrateSlot(tag, await cluster!.otherPrimary(tag), async (left) => {
      const answers = await Promise.allSettled([
        one.probe(event, 0),
        two.find(event, 0, idOf(1)),
        one.snapshot(event, 0),
        two.sweep(event, 0, 10),
      ]);
      const faults = answers.flatMap((answer) =>
        answer.status === 'rejected' ? [(answer.reason as StoreFault).code] : [],
      );
      asked.push(`${left}: ${faults.join() || 'answered'}`);
    });
    const halves = asked.slice(1, -1);
    assert.deepEqual(asked, ['6: answered', ...halves, '0: answered']);
    // Half here and half there; the probe has a key more than the others.
    assert.equal(halves.length, 5);
    for (const said of halves) assert.match(said, /^\d: store_busy/);
    assert.deepEqual(await partition.hold(1, [0, 1]), { kind: 'taken', seats: [0, 1] });
  });

  test('the holds of a partition are read whole although its slot moves while they are read', async () => {
    const holds = storedHolds(1_000, 0);
    const { event, tag } = await openPartition(6_000, holds);
    const [store] = stores as [RedisStore];
    let pages = 0;
    const moving: Pick<RedisStore, 'call'> = {
      call: async (...asked) => {
        const page = await store.call(...asked);
        if (pages++ === 0) await cluster!.migrateSlot(tag, await cluster!.otherPrimary(tag));
        return page;
      },
    };
    const found = await readRedisHolds(moving, prefix, { event, partition: 0 });
    assert.ok(pages > 2, `${pages} pages`);
    assert.deepEqual(
      found.sort((a, b) => a.grant - b.grant),
      holds,
    );
  });

  test('S3 D1: claims go on while a slot moves: each is granted, refused or told to come again, and none is lost', async (t) => {
    const pauseMs = await migrateUnder(t, await openPartition(600), 600);
    assert.ok(pauseMs < pauseMsMax, `no buyer was answered for ${pauseMs} ms`);
  });

  test('S3 D1: likewise with 50,000 seats, all but a few of them held', async (t) => {
    const holds = storedHolds(8_250, 400);
    const pauseMs = await migrateUnder(t, await openPartition(50_000, holds), 1_200, holds);
    assert.ok(pauseMs < pauseMsMax, `no buyer was answered for ${pauseMs} ms`);
  });
});
