import type { Db } from '../postgres/db.ts';

/**
 * How fast passwords may be tried, per address range and per known browser. The count is shared by all processes. From the
 * sixth failure on, attempts are spaced by 1 s, 2 s, then always 4 s. That allows 900 guesses an hour in the long run. A failure
 * is forgotten after a minute. An attempt that would have to wait longer than `waitMaxMs` is refused at once.
 */
export const signInPolicy = {
  spacingsMs: [0, 0, 0, 0, 0, 1_000, 2_000, 4_000],
  forgetMs: 60_000,
  waitMaxMs: 10_000,
} as const;

/** Days after which a browser that has not signed in uses its address's budget again. */
export const deviceKeptDays = 400;

export interface SignInSlot {
  /** Budget to which `signInDone` returns the attempt. Null means that the attempt is not counted. */
  budget: string | null;
  waitMs: number;
  /** True if too many attempts wait already. Nothing was reserved. */
  refused: boolean;
}

/** `range` is null if the client's address is unknown. `device` is the hash of the browser's cookie, or null. */
export async function signInSlot(
  db: Db,
  { range, device, email }: { range: string | null; device: string | null; email: string },
): Promise<SignInSlot> {
  const { spacingsMs, forgetMs, waitMaxMs } = signInPolicy;
  const [slot] = await db.query<SignInSlot>(
    'sign_in_slot',
    'SELECT budget, wait_ms AS "waitMs", refused FROM sign_in_slot($1, $2, $3, $4, $5, $6)',
    [range, device, email, spacingsMs, forgetMs, waitMaxMs],
  );
  return slot!;
}

/** Call after a correct password: returns the attempt to its budget, and gives the browser its own budget from now on. */
export async function signInDone(
  db: Db,
  { budget, device, email }: { budget: string | null; device: string; email: string },
): Promise<void> {
  await db.query('sign_in_done', 'SELECT sign_in_done($1, $2, $3)', [budget, device, email]);
}

/** Deletes rows that no longer matter. Bounded per call, because strangers can create rows of address ranges. */
export async function tidySignIns(db: Db): Promise<void> {
  await db.query(
    'sign_in_tidy',
    `DELETE FROM sign_in_budgets WHERE budget IN (
       SELECT budget FROM sign_in_budgets
       WHERE counted_at < clock_timestamp() - interval '1 hour'
         AND (email IS NULL OR counted_at < clock_timestamp() - make_interval(days => $1))
       ORDER BY counted_at LIMIT 100 FOR UPDATE SKIP LOCKED)`,
    [deviceKeptDays],
  );
}
