import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test, { describe } from 'node:test';
import fc from 'fast-check';
import type { SeatingPlan } from '../../src/core/seat-map.ts';
import { exportPretix } from '../../src/plans/export-pretix.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { type ImportOptions, importPlan } from '../../src/plans/import-plan.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { arbitraryPlan } from '../support/plans.ts';

const examples = path.join(projectDir, 'examples/plans');

function importedFrom(bytes: Uint8Array, options: ImportOptions = {}): SeatingPlan {
  const outcome = importPlan(bytes, options);
  assert.ok(outcome.kind === 'imported', JSON.stringify(outcome.kind === 'refused' && outcome.problems));
  return outcome.plan;
}

const again = (plan: SeatingPlan): SeatingPlan =>
  importedFrom(new TextEncoder().encode(JSON.stringify(exportPretix(plan))));

describe('plan → export → import', () => {
  test('gives an equal plan, foreign keys included', () => {
    fc.assert(
      fc.property(arbitraryPlan(), (plan) => assert.deepEqual(again(plan), plan)),
      { numRuns: 300 },
    );
  });

  test('the demo stadium', () => {
    const plan = importedFrom(new TextEncoder().encode(JSON.stringify(generateStadium({ seats: 12_000 }))));
    assert.deepEqual(again(plan), plan);
  });

  test('a file whose foreign keys came in gives them back', () => {
    const file = JSON.parse(fs.readFileSync(path.join(examples, 'theatre.json'), 'utf8')) as {
      zones: { rows: { seat_label: string; seats: Record<string, unknown>[] }[] }[];
    };
    file.zones[0]!.rows[0]!.seats[0]!.radius = 14;
    file.zones[0]!.rows[0]!.seats[1]!['our-own'] = { key: [1, 2] };
    const out = exportPretix(
      importedFrom(new TextEncoder().encode(JSON.stringify(file))),
    ) as unknown as typeof file;
    const zone = out.zones.find((z) => z.rows.length > 0)!;
    assert.equal(zone.rows[0]!.seats[0]!.radius, 14);
    assert.deepEqual(zone.rows[0]!.seats[1]!['our-own'], { key: [1, 2] });
    assert.equal(zone.rows[0]!.seat_label, 'Platz %s');
  });
});

describe('our example plans', () => {
  const grid = {
    section: 'zone',
    row: 'rowNumber',
    seat: 'colNumber',
    x: 'positionColNumber',
    y: 'positionRowNumber',
  };
  const expected: Record<
    string,
    { seats: number; sections: number; warnings: string[]; options?: ImportOptions }
  > = {
    'theatre.json': { seats: 406, sections: 7, warnings: ['blank_rows'] },
    'theatre-older-form.json': { seats: 114, sections: 2, warnings: ['no_size'] },
    'manifest-semicolon.csv': {
      seats: 373,
      sections: 4,
      warnings: ['ranges_expanded', 'no_positions', 'blank_rows'],
    },
    'manifest-utf16.csv': { seats: 144, sections: 5, warnings: ['no_positions'] },
    'manifest-windows-1252.csv': { seats: 32, sections: 2, warnings: ['guessed_encoding', 'no_positions'] },
    'manifest-grid.csv': {
      seats: 120,
      sections: 3,
      warnings: ['no_categories', 'positions_within_sections'],
      options: { mapping: grid },
    },
    'manifest-metres.csv': { seats: 100, sections: 2, warnings: ['rescaled'] },
  };

  test('each file of the folder is listed here and in its README', () => {
    const files = fs.readdirSync(examples).filter((file) => file !== 'README.md');
    assert.deepEqual(files.sort(), Object.keys(expected).sort());
    const readme = fs.readFileSync(path.join(examples, 'README.md'), 'utf8');
    for (const file of files) assert.ok(readme.includes(`(${file})`), file);
  });

  for (const [file, { seats, sections, warnings, options }] of Object.entries(expected)) {
    test(`${file}: ${seats} seats in ${sections} sections, and back`, () => {
      const outcome = importPlan(fs.readFileSync(path.join(examples, file)), options);
      assert.ok(outcome.kind === 'imported');
      assert.deepEqual([outcome.report.seats, outcome.report.sections], [seats, sections]);
      assert.deepEqual(
        outcome.report.warnings.map(({ code }) => code),
        warnings,
      );
      assert.deepEqual(again(outcome.plan), outcome.plan);
    });
  }
});
