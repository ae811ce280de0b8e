import { assert } from '../core/outcome.ts';
import type { Db } from './db.ts';

/** Names this database for ever: in the keys of a Redis and in the payments of an account that it shares with others. */
export async function installationOf(db: Db): Promise<string> {
  const [row] = await db.query<{ id: string }>('installation', 'SELECT id FROM installation');
  assert(row, 'the database has an id');
  return row.id;
}
