import type { EventNo, Hold, Holder, HoldId, Visitor } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loops } from '../runtime/loops.ts';

/**
 * A holder whose holds end unpaid again and again waits before the next one. Postgres counts when a hold's end is known; a
 * claim reads only this process's memory. It does not decide which claim gets a seat, so it need not be exact: from the end of
 * a hold to the refusal of the next one up to `flushMs` + `judgeMs` + `refreshMs` pass (about five seconds), in which one more
 * hold may be requested. A browser that deletes its cookie is a new visitor and joins the queue again; its address range
 * continues to count, and gets fewer seats at once (`addressSeatsNow` in limits.ts).
 */

/**
 * How long a web process keeps notes before it stores them. A killed process loses its notes, to the
 * advantage of its visitors.
 */
const flushMs = 1_000;
const judgeMs = 2_000;
const refreshMs = 2_000;
/** A row that commits late has an earlier time stamp, so this much time is read twice. */
const overlapMs = 15_000;
const notesMax = 50_000;
/** Cooldowns in memory; beyond them the oldest are forgotten here, and their holders let through. */
const knownMax = 100_000;
const judgedMax = 500;
/** A pass over what is due ends even when more keeps coming. */
const judgePassesMax = 20;

export interface Cooldown {
  /** Epoch ms by Postgres's clock. */
  until: number;
  leftMs: number;
  /** Holds that ended unpaid, one after the other. */
  unpaid: number;
  /** The visitor or the account that it applies to. An exception lifts it by this reference. */
  reference: string;
}

/** A web process's copy of the cooldowns, and its reports about the holds that it granted. */
export interface Cooldowns {
  /** The cooldown that keeps this holder from a new hold. Null if there is none. Reads memory only. */
  of(event: EventNo, visitor: Visitor, holder: Holder): Cooldown | null;
  /** Holds of this address range that ended unpaid without a purchase in between, as `addressSeatsNow` takes it. */
  unpaidFrom(event: EventNo, address: string): number;
  /** A hold was granted; `replaced` is the one that it goes on from, `address` its client's address range. */
  granted(hold: Hold, replaced: HoldId | null, address: string | null): void;
  /** Its holder gave it back. */
  released(event: EventNo, hold: HoldId): void;
  /** Its order was paid: what was counted before is forgotten now, and not only when the hold's own time is over. */
  paid(event: EventNo, hold: HoldId): void;
  start(loops: Loops): Promise<void>;
  /** Stores what is still noted; call it after the loops have stopped. */
  flush(): Promise<void>;
}

/** An address range is never in a cooldown: `until` says how long its count stands, which bounds its seats at once. */
type Kind = 'visitor' | 'account' | 'address';

interface Note {
  event: EventNo;
  hold: HoldId;
  visitor: Visitor;
  account: string | null;
  address: string | null;
  grantedAt: number;
  endsAt: number;
}

export function createCooldowns(options: { db: Db; clock: Clock; log: Logger }): Cooldowns {
  const { db, clock, log } = options;
  const known = new Map<string, { until: number; ends: number; unpaid: number }>();
  let granted: Note[] = [];
  let over: { event: EventNo; hold: HoldId; how: 'released' | 'replaced' | 'paid' }[] = [];
  /** Time of the last reading, by Postgres's clock. */
  let readAt: number | null = null;

  const keyOf = (event: EventNo, kind: Kind, subject: string) => `${event}/${kind}/${subject}`;

  function find(event: EventNo, kind: Kind, subject: string): Cooldown | null {
    const key = keyOf(event, kind, subject);
    const found = known.get(key);
    if (!found) return null;
    const leftMs = found.ends - clock.monotonic();
    if (leftMs > 0) {
      return { until: found.until, leftMs: Math.ceil(leftMs), unpaid: found.unpaid, reference: subject };
    }
    known.delete(key);
    return null;
  }

  async function refresh(): Promise<void> {
    const began = clock.monotonic();
    const changes = await changedCooldowns(db, readAt === null ? null : readAt - overlapMs);
    for (const { event, kind, subject, until, leftMs, unpaid } of changes.rows) {
      const key = keyOf(event, kind, subject);
      known.delete(key);
      // From the start of the reading on: what it took is not added to anybody's time.
      if (until !== null && leftMs > 0) known.set(key, { until, ends: began + leftMs, unpaid });
    }
    readAt = changes.at;
    for (const key of known.keys()) {
      if (known.size <= knownMax) break;
      known.delete(key);
    }
  }

  async function flush(): Promise<void> {
    if (granted.length === 0 && over.length === 0) return;
    const [grants, ends] = [granted, over];
    granted = [];
    over = [];
    await noteHoldEnds(db, grants, ends);
  }

  return {
    of(event, visitor, holder) {
      if (known.size === 0) return null;
      const byVisitor = find(event, 'visitor', visitor);
      const byAccount = holder === visitor ? null : find(event, 'account', holder);
      if (byVisitor && byAccount) return byVisitor.leftMs >= byAccount.leftMs ? byVisitor : byAccount;
      return byVisitor ?? byAccount;
    },
    unpaidFrom: (event, address) => (known.size === 0 ? 0 : (find(event, 'address', address)?.unpaid ?? 0)),
    granted(hold, replaced, address) {
      if (granted.length >= notesMax) return;
      const account = hold.holder === hold.visitor ? null : hold.holder;
      const { event, visitor, grantedAt, deadline: endsAt } = hold;
      granted.push({ event, hold: hold.hold, visitor, account, address, grantedAt, endsAt });
      if (replaced !== null) over.push({ event, hold: replaced, how: 'replaced' });
    },
    released(event, hold) {
      if (over.length < notesMax) over.push({ event, hold, how: 'released' });
    },
    paid(event, hold) {
      if (over.length < notesMax) over.push({ event, hold, how: 'paid' });
    },
    async start(loops) {
      await refresh().catch((err: unknown) => log.warn({ err }, 'could not read cooldowns'));
      loops.run({ name: 'read cooldowns', everyMs: refreshMs, waitsFirst: true, turn: refresh });
      loops.run({ name: 'record ended holds', everyMs: flushMs, waitsFirst: true, turn: flush });
    },
    flush,
  };
}

async function noteHoldEnds(
  db: Db,
  grants: readonly Note[],
  ends: readonly { event: EventNo; hold: HoldId; how: string }[],
): Promise<void> {
  const instant = (ms: number) => new Date(ms).toISOString();
  await db.query('hold_ends_note', 'SELECT hold_ends_note($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)', [
    grants.map(({ event }) => event),
    grants.map(({ hold }) => hold),
    grants.map(({ visitor }) => visitor),
    grants.map(({ account }) => account),
    grants.map(({ grantedAt }) => instant(grantedAt)),
    grants.map(({ endsAt }) => instant(endsAt)),
    ends.map(({ event }) => event),
    ends.map(({ hold }) => hold),
    ends.map(({ how }) => how),
    grants.map(({ address }) => address),
  ]);
}

interface CooldownRow {
  event: EventNo;
  kind: Kind;
  subject: string;
  until: number | null;
  leftMs: number;
  unpaid: number;
}

/**
 * Returns the cooldowns that changed since then (epoch ms by Postgres's clock), or all that are in force, with the time of the
 * reading.
 */
async function changedCooldowns(db: Db, since: number | null): Promise<{ at: number; rows: CooldownRow[] }> {
  // The time comes even without a row. Two statements, so that each finds its index.
  const [name, which, values] =
    since === null
      ? (['cooldowns_in_force', 'until > now()', [knownMax]] as const)
      : (['cooldowns_changed', 'changed_at > to_timestamp($2::float8 / 1000)', [knownMax, since]] as const);
  const rows = await db.query<CooldownRow & { at: number }>(
    name,
    `SELECT epoch_ms(now()) AS at, c.event_no AS event, c.kind, c.subject, epoch_ms(c.until) AS until,
            greatest(0, extract(epoch FROM c.until - now()) * 1000)::float8 AS "leftMs", c.unpaid
     FROM (SELECT 1) one LEFT JOIN LATERAL (
       SELECT * FROM cooldowns WHERE ${which} ORDER BY changed_at DESC LIMIT $1) c ON true`,
    values,
  );
  return { at: rows[0]!.at, rows: rows.filter(({ event }) => event !== null) };
}

/** Processes the ends of holds that are due, in small steps; for the worker. Returns the number of processed holds. */
export async function judgeHoldEnds(db: Db): Promise<number> {
  let looked = 0;
  for (let pass = 0; pass < judgePassesMax; pass += 1) {
    const rows = await db.query<{ count: number }>('cooldown_judge', 'SELECT cooldown_judge($1) AS count', [
      judgedMax,
    ]);
    const { count } = rows[0]!;
    looked += count;
    if (count < judgedMax) break;
  }
  return looked;
}

/** The worker's part. */
export function judgeHoldEndsRegularly(loops: Loops, db: Db): void {
  loops.run({
    name: 'judge ended holds',
    everyMs: judgeMs,
    waitsFirst: true,
    turn: () => judgeHoldEnds(db),
  });
}

/** Buyers in a cooldown, for the organiser: longest first. */
export async function listCooldowns(
  db: Db,
  event: EventNo,
  limit = 200,
): Promise<{ count: number; cooldowns: { kind: string; subject: string; until: number; unpaid: number }[] }> {
  const rows = await db.query<{
    count: number;
    kind: string;
    subject: string;
    until: number;
    unpaid: number;
  }>(
    'cooldowns_list',
    `SELECT count(*) OVER () AS count, kind, subject, epoch_ms(until) AS until, unpaid FROM cooldowns
     WHERE event_no = $1 AND kind <> 'address' AND until > clock_timestamp() ORDER BY until DESC LIMIT $2`,
    [event, limit],
  );
  return {
    count: rows[0]?.count ?? 0,
    cooldowns: rows.map(({ kind, subject, until, unpaid }) => ({ kind, subject, until, unpaid })),
  };
}
