import type { Db } from '../postgres/db.ts';

/** The purchase path (holds and orders) over a process's last seconds. */
export interface PathWindow {
  requests: number;
  latencyP95Ms: number;
  /** Share of answers that were 5xx, 0..1. */
  errorShare: number;
}

/** Older windows say nothing about now. Seconds. */
const freshSeconds = 5;
/** Fewer requests than that are chance. */
const requestsMin = 20;

/** A web process tells the leaders what it saw. */
export async function reportPath(db: Db, owner: string, window: PathWindow): Promise<void> {
  await db.query(
    'path_report',
    `INSERT INTO path_signals (owner, measured_at, requests, latency_p95_ms, error_share)
     VALUES ($1, clock_timestamp(), $2, $3, $4)
     ON CONFLICT (owner) DO UPDATE SET measured_at = excluded.measured_at, requests = excluded.requests,
       latency_p95_ms = excluded.latency_p95_ms, error_share = excluded.error_share`,
    [owner, window.requests, window.latencyP95Ms, window.errorShare],
  );
}

/** The slowest process's latency and the share of errors over all; null while too little was measured. */
export async function readPath(db: Db): Promise<PathWindow | null> {
  const [row] = await db.query<{ requests: number; p95: number; errors: number }>(
    'path_read',
    `SELECT coalesce(sum(requests), 0)::int AS requests, coalesce(max(latency_p95_ms), 0) AS p95,
       coalesce(sum(error_share * requests) / nullif(sum(requests), 0), 0) AS errors
     FROM path_signals WHERE measured_at > clock_timestamp() - make_interval(secs => $1)`,
    [freshSeconds],
  );
  if (!row || row.requests < requestsMin) return null;
  return { requests: row.requests, latencyP95Ms: row.p95, errorShare: row.errors };
}

/** A process tells the leaders how the payment provider takes its calls. */
export async function reportProvider(
  db: Db,
  owner: string,
  window: { calls: number; refused: number },
): Promise<void> {
  await db.query(
    'provider_report',
    `INSERT INTO provider_signals (owner, measured_at, calls, refused) VALUES ($1, clock_timestamp(), $2, $3)
     ON CONFLICT (owner) DO UPDATE SET measured_at = excluded.measured_at, calls = excluded.calls, refused = excluded.refused`,
    [owner, window.calls, window.refused],
  );
}

/** Over all processes, in their last seconds. */
export async function readProvider(db: Db): Promise<{ calls: number; refused: number }> {
  const [row] = await db.query<{ calls: number; refused: number }>(
    'provider_read',
    `SELECT coalesce(sum(calls), 0)::int AS calls, coalesce(sum(refused), 0)::int AS refused
     FROM provider_signals WHERE measured_at > clock_timestamp() - make_interval(secs => $1)`,
    [freshSeconds],
  );
  return row!;
}
