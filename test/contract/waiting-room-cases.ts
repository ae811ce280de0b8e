import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import type { Phase } from '../../src/core/phase.ts';
import {
  type AdmissionControl,
  ceilingStep,
  type JoinOutcome,
  type RedeemOutcome,
  type WaitingRoom,
} from '../../src/waiting-room/waiting-room.ts';

/** One event in a store of the kind under test, and the levers that the record and the lease are to it. */
export interface RoomUnderTest {
  room: WaitingRoom & AdmissionControl;
  event: number;
  setPhase(phase: Phase): Promise<void>;
  setTerm(term: number): Promise<void>;
  /** As if that long had passed for everything the store remembers. */
  elapse(ms: number): Promise<void>;
  ceiling(): Promise<number>;
  /** How far above the last number the ceiling may be; `ceilingStep` unless told: where the line is quick it is further. */
  aheadMax?: number;
  /** The store forgets visitors by itself: a sweep finds none. */
  forgetsAlone?: boolean;
}

export const visitorNamed = (name: string): string =>
  createHash('sha256').update(name).digest().subarray(0, 16).toString('base64url');
const visitors = (count: number, prefix = 'v'): string[] =>
  Array.from({ length: count }, (_, index) => visitorNamed(`${prefix}${index}`));

export function joined(outcome: JoinOutcome | undefined): Extract<JoinOutcome, { kind: 'joined' }> {
  assert.equal(outcome?.kind, 'joined');
  return outcome as Extract<JoinOutcome, { kind: 'joined' }>;
}

export function issued(outcome: RedeemOutcome): Extract<RedeemOutcome, { kind: 'issued' }> {
  assert.equal(outcome.kind, 'issued', JSON.stringify(outcome));
  return outcome as Extract<RedeemOutcome, { kind: 'issued' }>;
}

export const redeemAs = (under: RoomUnderTest, visitor: string, number: number, sessionMs = 900_000) =>
  under.room.redeem({ event: under.event, shard: 0, number, visitor, passId: randomUUID(), sessionMs });

/** The promises of the contract, for each store the same. */
export function waitingRoomContract(
  store: string,
  create: (t: TestContext, phase: Phase) => Promise<RoomUnderTest>,
  options: { skip?: string | false } = {},
): void {
  const on = (title: string, run: (under: RoomUnderTest) => Promise<void>, phase: Phase = 'open'): void => {
    test(`${title} (${store})`, options, async (t) => run(await create(t, phase)));
  };
  joinCases(on);
  redeemCases(on);
  admissionCases(on);
}

type On = (title: string, run: (under: RoomUnderTest) => Promise<void>, phase?: Phase) => void;

function joinCases(on: On): void {
  on('W1: a batch gets strictly increasing numbers in its order', async ({ room, event }) => {
    const first = await room.join(event, 0, visitors(200, 'a'));
    const second = await room.join(event, 0, visitors(100, 'b'));
    const numbers = [...first, ...second].map((outcome) => joined(outcome).number);
    assert.deepEqual(
      numbers,
      Array.from({ length: 300 }, (_, index) => index + 1),
    );
    assert.ok([...first, ...second].every((outcome) => !joined(outcome).repeated));
    assert.deepEqual(await room.lastNumbers(event), [300]);
  });

  on('W1: a repeat within 60 s gets the same number, alone or among others', async ({ room, event }) => {
    const [a, b, c] = visitors(3) as [string, string, string];
    const [first] = await room.join(event, 0, [a]);
    const again = await room.join(event, 0, [b, a, c, b]);
    assert.deepEqual(
      again.map((outcome) => [joined(outcome).number, joined(outcome).repeated]),
      [
        [2, false],
        [1, true],
        [3, false],
        [2, true],
      ],
    );
    assert.equal(joined(again[1]).issuedAt, joined(first).issuedAt);
    assert.deepEqual(await room.lastNumbers(event), [3]);
  });

  on('W1: after 60 s the store has forgotten a visitor, swept or not', async (under) => {
    const { room, event } = under;
    const [a, b] = visitors(2) as [string, string];
    await room.join(event, 0, [a, b]);
    await under.elapse(59_000);
    assert.equal(await room.sweep(event), 0);
    assert.equal(joined((await room.join(event, 0, [a]))[0]).repeated, true);
    await under.elapse(2_000);
    const [later] = await room.join(event, 0, [a]);
    assert.deepEqual([joined(later).number, joined(later).repeated], [3, false]);
    assert.equal(await room.sweep(event), under.forgetsAlone ? 0 : 1, 'only b is left to forget');
    assert.equal(joined((await room.join(event, 0, [a]))[0]).number, 3);
  });

  on('W1: no number reaches the ceiling, which rises ahead of use', async (under) => {
    for (let batch = 0; batch < 42; batch++) {
      const outcomes = await under.room.join(under.event, 0, visitors(500, `${batch}-`));
      assert.ok(joined(outcomes.at(-1)).number < (await under.ceiling()));
    }
    assert.deepEqual(await under.room.lastNumbers(under.event), [21_000]);
    assert.ok((await under.ceiling()) <= 21_000 + (under.aheadMax ?? ceilingStep) + 1);
  });

  on('W5: who may join depends on the phase; all answers of a batch are of one', async (under) => {
    const can: Record<Phase, boolean> = {
      draft: false,
      scheduled: false,
      pre_queue: true,
      open: true,
      paused: true,
      sold_out: true,
      closed: false,
      cancelled: false,
    };
    for (const [phase, may] of Object.entries(can) as [Phase, boolean][]) {
      await under.setPhase(phase);
      const outcomes = await under.room.join(under.event, 0, visitors(3, phase));
      assert.equal(outcomes.length, 3);
      for (const outcome of outcomes) {
        if (may) joined(outcome);
        else assert.deepEqual(outcome, { kind: 'not_open', phase, opensAt: null });
      }
    }
    assert.deepEqual(await under.room.lastNumbers(under.event), [12], 'refused joins draw nothing');
  });

  on('a batch of nobody is answered with nothing', async ({ room, event }) => {
    assert.deepEqual(await room.join(event, 0, []), []);
  });
}

async function line(under: RoomUnderTest, count: number, frontier: number, rate = 1000, burst = 1000) {
  const names = visitors(count);
  await under.room.join(under.event, 0, names);
  await under.setTerm(1);
  // Twice: the bucket fills from the first decision on.
  assert.equal(await under.room.publish(under.event, 1, { frontier: [frontier], rate, burst }), true);
  return names as [string, string, string, string, ...string[]];
}

function redeemCases(on: On): void {
  on('W3: a number at the frontier becomes a pass, one behind it does not', async (under) => {
    const names = await line(under, 4, 2);
    await under.elapse(1_000);
    const pass = issued(await redeemAs(under, names[1], 2));
    assert.equal(pass.repeated, false);
    assert.equal(pass.number, 2);
    assert.equal(pass.expiresAt - pass.issuedAt, 900_000);
    assert.deepEqual(await redeemAs(under, names[2], 3), { kind: 'not_yet', frontier: 2 });
  });

  on('W3: a repeat by the same visitor gets the same pass and costs no token', async (under) => {
    const names = await line(under, 3, 3, 0.001, 2);
    await under.room.publish(under.event, 1, { frontier: [3], rate: 1000, burst: 2 });
    await under.elapse(1_000);
    await under.room.publish(under.event, 1, { frontier: [3], rate: 0.001, burst: 2 });
    const pass = issued(await redeemAs(under, names[0], 1));
    for (let repeat = 0; repeat < 5; repeat++) {
      const again = issued(await redeemAs(under, names[0], 1));
      assert.deepEqual(again, { ...pass, repeated: true });
    }
    issued(await redeemAs(under, names[1], 2));
    assert.equal((await redeemAs(under, names[2], 3)).kind, 'wait', 'both tokens are spent, no more');
  });

  on('W2: a number that was redeemed is refused to every other visitor', async (under) => {
    const names = await line(under, 2, 2);
    await under.elapse(1_000);
    issued(await redeemAs(under, names[0], 1));
    assert.deepEqual(await redeemAs(under, visitorNamed('copy'), 1), { kind: 'used' });
  });

  on('W3: passes are issued in the open phase only; a pass that exists is answered in any', async (under) => {
    const names = await line(under, 2, 2);
    await under.elapse(1_000);
    const pass = issued(await redeemAs(under, names[0], 1));
    for (const phase of ['pre_queue', 'paused', 'sold_out', 'closed', 'cancelled'] as const) {
      await under.setPhase(phase);
      assert.deepEqual(await redeemAs(under, names[1], 2), { kind: 'not_open', phase });
      assert.equal(issued(await redeemAs(under, names[0], 1)).passId, pass.passId);
    }
    await under.setPhase('open');
    issued(await redeemAs(under, names[1], 2));
  });

  on('W3: after a session ended, its number gives no second; one drawn afterwards does', async (under) => {
    const names = await line(under, 2, 1);
    await under.elapse(1_000);
    const first = issued(await redeemAs(under, names[0], 1, 5_000));
    await under.elapse(61_000);
    assert.deepEqual(await redeemAs(under, names[0], 1), { kind: 'over' });
    const [again] = await under.room.join(under.event, 0, [names[0]]);
    assert.equal(joined(again).number, 3, 'at the end of the line');
    assert.deepEqual(await redeemAs(under, names[0], 1), { kind: 'over' });
    assert.equal((await redeemAs(under, names[0], 3)).kind, 'not_yet');
    await under.room.publish(under.event, 1, { frontier: [3], rate: 1000, burst: 1000 });
    const second = issued(await redeemAs(under, names[0], 3));
    assert.notEqual(second.passId, first.passId);
    assert.equal(second.repeated, false);
    assert.equal(issued(await redeemAs(under, names[0], 1)).passId, second.passId, 'never two at once');
  });
}

function admissionCases(on: On): void {
  on('W6: the frontier moves forward only and never past the last number', async (under) => {
    const names = await line(under, 5, 3);
    const frontierNow = async () => {
      const answer = await redeemAs(under, visitorNamed('nobody'), 1_000_000);
      assert.equal(answer.kind, 'not_yet');
      return answer.kind === 'not_yet' ? answer.frontier : null;
    };
    assert.equal(await frontierNow(), 3);
    await under.room.publish(under.event, 1, { frontier: [1], rate: 1, burst: 1 });
    assert.equal(await frontierNow(), 3);
    await under.room.publish(under.event, 1, { frontier: [99], rate: 1, burst: 1 });
    assert.equal(await frontierNow(), 5);
    await under.room.join(under.event, 0, [...names, visitorNamed('sixth')]);
    assert.equal(await frontierNow(), 5);
  });

  on('a decision of another term changes nothing', async (under) => {
    const names = await line(under, 5, 1);
    await under.setTerm(2);
    assert.equal(await under.room.publish(under.event, 1, { frontier: [5], rate: 100, burst: 100 }), false);
    assert.equal(await under.room.publish(under.event, 3, { frontier: [5], rate: 100, burst: 100 }), false);
    assert.deepEqual(await redeemAs(under, names[4]!, 5), { kind: 'not_yet', frontier: 1 });
    assert.equal(await under.room.publish(under.event, 2, { frontier: [5], rate: 100, burst: 100 }), true);
    await under.elapse(1_000);
    issued(await redeemAs(under, names[4]!, 5));
  });

  on('late sleepers who wake together do not break the rate', async (under) => {
    const names = await line(under, 50, 50, 2, 4);
    await under.elapse(3_600_000);
    const outcomes = await Promise.all(names.map((name, index) => redeemAs(under, name, index + 1)));
    const passes = outcomes.filter((outcome) => outcome.kind === 'issued').length;
    assert.ok(passes >= 4 && passes <= 6, `${passes} passes out of a bucket of 4 at 2/s`);
    for (const outcome of outcomes) {
      if (outcome.kind === 'issued') continue;
      assert.equal(outcome.kind, 'wait');
      if (outcome.kind === 'wait') assert.ok(outcome.afterMs >= 0 && outcome.afterMs <= 6_000);
    }
  });

  on('W5: with a rate of 0 and no burst nobody gets in, whatever was saved up', async (under) => {
    const names = await line(under, 2, 2);
    await under.elapse(60_000);
    await under.room.publish(under.event, 1, { frontier: [2], rate: 0, burst: 0 });
    await under.elapse(60_000);
    assert.equal((await redeemAs(under, names[0], 1)).kind, 'wait');
  });
}
