import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import Stripe from 'stripe';
import { createWebhookDeliverer, type WebhookTimes } from '../../src/fulfilment/webhook-deliverer.ts';
import {
  addSecret,
  changeEndpoint,
  deliverAgain,
  findDelivery,
  findEndpoint,
  happenings,
  listDeliveries,
  listEndpoints,
  makeEndpoint,
  oweTrial,
  takeDeliveries,
  type WebhookHappening,
} from '../../src/fulfilment/webhook-endpoints.ts';
import { createWebhookSender } from '../../src/fulfilment/webhook-sender.ts';
import { createSalesRecord } from '../../src/orders/orders-record.ts';
import { createRefundRecord } from '../../src/orders/refunds.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { setPhase } from '../support/acts.ts';
import { until } from '../support/app.ts';
import { testLoops } from '../support/loops.ts';
import { paidOrder } from '../support/paid-order.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { programArguments } from '../support/program.ts';
import { stageEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

type Context = { after(run: () => Promise<void>): void };

let database: TestDatabase;
let db: Db;
before(async () => {
  database = await testDatabase();
  db = createDb({ url: database.url, poolSize: 8, clock: systemClock, log: silentLogger });
});
after(async () => {
  await db?.close();
});

async function endpointAt(
  t: Context,
  url: string,
  wish: { event?: number; happenings?: readonly WebhookHappening[] } = {},
): Promise<{ id: string; secret: string }> {
  const secret = `whsec_${randomUUID()}`;
  const made = await makeEndpoint(db, {
    endpoint: randomUUID(),
    event: wish.event ?? null,
    url,
    happenings: wish.happenings ?? happenings,
    note: null,
    secret,
    actor: 'organiser',
  });
  assert.ok(made.kind === 'made');
  const id = made.endpoint.endpoint;
  t.after(async () => void (await changeEndpoint(db, id, { state: 'removed' }, 'test')));
  return { id, secret };
}

async function trials(endpoint: string, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID());
  for (const id of ids) assert.ok(await oweTrial(db, endpoint, id, 'organiser'));
  return ids;
}

function deliver(t: Context, options: { times?: Partial<WebhookTimes>; timeoutMs?: number } = {}) {
  const { times, timeoutMs } = options;
  const deliverer = createWebhookDeliverer({
    db,
    send: createWebhookSender({ privateAllowed: true, clock: systemClock, timeoutMs }),
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    times: { gapMs: 100, gapMaxMs: 400, restMs: 100, restMaxMs: 400, ...times },
  });
  t.after(() => deliverer.stop());
  deliverer.start(testLoops());
  return deliverer;
}

const stateOf = async (delivery: string) => (await findDelivery(db, delivery))?.state;
const settled = (ids: string[], state: string) =>
  until(async () => {
    for (const id of ids) if ((await stateOf(id)) !== state) return false;
    return true;
  }, `${ids.length} deliveries that are ${state}`);

test('what happens to an order is owed in its own transaction, to those who asked, without the buyer’s name or address', async (t) => {
  const stage = await stageEvent(database);
  const other = await stageEvent(database);
  const all = await endpointAt(t, 'https://example.org/all');
  const some = await endpointAt(t, 'https://example.org/some', {
    event: stage.event,
    happenings: ['refund.created'],
  });
  const elsewhere = await endpointAt(t, 'https://example.org/else', { event: other.event });
  const record = createSalesRecord({ db });
  const order = await paidOrder(record, stage, { seats: [3, 4], visitor: 'wanda' });
  const operation = randomUUID();
  await createRefundRecord({ db }).make(
    {
      tickets: 'all',
      fees: 'returned',
      goodwill: 0,
      refund: randomUUID(),
      order: order.order,
      operation,
      key: operation,
      requestKey: operation,
      request: 'r',
      actor: 'boss@example.org',
      reason: 'asked for it',
      seats: 'release',
      step: 1,
    },
    { owner: 'me', leaseMs: 30_000 },
  );
  const owed = async (endpoint: string) =>
    (await listDeliveries(db, endpoint, { limit: 50 })).map(({ what }) => what).reverse();
  assert.deepEqual(await owed(all.id), ['order.confirmed', 'order.cancelled', 'refund.created']);
  assert.deepEqual(await owed(some.id), ['refund.created']);
  assert.deepEqual(await owed(elsewhere.id), []);
  const [created, , confirmed] = await listDeliveries(db, all.id, { limit: 50 });
  const body = JSON.parse((await findDelivery(db, confirmed!.delivery))!.body);
  assert.equal(body.id, confirmed!.delivery);
  assert.equal(body.type, 'order.confirmed');
  assert.deepEqual(
    [
      body.order.order,
      body.order.state,
      body.order.amount,
      body.order.seats.map((one: { seat: number }) => one.seat),
    ],
    [order.order, 'paid', order.amount, [3, 4]],
  );
  assert.ok(body.order.seats.every((one: { valid: boolean; ticket: string }) => one.valid && one.ticket));
  const refund = JSON.parse((await findDelivery(db, created!.delivery))!.body);
  assert.equal(refund.refund.amount, order.amount);
  assert.equal(
    refund.order.seats.some((one: { valid: boolean }) => one.valid),
    false,
  );
  assert.ok(!/wanda|boss|@/.test(JSON.stringify([body, refund])), 'nobody is named');

  // An event that is undone with its transaction is owed to no endpoint.
  const client = await database.pool(1).connect();
  await client.query('BEGIN');
  await setPhase(client, stage.event, 'sold_out');
  await client.query('ROLLBACK');
  client.release();
  for (const phase of ['sold_out', 'open', 'open', 'cancelled'] as const) {
    await setPhase(database, stage.event, phase);
  }
  assert.deepEqual((await owed(all.id)).slice(3), ['event.sold_out', 'event.opened', 'event.cancelled']);
});

test('an address is kept as it is called, and the action log names the host that it leads to', async (t) => {
  const { id } = await endpointAt(t, ' HTTPS://Example.ORG\\@127.0.0.1/In ');
  const hostIn = async (action: string): Promise<string> =>
    (
      await database.query(
        `SELECT detail ->> 'host' AS host FROM audit_log WHERE action = $1 AND detail ->> 'endpoint' = $2`,
        [action, id],
      )
    )[0].host;
  assert.equal((await findEndpoint(db, id))?.url, 'https://example.org/@127.0.0.1/In');
  assert.equal(await hostIn('webhook_add'), 'example.org');
  await changeEndpoint(db, id, { url: 'https:①.example.com' }, 'organiser');
  assert.equal((await findEndpoint(db, id))?.url, 'https://1.example.com/');
  assert.equal(await hostIn('webhook_change'), '1.example.com');
});

test('each delivery is signed with every secret that counts, and a rotated one counts until its time is over', async (t) => {
  const receiver = await startReceiver(t);
  const { id, secret } = await endpointAt(t, receiver.url);
  const fresh = `whsec_${randomUUID()}`;
  assert.equal(
    (await addSecret(db, { endpoint: id, secret: fresh, keepMs: 60_000, actor: 'o' })).kind,
    'changed',
  );
  deliver(t);
  await settled(await trials(id, 1), 'delivered');
  const stripe = new Stripe('sk_test_none');
  const [first] = receiver.received;
  for (const one of [secret, fresh]) {
    assert.equal(stripe.webhooks.constructEvent(first!.body, first!.signature, one).id, first!.delivery);
  }
  const last = `whsec_${randomUUID()}`;
  assert.equal((await addSecret(db, { endpoint: id, secret: last, keepMs: 0, actor: 'o' })).kind, 'changed');
  await settled(await trials(id, 1), 'delivered');
  const second = receiver.received[1]!;
  assert.equal(stripe.webhooks.constructEvent(second.body, second.signature, last).id, second.delivery);
  assert.equal(second.signature.match(/v1=/g)?.length, 1);
});

test('D4: killed between delivering and recording it, a repeat carries the same id and the same bytes', async (t) => {
  const receiver = await startReceiver(t);
  const { id } = await endpointAt(t, receiver.url);
  const worker = spawn(
    process.execPath,
    [
      ...programArguments('test/support/webhook-worker.ts'),
      JSON.stringify({ url: database.url, leaseMs: 1_500 }),
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  t.after(async () => {
    if (worker.exitCode !== null || worker.signalCode !== null) return;
    worker.kill('SIGKILL');
    await once(worker, 'exit');
  });
  // The receiver has it; the sender dies before it learns that.
  receiver.answer = (response) => {
    worker.kill('SIGKILL');
    worker.once('exit', () => response.writeHead(200).end());
  };
  const [trial] = await trials(id, 1);
  await until(async () => worker.signalCode === 'SIGKILL', 'the kill', 60_000);
  assert.equal(await stateOf(trial!), 'due');
  receiver.answer = (response) => response.writeHead(204).end();
  deliver(t);
  await settled([trial!], 'delivered');
  const [first, second, ...more] = receiver.received;
  assert.deepEqual(more, []);
  assert.deepEqual([first?.delivery, second?.delivery], [trial, trial]);
  assert.equal(first?.body, second?.body);
  const log = (await findDelivery(db, trial!))!.log;
  assert.deepEqual(
    log.map(({ attempt, status }) => [attempt, status]),
    [
      [1, null],
      [2, 204],
    ],
  );
});

test('a receiver that never responds delays no other one, and is called by few at once', async (t) => {
  const slow = await startReceiver(t);
  const waiting: ServerResponse[] = [];
  slow.answer = (response) => void waiting.push(response);
  const quick = await startReceiver(t);
  const [toSlow, toQuick] = [await endpointAt(t, slow.url), await endpointAt(t, quick.url)];
  await trials(toSlow.id, 40);
  deliver(t, { timeoutMs: 60_000 });
  await until(async () => slow.open === 4, 'the slow one to be asked');
  await settled(await trials(toQuick.id, 40), 'delivered');
  assert.equal(quick.received.length, 40);
  assert.equal(slow.received.length, 4, 'meanwhile none of the first four has ended');

  slow.answer = (response) => void response.destroy();
  for (const response of waiting) response.destroy();
  await until(async () => {
    const [row] = await database.query(
      `SELECT count(*)::integer AS claimed FROM webhook_deliveries WHERE endpoint_id = $1 AND claimed_until > now()`,
      [toSlow.id],
    );
    return row.claimed === 0 && (await findEndpoint(db, toSlow.id))!.failures >= 3;
  }, 'a rest after failures in a row');
  slow.openMost = 0;
  const before = slow.received.length;
  await until(async () => slow.received.length >= before + 3, 'further tries');
  assert.equal(slow.openMost, 1, 'a failing one is asked with one delivery at a time');
});

test('a receiver that fails is tried again with growing gaps under the same id, then disabled with a note; enabled, it gets all it is owed', async (t) => {
  const receiver = await startReceiver(t);
  const { id } = await endpointAt(t, receiver.url);
  let status = 500;
  receiver.answer = (response) => {
    if (status === 0) response.destroy();
    else response.writeHead(status).end('a secret of the receiver');
  };
  deliver(t, { times: { giveUpMs: 1_500 } });
  const [first] = await trials(id, 1);
  await until(async () => receiver.received.length >= 2, 'a second attempt');
  status = 0;
  await until(async () => (await findEndpoint(db, id))!.state === 'disabled', 'the end of patience');
  assert.deepEqual([...new Set(receiver.received.map(({ delivery }) => delivery))], [first]);
  assert.deepEqual(
    receiver.received.map(({ attempt }) => attempt),
    receiver.received.map((_, i) => i + 1),
  );
  const listed = (await listEndpoints(db)).find(({ endpoint }) => endpoint === id)!;
  assert.match(
    listed.disabledWhy!,
    /^Nothing was taken since .+; the last attempt: (Answered 500|The connection was cut)/,
  );
  const found = (await findDelivery(db, first!))!;
  assert.equal(found.log[0]?.error, 'Answered 500.');
  assert.ok(!JSON.stringify([listed, found]).includes('a secret of the receiver'));
  const [audited] = await database.query(
    `SELECT actor, detail ->> 'endpoint' AS endpoint FROM audit_log WHERE action = 'webhook_disabled'`,
  );
  assert.deepEqual(audited, { actor: 'worker', endpoint: id });

  const count = receiver.received.length;
  assert.equal(await oweTrial(db, id, randomUUID(), 'organiser'), false, 'no trial of a disabled one');
  await database.query('SELECT webhook_owe(event_no, $1, NULL, $2) FROM events LIMIT 1', [
    'event.opened',
    '{}',
  ]);
  status = 200;
  assert.equal(await deliverAgain(db, first!, 'organiser'), 'disabled');
  const waiting = (await listDeliveries(db, id, { state: 'due', limit: 10 })).map(({ delivery }) => delivery);
  assert.equal(waiting.length, 2);
  assert.equal(receiver.received.length, count, 'nothing is sent to a disabled one');
  await changeEndpoint(db, id, { state: 'active' }, 'organiser');
  await settled(waiting, 'delivered');
  assert.equal((await findEndpoint(db, id))!.failures, 0);

  status = 410;
  await trials(id, 1);
  await until(async () => (await findEndpoint(db, id))!.state === 'disabled', '410 to be understood');
  assert.match((await findEndpoint(db, id))!.disabledWhy!, /410/);
});

test('redelivery by hand comes under the same id, also of what was delivered', async (t) => {
  const receiver = await startReceiver(t);
  const { id } = await endpointAt(t, receiver.url);
  deliver(t);
  const [trial] = await trials(id, 1);
  await settled([trial!], 'delivered');
  assert.equal(await deliverAgain(db, trial!, 'organiser'), 'owed');
  await until(async () => receiver.received.length === 2, 'the repeat');
  await settled([trial!], 'delivered');
  assert.deepEqual(
    receiver.received.map(({ delivery, attempt }) => [delivery, attempt]),
    [
      [trial, 1],
      [trial, 2],
    ],
  );
  assert.equal(await deliverAgain(db, randomUUID(), 'organiser'), 'unknown');
});

test('redirects are not followed, endless answers are cut, and nothing of them is kept', async (t) => {
  const target = await startReceiver(t);
  const receiver = await startReceiver(t);
  const send = createWebhookSender({ privateAllowed: true, clock: systemClock, timeoutMs: 60_000 });
  const one = {
    delivery: randomUUID(),
    endpoint: '',
    url: receiver.url,
    body: '{}',
    attempt: 1,
    secrets: ['x'],
  };
  const attempt = () => send(one);
  receiver.answer = (response) => response.writeHead(307, { location: target.url }).end();
  assert.deepEqual(
    { ...(await attempt()), durationMs: 0 },
    {
      status: 307,
      error: 'Answered 307: redirects are not followed.',
      durationMs: 0,
    },
  );
  assert.equal(target.received.length, 0);

  let written = 0;
  receiver.answer = (response) => {
    response.writeHead(200);
    const more = (): void => {
      while (!response.destroyed && response.write('x'.repeat(16_384))) written += 16_384;
      if (!response.destroyed) response.once('drain', more);
    };
    more();
  };
  const endless = await attempt();
  assert.deepEqual([endless.status, endless.error], [200, null]);
  assert.ok(written < 50_000_000, `cut at the bound, not at the time limit: ${written} bytes`);

  receiver.answer = (response) => response.writeHead(200, { long: 'x'.repeat(40_000) }).end();
  assert.equal((await attempt()).error, 'The answer’s head is too large.');
  receiver.answer = (response) => response.destroy();
  assert.equal((await attempt()).error, 'The connection was cut before an answer.');
  receiver.answer = () => {};
  const hasty = createWebhookSender({ privateAllowed: true, clock: systemClock, timeoutMs: 300 });
  const late = await hasty(one);
  assert.deepEqual([late.status, late.error], [null, 'No answer within 0.3 s.']);
  await until(async () => receiver.open === 0, 'the end of the one that came too late');
  const stopped = new AbortController();
  const cut = send(one, stopped.signal);
  await until(async () => receiver.open === 1, 'the request');
  stopped.abort();
  assert.equal((await cut).error, 'We stopped before an answer came.');
});

test('every attempt comes to an end within its time, whatever the receiver says; one whose head says that it was taken was taken', {
  timeout: 90_000,
}, async (t) => {
  const timeoutMs = 400;
  const send = createWebhookSender({ privateAllowed: true, clock: systemClock, timeoutMs });
  const against = async (...texts: string[]) => {
    const server = net.createServer((socket) => {
      socket.on('error', () => {});
      const reply = async (): Promise<void> => {
        for (const text of texts) {
          socket.write(text);
          await pause(10, 'the answer comes in several packets');
        }
      };
      socket.once('data', () => void reply());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    t.after(async () => void server.close());
    const url = `http://127.0.0.1:${port}/`;
    const delivery = { delivery: randomUUID(), endpoint: '', url, body: '{}', attempt: 1, secrets: ['x'] };
    const { status, error } = await send(delivery);
    return [status, error];
  };
  const upgrade = 'connection: upgrade\r\nupgrade: websocket\r\n\r\n';
  const taken = [200, null];
  const notInTime = [null, 'No answer within 0.4 s.'];
  assert.deepEqual(await against(`HTTP/1.1 101 Switching Protocols\r\n${upgrade}`), [101, 'Answered 101.']);
  assert.deepEqual(await against(`HTTP/1.1 200 OK\r\n${upgrade}`), taken);
  assert.deepEqual(
    await against('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n', 'a'),
    taken,
    'a body without an end',
  );
  assert.deepEqual(
    await against('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n', 'zz\r\n'),
    taken,
    'a broken one',
  );
  assert.deepEqual(await against('HTTP/1.1 204 No Content\r\n\r\nmore than it said'), [204, null]);
  assert.deepEqual(await against('HTTP/1.1 500 Oh\r\ncontent-length: 9\r\n\r\n', 'a'), [
    500,
    'Answered 500.',
  ]);
  assert.deepEqual(
    await against('HTTP/1.1 200 OK\r\nslowly: ', ...'abcdefghij'),
    notInTime,
    'a head without an end',
  );
  assert.deepEqual(await against(...Array<string>(99).fill('HTTP/1.1 103 Early Hints\r\n\r\n')), notInTime);
});

test('a name is asked once and the connection goes to the address that was looked at (DNS rebinding)', async (t) => {
  const meant = await startReceiver(t, { host: '127.0.0.1' });
  const { port } = new URL(meant.url);
  const rebound = await startReceiver(t, { host: '127.0.0.2', port: Number(port) });
  let asked = 0;
  const resolve = async (): Promise<string[]> => {
    asked += 1;
    return asked === 1 ? ['127.0.0.1'] : ['127.0.0.2'];
  };
  const clock = systemClock;
  const delivery = { delivery: randomUUID(), endpoint: '', body: '{}', attempt: 1, secrets: ['whsec_x'] };
  const send = createWebhookSender({ privateAllowed: true, clock, resolve });
  const sent = await send({ ...delivery, url: `http://rebinding.example:${port}/in` });
  assert.equal(sent.error, null);
  assert.deepEqual([asked, meant.received.length, rebound.received.length], [1, 1, 0]);

  const strict = createWebhookSender({
    privateAllowed: false,
    clock,
    resolve: async () => ['1.1.1.1', '127.0.0.1'],
  });
  for (const url of [
    `https://rebinding.example:${port}/`,
    `https://127.0.0.1:${port}/`,
    `https://[::ffff:7f00:1]:${port}/`,
  ]) {
    const refused = await strict({ ...delivery, url });
    assert.match(refused.error!, /not on the public internet/, url);
    assert.ok(!/127|1\.1\.1\.1/.test(refused.error!), 'tells nothing of what the name leads to');
  }
  assert.equal(meant.received.length, 1);

  const waiting = createWebhookSender({
    privateAllowed: true,
    clock,
    timeoutMs: 300,
    resolve: () => new Promise(() => {}),
  });
  assert.equal(
    (await waiting({ ...delivery, url: 'http://slow-names.example/' })).error,
    'No answer within 0.3 s.',
  );
});

test('workers that ask at once take each delivery once, and no more than an endpoint’s share', async (t) => {
  const { id } = await endpointAt(t, 'https://example.org/');
  const ids = await trials(id, 30);
  const bounds = { perEndpoint: 10, failuresMax: 3, leaseMs: 60_000 };
  const taken = (await Promise.all(Array.from({ length: 8 }, () => takeDeliveries(db, bounds)))).flat();
  assert.equal(taken.length, 10);
  assert.equal(new Set(taken.map(({ delivery }) => delivery)).size, 10);
  assert.ok(taken.every(({ delivery }) => ids.includes(delivery)));
});
