import type { Events } from '../catalogue/events.ts';
import type { Checkout } from '../checkout/outcomes.ts';
import type { EventNo, Holder, Visitor } from '../core/hold.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Cooldowns } from '../orders/cooldowns.ts';
import type { PublishedReader } from '../read-path/published-reader.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import type { Credentials } from '../waiting-room/credentials.ts';

/** What bookings stand on. */
export interface BookingDeps {
  arbiter: Arbiter;
  credentials: Credentials;
  events: Events;
  published: Pick<PublishedReader, 'get'>;
  checkout: Pick<Checkout, 'find' | 'abandon'>;
  /** Cooldowns after repeated unpaid holds. Undefined if disabled. */
  cooldowns?: Cooldowns;
  /** Whether the organiser has lifted the limits for this buyer. Undefined means that limits apply to all. */
  isExcepted?: (event: EventNo, holder: Holder, visitor: Visitor) => Promise<boolean>;
  clock: Clock;
  random: Random;
}
