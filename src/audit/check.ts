import type { EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';

/**
 * One query to the record. Each row that it returns is a contradiction. The statement takes the event as $1 and returns the
 * columns `seat`, `order`, `hold` (null where they do not apply) and `says`: the two values that contradict each other.
 */
export interface RecordCheck {
  /** The promise that is broken by a row (docs/SPEC.md). */
  promise: string;
  /** Unique; names the prepared statement. */
  name: string;
  /** The things that are compared, to be read after "checked:". */
  looks: string;
  /** The operator's action for a row. */
  remedy: string;
  text: string;
}

export interface RecordContradiction {
  seat: number | null;
  order: string | null;
  hold: string | null;
  says: string;
}

/** At most `limit` of the contradictions, and how many there are. */
export async function findContradictions(
  db: Db,
  check: RecordCheck,
  event: EventNo,
  limit: number,
): Promise<{ rows: RecordContradiction[]; total: number }> {
  const rows = await db.query<RecordContradiction & { total: number }>(
    `audit_${check.name}`,
    `SELECT found.*, count(*) OVER () AS total FROM (${check.text}) AS found LIMIT ${limit}`,
    [event],
  );
  const total = rows[0]?.total ?? 0;
  return { rows: rows.map(({ seat, order, hold, says }) => ({ seat, order, hold, says })), total };
}

/** A check that a unique index exists, is valid and unique: the index keeps the promise between audits. */
export function indexCheck(
  promise: string,
  table: string,
  columns: string,
  /** Part of its condition as Postgres prints it, and the rows that have it, in words. Both are empty for an index of all rows. */
  condition: string,
  rows: string,
): RecordCheck {
  // Names of statements are cut off after 63 bytes, which would run one instead of another.
  const name = `index_${table}_${columns}_${condition}`.replace(/\W+/g, '_').slice(0, 50).replace(/_$/, '');
  const index = `the unique index on ${table} (${columns})${rows ? ` of ${rows}` : ''}`;
  const quoted = condition.replace(/'/g, "''");
  const isPartitioned = ['tickets', 'seats', 'holds'].includes(table);
  return {
    promise,
    name,
    looks: `${index} exists`,
    remedy:
      'Stop selling and create the index again (migrations/0001_schema.sql): without it nothing keeps a second one out.',
    text: `
      SELECT NULL::integer AS seat, NULL::uuid AS "order", NULL::uuid AS hold,
             'no valid unique index on ${table} (${columns})${condition ? ` where ${quoted}` : ''}' AS says
      WHERE $1::integer IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_index i
        WHERE i.indrelid = to_regclass(${isPartitioned ? `'${table}_' || $1` : `'${table}'`})
          AND i.indisunique AND i.indisvalid AND i.indisready
          AND pg_get_indexdef(i.indexrelid) LIKE '%(${columns})%'
          AND coalesce(pg_get_expr(i.indpred, i.indrelid), '') LIKE '%${quoted}%')`,
  };
}
