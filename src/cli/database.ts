import { migrateTo } from '../app/database.ts';
import { type Runtime, StartProblem } from '../app/runtime.ts';
import { PostgresFault } from '../postgres/install.ts';
import { runningPostgres, startPostgres } from '../postgres/server.ts';
import type { Config } from '../runtime/config.ts';

/**
 * The address of this installation's database. An embedded one is started if it does not run, and stopped by `close`;
 * under a running `onsale start` its server is used as it is.
 */
export async function reachDatabase(
  config: Config,
  runtime: Runtime,
): Promise<{ url: string; close(): Promise<void> }> {
  const { database } = config;
  if (database.kind === 'external') return { url: database.url, close: async () => {} };
  try {
    const server = await startPostgres({
      dataDir: database.dataDir,
      fallbackDir: database.fallbackDir,
      durable: true,
      ...runtime,
    });
    await server.ensureDatabase('onsale');
    return { url: server.url('onsale'), close: () => server.stop() };
  } catch (error) {
    if (!(error instanceof PostgresFault && error.code === 'in_use')) throw error;
    const running = await runningPostgres(database);
    if (!running) throw error;
    return { url: running.url('onsale'), close: async () => {} };
  }
}

/** The same, brought to this program's schema. */
export async function reachMigratedDatabase(
  config: Config,
  runtime: Runtime,
  onProgress: (line: string) => void = () => {},
): Promise<{ url: string; close(): Promise<void> }> {
  const reached = await reachDatabase(config, runtime);
  try {
    await migrateTo(reached.url, onProgress);
    return reached;
  } catch (error) {
    await reached.close();
    if (error instanceof StartProblem) throw error;
    throw new StartProblem(`The database cannot be used: ${(error as Error).message}`);
  }
}
