import type { EventNo, Visitor } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import { allows } from '../core/phase.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { DrawOutcome, NumberStore, ShardEpoch } from './numbers.ts';
import type { QueueControl, QueueReading, ShardRow } from './queue-control.ts';
import { type AdmissionControl, ceilingStep, type JoinOutcome, type WaitingRoom } from './waiting-room.ts';

export interface RoutedWaitingRoomOptions {
  /** Redeems and publishes in every mode, and issues numbers while a shard is in Postgres mode. */
  postgres: WaitingRoom & AdmissionControl;
  control: QueueControl;
  /** Keyed by the name of the configured Redis server. Empty if there is none. */
  numbers: ReadonlyMap<string, NumberStore>;
  /** Awaited before numbers are drawn in Redis: Postgres does not see them, and an event at rest needs its leader. */
  wake?: (event: EventNo) => Promise<void>;
  clock: Pick<Clock, 'monotonic'>;
  log: Logger;
  /** This process, as a witness. */
  owner: string;
}

/** This process's knowledge of a shard under one epoch. */
interface Followed {
  at: ShardEpoch;
  /** The highest number that it got. */
  seen: number;
  ceiling: number;
  raising: Promise<void> | null;
  /** For the rate: a former reading of `seen`, up to ten seconds old. */
  marks: { at: number; seen: number }[];
  reportedAt: number;
  /** The outcome of the last report, so that each is logged once. Null if there was none. */
  reported: string | null;
}

const retryAfterMs = 500;
/** The ceiling stays this many seconds of the present rate ahead: raising it takes a few milliseconds. */
const aheadSeconds = 10;
/** However quick the line is; a loss skips as many numbers at most. */
const stepMax = 1_000_000;
const marksEveryMs = 1_000;
/** Draws of a batch that reaches the ceiling: the ceiling is raised before each repetition. */
const drawsMax = 3;
/** A store that was just given the numbering may not be opened yet: that is no loss. */
const handoverMs = 2_000;
const reportEveryMs = 500;

/**
 * The waiting room over two stores: each shard's numbers come from the store that its row names, read less than a second ago.
 * An older row does no harm: Redis rejects another epoch, and Postgres another mode.
 *
 * The phase comes from the same reading. A number gives no right, so a second of delay costs nothing, and no visitor can draw
 * before the opening. When a lost Redis did not respond, the outcome is `retry`; the leader and two such processes move the
 * shard to Postgres.
 */
export function createRoutedWaitingRoom(options: RoutedWaitingRoomOptions): WaitingRoom & AdmissionControl {
  const { postgres, control, numbers, wake = async () => {}, clock, log, owner } = options;
  const followed = new Map<string, Followed>();

  /** Applies a shard's row: a new epoch means other run ids, and the last number of the old one is recorded. */
  function follow(event: EventNo, row: ShardRow): Followed {
    const key = `${event}:${row.shard}`;
    const known = followed.get(key);
    if (known && known.at.epoch >= row.epoch) {
      if (known.at.epoch === row.epoch) known.ceiling = Math.max(known.ceiling, row.ceiling);
      return known;
    }
    if (known && known.seen > 0) {
      control
        .seen(known.at, known.seen)
        .catch((err) => log.warn({ err, ...known.at }, 'the gap stays as it is'));
    }
    const at = { event, shard: row.shard, epoch: row.epoch };
    const fresh: Followed = {
      at,
      seen: 0,
      ceiling: row.ceiling,
      raising: null,
      marks: [],
      reportedAt: 0,
      reported: null,
    };
    followed.set(key, fresh);
    // Nothing is taken back here: what is still trusted of a former epoch refuses this one.
    if (row.mode === 'redis' && row.store !== null)
      numbers.get(row.store)?.trust(event, row.shard, row.runIds);
    return fresh;
  }

  function stepOf(mine: Followed): number {
    const [first] = mine.marks;
    const ms = first ? clock.monotonic() - first.at : 0;
    const rate = first && ms > 0 ? ((mine.seen - first.seen) * 1000) / Math.max(ms, marksEveryMs) : 0;
    return Math.round(Math.min(stepMax, Math.max(ceilingStep, rate * aheadSeconds)));
  }

  function noteSeen(mine: Followed, last: number): void {
    mine.seen = Math.max(mine.seen, last);
    const now = clock.monotonic();
    const newest = mine.marks.at(-1);
    if (newest && now - newest.at < marksEveryMs) return;
    mine.marks.push({ at: now, seen: mine.seen });
    while (mine.marks.length > 1 && mine.marks[0]!.at < now - aheadSeconds * 1000) mine.marks.shift();
  }

  /** Raises the ceiling once at a time; all callers wait for the same raise. */
  function raise(mine: Followed): Promise<void> {
    mine.raising ??= control
      .raise(mine.at, mine.seen, stepOf(mine))
      .then((ceiling) => {
        if (ceiling !== null) mine.ceiling = Math.max(mine.ceiling, ceiling);
      })
      .finally(() => {
        mine.raising = null;
      });
    return mine.raising;
  }

  async function drawOnce(mine: Followed, row: ShardRow, visitors: Visitor[]): Promise<DrawOutcome> {
    const store = row.store === null ? undefined : numbers.get(row.store);
    if (!store) throw new StoreFault('store_unavailable', `no Redis named ${row.store} is configured here`);
    const floor = Math.max(row.last, mine.seen);
    const outcome = await store.draw({ ...mine.at, ceiling: mine.ceiling, floor, visitors });
    if (outcome.kind === 'drawn') {
      noteSeen(mine, outcome.last);
      mine.ceiling = Math.max(mine.ceiling, outcome.ceiling);
      if (mine.ceiling - mine.seen < stepOf(mine) / 2) {
        raise(mine).catch((err) =>
          log.warn({ err, ...mine.at }, 'the ceiling could not be raised ahead of use'),
        );
      }
    }
    return outcome;
  }

  async function joinInRedis(mine: Followed, row: ShardRow, visitors: Visitor[]): Promise<JoinOutcome[]> {
    const answers = new Map<number, JoinOutcome>();
    // The reading is older than what this process knows.
    if (mine.at.epoch !== row.epoch) return retryAll(visitors);
    try {
      for (let draw = 0; draw < drawsMax && answers.size < visitors.length; draw++) {
        if (draw > 0) await raise(mine);
        const open = visitors.map((_, index) => index).filter((index) => !answers.has(index));
        const outcome = await drawOnce(
          mine,
          row,
          open.map((index) => visitors[index]!),
        );
        if (outcome.kind === 'stale') {
          report(mine, row, `knows epoch ${outcome.epoch}`);
          break;
        }
        open.forEach((index, nth) => {
          const drawn = outcome.drawn[nth];
          if (drawn) answers.set(index, { kind: 'joined', shard: row.shard, ...drawn });
        });
      }
    } catch (fault) {
      if (!(fault instanceof StoreFault)) throw fault;
      // Busy: the shard's slot moves to another node of its cluster.
      if (fault.code !== 'store_busy') report(mine, row, fault.message);
    }
    return visitors.map((_, index) => answers.get(index) ?? { kind: 'retry', afterMs: retryAfterMs });
  }

  function report(mine: Followed, row: ShardRow, reason: string): void {
    const now = clock.monotonic();
    if (row.sinceMs < handoverMs || now - mine.reportedAt < reportEveryMs) return;
    mine.reportedAt = now;
    const command = { ...mine.at, term: null, reporter: owner, reason, seen: mine.seen, step: ceilingStep };
    const turn = async (): Promise<void> => {
      // On a row read after what was seen: an old one may name an epoch that is over.
      const fresh = (await control.read(mine.at.event, now)).shards[mine.at.shard];
      if (fresh?.mode !== 'redis' || fresh.epoch !== mine.at.epoch) return;
      const outcome = await control.toPostgres(command);
      if (mine.reported !== outcome)
        log.warn({ ...mine.at, reason, outcome }, 'Redis does not issue numbers');
      mine.reported = outcome;
    };
    turn().catch((err) => log.warn({ err, ...mine.at, reason }, 'the loss of Redis could not be reported'));
  }

  async function joinBy(
    { phase, opensAt, shards }: QueueReading,
    event: EventNo,
    shard: number,
    visitors: Visitor[],
  ): Promise<JoinOutcome[]> {
    const row = shards[shard];
    assert(row?.shard === shard, `shard ${shard} exists`);
    const mine = follow(event, row);
    if (row.mode === 'postgres') return postgres.join(event, shard, visitors);
    if (!allows(phase, 'join')) return visitors.map(() => ({ kind: 'not_open', phase, opensAt }));
    await wake(event);
    return joinInRedis(mine, row, visitors);
  }

  return {
    async join(event, shard, visitors) {
      if (visitors.length === 0) return [];
      const began = clock.monotonic();
      const reading = await control.read(event);
      const answers = await joinBy(reading, event, shard, visitors);
      if (answers.some(({ kind }) => kind !== 'retry')) return answers;
      // Perhaps another store has the numbers since the row was read.
      const newer = await control.read(event, began);
      if (newer.shards[shard]?.epoch === reading.shards[shard]?.epoch) return answers;
      return joinBy(newer, event, shard, visitors);
    },
    redeem: (command) => postgres.redeem(command),
    lastNumbers: (event) => postgres.lastNumbers(event),
    sweep: (event) => postgres.sweep(event),
    publish: (event, term, decision) => postgres.publish(event, term, decision),
  };
}

function retryAll(visitors: Visitor[]): JoinOutcome[] {
  return visitors.map(() => ({ kind: 'retry', afterMs: retryAfterMs }));
}
