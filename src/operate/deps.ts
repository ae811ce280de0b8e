import type { Events } from '../catalogue/events.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';

/** Services that operations use. Each operation names its own. */
export interface OperateDeps {
  /** With a longer statement time limit than the buyers' requests have: publishing a large plan takes seconds. */
  db: Db;
  events: Events;
  clock: Clock;
  random: Random;
}
