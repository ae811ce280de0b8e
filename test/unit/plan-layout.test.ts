import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import fc from 'fast-check';
import { gapsInRow, insidePolygon, orderAlongRow, outlineOfRows } from '../../src/core/plan-geometry.ts';
import {
  assignSeatNos,
  decodeRow,
  planDiff,
  planLayout,
  planSeatGuids,
  planSeats,
} from '../../src/core/plan-layout.ts';
import type { PlanSection, SeatingPlan } from '../../src/core/seat-map.ts';
import { arbitraryPlan } from '../support/plans.ts';

function section(id: string, guids: string[], more: Partial<PlanSection> = {}): PlanSection {
  const seats = guids.map((seatGuid, i) => ({
    seatGuid,
    label: String(i + 1),
    x: 10 + i * 25.04,
    y: 10,
    category: 'A',
    attributes: [],
    breakAfter: false,
  }));
  return {
    id,
    name: id,
    group: '',
    kind: 'seated',
    sellAsUnit: false,
    rows: seats.length > 0 ? [{ label: 'R', seats }] : [],
    capacity: 0,
    category: '',
    outline: [],
    ...more,
  };
}

function planOf(...sections: PlanSection[]): SeatingPlan {
  return {
    name: 'P',
    width: 500,
    height: 300,
    categories: [{ name: 'A', color: '#000000' }],
    sections,
    decorations: [],
  };
}

const floor = (capacity: number): PlanSection =>
  section('floor', [], {
    kind: 'ga',
    capacity,
    category: 'A',
    outline: [
      [0, 100],
      [200, 100],
      [200, 200],
    ],
  });

describe('seat numbers', () => {
  test('follow the plan: sections, rows, seats, and the units of a standing area in its place', () => {
    const plan = planOf(section('s', ['b', 'a']), floor(3), section('t', ['c']));
    assert.deepEqual(
      planSeats(plan).map(({ seatNo, seatGuid, sectionId, row, label, category }) => [
        seatNo,
        seatGuid,
        sectionId,
        row,
        label,
        category,
      ]),
      [
        [0, 'b', 's', 'R', '1', 'A'],
        [1, 'a', 's', 'R', '2', 'A'],
        [2, 'floor#0', 'floor', '', '', 'A'],
        [3, 'floor#1', 'floor', '', '', 'A'],
        [4, 'floor#2', 'floor', '', '', 'A'],
        [5, 'c', 't', 'R', '1', 'A'],
      ],
    );
  });

  test('are never given to another seat: removed seats keep theirs, new ones come behind', () => {
    const first = assignSeatNos(null, planOf(section('s', ['a', 'b', 'c'])));
    const second = assignSeatNos(first, planOf(section('s', ['new', 'c', 'a'])));
    assert.deepEqual(
      [...second],
      [
        ['a', 0],
        ['b', 1],
        ['c', 2],
        ['new', 3],
      ],
    );
    const third = assignSeatNos(second, planOf(section('s', ['b', 'newer'])));
    assert.equal(third.get('b'), 1);
    assert.equal(third.get('newer'), 4);
  });

  test('stay unique and stable through any series of plans', () => {
    const guids = fc.uniqueArray(fc.constantFrom(...'abcdefghij'), { minLength: 1 });
    fc.assert(
      fc.property(fc.array(guids, { minLength: 1, maxLength: 6 }), (series) => {
        let numbers: Map<string, number> | null = null;
        for (const list of series) {
          const next = assignSeatNos(numbers, planOf(section('s', list)));
          for (const [guid, no] of numbers ?? []) assert.equal(next.get(guid), no);
          assert.equal(new Set(next.values()).size, next.size);
          assert.equal(Math.max(...next.values()), next.size - 1);
          numbers = next;
        }
      }),
    );
  });

  test('planDiff lists what a new version loses, brings and keeps; a smaller standing area loses its last units', () => {
    const diff = planDiff(
      planOf(section('s', ['a', 'b']), floor(3)),
      planOf(section('s', ['c', 'b']), floor(2)),
    );
    assert.deepEqual(diff, { removed: ['a', 'floor#2'], added: ['c'], kept: ['b', 'floor#0', 'floor#1'] });
  });
});

describe('the layout', () => {
  test('gives back every seat at its place to a tenth of a unit, in row order', () => {
    fc.assert(
      fc.property(arbitraryPlan(), (plan) => {
        const layout = planLayout(plan, assignSeatNos(null, plan));
        assert.equal(layout.seatCount, planSeatGuids(plan).length);
        const offsets = new Set<string>();
        plan.sections.forEach((from, s) => {
          const to = layout.sections[s]!;
          assert.equal(to.rows.length, from.rows.length);
          from.rows.forEach((row, r) => {
            const decoded = decodeRow(to.rows[r]!);
            assert.deepEqual(
              to.rows[r]!.labels,
              row.seats.map(({ label }) => label),
            );
            row.seats.forEach((seat, i) => {
              assert.equal(plan.categories[decoded.category[i]!]!.name, seat.category);
              assert.equal(to.rows[r]!.breaks.includes(i), seat.breakAfter);
              for (const attribute of ['accessible', 'companion', 'restricted-view'] as const) {
                const has = to.rows[r]!.attributes?.[attribute]?.includes(i) ?? false;
                assert.equal(has, seat.attributes.includes(attribute));
              }
              assert.ok(
                decoded.x[i]! >= 0 &&
                  decoded.y[i]! >= 0 &&
                  decoded.x[i]! <= layout.width &&
                  decoded.y[i]! <= layout.height,
              );
              offsets.add(
                `${Math.round((decoded.x[i]! / 10 - seat.x) / 0.2)}:${Math.round((decoded.y[i]! / 10 - seat.y) / 0.2)}`,
              );
            });
          });
        });
        // One and the same shift for all seats, give or take the rounding.
        assert.ok(offsets.size <= 9, [...offsets].join(' '));
      }),
      { numRuns: 60 },
    );
  });

  test('names the seats of a section as ranges in row order, with gaps after a change of plan', () => {
    const before = planOf(section('s', ['a', 'b', 'c']), floor(2));
    const after = planOf(section('s', ['a', 'new', 'c']), floor(3));
    const layout = planLayout(after, assignSeatNos(assignSeatNos(null, before), after));
    assert.deepEqual(
      layout.sections.map(({ seats }) => seats),
      [
        [
          [0, 1],
          [5, 1],
          [2, 1],
        ],
        [
          [3, 2],
          [6, 1],
        ],
      ],
    );
    assert.equal(layout.seatCount, 7);
  });

  test('is moved to begin at zero when seats lie outside the stated size', () => {
    const far = section('s', ['a', 'b']);
    far.rows[0]!.seats[0]!.x = -1_995_039;
    const layout = planLayout(planOf(far), assignSeatNos(null, planOf(far)));
    const { x, y } = decodeRow(layout.sections[0]!.rows[0]!);
    assert.deepEqual([x[0], y[0]], [300, 300]);
    assert.ok(x[1]! < layout.width);
  });

  test('drawings are in the same tenths as the seats, a standing area has its category', () => {
    const plan = planOf(section('s', ['a']), floor(1));
    plan.decorations.push({
      shape: { kind: 'text', x: 10, y: 20.26, size: 16, text: 'Stage' },
      color: '',
      borderColor: '',
      label: '',
    });
    const layout = planLayout(plan, assignSeatNos(null, plan));
    assert.deepEqual(layout.decorations[0]!.shape, {
      kind: 'text',
      x: 100,
      y: 203,
      size: 160,
      text: 'Stage',
    });
    assert.equal(layout.sections[1]!.category, 0);
    assert.deepEqual(layout.sections[1]!.outline, [
      [0, 1000],
      [2000, 1000],
      [2000, 2000],
    ]);
  });
});

describe('rows and outlines', () => {
  const arc = (radius: number, n: number, from = 0.5, to = 2.6) =>
    Array.from({ length: n }, (_, i) => {
      const angle = from + ((to - from) * i) / (n - 1);
      return { x: 500 + radius * Math.cos(angle), y: radius * Math.sin(angle) };
    });

  test('a curved block is outlined along its curve: all seats inside, the place in front of it outside', () => {
    const rows = [300, 335, 370].map((radius) => arc(radius, 40));
    const outline = outlineOfRows(rows, 12);
    assert.ok(rows.flat().every(({ x, y }) => insidePolygon(x, y, outline)));
    assert.ok(!insidePolygon(500, 200, outline));
    assert.ok(outline.length < 60);
  });

  test('rows whose direction alternates, single rows and single seats get an outline too', () => {
    const snake = [300, 335, 370].map((radius, i) =>
      i % 2 === 1 ? arc(radius, 40).reverse() : arc(radius, 40),
    );
    for (const rows of [snake, [arc(300, 9)], [[{ x: 5, y: 5 }]], [[{ x: 5, y: 5 }], [{ x: 5, y: 5 }]]]) {
      const outline = outlineOfRows(rows, 12);
      assert.ok(rows.flat().every(({ x, y }) => insidePolygon(x, y, outline)));
    }
    assert.deepEqual(outlineOfRows([[]], 12), []);
  });

  test('any rows lie inside their outline', () => {
    const spot = fc.record({
      x: fc.integer({ min: -500, max: 500 }),
      y: fc.integer({ min: -500, max: 500 }),
    });
    fc.assert(
      fc.property(
        fc.array(fc.array(spot, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 6 }),
        (rows) => {
          const outline = outlineOfRows(rows, 10);
          return rows.flat().every(({ x, y }) => insidePolygon(x, y, outline));
        },
      ),
    );
  });

  test('a curve is no reason to reorder or to see gaps; a missing pair of seats is a gap', () => {
    const row = arc(300, 30);
    assert.equal(orderAlongRow(row), null);
    assert.ok(gapsInRow(row).every((gap) => !gap));
    const holed = row.filter((_, i) => i !== 10 && i !== 11);
    assert.deepEqual(
      gapsInRow(holed).flatMap((gap, i) => (gap ? [i] : [])),
      [9],
    );
  });
});
