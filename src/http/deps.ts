import type { Events } from '../catalogue/events.ts';
import type { Checkout } from '../checkout/outcomes.ts';
import type { EventNo, Holder, OrderId, Visitor } from '../core/hold.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Readiness } from '../health/readiness.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { Cooldowns } from '../orders/cooldowns.ts';
import type { MoneyOperation } from '../orders/record.ts';
import type { MoneyReturned, Refund } from '../orders/refunds.ts';
import type { Reversal } from '../orders/reversals.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import type { PublishedReader } from '../read-path/published-reader.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import type { Credentials } from '../waiting-room/credentials.ts';
import type { JoinBatcher } from '../waiting-room/join-batcher.ts';
import type { WaitingRoom } from '../waiting-room/waiting-room.ts';
import type { AccessCodes } from './access-codes.ts';
import type { AccountTokens } from './account-token.ts';
import type { ClientAddresses } from './client-address.ts';
import type { PathMeter } from './path-meter.ts';

/** Everything that the buyers' routes stand on; `app.ts` puts it together. */
export interface HttpDeps {
  clock: Clock;
  random: Random;
  log: Logger;
  /** The address that buyers see, without a final slash; known once the server listens. */
  publicUrl: () => string;
  /** IANA time zone of the venue, in which pages and mails show the event's times. */
  timeZone: string;
  trustProxy: false | number | string[];
  /** The addresses of clients, for throttles and bounds by address. */
  clients: ClientAddresses;
  /** Folder of the built pages. Null if this process serves none. */
  webDir: string | null;
  /** Origins of the payment script and of what it talks to, for the content security policy. */
  paymentOrigins: { script: string[]; connect: string[]; frame: string[] };
  credentials: Credentials;
  events: Events;
  published: PublishedReader;
  room: Pick<WaitingRoom, 'redeem'>;
  /** Joins that arrive in one tick share a call to the store. */
  joins: JoinBatcher;
  arbiter: Arbiter;
  checkout: Checkout;
  provider: Pick<PaymentProvider, 'parseWebhook'>;
  /** Money operations of an unpaid order, oldest first, for its payment page. */
  operations: (order: OrderId) => Promise<MoneyOperation[]>;
  /** Reversals of a paid or cancelled order, oldest first. */
  reversalsOf: (order: OrderId) => Promise<Pick<Reversal, 'kind' | 'amount' | 'state' | 'createdAt'>[]>;
  refundsOf: (order: OrderId) => Promise<Pick<Refund, 'amount' | 'state' | 'createdAt'>[]>;
  /** Money that was taken for an order without a sale and given back, oldest first. */
  returnedOf: (order: OrderId) => Promise<Pick<MoneyReturned, 'amount' | 'at'>[]>;
  /** Tickets of a paid order, with what the scanner reads. */
  tickets: (order: { eventNo: EventNo; order: OrderId }) => Promise<IssuedTicket[]>;
  /** Reads account tokens of the platform that embeds the sale. Undefined means that no event can require an account. */
  accountTokens?: AccountTokens;
  /** Access codes: what only their holders may buy, or may buy first. */
  accessCodes: AccessCodes;
  /** Cooldowns after repeated unpaid holds. Undefined if disabled. */
  cooldowns?: Cooldowns;
  /** Whether the organiser has lifted the limits for this buyer. Undefined means that limits apply to all. */
  isExcepted?: (event: EventNo, holder: Holder, visitor: Visitor) => Promise<boolean>;
  /** Watches how fast the purchase path answers. */
  pathMeter?: PathMeter;
  /** The services that selling needs, each with a sentence if it does not respond. */
  ready: () => Promise<Readiness>;
}

export interface IssuedTicket {
  ticket: string;
  seat: SeatNo;
  code: string;
}
