import type { EventNo, PartitionNo } from '../core/hold.ts';
import type { DecidedPhase } from '../inventory/arbiter.ts';
import { createClockComparison } from '../inventory/clock-comparison.ts';
import type { ModeReader, PartitionModes, PartitionRow } from '../inventory/modes.ts';
import { rebuild } from '../inventory/rebuild.ts';
import type { RedisArbiter } from '../inventory/routed.ts';
import { RedisFault } from '../redis/faults.ts';
import { type RedisPrimary, unfitness } from '../redis/store.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loop, Loops } from '../runtime/loops.ts';
import { StoreFault } from '../runtime/store-fault.ts';

/** A configured Redis as the leader watches it. */
export interface WatchedRedis extends RedisArbiter {
  /** Asks each of its primaries who it is; rejects when one cannot be asked. */
  primaries(): Promise<RedisPrimary[]>;
  /** Called for each new connection and each loss. Returns a function that removes the listener. */
  onChange(listener: () => void): () => void;
}

export interface StoreWatchOptions {
  /** Events that this process leads now, with their terms. */
  leads: () => ReadonlyMap<EventNo, number>;
  modes: ModeReader;
  partitionModes: PartitionModes;
  redis: (store: string | null) => WatchedRedis | null;
  /** All that are configured. */
  stores: readonly WatchedRedis[];
  phaseOf: (event: EventNo) => Promise<DecidedPhase>;
  /** Postgres's clock, epoch ms. */
  postgresTime: () => Promise<number>;
  reporter: string;
  /** A partition has just changed its store. Must not throw. */
  onMoved?: (event: EventNo, partition: PartitionNo, to: 'postgres' | 'redis') => void;
  clock: Clock;
  log: Logger;
}

export interface StoreWatch {
  start(loops: Loops): void;
  /** Waits for what is under way. */
  stop(): Promise<void>;
  /** A sign of loss was seen: the partition's Redis is probed at once. */
  look(event: EventNo, partition: PartitionNo): void;
}

const turnMs = 100;
/** Up to the next probe, two that fail and the gap between them: the change of the row still fits into two seconds. */
const probeEveryMs = 400;
/** A broken connection is made again within this time if the server is running. */
const repeatAfterMs = 100;
/** A server that did not respond in time may just be slow: a fork, a long script, a busy machine. */
const repeatAfterTimeoutMs = 400;
/** A single bad probe is not acted upon. */
const evidenceNeeded = 2;
/** Keys that are being moved between a cluster's nodes answer late, but not later than this. */
const busyMsMax = 5_000;
const askEveryMs = 1_000;
/** A write a partition and second at most, while its Redis grants. */
const grantedEveryMs = 1_000;
/** A degraded partition goes back only after its Redis was found well twice, at least this far apart. */
const steadyMs = 1_000;
/** When grace ends, all who had to wait come at once: no moment for a move. */
const afterGraceMs = 3_000;
/**
 * A Redis that fails repeatedly would interrupt the sale each time, so after each loss or failed rebuild the
 * next rebuild waits longer.
 */
const backoffFirstMs = 2_500;
const backoffMaxMs = 60_000;
/** After this long in good health, one loss or failed rebuild is forgiven. */
const forgivenAfterMs = 60_000;

interface Watched {
  term: number;
  /** A probe, rebuild or move back under way. */
  busy: boolean;
  probeDueAt: number;
  grantedDueAt: number;
  restoreDueAt: number;
  steadySince: number | null;
  busySince: number | null;
  /** Losses and failed rebuilds that are not forgiven yet. */
  failures: number;
  forgivenAt: number;
  complaint: string;
  /** As last read. */
  mode: PartitionRow['mode'];
}

/**
 * The leader's eye on Redis: takes a partition to Postgres when its Redis is lost, and back when there is one to
 * trust. A loop of its own, since a loss has to be seen within two seconds whatever else the leader does. What it changes is
 * conditional on the term; two leaders, or one that was paused, do no harm.
 */
export function createStoreWatch(options: StoreWatchOptions): StoreWatch {
  const { leads, modes, partitionModes, redis, stores, reporter, clock, log } = options;
  const { onMoved = () => {} } = options;
  const clocks = createClockComparison(options);
  const watched = new Map<string, Watched>();
  const underWay = new Set<Promise<void>>();
  const stopping = new AbortController();
  let loop: Loop | null = null;
  /** One rebuild at a time: each takes the event's lock alone for a moment. */
  let rebuilding: Promise<unknown> = Promise.resolve();

  function watchedOf(event: EventNo, { partition, mode }: PartitionRow, term: number): Watched {
    const key = `${event}/${partition}`;
    const known = watched.get(key);
    if (known?.term === term) return known;
    const fresh: Watched = {
      term,
      // Writes of a former term's run are rejected by their term; running both at once would only be confusing.
      busy: known?.busy ?? false,
      probeDueAt: 0,
      grantedDueAt: 0,
      restoreDueAt: 0,
      steadySince: null,
      busySince: null,
      failures: 0,
      forgivenAt: clock.monotonic(),
      complaint: '',
      mode,
    };
    watched.set(key, fresh);
    return fresh;
  }

  async function turn(): Promise<void> {
    const led = leads();
    for (const key of watched.keys()) {
      if (!led.has(Number(key.split('/')[0])) && !watched.get(key)?.busy) watched.delete(key);
    }
    await Promise.all(
      [...led].map(async ([event, term]) => {
        // Up to a second old: what follows from it is conditional on the row as it is then.
        const { modes: rows } = await modes.read(event);
        for (const row of rows) attend(event, term, row);
      }),
    );
  }

  function attend(event: EventNo, term: number, row: PartitionRow): void {
    const entry = watchedOf(event, row, term);
    if (entry.busy) return;
    const now = clock.monotonic();
    if (entry.mode !== row.mode) noteChange(event, row, entry, now);
    if (row.mode === 'moving') run(event, row, entry, () => moveBack(event, row, entry));
    else if (row.mode === 'redis' && now >= entry.probeDueAt)
      run(event, row, entry, () => probe(event, row, entry));
    else if (row.mode === 'postgres' && now >= entry.restoreDueAt && redis(row.store)) {
      run(event, row, entry, () => restore(event, row, entry));
    }
  }

  function run(event: EventNo, row: PartitionRow, entry: Watched, work: () => Promise<void>): void {
    entry.busy = true;
    const done = work()
      .catch((err: unknown) => {
        log.warn({ err, event, partition: row.partition }, 'watching Redis failed; it is tried again');
        entry.restoreDueAt = clock.monotonic() + askEveryMs;
      })
      .finally(() => {
        entry.busy = false;
        const now = watched.get(`${event}/${row.partition}`);
        if (now) now.busy = false;
        underWay.delete(done);
      });
    underWay.add(done);
  }

  /** The change may come from this leader, or from others as witnesses. */
  function noteChange(event: EventNo, row: PartitionRow, entry: Watched, now: number): void {
    if (entry.mode === 'redis') {
      entry.failures = Math.max(0, entry.failures - Math.floor((now - entry.forgivenAt) / forgivenAfterMs));
      fail(entry, now);
    }
    if (row.mode === 'redis') entry.forgivenAt = now;
    entry.mode = row.mode;
    entry.probeDueAt = 0;
    entry.steadySince = null;
    if (row.mode !== 'moving') onMoved(event, row.partition, row.mode);
  }

  function fail(entry: Watched, now: number): void {
    entry.failures += 1;
    entry.restoreDueAt = now + Math.max(askEveryMs, backoffMs(entry.failures));
  }

  // ---- degrade ----

  async function probe(event: EventNo, row: PartitionRow, entry: Watched): Promise<void> {
    const startedAt = clock.monotonic();
    entry.probeDueAt = startedAt + probeEveryMs;
    let evidence = 0;
    for (;;) {
      const symptom = await symptomOf(event, row, entry);
      if (!symptom) return;
      evidence += symptom.weight;
      if (evidence >= evidenceNeeded) return await degrade(event, row, entry, symptom.reason, startedAt);
      await clock.sleep(symptom.reason === 'timeout' ? repeatAfterTimeoutMs : repeatAfterMs);
    }
  }

  async function degrade(
    event: EventNo,
    { partition, epoch }: PartitionRow,
    entry: Watched,
    reason: string,
    startedAt: number,
  ): Promise<void> {
    const { term } = entry;
    const outcome = await partitionModes.report({ event, partition, epoch, reporter, reason, term });
    const now = clock.monotonic();
    if (outcome.kind === 'settling') {
      entry.probeDueAt = now + Math.min(outcome.afterMs, askEveryMs);
      return;
    }
    if (outcome.kind === 'degraded') {
      const afterMs = Math.round(now - startedAt);
      log.warn(
        { event, partition, reason, epoch: outcome.epoch, afterMs },
        'Redis lost: Postgres arbitrates now',
      );
    }
    await modes.read(event, now);
  }

  /**
   * Returns the fault of the partition's Redis. Null if it responds under the right epoch, can be written to and is in time.
   */
  async function symptomOf(
    event: EventNo,
    row: PartitionRow,
    entry: Watched,
  ): Promise<{ reason: string; weight: number } | null> {
    const store = redis(row.store);
    // A leader without it cannot lead it, and other processes' word would come too late.
    if (!store) return { reason: 'unconfigured', weight: evidenceNeeded };
    store.trust(event, row.partition, row.runIds, row);
    const sent = clock.monotonic();
    const sentAt = clock.now();
    let seen: { epoch: number; time: number; grant: number };
    try {
      seen = await store.arbiter.probe(event, row.partition);
    } catch (error) {
      if (!(error instanceof StoreFault)) throw error;
      return symptomOfFault(error, entry, clock.monotonic());
    }
    entry.busySince = null;
    if (seen.epoch !== row.epoch) return { reason: 'forgot', weight: evidenceNeeded };
    noteGranted(event, row, entry, seen.grant);
    const roundTripMs = clock.monotonic() - sent;
    const fits = await clocks.fits({ time: seen.time, localTime: sentAt + roundTripMs / 2, roundTripMs });
    return fits ? null : { reason: 'clock', weight: 1 };
  }

  /** All processes know a second later what Redis has granted, including processes that start then. */
  function noteGranted(event: EventNo, row: PartitionRow, entry: Watched, granted: number): void {
    const now = clock.monotonic();
    if (granted <= row.granted || now < entry.grantedDueAt) return;
    entry.grantedDueAt = now + grantedEveryMs;
    const { partition, epoch } = row;
    partitionModes
      .granted({ event, partition, epoch }, granted)
      .catch((err: unknown) => log.debug({ err, event, partition }, 'could not store the number given'));
  }

  // ---- restore ----

  async function moveBack(event: EventNo, { partition }: PartitionRow, entry: Watched): Promise<void> {
    const outcome = await partitionModes.abort({ event, partition, term: entry.term });
    await modes.read(event, clock.monotonic()).catch(() => {});
    if (outcome.kind !== 'aborted') return;
    log.warn(
      { event, partition, epoch: outcome.epoch },
      'a move to Redis was left unfinished: back to Postgres',
    );
  }

  async function restore(event: EventNo, row: PartitionRow, entry: Watched): Promise<void> {
    const store = redis(row.store)!;
    const obstacle = await obstacleTo(event, row, store);
    const now = clock.monotonic();
    if (obstacle.kind !== 'none') {
      entry.steadySince = null;
      entry.restoreDueAt = now + (obstacle.kind === 'wait' ? obstacle.ms : askEveryMs);
      const { partition } = row;
      if (obstacle.kind === 'unfit' && obstacle.reason !== entry.complaint) {
        log.warn({ event, partition, reason: obstacle.reason }, 'Redis cannot take the partition yet');
      }
      entry.complaint = obstacle.kind === 'unfit' ? obstacle.reason : '';
      return;
    }
    entry.complaint = '';
    entry.steadySince ??= now;
    if (row.graceUntil !== null && now - entry.steadySince < steadyMs) {
      entry.restoreDueAt = entry.steadySince + steadyMs;
      return;
    }
    const mineToDo = rebuilding.then(() => rebuildNow(event, row, entry, store, obstacle.runIds));
    rebuilding = mineToDo.catch(() => {});
    await mineToDo;
  }

  type Obstacle =
    | { kind: 'none'; runIds: string[] }
    | { kind: 'wait'; ms: number }
    | { kind: 'unfit'; reason: string };

  async function obstacleTo(event: EventNo, row: PartitionRow, store: WatchedRedis): Promise<Obstacle> {
    const waitMs = row.graceUntil === null ? 0 : row.graceUntil + afterGraceMs - clock.now();
    if (waitMs > 0) return { kind: 'wait', ms: Math.min(waitMs, askEveryMs) };
    // An event that is over is not moved any more.
    const { phase } = await options.phaseOf(event);
    if (phase === 'closed' || phase === 'cancelled') return { kind: 'wait', ms: 5 * askEveryMs };
    let primaries: RedisPrimary[];
    try {
      primaries = await store.primaries();
    } catch (error) {
      return { kind: 'unfit', reason: (error as Error).message };
    }
    for (const primary of primaries) {
      const reason = unfitness(primary);
      if (reason !== null) return { kind: 'unfit', reason };
      if (!(await clocks.fits(primary)))
        return { kind: 'unfit', reason: `the clock of ${primary.address} is wrong` };
    }
    return { kind: 'none', runIds: primaries.map(({ run }) => run) };
  }

  async function rebuildNow(
    event: EventNo,
    { partition }: PartitionRow,
    entry: Watched,
    store: WatchedRedis,
    runIds: string[],
  ): Promise<void> {
    if (stopping.signal.aborted) return;
    store.trust(event, partition, runIds);
    const at = { event, partition, term: entry.term };
    const outcome = await rebuild(
      { ...options, modes: partitionModes },
      { at, arbiter: store.arbiter, runIds },
    );
    const now = clock.monotonic();
    entry.steadySince = null;
    if (outcome.kind === 'rebuilt') {
      const { kind: _kind, ...figures } = outcome;
      // Logged at the same level as the loss that it ends.
      log.warn(
        { event, partition, ...figures, pauseMs: Math.round(outcome.pauseMs) },
        'Redis arbitrates now',
      );
    } else if (outcome.kind === 'refused' && outcome.reason === 'in_grace') {
      // Uses Postgres's clock, which is not this process's.
      entry.restoreDueAt = now + turnMs;
    } else {
      fail(entry, now);
      const why = outcome.kind === 'failed' ? { err: outcome.fault } : { reason: outcome.reason };
      log.warn(
        { event, partition, step: outcome.step, ...why },
        'Redis could not be filled; Postgres goes on',
      );
    }
    await modes.read(event, now).catch(() => {});
  }

  function look(event: EventNo, partition: PartitionNo): void {
    const entry = watched.get(`${event}/${partition}`);
    if (!entry || entry.busy || entry.probeDueAt === 0) return;
    entry.probeDueAt = 0;
    loop?.wake();
  }

  const unlisten = stores.map((store) =>
    store.onChange(() => {
      for (const entry of watched.values()) {
        entry.probeDueAt = 0;
      }
      loop?.wake();
    }),
  );

  return {
    start(loops) {
      const ended = (): Promise<unknown> => Promise.allSettled([...underWay]);
      loop ??= loops.run({ name: 'watch Redis', everyMs: turnMs, retryMaxMs: askEveryMs, turn, ended });
    },
    async stop() {
      stopping.abort(new Error('the watch stops'));
      for (const end of unlisten) end();
      await loop?.stop();
    },
    look,
  };
}

function symptomOfFault(
  fault: StoreFault,
  entry: Watched,
  now: number,
): { reason: string; weight: number } | null {
  const reason = fault instanceof RedisFault ? fault.reason : 'unreachable';
  if (fault.code !== 'store_busy') {
    entry.busySince = null;
    // A server with another run than the row's would give the same answer again, so one answer is enough.
    return { reason, weight: reason === 'untrusted' ? evidenceNeeded : 1 };
  }
  entry.busySince ??= now;
  return now - entry.busySince < busyMsMax ? null : { reason, weight: 1 };
}

/** After the first loss, the partition may go back as soon as grace allows. */
function backoffMs(failures: number): number {
  return failures <= 1 ? 0 : Math.min(backoffMaxMs, backoffFirstMs * 2 ** (failures - 1));
}
