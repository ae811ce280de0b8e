import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { testScope } from '../support/app.ts';
import { createTestBuyer } from '../support/buyer.ts';
import { type RedisApp, startRedisApp } from '../support/redis-app.ts';

let app: RedisApp;
/** Seats of each partition, ascending. */
const seatsIn: number[][] = [[], [], []];

/** A request of the organiser, who signs in for it. */
async function organise(method: string, path: string, body: unknown) {
  const caller = createTestBuyer(app.url, app.event);
  const { email, password } = app.app.organiser;
  const { token } = (await caller.post('/api/organiser/sessions', { email, password })).body;
  const headers = { authorization: `Bearer ${token}` };
  return await caller.request(method, `/api/organiser/events/${app.event}${path}`, { body, headers });
}

describe('three partitions on two Redis servers', () => {
  const scope = testScope();
  before(async () => {
    app = await startRedisApp(scope, {
      seats: 600,
      servers: ['north'],
      settings: {
        holdSeatsMax: 4,
        partitions: [{ sections: ['102'], redis: 'north' }, { sections: ['standing'] }],
      },
    });
    for (const partition of [0, 1, 2]) await app.untilMode('redis', { partition });
    const venue = await app.app.events.venue((await app.app.events.find(app.event))!);
    for (const { seatNo } of venue.seats) seatsIn[venue.partitionOf(seatNo)]!.push(seatNo);
  });
  after(() => scope.close());

  test('S8: seats are blocked and given back in each partition, and a buyer keeps the held seats', async () => {
    const buyer = await app.admitted();
    const mine = seatsIn.map((seats) => seats.slice(-2));
    for (const seats of mine) await buyer.mustHold(seats);
    const wanted = seatsIn.flatMap((seats) => seats.slice(-58));
    const { body } = await organise('POST', '/blocks', { seats: wanted, reason: 'works' });
    assert.deepEqual(body.unanswered, []);
    const refused = body.refused as { seat: number; state: string }[];
    assert.deepEqual(
      refused,
      mine.flat().map((seat) => ({ seat, state: 'held' })),
    );
    assert.equal(body.blocked.length, wanted.length - mine.flat().length);
    const [blocked] = body.blocked as [number];
    assert.equal((await (await app.admitted()).hold([blocked])).body.code, 'taken');
    await app.assertAgreement();
    const freed = await organise('DELETE', '/blocks', { seats: wanted });
    assert.equal(freed.body.unblocked.length, body.blocked.length);
    assert.equal((await (await app.admitted()).hold([blocked])).status, 201);
  });

  test('S2: a hold lies in one partition, and a repeat is the hold that it was granted', async () => {
    const across = await (await app.admitted()).hold([seatsIn[0]![80]!, seatsIn[1]![80]!]);
    assert.deepEqual([across.status, across.body.code], [422, 'across_partitions']);
    for (const section of ['101', '102', 'standing']) {
      const buyer = await app.admitted();
      const key = `best in ${section}`;
      const first = await buyer.best({ quantity: 2, section }, { key });
      assert.equal(first.status, 201, JSON.stringify(first.body));
      const repeat = await buyer.best({ quantity: 2, section }, { key });
      assert.deepEqual([repeat.status, repeat.body.hold], [200, first.body.hold]);
      assert.equal((await buyer.request('DELETE', `/api/holds/${first.body.hold}`)).status, 204);
      assert.equal((await buyer.best({ quantity: 2, section }, { key })).body.code, 'hold_gone');
    }
  });
});
