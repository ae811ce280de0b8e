import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { type CheckoutOptions, createCheckout } from '../../src/checkout/checkout.ts';
import { createInbox } from '../../src/checkout/inbox.ts';
import { createReconciler } from '../../src/checkout/reconcile.ts';
import type { Hold } from '../../src/core/hold.ts';
import type { Arbiter } from '../../src/inventory/arbiter.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import type { EventSettings, Order, OrderLine, SalesRecord } from '../../src/orders/record.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { makeDue } from './acts.ts';
import { auditOf, unsettled, violationsOf } from './at-rest.ts';
import type { TestDatabase } from './postgres.ts';
import { checkedRows } from './row-schemas.ts';
import type { TestSimulator } from './simulator.ts';

/** Epoch of each staged event's partition 0. */
const epochs = new Map<number, number>();

/** An event with `seats` seats, open, arbitrated in `mode`; written straight into the tables. */
export async function stageEvent(
  database: TestDatabase,
  options: { seats?: number; mode?: 'postgres' | 'redis'; settings?: Partial<EventSettings> } = {},
): Promise<{ event: number; epoch: number }> {
  await database.query(`INSERT INTO plans (plan_id, name, version, hash, plan, report)
    VALUES ('plan', 'plan', 1, 'hash', '', '{}') ON CONFLICT DO NOTHING`);
  const name = `event-${randomUUID().slice(0, 8)}`;
  const [row] = await database.query(
    `INSERT INTO events (event_id, name, plan_id, currency, prices, settings, phase, seat_count)
     VALUES ($1, $1, 'plan', 'EUR', '{"A":5000}', $2, 'open', $3) RETURNING event_no`,
    [name, JSON.stringify({ holdTtlMs: 600_000, holdSeatsMax: 6, ...options.settings }), options.seats ?? 20],
  );
  const event = row.event_no as number;
  await database.query('SELECT create_event_tables($1)', [event]);
  await database.query(
    'INSERT INTO seats (event_no, seat_no) SELECT $1, n FROM generate_series(0, $2 - 1) n',
    [event, options.seats ?? 20],
  );
  const [partition] = await database.query(
    'UPDATE event_partitions SET mode = $2 WHERE event_no = $1 RETURNING epoch',
    [event, options.mode ?? 'redis'],
  );
  epochs.set(event, Number(partition.epoch));
  return { event, epoch: Number(partition.epoch) };
}

export function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
export const orderIdOf = (hold: string): string => uuidOf(`order ${hold}`);

/** A hold as an arbiter would grant it. It is not stored. */
export function holdOf(
  stage: { event: number; epoch: number },
  visitor: string,
  seats: number[],
  id: string = randomUUID(),
): Hold {
  const now = Date.now();
  return {
    hold: id,
    event: stage.event,
    partition: 0,
    visitor,
    holder: visitor,
    seats,
    grantedAt: now,
    deadline: now + 600_000,
    epoch: stage.epoch,
    grant: 1,
    order: null,
  };
}

export const linesOf = (seats: number[]): OrderLine[] =>
  seats.map((seat) => ({ seat, category: 'A', kind: 'full', price: 5000, fee: 250 }));

/** Grants everything to everybody: only the record is left to keep its promises. */
export const lyingArbiter: Pick<Arbiter, 'hold' | 'extend' | 'release' | 'project'> = {
  hold: async ({ event, hold, visitor, claim }) => ({
    kind: 'granted',
    hold: holdOf(
      { event, epoch: epochs.get(event)! },
      visitor,
      claim.kind === 'seats' ? claim.seats : [],
      hold,
    ),
    repeated: false,
  }),
  extend: async ({ event, receipt, visitor, hold, order }) => ({
    kind: 'extended',
    hold: { ...holdOf({ event, epoch: receipt?.epoch ?? epochs.get(event)! }, visitor, [], hold), order },
  }),
  release: async () => ({ kind: 'released', seats: [] }),
  project: async () => true,
};

/**
 * Checks all that `onsale audit` checks, and that nothing is under way any more: the record at rest against itself and against
 * the provider's ledger (S1, S8, P1 to P8).
 */
export async function auditEvent(
  database: TestDatabase,
  simulator: TestSimulator,
  event: number,
): Promise<{ paid: number; closed: number; captured: number }> {
  const app = { database, simulator, eventNo: event };
  assert.equal(await unsettled(app), 0, 'orders or operations that are not settled');
  const report = await auditOf(app);
  assert.deepEqual(violationsOf(report), []);
  const [row] = await database.query(
    `SELECT count(*) FILTER (WHERE state = 'paid')::integer AS paid, count(*) FILTER (WHERE state <> 'paid')::integer AS closed,
       coalesce(sum(amount) FILTER (WHERE state = 'paid'), 0)::float8 AS captured FROM orders WHERE event_no = $1`,
    [event],
  );
  return row;
}

/** Passes of reconciler and inbox, everything due at once. A pass in which a busy store gave up is made again, a few times. */
export async function reconcile(database: TestDatabase, desk: Till, passes = 3): Promise<void> {
  let spare = 3;
  for (let pass = 0; pass < passes; pass += 1) {
    await makeDue(database);
    const { failed } = await desk.reconciler.runOnce();
    const inbox = await desk.inbox.runOnce();
    if (failed + inbox.failed === 0) continue;
    assert.ok(
      spare > 0,
      `passes fail: ${failed} of the reconciler, ${inbox.failed} of the inbox in the last`,
    );
    spare -= 1;
    pass -= 1;
  }
}

/** A reserved order of a fresh hold. */
export async function reserved(
  desk: Till,
  stage: { event: number; epoch: number },
  visitor: string,
  seats: number[],
): Promise<Order> {
  const outcome = await desk.checkout.reserve(reserveCommand(holdOf(stage, visitor, seats)));
  assert.ok(outcome.kind === 'order', `reserve answered ${outcome.kind}`);
  return outcome.order;
}

export interface Till {
  db: Db;
  record: SalesRecord;
  checkout: ReturnType<typeof createCheckout>;
  reconciler: ReturnType<typeof createReconciler>;
  inbox: ReturnType<typeof createInbox>;
  close(): Promise<void>;
}

/** One process's checkout and reconciler on the database. */
export function till(
  url: string,
  provider: PaymentProvider,
  options: Partial<CheckoutOptions> & { poolSize?: number; wrap?: (record: SalesRecord) => SalesRecord } = {},
): Till {
  const db = checkedRows(
    createDb({ url, poolSize: options.poolSize ?? 10, clock: systemClock, log: silentLogger }),
  );
  const made = createSalesRecord({ db });
  const record = options.wrap ? options.wrap(made) : made;
  const checkout = createCheckout({
    record,
    arbiter: lyingArbiter,
    provider,
    orderIdOf,
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    owner: 'till',
    ...options,
  });
  const reconciler = createReconciler({ record, checkout, clock: systemClock, log: silentLogger });
  const { payments } = checkout;
  const inbox = createInbox({ record, payments, clock: systemClock, log: silentLogger });
  return { db, record, checkout, reconciler, inbox, close: () => db.close() };
}

export function reserveCommand(hold: Hold, account = `${hold.visitor}@example.org`) {
  return {
    hold,
    lines: linesOf(hold.seats),
    orderFee: 100,
    currency: 'EUR',
    account,
    buyer: { name: hold.visitor, email: account },
  };
}

export function payCommand(order: string, card: string, clientKey: string = randomUUID()) {
  return {
    order,
    clientKey,
    request: createHash('sha256').update(card).digest('hex'),
    instrument: { paymentMethod: card },
    returnUrl: 'https://example.org/back',
  };
}
