import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { generateKeyPairSync } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { fastify } from 'fastify';
import { FAULT_KINDS } from '../../payment-simulator/fault-kinds.ts';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import { createEvents, type Venue } from '../../src/catalogue/events.ts';
import type { PayOutcome } from '../../src/checkout/outcomes.ts';
import { createRefunds, type Refunds } from '../../src/checkout/refunds.ts';
import { createReversals } from '../../src/checkout/reversals.ts';
import type { Hold } from '../../src/core/hold.ts';
import { createJobQueue } from '../../src/fulfilment/job-queue.ts';
import { createMailTask } from '../../src/fulfilment/mail-task.ts';
import type { MailTransport } from '../../src/fulfilment/mail-transport.ts';
import { createMailboxTransport } from '../../src/fulfilment/mailbox.ts';
import { registerWebhooks } from '../../src/http/webhooks.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import type { SalesRecord } from '../../src/orders/record.ts';
import { createRefundRecord, type RefundRecord } from '../../src/orders/refunds.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import { testLoops } from './loops.ts';
import { refundOf } from './refund-desk.ts';
import { type Cell, type Life, type MailFault, seatsOfAll } from './saga-matrix.ts';
import { answerBank, ask } from './simulator.ts';
import {
  holdOf,
  lyingArbiter,
  orderIdOf,
  payCommand,
  reserveCommand,
  type Till,
  till,
  uuidOf,
} from './stage.ts';
import { pause } from './wait.ts';

/** Where the cells of one life are played. */
export interface Scene {
  database: string;
  /** Its address. */
  simulator: string;
  event: number;
  epoch: number;
}

/** The adapter waits so long for an answer, ms; a delayed one comes later. Long enough for a busy machine. */
export const timeoutMs = 3_000;
const delayMs = 3_500;
const webhookDelayMs = 300;
const looksMax = 100;
const triesMax = 10;

/** Where one cell's process stops, such as `before:provider.capture`, until all others have stopped too. */
export interface Stop {
  at: string;
  reached(): void;
}

export interface Desk extends Till {
  refunds: Refunds;
  refundRecord: RefundRecord;
  /** Runs the cell's story as that cell's own. */
  as<Result>(stop: Stop | null, story: () => Promise<Result>): Promise<Result>;
  /** Stops at every call about this payment object. */
  stopAbout(object: string, stop: Stop): void;
  /** Stops at mails to this address. */
  stopMail(address: string, stop: Stop): void;
  /** Where the provider's events are taken: the real route, on a port of its own. */
  webhookUrl: string;
  startMails(): void;
}

const visitorOf = ({ step, fault }: Cell): string => `${step.name}-${fault}`;
export const addressOf = (cell: Cell): string => `${visitorOf(cell)}@example.org`;
export const orderOf = (cell: Cell): string => orderIdOf(uuidOf(visitorOf(cell)));
const holdOfCell = (scene: Scene, cell: Cell): Hold =>
  holdOf(scene, visitorOf(cell), [cell.seat], uuidOf(visitorOf(cell)));
const cardOf = ({ step }: Cell): string =>
  step.name === 'bank' || step.name === 'webhook' ? 'pm_card_threeDSecure2Required' : 'pm_card_visa';

/** The point at which the cell's process is killed in this life. Null if it survives. */
export function stopOf(cell: Cell, life: Life): string | null {
  if (life === 'lives') return null;
  return `${life === 'killed before' ? 'before' : 'after'}:${cell.step.killedAt}`;
}

/** An event that the provider keeps to itself cannot be the moment of a kill. */
export function isReached({ fault }: Cell): boolean {
  return fault !== 'webhook_never' && fault !== 'webhook_hold';
}

/** One process's desk: checkout, refunds, reconciler, inbox, webhooks and mails over the real provider. */
export async function openDesk(scene: Scene, provider: PaymentProvider): Promise<Desk> {
  const acting = new AsyncLocalStorage<Stop>();
  const byObject = new Map<string, Stop>();
  const byAddress = new Map<string, Stop>();

  const stopping = <Part extends object>(part: Part, name: string): Part =>
    new Proxy(part, {
      get: (target, property) => {
        const value = Reflect.get(target, property);
        if (typeof value !== 'function') return value;
        return async (...values: unknown[]) => {
          const stop = acting.getStore() ?? byObject.get((values[0] as { object?: string })?.object ?? '');
          if (stop?.at === `before:${name}.${String(property)}`) return stopped(stop);
          const result = await value.apply(target, values);
          return stop?.at === `after:${name}.${String(property)}` ? stopped(stop) : result;
        };
      },
    });

  const owner = 'the process';
  const runtime = { clock: systemClock, random: systemRandom, log: silentLogger, owner };
  const db = createDb({ url: scene.database, poolSize: 6, clock: systemClock, log: silentLogger });
  const refundRecord = createRefundRecord({ db });
  const watched = stopping(provider, 'provider');
  const refunds = createRefunds({
    ...runtime,
    record: refundRecord,
    orders: createSalesRecord({ db }),
    reversals: createReversals({ ...runtime, db, provider: watched }),
    provider: watched,
    arbiter: lyingArbiter,
  });
  const wrap = (record: SalesRecord): SalesRecord => stopping(record, 'record');
  const desk = till(scene.database, watched, { refunds, owner, poolSize: 12, wrap });
  const web = fastify();
  // The signature is judged by the provider itself: its call is not one of the saga's.
  await web.register(async (scope) =>
    registerWebhooks(scope as never, { provider, checkout: desk.checkout }),
  );
  await web.listen({ port: 0, host: '127.0.0.1' });
  const { port } = web.server.address() as AddressInfo;
  const mails = mailQueue(scene, db, byAddress);
  return {
    ...desk,
    refunds,
    refundRecord,
    as: (stop, story) => (stop ? acting.run(stop, story) : story()),
    stopAbout: (object, stop) => void byObject.set(object, stop),
    stopMail: (address, stop) => void byAddress.set(address, stop),
    webhookUrl: `http://127.0.0.1:${port}/api/webhooks/stripe`,
    startMails: () => mails.start(testLoops()),
    close: async () => {
      await mails.stop();
      await web.close();
      await Promise.all([desk.close(), db.close()]);
    },
  };
}

function stopped(stop: Stop): Promise<never> {
  stop.reached();
  return new Promise(() => {});
}

/** A venue for the seat labels in mails. The staged event has no drawing. */
const plainVenue: Venue = {
  layoutHash: '',
  layout: {
    v: 1,
    name: 'The Venue',
    width: 0,
    height: 0,
    seatCount: seatsOfAll,
    categories: [],
    sections: [],
    decorations: [],
  },
  seats: Array.from({ length: seatsOfAll }, (_, seatNo) => ({
    seatNo,
    seatGuid: `seat-${seatNo}`,
    sectionId: 'Stalls',
    row: '1',
    label: String(seatNo),
    category: 'A',
  })),
  byGuid: new Map(),
  partitions: [],
  partitionOf: () => 0,
};

/** The real queue and the real task of mails; only the mail server is ours. */
function mailQueue(scene: Scene, db: Db, stops: Map<string, Stop>) {
  const transport = faultyTransport(db);
  const mail = createMailTask({
    db,
    events: { findByNo: createEvents({ db, clock: systemClock }).findByNo, venue: async () => plainVenue },
    ticketKey: generateKeyPairSync('ed25519'),
    transport: {
      ...transport,
      send: async (mail) => {
        const stop = stops.get(mail.to.address);
        if (stop?.at === 'before:mail.send') return stopped(stop);
        const outcome = await transport.send(mail);
        return stop?.at === 'after:mail.send' ? stopped(stop) : outcome;
      },
    },
    from: { name: 'Box Office', address: 'tickets@venue.example' },
    publicUrl: 'https://tickets.example',
    orderSecretOf: () => 'secret',
    timeZone: 'UTC',
    ticketDocument: async () => Buffer.from('%PDF-'),
    log: silentLogger,
  });
  return createJobQueue({
    databaseUrl: scene.database,
    db,
    tasks: { mail },
    clock: systemClock,
    log: silentLogger,
    // Includes the mails at whose sending the process is killed, and some others at the same time.
    concurrency: 8,
  });
}

/** A mail server with the faults that its recipients are named after; what it takes is in the mailbox. */
function faultyTransport(db: Db): MailTransport {
  const mailbox = createMailboxTransport({ db });
  const refused = new Set<string>();
  return {
    ...mailbox,
    async send(mail) {
      const fault = /^mail-(\w+)@/.exec(mail.to.address)?.[1] as MailFault | undefined;
      if (fault === 'refused') return { kind: 'refused', error: '550 no such mailbox' };
      if (fault === 'not_now' && !refused.has(mail.messageId)) {
        refused.add(mail.messageId);
        return { kind: 'not_now', error: '451 try again later' };
      }
      const outcome = await mailbox.send(mail);
      if (fault !== 'answer_lost') return outcome;
      const [row] = await db.query<{ copies: number }>(
        'copies',
        'SELECT copies FROM mailbox WHERE message_id = $1',
        [mail.messageId],
      );
      return row?.copies === 1 ? { kind: 'not_now', error: 'the connection was lost' } : outcome;
    },
  };
}

/** The fault strikes the cell's own step only, as often as it comes there, until all faults end. */
async function switchOn({ simulator }: Scene, cell: Cell): Promise<void> {
  const { step, fault, entry } = cell;
  if (!Object.hasOwn(FAULT_KINDS, fault)) return;
  const kind = fault as FaultKind;
  const { about } = FAULT_KINDS[kind];
  const route = about === 'request' || about === 'all' ? (step.route ?? undefined) : undefined;
  // Refunds settle when the test says so.
  const wait = kind.startsWith('refund_') ? undefined : about === 'webhook' ? webhookDelayMs : delayMs;
  await ask(`${simulator}/_sim/faults`, 'POST', {
    fault: kind,
    match: { reference: orderOf(cell), ...(route !== undefined && { route }) },
    delayMs: entry.delayMs ?? wait,
  });
}

/** The cell's story up to its step, with the fault there, and one more look of the buyer's page. */
export async function play(cell: Cell, scene: Scene, desk: Desk, stop: Stop | null): Promise<void> {
  const { checkout, db } = desk;
  const { name } = cell.step;
  const order = orderOf(cell);
  const looks = name === 'bank' || name === 'webhook';
  if (!looks) await switchOn(scene, cell);
  if (stop && name === 'mail') desk.stopMail(addressOf(cell), stop);
  const inPaying = looks || name === 'refund' || name === 'mail' ? null : stop;
  const url = await desk.as(inPaying, async () => {
    const hold = holdOfCell(scene, cell);
    const reserved = await insist(() => checkout.reserve(reserveCommand(hold)));
    assert.ok(reserved.kind === 'order', `${visitorOf(cell)}: reserve answered ${reserved.kind}`);
    // Its seats are lost while the card is tried.
    if (name === 'void')
      await db.query('lose', `UPDATE tickets SET status = 'cancelled' WHERE order_id = $1`, [order]);
    return payUntil(cell, desk, stop !== null || looks || name === 'refund');
  });
  if (looks) {
    assert.ok(url, `${visitorOf(cell)} is not at his bank`);
    await switchOn(scene, cell);
    const object = (await checkout.find(order))?.providerObject;
    if (stop && name === 'webhook') desk.stopAbout(object!, stop);
    // A window that was closed gives no way back.
    await answerBank(url, 'authorise').catch((error: unknown) => {
      if (cell.fault !== 'authentication_abandoned') throw error;
    });
  }
  if (name === 'bank') await desk.as(stop, () => insist(() => checkout.refresh(order)));
  if (name === 'refund')
    await desk.as(stop, async () => {
      const wish = refundOf({ order });
      const made = await insist(() => desk.refunds.make(wish));
      assert.ok(made.kind === 'made' || made.kind === 'repeated', `${visitorOf(cell)}: ${made.kind}`);
    });
}

/**
 * Pays, and looks again as a page does: once, or where the cell's step comes later (`insists`), until the payment has come to it,
 * because on a busy machine any answer may be late. Answers where the bank wants the buyer.
 */
async function payUntil(cell: Cell, { checkout }: Desk, insists: boolean): Promise<string | null> {
  const order = orderOf(cell);
  const pay = (command = payCommand(order, cardOf(cell))): Promise<PayOutcome> =>
    insist(() => checkout.pay(command));
  let paid = await pay();
  for (let looks = insists ? looksMax : 1; looks > 0; looks -= 1) {
    if (paid.kind === 'ended' || (paid.kind === 'bought' && paid.order.state === 'paid')) return null;
    if (paid.kind === 'pending' && paid.action) return paid.action.url;
    if (insists) await pause(50, 'a page paces its looks');
    paid = await insist(() => checkout.refresh(order));
    if (insists && paid.kind === 'declined') paid = await pay();
  }
  return null;
}

/** The buyer returns to their page: reads the hold's order, and pays again if it waits for a payment. */
export async function comeBack(cell: Cell, scene: Scene, desk: Desk): Promise<void> {
  const { checkout } = desk;
  const hold = holdOfCell(scene, cell);
  const reserved = await insist(() => checkout.reserve(reserveCommand(hold)));
  assert.ok(reserved.kind === 'order', `${visitorOf(cell)}: reserve answered ${reserved.kind}`);
  const command = payCommand(orderOf(cell), 'pm_card_visa');
  await insist(() => checkout.pay(command));
}

/** A page, and an organiser, repeat their request when the server is busy. */
async function insist<Outcome>(call: () => Promise<Outcome>): Promise<Outcome> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof StoreFault) || tries === triesMax) throw error;
    }
  }
}

/** So many at once: more would only wait for the database. */
const atOnce = 14;

export async function inParallel<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
