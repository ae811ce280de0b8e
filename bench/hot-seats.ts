import { performance } from 'node:perf_hooks';
import { ownCpuMs } from './cpu-time.ts';
import { quantile, type Sample } from './measure.ts';

/** Claims in flight at any instant, and before the next ones go to fresh seats. */
export const inFlight = 500;
/** Seats (or units of a general-admission area) that a round's claims want. */
export const hotSeats = 100;

/** A store with fresh seats, ready for contention. */
export interface StoredArena {
  /** Rounds that there are fresh seats for. */
  rounds: number;
  /**
   * One buyer's claim to one seat of the round: `seat` is its place in it, 0 to 99; a seller of interchangeable units chooses
   * itself. Returns the number of the granted seat, unique in the arena, or null if it was refused. An error is a fault of the
   * bench, not a result.
   */
  claim(round: number, seat: number, buyer: number): Promise<number | null>;
  /** The numbers of everything that is held at the end, according to the store. */
  held(): Promise<number[]>;
  close(): Promise<void>;
}
export interface Arena extends StoredArena {
  /** CPU time that the store has used. */
  storeCpuMs(): number;
}

const warmUpRounds = 4;

/**
 * 500 buyers in flight without a pause on 100 hot seats, each 500 claims on the next 100, until the time is over. Every answer
 * is counted, each round's grants are compared (no seat twice), and at the end the store's own state with what it answered.
 */
export async function contend(open: () => Promise<Arena>, seconds: number): Promise<Sample> {
  const arena = await open();
  try {
    const granted = new Map<number, number>();
    await rush(arena, granted, { from: 0, to: warmUpRounds, untilMs: Number.POSITIVE_INFINITY });
    const before = { own: ownCpuMs(), store: arena.storeCpuMs() };
    const { answers, elapsedMs, refused, latencies, rounds } = await rush(arena, granted, {
      from: warmUpRounds,
      to: arena.rounds,
      untilMs: seconds * 1_000,
    });
    const used = { own: ownCpuMs() - before.own, store: arena.storeCpuMs() - before.store };
    await checkHeld(arena, granted);
    return {
      value: (answers / elapsedMs) * 1_000,
      detail: {
        answers,
        refused,
        rounds,
        p50Ms: quantile(latencies, 0.5),
        p99Ms: quantile(latencies, 0.99),
        clientCpuUs: (used.own / answers) * 1_000,
        storeCpuUs: (used.store / answers) * 1_000,
        doubleHolds: 0,
      },
    };
  } finally {
    await arena.close();
  }
}

async function rush(
  arena: Arena,
  granted: Map<number, number>,
  { from, to, untilMs }: { from: number; to: number; untilMs: number },
) {
  const first = from * inFlight;
  const last = to * inFlight;
  const latencies: number[] = [];
  let next = first;
  let refused = 0;
  const open = new Map<number, number>();
  const startedAt = performance.now();
  let stopAt = last;

  const buyer = async (): Promise<void> => {
    while (next < stopAt) {
      // Rounds are always gone through to their end.
      if (next % inFlight === 0 && performance.now() - startedAt >= untilMs) {
        stopAt = next;
        return;
      }
      const claim = next++;
      const round = Math.floor(claim / inFlight);
      const sentAt = performance.now();
      const seat = await arena.claim(round, seatWanted(claim), claim);
      latencies.push(performance.now() - sentAt);
      if (seat === null) refused++;
      else if (granted.has(seat))
        throw new Error(`seat ${seat} is held twice: by ${granted.get(seat)} and ${claim}`);
      else granted.set(seat, claim);
      const done = (open.get(round) ?? 0) + 1;
      open.set(round, done);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, buyer));
  const elapsedMs = performance.now() - startedAt;
  const rounds = (stopAt - first) / inFlight;
  const answers = latencies.length;
  if (answers !== rounds * inFlight) throw new Error(`${answers} answers to ${rounds * inFlight} claims`);
  for (const [round, done] of open) {
    if (done !== inFlight) throw new Error(`round ${round}: ${done} answers to ${inFlight} claims`);
  }
  return { answers, elapsedMs, refused, latencies, rounds };
}

/** The same for every contender: a fixed shuffle, so that each round's 500 fall on its 100 seats unevenly, as buyers do. */
function seatWanted(claim: number): number {
  let x = (claim + 1) * 0x9e3779b1;
  x ^= x >>> 15;
  x = Math.imul(x, 0x85ebca6b);
  x ^= x >>> 13;
  return (x >>> 0) % hotSeats;
}

async function checkHeld(arena: Arena, granted: ReadonlyMap<number, number>): Promise<void> {
  const held = await arena.held();
  const unlike = held.filter((seat) => !granted.has(seat));
  if (held.length !== granted.size || unlike.length > 0) {
    throw new Error(
      `the store holds ${held.length} seats and has granted ${granted.size}, unlike: ${unlike.slice(0, 5)}`,
    );
  }
}
