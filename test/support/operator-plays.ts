import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import type { EntryAction, EntryKind, FindingKind } from '../../src/core/operator-list.ts';
import type { OrderState } from '../../src/core/order.ts';
import type { MoneyOperation } from '../../src/orders/record.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { loseSeats, makeDue } from './acts.ts';
import { until } from './app.ts';
import type { TestDatabase } from './postgres.ts';
import { bought, madeRefund, type RefundDesk } from './refund-desk.ts';
import { openPayment, type TestSimulator } from './simulator.ts';
import { payCommand, reconcile, reserved } from './stage.ts';
import { rawCall } from './stripe-calls.ts';

/** How each kind of entry is reached through the simulator, and how each of its actions ends it. */
export interface World {
  database: TestDatabase;
  simulator: TestSimulator;
  /** Marks payments as this installation's. */
  provider: PaymentProvider;
  desk: RefundDesk;
  stage: { event: number; epoch: number };
  /** The seat of this play. */
  seat: number;
}

interface End {
  /** Changes at the provider before the action. */
  before?: (world: World, order: string) => Promise<unknown>;
  /** As the order ends. */
  order: OrderState;
  /** The money that the provider keeps afterwards, in minor units of the order's 53.50. */
  kept: number;
}

interface Play {
  /** Returns the order's id, or an empty text if the entry has none. */
  reach(world: World): Promise<string>;
  ends: Partial<Record<EntryAction, End>>;
}

const price = 5350;
const part = 400;

const operation = async (
  { desk }: World,
  order: string,
  kind: MoneyOperation['kind'],
): Promise<MoneyOperation> => {
  const found = (await desk.record.operationsOf(order)).filter((one) => one.kind === kind).at(-1);
  assert.ok(found, `a ${kind} operation`);
  return found;
};
const objectOf = async ({ desk }: World, order: string): Promise<string> =>
  (await desk.checkout.find(order))!.providerObject!;
const strike = (world: World, fault: FaultKind, order: string, more: object = {}) =>
  world.simulator.fault(fault, { match: { reference: order }, ...more });

/** A call made by hand at the provider. */
async function byHand({ simulator }: World, route: string, given: Record<string, string>): Promise<void> {
  const { status, body } = await rawCall(simulator, route, given);
  assert.equal(status, 200, `${route}: ${JSON.stringify(body)}`);
}
const captureByHand = async (world: World, order: string, amount = price) =>
  byHand(world, 'payment_intents.capture', {
    id: await objectOf(world, order),
    amount_to_capture: String(amount),
  });
const renameTo = async (world: World, order: string, name: string) =>
  byHand(world, 'payment_intents.update', { id: await objectOf(world, order), 'metadata[order]': name });

/** Its seats are sold, and the call that takes the money never arrives. */
async function uncaptured(world: World, more: FaultKind[] = []): Promise<string> {
  const { order } = await reserved(world.desk, world.stage, `visitor-${randomUUID()}`, [world.seat]);
  for (const fault of more) await strike(world, fault, order, { delayMs: 3_600_000 });
  await world.simulator.fault('unavailable', { match: { route: 'capture', reference: order } });
  assert.equal((await world.desk.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'bought');
  return order;
}

/** Its card is authorised, and its seats are lost before they could be sold to it. */
async function lost(world: World, route: string, fault: FaultKind): Promise<string> {
  const { order } = await reserved(world.desk, world.stage, `visitor-${randomUUID()}`, [world.seat]);
  await loseSeats(world.database, order);
  await world.simulator.fault(fault, { match: { route, reference: order } });
  await world.desk.checkout.pay(payCommand(order, 'pm_card_visa'));
  return order;
}

const older = (world: World, order: string) =>
  world.database.query(
    `UPDATE money_operations SET created_at = now() - interval '11 minutes' WHERE order_id = $1`,
    [order],
  );

/** The provider after a restore: what it did since the copy is gone. */
async function copyOf({ simulator }: World): Promise<() => Promise<void>> {
  const copy = await mkdtemp(join(tmpdir(), 'onsale-ledger-'));
  await cp(simulator.dataDir, copy, { recursive: true });
  return async () => {
    await simulator.kill();
    await rm(simulator.dataDir, { recursive: true });
    await cp(copy, simulator.dataDir, { recursive: true });
    await simulator.restart();
    await rm(copy, { recursive: true });
  };
}
/** Puts the lost refund back. */
let found: () => Promise<void> = async () => {};

const twoPasses = (world: World) => reconcile(world.database, world.desk, 2);

/** Findings are played where they are found: reconcile-findings.test.ts, and the tests of refunds and disputes at the provider. */
export const plays: Record<Exclude<EntryKind, FindingKind>, Play> = {
  captured_amount: {
    reach: async (world) => {
      const order = await uncaptured(world);
      await world.simulator.clearFaults();
      await captureByHand(world, order, part);
      await twoPasses(world);
      return order;
    },
    ends: {
      look: {
        before: async (world, order) =>
          byHand(world, 'refunds.create', { payment_intent: await objectOf(world, order) }),
        order: 'cancelled',
        kept: 0,
      },
      give_back: { order: 'cancelled', kept: 0 },
      accept: { order: 'paid', kept: part },
    },
  },
  capture_window: {
    reach: async (world) => {
      const order = await uncaptured(world, ['hold_short']);
      await twoPasses(world);
      return order;
    },
    ends: {
      look: { before: ({ simulator }) => simulator.clearFaults(), order: 'paid', kept: price },
      give_back: { before: ({ simulator }) => simulator.clearFaults(), order: 'cancelled', kept: 0 },
    },
  },
  payment_mismatch: {
    reach: async (world) => {
      const order = await uncaptured(world);
      await renameTo(world, order, 'another');
      await world.simulator.clearFaults();
      await twoPasses(world);
      return order;
    },
    ends: {
      look: { before: (world, order) => renameTo(world, order, order), order: 'paid', kept: price },
      give_back: {
        before: async (world, order) => {
          await captureByHand(world, order);
          await twoPasses(world);
        },
        order: 'cancelled',
        kept: 0,
      },
      accept: {
        before: async (world, order) => {
          await captureByHand(world, order);
          await twoPasses(world);
        },
        order: 'paid',
        kept: price,
      },
    },
  },
  void_refused: {
    reach: async (world) => {
      const order = await lost(world, 'cancel', 'void_refused');
      await reconcile(world.database, world.desk, 6);
      return order;
    },
    ends: {
      look: { before: ({ simulator }) => simulator.clearFaults(), order: 'closed', kept: 0 },
      settle: {
        before: async (world, order) => {
          await world.simulator.clearFaults();
          await byHand(world, 'payment_intents.cancel', { id: await objectOf(world, order) });
        },
        order: 'closed',
        kept: 0,
      },
    },
  },
  refund_refused: {
    reach: async (world) => {
      const order = await lost(world, 'cancel', 'unavailable');
      await captureByHand(world, order);
      await world.simulator.clearFaults();
      await strike(world, 'refund_insufficient_balance', order);
      await twoPasses(world);
      return order;
    },
    ends: {
      look: { before: ({ simulator }) => simulator.clearFaults(), order: 'closed', kept: 0 },
      settle: { order: 'closed', kept: price },
    },
  },
  captured_after_refusal: {
    reach: async (world) => {
      const { desk, database, simulator } = world;
      const { order } = await reserved(desk, world.stage, `visitor-${randomUUID()}`, [world.seat]);
      // The first capture arrives late; the second, of another process, finds the key in use and the reservation's time over.
      const match = { route: 'capture', reference: order };
      await simulator.fault('delay_before', { match, delayMs: 700, times: 1 });
      const paying = desk.checkout.pay(payCommand(order, 'pm_card_visa'));
      await until(
        async () => (await desk.record.operationsOf(order)).some(({ kind }) => kind === 'capture'),
        'the capture to be sent',
      );
      await until(async () => (await simulator.struck()).delay_before !== undefined, 'the capture to arrive');
      await simulator.fault('key_in_use', { match, times: 1 });
      await database.query(`UPDATE orders SET capture_before = now() - interval '1 s' WHERE order_id = $1`, [
        order,
      ]);
      await makeDue(database);
      await desk.checkout.payments.drive(await operation(world, order, 'capture'));
      assert.equal((await desk.checkout.find(order))?.state, 'cancelled');
      await paying;
      return order;
    },
    ends: {
      look: { order: 'cancelled', kept: 0 },
      dismiss: { order: 'cancelled', kept: 0 },
    },
  },
  refund_missing: {
    reach: async (world) => {
      const { order } = await bought(world.desk, world.stage, [world.seat]);
      const restore = await copyOf(world);
      await strike(world, 'refund_pending', order);
      await madeRefund(world.desk, { order });
      found = await copyOf(world);
      await restore();
      await twoPasses(world);
      return order;
    },
    ends: {
      look: {
        before: async ({ simulator }) => {
          await found();
          await simulator.settleRefunds();
        },
        order: 'cancelled',
        kept: 0,
      },
      retry: { order: 'cancelled', kept: 0 },
      settle: { order: 'cancelled', kept: price },
    },
  },
  refund_mismatch: {
    reach: async (world) => {
      const { order } = await bought(world.desk, world.stage, [world.seat]);
      await world.simulator.fault('unavailable', { match: { route: 'refunds.create', reference: order } });
      await madeRefund(world.desk, { order });
      await world.simulator.clearFaults();
      await byHand(world, 'refunds.create', {
        payment_intent: await objectOf(world, order),
        amount: String(part),
        'metadata[refund]': (await operation(world, order, 'refund')).operation,
      });
      await twoPasses(world);
      return order;
    },
    ends: { settle: { order: 'cancelled', kept: price - part } },
  },
  refunded_twice: {
    reach: async (world) => {
      const { order } = await bought(world.desk, world.stage, [world.seat]);
      await strike(world, 'refund_insufficient_balance', order);
      const { refund } = await madeRefund(world.desk, { order });
      await world.simulator.clearFaults();
      await world.desk.refunds.elsewhere(refund, 'organiser', 'by bank transfer');
      // The money is also returned by hand at the provider.
      const object = await objectOf(world, order);
      await byHand(world, 'refunds.create', {
        payment_intent: object,
        'metadata[refund]': (await operation(world, order, 'refund')).operation,
      });
      await world.desk.checkout.providerEvent({ id: `evt-${randomUUID()}`, type: 'refund.created', object });
      await twoPasses(world);
      return order;
    },
    ends: { settle: { order: 'cancelled', kept: 0 } },
  },
  outcome_unknown: {
    reach: async (world) => {
      const order = await uncaptured(world);
      await older(world, order);
      return order;
    },
    ends: {
      look: { before: ({ simulator }) => simulator.clearFaults(), order: 'paid', kept: price },
      give_back: {
        before: async ({ simulator, database }) => {
          await simulator.clearFaults();
          await makeDue(database);
        },
        order: 'cancelled',
        kept: 0,
      },
      settle: {
        // The sale is undone, and then the provider does not respond to the void.
        before: async (world, order) => {
          await world.simulator.clearFaults();
          await world.simulator.fault('unavailable', { match: { route: 'cancel', reference: order } });
          const { operation: capture } = await operation(world, order, 'capture');
          await makeDue(world.database);
          const step = await world.desk.cancellations.giveBack(capture, 'organiser', `${capture}:void`);
          assert.equal(step.kind, 'done');
          await reconcile(world.database, world.desk, 7);
          await world.simulator.clearFaults();
          await byHand(world, 'payment_intents.cancel', { id: await objectOf(world, order) });
        },
        order: 'cancelled',
        kept: 0,
      },
    },
  },
  refund_failed: {
    reach: async (world) => {
      const { order } = await bought(world.desk, world.stage, [world.seat]);
      await strike(world, 'refund_insufficient_balance', order);
      await madeRefund(world.desk, { order });
      await world.simulator.clearFaults();
      return order;
    },
    ends: { retry: { order: 'cancelled', kept: 0 }, settle: { order: 'cancelled', kept: price } },
  },
  refund_gone_back: {
    reach: async (world) => {
      const order = await plays.refund_failed.reach(world);
      await world.simulator.refundByHand(await objectOf(world, order), price);
      const [found, operations] = [
        await world.desk.record.findOrder(order),
        await world.desk.record.operationsOf(order),
      ];
      assert.ok(await world.desk.refunds.inspect(found!, operations));
      // The refund at the provider has an entry of its own.
      await world.database.query(
        `UPDATE reconcile_findings SET settled_at = now(), settled_by = 'organiser',
           decision = operator_decision('dismiss', 'organiser')
         WHERE order_id = $1`,
        [order],
      );
      return order;
    },
    ends: { settle: { order: 'cancelled', kept: 0 } },
  },
  unknown_object: {
    reach: async (world) => {
      const { object } = await openPayment(world.provider, { reference: randomUUID() });
      await world.desk.checkout.providerEvent({
        id: `evt-${object}`,
        type: 'payment_intent.created',
        object,
      });
      await world.database.query(
        `UPDATE provider_events SET received_at = now() - interval '73 hours' WHERE object = $1`,
        [object],
      );
      await twoPasses(world);
      return '';
    },
    ends: {
      look: {
        // Its order is named at the provider by hand.
        before: async (world) => {
          const { order } = await reserved(world.desk, world.stage, `visitor-${randomUUID()}`, [world.seat]);
          await world.desk.checkout.close(order);
          const [row] = await world.database.query(
            `SELECT object FROM provider_events WHERE note = 'unknown_object'`,
          );
          await byHand(world, 'payment_intents.update', { id: row.object, 'metadata[order]': order });
        },
        order: 'closed',
        kept: 0,
      },
      dismiss: { order: 'closed', kept: 0 },
    },
  },
};

/** A payment that was ended because it did not match: it stays on the list until it was seen. */
export async function endedMismatch(world: World): Promise<string> {
  const { order } = await reserved(world.desk, world.stage, `visitor-${randomUUID()}`, [world.seat]);
  await strike(world, 'declined', order, { times: 1 });
  assert.equal((await world.desk.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'declined');
  await byHand(world, 'payment_intents.update', {
    id: await objectOf(world, order),
    amount: String(price + 1),
  });
  await world.desk.checkout.pay(payCommand(order, 'pm_card_visa'));
  await twoPasses(world);
  return order;
}
