import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { insidePolygon } from '../../src/core/plan-geometry.ts';
import { planSeatGuids } from '../../src/core/plan-layout.ts';
import type { PlanReport } from '../../src/core/plan-report.ts';
import type { SeatingPlan } from '../../src/core/seat-map.ts';
import { type ImportOptions, importPlan } from '../../src/plans/import-plan.ts';

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

function imported(
  file: string | Uint8Array,
  options: ImportOptions = {},
): { plan: SeatingPlan; report: PlanReport } {
  const outcome = importPlan(typeof file === 'string' ? encode(file) : file, { format: 'csv', ...options });
  assert.equal(outcome.kind, 'imported', JSON.stringify(outcome.kind === 'refused' ? outcome.problems : ''));
  assert.ok(outcome.kind === 'imported');
  return outcome;
}

function problems(file: string, options: ImportOptions = {}): string[] {
  const outcome = importPlan(encode(file), { format: 'csv', ...options });
  assert.ok(outcome.kind === 'refused', 'refused');
  return outcome.problems.map(({ code, place }) => `${code} ${place}`);
}

const warned = (report: PlanReport): string[] => report.warnings.map(({ code }) => code);
const labels = (plan: SeatingPlan): string[][] =>
  plan.sections.flatMap((section) => section.rows.map((row) => row.seats.map((seat) => seat.label)));
const breaks = (plan: SeatingPlan): string[] =>
  plan.sections.flatMap((s) =>
    s.rows.flatMap((r) => r.seats.filter((seat) => seat.breakAfter).map((seat) => seat.label)),
  );

describe('manifests: the file', () => {
  test('a byte order mark, semicolons, CRLF, quotes with line breaks', () => {
    const { plan, report } = imported(
      '\ufeffBlock;Reihe;"Sitz\r\nnummer"\r\n"Süd ""A""";1;1\r\n"Süd\r\n""B""";1;01\r\n',
    );
    assert.deepEqual(
      plan.sections.map(({ name }) => name),
      ['Süd "A"', 'Süd "B"'],
    );
    assert.deepEqual(warned(report), ['line_breaks', 'no_categories', 'no_positions']);
    assert.deepEqual(report.warnings[0]!.places, ['line 4']);
  });

  test('tabs in UTF-16, with and without a mark', () => {
    const text = 'Сектор\tРяд\tМісце\nА\t1\t1\nА\t1\t2\n';
    const little = Buffer.from(`\ufeff${text}`, 'utf16le');
    const big = Buffer.from(little).swap16();
    const bare = Buffer.from('section\trow\tseat\nA\t1\t1\n', 'utf16le');
    assert.deepEqual(labels(imported(little).plan), [['1', '2']]);
    assert.equal(imported(big).plan.sections[0]!.name, 'А');
    assert.deepEqual(labels(imported(bare).plan), [['1']]);
  });

  test('Windows-1252 with a warning; another encoding when it is named', () => {
    const western = Buffer.from('section;seat\nCôté;1\n', 'latin1');
    const { plan, report } = imported(western);
    assert.equal(plan.sections[0]!.name, 'Côté');
    assert.ok(warned(report).includes('guessed_encoding'));
    const cyrillic = Uint8Array.of(...encode('section;seat\n'), 0xd1, 0xe5, 0xea, ...encode(';1\n'));
    assert.equal(imported(cyrillic, { encoding: 'windows-1251' }).plan.sections[0]!.name, 'Сек');
  });

  test('the separator that a spreadsheet states, lines of separators, blank lines', () => {
    const { report, plan } = imported('sep=;\nsection;row;seat\n\nA;1;1\n;;\nA;1;2\n\n');
    assert.deepEqual(labels(plan), [['1', '2']]);
    assert.deepEqual(report.warnings.find(({ code }) => code === 'blank_lines')!.places, ['line 5']);
  });

  test('corrupt lines are refused with their numbers', () => {
    const file = 'section,row,seat\nA,1,1\nA,1\n,1,2\nA,1,\n"A\nB",1,1,9\nA,1,4\n\u0001,1,1';
    assert.deepEqual(problems(file), [
      'wrong_column_count line 3',
      'empty_section line 4',
      'empty_seat line 5',
      'wrong_column_count line 6',
      'unprintable_text line 9',
    ]);
  });
});

describe('manifests: the columns', () => {
  test('usual names are understood in several languages', () => {
    for (const header of [
      'Section,Row,Seat_Number',
      'block;REIHE;Platz',
      'Сектор|Ряд|Место',
      'zone\trow number\tcol-number',
    ]) {
      const separator = /[,;|\t]/.exec(header)![0];
      assert.equal(
        imported(`${header}\n${['A', '1', '2'].join(separator)}`).plan.sections[0]!.rows[0]!.seats[0]!.label,
        '2',
      );
    }
  });

  test('what cannot be guessed is asked for, with the headers found', () => {
    const outcome = importPlan(encode('wing,line,chair\nA,1,1'), { format: 'csv' });
    assert.ok(outcome.kind === 'refused');
    assert.equal(outcome.problems[0]!.code, 'mapping_needed');
    assert.match(outcome.problems[0]!.sentence, /section and the seat.*"wing", "line", "chair"/);
    const mapping = { section: 'wing', row: 'line', seat: 'Chair' };
    assert.deepEqual(labels(imported('wing,line,chair\nA,1,1', { mapping }).plan), [['1']]);
  });

  test('a section may be several columns; a column that is missing or stands twice is named', () => {
    const file = 'tribune,sector,row,seat\nwest,1,1,1\neast,1,1,1';
    const { plan } = imported(file, { mapping: { section: 'tribune+sector' } });
    assert.deepEqual(
      plan.sections.map(({ name, group }) => [name, group]),
      [
        ['west 1', ''],
        ['east 1', ''],
      ],
    );
    assert.deepEqual(
      imported(file).plan.sections.map(({ name, group }) => [name, group]),
      [
        ['1', 'west'],
        ['1', 'east'],
      ],
    );
    assert.deepEqual(problems(file, { mapping: { section: 'stand' } }), ['unknown_column line 1']);
  });

  test('a column name that stands twice cannot be mapped', () => {
    assert.deepEqual(problems('section,seat,seat\nA,1,2', { mapping: { seat: 'seat' } }), [
      'ambiguous_column line 1',
    ]);
  });

  test('one of x and y alone is not enough', () => {
    assert.deepEqual(problems('section,seat,x,up\nA,1,2,3', { mapping: { x: 'x' } }), [
      'mapping_needed line 1',
    ]);
  });
});

describe('manifests: seats', () => {
  test('labels are text: 1, 01 and 1_DA are three seats', () => {
    assert.deepEqual(labels(imported('section,row,seat\nA,1,1\nA,1,01\nA,1,1_DA').plan), [
      ['1', '01', '1_DA'],
    ]);
  });

  test('ranges and lists are expanded with a warning, and their gaps are breaks', () => {
    const { plan, report } = imported(
      'section,row,seat\nA,1,"1-3, 5-6"\nA,2,"1,3,5"\nA,3,08-10\nA,4,12-10\nA,5,7',
    );
    assert.deepEqual(labels(plan), [
      ['1', '2', '3', '5', '6'],
      ['1', '3', '5'],
      ['08', '09', '10'],
      ['12', '11', '10'],
      ['7'],
    ]);
    assert.deepEqual(breaks(plan), ['3']);
    assert.deepEqual(report.warnings.find(({ code }) => code === 'ranges_expanded')!.count, 4);
    assert.deepEqual(problems('section,row,seat\nA,1,1-5000'), ['too_many line 2']);
  });

  test('a jump in the numbers is an assumed gap; odd and even sides, a turn in the middle and a late start are none', () => {
    const row = (name: string, seats: (string | number)[]): string =>
      seats.map((seat) => `A,${name},${seat}`).join('\n');
    const rows = [
      row('1', [13, 14, 15, 21, 22]),
      row('2', [7, 5, 3, 1, 2, 4, 6, 8]),
      row('3', [5, 6, 7]),
      row('4', ['a', 'b', 'd']),
    ];
    const { plan, report } = imported(`section,row,seat\n${rows.join('\n')}`);
    assert.deepEqual(breaks(plan), ['15']);
    assert.ok(warned(report).includes('assumed_gap'));
  });

  test('lines of one row need not stand together (column by column)', () => {
    const { plan } = imported('section,row,seat\nA,1,1\nA,2,1\nA,1,2\nA,2,2');
    assert.deepEqual(labels(plan), [
      ['1', '2'],
      ['1', '2'],
    ]);
  });

  test('rows that share a label are separated by order, with a warning before the sale', () => {
    const { plan, report } = imported('section,row,seat\nA,1,1\nA,1,2\nA,2,1\nA,1,1\nA,1,2');
    assert.deepEqual(labels(plan), [['1', '2'], ['1', '2'], ['1']]);
    assert.equal(new Set(planSeatGuids(plan)).size, 5);
    assert.deepEqual(
      report.warnings.filter(({ beforeSale }) => beforeSale).map(({ code }) => code),
      ['repeated_row', 'ambiguous_labels'],
    );
  });

  test('a line that stands twice is refused: one chair must not be sold twice', () => {
    assert.deepEqual(problems('section,row,seat\nA,1,1\nA,1,2\nA,1,2\nA,2,1'), ['duplicate_seat line 4']);
  });

  test('ids from the file are identity; one that stands twice is refused with both lines', () => {
    const { plan } = imported('seat_id,section,row,seat\nx9,A,1,1\nx8,A,1,2');
    assert.deepEqual(planSeatGuids(plan), ['x9', 'x8']);
    assert.deepEqual(problems('seat_id,section,row,seat\nx9,A,1,1\nx9,A,1,2'), ['duplicate_guid line 3']);
    assert.deepEqual(problems('seat_id,section,row,seat\n,A,1,1'), ['empty_id line 2']);
  });

  test('reading a file again, or with its lines in another order, gives the same seats', () => {
    const lines = ['А,1,1', 'А,1,2', 'Б/В,1,1', 'Б,В/1,1'];
    const guids = (order: string[]): Set<string> =>
      new Set(planSeatGuids(imported(`section,row,seat\n${order.join('\n')}`).plan));
    assert.equal(guids(lines).size, 4);
    assert.deepEqual(guids(lines), guids(lines));
    assert.deepEqual(guids([...lines].reverse()), guids(lines));
  });

  test('a composed and a decomposed é are one section; the first way of writing is kept', () => {
    const { plan } = imported('section,row,seat\ncafe\u0301,1,1\ncaf\u00e9,1,2');
    assert.deepEqual(
      plan.sections.map(({ name }) => name),
      ['cafe\u0301'],
    );
  });

  test('a capacity without a seat is general admission', () => {
    const { plan, report } = imported(
      'section,row,seat,capacity,category\nFloor,,,500,Standing\nFloor,,,100,Standing\nA,1,1,,Gold',
    );
    assert.deepEqual(
      plan.sections.map(({ name, kind, capacity, category }) => [name, kind, capacity, category]),
      [
        ['A', 'seated', 0, ''],
        ['Floor', 'ga', 600, 'Standing'],
      ],
    );
    assert.deepEqual([report.seats, report.gaUnits], [601, 600]);
    assert.deepEqual(problems('section,seat,capacity\nF,,many\nG,,0'), [
      'bad_capacity line 2',
      'bad_capacity line 3',
    ]);
  });

  test('a column that seems to count seats is pointed out', () => {
    const rows = Array.from({ length: 20 }, (_, i) => `A,${i + 1},36`).join('\n');
    assert.ok(warned(imported(`section,row,seat\n${rows}`).report).includes('probably_counts'));
  });

  test('too many rows or seats in a row', () => {
    const rows = Array.from({ length: 1001 }, (_, i) => `A,${i},1`).join('\n');
    assert.deepEqual(problems(`section,row,seat\n${rows}`), ['too_many section A']);
    const seats = Array.from({ length: 1001 }, (_, i) => `A,1,s${i}`).join('\n');
    assert.deepEqual(problems(`section,row,seat\n${seats}`), ['too_many section A']);
  });
});

describe('manifests: the drawing', () => {
  const grid = (name: string): string[] =>
    Array.from(
      { length: 24 },
      (_, i) => `${name},${(i >> 3) + 4},${(i % 8) + 1},${(i % 8) + (i % 8 > 3 ? 2 : 1)},${i >> 3}`,
    );
  const sectionBoxes = (plan: SeatingPlan) =>
    plan.sections.map((section) => {
      const points = [
        ...section.rows.flatMap((row) => row.seats.map(({ x, y }) => [x, y])),
        ...section.outline,
      ];
      const xs = points.map((p) => p[0]!);
      const ys = points.map((p) => p[1]!);
      return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
    });
  const noneOverlap = (plan: SeatingPlan): void => {
    const boxes = sectionBoxes(plan);
    boxes.forEach((a, i) => {
      assert.ok(
        a.left >= 0 && a.top >= 0 && a.right <= plan.width && a.bottom <= plan.height,
        `section ${i} is inside`,
      );
      for (const b of boxes.slice(i + 1)) {
        assert.ok(
          a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top,
          `section ${i} lies apart`,
        );
      }
    });
  };

  test('positions within sections: sections are laid out apart, aisles of the grid stay, printed numbers too', () => {
    const file = `section,row,seat,x,y\n${['A', 'B', 'C'].flatMap(grid).join('\n')}`;
    const { plan, report } = imported(file);
    assert.ok(warned(report).includes('positions_within_sections'));
    noneOverlap(plan);
    assert.deepEqual(labels(plan)[0], ['1', '2', '3', '4', '5', '6', '7', '8']);
    assert.equal(breaks(plan).length, 9);
    assert.equal(plan.sections[0]!.rows[0]!.label, '4');
  });

  test('positions of the venue are kept, brought to a usual scale, also with a decimal comma', () => {
    const { plan } = imported('section;row;seat;x;y\nA;1;1;-1,5;2\nA;1;2;-1;2\nA;1;3;-0,5;2\nA;1;4;1,5;2');
    const seats = plan.sections[0]!.rows[0]!.seats;
    assert.deepEqual(
      seats.map(({ x }) => x),
      [30, 55, 80, 180],
    );
    assert.deepEqual(breaks(plan), ['3']);
    assert.deepEqual(problems('section,row,seat,x,y\nA,1,1,left,1e999'), [
      'bad_number line 2',
      'bad_number line 2',
    ]);
    assert.deepEqual(problems('section,row,seat,x,y\nA,1,1-4,1,1'), ['range_with_position line 2']);
  });

  test('stands named after compass points go around a pitch, each on its side', () => {
    const stands = ['North', 'South', 'West', 'East'];
    const lines = stands.flatMap((stand) =>
      ['1', '2', '3'].flatMap((s) =>
        Array.from({ length: 40 }, (_, i) => `${stand},${stand[0]}${s},${(i >> 3) + 1},${(i % 8) + 1}`),
      ),
    );
    const { plan } = imported(`stand,section,row,seat\n${lines.join('\n')}`);
    noneOverlap(plan);
    const pitch = plan.decorations.find(({ label }) => label === 'Pitch')!.shape;
    assert.ok(pitch.kind === 'polygon');
    const [cx, cy] = [
      (pitch.points[0]![0] + pitch.points[2]![0]) / 2,
      (pitch.points[0]![1] + pitch.points[2]![1]) / 2,
    ];
    const sides: Record<string, (x: number, y: number) => boolean> = {
      North: (_, y) => y < cy,
      South: (_, y) => y > cy,
      West: (x) => x < cx,
      East: (x) => x > cx,
    };
    for (const section of plan.sections) {
      const seats = section.rows.flatMap((row) => row.seats);
      assert.ok(
        seats.every(({ x, y }) => sides[section.group]!(x, y) && !insidePolygon(x, y, pitch.points)),
        section.name,
      );
      const away = ({ x, y }: { x: number; y: number }): number =>
        section.group === 'North' || section.group === 'South' ? Math.abs(y - cy) : Math.abs(x - cx);
      const first = away(section.rows[0]!.seats[0]!);
      const last = away(section.rows.at(-1)!.seats[0]!);
      assert.ok(first < last, 'the first row is nearest to the pitch');
    }
  });

  test('other groups become bands of blocks under their names', () => {
    const lines = ['Stalls', 'Circle'].flatMap((g) =>
      ['L', 'M', 'R'].flatMap((s) =>
        Array.from({ length: 30 }, (_, i) => `${g},${s},${(i >> 3) + 1},${(i % 8) + 1}`),
      ),
    );
    const { plan } = imported(`level,section,row,seat\n${lines.join('\n')}\n`);
    noneOverlap(plan);
    assert.deepEqual(
      plan.decorations.map(({ shape }) => shape.kind === 'text' && shape.text),
      ['Stalls', 'Circle'],
    );
  });
});
