import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  readTicketPublicKey,
  ticketKeyFiles,
  ticketKeysOf,
  verifyTicketCode,
} from '../../src/fulfilment/ticket-code.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';

let app: TestApp;
/** Seats of their own for each test, away from the best ones. */
let nextSeat = 100;
const seats = (count: number): number[] => Array.from({ length: count }, () => nextSeat++);

describe('a purchase over HTTP', () => {
  const scope = testScope();
  before(async () => {
    app = await startTestApp(scope, { seats: 400 });
  });
  after(() => scope.close());

  test('from the line to tickets whose codes are verified offline', async () => {
    const buyer = app.buyer();
    const cookieless = await buyer.post('/api/events/show/queue');
    assert.equal(cookieless.status, 428);
    assert.equal(cookieless.body.code, 'cookie_required');
    await buyer.admit();
    const held = await buyer.best({ quantity: 2 });
    assert.equal(held.status, 201, JSON.stringify(held.body));
    assert.equal(held.body.seats.length, 2);
    const [a, b] = held.body.seats;
    assert.equal(held.body.total, a!.price + a!.fee + b!.price + b!.fee + held.body.orderFee);
    const ordered = await buyer.order(held.body.hold);
    assert.equal(ordered.status, 201, JSON.stringify(ordered.body));
    assert.equal(ordered.body.amount, held.body.total);
    assert.equal((await buyer.tickets(ordered.body.order)).status, 409, 'no codes before the capture');
    const paid = await buyer.pay(ordered.body.order);
    assert.equal(paid.status, 200, JSON.stringify(paid.body));
    assert.equal(paid.body.state, 'paid');
    const { status, body } = await buyer.tickets(ordered.body.order);
    assert.equal(status, 200);
    assert.deepEqual(
      body.tickets.map(({ seat }) => seat.seat).sort((x, y) => x - y),
      held.body.seats.map(({ seat }) => seat).sort((x, y) => x - y),
    );
    const key = readTicketPublicKey(ticketKeyFiles(path.resolve(app.dataDir)).publicKey);
    for (const { ticket, seat, code, qr } of body.tickets) {
      const wanted = { ticket, event: app.eventNo, seat: seat.seat };
      assert.deepEqual(verifyTicketCode(ticketKeysOf([key]), code), { kind: 'valid', code: wanted });
      assert.match(qr, /^<svg/);
    }
    const { intents } = await app.simulator.ledger();
    const intent = intents.find(({ reference }) => reference === ordered.body.order);
    assert.equal(intent?.captured, ordered.body.amount);
  });

  test('P1: a repeated order or payment is the same one', async () => {
    const buyer = await app.admitted();
    const hold = await buyer.mustHold(seats(2));
    const [first, second] = await Promise.all([buyer.order(hold.hold), buyer.order(hold.hold)]);
    assert.deepEqual([first.status, second.status].sort(), [200, 201]);
    assert.equal(first.body.order, second.body.order);
    const { order } = first.body;
    const pays = await Promise.all([1, 2, 3].map(() => buyer.pay(order, 'pm_card_visa', 'one-key')));
    for (const paid of pays) assert.ok([200, 202].includes(paid.status), JSON.stringify(paid.body));
    assert.equal((await buyer.pay(order, 'pm_card_visa', 'one-key')).status, 200);
    const other = await buyer.pay(order, 'pm_card_mastercard', 'one-key');
    assert.equal(other.status, 422);
    assert.equal(other.body.code, 'idempotency_mismatch');
    assert.equal((await buyer.order(hold.hold)).status, 200, 'the order outlives its hold');
  });

  test('a declined card leaves the order open for another one', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustOrder(seats(1));
    const declined = await buyer.pay(order, 'pm_card_chargeDeclinedInsufficientFunds');
    assert.equal(declined.status, 402);
    assert.equal(declined.body.code, 'declined');
    assert.equal(declined.body.decline, 'insufficient_funds');
    const seen = await buyer.get(`/api/orders/${order}`);
    assert.equal(seen.body.state, 'reserved');
    assert.equal(seen.body.payment.state, 'declined');
    assert.equal(seen.body.payment.decline, 'insufficient_funds');
    assert.equal((await buyer.pay(order)).status, 200);
  });

  test('authentication by the bank: 202 with its address, and refresh completes after the return', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustOrder(seats(1));
    const pending = await buyer.pay(order, 'pm_card_authenticationRequired');
    assert.equal(pending.status, 202, JSON.stringify(pending.body));
    assert.equal(pending.body.code, 'pending');
    const { url } = pending.body.action as { url: string };
    const reloaded = await buyer.get(`/api/orders/${order}`);
    assert.equal(reloaded.body.payment.state, 'waiting');
    assert.equal(reloaded.body.payment.action.url, url);
    const back = await app.simulator.answerBank(url, 'authorise');
    assert.ok(back.startsWith(`${app.url}/orders/${order}`), back);
    // The provider's own event may be at it just then.
    const refresh = () => buyer.post(`/api/orders/${order}/payment/refresh`);
    await until(async () => (await refresh()).status === 200, 'the completed payment');
    assert.equal((await refresh()).body.state, 'paid');
    assert.equal((await buyer.post(`/api/orders/${order}/payment/refresh`)).status, 200);
  });

  test('an order opens elsewhere with its secret, and only with it', async () => {
    const buyer = await app.admitted();
    const { order, secret } = await buyer.mustOrder(seats(1));
    const elsewhere = app.buyer();
    const bearing = (text: string) =>
      elsewhere.request('GET', `/api/orders/${order}`, { headers: { authorization: `Bearer ${text}` } });
    const seen = await bearing(secret!);
    assert.equal(seen.status, 200);
    assert.equal(seen.body.secret, undefined);
    for (const wrong of ['x', secret!.slice(0, -1), `${secret}A`, `${secret!.slice(0, -1)}-`]) {
      if (wrong !== secret) assert.equal((await bearing(wrong)).status, 404, wrong);
    }
  });

  test("somebody else's hold and order do not exist", async () => {
    const buyer = await app.admitted();
    const stranger = await app.admitted();
    const [held] = [await buyer.mustHold(seats(1))];
    for (const [method, place, body] of [
      ['GET', `/api/holds/${held.hold}`],
      ['DELETE', `/api/holds/${held.hold}`],
      ['POST', `/api/holds/${held.hold}/recover`, { receipt: held.receipt }],
      [
        'POST',
        `/api/holds/${held.hold}/order`,
        { buyer: { name: 'Another Buyer', email: 'another@example.org' } },
      ],
    ] as const) {
      for (const one of [stranger, app.buyer()]) {
        const answer = await one.request(method, place, { body });
        assert.deepEqual([answer.status, answer.body.code], [404, 'unknown_hold'], `${method} ${place}`);
      }
    }
    const { body: order } = await buyer.order(held.hold);
    for (const [method, place, body] of [
      ['GET', `/api/orders/${order.order}`],
      ['DELETE', `/api/orders/${order.order}`],
      ['GET', `/api/orders/${order.order}/tickets`],
      ['POST', `/api/orders/${order.order}/payment`, { paymentMethod: 'pm_card_visa' }],
      ['POST', `/api/orders/${order.order}/payment/refresh`],
    ] as const) {
      const answer = await stranger.request(method, place, { body, headers: { 'idempotency-key': 'k' } });
      assert.deepEqual([answer.status, answer.body.code], [404, 'unknown_order'], `${method} ${place}`);
    }
    assert.equal((await buyer.get(`/api/orders/${order.order}`)).body.state, 'reserved');
  });

  test('closing an unpaid order frees its seats for the next buyer', async () => {
    const buyer = await app.admitted();
    const wanted = seats(2);
    const { order } = await buyer.mustOrder(wanted);
    const closed = await buyer.request('DELETE', `/api/orders/${order}`);
    assert.equal(closed.status, 200);
    assert.equal(closed.body.state, 'closed');
    assert.equal((await buyer.pay(order)).body.code, 'order_ended');
    await (await app.admitted()).mustBuy(wanted);
  });

  test('a bought order is not closed, and its seats are taken', async () => {
    const buyer = await app.admitted();
    const wanted = seats(2);
    const { order } = await buyer.mustBuy(wanted);
    const refused = await buyer.request('DELETE', `/api/orders/${order}`);
    assert.deepEqual([refused.status, refused.body.code], [409, 'order_bought']);
    const late = await (await app.admitted()).hold(wanted);
    assert.deepEqual([late.status, late.body.code, late.body.seats], [409, 'taken', wanted]);
  });
});
