import fs from 'node:fs';
import path from 'node:path';
import type { Random } from './random.ts';

/**
 * A secret that is made once and kept in the data folder (0600): the same after every restart. `length` is in bytes
 * of chance; the text is base64url. Two processes that start at once end with the same one.
 */
export function storedSecret(dataDir: string, name: string, random: Random, length = 32): string {
  return madeOrStoredSecret(dataDir, name, random, length).secret;
}

/** As `storedSecret`, but also tells whether this call made the secret. */
export function madeOrStoredSecret(
  dataDir: string,
  name: string,
  random: Random,
  length: number,
): { secret: string; isNew: boolean } {
  const file = path.join(dataDir, name);
  // Others may pass through (the database's user must), not look inside.
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o711 });
  const known = readSecret(file);
  if (known) return { secret: known, isNew: false };
  const partial = `${file}.${process.pid}`;
  fs.writeFileSync(partial, `${Buffer.from(random.bytes(length)).toString('base64url')}\n`, { mode: 0o600 });
  let isNew = true;
  try {
    // A link appears whole or not at all, and does not replace a file that another process made meanwhile.
    fs.linkSync(partial, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    isNew = false;
  } finally {
    fs.rmSync(partial);
  }
  return { secret: readSecret(file)!, isNew };
}

function readSecret(file: string): string | undefined {
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : undefined;
}
