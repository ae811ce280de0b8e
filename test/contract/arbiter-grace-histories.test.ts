import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import type { Hold } from '../../src/core/hold.ts';
import { type Random, seededRandom } from '../../src/runtime/random.ts';
import { testDatabase } from '../support/postgres.ts';
import { inProcessWorld } from './arbiter-in-process-world.ts';
import { postgresWorld, testDb } from './arbiter-postgres-world.ts';
import { commandsOf, idOf, minute, seatsOf } from './arbiter-world.ts';

/**
 * Random histories with a loss in the middle, compared result by result: holds and releases that leave receipts behind; then all
 * of these in any order, mixed with releases and decisions; then the end of grace. ONSALE_TEST_SEED replays one.
 */
const seats = 10;
const visitors = ['visitor-a', 'visitor-b', 'cid', 'visitor-d'];
const seeds = process.env.ONSALE_TEST_SEED ? [Number(process.env.ONSALE_TEST_SEED)] : [1, 2, 3, 4, 5, 6];

const database = await testDatabase();
const db = testDb(database, 2);
after(() => db.close());

type Commands = ReturnType<typeof commandsOf>;
/** The two stores' receipts of one hold: their times and numbers differ. */
type Receipts = [Hold, Hold];
type Step = (commands: Commands, receiptOf: (receipts: Receipts) => Hold) => Promise<unknown>;

const kinds = new Set<string>();

for (const seed of seeds) {
  test(`D1: history ${seed} with a loss goes in Postgres as in the reference`, async () => {
    const random = seededRandom(seed * 6_151);
    const worlds = [await inProcessWorld(), await postgresWorld(database, db)] as const;
    const commands = worlds.map(commandsOf) as [Commands, Commands];
    const past: string[] = [];
    const both = async (name: string, step: Step): Promise<[unknown, unknown]> => {
      past.push(name);
      const expected = await step(commands[0], (receipts) => receipts[0]);
      const actual = await step(commands[1], (receipts) => receipts[1]);
      const where = `seed ${seed}:\n${past.join('\n')}`;
      assert.deepEqual(comparable(actual), comparable(expected), where);
      assert.deepEqual(await commands[1].codes(), await commands[0].codes(), where);
      kinds.add(`${name.split(' ')[0]} ${(expected as { kind?: string } | null)?.kind ?? ''}`);
      return [expected, actual];
    };
    await both('load', (c) => c.load(seats));
    const receipts: Receipts[] = [];
    for (let round = 0; round < 2; round++) {
      for (let i = 0; i < 24; i++) await before(random, both, receipts, round * 100 + i);
      for (const world of worlds) world.epoch = await world.lose!(minute);
      for (let i = 0; i < 30; i++) await inGrace(random, both, receipts);
      for (const world of worlds) await world.advance(minute);
      for (const one of receipts) await both(`after ${one[0].hold}`, (c, of) => c.recover(of(one), 4));
    }
  });
}

test('the histories reach every answer to a receipt', { skip: seeds.length === 1 }, () => {
  const expected = ['recover recovering', 'recover taken', 'recover hold_gone'];
  assert.deepEqual(
    [...expected, 'after recovered', 'after taken', 'after hold_gone'].filter((kind) => !kinds.has(kind)),
    [],
  );
});

type Both = (name: string, step: Step) => Promise<[unknown, unknown]>;

async function before(random: Random, both: Both, receipts: Receipts[], n: number): Promise<void> {
  const late = receipts.at(-1 - random.int(4))?.[0];
  const roll = random.int(10);
  if (late && roll < 4) {
    await both(`release ${late.hold}`, (c) => c.release(numberOf(late), late.visitor));
  } else if (late && roll === 4) {
    const outcomes = await both(`extend ${late.hold}`, (c) => c.extend(numberOf(late), late.visitor, 900));
    keep(receipts, outcomes, 'extended');
  } else {
    const visitor = visitors[random.int(visitors.length)]!;
    const first = random.int(seats - 2);
    const claim = seatsOf(...[first, first + 1, first + 2].slice(random.int(3)));
    const more = { holder: random.int(2) ? 'account' : visitor, seatsMax: 4 };
    const name = `hold ${n} ${visitor} ${more.holder} ${JSON.stringify(claim)}`;
    keep(receipts, await both(name, (c) => c.hold(n, visitor, claim, more)), 'granted');
  }
}

async function inGrace(random: Random, both: Both, receipts: Receipts[]): Promise<void> {
  const one = receipts[random.int(receipts.length)]!;
  const roll = random.int(12);
  if (roll === 0) {
    await both(`release ${one[0].hold}`, (c) => c.release(numberOf(one[0]), one[0].visitor));
  } else if (roll === 1) {
    const seat = random.int(seats);
    const state = random.int(2) ? 'sold' : 'available';
    const version = 2 + random.int(1_000);
    await both(`project ${seat} ${state} ${version}`, (c) => c.project([[seat, version, state]]));
  } else if (roll === 2) {
    await both(`hold ${one[0].hold}`, (c) => c.hold(numberOf(one[0]), one[0].visitor, seatsOf(0)));
  } else {
    await both(`recover ${one[0].hold}`, (c, of) => c.recover(of(one), 4));
  }
}

function keep(receipts: Receipts[], outcomes: [unknown, unknown], kind: string): void {
  const [one, other] = outcomes as [{ kind: string; hold: Hold }, { kind: string; hold: Hold }];
  if (one.kind === kind) receipts.push([one.hold, other.hold]);
}

const numberOf = (hold: Hold): number => {
  const n = Number.parseInt(hold.hold.slice(-12), 16);
  assert.equal(idOf(n), hold.hold);
  return n;
};

/** Without times, and without the numbers that each store gives. */
function comparable(answer: unknown): unknown {
  if (answer === null || typeof answer !== 'object') return answer ?? null;
  const { until: _until, afterMs: _afterMs, ...rest } = answer as { until?: number; afterMs?: number };
  if (!('hold' in rest)) return rest;
  const { seats: held, visitor, holder, order } = rest.hold as Hold;
  return { ...rest, hold: { held, visitor, holder, order } };
}
