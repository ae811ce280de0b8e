import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import type { Hold } from '../../src/core/hold.ts';
import { type Random, seededRandom } from '../../src/runtime/random.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';
import { inProcessWorld } from './arbiter-in-process-world.ts';
import { postgresWorld, testDb } from './arbiter-postgres-world.ts';
import { connectedStore, type RedisWorld, redisWorld } from './arbiter-redis-world.ts';
import { type ArbiterWorld, commandsOf, idOf, minute, seatsOf } from './arbiter-world.ts';

/**
 * Random histories, the same in a store and in the reference, compared result by result and snapshot by snapshot.
 * ONSALE_TEST_SEED replays one.
 * The stores' clocks differ, so only durations are compared; time passes in steps that stay at least
 * 8 seconds away from every deadline, which is more than a history takes.
 */
const stepMs = 77_000;
const seats = 14;
const steps = 180;
const visitors = ['visitor-a', 'visitor-b', 'cid', 'visitor-d'];
const seeds = process.env.ONSALE_TEST_SEED
  ? [Number(process.env.ONSALE_TEST_SEED)]
  : [1, 2, 3, 4, 5, 6, 7, 8];

const database = await testDatabase();
const db = testDb(database, 2);
after(() => db.close());
const redis = withoutRedis ? null : await testRedis();
const store = redis && (await connectedStore(redis));
after(() => store?.close());

/** Every answer seen, of all histories. */
const kinds = new Set<string>();

interface Grant {
  id: number;
  visitor: string;
  /** Only such a hold can become an order. */
  extended?: boolean;
}
type Commands = ReturnType<typeof commandsOf>;
type Step = (commands: Commands, world: ArbiterWorld) => Promise<unknown>;

for (const seed of seeds) {
  test(`S1-S8: history ${seed} goes in Postgres as in the reference`, async () =>
    compare(seed, await inProcessWorld(), await postgresWorld(database, db), {
      epoch: newEpoch,
      // A claim to a forgotten id makes room there, whatever becomes of it: the next sweep has one less.
      sameSweeps: false,
    }));

  test(
    `S1-S8: history ${seed} goes in Redis as in the reference, rebuilds in the middle of it unnoticed`,
    {
      skip: withoutRedis,
    },
    async () =>
      compare(seed, await inProcessWorld(), await redisWorld(redis!, store!, redis!.client()), {
        epoch: takenAlong,
        sameSweeps: true,
      }),
  );
}

/** The effect of a new epoch on a world: every hold is over… */
const newEpoch: Step = async (_, world) => {
  world.epoch = await world.setMode('postgres');
};
/** …or, if holds and memories are copied to a store that is rebuilt, no visible effect. */
const takenAlong: Step = async (_, world) => {
  if (!('rebuild' in world)) return;
  const rebuilt = world as RedisWorld;
  const { holds, bereft } = await rebuilt.dump();
  if (bereft) return;
  rebuilt.epoch = await rebuilt.rebuild(holds);
  if (holds.some(({ state }) => state === 'live')) kinds.add('rebuilt');
};

async function compare(
  seed: number,
  reference: ArbiterWorld,
  compared: ArbiterWorld,
  { epoch, sameSweeps }: { epoch: Step; sameSweeps: boolean },
): Promise<void> {
  const random = seededRandom(seed * 7_919);
  const worlds = [reference, compared] as const;
  const commands = worlds.map(commandsOf) as [Commands, Commands];
  for (const c of commands) await c.load(seats);
  const past: string[] = [];
  const grants: Grant[] = [];
  for (let i = 0; i < steps; i++) {
    const [name, step] = drawStep(random, i + 1, grants, epoch);
    past.push(name);
    const [expected, actual] = [await step(commands[0], worlds[0]), await step(commands[1], worlds[1])];
    const where = `seed ${seed}, step ${i}:\n${past.join('\n')}`;
    if (name !== 'sweep' || sameSweeps) assert.deepEqual(comparable(actual), comparable(expected), where);
    assert.deepEqual(await commands[1].codes(), await commands[0].codes(), where);
    const outcome = expected as { kind?: string; hold?: Hold } | null;
    if (outcome?.kind === 'granted') {
      const { hold, visitor } = outcome.hold!;
      grants.push({ id: Number.parseInt(hold.slice(-12), 16), visitor });
    }
    if (outcome?.kind === 'extended') {
      const id = Number.parseInt(outcome.hold!.hold.slice(-12), 16);
      grants.findLast((grant) => grant.id === id)!.extended = true;
    }
    kinds.add(`${name.split(' ')[0]} ${outcome?.kind ?? ''}`);
  }
}

test('the histories reach every answer worth comparing', { skip: seeds.length === 1 }, () => {
  const hold = [
    'granted',
    'taken',
    'hold_exists',
    'quota',
    'address_quota',
    'mismatch',
    'hold_gone',
    'not_open',
  ];
  const expected = [
    ...hold.map((kind) => `hold ${kind}`),
    ...['extended', 'bound', 'hold_gone'].map((kind) => `extend ${kind}`),
    ...['released', 'bound', 'hold_gone'].map((kind) => `release ${kind}`),
  ];
  if (redis) expected.push('rebuilt');
  assert.deepEqual(
    expected.filter((kind) => !kinds.has(kind)),
    [],
  );
});

function drawStep(random: Random, n: number, grants: Grant[], epoch: Step): [string, Step] {
  // Mostly one of the latest grants, and mostly by its owner: otherwise nearly all answers are "gone".
  const any = visitors[random.int(visitors.length)]!;
  const late = grants.at(-1 - random.int(4));
  const chosen: Grant = random.int(4) > 0 && late ? late : { id: 1 + random.int(n), visitor: any };
  const earlier = chosen.id;
  const visitor = random.int(5) === 0 ? any : chosen.visitor;
  const order = 1_000 + random.int(2);
  const roll = random.int(100);
  if (roll < 40) return drawHold(random, n, random.int(2) ? visitor : any, earlier);
  if (roll < 55) return [`extend ${earlier} ${visitor} ${order}`, (c) => c.extend(earlier, visitor, order)];
  if (roll < 65) {
    const force = random.int(2) === 0 ? order : undefined;
    return [`release ${earlier} ${visitor} ${force}`, (c) => c.release(earlier, visitor, force)];
  }
  if (roll < 78) return drawProject(random, n, chosen);
  if (roll < 88) {
    const ms = stepMs * (1 + random.int(5));
    return [`advance ${ms}`, (_, world) => world.advance(ms)];
  }
  if (roll < 92) return ['sweep', (c) => c.sweep(3)];
  if (roll < 95) {
    const phase = random.int(6) === 0 ? 'paused' : 'open';
    return [`phase ${phase}`, (_, world) => world.setPhase(phase)];
  }
  if (roll < 99) return [`find ${earlier}`, (c) => c.find(earlier)];
  return ['epoch', epoch];
}

function drawHold(random: Random, n: number, visitor: string, earlier: number): [string, Step] {
  const set = (size: number) => {
    const all = Array.from({ length: seats }, (_, seat) => seat);
    return Array.from({ length: size }, () => all.splice(random.int(all.length), 1)[0]!);
  };
  const size = 1 + random.int(3);
  const kind = random.int(3);
  const claim =
    kind === 0
      ? seatsOf(...set(size))
      : kind === 1
        ? { kind: 'groups' as const, groups: [set(size), set(size), set(size)] }
        : { kind: 'units' as const, first: 4, count: 8, quantity: size, start: random.int(8) };
  const id = random.int(6) === 0 ? earlier : n;
  const holder = random.int(3) === 0 ? 'account' : visitor;
  const replaces = random.int(4) === 0 && earlier !== id ? idOf(earlier) : null;
  const address = [null, { id: 'home', seatsMax: 3 + random.int(3) }, { id: 'office', seatsMax: 5 }][
    random.int(3)
  ];
  const more = { holder, replaces, seatsMax: 3 + random.int(3), address };
  const name = `hold ${id} ${visitor} ${holder} ${JSON.stringify(claim)} ${replaces} ${more.seatsMax} ${JSON.stringify(address)}`;
  return [name, (c) => c.hold(id, visitor, claim, more)];
}

function drawProject(random: Random, n: number, { id, extended }: Grant): [string, Step] {
  const states = ['available', 'available', 'available', 'available', 'reserved', 'sold', 'blocked'] as const;
  const changes = Array.from({ length: random.int(3) }, (_, i) => {
    const version = Math.max(1, n - random.int(20));
    return [i * 5 + random.int(5), version, states[random.int(states.length)]!] as [
      number,
      number,
      'available',
    ];
  });
  const ended = random.int(4) ? [] : [random.int(2) ? id : 1 + random.int(n)];
  const holds = { ordered: extended ? [id] : [], ended };
  return [`project ${JSON.stringify([changes, holds])}`, (c) => c.project(changes, holds)];
}

/** Times as lengths, and no names of the store itself. */
function comparable(answer: unknown): unknown {
  if (answer === null || typeof answer !== 'object') return answer ?? null;
  if ('hold' in answer && typeof answer.hold === 'object') {
    return { ...answer, hold: comparableHold(answer.hold as Hold) };
  }
  return 'grantedAt' in answer ? comparableHold(answer as Hold) : answer;
}

function comparableHold({
  event: _event,
  epoch: _epoch,
  grant: _grant,
  grantedAt,
  deadline,
  ...hold
}: Hold): unknown {
  // `extend` sets some deadlines by "now", which the two clocks reach some milliseconds apart.
  return { ...hold, lifeMinutes: Math.round((deadline - grantedAt) / (minute / 6)) };
}
