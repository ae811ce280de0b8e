import type { EventNo } from '../core/hold.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Db } from '../sales/db.ts';
import type { Controller } from './controller.ts';

/** A quiet event is led again this long before something happens about it by time, such as its start. */
const aheadMs = 3_000;
/** An event that would be woken sooner than this stays awake. */
const leastMs = 15_000;
/** At the latest then an event is looked at again, should a change have gone unnoticed. */
const mostMs = 6 * 3_600_000;
/**
 * A process that changes something in Redis notes it in Postgres first, at most once in this time for each event; the leader
 * goes on looking for longer than that before it settles a rest.
 */
export const wakeEveryMs = 4_000;
const clearAfterMs = 1.5 * wakeEveryMs;
/** Longer than any published object waits for its next turn (read-path/publish.ts). */
const allPublishedMs = 5_500;
/** Rests of other settings or programs that are ended with each tick, so that a new version does not wake all events at once. */
const renewedATick = 5;

export interface EventRestOptions {
  db: Db;
  clock: Pick<Clock, 'monotonic'>;
  /** Identifies the program and the settings that the published objects depend on. */
  madeAs: string;
  /** Whether time alone will change nothing about the event. */
  isQuiet: (event: EventNo, term: number) => Promise<boolean>;
  /** Undefined until the controller was made. */
  controller: () => Pick<Controller, 'leads' | 'doneSince'> | undefined;
}

/**
 * Decides which events need a leader. One about which nothing changes is put to rest (migrations/0025_event_rests.sql); any
 * change of it, and the next instant at which something happens by time, brings it back within a second. Returns the events to
 * lead; to be called once a tick.
 */
export function createEventRest(options: EventRestOptions): () => Promise<EventNo[]> {
  const { db, clock, madeAs, isQuiet } = options;
  /** As the last list said: whether the event's rest could be settled; null: it has none. */
  const listed = new Map<EventNo, boolean | null>();
  /** Since when each event was quiet and its rest clear, monotonic ms. */
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
      // All that was changed before the rest was clear has been published since.
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

/** Notes that something about an event is about to change that is not in Postgres: whoever waits for it may change it then. */
export type Waker = (event: EventNo) => Promise<void>;

const wakersMax = 1_000;

/** Shares one note among all who ask within `wakeEveryMs`. One that fails is a StoreFault, and is made again by the next. */
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
