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

  function stepOf(entry: Followed): number {
    const [first] = entry.marks;
    const ms = first ? clock.monotonic() - first.at : 0;
    const rate = first && ms > 0 ? ((entry.seen - first.seen) * 1000) / Math.max(ms, marksEveryMs) : 0;
    return Math.round(Math.min(stepMax, Math.max(ceilingStep, rate * aheadSeconds)));
  }

  function noteSeen(entry: Followed, last: number): void {
    entry.seen = Math.max(entry.seen, last);
    const now = clock.monotonic();
    const newest = entry.marks.at(-1);
    if (newest && now - newest.at < marksEveryMs) return;
    entry.marks.push({ at: now, seen: entry.seen });
    while (entry.marks.length > 1 && entry.marks[0]!.at < now - aheadSeconds * 1000) entry.marks.shift();
  }

  /** Raises the ceiling once at a time; all callers wait for the same raise. */
  function raise(entry: Followed): Promise<void> {
    entry.raising ??= control
      .raise(entry.at, entry.seen, stepOf(entry))
      .then((ceiling) => {
        if (ceiling !== null) entry.ceiling = Math.max(entry.ceiling, ceiling);
      })
      .finally(() => {
        entry.raising = null;
      });
    return entry.raising;
  }

  async function drawOnce(entry: Followed, row: ShardRow, visitors: Visitor[]): Promise<DrawOutcome> {
    const store = row.store === null ? undefined : numbers.get(row.store);
    if (!store) throw new StoreFault('store_unavailable', `no Redis named ${row.store} is configured here`);
    const floor = Math.max(row.last, entry.seen);
    const outcome = await store.draw({ ...entry.at, ceiling: entry.ceiling, floor, visitors });
    if (outcome.kind === 'drawn') {
      noteSeen(entry, outcome.last);
      entry.ceiling = Math.max(entry.ceiling, outcome.ceiling);
      if (entry.ceiling - entry.seen < stepOf(entry) / 2) {
        raise(entry).catch((err) =>
          log.warn({ err, ...entry.at }, 'the ceiling could not be raised ahead of use'),
        );
      }
    }
    return outcome;
  }

  async function joinInRedis(entry: Followed, row: ShardRow, visitors: Visitor[]): Promise<JoinOutcome[]> {
    const answers = new Map<number, JoinOutcome>();
    // The reading is older than what this process knows.
    if (entry.at.epoch !== row.epoch) return retryAll(visitors);
    try {
      for (let draw = 0; draw < drawsMax && answers.size < visitors.length; draw++) {
        if (draw > 0) await raise(entry);
        const open = visitors.map((_, index) => index).filter((index) => !answers.has(index));
        const outcome = await drawOnce(
          entry,
          row,
          open.map((index) => visitors[index]!),
        );
        if (outcome.kind === 'stale') {
          report(entry, row, `knows epoch ${outcome.epoch}`);
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
      if (fault.code !== 'store_busy') report(entry, row, fault.message);
    }
    return visitors.map((_, index) => answers.get(index) ?? { kind: 'retry', afterMs: retryAfterMs });
  }

  function report(entry: Followed, row: ShardRow, reason: string): void {
    const now = clock.monotonic();
    if (row.sinceMs < handoverMs || now - entry.reportedAt < reportEveryMs) return;
    entry.reportedAt = now;
    const command = { ...entry.at, term: null, reporter: owner, reason, seen: entry.seen, step: ceilingStep };
    const turn = async (): Promise<void> => {
      // On a row read after what was seen: an old one may name an epoch that is over.
      const fresh = (await control.read(entry.at.event, now)).shards[entry.at.shard];
      if (fresh?.mode !== 'redis' || fresh.epoch !== entry.at.epoch) return;
      const outcome = await control.toPostgres(command);
      if (entry.reported !== outcome)
        log.warn({ ...entry.at, reason, outcome }, 'Redis does not issue numbers');
      entry.reported = outcome;
    };
    turn().catch((err) => log.warn({ err, ...entry.at, reason }, 'the loss of Redis could not be reported'));
  }

  async function joinBy(
    { phase, opensAt, shards }: QueueReading,
    event: EventNo,
    shard: number,
    visitors: Visitor[],
  ): Promise<JoinOutcome[]> {
    const row = shards[shard];
    assert(row?.shard === shard, `shard ${shard} exists`);
    const entry = follow(event, row);
    if (row.mode === 'postgres') return postgres.join(event, shard, visitors);
    if (!allows(phase, 'join')) return visitors.map(() => ({ kind: 'not_open', phase, opensAt }));
    await wake(event);
    return joinInRedis(entry, row, visitors);
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
