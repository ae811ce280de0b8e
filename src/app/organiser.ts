import path from 'node:path';
import type { Config } from '../runtime/config.ts';
import type { Random } from '../runtime/random.ts';
import { madeOrStoredSecret } from '../runtime/stored-secret.ts';
import type { Organiser } from './runtime.ts';

const passwordFile = 'organiser-password';

export function organiserOf(config: Config, random: Random): Organiser {
  const { email, password } = config.organiser;
  if (password !== undefined) return { email, password, passwordFrom: 'environment' };
  const { secret, isNew } = madeOrStoredSecret(config.dataDir, passwordFile, random, 12);
  return { email, password: secret, passwordFrom: isNew ? 'made' : 'file' };
}

/** Where the password is, for people: it is printed only by the start that made it. */
export function passwordPlace(config: Config, { passwordFrom }: Pick<Organiser, 'passwordFrom'>): string {
  if (passwordFrom === 'environment') return 'set by ONSALE_ORGANISER_PASSWORD';
  const file = path.join(config.dataDir, passwordFile);
  const relative = path.relative(process.cwd(), file);
  return `in the file ${relative.startsWith('..') ? file : relative}`;
}
