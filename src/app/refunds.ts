import type { Events } from '../catalogue/events.ts';
import { type CancelEvent, createCancelEvent } from '../checkout/cancel-event.ts';
import { createOperatorDesk } from '../checkout/operator-desk.ts';
import { createRefunds } from '../checkout/refunds.ts';
import { createReversals } from '../checkout/reversals.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { RefundServices } from '../operate/deps.ts';
import { createCancellationRecord } from '../orders/cancellations.ts';
import type { SalesRecord } from '../orders/record.ts';
import { createRefundRecord } from '../orders/refunds.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import type { HoldsReader } from './stores.ts';

export interface RefundParts {
  db: Db;
  record: SalesRecord;
  /** Null on the command line, which only decides; the workers give the money back. */
  provider: PaymentProvider | null;
  arbiter: Pick<Arbiter, 'project'>;
  events: Events;
  redisHolds: HoldsReader | null;
  owner: string;
  clock: Clock;
  random: Random;
  log: Logger;
}

/** Refunds and the cancelling of events: what the checkout drives, what the worker runs, and what organisers decide. */
export function openRefunds(parts: RefundParts): RefundServices & { cancelEvent: CancelEvent } {
  const { db, record: orders, events, ...rest } = parts;
  const refundRecord = createRefundRecord({ db });
  const cancellations = createCancellationRecord({ db });
  const reversals = createReversals({ db, provider: parts.provider, log: parts.log });
  const refunds = createRefunds({ ...rest, record: refundRecord, orders, reversals });
  const modes = events.modes;
  const cancelEvent = createCancelEvent({ ...rest, record: cancellations, refunds, modes });
  const desk = createOperatorDesk({ db, refunds, random: parts.random });
  return { orders, refunds, refundRecord, reversals, cancelEvent, cancellations, desk };
}
