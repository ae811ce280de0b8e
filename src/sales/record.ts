import type { EventId, EventNo, Holder, HoldId, OrderId, PartitionNo, Visitor } from '../core/hold.ts';
import type { OperationState, OrderState } from '../core/order.ts';
import type { Phase } from '../core/phase.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { PaymentView } from '../payments/provider.ts';

/** An event as the record knows it. Times are epoch ms, money is minor units of `currency`. */
export interface EventRecord {
  eventNo: EventNo;
  event: EventId;
  name: string;
  planId: string;
  currency: string;
  performanceAt: number | null;
  onSaleAt: number | null;
  saleEndsAt: number | null;
  prices: Record<string, number>;
  settings: EventSettings;
  phase: Phase;
  /** Of the operator's controls; every change names the version it replaces. */
  version: number;
  message: string | null;
  rateCeiling: number | null;
  layoutHash: string | null;
  seatCount: number;
}

export interface EventSettings {
  /** Milliseconds; 1 to 15 min, 10 by default. */
  holdTtlMs: number;
  /** Seats held, or reserved and unpaid, per holder (S7). */
  holdSeatsMax: number;
  /** Seats bought per account; null: no limit (P7). */
  accountSeatsMax: number | null;
  /** Minor units, added to each seat's price and once to an order. */
  seatFee: number;
  orderFee: number;
}

export const eventSettingsDefault: EventSettings = {
  holdTtlMs: 10 * 60_000,
  holdSeatsMax: 6,
  accountSeatsMax: null,
  seatFee: 0,
  orderFee: 0,
};

/** What the arbiter of a partition is just now (design §4.4). */
export interface PartitionMode {
  partition: PartitionNo;
  mode: 'postgres' | 'moving' | 'redis';
  epoch: number;
}

export interface OrderLine {
  seat: SeatNo;
  category: string;
  kind: string;
  price: number;
  fee: number;
}

export interface Order {
  order: OrderId;
  eventNo: EventNo;
  event: EventId;
  partition: PartitionNo;
  hold: HoldId;
  visitor: Visitor;
  holder: Holder;
  account: string;
  buyer: { name: string; email: string };
  lines: OrderLine[];
  orderFee: number;
  amount: number;
  currency: string;
  state: OrderState;
  reason: string | null;
  paymentDeadline: number;
  providerObject: string | null;
  instrument: { fingerprint: string; brand: string; last4: string } | null;
  createdAt: number;
}

export interface ReserveCommand {
  order: OrderId;
  hold: HoldId;
  event: EventNo;
  partition: PartitionNo;
  /** The epoch and deadline that `extend` answered. */
  epoch: number;
  deadline: number;
  visitor: Visitor;
  holder: Holder;
  account: string;
  buyer: { name: string; email: string };
  lines: OrderLine[];
  orderFee: number;
  currency: string;
}

export type ReserveOutcome =
  | { kind: 'reserved'; order: Order; repeated: boolean }
  /** Lapsed, released, too near its deadline, or its seats went to somebody else. */
  | { kind: 'hold_gone' }
  /** The visitor has another unpaid order in this event. */
  | { kind: 'open_order'; order: OrderId }
  | { kind: 'limit'; limit: 'account'; max: number; used: number }
  | { kind: 'not_open'; phase: Phase }
  | { kind: 'stale' }
  | { kind: 'retry' };

export interface MoneyOperation {
  operation: string;
  order: OrderId;
  kind: 'open' | 'authorise' | 'capture' | 'refund';
  state: OperationState;
  key: string;
  endKey: string | null;
  clientKey: string | null;
  request: string | null;
  instrument: { paymentMethod: string } | { confirmationToken: string } | null;
  providerObject: string | null;
  amount: number;
  currency: string;
  attempts: number;
  firstSentAt: number | null;
  dueAt: number | null;
  answer: { view?: PaymentView; decline?: string; detail?: string } | null;
}

/** A seat whose decided state changed in a step, for the arbiter's `project`. */
export interface DecidedSeat {
  seat: SeatNo;
  version: number;
  state: 'available' | 'reserved' | 'sold' | 'blocked';
}
