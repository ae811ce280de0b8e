import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { insidePolygon } from '../../src/core/plan-geometry.ts';
import { assignSeatNos, planLayout } from '../../src/core/plan-layout.ts';
import type { SeatingPlan } from '../../src/core/seat-map.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { importPlan } from '../../src/plans/import-plan.ts';

const fileOf = (seats: number): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(generateStadium({ seats, name: 'Demo' })));

function stadium(seats: number) {
  const outcome = importPlan(fileOf(seats));
  assert.ok(
    outcome.kind === 'imported',
    JSON.stringify(outcome.kind === 'refused' && outcome.problems.slice(0, 3)),
  );
  return outcome;
}

const rowsOf = (plan: SeatingPlan) =>
  plan.sections.flatMap((section) => section.rows.map((row) => ({ section, row })));

describe('the demo stadium of 50,000', () => {
  const file = fileOf(50_000);
  // Processor time: the promise is about our work, not about who else uses the machine.
  const before = process.cpuUsage();
  const outcome = importPlan(file);
  const used = process.cpuUsage(before);
  const tookMs = (used.user + used.system) / 1000;
  assert.ok(outcome.kind === 'imported');
  const { plan, report } = outcome;

  test('has exactly 50,000 seats, imports without a warning in less than 3 s of work', () => {
    assert.equal(report.seats, 50_000);
    assert.deepEqual(report.warnings, []);
    assert.ok(tookMs < 3_000, `${tookMs} ms`);
  });

  test('has what real venues have: tiers, standing, boxes, companions, odd and even sides, left out letters', () => {
    const names = plan.sections.map(({ name }) => name);
    assert.ok(['101', '201', '301', 'Box 1', 'Standing'].every((name) => names.includes(name)));
    assert.deepEqual(
      report.categories.map(({ name }) => name),
      ['Premium', 'Category 1', 'Category 2', 'Category 3', 'Standing'],
    );
    assert.ok(
      report.categories.every(({ seats }) => seats > 1_000),
      JSON.stringify(report.categories),
    );
    assert.ok(
      report.attributes.accessible >= 50 && report.attributes.companion === report.attributes.accessible,
    );
    assert.ok(report.attributes.restrictedView > 0);
    assert.equal(plan.sections.filter(({ sellAsUnit }) => sellAsUnit).length, 20);
    const letters = rowsOf(plan).map(({ row }) => row.label);
    assert.ok(letters.includes('H') && letters.includes('J') && letters.includes('P'));
    assert.ok(!letters.some((label) => /[IO]/.test(label)));
    const numbers = (section: string, at = 0) =>
      plan.sections.find(({ name }) => name === section)!.rows[at]!.seats.map(({ label }) => Number(label));
    assert.equal(numbers('201')[0], 101);
    assert.ok(numbers('202').every((n) => n % 2 === 1));
    assert.ok(numbers('232').every((n) => n % 2 === 0));
    assert.ok(numbers('117')[0]! > numbers('117').at(-1)!, 'numbers run right to left on the north side');
    assert.equal(plan.sections.find(({ name }) => name === '103')!.rows[0]!.label, 'D');
    assert.ok(rowsOf(plan).some(({ row }) => row.seats.some((seat) => seat.breakAfter)));
  });

  test('no two seats are nearer than 45 cm, and none stands on the pitch, in the standing area or in another block', () => {
    const cell = 22.5;
    const cells = new Map<string, { x: number; y: number }[]>();
    for (const { row } of rowsOf(plan)) {
      for (const { x, y } of row.seats) {
        const [cx, cy] = [Math.floor(x / cell), Math.floor(y / cell)];
        for (let dx = -1; dx <= 1; dx++) {
          for (let dy = -1; dy <= 1; dy++) {
            for (const other of cells.get(`${cx + dx}:${cy + dy}`) ?? []) {
              assert.ok(Math.hypot(other.x - x, other.y - y) >= cell, `${x},${y} ${other.x},${other.y}`);
            }
          }
        }
        const here = `${cx}:${cy}`;
        cells.set(here, [...(cells.get(here) ?? []), { x, y }]);
      }
    }
    const closed = [
      ...plan.sections.filter(({ kind }) => kind === 'ga').map(({ outline }) => outline),
      ...plan.decorations.flatMap(({ label, shape }) =>
        label === 'Pitch' && shape.kind === 'polygon' ? [shape.points] : [],
      ),
    ];
    assert.equal(closed.length, 2);
    for (const { section, row } of rowsOf(plan)) {
      for (const { x, y } of row.seats)
        assert.ok(!closed.some((area) => insidePolygon(x, y, area)), section.name);
    }
    const layout = planLayout(plan, assignSeatNos(null, plan));
    const outlines = layout.sections.map(({ outline }) => outline);
    layout.sections.forEach((section, i) => {
      const others = outlines.filter((_, j) => j !== i);
      for (const [x, y] of section.outline)
        assert.ok(!others.some((outline) => insidePolygon(x, y, outline)), section.name);
    });
  });

  test('its layout is at most 250 kB on the wire, by gzip and by brotli', () => {
    const json = JSON.stringify(planLayout(plan, assignSeatNos(null, plan)));
    const brotli = brotliCompressSync(json, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }).length;
    const gzip = gzipSync(json).length;
    assert.ok(brotli <= 250_000 && gzip <= 250_000, `brotli ${brotli}, gzip ${gzip}`);
  });
});

describe('a stadium of any size', () => {
  test('has exactly the seats asked for', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.integer({ min: 100, max: 1_000 }), fc.integer({ min: 1_000, max: 12_000 })),
        (seats) => {
          assert.equal(stadium(seats).report.seats, seats);
        },
      ),
      { numRuns: 8, examples: [[100], [8_999], [9_000]] },
    );
    assert.equal(stadium(200_000).report.seats, 200_000);
  });

  test('is the same each time', () => {
    assert.deepEqual(generateStadium({ seats: 777 }), generateStadium({ seats: 777 }));
  });

  test('is refused outside 100 to 200,000', () => {
    for (const seats of [99, 200_001, 100.5, Number.NaN])
      assert.throws(() => generateStadium({ seats }), /100 to 200,000/);
  });
});
