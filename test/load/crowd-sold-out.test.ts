import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newEventLimits } from '../../src/core/limits.ts';
import type { Layout } from '../../src/core/seat-map.ts';
import type { StatusObject } from '../../src/http/api-types.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { runCrowd } from '../../tools/crowd/crowd.ts';
import { startTestApp, until } from '../support/app.ts';
import { closeUnpaid } from '../support/at-rest.ts';
import { type ServedEvent, servedEvent } from '../support/served.ts';
import { auditEvent } from '../support/stage.ts';

const seats = 500;
/** Kept back by the organiser: best available never hands these out unasked. */
const wheelchairPlaces = 8;
const buyers = 5_000;

test('W1 W3 W5 S1 S8: a crowd of 5,000 sells 500 seats out, all others see it within one poll, and a lapsed hold reopens the line', async (t) => {
  // A process of its own, so that the crowd does not slow it down: each has a core.
  const served = await servedEvent(t, {
    seats: seats + wheelchairPlaces,
    // The limits of any new event: a crowd of households with cards of their own is not stopped by them.
    settings: { holdTtlMs: 15_000, holdSeatsMax: 4, ...newEventLimits(4) },
  });
  const { server, database, simulator, event, eventNo } = served;
  await server.start();
  const status = await visible(server.url, event);
  await blockWheelchairPlaces(served, status.layout);
  const crowd = await runCrowd({
    url: server.url,
    event,
    buyers,
    overMs: 20_000,
    patienceMs: 150_000,
    clock: systemClock,
    random: systemRandom,
    connectionsMax: 100,
    // Abandoned seats lapse only. A declined buyer's order would keep its seats for ten minutes.
    shares: { abandon: 0.05, decline: 0 },
  });
  t.diagnostic(JSON.stringify({ ...crowd, latency: undefined }));
  for (const [route, figures] of Object.entries(crowd.latency))
    t.diagnostic(`${route} ${JSON.stringify(figures)}`);

  assert.deepEqual(crowd.faults, [], 'no unexpected answer');
  assert.deepEqual(
    Object.keys(crowd.statuses).filter((status) => Number(status) >= 500),
    [],
    'no 5xx',
  );
  assert.equal(crowd.ends.failed + crowd.ends.gave_up, 0, 'everybody got an answer');
  assert.equal(crowd.ends.bought + crowd.ends.sold_out + crowd.ends.abandoned, buyers);
  assert.equal(crowd.seatsBought, seats, 'the venue is sold');
  // The promise is W5's: a page looks again within 30 s. The crowd runs alone, so that the machine adds little.
  assert.ok(
    crowd.soldOutToldMs !== null && crowd.soldOutToldMs <= 40_000,
    `told within one poll: ${crowd.soldOutToldMs} ms`,
  );
  await closeUnpaid({ database, eventNo });
  const { paid } = await auditEvent(database, simulator, eventNo);
  assert.equal(paid, crowd.ends.bought);

  // W1: each number once, in order; W3: each visitor one pass.
  const [numbers] = await database.query(
    `SELECT count(*)::int AS passes, count(DISTINCT number)::int AS numbers, max(number)::int AS last,
       (SELECT last_no FROM queue_counters WHERE event_no = $1)::int AS issued FROM passes WHERE event_no = $1`,
    [eventNo],
  );
  assert.equal(numbers.passes, numbers.numbers);
  assert.equal(numbers.issued, buyers, 'one number a person');

  // Visitors who were called before may still enter until the leader has seen that nothing is left. From then on no visitor
  // enters, because the leader takes the event's lock exclusively and a pass takes it shared.
  const [late] = await database.query(
    `SELECT count(*)::int AS n FROM passes WHERE event_no = $1 AND issued_at > (
       SELECT max(at) FROM audit_log WHERE event_no = $1 AND action = 'phase' AND detail ->> 'to' = 'sold_out')`,
    [eventNo],
  );
  const [{ soldOut }] = await database.query(
    `SELECT count(*)::int AS "soldOut" FROM audit_log WHERE event_no = $1 AND detail ->> 'to' = 'sold_out'`,
    [eventNo],
  );
  assert.ok(soldOut > 0, 'the leader declared it sold out');
  assert.equal(late.n, 0, 'no pass after it was sold out');
});

test('W5 W6: seats that come back reopen the line in the same order', async (t) => {
  const app = await startTestApp(t, { seats: 100, settings: { holdTtlMs: 4_000, holdSeatsMax: 50 } });
  const [last] = await app.database.query(
    `SELECT max(seat_no)::int AS seat FROM event_seats WHERE event_no = $1 AND row_label <> ''
       AND section_id IN (SELECT section_id FROM event_seats WHERE event_no = $1 GROUP BY section_id HAVING count(*) > 8)`,
    [app.eventNo],
  );
  const holder = await app.admitted();
  const held = await holder.mustHold([last.seat]);
  // All others leave the sale: what is left is in one basket.
  await app.database.query(
    `SELECT count(*) FROM seats_block($1, 'test', 'sold elsewhere', ARRAY(SELECT seat_no FROM seats WHERE event_no = $1 AND seat_no <> $2))`,
    [app.eventNo, last.seat],
  );
  const status = async () => (await holder.get(`/api/events/${app.event}/status`)).body;
  await until(async () => (await status()).seats.left === 0, 'the display to show nothing left');
  const [first, second] = [app.buyer(), app.buyer()];
  const tickets = [(await first.join()).body, (await second.join()).body];
  assert.ok(tickets[0].number < tickets[1].number);

  assert.equal(held.seats.length, 1);
  await until(async () => (await status()).seats.left === 1, 'the lapsed hold to come back');
  const redeem = (buyer: typeof first, ticket: string) =>
    buyer.post(`/api/events/${app.event}/pass`, { ticket });
  await until(
    async () => (await redeem(first, tickets[0].ticket)).status === 200,
    'the first in line to be called',
  );
  const { frontier } = await status();
  assert.ok(frontier[0] >= tickets[0].number, 'called by the published frontier');
});

/** Waits until the leader has published the event. */
async function visible(url: string, event: string): Promise<StatusObject> {
  let status: StatusObject | null = null;
  await until(async () => {
    const answer = await fetch(`${url}/api/events/${event}/status`);
    status = answer.ok ? ((await answer.json()) as StatusObject) : null;
    return status?.phase === 'open';
  }, 'the sale to be open');
  assert.ok(status);
  return status;
}

async function blockWheelchairPlaces(served: ServedEvent, layout: string): Promise<void> {
  const { server, event, eventNo, database } = served;
  const answer = await fetch(`${server.url}/api/events/${event}/layout-${layout}.json`);
  const { sections } = (await answer.json()) as Layout;
  const places = sections.flatMap((section) => {
    const numbers = section.seats.flatMap(([first, count]) =>
      Array.from({ length: count }, (_, i) => first + i),
    );
    let at = 0;
    return section.rows.flatMap((row) => {
      const { accessible = [], companion = [] } = row.attributes ?? {};
      const own = [...accessible, ...companion].map((index) => numbers[at + index]);
      at += row.labels.length;
      return own;
    });
  });
  assert.equal(places.length, wheelchairPlaces);
  await database.query(`SELECT count(*) FROM seats_block($1, 'test', 'sold by telephone', $2)`, [
    eventNo,
    places,
  ]);
}
