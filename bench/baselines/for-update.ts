import type pg from 'pg';
import { hotSeats, type StoredArena } from '../hot-seats.ts';
import { gap, readFree, seatTable, transaction, writeHold } from './seat-table.ts';

/**
 * A row lock with the application's thinking inside it: read the seat FOR UPDATE, 2 ms of the application's own (a price, a
 * limit, another service), write, commit. `gapOnRefusal`: it thinks before it looks, so that a refusal pays the gap too.
 */
export async function openForUpdate(
  pool: pg.Pool,
  { seats, gapMs, gapOnRefusal }: { seats: number; gapMs: number; gapOnRefusal: boolean },
): Promise<StoredArena> {
  const table = await seatTable(pool, seats);
  return {
    ...table,
    claim: (round, place, buyer) =>
      transaction(pool, async (ask) => {
        const seat = round * hotSeats + place;
        const { rows } = await ask('fu_read', `${readFree} FOR UPDATE`, [seat]);
        if (gapMs > 0 && (gapOnRefusal || rows[0].free)) await gap(gapMs);
        if (!rows[0].free) return { commit: false, result: null };
        await ask('fu_write', writeHold, [seat, `b${buyer}`]);
        return { commit: true, result: seat };
      }),
  };
}
