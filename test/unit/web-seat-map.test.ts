import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { assignSeatNos, planLayout } from '../../src/core/plan-layout.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { importPlan } from '../../src/plans/import-plan.ts';
import { type Drawing, seatAt, sectionAt, unpack, wordsOf } from '../../web/seat-map/drawing.ts';
import { isFree } from '../../web/seat-map/feed.ts';
import { neighbour } from '../../web/seat-map/neighbours.ts';
import { lostSeats, toggle } from '../../web/seat-map/selection.ts';
import { between, clampTo, fit, toDrawing, toScreen, zoomAt } from '../../web/seat-map/viewport.ts';

function stadium(seats: number): Drawing {
  const imported = importPlan(new TextEncoder().encode(JSON.stringify(generateStadium({ seats }))));
  assert.equal(imported.kind, 'imported');
  const { plan } = imported as Extract<typeof imported, { kind: 'imported' }>;
  return unpack(planLayout(plan, assignSeatNos(null, plan)));
}

const venue = stadium(3000);
const none: ReadonlySet<number> = new Set();

test('every seat of the layout is drawn once, in its section, at its place in the section’s bits', () => {
  let count = 0;
  for (const section of venue.sections) {
    section.seatNos.forEach((seat, place) => {
      count += 1;
      assert.equal(venue.sectionOf[seat], section.index);
      assert.equal(venue.placeOf[seat], place);
    });
    const inRows = section.rows.reduce((sum, row) => sum + row.count, 0);
    if (section.kind === 'seated') assert.equal(inRows, section.seatNos.length);
  }
  assert.equal(count, venue.seatCount);
});

test('a tap on a seat finds that seat, and its section', () => {
  for (const section of venue.sections.filter(({ kind }) => kind === 'seated')) {
    for (let place = 0; place < section.x.length; place += 17) {
      const [x, y] = [section.x[place]! + 10, section.y[place]! - 10];
      assert.equal(seatAt(section, x, y, section.pitch * 0.6), place);
      assert.equal(sectionAt(venue, section.x[place]!, section.y[place]!)?.id, section.id);
      assert.notEqual(wordsOf(venue, section.seatNos[place]!).number, '');
    }
  }
});

test('arrow keys: right and back left is where one was; every seat of a section is reached', () => {
  const section = venue.sections.find(({ kind, rows }) => kind === 'seated' && rows.length > 3)!;
  const row = section.rows[1]!;
  const start = row.first + Math.floor(row.count / 2);
  for (const [there, back] of [
    ['right', 'left'],
    ['up', 'down'],
  ] as const) {
    const next = neighbour(section.x, section.y, start, there);
    if (next >= 0) assert.equal(neighbour(section.x, section.y, next, back), start);
  }
  const reached = new Set([start]);
  for (const place of reached) {
    for (const direction of ['left', 'right', 'up', 'down'] as const) {
      const next = neighbour(section.x, section.y, place, direction);
      if (next >= 0) reached.add(next);
    }
  }
  assert.equal(reached.size, section.x.length);
});

test('bits: least significant first, unknown beyond the end', () => {
  const bits = new Uint8Array([0b0000_0101]);
  assert.deepEqual(
    [0, 1, 2, 8].map((place) => isFree(bits, place)),
    [true, false, true, null],
  );
  assert.equal(isFree(null, 0), null);
});

test('a choice: taken seats are refused, the maximum holds, a box goes in and out whole, lost seats are named', () => {
  const section = { ...venue.sections.find(({ kind }) => kind === 'seated')!, sellAsUnit: false };
  const allFree = new Uint8Array(Math.ceil(section.seatNos.length / 8)).fill(255);
  const with2 = { bits: allFree, mine: none, max: 2 };
  const one = toggle(section, 0, none, with2);
  assert.equal(one.kind, 'added');
  const two = toggle(section, 1, (one as { selected: ReadonlySet<number> }).selected, with2);
  assert.equal(two.kind, 'added');
  const { selected } = two as { selected: ReadonlySet<number> };
  assert.equal(toggle(section, 2, selected, with2).kind, 'too_many');
  assert.equal(toggle(section, 0, selected, with2).kind, 'removed');

  const noneFree = new Uint8Array(allFree.length);
  assert.equal(toggle(section, 0, none, { bits: noneFree, mine: none, max: 9 }).kind, 'taken');
  const mine = new Set([section.seatNos[0]!]);
  assert.equal(toggle(section, 0, none, { bits: noneFree, mine, max: 9 }).kind, 'added');
  assert.deepEqual(lostSeats(venue, section, noneFree, selected, mine), [section.seatNos[1]!]);

  const box = { ...section, seatNos: section.seatNos.slice(0, 4), sellAsUnit: true };
  const whole = toggle(box, 2, none, { bits: allFree, mine: none, max: 9 });
  assert.equal((whole as { selected: ReadonlySet<number> }).selected.size, 4);
  const halfTaken = new Uint8Array([0b1110]);
  assert.equal(toggle(box, 2, none, { bits: halfTaken, mine: none, max: 9 }).kind, 'taken');
});

test('zooming keeps the point under the pointer; a fitted box is whole on screen; a move ends where it should', () => {
  const size = { width: 800, height: 600 };
  const view = fit({ left: 0, top: 0, right: 4000, bottom: 3000 }, size, 20);
  const [left, top] = toScreen(view, 0, 0);
  const [right, bottom] = toScreen(view, 4000, 3000);
  assert.ok(left >= 19.9 && top >= 19.9 && right <= 780.1 && bottom <= 580.1);
  fc.assert(
    fc.property(
      fc.double({ min: 0.2, max: 5, noNaN: true }),
      fc.integer({ min: 0, max: 800 }),
      fc.integer({ min: 0, max: 600 }),
      (factor, px, py) => {
        const before = toDrawing(view, px, py);
        const after = toDrawing(zoomAt(view, factor, px, py, { min: 0.001, max: 100 }), px, py);
        assert.ok(Math.hypot(before[0] - after[0], before[1] - after[1]) < 1e-6);
      },
    ),
  );
  const target = { x: 100, y: 50, scale: 2 };
  const end = between(view, target, 1, size);
  assert.ok(Math.abs(end.x - target.x) < 1e-6 && Math.abs(end.scale - 2) < 1e-9);
  const far = clampTo({ x: 1e9, y: -1e9, scale: 1 }, { width: 4000, height: 3000 }, size);
  assert.deepEqual([far.x + 400, far.y + 300], [4000, 0]);
});
