import type { EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Controller } from './controller.ts';

/** A resting event gets a leader this long before its next scheduled change, such as its start. */
const aheadMs = 3_000;
/** An event stays awake if it would wake sooner than this. */
const leastMs = 15_000;
/** Longest rest: after this, an event is checked in case a change was missed. */
const mostMs = 6 * 3_600_000;
/**
 * A process that is about to change something in Redis notes it in Postgres first, at most once in this time for each event. The
 * leader keeps checking for longer than that before it settles a rest.
 */
export const wakeEveryMs = 4_000;
const clearAfterMs = 1.5 * wakeEveryMs;
/** Longer than any published object waits for its next turn (read-path/publish.ts). */
const allPublishedMs = 5_500;
/** Rests made by other settings or versions that are ended with each tick. Bounded, so that a new version does not wake all events at once. */
const renewedATick = 5;

export interface EventRestOptions {
  db: Db;
  clock: Pick<Clock, 'monotonic'>;
  /** Identifies the version and the settings that the published objects depend on. */
  madeAs: string;
  /** Returns true if nothing about the event will change by the passing of time alone. */
  isQuiet: (event: EventNo, term: number) => Promise<boolean>;
  /** Returns undefined until the controller exists. */
  controller: () => Pick<Controller, 'leads' | 'doneSince'> | undefined;
}

/**
 * Decides which events need a leader. An event about which nothing changes is put to rest (functions/event-rests.sql). Any
 * change, or its next scheduled change, brings it back within a second. Call it once a tick: it returns the events to lead.
 */
export function createEventRest(options: EventRestOptions): () => Promise<EventNo[]> {
  const { db, clock, madeAs, isQuiet } = options;
  /** From the last list: whether the event's rest can be settled. Null means that the event does not rest. */
  const listed = new Map<EventNo, boolean | null>();
  /** Time since which each event has been quiet with a clear rest, monotonic ms. */
  const quietSince = new Map<EventNo, number>();

  async function decide(): Promise<void> {
    const controller = options.controller();
    if (!controller) return;
    const now = clock.monotonic();
    const resting: [EventNo, number][] = [];
    const settling: [EventNo, number][] = [];
    for (const [event, term] of controller.leads()) {
      const clear = listed.get(event);
      const isStill = clear !== undefined && (await isQuiet(event, term));
      if (isStill && clear === null) resting.push([event, term]);
      if (!isStill || !clear) quietSince.delete(event);
      else if (!quietSince.has(event)) quietSince.set(event, now);
      // Every change from before the rest was clear has been published since.
      else if (controller.doneSince(event, quietSince.get(event)! + allPublishedMs))
        settling.push([event, term]);
    }
    if (resting.length > 0) {
      await db.query('events_rest', 'SELECT events_rest($1, $2, $3, $4, $5)', [
        resting.map(([event]) => event),
        resting.map(([, term]) => term),
        madeAs,
        leastMs,
        mostMs,
      ]);
    }
    if (settling.length > 0) {
      await db.query('events_settle', 'SELECT events_settle($1, $2)', [
        settling.map(([event]) => event),
        settling.map(([, term]) => term),
      ]);
    }
  }

  return async () => {
    await decide();
    const rows = await db.query<{ event_no: EventNo; clear: boolean | null }>(
      'events_to_lead',
      'SELECT * FROM events_to_lead($1, $2, $3, $4)',
      [madeAs, aheadMs, clearAfterMs, renewedATick],
    );
    listed.clear();
    for (const { event_no: event, clear } of rows) listed.set(event, clear);
    for (const event of quietSince.keys()) if (!listed.has(event)) quietSince.delete(event);
    return rows.map(({ event_no: event }) => event);
  };
}

/** Notes that something about an event outside Postgres is about to change. The caller makes the change after it resolves. */
export type Waker = (event: EventNo) => Promise<void>;

const wakersMax = 1_000;

/** Shares one note among all calls within `wakeEveryMs`. If it fails, the calls reject with a StoreFault and the next call tries again. */
export function createWaker({ db, clock }: { db: Db; clock: Pick<Clock, 'monotonic'> }): Waker {
  const noted = new Map<EventNo, { at: number; note: Promise<unknown> }>();
  return async (event) => {
    const now = clock.monotonic();
    const known = noted.get(event);
    if (known && now - known.at < wakeEveryMs) return void (await known.note);
    if (noted.size >= wakersMax) noted.clear();
    const entry = { at: now, note: db.query('event_wake', 'SELECT event_wake($1)', [event]) };
    noted.set(event, entry);
    try {
      await entry.note;
    } catch (error) {
      if (noted.get(event) === entry) noted.delete(event);
      throw error;
    }
  };
}
