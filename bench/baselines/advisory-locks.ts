import type pg from 'pg';
import { hotSeats, type StoredArena } from '../hot-seats.ts';
import { readFree, seatTable, transaction, writeHold } from './seat-table.ts';

/** One lock for the whole event: everything that sells waits in one line. Nothing else is done in it. */
export async function openEventLock(pool: pg.Pool, seats: number): Promise<StoredArena> {
  const table = await seatTable(pool, seats);
  return {
    ...table,
    claim: (round, place, buyer) =>
      transaction(pool, async (ask) => {
        const seat = round * hotSeats + place;
        await ask('el_lock', 'SELECT pg_advisory_xact_lock(1, 1)', []);
        const { rows } = await ask('el_read', readFree, [seat]);
        if (!rows[0].free) return { commit: false, result: null };
        await ask('el_write', writeHold, [seat, `b${buyer}`]);
        return { commit: true, result: seat };
      }),
  };
}

/** The event's lock shared, then each seat's own, in ascending order: buyers of different seats do not meet. */
export async function openSeatLocks(pool: pg.Pool, seats: number): Promise<StoredArena> {
  const table = await seatTable(pool, seats);
  return {
    ...table,
    claim: (round, place, buyer) =>
      transaction(pool, async (ask) => {
        const seat = round * hotSeats + place;
        await ask(
          'sl_lock',
          `SELECT pg_advisory_xact_lock_shared(1, 1), pg_advisory_xact_lock(2, seat)
             FROM unnest($1::integer[]) AS seat ORDER BY seat`,
          [[seat]],
        );
        const { rows } = await ask('sl_read', readFree, [seat]);
        if (!rows[0].free) return { commit: false, result: null };
        await ask('sl_write', writeHold, [seat, `b${buyer}`]);
        return { commit: true, result: seat };
      }),
  };
}
