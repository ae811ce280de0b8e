import type { TestDatabase } from '../support/postgres.ts';

/** Inserts a published event with its tables and no seats. Returns its number. */
export async function insertTestEvent(
  database: TestDatabase,
  options: {
    phase?: string;
    seats?: number;
    onSaleAt?: string | null;
    saleEndsAt?: string | null;
    queueShards?: number;
  } = {},
): Promise<number> {
  const { phase = 'open', seats = 0, onSaleAt = null, saleEndsAt = null, queueShards = 1 } = options;
  await database.query(
    `INSERT INTO plans (plan_id, name, version, hash, plan, report) VALUES ('p', 'p', 1, 'h', '', '{}') ON CONFLICT DO NOTHING`,
  );
  const [row] = await database.query<{ event_no: number }>(
    `INSERT INTO events (event_id, name, plan_id, currency, prices, settings, phase, seat_count, on_sale_at, sale_ends_at,
       published_at)
     VALUES ('e' || (SELECT count(*) FROM events), 'Event', 'p', 'EUR', '{}', $5, $1, $2, $3, $4, now())
     RETURNING event_no`,
    [phase, seats, onSaleAt, saleEndsAt, JSON.stringify({ queueShards })],
  );
  const event = row!.event_no;
  await database.query('SELECT create_event_tables($1)', [event]);
  await database.query(
    'INSERT INTO seats (event_no, seat_no) SELECT $1, n FROM generate_series(0, $2::integer - 1) n',
    [event, seats],
  );
  return event;
}
