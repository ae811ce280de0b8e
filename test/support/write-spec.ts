import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { titlesOf } from './tidy-rules.ts';

const specPath = path.join(projectDir, 'docs/SPEC.md');

/** docs/SPEC.md with the list of tests under each promise as the test files have them now. */
export function specWithTests(): { before: string; now: string } {
  const before = readFileSync(specPath, 'utf8');
  const tests = testTitles();
  const lines = before.split('\n').filter((line) => !line.startsWith('  - `test/'));
  const now = lines.flatMap((line) => {
    const promise = /^- \*\*([SPWD]\d+)\*\*/.exec(line)?.[1];
    if (!promise) return [line];
    const own = tests.filter(({ title }) => new RegExp(`\\b${promise}\\b`).test(title));
    return [line, ...own.map(({ file, title }) => `  - \`${file}\` ${title}`)];
  });
  return { before, now: now.join('\n') };
}

function testTitles(): { file: string; title: string }[] {
  const files = readdirSync(path.join(projectDir, 'test'), { recursive: true, encoding: 'utf8' })
    .map((name) => `test/${name}`)
    .filter((name) => name.endsWith('.ts') && !name.startsWith('test/support/'))
    .sort();
  return files.flatMap((file) =>
    titlesOf(readFileSync(path.join(projectDir, file), 'utf8'))
      .map((title) => title.replace(/\s+/g, ' ').replaceAll('`', "'"))
      // A contract's title begins with the store that it is run on, each in turn.
      .map((title) => ({ file, title: title.replace(/^\$\{name\}: /, '') }))
      // Titles with a computed part stand in a suite whose own name says enough.
      .filter(({ title }) => !title.includes('${')),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { before, now } = specWithTests();
  if (before !== now) writeFileSync(specPath, now);
}
