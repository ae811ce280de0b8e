import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { promisesOf, titlesOf } from './tidy-rules.ts';

const specPath = path.join(projectDir, 'docs/SPEC.md');
const listPath = path.join(projectDir, 'docs/reference/promises-and-tests.md');

const head = `# Promises and their tests

The tests whose titles carry the number of a promise of [the specification](../SPEC.md). Written by
\`node --import tsx test/support/write-spec.ts\`; a test compares.
`;

/** docs/reference/promises-and-tests.md as it is, and as the test files have it now. */
export function promisesWithTests(): { before: string; now: string } {
  const tests = testTitles();
  const promises = promisesOf(readFileSync(specPath, 'utf8')).map((promise) => {
    const proofs = tests.filter(({ title }) => new RegExp(`\\b${promise}\\b`).test(title));
    return `\n## ${promise}\n\n${proofs.map(({ file, title }) => `- \`${file}\` ${title}\n`).join('')}`;
  });
  const before = existsSync(listPath) ? readFileSync(listPath, 'utf8') : '';
  return { before, now: head + promises.join('') };
}

function testTitles(): { file: string; title: string }[] {
  const files = readdirSync(path.join(projectDir, 'test'), { recursive: true, encoding: 'utf8' })
    .map((name) => `test/${name}`)
    .filter((name) => name.endsWith('.ts') && !name.startsWith('test/support/'))
    .sort();
  return files.flatMap((file) =>
    titlesOf(readFileSync(path.join(projectDir, file), 'utf8'))
      .map((title) => title.replace(/\s+/g, ' ').replaceAll('`', "'"))
      // The title of a contract test begins with the store that it runs on.
      .map((title) => ({ file, title: title.replace(/^\$\{name\}: /, '') }))
      // A title with a computed part belongs to a suite whose own name says enough.
      .filter(({ title }) => !title.includes('${')),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { before, now } = promisesWithTests();
  if (before !== now) writeFileSync(listPath, now);
}
