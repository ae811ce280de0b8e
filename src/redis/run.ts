/**
 * Which memory a server answers from: its run, and the history of its data by the server's own account (INFO replication). The
 * run id survives a detour as a replica, which puts another server's data in place of its own; the history does not: a server
 * that becomes a primary again draws a new replication id and keeps the one it copied as the former.
 */
export interface RedisRun {
  runId: string;
  /** master_replid; empty where the server does not say. */
  history: string;
  /** master_replid2: the history that this one goes on from; null for a server that began its own. */
  former: string | null;
}

const noHistory = /^0*$/;

/** From the fields of INFO server and INFO replication. */
export function redisRun(fields: Readonly<Record<string, string>>): RedisRun {
  const { run_id: runId = '', master_replid: history = '', master_replid2: former = '' } = fields;
  return { runId, history, former: noHistory.test(former) ? null : former };
}

/** How a run is trusted in a partition's row: `<run id>:<replication id>`. */
export function nameOfRun({ runId, history }: RedisRun): string {
  return history === '' ? runId : `${runId}:${history}`;
}

/**
 * Whether `now` still has the memory that was trusted under `name`. A primary also draws a new replication id when its first
 * replica connects, or an hour after its last one left; then it has no former one. A name without a replication id, as in rows
 * from before it was recorded, means the run alone.
 */
export function isRunOf(name: string, now: RedisRun): boolean {
  const [runId, history] = name.split(':');
  return runId === now.runId && (history === undefined || history === now.history || now.former === null);
}
