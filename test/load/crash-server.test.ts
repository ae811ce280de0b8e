import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { type Buyer, createBuyer } from '../../tools/crowd/buyer.ts';
import { type Answer, createHttpClients } from '../../tools/crowd/http-client.ts';
import { closeUnpaid } from '../support/at-rest.ts';
import { type ServedEvent, servedEvent } from '../support/served.ts';
import { auditEvent } from '../support/stage.ts';
import { pause, until } from '../support/wait.ts';

/** A hundred purchases, ten under way at each of ten kills. */
const rounds = 10;
const purchasesPerRound = 10;
/** A purchase takes some hundred milliseconds: the kill falls anywhere in it. */
const killWithinMs = 700;

test('D4 S8 P1 P2 P3 P4: the server is killed -9 at random moments of 100 purchases; after each restart all is finished or undone', async (t) => {
  const served = await servedEvent(t, { seats: 300 });
  const { database, simulator, server, eventNo } = served;
  const clients = createHttpClients({ url: server.url, clock: systemClock, timeoutMs: 10_000 });
  t.after(async () => clients.close());

  await server.start();
  const ends: string[] = [];
  for (let round = 0; round < rounds; round++) {
    const killing = pause(systemRandom.int(killWithinMs), 'a random moment for the kill').then(() =>
      server.kill(),
    );
    const buying = Promise.all(
      Array.from({ length: purchasesPerRound }, () =>
        purchase(served, createBuyer(clients.browser(), served.event, systemRandom)),
      ),
    );
    // A start that fails is the error to see, not what it does to the buyers.
    buying.catch(() => {});
    await killing;
    await server.start();
    ends.push(...(await buying));
  }

  await closeUnpaid({ database, eventNo });
  const { paid } = await auditEvent(database, simulator, eventNo);
  t.diagnostic(JSON.stringify({ paid, ends: count(ends) }));
  assert.equal(ends.length, rounds * purchasesPerRound);
  assert.ok(paid >= ends.filter((end) => end === 'bought').length, 'whoever was told so has bought');
  assert.ok(paid > rounds, 'purchases survive kills');
});

/** Buys as a page does that loses its connection: each request is repeated, with its key, until it is answered. */
async function purchase(served: ServedEvent, buyer: Buyer): Promise<string> {
  await insist(() => buyer.client.request('POST', `/api/events/${served.event}/queue`, { body: {} }));
  const pass = served.passFor(buyer.client.cookies());
  const [holdKey, payKey] = [systemRandom.uuid(), systemRandom.uuid()];
  const held = await insist(() => buyer.holdBest(pass, { quantity: 1 }, { key: holdKey }));
  if (held.status !== 201 && held.status !== 200) return `hold ${held.body.code}`;
  const who = { name: 'Any Buyer', email: 'buyer@example.org' };
  const order = await insist(() => buyer.order(held.body.hold, who));
  if (order.status !== 201 && order.status !== 200) return `order ${order.body.code}`;
  const id = order.body.order;
  let paid = await insist(() => buyer.pay(id, 'pm_card_visa', payKey));
  const isUnpaid = () => paid.status === 200 && paid.body.state === 'reserved';
  for (let looks = 0; (paid.status !== 200 || isUnpaid()) && looks < 120; looks++) {
    await pause(250, 'a page paces its looks');
    // Nothing is under way: the payment never arrived, and is sent again.
    const again = isUnpaid();
    paid = await insist(() => (again ? buyer.pay(id, 'pm_card_visa') : buyer.refresh(id)));
  }
  if (paid.status !== 200 || isUnpaid()) return `payment ${paid.body.code ?? paid.status}`;
  if (paid.body.state === 'paid') {
    const { tickets } = (await insist(() => buyer.tickets(id))).body;
    assert.equal(tickets.length, 1, 'a paid order has its tickets');
  }
  return 'bought';
}

async function insist<Body>(call: () => Promise<Answer<Body>>): Promise<Answer<Body>> {
  let answer: Answer<Body> | null = null;
  return await until(
    async () => {
      answer = await call().catch(() => null);
      return answer && answer.status !== 503 && answer;
    },
    () => `an answer: ${answer?.body.code ?? 'no connection'}`,
  );
}

function count(ends: string[]): Record<string, number> {
  const counted: Record<string, number> = {};
  for (const end of ends) counted[end] = (counted[end] ?? 0) + 1;
  return counted;
}
