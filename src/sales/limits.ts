import type { EventNo } from '../core/hold.ts';
import type { Db } from './db.ts';

/** Seats that count against an account's limit: bought ones, and those of its orders that are not paid yet (P7). */
export async function accountSeats(
  db: Db,
  event: EventNo,
  account: string,
): Promise<{ bought: number; open: number }> {
  const rows = await db.query<{ bought: number; open: number }>(
    'limit_account_seats',
    `SELECT coalesce((SELECT seats FROM limit_counts
                      WHERE event_no = $1 AND kind = 'account' AND subject = $2), 0) AS bought,
            coalesce((SELECT sum(cardinality(seats)) FROM orders
                      WHERE event_no = $1 AND account = $2 AND state IN ('reserved','authorised')), 0)::integer AS open`,
    [event, account],
  );
  return rows[0]!;
}
