import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { titlesOf } from '../support/tidy-rules.ts';

/** As the page writes them: on one line, `…` where a title has a computed part. */
function titlesIn(file: string): string[] {
  const full = path.join(projectDir, file);
  if (!existsSync(full)) return [];
  return titlesOf(readFileSync(full, 'utf8')).map((title) =>
    title
      .replace(/\$\{[^}]*\}/g, '…')
      .replace(/\s+/g, ' ')
      .replaceAll("\\'", "'"),
  );
}

test('docs/reference/payment-facts.md: each fact has a test, and each test that it names exists', () => {
  const page = readFileSync(path.join(projectDir, 'docs/reference/payment-facts.md'), 'utf8');
  const facts = page.split(/^- \*\*/m).slice(1);
  assert.ok(facts.length > 50, `${facts.length} facts`);
  const missing = facts.flatMap((fact) => {
    const named = [...fact.matchAll(/^ {2}- `(test\/[^`]+)` (.+)$/gm)];
    if (named.length === 0) return [`no test: ${fact.split('\n')[0]}`];
    return named
      .filter(([, file, title]) => !titlesIn(file!).includes(title!))
      .map(([, file, title]) => `${file} has no test ${title}`);
  });
  assert.deepEqual(missing, []);
});
