import type { Events } from '../catalogue/events.ts';
import type { CancelEvent } from '../checkout/cancel-event.ts';
import type { OperatorDesk } from '../checkout/operator-desk.ts';
import type { Refunds } from '../checkout/refunds.ts';
import type { Reversals } from '../checkout/reversals.ts';
import type { TicketKeyring } from '../fulfilment/ticket-keys.ts';
import type { AddressRule } from '../fulfilment/webhook-addresses.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { CancellationRecord } from '../orders/cancellations.ts';
import type { SalesRecord } from '../orders/record.ts';
import type { RefundRecord } from '../orders/refunds.ts';
import type { Db } from '../postgres/db.ts';
import type { CountsObject, StatusObject } from '../read-path/published.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import type { PlanWork } from './plan-work.ts';

/** Services that operations use. Each operation names its own. */
export interface OperateDeps {
  /** With a longer statement time limit than the buyers' requests have: publishing a large plan takes seconds. */
  db: Db;
  events: Events;
  /** Blocks are claims like any other. The command line connects only for operations that need it. */
  openArbiter(): Promise<Arbiter>;
  planWork: PlanWork;
  refundServices: RefundServices;
  /** The published objects of the event. Null if it is not published, or this process does not read them. */
  published(event: string): { counts: CountsObject | null; status: StatusObject | null };
  /** Names of the configured Redis servers that partitions may be pinned to. Null means that any name is accepted. */
  redisServers: readonly string[] | null;
  /** All keys that ticket codes of this installation are signed with. */
  ticketKeys(): Promise<TicketKeyring>;
  webhookAddresses: AddressRule;
  /** A platform can name accounts (ONSALE_ACCOUNT_SECRET). */
  namesAccounts: boolean;
  clock: Clock;
  random: Random;
}

/** Refunds, cancellations and payments that need a decision. On the command line they only decide; the workers pay. */
export interface RefundServices {
  orders: Pick<SalesRecord, 'findOrder'>;
  refunds: Refunds;
  refundRecord: RefundRecord;
  reversals: Pick<Reversals, 'ofOrder'>;
  cancelEvent: Pick<CancelEvent, 'ask' | 'confirm'>;
  cancellations: CancellationRecord;
  desk: OperatorDesk;
}
