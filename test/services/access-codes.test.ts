import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after, before } from 'node:test';
import { canonicalCode } from '../../src/core/prices.ts';
import {
  type CreateCodesCommand,
  createCodes,
  generateCodes,
  listBatches,
  listCodes,
  lookAtCode,
  revokeCodes,
} from '../../src/orders/access-codes.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { passDeadline } from '../support/acts.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import {
  auditEvent,
  holdOf,
  payCommand,
  reconcile,
  reserveCommand,
  stageEvent,
  type Till,
  till,
} from '../support/stage.ts';

let database: TestDatabase;
let simulator: TestSimulator;
let desk: Till;
before(async () => {
  database = await testDatabase();
  simulator = await startTestSimulator();
  desk = till(database.url, simulator.provider, { poolSize: 12 });
  // Connections before the race, so that it is one.
  await Promise.all(Array.from({ length: 12 }, () => desk.db.query('warm', 'SELECT pg_sleep(0.05)')));
});
after(async () => {
  await desk?.close();
  await simulator?.stop();
});

type Stage = Awaited<ReturnType<typeof stageEvent>>;

async function makeCode(
  stage: Stage,
  code: string,
  more: Partial<CreateCodesCommand> & { uses?: number | null } = {},
) {
  const { uses = 1, ...rest } = more;
  const outcome = await createCodes(desk.db, {
    event: stage.event,
    actor: 'organiser',
    batch: randomUUID(),
    label: code,
    codes: [{ code, usesMax: uses }],
    categories: ['A'],
    kinds: [],
    presale: false,
    seatsMax: null,
    until: null,
    ...rest,
  });
  assert.equal(outcome.kind, 'created');
  return (await lookAtCode(desk.db, stage.event, code))!;
}

const reserve = (stage: Stage, accessCode: string, visitor: string, seats: number[]) =>
  desk.checkout.reserve({ ...reserveCommand(holdOf(stage, visitor, seats)), accessCode });

async function mustReserve(stage: Stage, accessCode: string, visitor: string, seats: number[]) {
  const outcome = await reserve(stage, accessCode, visitor, seats);
  assert.ok(outcome.kind === 'order', JSON.stringify(outcome));
  return outcome.order.order;
}

async function usedOf(stage: Stage, code: string): Promise<number> {
  const found = (await listCodes(desk.db, stage.event, { limit: 1_000 })).find((one) => one.code === code);
  return found!.used;
}

/** Whatever was done, the count is the number of orders that use the code. */
async function countsFit(stage: Stage): Promise<void> {
  const rows = await database.query(
    `SELECT c.code, c.used, (SELECT count(*)::integer FROM orders o WHERE o.access_code = c.code_id AND order_uses_code(o)) AS orders
     FROM access_codes c WHERE c.event_no = $1 AND c.uses_max IS NOT NULL`,
    [stage.event],
  );
  for (const row of rows) assert.equal(row.used, row.orders, row.code);
}

test('an access code with ten uses and fifty buyers at once: ten orders, and the others hold nothing back', async () => {
  const stage = await stageEvent(database, { seats: 100 });
  const code = await makeCode(stage, 'FANCLUB', { uses: 10 });
  const outcomes = await Promise.all(
    Array.from({ length: 50 }, (_, n) => reserve(stage, code.id, `fan-${n}`, [2 * n, 2 * n + 1])),
  );
  const orders = outcomes.flatMap((outcome) => (outcome.kind === 'order' ? [outcome.order.order] : []));
  const refused = outcomes.filter((outcome) => outcome.kind === 'code' && outcome.why === 'used_up');
  assert.deepEqual([orders.length, refused.length], [10, 40]);
  assert.equal(await usedOf(stage, 'FANCLUB'), 10);
  assert.equal((await lookAtCode(desk.db, stage.event, 'FANCLUB'))!.refusal, 'used_up');
  const [rest] = await database.query(
    `SELECT count(*)::integer AS tickets, (SELECT count(*)::integer FROM orders WHERE event_no = $1) AS orders
     FROM tickets WHERE event_no = $1`,
    [stage.event],
  );
  assert.deepEqual(rest, { tickets: 20, orders: 10 }, 'a refused reserve leaves nothing behind');

  // Five end unpaid while fifteen others try: five more get through, none more.
  const [ends, again] = await Promise.all([
    Promise.all(orders.slice(0, 5).map((order) => desk.checkout.close(order))),
    Promise.all(Array.from({ length: 15 }, (_, n) => reserve(stage, code.id, `late-${n}`, [20 + 2 * n]))),
  ]);
  assert.ok(ends.every(({ kind }) => kind === 'closed'));
  const won = again.filter(({ kind }) => kind === 'order').length;
  assert.ok(won <= 5, `${won} more`);
  for (let n = won; n < 5; n += 1) await mustReserve(stage, code.id, `last-${n}`, [60 + 2 * n]);
  assert.equal((await reserve(stage, code.id, 'too late', [90])).kind, 'code');
  await countsFit(stage);
});

test('a paying buyer keeps a use, also after a refund; every end without a payment gives it back', async () => {
  const stage = await stageEvent(database);
  const code = await makeCode(stage, 'ONCEONLY');
  const first = await mustReserve(stage, code.id, 'closes', [1]);
  await desk.checkout.close(first);
  assert.equal(await usedOf(stage, 'ONCEONLY'), 0);

  const second = await mustReserve(stage, code.id, 'refused at capture', [1]);
  await simulator.fault('capture_refused', { times: 1 });
  await desk.checkout.pay(payCommand(second, 'pm_card_visa'));
  await reconcile(database, desk);
  await simulator.clearFaults();
  assert.equal(await usedOf(stage, 'ONCEONLY'), 0);

  const third = await mustReserve(stage, code.id, 'pays', [1]);
  assert.equal((await desk.checkout.pay(payCommand(third, 'pm_card_visa'))).kind, 'bought');
  assert.equal(await usedOf(stage, 'ONCEONLY'), 1);
  assert.equal((await reserve(stage, code.id, 'another', [2])).kind, 'code');
  await database.query(`UPDATE orders SET state = 'cancelled', reason = 'refunded' WHERE order_id = $1`, [
    third,
  ]);
  assert.equal(await usedOf(stage, 'ONCEONLY'), 1, 'a refund gives no second use');
  await database.query(`UPDATE orders SET state = 'paid', reason = NULL WHERE order_id = $1`, [third]);
  await countsFit(stage);
  await auditEvent(database, simulator, stage.event);
});

test('P3: late money brings its order back only with a use of the code; else it is given back', async () => {
  const mistaken = till(database.url, {
    ...simulator.provider,
    authorise: async (command) => {
      await simulator.provider.authorise(command);
      return { kind: 'refused', decline: 'declined', detail: 'mistaken', view: null };
    },
  });
  for (const gone of [false, true]) {
    const stage = await stageEvent(database);
    const code = await makeCode(stage, 'LATECODE');
    const order = await mustReserve(stage, code.id, 'late', [4]);
    // Its money is reserved, we do not know of it, and the deadline passes.
    assert.equal((await mistaken.checkout.pay(payCommand(order, 'pm_card_visa'))).kind, 'declined');
    await passDeadline(database, order);
    assert.equal((await desk.checkout.expire(order)).kind, 'ended');
    assert.equal(await usedOf(stage, 'LATECODE'), 0);
    const quicker = gone ? await mustReserve(stage, code.id, 'quicker', [9]) : null;
    if (quicker) await desk.checkout.pay(payCommand(quicker, 'pm_card_visa'));
    await reconcile(database, desk, 2);
    const { state, reason } = (await desk.checkout.find(order))!;
    assert.deepEqual([state, reason], gone ? ['closed', 'late_payment'] : ['paid', null]);
    assert.equal(await usedOf(stage, 'LATECODE'), 1);
    await countsFit(stage);
    await auditEvent(database, simulator, stage.event);
  }
  await mistaken.close();
});

test('a code is refused with its reason, and a repeat of an order that has it is not', async () => {
  const stage = await stageEvent(database, { seats: 30 });
  const pair = await makeCode(stage, 'PAIRS', { seatsMax: 2, uses: 5 });
  const many = await reserve(stage, pair.id, 'three', [0, 1, 2]);
  assert.deepEqual(many, { kind: 'code', why: 'seats', seatsMax: 2 });
  const hold = holdOf(stage, 'two', [0, 1]);
  const command = { ...reserveCommand(hold), accessCode: pair.id };
  assert.equal((await desk.checkout.reserve(command)).kind, 'order');
  assert.equal(await revokeCodes(desk.db, { event: stage.event, actor: 'organiser', code: 'PAIRS' }), 1);
  assert.equal(
    await revokeCodes(desk.db, { event: stage.event, actor: 'organiser', code: 'PAIRS' }),
    0,
    'repeatable',
  );
  const repeat = await desk.checkout.reserve(command);
  assert.ok(repeat.kind === 'order' && repeat.repeated);
  const ended = await reserve(stage, pair.id, 'one', [5]);
  assert.ok(ended.kind === 'code' && ended.why === 'ended');
  const over = await makeCode(stage, 'YESTERDAY', { until: Date.now() - 1_000 });
  assert.equal(over.refusal, 'ended');
  const late = await reserve(stage, over.id, 'late', [6]);
  assert.ok(late.kind === 'code' && late.why === 'ended');
  const other = await stageEvent(database);
  const foreign = await reserve(other, pair.id, 'foreign', [1]);
  assert.ok(foreign.kind === 'code' && foreign.why === 'unknown');
});

test('a code with any number of uses has no hot row, and its uses are counted all the same', async () => {
  const stage = await stageEvent(database, { seats: 40 });
  const code = await makeCode(stage, 'EVERYBODY', { uses: null });
  await Promise.all(Array.from({ length: 20 }, (_, n) => mustReserve(stage, code.id, `any-${n}`, [n])));
  const [row] = await database.query('SELECT used FROM access_codes WHERE code_id = $1', [code.id]);
  assert.equal(row.used, 0);
  assert.equal(await usedOf(stage, 'EVERYBODY'), 20);
  const [batch] = await listBatches(desk.db, stage.event);
  assert.deepEqual([batch!.codes, batch!.used, batch!.usesMax], [1, 20, null]);
});

test('a batch is made whole or not at all; codes are kept in one form; the log names no code', async () => {
  const stage = await stageEvent(database);
  const made = generateCodes(systemRandom, 500, 10, 'VIP');
  assert.equal(new Set(made).size, 500);
  for (const code of made) assert.equal(canonicalCode(code.toLowerCase()), code);
  const batch = randomUUID();
  const common = {
    event: stage.event,
    actor: 'organiser',
    kinds: [],
    presale: true,
    categories: [],
    seatsMax: null,
  };
  const command = { ...common, batch, label: '=cmd', until: null };
  const codes = made.map((code) => ({ code, usesMax: 2 }));
  assert.deepEqual(await createCodes(desk.db, { ...command, codes }), { kind: 'created' });
  const clash = [{ code: 'FRESH1', usesMax: 1 }, codes[7]!];
  assert.deepEqual(await createCodes(desk.db, { ...command, batch: randomUUID(), codes: clash }), {
    kind: 'exists',
    codes: [codes[7]!.code],
  });
  assert.equal(await lookAtCode(desk.db, stage.event, 'FRESH1'), null);
  assert.equal(await revokeCodes(desk.db, { event: stage.event, actor: 'organiser', batch }), 500);
  assert.equal(
    await revokeCodes(desk.db, { event: stage.event, actor: 'organiser', batch: randomUUID() }),
    null,
  );
  const log = await database.query(
    `SELECT action, detail::text FROM audit_log WHERE event_no = $1 ORDER BY entry`,
    [stage.event],
  );
  assert.deepEqual(
    log.map(({ action }) => action),
    ['codes_create', 'codes_revoke'],
  );
  for (const { detail } of log) assert.ok(!detail.includes(codes[0]!.code));
});
