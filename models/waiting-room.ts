import type { EventNo, Visitor } from '../src/core/hold.ts';
import { assert } from '../src/core/outcome.ts';
import { allows, type Phase } from '../src/core/phase.ts';
import type { Clock } from '../src/runtime/clock.ts';
import type { Random } from '../src/runtime/random.ts';
import {
  type AdmissionControl,
  ceilingStep,
  type JoinOutcome,
  joinBatchMax,
  joinMemoryMs,
  type RedeemCommand,
  type RedeemOutcome,
  type WaitingRoom,
} from '../src/waiting-room/waiting-room.ts';

/** The store's data of an event; the record owns it. */
export interface InProcessEvent {
  phase: Phase;
  opensAt: number | null;
  /** The term of the lease that rules; decisions of another are refused. */
  term: number;
}

interface Pass {
  passId: string;
  shard: number;
  number: number;
  issuedAt: number;
  expiresAt: number;
}

interface State {
  counters: { last: number; ceiling: number }[];
  recent: Map<Visitor, { shard: number; number: number; issuedAt: number }>;
  passes: Map<Visitor, Pass>;
  redeemed: Map<string, Visitor>;
  frontier: number[];
  rate: number;
  burst: number;
  tokens: number;
  refilledAt: number;
}

export interface InProcessWaitingRoom extends WaitingRoom, AdmissionControl {
  /** The ceiling of numbers per shard, and what the leader decided last: for tests and simulation. */
  inspect(event: EventNo): { ceilings: number[]; frontier: number[]; rate: number; tokens: number };
}

/** The waiting room in memory: the specification of the others, and the simulator's store. */
export function createInProcessWaitingRoom(options: {
  clock: Pick<Clock, 'now'>;
  random: Random;
  eventOf: (event: EventNo) => InProcessEvent;
  /** Counters per event; 1 unless the queue is sharded. */
  shards?: number;
}): InProcessWaitingRoom {
  const { clock, random, eventOf, shards = 1 } = options;
  const states = new Map<EventNo, State>();

  function stateOf(event: EventNo): State {
    const found = states.get(event);
    if (found) return found;
    const created: State = {
      counters: Array.from({ length: shards }, () => ({ last: 0, ceiling: ceilingStep })),
      recent: new Map(),
      passes: new Map(),
      redeemed: new Map(),
      frontier: Array.from({ length: shards }, () => 0),
      rate: 0,
      burst: 1,
      tokens: 0,
      refilledAt: clock.now(),
    };
    states.set(event, created);
    return created;
  }

  return {
    async join(event, shard, visitors) {
      assert(visitors.length <= joinBatchMax, `a batch of joins has at most ${joinBatchMax}`);
      const { phase, opensAt } = eventOf(event);
      if (!allows(phase, 'join')) return visitors.map(() => ({ kind: 'not_open', phase, opensAt }));
      return visitors.map((visitor) => joinOne(stateOf(event), shard, visitor, clock.now()));
    },

    async redeem(command) {
      return redeemOne(stateOf(command.event), command, eventOf(command.event).phase, clock.now(), random);
    },

    async lastNumbers(event) {
      return stateOf(event).counters.map((counter) => counter.last);
    },

    async sweep(event) {
      const { recent } = stateOf(event);
      const before = recent.size;
      for (const [visitor, { issuedAt }] of recent) {
        if (issuedAt <= clock.now() - joinMemoryMs) recent.delete(visitor);
      }
      return before - recent.size;
    },

    async publish(event, term, decision) {
      if (eventOf(event).term !== term) return false;
      const state = stateOf(event);
      state.frontier = state.counters.map(({ last }, shard) =>
        Math.max(state.frontier[shard]!, Math.min(decision.frontier[shard] ?? 0, last)),
      );
      const now = clock.now();
      state.tokens = Math.min(decision.burst, tokensAt(state, now));
      state.refilledAt = now;
      state.rate = decision.rate;
      state.burst = decision.burst;
      return true;
    },

    inspect(event) {
      const state = stateOf(event);
      return {
        ceilings: state.counters.map((counter) => counter.ceiling),
        frontier: [...state.frontier],
        rate: state.rate,
        tokens: tokensAt(state, clock.now()),
      };
    },
  };
}

function joinOne(state: State, shard: number, visitor: Visitor, now: number): JoinOutcome {
  const counter = state.counters[shard];
  assert(counter, `shard ${shard} exists`);
  const remembered = state.recent.get(visitor);
  if (remembered && remembered.issuedAt > now - joinMemoryMs) {
    return { kind: 'joined', ...remembered, repeated: true };
  }
  counter.last += 1;
  // Raised before the number leaves: none ever reaches the ceiling (W1).
  if (counter.last + ceilingStep / 2 >= counter.ceiling) counter.ceiling = counter.last + ceilingStep + 1;
  const drawn = { shard, number: counter.last, issuedAt: now };
  state.recent.set(visitor, drawn);
  return { kind: 'joined', ...drawn, repeated: false };
}

function tokensAt(state: State, now: number): number {
  return Math.min(state.burst, state.tokens + (Math.max(0, now - state.refilledAt) / 1000) * state.rate);
}

function redeemOne(
  state: State,
  command: RedeemCommand,
  phase: Phase,
  now: number,
  random: Random,
): RedeemOutcome {
  const { shard, number, visitor, passId, sessionMs } = command;
  const existing = state.passes.get(visitor);
  // A session that ended may be followed by another, with a number drawn afterwards; until then it is the one pass (W3).
  if (existing && (existing.expiresAt > now || existing.number >= number || existing.shard !== shard)) {
    if (existing.expiresAt <= now) return { kind: 'over' };
    const { shard: _, ...pass } = existing;
    return { kind: 'issued', ...pass, repeated: true };
  }
  if (!allows(phase, 'redeem')) return { kind: 'not_open', phase };
  if (state.redeemed.has(`${shard}:${number}`)) return { kind: 'used' };
  const frontier = state.frontier[shard] ?? 0;
  if (number > frontier) return { kind: 'not_yet', frontier };
  const tokens = tokensAt(state, now);
  if (tokens < 1) return { kind: 'wait', afterMs: waitMs(tokens, state.rate) + random.int(1000) };
  state.tokens = tokens - 1;
  state.refilledAt = now;
  if (existing) state.redeemed.delete(`${existing.shard}:${existing.number}`);
  state.redeemed.set(`${shard}:${number}`, visitor);
  const pass = { passId, number, issuedAt: now, expiresAt: now + sessionMs };
  state.passes.set(visitor, { ...pass, shard });
  return { kind: 'issued', ...pass, repeated: false };
}

/** With no rate there is nothing to wait for but the leader's next decision. */
function waitMs(tokens: number, rate: number): number {
  return rate > 0 ? Math.min(5000, Math.ceil((1000 * (1 - tokens)) / rate)) : 3000;
}
