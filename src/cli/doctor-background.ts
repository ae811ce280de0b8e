import type { Runtime } from '../app.ts';
import { degradedParts, processesReporting } from '../sales/background-work.ts';
import { createDb } from '../sales/db.ts';
import type { Finding } from './doctor.ts';

const check = 'background';

/** What the processes say about their background work, and what is overdue. */
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
    if (running === 0) {
      return [...found, { check, state: 'note', detail: 'No process reports: nothing is running.' }];
    }
    const detail = `${running} ${running === 1 ? 'process reports' : 'processes report'}; nothing fails, nothing is overdue`;
    return found.length > 0 ? found : [{ check, state: 'ok', detail }];
  } catch (error) {
    // An older schema: the check of the schema says so.
    return [{ check, state: 'note', detail: `Could not be examined: ${(error as Error).message}` }];
  } finally {
    await db.close();
  }
}
