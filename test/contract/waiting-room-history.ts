import assert from 'node:assert/strict';
import type { Phase } from '../../src/core/phase.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import type { JoinOutcome, RedeemOutcome } from '../../src/waiting-room/waiting-room.ts';
import { type RoomUnderTest, redeemAs, visitorNamed } from './waiting-room-cases.ts';

/** One command on a store; what it answered, without instants and drawn ids. */
type Command = (under: RoomUnderTest) => Promise<unknown>;

const withoutInstants = (outcome: JoinOutcome | RedeemOutcome) =>
  Object.fromEntries(
    Object.entries(outcome).filter(([key]) => !['issuedAt', 'expiresAt', 'passId', 'afterMs'].includes(key)),
  );

/** Commands that often meet each other: few visitors, few numbers. A bucket that is always full or always empty. */
function drawCommands(seed: number, count: number): Command[] {
  const random = seededRandom(seed);
  const visitor = () => visitorNamed(`v${random.int(8)}`);
  const one = <T>(list: readonly T[]): T => list[random.int(list.length)]!;
  let joinedMost = 0;
  return Array.from({ length: count }, (): Command => {
    const kind = random.int(20);
    if (kind < 6) {
      const visitors = Array.from({ length: random.int(4) + 1 }, visitor);
      joinedMost += visitors.length;
      return async ({ room, event }) => (await room.join(event, 0, visitors)).map(withoutInstants);
    }
    if (kind < 13) {
      // Low ones more often: they are called soon.
      const number = random.int(random.int(joinedMost + 2) + 1) + 1;
      const [name, sessionMs] = [visitor(), one([20_000, 900_000])];
      return async (under) => withoutInstants(await redeemAs(under, name, number, sessionMs));
    }
    if (kind < 16) {
      const decision = {
        frontier: [random.int(joinedMost + 3)],
        ...one([
          { rate: 1e9, burst: 3 },
          { rate: 0, burst: 0 },
        ]),
      };
      const term = one([1, 1, 1, 2]);
      return ({ room, event }) => room.publish(event, term, decision);
    }
    if (kind === 16) {
      const phase = one<Phase>(['open', 'open', 'open', 'paused', 'sold_out', 'closed']);
      return (under) => under.setPhase(phase);
    }
    if (kind === 17) return ({ room, event }) => room.lastNumbers(event);
    if (kind === 18) {
      return async ({ room, event, forgetsAlone }) => {
        const forgotten = await room.sweep(event);
        assert.ok(!forgetsAlone || forgotten === 0);
      };
    }
    const ms = one([1_000, 30_000, 61_000]);
    return (under) => under.elapse(ms);
  });
}

/** Runs the same commands on both and compares. Returns the kinds of outcomes that occurred. */
export async function sameAnswers(
  reference: RoomUnderTest,
  store: RoomUnderTest,
  seed: number,
  count: number,
): Promise<Set<string>> {
  const kinds = new Set<string>();
  for (const one of [reference, store]) await one.setTerm(1);
  for (const [index, command] of drawCommands(seed, count).entries()) {
    const [expected, found] = [await command(reference), await command(store)];
    assert.deepEqual(found, expected, `seed ${seed}, command ${index}`);
    for (const match of JSON.stringify(expected ?? null).matchAll(/"kind":"(\w+)"/g)) kinds.add(match[1]!);
    // A moment for the bucket, by each store's own clock.
    await reference.elapse(1);
  }
  return kinds;
}
