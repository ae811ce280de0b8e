import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip, gzipSync } from 'node:zlib';
import type { Events } from '../catalogue/events.ts';
import type { EventId, EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Loops } from '../runtime/loops.ts';
import { sectionBits } from './availability.ts';
import type { StatusObject, Version } from './published.ts';

/** Bytes ready to be sent: no request computes anything. */
export interface SharedBytes {
  bytes: Uint8Array;
  gzip: Uint8Array | null;
  br: Uint8Array | null;
  /** Strong: hash of the bytes, quoted. */
  etag: string;
  contentType: string;
  version: Version;
  layout: string | null;
}

export interface PublishedReader {
  /** Reads once and then every second. */
  start(loops: Loops): Promise<void>;
  /**
   * `status`, `availability`, `counts` or `event`; from memory. Null while nothing was published. The status of an event at
   * rest, which nothing has changed since it was published, carries the time of the last reading.
   */
  get(event: EventId, name: string): SharedBytes | null;
  /** Bits of one section of the present availability; null for an unknown section. */
  section(event: EventId, section: string): Promise<SharedBytes | null>;
  /** A layout by its hash; immutable, read once. */
  layout(hash: string): Promise<SharedBytes | null>;
  /** Ids of events that have something published, in order of their making. */
  events(): EventId[];
  /** Milliseconds since the last successful read; what readiness looks at. */
  ageMs(): number;
}

interface ChangedRow {
  event_no: EventNo;
  event_id: EventId;
  name: string;
  term: number;
  count: number;
  bytes: Buffer;
  layout_hash: string | null;
}

const readEveryMs = 1_000;
/** A published object may be committed this much later than its timestamp. */
const commitMaxMs = 10_000;
/** Below this compressing costs more than it saves. */
const compressFromBytes = 300;
const layoutsMax = 50;

export function createPublishedReader(options: { db: Db; events: Events; clock: Clock }): PublishedReader {
  const { db, events, clock } = options;
  const objects = new Map<EventId, Map<string, SharedBytes>>();
  const sections = new Map<string, { version: string; shared: SharedBytes }>();
  const layouts = new Map<string, SharedBytes>();
  const layoutsBeingRead = new Map<string, Promise<SharedBytes | null>>();
  const known = new Map<string, { no: EventNo; name: string; version: Version; readAt: number }>();
  const numbers = new Map<EventId, EventNo>();
  /** Events at rest, and Postgres's clock, both as of the last reading. */
  let resting = new Set<EventNo>();
  let storeNow = 0;
  /** Statuses of events at rest with the time of a reading, made when asked for. */
  const dated = new Map<EventId, { readAt: number; of: SharedBytes; shared: SharedBytes }>();
  let lastReadAt = Number.NEGATIVE_INFINITY;

  async function readChanges(): Promise<void> {
    const [state] = await db.query<{ now: number; resting: EventNo[] }>(
      'published_state',
      `SELECT clock_timestamp() AS now, (SELECT coalesce(array_agg(r.event_no), '{}') FROM event_rests r
         WHERE r.settled AND r.wake_at > clock_timestamp()
           AND NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = r.event_no)) AS resting`,
    );
    const { now, resting: atRest } = state!;
    // Postgres reads only objects that were published recently, and gets the list of those that are already here.
    const since = storeNow - commitMaxMs;
    const have = [...known.values()].filter(({ readAt }) => readAt >= since);
    const rows = await db.query<ChangedRow>(
      'published_changed',
      `SELECT p.event_no, e.event_id, p.name, p.term, p.count, p.bytes, e.layout_hash
       FROM published p JOIN events e USING (event_no)
       LEFT JOIN unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[]) AS k (event_no, name, term, count)
         ON k.event_no = p.event_no AND k.name = p.name
       WHERE p.published_at >= to_timestamp($5::float8 / 1000)
         AND (k.term IS NULL OR (p.term, p.count) > (k.term, k.count))
       ORDER BY p.event_no`,
      [
        have.map((entry) => entry.no),
        have.map((entry) => entry.name),
        have.map((entry) => entry.version[0]),
        have.map((entry) => entry.version[1]),
        since,
      ],
    );
    for (const row of rows) remember(row, now);
    resting = new Set(atRest);
    storeNow = now;
    lastReadAt = clock.monotonic();
  }

  function remember(row: ChangedRow, readAt: number): void {
    const version: Version = [row.term, row.count];
    known.set(`${row.event_no}/${row.name}`, { no: row.event_no, name: row.name, version, readAt });
    numbers.set(row.event_id, row.event_no);
    let ofEvent = objects.get(row.event_id);
    if (!ofEvent) {
      ofEvent = new Map();
      objects.set(row.event_id, ofEvent);
    }
    const isBits = row.name === 'availability';
    const contentType = isBits ? 'application/octet-stream' : 'application/json; charset=utf-8';
    ofEvent.set(row.name, sharedBytes(row.bytes, contentType, version, row.layout_hash));
  }

  function get(event: EventId, name: string): SharedBytes | null {
    const object = objects.get(event)?.get(name) ?? null;
    if (!object || name !== 'status' || !resting.has(numbers.get(event)!)) return object;
    const cached = dated.get(event);
    if (cached?.readAt === storeNow && cached.of === object) return cached.shared;
    const status = JSON.parse(Buffer.from(object.bytes).toString('utf8')) as StatusObject;
    const bytes = Buffer.from(
      JSON.stringify({ ...status, serverTime: Math.max(status.serverTime, storeNow) }),
    );
    const shared = sharedBytes(bytes, object.contentType, object.version, object.layout);
    dated.set(event, { readAt: storeNow, of: object, shared });
    return shared;
  }

  async function section(event: EventId, sectionId: string): Promise<SharedBytes | null> {
    const whole = objects.get(event)?.get('availability');
    const record = await events.find(event);
    if (!whole || !record?.layoutHash) return null;
    const key = `${event}/${sectionId}`;
    const version = `${whole.etag}/${record.layoutHash}`;
    const cached = sections.get(key);
    if (cached?.version === version) return cached.shared;
    const { layout } = await events.venue(record);
    const bits = sectionBits(whole.bytes, layout, sectionId);
    if (!bits) return null;
    const shared = sharedBytes(bits, whole.contentType, whole.version, record.layoutHash);
    sections.set(key, { version, shared });
    return shared;
  }

  /** Neither a failure nor "not there" is remembered: it may be published in the next second. */
  function beginReading(hash: string): Promise<SharedBytes | null> {
    const reading = readLayout(hash).then((shared) => {
      // Removes the oldest. Only existing layouts take a place, so that invented hashes remove none.
      if (shared && layouts.size >= layoutsMax) layouts.delete(layouts.keys().next().value ?? '');
      if (shared) layouts.set(hash, shared);
      return shared;
    });
    layoutsBeingRead.set(hash, reading);
    const done = (): boolean => layoutsBeingRead.delete(hash);
    reading.then(done, done);
    return reading;
  }

  async function readLayout(hash: string): Promise<SharedBytes | null> {
    const bytes = await events.layoutBytes(hash);
    if (!bytes) return null;
    const [zipped, brotli] = await Promise.all([
      promisify(gzip)(bytes, { level: 9 }),
      promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } }),
    ]);
    const plain = sharedBytes(bytes, 'application/json; charset=utf-8', [0, 0], hash, false);
    return { ...plain, gzip: zipped, br: brotli };
  }

  return {
    async start(loops) {
      await readChanges();
      // The last objects stay up while Postgres is away: places stay valid, the page stays readable (D2).
      loops.run({
        name: 'read published objects',
        everyMs: readEveryMs,
        waitsFirst: true,
        retryMaxMs: readEveryMs,
        turn: readChanges,
      });
    },
    get,
    section,
    async layout(hash) {
      return layouts.get(hash) ?? (await (layoutsBeingRead.get(hash) ?? beginReading(hash)));
    },
    events: () => [...objects].filter(([, ofEvent]) => ofEvent.has('event')).map(([event]) => event),
    ageMs: () => clock.monotonic() - lastReadAt,
  };
}

function sharedBytes(
  bytes: Uint8Array,
  contentType: string,
  version: Version,
  layout: string | null,
  compress = true,
): SharedBytes {
  return {
    bytes,
    gzip: compress && bytes.length >= compressFromBytes ? gzipSync(bytes, { level: 6 }) : null,
    br: null,
    etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
    contentType,
    version,
    layout,
  };
}
