import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import fc from 'fast-check';
import { planLimits } from '../../src/core/seat-map.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { importPlan } from '../../src/plans/import-plan.ts';
import { lineOfJsonFault } from '../../src/plans/json-fault.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const head = '{"name":"x","categories":[{"name":"A"}],"size":{"width":10,"height":10},';
const oneSeat = (more: string): string =>
  `${head}"zones":[{"name":"Z","position":{"x":0,"y":0},"rows":[{"row_number":"A","position":{"x":0,"y":0},"seats":[
  {"seat_guid":"a","seat_number":"1","category":"A","position":{"x":0,"y":0}${more}}]}]}]}`;

function firstProblem(text: string): string {
  const outcome = importPlan(bytes(text));
  assert.equal(outcome.kind, 'refused');
  return outcome.kind === 'refused' ? `${outcome.problems[0]!.code} ${outcome.problems[0]!.place}` : '';
}

describe('hostile files are refused with a place, never thrown over', () => {
  const hostile: [string, string, string][] = [
    [
      'a prototype key',
      oneSeat(',"__proto__":{"polluted":true}'),
      'forbidden_key $.zones[0].rows[0].seats[0]',
    ],
    [
      'a constructor key deep in a foreign value',
      oneSeat(',"x":{"y":[{"constructor":1}]}'),
      'forbidden_key $.zones[0].rows[0].seats[0].x',
    ],
    [
      'infinity',
      oneSeat('').replace('"x":0,"y":0}}', '"x":1e999,"y":0}}'),
      'number_out_of_range $.zones[0].rows[0].seats[0].position.x',
    ],
    [
      'infinity in a foreign value',
      oneSeat(',"x":[-1e999]'),
      'number_out_of_range $.zones[0].rows[0].seats[0].x',
    ],
    [
      'a number beyond all venues',
      oneSeat('').replace('"x":0,"y":0}}', '"x":100000001,"y":0}}'),
      'number_out_of_range $.zones[0].rows[0].seats[0].position.x',
    ],
    ['NaN, which is no JSON', oneSeat('').replace('"x":0,"y":0}}', '"x":NaN,"y":0}}'), 'broken_json line 2'],
    ['nesting beyond the format', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'too_deep line 1'],
    [
      'a foreign value nested deeper than we carry',
      oneSeat(`,"x":${'['.repeat(12)}${']'.repeat(12)}`),
      'too_deep $.zones[0].rows[0].seats[0].x',
    ],
    [
      'a zero character in a foreign text',
      oneSeat(',"x":"a\\u0000b"'),
      'unprintable_text $.zones[0].rows[0].seats[0].x',
    ],
    [
      'half a surrogate in a foreign key',
      oneSeat(',"x":{"\\ud800":1}'),
      'forbidden_key $.zones[0].rows[0].seats[0].x',
    ],
    ['nothing', '', 'empty_file line 1'],
    ['spaces', ' \n ', 'empty_file line 1'],
    ['masses of objects', `[${'{},'.repeat(4_000_001)}{}]`, 'too_many $'],
    [
      'masses of keys',
      oneSeat(Array.from({ length: 300 }, (_, i) => `,"k${i}":1`).join('')),
      'too_many $.zones[0].rows[0].seats[0]',
    ],
    ['an endless line', `section,seat\n${','.repeat(70_000)}`, 'line_too_long line 2'],
    ['masses of lines', `section,seat\n${'\n'.repeat(500_001)}`, 'too_many line 500000'],
    ['a quote that never closes', `section,seat\nA,1\nB,"2\n${'x\n'.repeat(50)}`, 'broken_csv line 53'],
  ];
  for (const [what, text, problem] of hostile) {
    test(what, () => assert.equal(firstProblem(text), problem));
  }

  test('an object that was refused changed no other object', () => {
    importPlan(bytes(oneSeat(',"__proto__":{"polluted":true}')));
    assert.equal(({} as Record<string, unknown>).polluted, undefined);
  });

  test('a file over the limit is not even decoded', () => {
    const outcome = importPlan(new Uint8Array(planLimits.fileBytesMax + 1));
    assert.equal(outcome.kind === 'refused' && outcome.problems[0]!.code, 'file_too_large');
  });

  test('bytes that are no text in the encoding they claim', () => {
    const outcome = importPlan(Uint8Array.of(0xff, 0xfe, 0x00, 0xd8, 0x41, 0x00));
    assert.equal(outcome.kind === 'refused' && outcome.problems[0]!.code, 'broken_encoding');
    const latin = importPlan(Uint8Array.of(0x7b, 0xe9, 0x7d), { format: 'pretix' });
    assert.equal(latin.kind === 'refused' && latin.problems[0]!.code, 'broken_encoding');
  });

  test('any bytes get an answer', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 300 }),
        fc.constantFrom('csv', 'pretix', undefined),
        (data, format) => {
          const outcome = importPlan(data, { format });
          return outcome.kind === 'imported' || outcome.problems.length > 0;
        },
      ),
      { numRuns: 500 },
    );
  });

  test('any JSON in any place of a plan gets an answer', () => {
    const whole = generateStadium({ seats: 100 }) as unknown;
    const places = placesOf(whole).filter((_, i) => i % 3 === 0);
    fc.assert(
      fc.property(fc.constantFrom(...places), fc.jsonValue({ maxDepth: 3 }), (place, value) => {
        const outcome = importPlan(bytes(JSON.stringify(replaced(whole, place, value))));
        return outcome.kind === 'imported' || outcome.problems.length > 0;
      }),
      { numRuns: 300 },
    );
  });

  test('any text in the cells of a manifest gets an answer', () => {
    const cell = fc.string({ unit: 'binary', maxLength: 12 });
    fc.assert(
      fc.property(fc.array(fc.array(cell, { minLength: 3, maxLength: 3 }), { maxLength: 20 }), (lines) => {
        const text = lines
          .map((cells) => cells.map((c) => `"${c.replaceAll('"', '""')}"`).join(','))
          .join('\n');
        const outcome = importPlan(bytes(`section,row,seat\n${text}`), { format: 'csv' });
        return outcome.kind === 'imported' || outcome.problems.length > 0;
      }),
      { numRuns: 500 },
    );
  });
});

describe('the line on which JSON breaks', () => {
  test('is found for what the parser refuses, and only that', () => {
    fc.assert(
      fc.property(
        fc.json(),
        fc.nat(),
        fc.constantFrom('', ',', '}', '"', '\\', ':', '01', 'nul'),
        (json, at, insert) => {
          const cut = at % (json.length + 1);
          const text = json.slice(0, cut) + insert + json.slice(cut);
          let broken = false;
          try {
            JSON.parse(text);
          } catch {
            broken = true;
          }
          return !broken || lineOfJsonFault(`\n\n${text}`) === 3;
        },
      ),
    );
    assert.equal(lineOfJsonFault('{\n"a": 1,\n"b": [1,\n2,,3]}'), 4);
    assert.equal(lineOfJsonFault(`{"a":\n"${'x'.repeat(5_000_000)}"\n;`), 3);
  });
});

function placesOf(value: unknown, at: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== 'object' || value === null) return [at];
  return [at, ...Object.entries(value).flatMap(([key, inner]) => placesOf(inner, [...at, key]))];
}

function replaced(value: unknown, [key, ...rest]: readonly (string | number)[], put: unknown): unknown {
  if (key === undefined) return put;
  if (Array.isArray(value))
    return value.map((item, i) => (i === Number(key) ? replaced(item, rest, put) : item));
  const from = value as Record<string, unknown>;
  return { ...from, [key]: replaced(from[key], rest, put) };
}
