import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAULT_KINDS } from '../../payment-simulator/fault-kinds.ts';
import type { FaultKind } from '../../payment-simulator/faults.ts';
import type { OrderAnswer } from '../../src/http/api-types.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { type Buyer, createBuyer } from '../../tools/crowd/buyer.ts';
import { type Answer, createHttpClients } from '../../tools/crowd/http-client.ts';
import { until } from '../support/app.ts';
import { unsettled } from '../support/at-rest.ts';
import { onsale } from '../support/onsale.ts';
import { type ServedEvent, servedEvent } from '../support/served.ts';
import { answerBank, type TestSimulator } from '../support/simulator.ts';
import { pause } from '../support/wait.ts';

/**
 * Many purchases through the real server while the provider fails in every way that the simulator knows, and the server is
 * killed -9 again and again. At full size, by hand:
 * node --import tsx test/load/purchases-faults.test.ts --purchases 10000 --kills 10
 */
const size = (flag: string, otherwise: number): number => {
  const at = process.argv.indexOf(`--${flag}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const purchases = size('purchases', 200);
const kills = size('kills', 1);

/** Fraction of all requests, pages and webhooks, with the kinds of faults mixed evenly. */
const faultRate = 0.05;
/** P4: from the provider's recovery on. */
const ambiguousMaxMs = 120_000;
const buyersAtOnce = 16;
/** Longer than the server waits for the provider. */
const delayMs = 9_000;
/** The provider is away altogether, once a kill. */
const awayMs = 4_000;
/** A buyer looks at their page this many times, then leaves. */
const looksMax = 60;
const lookEveryMs = 500;
const cardsMax = 3;

test(`D4 P1 P2 P3 P4 P5 P6 P8: ${purchases} purchases, 5 % faults, ${kills} kills: the audit is clean, and nothing is ambiguous 2 min after the faults end`, async (t) => {
  const served = await servedEvent(t, { seats: Math.max(500, Math.ceil(purchases * 1.2)) });
  const { database, simulator, server, eventNo } = served;
  await server.start();
  await switchOn(simulator);
  const clients = createHttpClients({
    url: server.url,
    clock: systemClock,
    timeoutMs: 30_000,
    connectionsMax: buyersAtOnce,
  });
  t.after(async () => clients.close());

  const ends: Record<string, number> = {};
  const toldBought: string[] = [];
  let begun = 0;
  let finished = 0;
  async function buyers(): Promise<void> {
    while (begun < purchases) {
      begun += 1;
      const { end, order } = await purchase(
        served,
        createBuyer(clients.browser(), served.event, systemRandom),
      );
      ends[end] = (ends[end] ?? 0) + 1;
      if (end === 'bought') toldBought.push(order);
      finished += 1;
    }
  }
  async function killer(): Promise<void> {
    for (let kill = 1; kill <= kills; kill += 1) {
      const at = Math.floor((purchases * kill) / (kills + 1));
      await until(async () => finished >= at, `purchase ${at}`, 3_600_000);
      await simulator.fault('closed', { forMs: awayMs });
      await pause(systemRandom.int(1_000), 'a random moment for the kill');
      await server.kill();
      await server.start();
    }
  }
  await Promise.all([killer(), ...Array.from({ length: buyersAtOnce }, buyers)]);

  const struck = await simulator.struck();
  await simulator.clearFaults();
  const recovered = systemClock.monotonic();
  // Lets the deadline of every unpaid order pass.
  await database.query(
    `UPDATE orders SET payment_deadline = now() - interval '1 second' WHERE event_no = $1 AND state = 'reserved'`,
    [eventNo],
  );
  await until(
    async () => (await unsettled(served)) === 0,
    'nothing ambiguous within the promised time',
    ambiguousMaxMs,
  );
  const settledMs = Math.round(systemClock.monotonic() - recovered);

  const audit = await onsale(['audit'], served.env);
  assert.equal(audit.code, 0, audit.out + audit.err);
  const [sold] = await database.query(
    `SELECT count(*)::integer AS paid, count(*) FILTER (WHERE order_id = ANY ($2))::integer AS told
     FROM orders WHERE event_no = $1 AND state = 'paid'`,
    [eventNo, toldBought],
  );
  assert.equal(sold.told, toldBought.length, 'whoever was told so has bought');
  assert.ok(sold.paid >= purchases * 0.7, `only ${sold.paid} were sold: ${JSON.stringify(ends)}`);
  const strikes = Object.values(struck).reduce((sum, n) => sum + n, 0);
  assert.ok(strikes >= purchases / 10, `${strikes} faults struck`);
  await mailsAreSent(served, sold.paid);
  t.diagnostic(JSON.stringify({ paid: sold.paid, ends, settledMs, struck }));
});

/** Each kind as often as every other, so that of requests, pages and webhooks as many are struck as the rate says. */
async function switchOn(simulator: TestSimulator): Promise<void> {
  const anywhere = (kind: FaultKind) => !('routes' in FAULT_KINDS[kind]);
  const kinds = (Object.keys(FAULT_KINDS) as FaultKind[]).filter(
    // Webhooks that are kept until they are released by hand are the same as never here.
    (kind) => FAULT_KINDS[kind].about !== 'all' && kind !== 'webhook_hold' && !kind.startsWith('refund_'),
  );
  for (const kind of kinds) {
    const { about } = FAULT_KINDS[kind];
    const peers = kinds.filter((other) => FAULT_KINDS[other].about === about && anywhere(other)).length;
    const wait = about === 'webhook' ? 2_000 : kind === 'hold_short' ? 1_000 : delayMs;
    await simulator.fault(kind, { rate: faultRate / Math.max(1, peers), delayMs: wait });
  }
}

/** Buys as a page does that loses its connection: each request is repeated, with its key, until it is answered. */
async function purchase(served: ServedEvent, buyer: Buyer): Promise<{ end: string; order: string }> {
  const none = (end: string) => ({ end, order: '' });
  const queue = `/api/events/${served.event}/queue`;
  await insist(() => buyer.client.request('POST', queue, { body: {} }));
  const pass = served.passFor(buyer.client.cookies());
  const holdKey = systemRandom.uuid();
  const held = await insist(() => buyer.holdBest(pass, { quantity: 1 }, { key: holdKey }));
  if (held.status !== 201 && held.status !== 200) return none(`hold ${held.body.code}`);
  const who = { name: 'Any Buyer', email: `${holdKey}@example.org` };
  const ordered = await insist(() => buyer.order(held.body.hold, who));
  if (ordered.status !== 201 && ordered.status !== 200) return none(`order ${ordered.body.code}`);
  const { order } = ordered.body;
  return { order, end: await paid(buyer, order) };
}

async function paid(buyer: Buyer, order: string): Promise<string> {
  let last = '';
  for (let card = 1; card <= cardsMax; card += 1) {
    const key = systemRandom.uuid();
    let answer = await insist(() => buyer.pay(order, 'pm_card_visa', key));
    for (let looks = 0; isOpen(answer) && looks < looksMax; looks += 1) {
      const url = answer.body.payment?.action?.url;
      // The page of the bank may be away, and its window may be lost.
      if (url) await answerBank(url, 'authorise').catch(() => {});
      await pause(lookEveryMs, 'a page paces its looks');
      answer = await insist(() => buyer.refresh(order));
    }
    if (answer.status === 200 && answer.body.state === 'paid') return 'bought';
    if (answer.status !== 402)
      return isOpen(answer) ? 'left' : `${answer.status} ${answer.body.code ?? answer.body.state}`;
    last = `declined ${answer.body.code}`;
  }
  return last;
}

/** Under way, or sold with its capture on the way. */
function isOpen({ status, body }: Answer<OrderAnswer>): boolean {
  return status === 202 || status === 409 || (status === 200 && body.state === 'confirmed');
}

async function insist<Body>(call: () => Promise<Answer<Body>>): Promise<Answer<Body>> {
  let answer: Answer<Body> | null = null;
  return await until(
    async () => {
      answer = await call().catch(() => null);
      return answer && answer.status < 500 && answer.status !== 429 && answer;
    },
    () => `an answer: ${answer?.body.code ?? 'nothing'}`,
    120_000,
  );
}

/** One mail an order that was sold, whatever was killed meanwhile; a second copy has the same Message-ID. */
async function mailsAreSent({ database, eventNo }: ServedEvent, sold: number): Promise<void> {
  const owed = `FROM mails JOIN orders o USING (order_id) WHERE o.event_no = ${eventNo} AND o.state = 'paid'`;
  await until(
    async () => {
      const [row] = await database.query(`SELECT count(*)::integer AS n ${owed} AND mails.state = 'due'`);
      return row.n === 0;
    },
    'all mails sent',
    600_000,
  );
  const [row] = await database.query(
    `SELECT count(*)::integer AS sent, count(DISTINCT mail_id)::integer AS mails, count(DISTINCT o.order_id)::integer AS orders
     ${owed} AND mails.state = 'sent' AND what = 'order.confirmed'`,
  );
  assert.deepEqual(row, { sent: sold, mails: sold, orders: sold });
}
