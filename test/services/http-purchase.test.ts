import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  readTicketPublicKey,
  ticketKeyFiles,
  ticketKeysOf,
  verifyTicketCode,
} from '../../src/fulfilment/ticket-code.ts';
import { setPhase } from '../support/acts.ts';
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
    await until(async () => (await refresh()).body.state === 'paid', 'the completed payment');
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

  test("another visitor's hold and order do not exist", async () => {
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

  test('cancelled while the release of the money fails: 202, it is over and says what happens next; 410 to a further payment', async () => {
    const buyer = await app.admitted();
    const [seat] = seats(1);
    const { order } = await buyer.mustOrder([seat!]);
    assert.equal((await buyer.pay(order, 'pm_card_authenticationRequired')).status, 202);
    const fault = await app.simulator.fault('error_500_before', {
      match: { route: 'cancel', reference: order },
    });
    for (let i = 0; i < 2; i++) {
      const cancelled = await buyer.request('DELETE', `/api/orders/${order}`);
      assert.equal(cancelled.status, 202, JSON.stringify(cancelled.body));
      assert.deepEqual([cancelled.body.state, cancelled.body.reason], ['voiding', 'closed_by_buyer']);
    }
    const paid = await buyer.pay(order);
    assert.deepEqual([paid.status, paid.body.code], [410, 'order_ended']);
    assert.match(paid.body.detail, /You cancelled this order.*Nothing will be charged/);
    assert.equal((await (await app.admitted()).mustHold([seat!])).seats.length, 1);
    await app.simulator.endFault(fault);
    const state = async () => (await buyer.get(`/api/orders/${order}`)).body.state;
    // P4: each failed attempt doubles the gap, up to 45 s, and a slow machine has made more of them by now.
    await until(async () => (await state()) === 'closed', 'the released reservation', 90_000);
    assert.equal((await buyer.request('DELETE', `/api/orders/${order}`)).status, 200);
  });

  test('a payment that cannot be opened: 503 that says that no card was tried, and the same request pays later', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustOrder(seats(1));
    const fault = await app.simulator.fault('unavailable', { match: { route: 'create', reference: order } });
    const answer = await buyer.pay(order, 'pm_card_visa', 'the-key');
    assert.deepEqual([answer.status, answer.body.code], [503, 'payment_unavailable']);
    assert.match(answer.body.detail, /No card was tried and nothing was charged/);
    assert.ok((answer.body.retryAfterMs ?? 0) > 0);
    const seen = await buyer.get(`/api/orders/${order}`);
    assert.deepEqual([seen.body.state, seen.body.payment.state], ['reserved', 'none']);
    await app.simulator.endFault(fault);
    const paid = async () => (await buyer.pay(order, 'pm_card_visa', 'the-key')).status;
    await until(async () => (await paid()) === 200, 'the payment, once it can be opened');
  });

  test('P1: a key that led to an order holds nothing ever again, also when its hold was forgotten, alone or in a batch', async () => {
    const buyer = await app.admitted();
    const [mine, next] = seats(2);
    const held = await buyer.hold([mine!], { key: 'used-once' });
    const { order } = (await buyer.order(held.body.hold)).body;
    assert.equal((await buyer.pay(order)).status, 200);
    const rows = await app.database.query('SELECT state FROM holds WHERE hold_id = $1', [held.body.hold]);
    assert.deepEqual(rows, [{ state: 'ended' }], 'kept for good');
    await app.database.query('DELETE FROM holds WHERE hold_id = $1', [held.body.hold]);
    const again = await Promise.all([
      buyer.hold([next!], { key: 'used-once' }),
      (await app.admitted()).hold(seats(1)),
      (await app.admitted()).hold(seats(1)),
    ]);
    assert.deepEqual(
      again.map(({ status }) => status),
      [410, 201, 201],
    );
    assert.deepEqual([again[0].body.code, again[0].body.order], ['hold_gone', order]);
    assert.match(again[0].body.detail, /Use a new key/);
    assert.equal((await buyer.hold([next!], { key: 'another' })).status, 201);
  });

  test('a ticket of a cancelled event is valid nowhere, also before its order is refunded', async () => {
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy(seats(1));
    const { email, password } = app.app.organiser;
    const { token } = (await app.buyer().post('/api/organiser/sessions', { email, password })).body;
    const headers = { authorization: `Bearer ${token}` };
    const seen = () => app.buyer().request('GET', `/api/organiser/orders/${order}`, { headers });
    assert.deepEqual((await seen()).body.tickets[0].valid, true);
    await setPhase(app.database, app.eventNo, 'cancelled');
    await until(async () => (await seen()).body.tickets[0].valid === false, 'the cancelled event');
    assert.deepEqual((await seen()).body.tickets[0].refundable, true);
    const mine = await buyer.get(`/api/orders/${order}`);
    assert.deepEqual([mine.body.state, mine.body.eventCancelled], ['paid', true]);
    const tickets = await buyer.tickets(order);
    assert.deepEqual([tickets.status, tickets.body.code], [410, 'event_cancelled']);
    assert.equal((await buyer.request('GET', `/api/orders/${order}/tickets.pdf`)).status, 409);
    await app.database.query(`UPDATE events SET phase = 'open' WHERE event_no = $1`, [app.eventNo]);
    await until(async () => (await seen()).body.tickets[0].valid === true, 'the event to be on again');
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
