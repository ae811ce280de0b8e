import os from 'node:os';
import type { Config } from '../runtime/config.ts';
import type { Random } from '../runtime/random.ts';
import { storedSecret } from '../runtime/stored-secret.ts';

/**
 * The name stays the same after a restart, so that what the former run of this process was about to do is
 * continued at once.
 */
export function processName(config: Config, random: Random): string {
  return `${os.hostname()}/${storedSecret(config.dataDir, 'process-name', random, 9)}`;
}
