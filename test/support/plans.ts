import fc from 'fast-check';
import { gapsInRow } from '../../src/core/plan-geometry.ts';
import type { PlanDecoration, PlanRow, PlanSeat, PlanSection, SeatingPlan } from '../../src/core/seat-map.ts';
import { seatAttributes } from '../../src/core/seat-map.ts';

const label = fc
  .string({ unit: 'grapheme', maxLength: 8 })
  .filter((text) => !/[\p{Cc}\p{Surrogate}\u202A-\u202E\u2066-\u2069\uFEFF]/u.test(text));
const name = label.filter((text) => text !== '');
const coordinate = fc.integer({ min: -9_000, max: 900_000 }).map((n) => n / 100);
const point = fc.tuple(coordinate, coordinate);
const extras = fc.option(
  fc
    .record(
      { uuid: fc.uuid(), 'x-note': fc.jsonValue({ maxDepth: 2 }).filter(isPlain) },
      { requiredKeys: [], noNullPrototype: true },
    )
    .filter((o) => Object.keys(o).length > 0),
  { nil: undefined },
);

/** Foreign values that an import would carry: no zero characters, surrogates or keys that change objects. */
function isPlain(value: unknown): boolean {
  return (
    !/\\u0000|\\ud[89a-f]|__proto__|constructor|prototype|-0(?![.\d])/.test(JSON.stringify(value)) &&
    !Object.is(value, -0) &&
    !hasMinusZero(value)
  );
}

function hasMinusZero(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(hasMinusZero);
  return Object.is(value, -0);
}

const color = fc.constantFrom('', '#aabbcc', '#123', 'tomato', 'rgba(1, 2, 3, 0.5)');

const decoration: fc.Arbitrary<PlanDecoration> = fc.oneof(
  fc.record({
    shape: fc.record({
      kind: fc.constant('polygon' as const),
      points: fc.array(point, { minLength: 1, maxLength: 6 }),
    }),
    color,
    borderColor: color,
    label,
    extras,
  }),
  fc.record({
    shape: fc.record({
      kind: fc.constant('ellipse' as const),
      cx: coordinate,
      cy: coordinate,
      rx: fc.nat(500),
      ry: fc.nat(500),
      rotation: fc.integer({ min: -360, max: 360 }),
    }),
    color,
    borderColor: color,
    label,
    extras,
  }),
  fc.record({
    shape: fc.record({
      kind: fc.constant('text' as const),
      x: coordinate,
      y: coordinate,
      size: fc.integer({ min: 1, max: 99 }),
      text: name,
    }),
    color,
    borderColor: fc.constant(''),
    label: fc.constant(''),
    extras,
  }),
);

const seat = fc.record({
  label,
  at: point,
  category: fc.nat(2),
  attributes: fc.subarray([...seatAttributes]),
  breakAfter: fc.option(fc.boolean(), { nil: undefined }),
  extras,
});
const row = fc.record({ label, seats: fc.array(seat, { maxLength: 7 }), extras });
const section = fc.record({
  name,
  group: label,
  sellAsUnit: fc.boolean(),
  ga: fc.boolean(),
  rows: fc.array(row, { maxLength: 4 }),
  capacity: fc.integer({ min: 1, max: 40 }),
  outline: fc.array(point, { minLength: 3, maxLength: 6 }),
  extras,
});
type Drawn<A> = A extends fc.Arbitrary<infer T> ? T : never;

const categories = ['Gold', 'Silver', 'Ÿ "3"'].map((text, i) => ({ name: text, color: `#00000${i}` }));

/** Any plan that an import may give, with at least one seat; seatGuids are unique, coordinates to a hundredth. */
export function arbitraryPlan(): fc.Arbitrary<SeatingPlan> {
  return fc
    .record({
      name,
      width: fc.integer({ min: 1, max: 9999 }),
      height: fc.integer({ min: 1, max: 9999 }),
      sections: fc.array(section, { minLength: 1, maxLength: 5 }),
      decorations: fc.array(decoration, { maxLength: 4 }),
      extras,
    })
    .map(({ sections, ...plan }) => {
      const guids = { next: 0 };
      return {
        ...withoutUndefined(plan),
        categories,
        sections: sections.map((drawn, i) =>
          drawn.ga && i > 0 ? standingOf(drawn, i) : seatedOf(drawn, i, guids),
        ),
        decorations: plan.decorations.map((d) => withoutUndefined({ ...d, shape: { ...d.shape } })),
      };
    });
}

function standingOf(drawn: Drawn<typeof section>, index: number): PlanSection {
  const { name: own, group, sellAsUnit, capacity, outline } = drawn;
  return {
    ...withoutUndefined({ extras: drawn.extras }),
    id: `s${index}`,
    name: own,
    group,
    kind: 'ga',
    sellAsUnit,
    rows: [],
    capacity,
    category: 'Silver',
    outline,
  };
}

function seatedOf(drawn: Drawn<typeof section>, index: number, guids: { next: number }): PlanSection {
  const { name: own, group, sellAsUnit } = drawn;
  const rows = drawn.rows.map((r) => rowOf(r, guids));
  if (index === 0) {
    const first = {
      label: '1',
      seatGuid: 'first',
      x: 1,
      y: 2,
      category: 'Gold',
      attributes: [],
      breakAfter: false,
    };
    rows.unshift({ label: 'one', seats: [first] });
  }
  return {
    ...withoutUndefined({ extras: drawn.extras }),
    id: `s${index}`,
    name: own,
    group,
    kind: 'seated',
    sellAsUnit,
    rows,
    capacity: 0,
    category: '',
    outline: [],
  };
}

/** Breaks as drawn, or as the distances tell where none was drawn. */
function rowOf(drawn: Drawn<typeof row>, guids: { next: number }): PlanRow {
  const seats = drawn.seats.map(({ at, category, breakAfter, ...rest }): PlanSeat => {
    const [x, y] = at;
    const seatGuid = `seat ${guids.next++}`;
    return {
      ...withoutUndefined(rest),
      seatGuid,
      x,
      y,
      category: categories[category]!.name,
      breakAfter: breakAfter ?? false,
    };
  });
  const told = drawn.seats.every((s) => s.breakAfter === undefined);
  const gaps = gapsInRow(seats);
  for (const [i, s] of seats.entries()) if (told) s.breakAfter = gaps[i]!;
  return { ...withoutUndefined(drawn), seats };
}

function withoutUndefined<T extends { extras?: unknown }>(value: T): T {
  if (value.extras !== undefined) return value;
  const { extras: _, ...rest } = value;
  return rest as T;
}
