import { after, before } from 'node:test';
import { createInProcessRecord, type InProcessEvent } from '../../models/record.ts';
import type { Phase } from '../../src/core/phase.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import type { MoneyOperation, SalesRecord } from '../../src/orders/record.ts';
import type { PaymentView } from '../../src/payments/provider.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { setPhase } from '../support/acts.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { checkedRows } from '../support/row-schemas.ts';
import { linesOf, orderIdOf, stageEvent, uuidOf } from '../support/stage.ts';

/** A record with one open event of 10 seats, limits of 3 seats an account, 4 a card and 4 a browser, and a hand on its time. */
export interface Stage {
  record: SalesRecord;
  event: number;
  epoch: number;
  now(): number;
  later(ms: number): Promise<void>;
  setPhase(phase: Phase): Promise<void>;
}

const settings = {
  holdTtlMs: 600_000,
  holdSeatsMax: 6,
  accountSeatsMax: 3,
  instrumentSeatsMax: 4,
  visitorSeatsMax: 4,
  seatFee: 0,
  orderFee: 0,
};
let database: TestDatabase;
let db: Db;
before(async () => {
  database = await testDatabase();
  db = checkedRows(createDb({ url: database.url, poolSize: 4, clock: systemClock, log: silentLogger }));
});
after(async () => {
  await db?.close();
});

export async function inPostgres(): Promise<Stage> {
  const { event, epoch } = await stageEvent(database, { seats: 10, settings });
  // Claims of due operations are not by event: what an earlier stage left is none of this one's.
  await database.query('DELETE FROM money_operations');
  await database.query('DELETE FROM provider_events');
  await database.query(`UPDATE orders SET state = 'closed', provider_object = NULL`);
  return {
    record: createSalesRecord({ db }),
    event,
    epoch,
    now: () => Date.now(),
    later: async (ms) => {
      const by = [`${ms} milliseconds`];
      await database.query('UPDATE orders SET payment_deadline = payment_deadline - $1::interval', by);
      await database.query(
        `UPDATE money_operations SET due_at = due_at - $1::interval, claimed_until = claimed_until - $1::interval,
           first_sent_at = first_sent_at - $1::interval, asked_until = asked_until - $1::interval`,
        by,
      );
      await database.query(
        `UPDATE provider_events SET due_at = due_at - $1::interval, claimed_until = claimed_until - $1::interval,
           received_at = received_at - $1::interval`,
        by,
      );
      await database.query('UPDATE orders SET capture_before = capture_before - $1::interval', by);
    },
    setPhase: (phase) => setPhase(database, event, phase),
  };
}

export async function inProcess(like?: Stage): Promise<Stage> {
  let ahead = 0;
  const clock = { now: () => Date.now() + ahead };
  const { event, epoch } = like ?? { event: 1, epoch: 7 };
  const of: InProcessEvent = {
    event: 'event',
    phase: 'open',
    currency: 'EUR',
    seatCount: 10,
    settings,
    partitions: new Map([[0, { mode: 'redis' as const, epoch }]]),
  };
  return {
    record: createInProcessRecord({ clock, eventOf: () => of }),
    event,
    epoch,
    now: clock.now,
    later: async (ms) => {
      ahead += ms;
    },
    setPhase: async (phase) => {
      of.phase = phase;
    },
  };
}

export const claim = { owner: 'me', leaseMs: 30_000 };

/** Hold `n` of the histories: three visitors, overlapping seats, two accounts. */
export function reserveHold(stage: Stage, n: number) {
  const seats = [[0], [0, 1], [2], [1, 2], [3, 4, 5], [6], [7], [8, 9], [3], [6, 7]][n % 10]!;
  const hold = uuidOf(`hold ${stage.event} ${n}`);
  return stage.record.reserve({
    order: orderIdOf(hold),
    hold,
    event: stage.event,
    partition: 0,
    epoch: stage.epoch,
    deadline: stage.now() + 300_000,
    visitor: `visitor-${n % 5}`,
    holder: `visitor-${n % 5}`,
    account: `account-${n % 3}`,
    buyer: { name: 'n', email: 'e' },
    lines: linesOf(seats),
    orderFee: 10,
    currency: 'EUR',
  });
}

export function viewOf(operation: MoneyOperation, status: PaymentView['status']): PaymentView {
  return {
    object: operation.providerObject ?? 'none',
    status,
    amount: operation.amount,
    currency: operation.currency,
    madeBy: 'us',
    reference: operation.order,
    captured: status === 'captured' ? operation.amount : 0,
    refunded: 0,
    action: null,
    captureBefore: null,
    instrument: { fingerprint: `card-${operation.amount % 2}`, brand: 'visa', last4: '4242' },
    decline: null,
  };
}
