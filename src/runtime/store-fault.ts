/**
 * A store (Postgres, Redis) failed; never an outcome of a command.
 * - `store_unavailable`: it was not reached, nothing was done.
 * - `store_busy`: it refused or rolled back (lock or statement time-out, serialisation after all retries): nothing was done.
 * - `outcome_unknown`: the connection was lost after sending, COMMIT's answer included: ask again by id before telling
 *   anybody anything.
 */
export class StoreFault extends Error {
  override readonly name = 'StoreFault';
  readonly code: 'store_unavailable' | 'store_busy' | 'outcome_unknown';
  /** Whether the same call may be sent again without asking first. */
  readonly retriable: boolean;

  constructor(code: StoreFault['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
    this.retriable = code !== 'outcome_unknown';
  }
}
