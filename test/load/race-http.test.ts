import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { type Random, seededRandom, systemRandom } from '../../src/runtime/random.ts';
import { type Buyer, createBuyer } from '../../tools/crowd/buyer.ts';
import { createHttpClients } from '../../tools/crowd/http-client.ts';
import { closeUnpaid } from '../support/at-rest.ts';
import { type ServedEvent, servedEvent } from '../support/served.ts';
import { auditEvent } from '../support/stage.ts';
import { pause } from '../support/wait.ts';

const buyersCount = 300;
const hotCount = 40;
/** Shorter than any event may set: so that holds lapse in the middle of the storm. */
const holdTtlMs = 2_500;

test('S1 S2 S3 S4 S5 S7 S8 P1 P2 P3: 300 buyers with passes storm the same 40 seats over HTTP', async (t) => {
  const app = await servedEvent(t, { seats: 400, settings: { holdTtlMs, holdSeatsMax: 6 } });
  await app.server.start();
  const hot = await keepOnly(app, hotCount);
  const answers = new Map<number, number>();
  const clients = createHttpClients({
    url: app.server.url,
    clock: systemClock,
    connectionsMax: 120,
    onAnswer: (_method, _route, { status }) => answers.set(status, (answers.get(status) ?? 0) + 1),
  });
  t.after(async () => clients.close());
  const seed = systemRandom.int(2 ** 31);
  t.diagnostic(`seed ${seed}`);
  const random = seededRandom(seed);

  const ends = await Promise.all(
    Array.from({ length: buyersCount }, () =>
      storm(app, createBuyer(clients.browser(), app.event, systemRandom), hot, random),
    ),
  );

  const serverErrors = [...answers].filter(([status]) => status >= 500);
  assert.deepEqual(serverErrors, [], 'no 5xx');
  await closeUnpaid(app);
  const { paid } = await auditEvent(app.database, app.simulator, app.eventNo);
  assert.ok(paid > 0, 'somebody bought');
  assert.equal(
    ends.filter((end) => end === 'bought').length,
    paid,
    'whoever was told so has bought, and nobody else',
  );
  const [owners] = await app.database.query(
    `SELECT count(*)::int AS n, count(DISTINCT seat_no)::int AS seats FROM tickets
     WHERE event_no = $1 AND status IN ('reserved','sold')`,
    [app.eventNo],
  );
  assert.equal(owners.n, owners.seats, 'no seat has two owners');
  assert.ok(owners.seats <= hotCount);
  const [deadlocks] = await app.database.query(
    'SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()',
  );
  assert.equal(deadlocks.n, 0, 'no deadlock');
});

/** Blocks all but `count` ordinary seats of one section, so that best available looks there too. */
async function keepOnly(app: ServedEvent, count: number): Promise<number[]> {
  const rows = await app.database.query(
    `SELECT seat_no FROM event_seats WHERE event_no = $1 AND row_label <> '' AND section_id = (
       SELECT section_id FROM event_seats WHERE event_no = $1 AND row_label <> ''
       GROUP BY section_id ORDER BY count(*) DESC, section_id LIMIT 1)
     ORDER BY seat_no LIMIT $2`,
    [app.eventNo, count],
  );
  const hot = rows.map((row) => row.seat_no as number);
  assert.equal(hot.length, count, 'the venue has such a section');
  await app.database.query(
    `SELECT count(*) FROM seats_block($1, 'test', 'not part of the storm',
       ARRAY(SELECT seat_no FROM seats WHERE event_no = $1 AND NOT seat_no = ANY ($2)))`,
    [app.eventNo, hot],
  );
  return hot;
}

/** One buyer: tries single and overlapping sets and best available; lets some holds lapse; some cards decline. */
async function storm(app: ServedEvent, buyer: Buyer, hot: number[], random: Random): Promise<string> {
  await buyer.client.request('POST', `/api/events/${app.event}/queue`, { body: {} });
  const pass = app.passFor(buyer.client.cookies());
  for (let attempt = 0; attempt < 8; attempt++) {
    const kind = random.int(10);
    const first = random.int(hot.length);
    const size = kind < 3 ? 1 : 2 + random.int(5);
    const wanted = hot.slice(first, first + size);
    const held =
      kind >= 8
        ? await buyer.holdBest(pass, { quantity: 1 + random.int(4) })
        : await buyer.holdSeats(pass, wanted);
    if (held.status === 409) {
      assert.ok(['taken', 'hold_exists', 'sold_as_unit'].includes(held.body.code ?? ''), held.body.code);
      await pause(random.int(400), 'buyers try again after random times');
      continue;
    }
    if (held.status === 410) return 'sold_out';
    assert.ok(
      held.status === 201 || held.status === 200,
      `${held.status} ${held.body.code} ${held.body.detail}`,
    );
    const fate = random.int(10);
    if (fate < 2) {
      await pause(holdTtlMs + 100, 'the hold’s own time has to pass');
      const late = await buyer.order(held.body.hold);
      assert.equal(late.body.code, 'hold_gone', 'a lapsed hold never becomes an order');
      continue;
    }
    if (fate < 3) {
      await buyer.release(held.body.hold);
      continue;
    }
    const order = await buyer.order(held.body.hold);
    if (order.body.code === 'hold_gone') continue;
    assert.equal(order.status, 201, `${order.status} ${order.body.code}`);
    return payOrLeave(buyer, order.body.order, fate, random);
  }
  return 'gave_up';
}

async function payOrLeave(buyer: Buyer, order: string, fate: number, random: Random): Promise<string> {
  if (fate === 3) return 'left';
  if (fate === 4) {
    const declined = await buyer.pay(order, 'pm_card_chargeDeclined');
    assert.equal(declined.status, 402);
    if (random.int(2) === 0) return 'declined';
  }
  // Every third buyer double clicks: two requests, two keys, one purchase (P1).
  const doubled = random.int(3) === 0 ? buyer.pay(order, 'pm_card_visa') : null;
  const paid = await buyer.pay(order, 'pm_card_visa');
  await doubled;
  let settled = paid;
  for (let looks = 0; settled.status !== 200 && looks < 40; looks++) {
    await pause(250, 'a page paces its looks');
    settled = await buyer.refresh(order);
  }
  assert.equal(settled.status, 200, `${settled.status} ${settled.body.code}`);
  return 'bought';
}
