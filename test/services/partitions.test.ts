import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Venue } from '../../src/catalogue/events.ts';
import type { Arbiter } from '../../src/inventory/arbiter.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';
import type { Answer, TestBuyer } from '../support/buyer.ts';

let app: TestApp;
let venue: Venue;
/** Free seats of each partition that no other test uses, ascending. */
const stock = new Map<number, number[]>();
const seatsOf = (partition: number, count: number): number[] => stock.get(partition)!.splice(0, count);
const outcome = ({ status, body }: Answer) => [status, body.code];
const seatNos = (body: { seats: { seat: number }[] }) => body.seats.map(({ seat }) => seat);
const partitionsOf = (seats: readonly number[]) => [...new Set(seats.map(venue.partitionOf))];

async function liveHolds(buyer: TestBuyer): Promise<{ partition: number; seats: number[] }[]> {
  const visitor = app.credentials.visitorOf(buyer.cookies.get('onsale_visitor') ?? '');
  return await app.database.query(
    `SELECT partition, seats FROM holds WHERE event_no = $1 AND visitor = $2 AND state = 'live' ORDER BY partition`,
    [app.eventNo, visitor],
  );
}

/** Partitions whose store does not answer. */
const away = new Set<number>();
/** Partition 0 answers every other claim. */
let flapping = false;
let asked = 0;

function partlyAway(made: Arbiter): Arbiter {
  return {
    ...made,
    hold: async (command) =>
      away.has(command.partition) || (flapping && command.partition === 0 && asked++ % 2 === 1)
        ? { kind: 'retry', afterMs: 700 }
        : await made.hold(command),
    find: async (event, partition, hold) => {
      if (away.has(partition)) throw new StoreFault('store_unavailable', 'it is away');
      return await made.find(event, partition, hold);
    },
  };
}

describe('a venue of three partitions', () => {
  const scope = testScope();
  before(async () => {
    app = await startTestApp(scope, {
      seats: 600,
      replace: { arbiter: partlyAway },
      settings: { holdSeatsMax: 4, partitions: [{ sections: ['102'] }, { sections: ['standing'] }] },
    });
    const event = await app.app.events.find(app.event);
    venue = await app.app.events.venue(event!);
    for (const { seatNo } of venue.seats) {
      const partition = venue.partitionOf(seatNo);
      stock.set(partition, [...(stock.get(partition) ?? []), seatNo]);
    }
    // From the end: best available takes the front rows.
    for (const seats of stock.values()) seats.reverse();
    await until(async () => {
      const { body } = await app.buyer().get(`/api/events/${app.event}/counts`);
      return Object.values<number>(body.sections).every((left) => left > 0);
    }, 'counts of every section');
  });
  after(() => scope.close());

  test('the event tells which sections are sold apart', async () => {
    const { body } = await app.buyer().get(`/api/events/${app.event}`);
    assert.deepEqual(body.partitions, [
      { partition: 0, sections: null },
      { partition: 1, sections: ['102'] },
      { partition: 2, sections: ['standing'] },
    ]);
    assert.deepEqual([...stock.keys()].sort(), [0, 1, 2]);
  });

  test('S2: seats across partitions are refused, with what lies where, and nothing is changed', async () => {
    const buyer = await app.admitted();
    const [a, b, c] = [seatsOf(0, 1), seatsOf(1, 2), seatsOf(2, 1)] as [number[], number[], number[]];
    const refused = await buyer.hold([...a, ...b, ...c]);
    assert.deepEqual(outcome(refused), [422, 'across_partitions']);
    const parts = refused.body.parts as { partition: number; seats: { seat: number }[] }[];
    assert.deepEqual(
      parts.map(({ partition, seats }) => [partition, seats.map(({ seat }) => seat).sort((x, y) => x - y)]),
      [a, [...b].sort((x, y) => x - y), c].map((seats, partition) => [partition, seats]),
    );
    assert.match(
      refused.body.detail,
      /separate parts of the venue; choose within one: 101 \/ 102 \/ Standing/,
    );
    assert.deepEqual(await liveHolds(buyer), []);
    for (const part of [a, b, c]) assert.equal((await (await app.admitted()).hold(part)).status, 201);
  });

  test('S7: the quota counts within a partition, unpaid orders included', async () => {
    const buyer = await app.admitted();
    const ordered = await buyer.mustOrder(seatsOf(1, 4));
    assert.deepEqual(outcome(await buyer.hold(seatsOf(1, 1))), [409, 'hold_quota']);
    const [one, more] = await Promise.all([buyer.hold(seatsOf(0, 4)), buyer.hold(seatsOf(0, 4))]);
    assert.deepEqual([one.status, more.status].sort(), [201, 409], 'four in another, and no more');
    assert.deepEqual(
      (await liveHolds(buyer)).map(({ partition }) => partition),
      [0],
    );
    await buyer.request('DELETE', `/api/orders/${ordered.order}`);
    assert.equal((await buyer.hold(seatsOf(1, 1))).status, 201);
  });

  test('S5: a hold is read, paid and given back in its own partition, and by its own visitor', async () => {
    for (const partition of [0, 1, 2]) {
      const buyer = await app.admitted();
      const seats = seatsOf(partition, 2);
      const held = await buyer.mustHold(seats);
      assert.deepEqual(
        seatNos((await buyer.get(`/api/holds/${held.hold}`)).body),
        seats.sort((a, b) => a - b),
      );
      const stranger = await app.admitted();
      for (const method of ['GET', 'DELETE']) {
        assert.deepEqual(outcome(await stranger.request(method, `/api/holds/${held.hold}`)), [
          404,
          'unknown_hold',
        ]);
      }
      const recovered = await buyer.post(`/api/holds/${held.hold}/recover`, { receipt: held.receipt });
      assert.equal(recovered.status, 200);
      const order = (await buyer.order(held.hold)).body.order;
      assert.equal((await buyer.pay(order)).status, 200);
      const [row] = await app.database.query('SELECT partition FROM orders WHERE order_id = $1', [order]);
      assert.equal(row.partition, partition);
      const [{ sold }] = await app.database.query(
        `SELECT count(*)::integer AS sold FROM seats WHERE event_no = $1 AND order_id = $2 AND state = 'sold' AND partition = $3`,
        [app.eventNo, order, partition],
      );
      assert.equal(sold, 2);
    }
  });

  test('a repeated wish for the best is the hold that it was granted, whichever partition has it', async () => {
    const found = new Set<number>();
    for (let i = 0; i < 6; i++) {
      const buyer = await app.admitted();
      const key = `repeat-${i}`;
      // At the time of the repeat the best seats are in another partition.
      if (i % 2 === 0) away.add(0);
      const first = await buyer.best({ quantity: 2 }, { key });
      away.clear();
      assert.equal(first.status, 201, JSON.stringify(first.body));
      for (const partition of partitionsOf(seatNos(first.body))) found.add(partition);
      for (let again = 0; again < 3; again++) {
        const repeat = await buyer.best({ quantity: 2 }, { key });
        assert.deepEqual([repeat.status, repeat.body.hold], [200, first.body.hold]);
      }
      assert.deepEqual(outcome(await buyer.best({ quantity: 1 }, { key })), [422, 'idempotency_mismatch']);
      assert.equal((await liveHolds(buyer)).length, 1);
    }
    assert.ok(found.size > 1, `the best were found in ${[...found]}`);
  });

  test('S2: the same wish six times at once is one hold', async () => {
    flapping = true;
    for (let i = 0; i < 5; i++) {
      const buyer = await app.admitted();
      const answers = await Promise.all(
        Array.from({ length: 6 }, () => buyer.best({ quantity: 2 }, { key: `at-once-${i}` })),
      );
      // Some have to come again, all others have the same hold.
      const said = answers.filter(({ status }) => status !== 503);
      assert.equal(new Set(said.map(({ body }) => body.hold)).size, 1, JSON.stringify(answers.map(outcome)));
      assert.equal((await liveHolds(buyer)).length, 1);
    }
    flapping = false;
  });

  test('a wish that was given back leaves no ghost in another partition', async () => {
    for (let i = 0; i < 4; i++) {
      const buyer = await app.admitted();
      const key = `ghost-${i}`;
      // The late repeat finds the best in another partition than its first try did.
      const [first, second] = i % 2 === 0 ? [[], [0]] : [[0], []];
      for (const partition of first) away.add(partition);
      const { body } = await buyer.best({ quantity: 2 }, { key });
      away.clear();
      assert.equal((await buyer.request('DELETE', `/api/holds/${body.hold}`)).status, 204);
      for (const partition of second) away.add(partition);
      const late = await buyer.best({ quantity: 2 }, { key });
      away.clear();
      assert.deepEqual(outcome(late), [410, 'hold_gone']);
      assert.deepEqual(await liveHolds(buyer), []);
    }
  });

  test('a hold is exchanged within its partition only; across partitions the buyer gets a reason and keeps it', async () => {
    const buyer = await app.admitted();
    const held = await buyer.mustHold(seatsOf(0, 2));
    const across = await buyer.hold(seatsOf(1, 2), { replaces: held.hold });
    assert.deepEqual([...outcome(across), across.body.held], [422, 'across_partitions', 0]);
    assert.deepEqual(outcome(await buyer.best({ quantity: 1, section: '102' }, { replaces: held.hold })), [
      422,
      'across_partitions',
    ]);
    assert.equal((await buyer.get(`/api/holds/${held.hold}`)).body.hold, held.hold);
    let present = held.hold;
    for (let i = 0; i < 4; i++) {
      const swapped = await buyer.best({ quantity: 2 }, { replaces: present });
      assert.equal(swapped.status, 201, JSON.stringify(swapped.body));
      assert.deepEqual(partitionsOf(seatNos(swapped.body)), [0]);
      present = swapped.body.hold;
    }
  });

  test('while one partition is unreachable the others continue, and a selection in that one has to wait', async () => {
    away.add(0);
    try {
      const named = await (await app.admitted()).hold(seatsOf(0, 1));
      assert.deepEqual([...outcome(named), named.body.retryAfterMs], [503, 'busy', 700]);
      const there = await (await app.admitted()).best({ quantity: 2, section: '101' });
      assert.deepEqual(outcome(there), [503, 'busy']);
      for (let i = 0; i < 6; i++) {
        const best = await (await app.admitted()).best({ quantity: 2 });
        assert.equal(best.status, 201, JSON.stringify(best.body));
        assert.ok(!partitionsOf(seatNos(best.body)).includes(0));
      }
      away.add(1).add(2);
      assert.deepEqual(outcome(await (await app.admitted()).best({ quantity: 2 })), [503, 'busy']);
    } finally {
      away.clear();
    }
    assert.equal((await (await app.admitted()).hold(seatsOf(0, 1))).status, 201);
  });

  test('S3: a crowd that wants the best gets each seat once, and each hold lies in one partition', async () => {
    const crowd = await Promise.all(Array.from({ length: 70 }, () => app.admitted()));
    const answers = await Promise.all(crowd.map((buyer) => buyer.best({ quantity: 2 })));
    const granted = answers.filter(({ status }) => status === 201).map(({ body }) => seatNos(body));
    const refused = answers.filter(({ status }) => status !== 201);
    for (const answer of refused) assert.equal(answer.body.code, 'taken');
    assert.ok(granted.length > 50, `${granted.length} of ${crowd.length} were granted`);
    assert.equal(new Set(granted.flat()).size, granted.length * 2, 'no seat twice');
    for (const seats of granted) assert.equal(partitionsOf(seats).length, 1);
    const [{ short }] = await app.database.query(
      `SELECT count(*)::integer AS short FROM holds h WHERE event_no = $1 AND state = 'live' AND cardinality(seats) <>
         (SELECT count(*) FROM seats s WHERE s.event_no = $1 AND s.hold_id = h.hold_id AND s.partition = h.partition)`,
      [app.eventNo],
    );
    assert.equal(short, 0, 'every hold has all of its seats, in its own partition');
  });
});
