import { connectionsMaxOf } from '../app/database.ts';
import type { Runtime } from '../app/runtime.ts';
import { counted } from '../core/counted.ts';
import { degradedParts, processesReporting } from '../health/background-work.ts';
import { createDb, type Db } from '../postgres/db.ts';
import type { Finding } from './doctor-finding.ts';

const check = 'background';

/** Checks what the processes report about their background work, and what is overdue. */
export async function examineBackground(url: string, { clock, log }: Runtime): Promise<Finding[]> {
  const db = createDb({ url, poolSize: 2, clock, log, applicationName: 'onsale doctor' });
  try {
    const [degraded, running] = await Promise.all([degradedParts(db), processesReporting(db)]);
    const found = degraded.map(
      ({ code, detail, remedy }): Finding => ({
        check,
        state: code === 'process_silent' ? 'note' : 'wrong',
        detail,
        remedy,
      }),
    );
    if (running.length === 0) {
      return [...found, { check, state: 'note', detail: 'No process reports: nothing is running.' }];
    }
    const detail = `${counted(running.length, 'process reports', 'processes report')}; nothing fails, nothing is overdue`;
    const well: Finding[] = [{ check, state: 'ok', detail }];
    return [...(found.length > 0 ? found : well), await connections(db, running)];
  } catch (error) {
    // An older schema: the check of the schema says so.
    return [{ check, state: 'note', detail: `Could not be examined: ${(error as Error).message}` }];
  } finally {
    await db.close();
  }
}

/** For the command line, backups and monitoring. */
const sparedConnections = 10;

async function connections(db: Db, processes: readonly string[][]): Promise<Finding> {
  const [row] = await db.query<{ allowed: number }>(
    'connections_allowed',
    `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS allowed`,
  );
  const { allowed } = row!;
  const most = connectionsMaxOf(processes);
  const detail = `${counted(processes.length, 'process opens', 'processes open')} ${most} connections at most; Postgres allows ${allowed}`;
  if (most + sparedConnections <= allowed) return { check: 'connections', state: 'ok', detail };
  return {
    check: 'connections',
    state: 'note',
    detail,
    remedy: `At the height of a sale, buyers would be told that the sale is busy. Set max_connections of Postgres to ${most + 2 * sparedConnections} or more, or give the processes fewer roles (--roles).`,
  };
}
