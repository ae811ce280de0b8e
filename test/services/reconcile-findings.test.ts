import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test, { after, before } from 'node:test';
import { handOverTo } from '../../src/app/limits.ts';
import { createOperatorDesk } from '../../src/checkout/operator-desk.ts';
import { createReconcileReport, type ReconcileOutcome } from '../../src/checkout/reconcile-report.ts';
import { dueRun, openFindings, settleFinding, startRun } from '../../src/orders/reconcile-findings.ts';
import type { ListAnswer, PaymentProvider } from '../../src/payments/provider.ts';
import { cleanReconcileSeen } from '../../src/retention/cleaning.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { installationOf } from '../support/acts.ts';
import { auditOf, violationsOf } from '../support/at-rest.ts';
import { onsale } from '../support/onsale.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bought, madeRefund, refundDesk } from '../support/refund-desk.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { payCommand, reconcile, reserved, stageEvent, type Till, till } from '../support/stage.ts';

let database: TestDatabase;
let simulator: TestSimulator;
let desk: Till;
before(async () => {
  database = await testDatabase();
  simulator = await startTestSimulator();
  desk = till(database.url, simulator.provider);
  ours = simulator.providerWith({ installation: await installationOf(database) });
});
after(async () => {
  await desk?.close();
  await simulator?.stop();
});

const from = Date.now() - 60_000;

/** The account is shared: what is made here carries the mark of this installation. */
let ours: PaymentProvider;

function report(provider: Pick<PaymentProvider, 'list' | 'lookup'> = ours, owner = 'worker') {
  const parts = { db: desk.db, clock: systemClock, log: silentLogger, handOver: handOverTo(desk.record) };
  return createReconcileReport({ ...parts, provider, owner });
}

async function compare(): Promise<ReconcileOutcome & { kind: 'compared' }> {
  const outcome = await report().onDemand({ from, to: Date.now() + 60_000 });
  assert.ok(outcome.kind === 'compared', outcome.kind);
  return outcome;
}

const kindsOf = ({ findings }: { findings: { kind: string; subject: string }[] }) =>
  findings.map(({ kind, subject }) => `${kind} ${subject}`).sort();

async function sell(stage: { event: number; epoch: number }, visitor: string, seats: number[]) {
  const order = await reserved(desk, stage, visitor, seats);
  const paid = await desk.checkout.pay(payCommand(order.order, 'pm_card_visa'));
  assert.ok(paid.kind === 'bought', paid.kind);
  return paid.order;
}

/** A payment that none of our operations made, with money reserved on it. */
async function foreign(reference: string, amount: number, provider = ours): Promise<string> {
  const made = await provider.open({
    key: randomUUID(),
    reference,
    eventId: 'elsewhere',
    amount,
    currency: 'EUR',
    description: '',
    email: 'a@example.org',
  });
  assert.ok(made.kind === 'done', JSON.stringify(made));
  const { object } = made.view;
  const instrument = { paymentMethod: 'pm_card_visa' };
  await provider.authorise({ key: randomUUID(), object, instrument, returnUrl: 'https://example.org' });
  return object;
}

test('payments without a record, records without a payment, and differences are listed; a finding that fits again is settled, nothing is repaired', async () => {
  const stage = await stageEvent(database);
  const paid = await sell(stage, 'a', [1]);
  const lost = await sell(stage, 'b', [2]);
  const refunded = await sell(stage, 'c', [3]);
  const closed = await reserved(desk, stage, 'd', [4]);
  await desk.checkout.close(closed.order);
  const clean = await compare();
  assert.deepEqual(clean.findings, []);
  assert.equal(clean.run.counts.payments, 3);
  assert.equal(clean.run.counts.fits, 3);

  const stranger = await foreign(randomUUID(), 900);
  const bar = await foreign('table 7', 1_200);
  const second = await foreign(paid.order, paid.amount);
  // Payments of another program, of another installation, and of one that is as old as ours and does not mark its payments:
  // none is ours.
  await foreign('', 700, simulator.provider);
  await foreign(randomUUID(), 800, simulator.providerWith({ installation: 'another' }));
  await foreign(randomUUID(), 850, simulator.provider);
  await simulator.provider.refund({
    key: randomUUID(),
    object: refunded.providerObject!,
    amount: 100,
    reference: randomUUID(),
  });
  const hidden = lost.providerObject!;
  const rename = async (to: string, was: string) => {
    await database.query('UPDATE money_operations SET provider_object = $1 WHERE provider_object = $2', [
      to,
      was,
    ]);
    await database.query('UPDATE orders SET provider_object = $1 WHERE provider_object = $2', [to, was]);
  };
  await rename('pi_nowhere', hidden);
  const found = await compare();
  const expected = [
    `unknown_order ${stranger}`,
    `unknown_order ${bar}`,
    `unknown_payment ${second}`,
    `unknown_payment ${hidden}`,
    `refunded_differs ${refunded.providerObject}`,
    'missing_there pi_nowhere',
  ].sort();
  assert.deepEqual(kindsOf(found), expected);
  assert.equal(found.run.counts.foreign, 3);
  const differs = found.findings.find(({ kind }) => kind === 'refunded_differs')!;
  assert.match(differs.says, /^1\.00 EUR were refunded on .* says 0\.00 EUR$/);
  // Only objects that name our orders are reported to the saga, which has its own rules for them.
  const told = await database.query(`SELECT object FROM provider_events WHERE type = 'reconcile' ORDER BY 1`);
  assert.deepEqual(
    told.map(({ object }) => object),
    [hidden, second, refunded.providerObject!].sort(),
  );
  assert.deepEqual(kindsOf(await compare()), expected, 'the same again, once each');

  await rename(hidden, 'pi_nowhere');
  const bars = found.findings.find(({ subject }) => subject === bar)!;
  const note = 'the bar’s own till';
  assert.equal(await settleFinding(desk.db, { finding: bars.finding, actor: 'organiser', note }), 'done');
  assert.equal(await settleFinding(desk.db, { finding: 987_654, actor: 'organiser', note }), 'unknown');
  const left = expected.filter(
    (one) => ![bar, hidden, 'pi_nowhere'].some((subject) => one.endsWith(subject)),
  );
  const again = kindsOf(await compare());
  // The saga may have cancelled the second payment of the paid order by now.
  assert.deepEqual(
    again.filter((one) => !one.endsWith(second)),
    left.filter((one) => !one.endsWith(second)),
  );
  const [settled] = await database.query(
    `SELECT count(*) FILTER (WHERE settled_by = 'reconcile')::integer AS fits,
            count(*) FILTER (WHERE settled_by = 'organiser')::integer AS "byHand" FROM reconcile_findings`,
  );
  assert.ok(settled.fits >= 2 && settled.byHand === 1, JSON.stringify(settled));

  // The saga ends the reported payment: nothing of the second payment is left, the paid order keeps its own.
  await reconcile(database, desk, 4);
  const { intents } = await simulator.ledger();
  const statusOf = (object: string) => intents.find(({ id }) => id === object)?.status;
  assert.equal(statusOf(second), 'canceled');
  assert.equal(statusOf(paid.providerObject!), 'succeeded');
  assert.equal(statusOf(stranger), 'requires_capture', 'what names no order of ours is left alone');
});

test('P4 P8: the comparison reports to the saga what a lost event would have reported; money that was given back by an ending fits', async (t) => {
  const own = await testDatabase(t);
  const bank = await startTestSimulator();
  t.after(() => bank.stop());
  const counter = refundDesk(own.url, bank.provider);
  t.after(() => counter.close());
  const parts = {
    clock: systemClock,
    log: silentLogger,
    handOver: handOverTo(counter.record),
    owner: 'worker',
  };
  const compareOwn = async () => {
    const made = createReconcileReport({ ...parts, db: counter.db, provider: bank.provider });
    const outcome = await made.onDemand({ from, to: Date.now() + 60_000 });
    assert.ok(outcome.kind === 'compared', outcome.kind);
    return kindsOf(outcome);
  };
  const stage = await stageEvent(own);
  const captureByHand = async ({ order, amount }: { order: string; amount: number }): Promise<string> => {
    const object = (await counter.record.findOrder(order))!.providerObject!;
    assert.equal((await bank.provider.capture({ key: randomUUID(), object, amount })).kind, 'done');
    return object;
  };

  // No event of the provider arrives here. A refund that was done comes back, days later.
  const returned = await bought(counter, stage, [1]);
  await bank.fault('refund_fails_later', { match: { reference: returned.order }, times: 1 });
  const { refund } = await madeRefund(counter, returned);
  await bank.settleRefunds();
  // Money that is taken by hand after the order ended.
  const refused = await reserved(counter, stage, 'refused', [2]);
  await bank.fault('capture_refused', { match: { reference: refused.order }, times: 1 });
  assert.equal((await counter.checkout.pay(payCommand(refused.order, 'pm_card_visa'))).kind, 'ended');
  const taken = await captureByHand(refused);
  // And such that is taken while its buyer closes the order.
  const closed = await reserved(counter, stage, 'closed', [3]);
  const asked = await counter.checkout.pay(payCommand(closed.order, 'pm_card_threeDSecure2Required'));
  assert.ok(asked.kind === 'pending' && asked.action);
  await bank.answerBank(asked.action.url, 'authorise');
  await captureByHand(closed);
  await counter.checkout.close(closed.order);
  await reconcile(own, counter);

  // And a second payment of an order that has its own, which only the provider knows.
  const twice = await bought(counter, stage, [4]);
  const second = await bank.provider.open({
    key: randomUUID(),
    reference: twice.order,
    eventId: twice.event,
    amount: twice.amount,
    currency: twice.currency,
    description: '',
    email: 'a@example.org',
  });
  assert.ok(second.kind === 'done');
  const { object } = second.view;
  const instrument = { paymentMethod: 'pm_card_visa' };
  await bank.provider.authorise({ key: randomUUID(), object, instrument, returnUrl: 'https://example.org' });
  await bank.provider.capture({ key: randomUUID(), object, amount: twice.amount });

  const found = await compareOwn();
  assert.ok(found.includes(`unknown_payment ${object}`), found.join());
  assert.ok(found.includes(`refunded_differs ${returned.providerObject}`), found.join());
  await reconcile(own, counter);
  assert.equal((await counter.refundRecord.find(refund))?.state, 'failed', 'it is owed again');
  assert.deepEqual(await compareOwn(), [], `all fits, ${taken} too, which was given back`);
  const again = await counter.refunds.retry(refund, 'organiser');
  assert.ok(again.kind === 'retried' && again.refund.state === 'done', again.kind);
  assert.deepEqual(await compareOwn(), []);
  // The second payment was ended here and its money given back: nothing is left to say of it.
  assert.deepEqual(violationsOf(await auditOf({ database: own, simulator: bank, eventNo: stage.event })), []);
});

test('P8: money that an ending gave back and that the bank sent back days later goes back again, although no event reported it', async (t) => {
  const own = await testDatabase(t);
  const bank = await startTestSimulator();
  t.after(() => bank.stop());
  const counter = refundDesk(own.url, bank.provider);
  t.after(() => counter.close());
  const stage = await stageEvent(own);
  const closed = await reserved(counter, stage, 'closed', [3]);
  const asked = await counter.checkout.pay(payCommand(closed.order, 'pm_card_threeDSecure2Required'));
  assert.ok(asked.kind === 'pending' && asked.action);
  await bank.answerBank(asked.action.url, 'authorise');
  const object = (await counter.record.findOrder(closed.order))!.providerObject!;
  await bank.provider.capture({ key: randomUUID(), object, amount: closed.amount });
  await bank.fault('refund_fails_later', { match: { reference: closed.order }, times: 1 });
  await counter.checkout.close(closed.order);
  await reconcile(own, counter);
  const moneyBack = async (): Promise<number> => {
    const answer = await bank.provider.lookup(object);
    assert.ok(answer.kind === 'done');
    return answer.view.refunded;
  };
  assert.equal(await moneyBack(), closed.amount);
  await bank.settleRefunds();
  assert.equal(await moneyBack(), 0, 'the bank has sent it back');

  assert.equal(await counter.checkout.payments.checkRefunds(), 0, 'not before a day has passed');
  const aDay = (): Promise<unknown> =>
    own.query(
      `UPDATE money_operations SET check_at = check_at - interval '1 day' WHERE check_at IS NOT NULL`,
    );
  await aDay();
  await bank.fault('refund_fails_later', { match: { reference: closed.order }, times: 1 });
  assert.equal(await counter.checkout.payments.checkRefunds(), 1);
  await reconcile(own, counter);
  assert.equal(await moneyBack(), closed.amount);
  const [row] = await own.query<{ state: string; checks: number; next: boolean }>(
    `SELECT state, checks, check_at BETWEEN clock_timestamp() + interval '23 hours' AND clock_timestamp() + interval '1 day' AS next
     FROM money_operations WHERE check_at IS NOT NULL`,
  );
  assert.deepEqual(row, { state: 'voided', checks: 0, next: true }, 'all of the checks begin again');

  await bank.settleRefunds();
  await aDay();
  const empty = await bank.fault('refund_insufficient_balance', { match: { reference: closed.order } });
  assert.equal(await counter.checkout.payments.checkRefunds(), 1);
  await reconcile(own, counter);
  const operator = createOperatorDesk({ db: counter.db, refunds: counter.refunds, random: systemRandom });
  const [entry] = (await operator.list({ event: stage.event, after: null, limit: 20 })).entries;
  assert.equal(entry?.kind, 'refund_refused', 'the operator sees it');
  const act = { entry: entry!.entry, action: 'settle', actor: 'organiser', note: 'paid in cash' } as const;
  assert.equal((await operator.act(act)).kind, 'done');
  await bank.endFault(empty);
  const ended = (await counter.record.operationsOf(closed.order))
    .filter(({ state }) => state === 'voided')
    .at(-1)!;
  const claim = { owner: 'worker', leaseMs: 1_000 };
  const end = await counter.record.end(ended.operation, 'capture_refused', randomUUID(), claim);
  assert.equal(end.kind, 'settled', 'nor by a process that read the order before the decision');
  // Money of an order that only its deadline closed would buy the seats again.
  for (const reason of ['closed_by_buyer', 'not_paid_in_time']) {
    await own.query('UPDATE orders SET reason = $2 WHERE order_id = $1', [closed.order, reason]);
    assert.equal(await counter.checkout.payments.inspect(closed.order, []), true);
    await reconcile(own, counter);
    assert.equal(await moneyBack(), 0, 'what was paid by other means is not paid again');
    assert.equal((await counter.record.findOrder(closed.order))!.state, 'closed', 'and buys nothing');
  }
  assert.deepEqual(violationsOf(await auditOf({ database: own, simulator: bank, eventNo: stage.event })), []);
});

test('a window holds what was opened in it; a look that comes to nothing is no finding', async () => {
  const early = await report().onDemand({ from: from - 3_600_000, to: from - 60_000 });
  assert.ok(early.kind === 'compared');
  assert.equal(early.run.counts.payments, 0);
  const silent: Pick<PaymentProvider, 'list' | 'lookup'> = {
    list: async () => ({ kind: 'page', payments: [], next: null }),
    lookup: async () => ({ kind: 'unknown', reason: 'timeout', detail: 'no answer' }),
  };
  const before = await openFindings(desk.db, 100);
  const outcome = await report(silent).onDemand({ from, to: Date.now() + 60_000 });
  assert.ok(outcome.kind === 'compared');
  assert.deepEqual(outcome.findings, []);
  assert.ok(outcome.run.counts.unanswered! >= 3, JSON.stringify(outcome.run.counts));
  assert.deepEqual(
    (await openFindings(desk.db, 100)).map(({ finding }) => finding),
    before.map(({ finding }) => finding),
    'silence settles nothing either',
  );
});

test('a run goes on where it was left, by one process at a time; a scheduled one comes when it is due', async () => {
  const all = await simulator.provider.list({
    createdFrom: from,
    createdTo: Date.now() + 60_000,
    cursor: null,
  });
  assert.ok(all.kind === 'page');
  let asked = 0;
  /** Pages of two entries; the third call fails. */
  const paging = (failAt: number): Pick<PaymentProvider, 'list' | 'lookup'> => ({
    lookup: simulator.provider.lookup,
    list: async ({ cursor }): Promise<ListAnswer> => {
      asked += 1;
      if (asked >= failAt) return { kind: 'unknown', reason: 'timeout', detail: 'gone' };
      const at = cursor === null ? 0 : all.payments.findIndex(({ object }) => object === cursor) + 1;
      const payments = all.payments.slice(at, at + 2);
      const isLast = at + 2 >= all.payments.length;
      return { kind: 'page', payments, next: isLast ? null : payments.at(-1)!.object };
    },
  });
  const quick = { ...systemClock, sleep: async () => {} };
  const parts = { db: desk.db, clock: quick, log: silentLogger, handOver: async () => {} };
  const when = { everyMs: 900_000, backMs: 600_000, youngMs: -60_000 };

  const run = await dueRun(desk.db, 'first', when);
  assert.ok(run, 'the first is due at once');
  assert.equal(await dueRun(desk.db, 'second', when), null, 'another process finds it claimed');
  const broken = await createReconcileReport({ ...parts, provider: paging(3), owner: 'first' }).compare(run);
  assert.equal(broken.kind, 'unanswered');
  assert.equal(broken.run.counts.payments, 4);
  const seen = async (): Promise<number> =>
    (
      await database.query('SELECT count(*)::integer AS n FROM reconcile_seen WHERE run_id = $1', [run.run])
    )[0].n;
  await cleanReconcileSeen(desk.db);
  assert.equal(await seen(), 4, 'what a run has seen stays while it may be gone on with');
  await database.query(`UPDATE reconcile_runs SET claimed_until = now() WHERE run_id = $1`, [run.run]);
  const resumed = await dueRun(desk.db, 'second', when);
  assert.equal(resumed?.run, run.run);
  asked = 0;
  const done = await createReconcileReport({ ...parts, provider: paging(100), owner: 'second' }).compare(
    resumed!,
  );
  assert.equal(done.kind, 'compared');
  assert.equal(done.run.counts.payments, all.payments.length, 'each was read once');
  const late = await createReconcileReport({ ...parts, provider: paging(100), owner: 'first' }).compare(
    broken.run,
  );
  assert.equal(late.kind, 'taken', 'the first has lost it');
  const dead = await startRun(desk.db, 'killed', { from, to: Date.now() });
  await database.query(`INSERT INTO reconcile_seen (run_id, object) VALUES ($1, 'pi_left')`, [dead.run]);
  await database.query(
    `UPDATE reconcile_runs SET claimed_until = now() - interval '2 days' WHERE run_id = $1`,
    [dead.run],
  );
  await cleanReconcileSeen(desk.db);
  const left = await database.query(`SELECT FROM reconcile_seen WHERE object = 'pi_left'`);
  assert.equal(left.length, 0, 'what a killed one left goes');
  assert.equal(await dueRun(desk.db, 'second', when), null, 'the next one comes a quarter of an hour later');
  assert.ok(await dueRun(desk.db, 'second', { ...when, everyMs: 0 }));

  const window = { from, to: Date.now() };
  const mine = await startRun(desk.db, 'third', window);
  assert.equal(mine.scheduled, false);
});

test('onsale reconcile reports with counts and ends with 1 while something does not fit', async () => {
  const environment = {
    DATABASE_URL: database.url,
    STRIPE_SECRET_KEY: simulator.secretKey,
    STRIPE_PUBLISHABLE_KEY: simulator.publishableKey,
    STRIPE_WEBHOOK_SECRET: simulator.webhookSecret,
    STRIPE_API_BASE: simulator.url,
  };
  const compared = await onsale(['reconcile', '--json'], environment);
  assert.equal(compared.code, 1, compared.err);
  const { outcome, run, findings, ambiguous, refundsAtBank } = JSON.parse(compared.out);
  assert.equal(outcome, 'compared');
  assert.deepEqual([ambiguous, refundsAtBank], [0, 0]);
  assert.ok(run.counts.payments >= 6 && findings.length >= 2, compared.out);
  assert.match(compared.err, /do not fit/);
  for (const { finding } of findings) {
    await settleFinding(desk.db, { finding, actor: 'test', note: 'seen' });
  }
  const settled = await onsale(['reconcile'], environment);
  assert.equal(settled.code, 0, settled.err);
  assert.match(settled.out, /The provider's payments +\d/);
  assert.match(settled.out, /Refunds accepted, not yet paid out by the bank +0$/m);
  assert.equal((await onsale(['reconcile', '--from', 'yesterday'], environment)).code, 2);
});
