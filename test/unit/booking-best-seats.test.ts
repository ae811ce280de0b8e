import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBestSeats } from '../../src/booking/best-seats.ts';
import { type AdmittedBuyer, createBooking } from '../../src/booking/booking.ts';
import type { BookingDeps } from '../../src/booking/deps.ts';
import type { Venue } from '../../src/catalogue/events.ts';
import { wholeVenue } from '../../src/catalogue/partitions.ts';
import { assignSeatNos, planLayout, planSeats } from '../../src/core/plan-layout.ts';
import { noRights } from '../../src/core/prices.ts';
import { type EventRecord, eventSettingsDefault } from '../../src/orders/record.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { importPlan } from '../../src/plans/import-plan.ts';
import { seededRandom } from '../../src/runtime/random.ts';

const imported = importPlan(Buffer.from(JSON.stringify(generateStadium({ seats: 400 }))));
assert.ok(imported.kind !== 'refused');
const { plan } = imported;
const layout = planLayout(plan, assignSeatNos(null, plan));
const seats = planSeats(plan);
const venue: Venue = {
  layoutHash: 'x',
  layout,
  seats,
  byGuid: new Map(),
  partitions: wholeVenue,
  partitionOf: () => 0,
};
const event = {
  eventNo: 1,
  event: 'show',
  prices: Object.fromEntries(plan.categories.map(({ name }) => [name, 100])),
  settings: eventSettingsDefault,
} as unknown as EventRecord;
const bytes = new Uint8Array(Math.ceil(layout.seatCount / 8)).fill(255);
const wish = { kind: 'best', quantity: 2 } as const;
const nothing = { seats: new Set<number>(), partitions: new Set<number>() };

function bestAt(version: [number, number]) {
  const published = { get: () => ({ bytes, version }) } as unknown as BookingDeps['published'];
  return createBestSeats({ published, random: seededRandom(7) });
}

test('no seat that this process granted is offered again while the published bits do not know of it', () => {
  const best = bestAt([1, 1]);
  const gone = new Set<number>();
  for (let buyer = 0; buyer < 150; buyer++) {
    const found = best.find(event, venue, wish, nothing, 1);
    assert.ok(found, `buyer ${buyer} finds seats`);
    if (found.claim.kind !== 'groups') break;
    for (const seat of found.claim.groups.flat())
      assert.ok(!gone.has(seat), `seat ${seat} for buyer ${buyer}`);
    const [first] = found.claim.groups;
    best.granted(event, first!);
    for (const seat of first!) gone.add(seat);
  }
  assert.ok(gone.size > 100);
});

test('seats that came back are offered with the next publishing, although the bits are the same', () => {
  const version: [number, number] = [1, 1];
  const best = bestAt(version);
  best.granted(
    event,
    seats.map(({ seatNo }) => seatNo),
  );
  assert.equal(best.find(event, venue, wish, nothing, 1), null);
  version[1] = 2;
  assert.ok(best.find(event, venue, wish, nothing, 1));
});

test('seats without a price, and excluded ones, are not offered', () => {
  const [only] = plan.categories;
  const cheap = { ...event, prices: { [only!.name]: 100 } };
  const found = bestAt([1, 1]).find(cheap, venue, wish, nothing, 1);
  assert.ok(found?.claim.kind === 'groups');
  for (const seat of found.claim.groups.flat()) assert.equal(seats[seat]!.category, only!.name);
  const rest = bestAt([1, 1]).find(event, venue, wish, { ...nothing, seats: new Set(found.considered) }, 2);
  assert.ok(rest);
  const excluded = new Set(found.considered);
  for (const seat of rest.considered) assert.ok(!excluded.has(seat));
});

test('best available: all candidates of a claim lie in one partition, and none in one that is left out', () => {
  const [first] = plan.sections;
  const apart: Venue = { ...venue, partitionOf: (seat) => (seats[seat]!.sectionId === first!.id ? 1 : 0) };
  const best = bestAt([1, 1]);
  const seen = new Set<number>();
  for (let buyer = 0; buyer < 60; buyer++) {
    const found = best.find(event, apart, wish, nothing, 1 + (buyer % 3));
    assert.ok(found?.claim.kind === 'groups');
    for (const seat of found.claim.groups.flat()) assert.equal(apart.partitionOf(seat), found.partition);
    seen.add(found.partition);
  }
  assert.deepEqual([...seen].sort(), [0, 1], 'both were offered');
  for (const [out, left] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const found = best.find(event, apart, wish, { ...nothing, partitions: new Set([out]) }, 1);
    assert.equal(found?.partition, left);
  }
});

test('a seat that a hold took is not offered on the page of an order either: one search serves both', async () => {
  const hold = { seats: [3, 4], partition: 0 };
  const deps = {
    arbiter: { hold: async () => ({ kind: 'granted', hold, repeated: false }) },
    credentials: { holdIdOf: () => 'h', holdPlaceOf: () => null },
    events: { venue: async () => venue },
    published: { get: () => ({ bytes, version: [1, 1] }) },
    clock: { monotonic: () => 0 },
    random: seededRandom(7),
  } as unknown as BookingDeps;
  const booking = createBooking(deps);
  const nearest = () => booking.nearest(event, venue, { kind: 'seats', seats: [3, 4] }, [], null);
  assert.deepEqual(nearest(), [3, 4]);
  const buyer = {
    pass: { visitor: 'v', expiresAt: 1_000 },
    holder: async () => 'v',
    opened: { rights: noRights, code: null, refused: null },
    address: null,
    isConnected: () => true,
  } as unknown as AdmittedBuyer;
  const selection = { seats: [{ seat: 3 }, { seat: 4 }] };
  await booking.placeHold({ event, buyer, key: 'k', selection, replaces: null });
  assert.ok(
    nearest().every((seat) => seat !== 3 && seat !== 4),
    String(nearest()),
  );
});
