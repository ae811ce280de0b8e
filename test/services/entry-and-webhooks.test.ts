import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { signTicketCode, storedTicketKey } from '../../src/fulfilment/ticket-code.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import type { TestBuyer } from '../support/buyer.ts';
import { onsale } from '../support/onsale.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

let app: TestApp;
let organiser: TestBuyer;
let nextSeat = 0;

async function boughtCodes(
  count: number,
): Promise<{ order: string; tickets: { ticket: string; code: string }[] }> {
  const buyer = await app.admitted();
  const { order } = await buyer.mustBuy(Array.from({ length: count }, () => nextSeat++));
  const answer = await buyer.tickets(order);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return { order, tickets: answer.body.tickets };
}

const checkIn = async (body: object) => {
  const answer = await organiser.post('/api/organiser/checkin', body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};
async function found<T>(look: () => T | undefined): Promise<T> {
  await until(async () => look() !== undefined, 'what is looked for');
  return look()!;
}
const refund = async (order: string, tickets: string[]) => {
  const body = { tickets, reason: 'asked for it' };
  const answer = await organiser.post(`/api/organiser/orders/${order}/refunds`, body, {
    'idempotency-key': randomUUID(),
  });
  assert.ok(answer.status < 300, JSON.stringify(answer.body));
};

describe('at the door', () => {
  const scope = testScope();
  before(async () => {
    app = await startTestApp(scope, { env: { ONSALE_WEBHOOKS_PRIVATE: 'yes' } });
    organiser = app.buyer();
    const { email, password } = app.app.organiser;
    assert.equal((await organiser.post('/api/organiser/sessions', { email, password })).status, 200);
  });
  after(() => scope.close());

  test('the same code at twenty gates at once lets in exactly once; the others learn when and where', async () => {
    const { tickets } = await boughtCodes(2);
    const gates = Array.from({ length: 20 }, (_, i) => `Gate ${i}`);
    const answers = await Promise.all(
      gates.map((gate) => checkIn({ code: tickets[0]!.code, event: app.event, gate })),
    );
    const valid = answers.filter(({ result }) => result === 'valid');
    const used = answers.filter(({ result }) => result === 'used');
    assert.deepEqual([valid.length, used.length], [1, 19]);
    assert.ok(used.every(({ gate, at }) => gate === valid[0].gate && at === valid[0].at));
    assert.equal(valid[0].ticket, tickets[0]!.ticket);
    assert.ok(valid[0].seat.section && valid[0].seat.number);
    const { body } = await organiser.get(`/api/organiser/events/${app.event}/entries`);
    assert.equal(body.entered, 1);
    assert.equal(body.tickets, 2);
    assert.equal((await app.buyer().post('/api/organiser/checkin', { code: tickets[1]!.code })).status, 401);
  });

  test('a scan that is repeated after a lost answer has the first answer again; another scan has not', async () => {
    const { code } = (await boughtCodes(1)).tickets[0]!;
    const scan = randomUUID();
    const first = await checkIn({ code, gate: 'North', scan });
    const again = await checkIn({ code, gate: 'North', scan });
    assert.deepEqual(
      [first.result, first.repeated, again.result, again.repeated],
      ['valid', false, 'valid', true],
    );
    assert.equal(again.at, first.at);
    assert.equal((await checkIn({ code, gate: 'North', scan: randomUUID() })).result, 'used');
    assert.equal((await checkIn({ code, gate: 'North' })).result, 'used');
  });

  test('validity is judged before use: a ticket refunded after it was used is revoked; the order’s other one is not', async () => {
    const { order, tickets } = await boughtCodes(2);
    const [gone, kept] = tickets;
    assert.equal((await checkIn({ code: gone!.code })).result, 'valid');
    await refund(order, [gone!.ticket]);
    const answer = await checkIn({ code: gone!.code });
    assert.deepEqual([answer.result, answer.why], ['revoked', 'refunded']);
    assert.equal((await checkIn({ code: kept!.code })).result, 'valid');
  });

  test('codes that are forged, of another event, or of no ticket are not accepted', async () => {
    const { tickets } = await boughtCodes(1);
    const { code } = tickets[0]!;
    const altered = `${code.slice(0, 60)}${code[60] === 'A' ? 'B' : 'A'}${code.slice(61)}`;
    const foreign = signTicketCode(storedTicketKey(path.join(app.dataDir, 'elsewhere')), {
      ticket: tickets[0]!.ticket,
      event: app.eventNo,
      seat: 0,
    });
    for (const forged of [altered, foreign, 'HELLO', '']) {
      assert.equal((await checkIn({ code: forged })).result, 'forged', forged);
    }
    const key = storedTicketKey(app.dataDir);
    const nobody = signTicketCode(key, { ticket: randomUUID(), event: app.eventNo, seat: 0 });
    assert.deepEqual((({ result, why }) => [result, why])(await checkIn({ code: nobody })), [
      'revoked',
      'unknown',
    ]);
    const other = signTicketCode(key, { ticket: tickets[0]!.ticket, event: app.eventNo + 1, seat: 0 });
    assert.equal((await checkIn({ code: other, event: app.event })).result, 'other_event');
    assert.equal((await checkIn({ code: other })).result, 'revoked');
    assert.equal((await organiser.post('/api/organiser/checkin', { code, event: 'none' })).status, 404);
    assert.equal((await checkIn({ code, event: app.event })).result, 'valid');
  });

  test('a gate without a network: key and revoked tickets in one file, its age said, and verified offline', async () => {
    const { order, tickets } = await boughtCodes(2);
    await refund(order, [tickets[0]!.ticket]);
    const { body: list } = await organiser.get(`/api/organiser/events/${app.event}/gate-list`);
    assert.ok(list.revoked.includes(tickets[0]!.ticket) && !list.revoked.includes(tickets[1]!.ticket));
    const { body: key } = await organiser.get('/api/organiser/ticket-key');
    assert.equal(key.publicKey, list.publicKey);
    const file = path.join(app.dataDir, 'gate.json');
    const seen = { code: tickets[1]!.code, event: app.event };
    assert.equal((await checkIn(seen)).result, 'valid');
    const exported = await onsale(['ticket', 'export', app.event, '--out', file], app.env);
    assert.equal(exported.code, 0, exported.err);
    assert.deepEqual(JSON.parse(fs.readFileSync(file, 'utf8')).revoked, list.revoked);

    const offline = { ONSALE_DATA_DIR: path.join(app.dataDir, 'gate-machine') };
    const verify = (code: string) => onsale(['ticket', 'verify', code, '--revoked', file], offline);
    const [revoked, valid] = await Promise.all([verify(tickets[0]!.code), verify(tickets[1]!.code)]);
    assert.deepEqual([revoked.code, valid.code], [1, 0]);
    assert.match(revoked.err, /^Revoked: .* The list is 0 min old/);
    const { seat } = (await organiser.post('/api/organiser/checkin/undo', { ...seen, reason: 'looked' }))
      .body;
    const here = `${seat.section}, row ${seat.row}, seat ${seat.number}; ${list.eventName}.`;
    assert.ok(seat.section && seat.row && seat.number);
    assert.ok(valid.out.startsWith(`Valid: ${here}`), valid.out);
    assert.match(valid.out, /The list is 0 min old/);
    fs.writeFileSync(file, JSON.stringify({ ...list, places: undefined }));
    assert.match((await verify(tickets[1]!.code)).out, /^Valid: seat_no \d+; /, 'a list without places');
    fs.writeFileSync(file, JSON.stringify({ ...list, places: [{ section: 1 }] }));
    assert.match((await verify(tickets[1]!.code)).err, /no gate list/);
    fs.writeFileSync(file, JSON.stringify({ ...list, eventNo: app.eventNo + 1 }));
    const elsewhere = await verify(tickets[1]!.code);
    assert.equal(elsewhere.code, 1);
    assert.match(elsewhere.err, /another event/);
    const entered = await onsale(['ticket', 'checkin', tickets[1]!.code, '--gate', 'Desk'], app.env);
    assert.equal(entered.code, 0, entered.err);
    assert.equal(entered.out.trim(), `Let in: ${here}`);
    const twice = await onsale(['ticket', 'checkin', tickets[1]!.code], app.env);
    assert.equal(twice.code, 1);
    assert.match(twice.err, /^Used before: .* at Desk \(.*, row .*, seat .*\)\./);
  });

  test('a check-in is taken back, and the list of a gate that had no network is taken in, over HTTP and by the command line', async () => {
    const [one, two] = (await boughtCodes(2)).tickets;
    const { at } = await checkIn({ code: one!.code, gate: 'North' });
    const undo = (body: object) => organiser.post('/api/organiser/checkin/undo', body);
    assert.equal((await undo({ code: one!.code })).status, 400, 'without a reason');
    assert.equal((await undo({ ticket: one!.ticket, reason: 'wrong' })).status, 400, 'of which event');
    assert.equal((await app.buyer().post('/api/organiser/checkin/undo', {})).status, 401);
    const refused = async (body: object) => {
      const answer = await undo({ reason: 'wrong', ...body });
      assert.equal(answer.status, 404, JSON.stringify(answer.body));
      return [answer.body.code, answer.body.field];
    };
    assert.deepEqual(await refused({ code: two!.code }), ['not_entered', undefined]);
    assert.deepEqual(await refused({ code: 'HELLO' }), ['unknown_ticket', '/code']);
    const stranger = { event: app.eventNo, ticket: randomUUID(), seat: 0 };
    const key = storedTicketKey(app.dataDir);
    for (const none of [stranger, { ...stranger, event: app.eventNo + 1 }]) {
      const code = signTicketCode(key, none);
      assert.deepEqual(await refused({ code, event: app.event }), ['unknown_ticket', '/code']);
      assert.deepEqual(await refused({ code }), ['unknown_ticket', '/code']);
    }
    const named = { ticket: randomUUID(), event: app.event };
    assert.deepEqual(await refused(named), ['unknown_ticket', '/ticket']);
    const taken = await undo({ code: one!.code, at, reason: 'wrong' });
    assert.deepEqual(
      [taken.status, taken.body.at, taken.body.gate, taken.body.next],
      [200, at, 'North', null],
    );
    const repeat = { ticket: one!.ticket, event: app.event, at };
    assert.deepEqual(await refused(repeat), ['not_entered', undefined]);
    assert.equal((await checkIn({ code: one!.code, gate: 'Desk', scan: 'desk' })).result, 'valid');

    const early = new Date(Date.now() - 3_600_000).toISOString();
    const scans = [
      { code: one!.code, scan: 'tablet 1', gate: 'South', at: early },
      { code: two!.code, scan: 'tablet 2', gate: 'South', at: early },
      { code: 'HELLO', scan: 'tablet 3', at: early },
    ];
    const path = `/api/organiser/events/${app.event}/entries`;
    const uploaded = await organiser.post(path, { scans });
    assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body));
    const [first, second, third] = uploaded.body.scans;
    assert.deepEqual([first.result, second.result, third.result], ['entered', 'entered', 'forged']);
    assert.deepEqual([first.at, first.repeated, second.others], [early, false, []]);
    assert.deepEqual(
      first.others.map(({ gate, actor }: { gate: string; actor: string }) => [gate, actor]),
      [['Desk', app.app.organiser.email]],
    );
    assert.ok(first.seat.section && first.seat.number);
    const { body: counts } = await organiser.get(path);
    assert.equal(counts.doubles, 1);
    assert.deepEqual([counts.doubleUses[0].ticket, counts.doubleUses[0].uses.length], [one!.ticket, 2]);
    const leap = { scans: [{ ...scans[0], at: '2026-12-31T23:59:60Z' }] };
    assert.equal((await organiser.post(path, leap)).body.field, '/scans/0/at');
    const tooMany = Array.from({ length: 501 }, (_, i) => ({ ...scans[0], scan: String(i) }));
    assert.equal((await organiser.post(path, { scans: tooMany })).status, 400);
    const full = tooMany.slice(1).map((scan) => ({ ...scan, code: 'A'.repeat(149), scan: randomUUID() }));
    assert.equal((await organiser.post(path, { scans: full })).body.scans.length, 500);

    const file = `${app.dataDir}/scans.json`;
    fs.writeFileSync(file, JSON.stringify(scans.slice(0, 2)));
    const again = await onsale(['ticket', 'upload', app.event, file], app.env);
    assert.equal(again.code, 0, again.err);
    assert.match(again.out, /2 scans, 2 of them known before/);
    fs.writeFileSync(file, JSON.stringify([{ ...scans[1], scan: 'other' }]));
    const double = await onsale(['ticket', 'upload', app.event, file], app.env);
    assert.equal(double.code, 1);
    assert.match(double.out, /Used twice: .* at South .*, and .* at South/);
    const undone = await onsale(['ticket', 'undo', two!.code, '--reason', 'wrong'], app.env);
    assert.equal(undone.code, 0, undone.err);
    assert.match(undone.out, /The ticket's first use is that of .* at South\./);
    fs.writeFileSync(file, '{}');
    assert.match((await onsale(['ticket', 'upload', app.event, file], app.env)).err, /no JSON array/);
  });

  test('an organiser adds an endpoint, receives a purchase, looks at the log, rotates and removes; the command line does the same', async () => {
    const receiver = await startReceiver(scope);
    const visitor = app.buyer();
    assert.equal((await visitor.get('/api/organiser/webhooks')).status, 401);
    const bad = await organiser.post('/api/organiser/webhooks', { url: 'file:///etc/passwd' });
    assert.deepEqual([bad.status, bad.body.field], [400, '/url']);
    const made = await organiser.post('/api/organiser/webhooks', {
      url: `${receiver.url}/in`,
      event: app.event,
      happenings: ['order.confirmed'],
      note: 'the till',
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const { endpoint, secret } = made.body;
    const { order } = await boughtCodes(1);
    const told = await found(() => receiver.received.find(({ body }) => body.includes(order)));
    const log = (await organiser.get(`/api/organiser/webhooks/${endpoint}/deliveries`)).body.deliveries;
    assert.deepEqual(
      log.map(({ delivery }: { delivery: string }) => delivery),
      [told.delivery],
    );
    const { body: list } = await organiser.get('/api/organiser/webhooks');
    assert.equal(list.endpoints[0].note, 'the till');
    assert.ok(!JSON.stringify(list).includes(secret), 'a secret is shown once');
    // One that is still under way is not sent twice.
    await until(
      async () =>
        (await organiser.get(`/api/organiser/webhook-deliveries/${told.delivery}`)).body.state ===
        'delivered',
      'the delivery to be recorded',
    );
    const again = await organiser.post(`/api/organiser/webhook-deliveries/${told.delivery}/again`);
    assert.equal(again.status, 202);
    await found(() =>
      receiver.received.find(({ attempt, delivery }) => attempt === 2 && delivery === told.delivery),
    );
    const one = (await organiser.get(`/api/organiser/webhook-deliveries/${told.delivery}`)).body;
    assert.equal(one.log.length, 2);
    assert.ok(one.log[0].status === 200 && one.log[0].durationMs >= 0);

    const rotated = await organiser.post(`/api/organiser/webhooks/${endpoint}/secrets`, {});
    assert.equal(rotated.body.secrets.length, 2);
    assert.notEqual(rotated.body.secret, secret);
    const listed = await onsale(['webhooks', 'list', '--json'], app.env);
    assert.equal(JSON.parse(listed.out)[0].endpoint, endpoint, listed.err);
    const off = await onsale(['webhooks', 'disable', endpoint], app.env);
    assert.equal(off.code, 0, off.err);
    assert.equal((await organiser.get('/api/organiser/webhooks')).body.endpoints[0].state, 'disabled');
    const trial = await organiser.post(`/api/organiser/webhooks/${endpoint}/trial`);
    assert.deepEqual([trial.status, trial.body.code], [409, 'endpoint_disabled']);
    assert.equal((await organiser.request('DELETE', `/api/organiser/webhooks/${endpoint}`)).status, 200);
    const gone = [
      await organiser.request('DELETE', `/api/organiser/webhooks/${endpoint}`),
      await organiser.request('PATCH', `/api/organiser/webhooks/${endpoint}`, { body: { note: 'gone' } }),
      await organiser.post(`/api/organiser/webhooks/${endpoint}/trial`),
      await organiser.post(`/api/organiser/webhooks/${endpoint}/secrets`, {}),
      await organiser.get(`/api/organiser/webhooks/${endpoint}/deliveries`),
    ];
    for (const { status, body } of gone) assert.deepEqual([status, body.code], [404, 'unknown_endpoint']);
    const lost = [
      await organiser.get(`/api/organiser/webhook-deliveries/${randomUUID()}`),
      await organiser.post(`/api/organiser/webhook-deliveries/${randomUUID()}/again`),
    ];
    for (const { status, body } of lost) assert.deepEqual([status, body.code], [404, 'unknown_delivery']);
    const acts = await app.database.query(
      `SELECT action FROM audit_log WHERE action LIKE 'webhook%' ORDER BY entry`,
    );
    assert.deepEqual(
      acts.map(({ action }) => action),
      ['webhook_add', 'webhook_again', 'webhook_rotate', 'webhook_change', 'webhook_change'],
    );
  });
});
