import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import type { PlanReport } from '../../src/core/plan-report.ts';
import type { SeatingPlan } from '../../src/core/seat-map.ts';
import { type ImportOutcome, importPlan } from '../../src/plans/import-plan.ts';

type Json = Record<string, unknown>;

const bytes = (value: unknown): Uint8Array =>
  new TextEncoder().encode(typeof value === 'string' ? value : JSON.stringify(value));

function seat(guid: string, x: number, more: Json = {}): Json {
  return { seat_guid: guid, seat_number: guid, position: { x, y: 0 }, category: 'A', ...more };
}

function row(label: string, seats: Json[], more: Json = {}): Json {
  return { row_number: label, position: { x: 0, y: 0 }, seats, ...more };
}

function plan(zones: Json[], more: Json = {}): Json {
  return {
    name: 'Hall',
    categories: [{ name: 'A', color: '#112233' }],
    size: { width: 1000, height: 800 },
    zones: zones.map((zone) => ({ name: 'Stalls', position: { x: 0, y: 0 }, rows: [], ...zone })),
    ...more,
  };
}

function imported(value: unknown): { plan: SeatingPlan; report: PlanReport } {
  const outcome = importPlan(bytes(value));
  assert.equal(outcome.kind, 'imported', JSON.stringify(outcome.kind === 'refused' ? outcome.problems : ''));
  return outcome as Extract<ImportOutcome, { kind: 'imported' }>;
}

function refused(value: unknown): Extract<ImportOutcome, { kind: 'refused' }> {
  const outcome = importPlan(bytes(value));
  assert.equal(outcome.kind, 'refused');
  return outcome as Extract<ImportOutcome, { kind: 'refused' }>;
}

const codes = (value: unknown): string[] =>
  refused(value).problems.map((problem) => `${problem.code} ${problem.place}`);
const warned = (report: PlanReport): string[] => report.warnings.map((warning) => warning.code);

describe('pretix plans that import', () => {
  test('a seat is placed at zone + row + seat, and areas with their rotation', () => {
    const { plan: read } = imported(
      plan([
        {
          position: { x: 100, y: 50 },
          rows: [row('1', [seat('a', 5), seat('b', 30.5)], { position: { x: 10, y: 20 } })],
          areas: [
            {
              shape: 'rectangle',
              rotation: 90,
              position: { x: 200, y: 0 },
              rectangle: { width: 40, height: 10 },
            },
            { shape: 'ellipse', rotation: 15, position: { x: 1, y: 2 }, ellipse: { radius: { x: 3, y: 4 } } },
          ],
        },
      ]),
    );
    const [a, b] = read.sections[0]!.rows[0]!.seats;
    assert.deepEqual([a!.x, a!.y, b!.x, b!.y], [115, 70, 140.5, 70]);
    assert.deepEqual(read.decorations[0]!.shape, {
      kind: 'polygon',
      points: [
        [300, 50],
        [300, 90],
        [290, 90],
        [290, 50],
      ],
    });
    assert.deepEqual(read.decorations[1]!.shape, {
      kind: 'ellipse',
      cx: 101,
      cy: 52,
      rx: 3,
      ry: 4,
      rotation: 15,
    });
  });

  test('the older form: no size, flat areas, number_of_seats', () => {
    const { plan: read, report } = imported({
      name: 'Old',
      categories: [{ name: 'A' }],
      zones: [
        {
          name: 'Z',
          displayed: true,
          position: { x: 0, y: 0 },
          rows: [row('1', [seat('a', 0), seat('b', 30)], { number_of_seats: 2, seats_spacing: 30 })],
          areas: [{ position: { x: 10, y: 10 }, width: 100, height: 20, text: 'Stage', color: '#000' }],
        },
      ],
    });
    assert.deepEqual(warned(report), ['no_size']);
    assert.equal(read.width, 60);
    assert.deepEqual(
      read.decorations.map((decoration) => decoration.shape.kind),
      ['polygon', 'text'],
    );
  });

  test('labels are kept exactly: "1", "01" and "1_DA" in one row, a row named by a space', () => {
    const { plan: read, report } = imported(
      plan([
        {
          rows: [
            row(
              ' ',
              ['1', '01', '1_DA'].map((n, i) => seat(`g${i}`, i * 25, { seat_number: n })),
            ),
          ],
        },
      ]),
    );
    assert.deepEqual(
      read.sections[0]!.rows[0]!.seats.map(({ label }) => label),
      ['1', '01', '1_DA'],
    );
    assert.equal(read.sections[0]!.rows[0]!.label, ' ');
    assert.deepEqual(warned(report), ['blank_rows']);
  });

  test('odd and even sides, mirrored numbers and centre blocks stay in the order in which people sit', () => {
    const numbers = ['5', '3', '1', '2', '4', '6'];
    const { plan: read } = imported(
      plan([
        {
          rows: [
            row(
              'A',
              numbers.map((n, i) => seat(`g${n}`, 200 - i * 25, { seat_number: n })),
            ),
          ],
        },
      ]),
    );
    const seats = read.sections[0]!.rows[0]!.seats;
    assert.deepEqual(
      seats.map(({ label }) => label),
      numbers,
    );
    assert.ok(seats.every(({ breakAfter }) => !breakAfter));
  });

  test('a row listed by odd numbers first, then even ones, is put in order along the row', () => {
    const listed = [0, 50, 100, 150, 25, 75, 125, 175].map((x) => seat(`g${x}`, x));
    const { plan: read, report } = imported(plan([{ rows: [row('A', listed)] }]));
    assert.deepEqual(
      read.sections[0]!.rows[0]!.seats.map(({ x }) => x),
      [0, 25, 50, 75, 100, 125, 150, 175],
    );
    assert.deepEqual(warned(report), ['row_reordered']);
  });

  test('an aisle inside a row is a break, whether stated or told from the distance', () => {
    const stated = [
      seat('a', 0),
      seat('b', 25, { aisle_after: true }),
      seat('c', 50, { break_after: false }),
      seat('d', 150),
    ];
    const told = [seat('e', 0), seat('f', 25), seat('g', 50), seat('h', 125), seat('i', 150)];
    const { plan: read } = imported(
      plan([{ rows: [row('A', stated), row('B', told, { position: { x: 0, y: 40 } })] }]),
    );
    const breaks = read.sections[0]!.rows.map(({ seats }) =>
      seats.filter((s) => s.breakAfter).map((s) => s.seatGuid),
    );
    assert.deepEqual(breaks, [['b'], ['g']]);
  });

  test('accessible, companion and restricted-view places by list or by flags', () => {
    const { report, plan: read } = imported(
      plan([
        {
          rows: [
            row('A', [
              seat('a', 0, { accessible: true }),
              seat('b', 25, { companion: true, restricted_view: false }),
              seat('c', 50, { attributes: ['restricted-view', 'accessible'] }),
            ]),
          ],
        },
      ]),
    );
    assert.deepEqual(report.attributes, { accessible: 2, companion: 1, restrictedView: 1 });
    assert.deepEqual(read.sections[0]!.rows[0]!.seats[2]!.attributes, ['accessible', 'restricted-view']);
  });

  test('areas with a capacity are general admission, alone or next to rows; a box is sold as a unit', () => {
    const standing = (capacity: number, more: Json = {}): Json => ({
      shape: 'polygon',
      rotation: 0,
      position: { x: 0, y: 0 },
      polygon: {
        points: [
          { x: 0, y: 0 },
          { x: 100, y: 0 },
          { x: 100, y: 50 },
        ],
      },
      capacity,
      category: 'A',
      ...more,
    });
    const { plan: read, report } = imported(
      plan([
        { name: 'Floor', zone_id: 'floor', group: 'Ground', areas: [standing(300)] },
        {
          name: 'Club',
          zone_id: 'club',
          sell_as_unit: true,
          rows: [row('1', [seat('a', 0)])],
          areas: [standing(20, { label: 'Bar' })],
        },
      ]),
    );
    assert.deepEqual(
      read.sections.map(({ id, name, kind, capacity, sellAsUnit, group }) => [
        id,
        name,
        kind,
        capacity,
        sellAsUnit,
        group,
      ]),
      [
        ['floor', 'Floor', 'ga', 300, false, 'Ground'],
        ['club', 'Club', 'seated', 0, true, ''],
        ['club-Bar', 'Bar', 'ga', 20, false, ''],
      ],
    );
    assert.deepEqual([report.seats, report.gaUnits, report.numberedSeats], [321, 320, 1]);
  });

  test('unknown keys are warnings and kept', () => {
    const { plan: read, report } = imported(
      plan([
        {
          uuid: 'z',
          rows: [row('A', [seat('a', 0, { radius: 12, shade: { of: ['blue'] } })], { row_label: 'Row %s' })],
        },
      ]),
    );
    assert.deepEqual(warned(report), ['unknown_key']);
    assert.deepEqual(report.warnings[0]!.places, ['$.zones[0].rows[0].seats[0].shade']);
    assert.deepEqual(read.sections[0]!.rows[0]!.seats[0]!.extras, { radius: 12, shade: { of: ['blue'] } });
    assert.deepEqual(read.sections[0]!.rows[0]!.extras, { row_label: 'Row %s' });
    assert.deepEqual(read.sections[0]!.extras, { uuid: 'z' });
  });

  test('odd positions are kept and told: overlaps, far away, outside the size', () => {
    const seats = Array.from({ length: 30 }, (_, i) => seat(`g${i}`, i * 25));
    const { report } = imported(
      plan([{ rows: [row('A', [...seats, seat('far', -1_995_039), seat('same', 25)])] }]),
    );
    assert.ok(
      ['overlap', 'outside_size', 'far_apart'].every((code) => warned(report).includes(code)),
      String(warned(report)),
    );
    assert.equal(report.bounds!.left, -1_995_039);
  });

  test('one label for two seats has to be settled before the sale', () => {
    const twice = {
      rows: [
        row('A', [seat('a', 0, { seat_number: '1' })]),
        row('A', [seat('b', 0, { seat_number: '1' })], { position: { x: 0, y: 40 } }),
      ],
    };
    const { report } = imported(plan([twice]));
    assert.deepEqual(
      report.warnings.map(({ code, beforeSale, count }) => [code, beforeSale, count]),
      [['ambiguous_labels', true, 1]],
    );
  });

  test('names in any script; section ids are url-safe, unique and the same every time', () => {
    const names = ['Стояча зона', '西下A', 'Block A', 'Block A', '홈 응원석', 'Übersee'];
    const read = () =>
      imported(plan(names.map((name, i) => ({ name, rows: [row('A', [seat(`g${i}`, i)])] })))).plan.sections;
    const ids = read().map(({ id }) => id);
    assert.deepEqual(
      read().map(({ name }) => name),
      names,
    );
    assert.equal(new Set(ids).size, names.length);
    assert.ok(
      ids.every((id) => /^[A-Za-z0-9._-]{1,64}$/.test(id)),
      ids.join(' '),
    );
    assert.deepEqual(
      read().map(({ id }) => id),
      ids,
    );
    assert.deepEqual(ids.slice(2, 4), ['Block-A', 'Block-A-2']);
  });
});

describe('pretix plans that are refused, with the place', () => {
  const one = [{ rows: [row('A', [seat('a', 0)])] }];

  test('duplicate ids, each with where it stood first', () => {
    const outcome = refused(
      plan([{ rows: [row('A', [seat('a', 0), seat('a', 25)]), row('B', [seat('a', 0)])] }]),
    );
    assert.deepEqual(
      outcome.problems.map(({ code, place }) => `${code} ${place}`),
      ['duplicate_guid $.zones[0].rows[0].seats[1]', 'duplicate_guid $.zones[0].rows[1].seats[0]'],
    );
    assert.match(outcome.problems[0]!.sentence, /"a".*\$\.zones\[0\]\.rows\[0\]\.seats\[0\]/);
  });

  test('the list of problems is capped, their number is not', () => {
    const outcome = refused(
      plan([
        {
          rows: [
            row(
              'A',
              Array.from({ length: 250 }, () => seat('same', 0)),
            ),
          ],
        },
      ]),
    );
    assert.equal(outcome.problems.length, 100);
    assert.equal(outcome.problemCount, 249);
  });

  test('an id that collides with a unit of a standing area', () => {
    const area = {
      shape: 'circle',
      position: { x: 0, y: 0 },
      circle: { radius: 50 },
      capacity: 5,
      category: 'A',
    };
    const zones = [
      { zone_id: 'f', areas: [area] },
      { name: 'B', rows: [row('A', [seat('f#3', 0)])] },
    ];
    assert.deepEqual(codes(plan(zones)), ['duplicate_guid $.zones[1].rows[0].seats[0]']);
  });

  const wrong: [string, unknown, string][] = [
    [
      'an unknown category',
      plan([{ rows: [row('A', [seat('a', 0, { category: 'B' })])] }]),
      'unknown_category $.zones[0].rows[0].seats[0].category',
    ],
    ['no seat at all', plan([{}]), 'no_seats $'],
    [
      'a number where a label belongs',
      plan([{ rows: [row('A', [seat('a', 0, { seat_number: 1 })])] }]),
      'wrong_type $.zones[0].rows[0].seats[0].seat_number',
    ],
    [
      'a boolean as text',
      plan([{ rows: [row('A', [seat('a', 0, { accessible: 'true' })])] }]),
      'wrong_type $.zones[0].rows[0].seats[0].accessible',
    ],
    [
      'a position as text',
      plan([{ rows: [row('A', [seat('a', 0, { position: { x: '1', y: 0 } })])] }]),
      'wrong_type $.zones[0].rows[0].seats[0].position.x',
    ],
    [
      'a missing position',
      plan([{ rows: [row('A', [seat('a', 0, { position: undefined })])] }]),
      'wrong_type $.zones[0].rows[0].seats[0].position',
    ],
    [
      'an empty id',
      plan([{ rows: [row('A', [seat('', 0)])] }]),
      'empty_guid $.zones[0].rows[0].seats[0].seat_guid',
    ],
    [
      'a label that is too long',
      plan([{ rows: [row('A', [seat('a', 0, { seat_number: 'x'.repeat(191) })])] }]),
      'label_too_long $.zones[0].rows[0].seats[0].seat_number',
    ],
    [
      'a control character',
      plan([{ rows: [row('A\u0007', [seat('a', 0)])] }]),
      'unprintable_text $.zones[0].rows[0].row_number',
    ],
    [
      'half a surrogate pair',
      plan([{ name: 'x\ud800', rows: [row('A', [seat('a', 0)])] }]),
      'unprintable_text $.zones[0].name',
    ],
    [
      'text that turns the writing direction',
      plan([{ name: 'A\u202eB', rows: [row('A', [seat('a', 0)])] }]),
      'unprintable_text $.zones[0].name',
    ],
    [
      'a category named twice',
      plan(one, { categories: [{ name: 'A' }, { name: 'A' }] }),
      'duplicate_category $.categories[1]',
    ],
    [
      'an attribute that does not exist',
      plan([{ rows: [row('A', [seat('a', 0, { attributes: ['vip'] })])] }]),
      'unknown_attribute $.zones[0].rows[0].seats[0].attributes[0]',
    ],
    [
      'an unknown shape',
      plan([{ ...one[0], areas: [{ shape: 'star', position: { x: 0, y: 0 } }] }]),
      'unknown_shape $.zones[0].areas[0].shape',
    ],
    [
      'a capacity of 2.5',
      plan([
        {
          areas: [
            {
              shape: 'circle',
              position: { x: 0, y: 0 },
              circle: { radius: 9 },
              capacity: 2.5,
              category: 'A',
            },
          ],
        },
      ]),
      'bad_capacity $.zones[0].areas[0].capacity',
    ],
    [
      'too many rows',
      plan([{ rows: Array.from({ length: 1001 }, () => row('A', [])) }]),
      'too_many $.zones[0].rows',
    ],
    ['a list where the plan should be', '[1,2]', 'wrong_type $'],
    ['no zones', { name: 'x', categories: [] }, 'wrong_type $.zones'],
  ];
  for (const [what, value, problem] of wrong) {
    test(what, () => {
      assert.ok(codes(value).includes(problem), codes(value).join('\n'));
    });
  }

  test('more than 200,000 seats, also by capacity, without counting them all', () => {
    const area = {
      shape: 'circle',
      position: { x: 0, y: 0 },
      circle: { radius: 50 },
      capacity: 200_000,
      category: 'A',
    };
    const problems = codes(plan([{ areas: Array.from({ length: 50 }, () => area) }]));
    assert.deepEqual(problems, ['too_many $.zones']);
  });

  test('broken JSON, with its line', () => {
    assert.deepEqual(codes('{\n "name": "x",\n "zones": [,]\n}'), ['broken_json line 3']);
    assert.deepEqual(codes('{"name": "x"'), ['broken_json line 1']);
  });
});
