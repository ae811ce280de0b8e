import type { Events } from '../catalogue/events.ts';
import type { EventNo, PartitionNo } from '../core/hold.ts';
import { seatStates } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Arbiter, ArbiterStore, DecidedPhase } from '../inventory/arbiter.ts';
import { decidedPhase, decidedSeats, type OrderedHolds, orderedHolds } from '../orders/projection.ts';
import type { DecidedSeat } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { LeaderTask } from './controller.ts';

/**
 * The process that decides in Postgres also reports the decision to Redis. If a report did not arrive (the process died, the
 * connection broke, the partition was moving), the leader finds it and reports it again, so that both agree seat by seat within
 * seconds (S8).
 */
export interface ProjectionTask extends LeaderTask {
  /** A change that should not wait for the next tick: a phase, a partition that has just come to its Redis. */
  soon(event: EventNo): void;
}

/** The seats of a whole event are compared every other tick; orders, phases and everything urgent in each tick. */
const compareEveryTicks = 2;
/**
 * Decisions made this long before the last successful tick are reported again, because they may have been committed after it.
 */
const recentMs = 30_000;
/** A new leader does not know what was reported before, so it looks back over the whole time of a payment. */
const firstLookMs = 20 * 60_000;
const toldAtOnce = 2_000;

export function createProjectionTask(options: {
  db: Db;
  events: Pick<Events, 'modes'>;
  /** The routed one. */
  arbiter: Pick<Arbiter, 'project' | 'load' | 'snapshot'>;
  /** Postgres's own, whose snapshot is what was decided. */
  postgres: Pick<ArbiterStore, 'snapshot'>;
  clock: Pick<Clock, 'monotonic'>;
  log: Logger;
}): ProjectionTask {
  const { db, events, arbiter, postgres, clock, log } = options;
  /**
   * For each partition, the term and epoch under which its Redis received everything, and when the last successful report
   * began.
   */
  const projected = new Map<string, { under: string; at: number }>();
  const running = new Map<EventNo, Promise<void>>();

  async function tellAll(event: EventNo, term: number, compare: boolean): Promise<void> {
    const rows = (await events.modes(event)).filter(({ mode }) => mode === 'redis');
    if (rows.length === 0) return;
    const began = clock.monotonic();
    const toldAt = ({ partition, epoch }: { partition: PartitionNo; epoch: number }): number | null => {
      const last = projected.get(`${event}/${partition}`);
      return last?.under === `${term}/${epoch}` ? last.at : null;
    };
    const isNew = (row: { partition: PartitionNo; epoch: number }): boolean => toldAt(row) === null;
    const first = rows.some(isNew);
    const since = Math.min(...rows.map((row) => toldAt(row) ?? began));
    const withinMs = Math.ceil(began - since) + (first ? firstLookMs : recentMs);
    const [phase, orders] = await Promise.all([
      decidedPhase(db, event),
      orderedHolds(db, event, { withinMs, open: first }),
    ]);
    for (const row of rows) {
      const { partition, epoch } = row;
      try {
        const seats = compare || isNew(row) ? await differences(event, partition) : [];
        const holds = orders.find((each) => each.partition === partition);
        if (!(await tell(event, partition, seats, phase, holds))) continue;
        projected.set(`${event}/${partition}`, { under: `${term}/${epoch}`, at: began });
      } catch (error) {
        // Skip an unreachable Redis (store-watch handles it) and continue with the other partitions.
        if (!(error instanceof StoreFault)) throw error;
        log.debug({ err: error, event, partition }, 'Redis could not be told');
      }
    }
  }

  /** Seats of which the partition's Redis believes something else than was decided; it first learns of those it does not know. */
  async function differences(event: EventNo, partition: PartitionNo): Promise<DecidedSeat[]> {
    // Reads Redis first: a decision made in between looks like a difference and is reported twice, which has no effect.
    const { codes } = await arbiter.snapshot(event, partition);
    const decided = await postgres.snapshot(event, partition);
    const unknown: SeatNo[] = [];
    const other: SeatNo[] = [];
    decided.codes.forEach((code, seat) => {
      if (code === foreign) return;
      const actual = codes[seat] ?? foreign;
      if (actual === foreign) unknown.push(seat);
      else if (decidedCode(actual) !== decidedCode(code)) other.push(seat);
    });
    if (unknown.length > 0) {
      const seats = await decidedSeats(db, event, unknown);
      await arbiter.load({ event, partition, seats });
    }
    if (other.length > 0)
      log.debug({ event, partition, seats: other.length }, 'seats are told to Redis again');
    return other.length > 0 ? await decidedSeats(db, event, other) : [];
  }

  /** Returns whether all of it arrived. */
  async function tell(
    event: EventNo,
    partition: PartitionNo,
    changes: DecidedSeat[],
    phase: DecidedPhase,
    holds: OrderedHolds | undefined,
  ): Promise<boolean> {
    const { ordered = [], ended = [] } = holds ?? {};
    const most = Math.max(1, changes.length, ordered.length, ended.length);
    for (let from = 0; from < most; from += toldAtOnce) {
      const part = <Item>(all: Item[]): Item[] => all.slice(from, from + toldAtOnce);
      const arrived = await arbiter.project({
        event,
        partition,
        changes: part(changes),
        ordered: part(ordered),
        ended: part(ended),
        phase,
      });
      if (!arrived) return false;
    }
    return true;
  }

  /** One after the other per event. */
  function next(event: EventNo, term: number, compare: boolean): Promise<void> {
    const before = running.get(event) ?? Promise.resolve();
    const done = before
      .then(() => tellAll(event, term, compare))
      .catch((error: unknown) => {
        if (!(error instanceof StoreFault)) throw error;
        log.debug({ err: error, event }, 'Redis could not be told');
      });
    running.set(
      event,
      done.catch(() => {}),
    );
    return done;
  }

  const lastTerm = new Map<EventNo, number>();
  return {
    name: 'projection',
    async run({ event, term, tick }) {
      lastTerm.set(event, term);
      await next(event, term, tick % compareEveryTicks === 0);
    },
    soon(event) {
      const term = lastTerm.get(event);
      if (term === undefined) return;
      next(event, term, true).catch((err: unknown) => log.warn({ err, event }, 'Redis could not be told'));
    },
  };
}

/**
 * Reports the phase to the event's partitions in Redis at once, so that no visitor can hold seats in a sale that was paused.
 */
export async function projectPhase(
  parts: { events: Pick<Events, 'modes'>; arbiter: Pick<Arbiter, 'project'> },
  event: EventNo,
  phase: DecidedPhase,
): Promise<void> {
  const rows = (await parts.events.modes(event)).filter(({ mode }) => mode !== 'postgres');
  await Promise.all(
    rows.map(({ partition }) =>
      parts.arbiter.project({ event, partition, changes: [], ordered: [], ended: [], phase }),
    ),
  );
}

const foreign = 255;
const held = seatStates.indexOf('held');

/** A held seat is one that nothing was decided about. */
function decidedCode(code: number): number {
  return code === held ? 0 : code;
}
