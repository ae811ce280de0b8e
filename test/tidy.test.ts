import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test, { describe } from 'node:test';
import { projectDir } from '../src/runtime/project-dir.ts';
import {
  circleRule,
  clockRule,
  exitRule,
  functionRule,
  importRule,
  linkRule,
  lockRule,
  loopRule,
  lostUpdateRule,
  machineRule,
  nameRule,
  pinRule,
  promiseRule,
  type Rule,
  readingRule,
  type SourceFile,
  sizeRule,
  skipRule,
  waitingRule,
  wordRule,
} from './support/tidy-rules.ts';

const notOurs = new Set(['node_modules', 'dist', '.data', '.git']);
const isText =
  /\.(ts|tsx|mjs|js|json|md|sql|lua|css|html|sh|yml|yaml|conf|service|svg|csv)$|^\.ci\/run$|^LICENSE$/;

/** Every text of the tree; others (pictures) with an empty one, as links may lead to them. */
function readTree(folder = ''): SourceFile[] {
  return fs.readdirSync(path.join(projectDir, folder), { withFileTypes: true }).flatMap((entry) => {
    if (notOurs.has(entry.name)) return [];
    const name = path.posix.join(folder, entry.name);
    if (entry.isDirectory()) return readTree(name);
    if (!entry.isFile()) return [];
    return [
      { path: name, text: isText.test(name) ? fs.readFileSync(path.join(projectDir, name), 'utf8') : '' },
    ];
  });
}

const tree = readTree();
const file = (name: string, text: string): SourceFile => ({ path: name, text });
const spec = '# Promises\n\n- **S901** one\n- **D901** later. Not built yet.\n| P902 | two |\n';

/** Each rule with trees that it has to find fault with, each for one reason, and ones that it has to leave alone. */
const readingList = (target: string): string =>
  `## Files to read first\n\n${`1. [x](${target}): \`pay\`: x\n`.repeat(5)}\n## Next\n`;

const rules: { says: string; rule: Rule; catches: SourceFile[][]; passes: SourceFile[][] }[] = [
  {
    says: 'each part imports only what the architecture lets it',
    rule: importRule,
    catches: [
      [file('src/core/hold.ts', `import { x } from '../runtime/clock.ts';`)],
      [file('src/core/hold.ts', `import fs from 'node:fs';`)],
      [file('src/core/hold.ts', `export * from 'pg';`)],
      [file('src/runtime/log.ts', `import { x } from '../postgres/db.ts';`)],
      [file('src/inventory/postgres.ts', `import { x } from '../postgres/db.ts';`)],
      [file('src/inventory/postgres.ts', `import { type Db, createDb } from '../postgres/db.ts';`)],
      [file('src/inventory/postgres.ts', `import type { Order } from '../orders/orders.ts';`)],
      [file('src/plans/csv.ts', `import { x } from '../inventory/arbiter.ts';`)],
      [file('src/checkout/checkout.ts', `import { x } from '../inventory/postgres.ts';`)],
      [file('src/checkout/checkout.ts', `const x = await import('../payments/stripe.ts');`)],
      [file('src/checkout/checkout.ts', `import '../http/server.ts';`)],
      [file('src/read-path/publish.ts', `import { x } from '../controller/controller.ts';`)],
      [file('src/http/buyer.ts', `import { x } from '../../models/record.ts';`)],
      [file('src/http/buyer.ts', `import { x } from '../../payment-simulator/ledger.ts';`)],
      [file('payment-simulator/bank.ts', `import { x } from '../src/postgres/db.ts';`)],
      [file('models/record.ts', `import { x } from '../src/orders/orders.ts';`)],
      [file('src/inventory/modes.ts', `import { x } from './postgres.ts';`)],
      [file('src/cli.ts', `import { x } from './inventory/redis/arbiter.ts';`)],
      [file('src/controller/event-tasks.ts', `import { x } from '../inventory/postgres.ts';`)],
      [file('tools/crowd/buyer.ts', `import { x } from '../../src/http/server.ts';`)],
      [file('src/orders/orders.ts', `import { x } from '../app/app.ts';`)],
      [file('src/http/buyer.ts', `import { x } from '../../test/support/postgres.ts';`)],
      [file('web/buyer/main.tsx', `import { x } from '../../src/http/errors.ts';`)],
      [file('web/buyer/main.tsx', `import { x } from '../../src/read-path/published.ts';`)],
    ],
    passes: [
      [file('src/core/hold.ts', `import { x } from './order.ts'; // from 'pg'`)],
      [file('src/inventory/postgres.ts', `import pg from 'pg'; import { x } from './postgres-rows.ts';`)],
      [file('src/inventory/postgres-rows.ts', `import { x } from './postgres.ts';`)],
      [
        file(
          'src/checkout/checkout.ts',
          `import type { X } from '../inventory/arbiter.ts'; import { y } from '../orders/orders.ts';`,
        ),
      ],
      [
        file(
          'src/http/buyer.ts',
          `import { x } from '../checkout/checkout.ts'; import { y } from '../plans/import.ts';`,
        ),
      ],
      [file('src/controller/event-tasks.ts', `import type { X } from '../catalogue/events.ts';`)],
      [file('tools/crowd/buyer.ts', `import { x } from '../../src/http/api-types.ts';`)],
      [file('src/app/app.ts', `import { x } from '../inventory/postgres.ts';`)],
      [file('src/inventory/postgres.ts', `import type { Db } from '../postgres/db.ts';`)],
      [file('web/buyer/line.ts', `import type {\n  X,\n} from '../../src/read-path/published.ts';`)],
      [file('src/cli/organise.ts', `import { x } from '.../catalogue/events.ts';`)],
      [file('payment-simulator/main.ts', `import { x } from './ledger.ts';`)],
      [
        file(
          'web/buyer/main.tsx',
          `import { x } from '../../src/core/money.ts'; import type { Y } from '../../src/http/api-types.ts';`,
        ),
      ],
    ],
  },
  {
    says: 'only the command line ends the process',
    rule: exitRule,
    catches: [
      [file('src/app/app.ts', 'process.exit(1)')],
      [file('src/http/server.ts', 'process.exitCode = 1')],
    ],
    passes: [[file('src/cli.ts', 'process.exit(1)')], [file('src/app/app.ts', '// process.exit(1)')]],
  },
  {
    says: 'background work is supervised: no loop of its own outside runtime/loops.ts, and no AbortSignal.any',
    rule: loopRule,
    catches: [
      [file('src/retention/cleaning.ts', 'while (!signal.aborted) {')],
      [file('src/app/app.ts', 'while (!stopping.signal.aborted) {')],
      [file('tools/gameday/round.ts', 'AbortSignal.any([a, b])')],
    ],
    passes: [
      [file('tools/gameday/round.ts', 'while (!stopping.signal.aborted) {')],
      [file('src/retention/cleaning.ts', 'for (let batch = 0; batch < 3 && !signal.aborted; batch += 1) {')],
      [file('web/shared/api.ts', 'AbortSignal.any([a, b])')],
    ],
  },
  {
    says: 'time and chance are arguments outside runtime',
    rule: clockRule,
    catches: [
      'Date.now()',
      'new Date()',
      'performance.now()',
      'setTimeout(f, 1)',
      'setInterval(f, 1)',
      `import { setTimeout as wait } from 'node:timers/promises'`,
      'AbortSignal.timeout(5)',
      'Math.random()',
      `import { randomBytes } from 'node:crypto'`,
      'crypto.randomUUID()',
      'crypto.getRandomValues(a)',
    ].map((code) => [file('src/orders/orders.ts', code)]),
    passes: [
      [file('src/runtime/clock.ts', 'Date.now()')],
      [file('src/orders/orders.ts', 'new Date(row.at); /* Date.now() */ seatRandomness()')],
      [file('test/unit/x.test.ts', 'Date.now()')],
    ],
  },
  {
    says: 'tests wait for conditions; a fixed wait names its reason',
    rule: waitingRule,
    catches: [
      [file('test/unit/x.test.ts', 'await systemClock.sleep(20)')],
      [file('test/support/x.ts', 'setTimeout(f, 20)')],
    ],
    passes: [
      [file('test/support/wait.ts', 'await systemClock.sleep(20)')],
      [file('test/unit/x.test.ts', `await pause(20, 'a page paces its looks')`)],
      [file('test/unit/x.test.ts', `query('SELECT pg_sleep(0.1)')`)],
    ],
  },
  {
    says: 'no file is longer than 600 lines',
    rule: sizeRule,
    catches: [[file('src/http/buyer.ts', 'x;\n'.repeat(601))], [file('functions/x.sql', 'x\n'.repeat(601))]],
    passes: [
      [file('src/http/buyer.ts', 'x;\n'.repeat(600))],
      [file('docs/SPEC.md', 'x\n'.repeat(900))],
      [file('migrations/0001_schema.sql', 'x\n'.repeat(900))],
    ],
  },
  {
    says: 'each SQL function is defined once, in a file that can be applied again',
    rule: functionRule,
    catches: [
      [
        file('functions/a.sql', 'CREATE OR REPLACE FUNCTION f()'),
        file('functions/b.sql', 'CREATE OR REPLACE FUNCTION f(a text)'),
      ],
      [
        file('functions/a.sql', 'CREATE OR REPLACE FUNCTION f()'),
        file('migrations/0002_x.sql', 'CREATE FUNCTION f()'),
      ],
      [file('functions/a.sql', 'CREATE FUNCTION f()')],
      [file('functions/a.sql', 'CREATE TABLE t ();')],
      [file('functions/a.sql', 'ALTER FUNCTION f SET enable_seqscan = off;')],
    ],
    passes: [
      [
        file('functions/a.sql', 'CREATE OR REPLACE FUNCTION f()\n  INSERT INTO t'),
        file('migrations/schema.sql', 'CREATE FUNCTION f()'),
      ],
      [file('functions/dropped.sql', 'DROP FUNCTION IF EXISTS g(integer);')],
      [file('migrations/0002_x.sql', 'CREATE FUNCTION h()\nCREATE TABLE t ();')],
    ],
  },
  {
    says: 'names say what is inside',
    rule: nameRule,
    catches: [
      [file('src/utils/x.ts', '')],
      [file('src/http/helpers.ts', '')],
      [file('src/types.d.ts', '')],
      [file('web/common/a.css', '')],
    ],
    passes: [[file('src/http/api-types.ts', '')], [file('web/shared/money.ts', '')]],
  },
  {
    says: 'no test is left out or runs alone',
    rule: skipRule,
    catches: [
      'test.only("x")',
      'it.skip("x")',
      'test("x", { skip: true })',
      `test("x", { todo: 'later' })`,
      't.skip()',
    ].map((code) => [file('test/unit/x.test.ts', code)]),
    passes: [
      [file('test/unit/x.test.ts', `test('x', { skip: isRoot ? false : 'as root only' })`)],
      [file('src/x.ts', 'it.skip()')],
    ],
  },
  {
    says: 'nothing is added up across a wait',
    rule: lostUpdateRule,
    catches: [[file('bench/x.ts', 'n += await f();')], [file('src/x.ts', 'a[i] -= await f();')]],
    passes: [[file('bench/x.ts', 'const m = await f(); n += m;')]],
  },
  {
    says: 'no path of one machine',
    rule: machineRule,
    catches: [
      [file('docs/guides/x.md', ['see /', 'home/alex/onsale'].join(''))],
      [file('src/x.ts', ['const a = "/', 'tmp/x"'].join(''))],
    ],
    passes: [[file('docs/x.md', 'https://example.org/home/page and /var/lib/onsale')]],
  },
  {
    says: 'every link in the documents leads somewhere',
    rule: linkRule,
    catches: [
      [file('docs/a.md', '[x](b.md)')],
      [file('docs/a.md', '[x](#nothing)\n# Something')],
      [file('docs/a.md', '![x](../picture.png)')],
      [file('README.md', '[x](docs/a.md#two)'), file('docs/a.md', '# One')],
    ],
    passes: [
      [
        file('docs/a.md', '[x](b.md#the-two-tiers) [y](https://example.org) `[z](none.md)`'),
        file('docs/b.md', '## The *two* tiers!'),
      ],
      [file('README.md', '[x](docs/) [y](docs/a.md "title")'), file('docs/a.md', '')],
    ],
  },
  {
    says: 'every promise of docs/SPEC.md stands in the title of a test',
    rule: promiseRule,
    catches: [
      [file('docs/SPEC.md', spec), file('test/unit/x.test.ts', `test('S901: one', f)`)],
      [
        file('docs/SPEC.md', spec),
        file('test/unit/x.test.ts', `test('S9011: one', f); test('P902: two', f)`),
      ],
      [file('docs/SPEC.md', spec), file('test/unit/x.test.ts', `// test('S901: one')\ntest('P902: two', f)`)],
      [file('docs/SPEC.md', 'nothing')],
    ],
    passes: [
      [file('docs/SPEC.md', spec), file('test/e2e/x.test.ts', 'it("S901, P902: both", f)')],
      [
        file('docs/SPEC.md', spec),
        file('test/contract/x-suite.ts', `clause(\n'S901: one', f); on("P902: two", f)`),
      ],
      [file('README.md', '')],
    ],
  },
  {
    says: 'comments and documents use plain words',
    rule: wordRule,
    catches: [
      [file('src/core/x.ts', '// Nobody waits.')],
      [file('src/core/x.ts', '/**\n * The buyer pays with his card.\n */')],
      [file('functions/x.sql', '-- the seats are drawn anew')],
      [file('docs/x.md', 'Sent three times in vain.')],
    ],
    passes: [
      [file('src/core/x.ts', "const text = 'nobody';")],
      [file('docs/x.md', 'The user `nobody`.\n```\nmend\n```')],
      [file('docs/reference/payment-facts.md', '- `x.test.ts` the buyer pays once more')],
    ],
  },
  {
    says: 'no files import each other in a circle',
    rule: circleRule,
    catches: [
      [
        file('src/core/a.ts', `import type { B } from './b.ts';`),
        file('src/core/b.ts', `import { a } from './a.ts';`),
      ],
    ],
    passes: [[file('src/core/a.ts', `import { b } from './b.ts';`), file('src/core/b.ts', '')]],
  },
  {
    says: 'the files to read first exist and hold what README names',
    rule: readingRule,
    catches: [
      [file('README.md', readingList('src/x.ts'))],
      [file('README.md', readingList('src/x.ts')), file('src/x.ts', 'function other() {}')],
    ],
    passes: [[file('README.md', readingList('src/x.ts')), file('src/x.ts', 'async function pay() {}')]],
  },
  {
    says: 'every package is pinned to one version',
    rule: pinRule,
    catches: [
      [file('package.json', '{"dependencies":{"a":"^1.0.0"}}')],
      [file('package.json', '{"devDependencies":{"a":"latest"}}')],
    ],
    passes: [[file('package.json', '{"dependencies":{"a":"1.0.0-beta.3"}}')]],
  },
  {
    says: 'the lock file is in step with package.json',
    rule: lockRule,
    catches: [
      [
        file('package.json', '{"dependencies":{"a":"1.0.1"}}'),
        file('package-lock.json', '{"packages":{"":{"dependencies":{"a":"1.0.0"}}}}'),
      ],
      [
        file('package.json', '{"devDependencies":{"a":"1.0.0"}}'),
        file('package-lock.json', '{"packages":{"":{}}}'),
      ],
      [
        file('package.json', '{}'),
        file('package-lock.json', '{"packages":{"":{"dependencies":{"a":"1.0.0"}}}}'),
      ],
    ],
    passes: [
      [
        file('package.json', '{"dependencies":{"a":"1.0.0"}}'),
        file('package-lock.json', '{"packages":{"":{"dependencies":{"a":"1.0.0"}}}}'),
      ],
    ],
  },
];

for (const { says, rule, catches, passes } of rules) {
  describe(says, () => {
    test('holds for this tree', () => {
      const violations = rule(tree.filter(({ path: name }) => name !== 'test/tidy.test.ts'));
      assert.deepEqual(violations, []);
    });
    test('is caught when broken', () => {
      for (const planted of catches) {
        assert.equal(
          rule(planted).length,
          1,
          `${JSON.stringify(planted)} → ${JSON.stringify(rule(planted))}`,
        );
      }
    });
    test('is not imagined', () => {
      for (const innocent of passes) assert.deepEqual(rule(innocent), []);
    });
  });
}

test('the tree that was read is the whole one', () => {
  const names = new Set(tree.map(({ path: name }) => name));
  for (const name of [
    'package.json',
    'src/core/outcome.ts',
    'src/runtime/clock.ts',
    'test/tidy.test.ts',
    '.ci/run',
  ]) {
    assert.ok(names.has(name), name);
  }
});
