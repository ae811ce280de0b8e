import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after } from 'node:test';
import { overStore } from '../../models/one-store.ts';
import type { Arbiter, ArbiterStore } from '../../src/inventory/arbiter.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { partitionTag } from '../../src/inventory/redis/scripts.ts';
import { orderHistory } from '../../src/orders/orders.ts';
import type { Order } from '../../src/orders/record.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { connectedStore } from '../contract/arbiter-redis-world.ts';
import { endGrace, makeDue, passDeadline } from '../support/acts.ts';
import { until } from '../support/app.ts';
import { checkoutDesk } from '../support/checkout-desk.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';
import {
  auditEvent,
  orderIdOf,
  payCommand,
  reconcile,
  reserveCommand,
  reserved,
  stageEvent,
  type Till,
} from '../support/stage.ts';

const { database, simulator, desk, deskWith } = await checkoutDesk({ timeoutMs: 1_000 });

type Stage = { event: number; epoch: number };
const find = async (order: string): Promise<Order> => (await desk.checkout.find(order))!;
const intentOf = async (order: string) =>
  (await simulator.ledger()).intents.find(({ reference }) => reference === order)!;
const mailsOf = (order: string) =>
  database
    .query('SELECT what FROM mails WHERE order_id = $1', [order])
    .then((rows) => rows.map(({ what }) => what));

/** Takes every success for a refusal. */
const mistaken = (): PaymentProvider => ({
  ...simulator.provider,
  authorise: async (command) => {
    await simulator.provider.authorise(command);
    return { kind: 'refused', decline: 'declined', detail: 'mistaken', view: null };
  },
});

/** The money of an order is reserved, we do not know, and the order ends at its deadline, or by its buyer. */
async function endedUnpaid(
  order: Order,
  by: 'deadline' | 'buyer' = 'deadline',
  at: Till = desk,
): Promise<void> {
  const blind = deskWith(mistaken());
  assert.equal((await blind.checkout.pay(payCommand(order.order, 'pm_card_visa'))).kind, 'declined');
  if (by === 'buyer') assert.equal((await at.checkout.close(order.order)).kind, 'closed');
  else {
    await passDeadline(database, order.order);
    assert.equal((await at.checkout.expire(order.order)).kind, 'ended');
  }
}

/** The provider tells, before our planned cancelling of the object has begun. */
async function tell(order: string, at: Till = desk): Promise<void> {
  const { id: object } = await intentOf(order);
  await at.checkout.providerEvent({
    id: `evt_${randomUUID()}`,
    type: 'payment_intent.amount_capturable_updated',
    object,
  });
  await at.inbox.runOnce();
}

for (const way of [
  'its event',
  'the planned cancelling of its object',
  'an event with nothing under way',
] as const) {
  test(`P3: a late success, found by ${way}, gets the same seats back while they are free: paid once`, async () => {
    const stage = await stageEvent(database);
    const order = await reserved(desk, stage, 'buyer1', [1, 2]);
    await endedUnpaid(order);
    if (way === 'an event with nothing under way') {
      await database.query(
        `UPDATE money_operations SET state = 'done', due_at = NULL, end_key = NULL WHERE order_id = $1 AND kind = 'open'`,
        [order.order],
      );
    }
    if (way === 'the planned cancelling of its object') await reconcile(database, desk, 1);
    else await tell(order.order);
    const paid = await find(order.order);
    assert.equal(paid.state, 'paid');
    assert.equal(paid.reason, null);
    assert.notEqual(paid.hold, order.hold, 'by a hold of its own');
    const changes = (await orderHistory(desk.db, order.order)).map(({ change }) => change);
    assert.ok(changes.includes('late_success'), changes.join());
    assert.equal((await auditEvent(database, simulator, stage.event)).captured, order.amount);
  });
}

test('P3: a buyer who closed their order is not charged afterwards: a late success is voided, the seats stay free', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await endedUnpaid(order, 'buyer');
  await tell(order.order);
  await reconcile(database, desk, 1);
  const closed = await find(order.order);
  assert.deepEqual([closed.state, closed.reason], ['closed', 'closed_by_buyer']);
  assert.equal((await intentOf(order.order)).status, 'canceled');
  await auditEvent(database, simulator, stage.event);
});

test('P3: a late success whose seats were sold to another buyer is voided and reported once: the buyer is not charged', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1, 2]);
  await endedUnpaid(order);
  const other = await reserved(desk, stage, 'buyer2', [2]);
  assert.equal((await desk.checkout.pay(payCommand(other.order, 'pm_card_visa'))).kind, 'bought');
  await tell(order.order);
  await tell(order.order);
  await reconcile(database, desk, 2);
  const closed = await find(order.order);
  assert.deepEqual([closed.state, closed.reason], ['closed', 'late_payment']);
  assert.deepEqual(await mailsOf(order.order), ['order.closed_late']);
  assert.equal((await intentOf(order.order)).status, 'canceled');
  assert.deepEqual(await auditEvent(database, simulator, stage.event), {
    paid: 1,
    closed: 1,
    captured: other.amount,
  });
});

test('P3: a late success that was captured meanwhile buys the seats, or all of it goes back', async () => {
  const stage = await stageEvent(database);
  for (const [visitor, seats, taken] of [
    ['buyer1', [1], false],
    ['buyer2', [2], true],
  ] as const) {
    const order = await reserved(desk, stage, visitor, [...seats]);
    await endedUnpaid(order);
    if (taken) await reserved(desk, stage, 'buyer3', [...seats]);
    const object = (await intentOf(order.order)).id;
    const captured = await simulator.provider.capture({
      key: `by hand ${object}`,
      object,
      amount: order.amount,
    });
    assert.equal(captured.kind, 'done');
    await tell(order.order);
    await reconcile(database, desk, 2);
    const { state, reason } = await find(order.order);
    assert.deepEqual([state, reason], taken ? ['closed', 'late_payment'] : ['paid', null]);
    const intent = await intentOf(order.order);
    assert.equal(intent.refunded, taken ? order.amount : 0);
    if (taken) assert.deepEqual(await mailsOf(order.order), ['order.closed_late']);
  }
  const left = await desk.checkout.findOpen(stage.event, 'buyer3');
  await desk.checkout.close(left!.order);
  await auditEvent(database, simulator, stage.event);
});

test('P1: a late success is voided if the visitor opens another order at the same moment', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1, 2]);
  await endedUnpaid(order);
  const other = await database.pool(1).connect();
  await other.query('BEGIN');
  const { rows } = await other.query(
    `INSERT INTO orders (order_id, event_no, hold_id, visitor, holder, account, buyer, seats, lines, amount, currency, state,
       payment_deadline)
     SELECT gen_random_uuid(), event_no, gen_random_uuid(), visitor, holder, account, buyer, '{}', '[]', 0, currency,
       'reserved', payment_deadline FROM orders WHERE order_id = $1 RETURNING order_id`,
    [order.order],
  );
  const told = tell(order.order);
  await until(async () => {
    const waiting = await database.query(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return waiting.length > 0;
  }, 'the late success to meet the other order');
  await other.query('COMMIT');
  other.release();
  await told;
  await database.query('DELETE FROM orders WHERE order_id = $1', [rows[0].order_id]);
  await reconcile(database, desk, 1);
  assert.equal((await find(order.order)).reason, 'late_payment');
  assert.deepEqual(await auditEvent(database, simulator, stage.event), { paid: 0, closed: 1, captured: 0 });
});

test('P7: a late success beyond the limit of its account is voided', async () => {
  const stage = await stageEvent(database, { settings: { accountSeatsMax: 2 } });
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await endedUnpaid(order);
  const other = await desk.checkout.reserve({
    ...reserveCommand({
      ...holdLike(order),
      ...stage,
      hold: randomUUID(),
      visitor: 'her other browser',
      seats: [4, 5],
    }),
    account: order.account,
  });
  assert.equal(other.kind, 'order');
  await tell(order.order);
  assert.equal((await find(order.order)).reason, 'late_payment');
  if (other.kind === 'order') await desk.checkout.close(other.order.order);
  await reconcile(database, desk, 1);
  await auditEvent(database, simulator, stage.event);
});

const holdLike = (order: Order) => ({
  hold: order.hold,
  event: order.eventNo,
  partition: order.partition,
  visitor: order.visitor,
  holder: order.holder,
  seats: order.lines.map(({ seat }) => seat),
  grantedAt: Date.now(),
  deadline: Date.now() + 600_000,
  epoch: 0,
  grant: 1,
  order: null,
});

// Through an arbiter, as any buyer.

const server = withoutRedis ? null : await testRedis();
const store = server ? await connectedStore(server) : null;
after(() => store?.close());

interface Hall {
  stage: Stage;
  arbiter: Arbiter;
  desk: Till;
  buy(visitor: string, seats: number[]): Promise<Awaited<ReturnType<Arbiter['hold']>>>;
}

/** An event of 20 seats whose holds this arbiter decides, two seats a holder. */
async function hall(mode: 'postgres' | 'redis'): Promise<Hall> {
  const stage = await stageEvent(database, { mode, settings: { holdSeatsMax: 2 } });
  const arbiter = overStore(
    mode === 'postgres' ? createPostgresArbiter({ db: desk.db }) : await inRedis(stage),
    epochOf,
  );
  const own = deskWith(simulator.provider, { arbiter });
  const at = { event: stage.event, partition: 0 };
  return {
    stage,
    arbiter,
    desk: own,
    buy: (visitor, seats) =>
      arbiter.hold({
        ...at,
        hold: randomUUID(),
        visitor,
        holder: visitor,
        request: 'r',
        claim: { kind: 'seats', seats },
        ttlMs: 600_000,
        seatsMax: 2,
        replaces: null,
        notAfter: null,
      }),
  };
}

async function epochOf(event: number, partition: number): Promise<number> {
  const [row] = await database.query(
    'SELECT epoch::int AS epoch FROM event_partitions WHERE event_no = $1 AND partition = $2',
    [event, partition],
  );
  return row.epoch;
}

async function inRedis({ event, epoch }: Stage): Promise<ArbiterStore> {
  const arbiter = createRedisArbiter({ store: store!, prefix: 'late', clock: systemClock });
  store!.trust(partitionTag('late', event, 0), [server!.runId]);
  const at = { event, partition: 0, epoch };
  await arbiter.begin(at);
  const seats = Array.from({ length: 20 }, (_, seat) => ({ seat, version: 1, state: 'available' as const }));
  await arbiter.load({ ...at, seats });
  await arbiter.open({ ...at, phase: { phase: 'open', version: 1 }, lastGrant: 0 });
  return arbiter;
}

async function ordered({ desk: own, buy }: Hall, visitor: string, seats: number[]): Promise<Order> {
  const held = await buy(visitor, seats);
  assert.ok(held.kind === 'granted', held.kind);
  const outcome = await own.checkout.reserve(reserveCommand(held.hold));
  assert.ok(outcome.kind === 'order', outcome.kind);
  return outcome.order;
}

for (const mode of ['postgres', 'redis'] as const) {
  const skip = mode === 'redis' && withoutRedis;
  const run = (title: string, work: () => Promise<void>): void => void test(title, { skip }, work);

  run(
    `${mode}: S3, S5: a late success takes no seat that somebody holds by now; free ones it does, for good`,
    async () => {
      const world = await hall(mode);
      const free = await ordered(world, 'buyer1', [1]);
      const held = await ordered(world, 'buyer2', [2]);
      for (const order of [free, held]) await endedUnpaid(order, 'deadline', world.desk);
      assert.equal((await world.buy('buyer3', [2])).kind, 'granted');
      for (const order of [free, held]) await tell(order.order, world.desk);
      await reconcile(database, world.desk, 1);
      assert.equal((await find(free.order)).state, 'paid');
      assert.equal((await find(held.order)).reason, 'late_payment');
      const next = await world.buy('buyer4', [1]);
      assert.deepEqual(next.kind === 'taken' && next.seats, [1]);
      await auditEvent(database, simulator, world.stage.event);
    },
  );

  run(
    `${mode}: S7: the hold of a late success counts in its holder's quota, and ends with the order`,
    async () => {
      const world = await hall(mode);
      const over = await ordered(world, 'buyer1', [1]);
      await endedUnpaid(over, 'deadline', world.desk);
      // She has bought nothing since, but another of her browsers holds as many seats as she may have.
      const other = await world.arbiter.hold({
        event: world.stage.event,
        partition: 0,
        hold: randomUUID(),
        visitor: 'another browser',
        holder: 'buyer1',
        request: 'r',
        claim: { kind: 'seats', seats: [5, 6] },
        ttlMs: 600_000,
        seatsMax: 2,
        replaces: null,
        notAfter: null,
      });
      assert.equal(other.kind, 'granted');
      await tell(over.order, world.desk);
      assert.equal((await find(over.order)).reason, 'late_payment');
      const within = await ordered(world, 'buyer2', [3, 4]);
      await endedUnpaid(within, 'deadline', world.desk);
      await tell(within.order, world.desk);
      assert.equal((await find(within.order)).state, 'paid');
      assert.equal((await world.buy('buyer2', [7, 8])).kind, 'granted', 'nothing of it is left in her quota');
      await reconcile(database, world.desk, 1);
      await auditEvent(database, simulator, world.stage.event);
    },
  );

  run(
    `${mode}: S1, P3: a late success against a buyer who takes the seat in the same instant: one has it, the other pays nothing`,
    async () => {
      const world = await hall(mode);
      const won = { late: 0, buyer: 0 };
      for (let round = 0; round < 12; round += 1) {
        const order = await ordered(world, `late-${round}`, [round]);
        await endedUnpaid(order, 'deadline', world.desk);
        const buyer = async () => {
          const held = await world.buy(`buyer-${round}`, [round]);
          if (held.kind !== 'granted') return held.kind;
          const outcome = await world.desk.checkout.reserve(reserveCommand(held.hold));
          if (outcome.kind !== 'order') return outcome.kind;
          return (await world.desk.checkout.pay(payCommand(outcome.order.order, 'pm_card_visa'))).kind;
        };
        const others =
          round % 2
            ? [tell(order.order, world.desk)]
            : [tell(order.order, world.desk), tell(order.order, world.desk)];
        const [bought] = await Promise.all([buyer(), ...others]);
        await reconcile(database, world.desk, 1);
        const { state } = await find(order.order);
        assert.equal(state === 'paid', bought !== 'bought', `round ${round}: ${state} beside ${bought}`);
        won[state === 'paid' ? 'late' : 'buyer'] += 1;
      }
      const { paid } = await auditEvent(database, simulator, world.stage.event);
      assert.equal(paid, 12, JSON.stringify(won));
    },
  );

  run(`${mode}: S1, P3: two late successes for the same seat: one is paid, the other voided`, async () => {
    const world = await hall(mode);
    const first = await ordered(world, 'buyer1', [1]);
    await endedUnpaid(first, 'deadline', world.desk);
    const second = await ordered(world, 'buyer2', [1]);
    await endedUnpaid(second, 'deadline', world.desk);
    await Promise.all([tell(first.order, world.desk), tell(second.order, world.desk)]);
    await reconcile(database, world.desk, 1);
    const ends = [await find(first.order), await find(second.order)].map(
      ({ state, reason }) => reason ?? state,
    );
    assert.deepEqual(ends.sort(), ['late_payment', 'paid']);
    await auditEvent(database, simulator, world.stage.event);
  });
}

test('D1: while receipts are being collected a late success takes no seat; afterwards it takes one without a receipt', async () => {
  const world = await hall('postgres');
  const shown = await ordered(world, 'buyer1', [1]);
  const unclaimed = await ordered(world, 'buyer2', [2]);
  for (const order of [shown, unclaimed]) await endedUnpaid(order, 'deadline', world.desk);
  // A Redis that was lost a moment ago had granted seat 1.
  const [{ lost }] = await database.query(
    `UPDATE event_partitions p SET epoch = nextval('epochs'), grace_until = clock_timestamp() + interval '1 hour'
     FROM (SELECT epoch FROM event_partitions WHERE event_no = $1) old WHERE event_no = $1 RETURNING old.epoch AS lost`,
    [world.stage.event],
  );
  const impatient = deskWith(simulator.provider, {
    arbiter: world.arbiter,
    clock: { ...systemClock, sleep: async () => {} },
  });
  for (const order of [shown, unclaimed]) await tell(order.order, impatient);
  for (const order of [shown, unclaimed]) {
    assert.deepEqual(
      [(await find(order.order)).state, (await find(order.order)).reason],
      ['closed', 'not_paid_in_time'],
    );
    assert.equal((await intentOf(order.order)).status, 'requires_capture', 'nothing is decided yet');
  }
  const receipt = {
    ...holdLike(shown),
    hold: randomUUID(),
    visitor: 'buyer3',
    holder: 'buyer3',
    epoch: Number(lost),
  };
  const recovered = await world.arbiter.recover({
    event: world.stage.event,
    partition: 0,
    receipt,
    seatsMax: 2,
  });
  assert.equal(recovered.kind, 'recovering');
  await endGrace(database, world.stage.event);
  await reconcile(database, impatient, 2);
  assert.equal((await find(shown.order)).reason, 'late_payment');
  assert.equal((await find(unclaimed.order)).state, 'paid');
  await auditEvent(database, simulator, world.stage.event);
});

test('D4: killed between the hold and the order, the next look finds the same hold and goes on', async () => {
  const world = await hall('postgres');
  const order = await ordered(world, 'buyer1', [1]);
  await endedUnpaid(order, 'deadline', world.desk);
  const dying = deskWith(simulator.provider, {
    arbiter: {
      ...world.arbiter,
      extend: async (command) => {
        const answer = await world.arbiter.extend(command);
        assert.equal(answer.kind, 'extended');
        throw new Error('killed');
      },
    },
  });
  const { id: object } = await intentOf(order.order);
  await dying.checkout.providerEvent({ id: `evt_${randomUUID()}`, type: 'x', object });
  assert.equal((await dying.inbox.runOnce()).failed, 1);
  assert.equal((await find(order.order)).state, 'closed');
  assert.equal((await world.buy('buyer2', [1])).kind, 'taken');
  await makeDue(database);
  await world.desk.inbox.runOnce();
  assert.equal((await find(order.order)).state, 'paid');
  await auditEvent(database, simulator, world.stage.event);
});

test('S5: the arbiter turned to another epoch between the hold and the order: the seats are asked for again', async () => {
  const world = await hall('postgres');
  const order = await ordered(world, 'buyer1', [1]);
  await endedUnpaid(order, 'deadline', world.desk);
  let turned = false;
  const turning = deskWith(simulator.provider, {
    arbiter: {
      ...world.arbiter,
      extend: async (command) => {
        const answer = await world.arbiter.extend(command);
        if (!turned) {
          turned = true;
          await database.query(`UPDATE event_partitions SET epoch = nextval('epochs') WHERE event_no = $1`, [
            world.stage.event,
          ]);
          await database.query('DELETE FROM holds WHERE event_no = $1', [world.stage.event]);
        }
        return answer;
      },
    },
  });
  await tell(order.order, turning);
  assert.ok(turned);
  assert.equal((await find(order.order)).state, 'paid');
  await auditEvent(database, simulator, world.stage.event);
});

test('S5: a receipt of the hold that its order has left behind wins nothing back', async () => {
  const stage = await stageEvent(database);
  const order = await reserved(desk, stage, 'buyer1', [1]);
  await endedUnpaid(order);
  await tell(order.order);
  assert.equal((await find(order.order)).hold, orderIdOf(order.order));
  const [{ epoch }] = await database.query(
    `UPDATE event_partitions SET mode = 'postgres', epoch = nextval('epochs'), grace_until = clock_timestamp() + interval '1 hour'
     WHERE event_no = $1 RETURNING epoch`,
    [stage.event],
  );
  // Its seats free again: only its being used up is left to refuse it.
  await database.query(`UPDATE seats SET state = 'available', order_id = NULL WHERE event_no = $1`, [
    stage.event,
  ]);
  const arbiter = createPostgresArbiter({ db: desk.db });
  const at = { event: stage.event, partition: 0, epoch: Number(epoch) };
  const outcome = await arbiter.recover({
    ...at,
    receipt: { ...holdLike(order), epoch: stage.epoch },
    seatsMax: 6,
  });
  assert.equal(outcome.kind, 'hold_gone');
});
