import type { Db } from '../postgres/db.ts';
import type { LoopHealth } from '../runtime/loops.ts';

/**
 * Rules that decide whether background work is degraded, shared by `doctor`, /readyz and the organiser's console. Nothing here
 * stops a sale. Each entry names a part, what was observed and what to do.
 */
export interface DegradedPart {
  code: 'loop_failing' | 'clock' | 'process_silent' | 'role_missing' | 'overdue';
  /** Name of the loop or role, or the kind of work. */
  part: string;
  /** One sentence without personal data. */
  detail: string;
  remedy: string;
  /** Epoch ms by Postgres's clock. Null if unknown. */
  since: number | null;
  /** Number of overdue items, at most `countMax`. Null for the other codes. */
  count: number | null;
}

/** How often each process reports. */
export const reportEveryMs = 3_000;
/** A process that has not reported for this time is silent. */
const silentAfterMs = 20_000;
/** A process that ended without an orderly stop is forgotten after this time. */
const forgottenAfterMs = 5 * 60_000;
/** A loop that has been failing for less than this is not reported: it may be a lost connection or a restart of Postgres. */
const failingAfterMs = 10_000;
/** A process's clock may differ from Postgres's by this much. */
export const clockSkewMaxMs = 500;
/** Overdue work is counted up to this number, so that a large backlog costs no more than a small one. */
const countMax = 1_000;

interface DueRule {
  part: string;
  /** Work that has been due for longer is overdue. */
  afterMs: number;
  /** `SELECT … AS at`: when work became due, oldest first, at most $limit rows. `$before` is the latest time that counts. */
  rows: string;
  remedy: string;
}

const worker = 'Check that a process with the role worker runs, and its log.';

/** Each rule reads an index, so that its cost does not grow with the table. */
const dueRules: readonly DueRule[] = [
  {
    part: 'jobs on their way to the queue',
    afterMs: 15_000,
    rows: `SELECT enqueued_at AS at FROM (SELECT enqueued_at FROM job_outbox ORDER BY job_no LIMIT $limit) o WHERE enqueued_at < $before`,
    remedy: worker,
  },
  {
    part: 'jobs',
    afterMs: 60_000,
    rows: `SELECT run_at AS at FROM graphile_worker._private_jobs
           WHERE is_available AND priority = 0 AND run_at < $before ORDER BY run_at LIMIT $limit`,
    remedy: worker,
  },
  {
    part: 'mails',
    afterMs: 5 * 60_000,
    rows: `SELECT created_at AS at FROM mails WHERE state = 'due' AND created_at < $before ORDER BY created_at LIMIT $limit`,
    remedy: 'Look at the list of mails (onsale mail list): it shows what the mail server answered.',
  },
  {
    part: 'money operations',
    afterMs: 60_000,
    rows: `SELECT due_at AS at FROM money_operations WHERE due_at < $before ORDER BY due_at LIMIT $limit`,
    remedy: worker,
  },
  {
    part: 'provider events',
    afterMs: 60_000,
    rows: `SELECT due_at AS at FROM provider_events WHERE due_at < $before ORDER BY due_at LIMIT $limit`,
    remedy: worker,
  },
  {
    part: 'orders past their payment deadline',
    afterMs: 2 * 60_000,
    rows: `SELECT payment_deadline AS at FROM orders WHERE state = 'reserved' AND payment_deadline < $before
           ORDER BY payment_deadline LIMIT $limit`,
    remedy: `${worker} An order whose payment is under way waits for its end.`,
  },
  {
    part: 'webhook deliveries',
    afterMs: 2 * 60_000,
    rows: `SELECT d.due_at AS at FROM webhook_endpoints e CROSS JOIN LATERAL (
             SELECT due_at FROM webhook_deliveries d WHERE d.endpoint_id = e.endpoint_id AND d.state = 'due'
               AND d.due_at < $before ORDER BY d.due_at LIMIT $limit) d
           WHERE e.state = 'active' AND (e.rests_until IS NULL OR e.rests_until < $before)`,
    remedy: worker,
  },
  {
    part: 'cancellations of events',
    afterMs: 60_000,
    // Each round renews the claim. A run without a claim for a while makes no progress.
    rows: `SELECT coalesce(claimed_until, started_at) AS at FROM event_cancellations
           WHERE state = 'running' AND coalesce(claimed_until, started_at) < $before ORDER BY 1 LIMIT $limit`,
    remedy: worker,
  },
];

/** One statement for all rules, built once from constants. */
const overdueSql = dueRules
  .map(({ part, afterMs, rows }) => {
    const before = `clock_timestamp() - interval '${afterMs} milliseconds'`;
    const source = rows.replaceAll('$before', before).replaceAll('$limit', String(countMax));
    return `SELECT '${part}' AS part, count(*) AS count, epoch_ms(min(at))::float8 AS since FROM (${source}) due`;
  })
  .join('\nUNION ALL ');

/** Work that has been due for longer than its rule allows. */
async function overdueWork(db: Db): Promise<DegradedPart[]> {
  const rows = await db.query<{ part: string; count: number; since: number | null }>(
    'overdue_work',
    overdueSql,
  );
  return rows.flatMap(({ part, count, since }) => {
    const rule = dueRules.find((one) => one.part === part);
    if (count === 0 || !rule) return [];
    const number = count >= countMax ? `${countMax} or more` : String(count);
    const detail = `${number} ${part}: due for longer than ${durationText(rule.afterMs)}.`;
    return [{ code: 'overdue' as const, part, detail, remedy: rule.remedy, since, count }];
  });
}

/** Stored state of a loop. It has ages instead of times, because a process's clock may be wrong. */
interface StoredPart {
  name: string;
  state: LoopHealth['state'];
  troubledMs: number | null;
  successMs: number | null;
  failures: number;
  error: string | null;
}

export interface ProcessReport {
  process: string;
  roles: readonly string[];
  /** Milliseconds since its start. */
  upMs: number;
  health: readonly LoopHealth[];
}

/** Stores the report of a process about its loops. Returns the time of Postgres, epoch ms. */
export async function reportProcess(db: Db, report: ProcessReport, now: number): Promise<number> {
  const parts = report.health.map(
    ({ name, state, since, lastSuccessAt, failures, error }): StoredPart => ({
      name,
      state,
      troubledMs: since === null ? null : now - since,
      successMs: lastSuccessAt === null ? null : now - lastSuccessAt,
      failures,
      error: error?.slice(0, 300) ?? null,
    }),
  );
  const rows = await db.query<{ at: number }>(
    'process_report',
    'SELECT process_report($1, $2, $3, $4, $5) AS at',
    [report.process, report.roles, Math.round(report.upMs), JSON.stringify(parts), forgottenAfterMs],
  );
  return rows[0]!.at;
}

export async function processStopped(db: Db, process: string): Promise<void> {
  await db.query('process_stopped', 'DELETE FROM process_health WHERE process = $1', [process]);
}

interface ProcessRow {
  process: string;
  roles: string[];
  silentMs: number;
  reportedAt: number;
  parts: StoredPart[];
}

const clockLoop = 'agree with Postgres about the time';

/** Returns the health of a process's clock as one of its parts. */
export function clockHealth(skewMs: number | null, since: number | null): LoopHealth {
  const isFar = skewMs !== null && Math.abs(skewMs) > clockSkewMaxMs;
  return {
    name: clockLoop,
    state: isFar ? 'failing' : 'ok',
    since: isFar ? since : null,
    lastSuccessAt: null,
    failures: 0,
    error: isFar ? skewText(skewMs) : null,
  };
}

/** `skewMs`: Postgres's clock minus this process's. */
export function skewText(skewMs: number): string {
  return `${durationText(Math.abs(skewMs))} ${skewMs < 0 ? 'ahead of' : 'behind'} Postgres`;
}

function degradedOf(row: ProcessRow, part: StoredPart): DegradedPart[] {
  if (part.state !== 'failing' && part.state !== 'hung') return [];
  const troubledMs = (part.troubledMs ?? 0) + row.silentMs;
  const since = row.reportedAt - (part.troubledMs ?? 0);
  const where = `process ${row.process}`;
  if (part.name === clockLoop) {
    return [
      {
        code: 'clock',
        part: 'clock',
        detail: `The clock of ${where} is ${part.error}.`,
        remedy:
          'Run an NTP client on both machines: webhooks are refused and countdowns are wrong until then.',
        since,
        count: null,
      },
    ];
  }
  if (troubledMs < failingAfterMs) return [];
  const how = part.state === 'hung' ? 'has been hung' : 'has been failing';
  return [
    {
      code: 'loop_failing',
      part: part.name,
      detail: `"${part.name}" ${how} for ${durationText(troubledMs)} (${where}): ${part.error ?? 'reason unknown'}`,
      remedy: 'It is repeated automatically. If it does not recover, see the log of that process.',
      since,
      count: null,
    },
  ];
}

/** Returns the roles of each process that currently reports. */
export async function processesReporting(db: Db): Promise<string[][]> {
  const rows = await db.query<{ roles: string[] }>(
    'processes_reporting',
    `SELECT roles FROM process_health WHERE reported_at > clock_timestamp() - $1 * interval '1 millisecond'`,
    [silentAfterMs],
  );
  return rows.map(({ roles }) => roles);
}

const neededRoles = ['controller', 'worker'];

/** Returns the problems that processes report, and the processes that no longer report. Empty if no process ever reported. */
async function processTroubles(db: Db): Promise<DegradedPart[]> {
  const rows = await db.query<ProcessRow>(
    'process_health',
    `SELECT process, roles, parts, epoch_ms(reported_at)::float8 AS "reportedAt",
            (extract(epoch FROM clock_timestamp() - reported_at) * 1000)::float8 AS "silentMs"
     FROM process_health WHERE reported_at > clock_timestamp() - $1 * interval '1 millisecond' ORDER BY process`,
    [forgottenAfterMs],
  );
  const alive = rows.filter(({ silentMs }) => silentMs < silentAfterMs);
  const silent = rows.filter(({ silentMs }) => silentMs >= silentAfterMs);
  const missing =
    rows.length === 0 ? [] : neededRoles.filter((role) => !alive.some(({ roles }) => roles.includes(role)));
  return [
    ...alive.flatMap((row) => row.parts.flatMap((part) => degradedOf(row, part))),
    ...silent.map(({ process, silentMs, reportedAt }) => ({
      code: 'process_silent' as const,
      part: process,
      detail: `Process ${process} has not reported for ${durationText(silentMs)}.`,
      remedy: `It was killed, is frozen, or cannot reach Postgres. A process that has ended is forgotten after ${durationText(forgottenAfterMs)}.`,
      since: reportedAt,
      count: null,
    })),
    ...missing.map((role) => ({
      code: 'role_missing' as const,
      part: role,
      detail: `No process with the role ${role} reports.`,
      remedy: `Start one: onsale start --roles ${role}`,
      since: null,
      count: null,
    })),
  ];
}

/** Summary for a public probe: what is degraded, without names of machines. */
export function degradedSummary(parts: readonly DegradedPart[]): string {
  const sentences = parts.map(({ code, part, count }) => {
    if (code === 'overdue') return `${count} ${part} overdue`;
    if (code === 'clock') return "a clock is far from Postgres's";
    if (code === 'process_silent') return 'a process does not report';
    if (code === 'role_missing') return `no process runs as ${part}`;
    return `failing: ${part}`;
  });
  return [...new Set(sentences)].join('; ');
}

/** Returns everything that is degraded, over all processes of the installation. */
export async function degradedParts(db: Db): Promise<DegradedPart[]> {
  const [troubles, overdue] = await Promise.all([processTroubles(db), overdueWork(db)]);
  return [...troubles, ...overdue];
}

function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 100 * 60_000) return `${Math.round(ms / 60_000)} min`;
  return `${Math.round(ms / 3_600_000)} h`;
}
