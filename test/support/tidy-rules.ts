import path from 'node:path';

/** A file of the tree: its path from the root, with `/`, and its text. */
export interface SourceFile {
  path: string;
  text: string;
}

/** "path: what is wrong". */
export type Violation = string;
export type Rule = (files: SourceFile[]) => Violation[];

const linesMax = 600;
/** All tables in one file, so that a reader finds each by scrolling and never meets a table in two states. */
const longAllowed = 'migrations/0001_schema.sql';
/** Written by pg_dump, for reading the whole at once. */
const dumped = 'migrations/schema.sql';
/** Written by programs. */
const generated = [dumped, 'client/api.d.ts'];
const isCode = (file: SourceFile): boolean =>
  /\.(ts|tsx|mjs|js|lua|sql|css)$/.test(file.path) && !generated.includes(file.path);
const isScript = (file: SourceFile): boolean => /\.(ts|tsx|mjs|js)$/.test(file.path);
/** Suites that several test files run count too; what only supports tests does not. */
const isTest = (file: SourceFile): boolean => /^test\/(?!support\/).*\.ts$/.test(file.path);
/** A plain .js in src is a script for browsers, which have no clock to be given. */
const isSource = (file: SourceFile): boolean =>
  /^(src|payment-simulator|tools|models)\/.*\.tsx?$/.test(file.path);

/** Comments blanked, line by line, so that words in them break no rule. Strings stay. */
export function withoutComments(text: string): string {
  const blank = (comment: string): string => comment.replace(/[^\n]/g, ' ');
  return text.replace(/\/\*[\s\S]*?\*\//g, blank).replace(/(^|[\s;{}(,])\/\/[^\n]*/g, blank);
}

/** Looks for a pattern in the code of each file and names the lines. */
function linesMatching(files: SourceFile[], pattern: RegExp, what: string): Violation[] {
  return files.flatMap((file) =>
    withoutComments(file.text)
      .split('\n')
      .flatMap((line, index) => {
        const found = pattern.exec(line);
        return found ? [`${file.path}:${index + 1}: ${what}: ${found[0].trim()}`] : [];
      }),
  );
}

// ---- who may import whom (docs/ARCHITECTURE.md) ----

/**
 * The rooms of src, from the bottom up, and what each may import. `types` names what it may import as types only, which vanish
 * before anything runs. A room imports from rooms above it in this list, so no circle of rooms is possible.
 */
const rooms: Record<string, { uses: string[]; types?: string[] }> = {
  core: { uses: [] },
  runtime: { uses: ['core'] },
  postgres: { uses: ['core', 'runtime'] },
  redis: { uses: ['runtime'] },
  plans: { uses: ['core'] },
  payments: { uses: ['core', 'runtime'] },
  inventory: { uses: ['core', 'runtime', 'redis'], types: ['postgres'] },
  'waiting-room': { uses: ['core', 'runtime', 'redis'], types: ['postgres'] },
  orders: { uses: ['core', 'runtime', 'postgres'], types: ['payments', 'catalogue'] },
  catalogue: { uses: ['core', 'runtime', 'postgres', 'orders'], types: ['inventory'] },
  retention: { uses: ['core', 'runtime', 'postgres', 'orders'] },
  health: { uses: ['core', 'runtime', 'postgres'], types: ['payments'] },
  'read-path': { uses: ['core', 'runtime'], types: ['postgres', 'inventory', 'orders', 'catalogue'] },
  audit: { uses: ['core', 'runtime', 'postgres', 'orders'], types: ['inventory'] },
  checkout: { uses: ['core', 'runtime', 'postgres', 'orders', 'audit'], types: ['inventory', 'payments'] },
  booking: {
    uses: ['core', 'runtime', 'inventory', 'waiting-room', 'orders', 'catalogue', 'read-path', 'checkout'],
  },
  controller: {
    uses: ['core', 'runtime', 'postgres', 'redis', 'inventory', 'orders', 'read-path'],
    types: ['waiting-room', 'catalogue'],
  },
  fulfilment: { uses: ['core', 'runtime', 'postgres', 'orders', 'catalogue'] },
  operate: {
    uses: [
      ...[
        'core',
        'runtime',
        'postgres',
        'plans',
        'waiting-room',
        'orders',
        'catalogue',
        'retention',
        'health',
      ],
      ...['read-path', 'checkout', 'fulfilment'],
    ],
    types: ['inventory'],
  },
  http: {
    uses: [
      ...[
        'core',
        'runtime',
        'postgres',
        'plans',
        'waiting-room',
        'orders',
        'catalogue',
        'retention',
        'health',
      ],
      ...['read-path', 'checkout', 'booking', 'fulfilment', 'operate'],
    ],
    types: ['inventory', 'payments', 'controller'],
  },
};
/** They put the rooms together and may import any of them. */
const composers = ['app', 'cli', 'cli.ts'];
/** The stores behind a contract: only the composers and the store's own files know them. */
const adapter = /^(inventory|waiting-room)\/(postgres\.ts|redis\/)|^payments\/stripe\.ts$/;

/** The folder of src that a file belongs to: `core`, `http` …; `cli.ts` is its own. */
const roomOf = (inSrc: string): string => inSrc.split('/')[0]!;

/** An adapter may be split into several files whose names begin with its own: postgres.ts, postgres-rows.ts. */
function isOfAdapter(from: string, to: string): boolean {
  const redis = /^[\w-]+\/redis\//.exec(to);
  return redis ? from.startsWith(redis[0]) : from.startsWith(`${to.slice(0, -'.ts'.length)}-`);
}

function mayImport(from: string, to: string, typeOnly: boolean): boolean {
  const [room, other] = [roomOf(from), roomOf(to)];
  if (room === 'app') return true;
  if (adapter.test(to) && !isOfAdapter(from, to)) return false;
  if (room === other || composers.includes(room)) return true;
  const { uses = [], types = [] } = rooms[room] ?? {};
  return uses.includes(other) || (typeOnly && types.includes(other));
}

/** Programs and models that are not the engine, and what each may use of it. */
const besideEngine: { folder: string; mayUse: (to: string, typeOnly: boolean) => boolean }[] = [
  { folder: 'payment-simulator/', mayUse: (to) => /^src\/(core|runtime)\//.test(to) },
  // A model shares the contract and its checks with the stores, and nothing that a store does.
  {
    folder: 'models/',
    mayUse: (to, typeOnly) =>
      typeOnly || /^src\/(core\/.+|inventory\/(arbiter|claims)|waiting-room\/waiting-room)\.ts$/.test(to),
  },
  // Simulated buyers know no more about the server than a page does.
  {
    folder: 'tools/crowd/',
    mayUse: (to) => /^src\/(core|runtime|cli)\//.test(to) || to === 'src/http/api-types.ts',
  },
  { folder: 'tools/', mayUse: (to) => to.startsWith('src/') || to.startsWith('payment-simulator/') },
];
/** The only files of the engine that use one of them. */
const usesBesideEngine: Record<string, RegExp> = {
  'src/app/payments.ts': /^payment-simulator\/child\.ts$/,
  'src/cli.ts': /^tools\/\w+\/command\.ts$/,
};

/** The modules that a file imports, and whether it takes types only. */
export function importsOf(text: string): { name: string; typeOnly: boolean }[] {
  const code = withoutComments(text);
  const forms = [
    /\b(import|export)(\s+type\b)?[^'";]*?\bfrom\s*['"]([^'"]+)['"]/g,
    /\b(import)(\s*)['"]([^'"]+)['"]/g,
    /\b(import)(\s*)\(\s*['"]([^'"]+)['"]/g,
  ];
  return forms.flatMap((form) =>
    [...code.matchAll(form)].map((match) => ({ name: match[3]!, typeOnly: match[2]?.trim() === 'type' })),
  );
}

export const importRule: Rule = (files) =>
  files
    .filter((file) => isScript(file) && /^(src|payment-simulator|tools|models|web)\//.test(file.path))
    .flatMap((file) => {
      const wrong = importsOf(file.text).filter((found) => !importAllowed(file.path, found));
      return wrong.map(({ name }) => `${file.path}: may not import ${name}`);
    });

function importAllowed(from: string, { name, typeOnly }: { name: string; typeOnly: boolean }): boolean {
  if (!name.startsWith('.')) return !from.startsWith('src/core/');
  const to = path.posix.normalize(path.posix.join(path.posix.dirname(from), name));
  if (from.startsWith('web/')) {
    const shared =
      to === 'src/http/api-types.ts' ||
      (typeOnly && /^src\/(operate\/.+|read-path\/published)\.ts$/.test(to));
    return shared || /^(web|src\/core)\//.test(to);
  }
  const outside = besideEngine.find(({ folder }) => from.startsWith(folder));
  if (outside) return to.startsWith(outside.folder) || outside.mayUse(to, typeOnly);
  if (besideEngine.some(({ folder }) => to.startsWith(folder)))
    return usesBesideEngine[from]?.test(to) ?? false;
  if (!to.startsWith('src/')) return false;
  return mayImport(from.slice('src/'.length), to.slice('src/'.length), typeOnly);
}

/** Files that import each other, types included, through however many others. Returns one violation for each circle. */
export const circleRule: Rule = (files) => {
  const scripts = files.filter(
    (file) => isScript(file) && /^(src|payment-simulator|tools|models|web)\//.test(file.path),
  );
  const imports = new Map(
    scripts.map(({ path: from, text }) => [
      from,
      importsOf(text)
        .filter(({ name }) => name.startsWith('.'))
        .map(({ name }) => path.posix.normalize(path.posix.join(path.posix.dirname(from), name))),
    ]),
  );
  const done = new Set<string>();
  const circles: Violation[] = [];
  const visit = (file: string, trail: string[]): void => {
    const at = trail.indexOf(file);
    if (at >= 0)
      circles.push(`${[...trail.slice(at), file].join(' → ')}: put the common type in a file of its own`);
    if (at >= 0 || done.has(file)) return;
    for (const next of imports.get(file) ?? []) visit(next, [...trail, file]);
    done.add(file);
  };
  for (const { path: file } of scripts) visit(file, []);
  return circles;
};

// ---- what only some files may do ----

const exits = ['src/cli.ts', 'src/app/job-worker.ts', 'payment-simulator/main.ts'];

export const exitRule: Rule = (files) =>
  linesMatching(
    files.filter((file) => isSource(file) && !exits.includes(file.path)),
    /\bprocess\.(exit|exitCode|abort|reallyExit)\b/,
    'only the command line ends the process',
  );

const hiddenTime =
  /\bDate\.now\b|\bnew Date\(\s*\)|(?<![\w.])Date\(\s*\)|\bperformance\.now\b|\bprocess\.hrtime\b/;
const hiddenTimers =
  /(?<![\w.])(setTimeout|setInterval|setImmediate)\b|['"](node:)?timers(\/promises)?['"]|\bAbortSignal\.timeout\b/;
const hiddenChance =
  /\bMath\.random\b|\b(randomBytes|randomInt|randomUUID|randomFill|randomFillSync|getRandomValues)\b/;

/** Its immediate orders a judgement behind the answers that have arrived; it measures no time. */
const ordersEvents = 'src/redis/questions.ts';

export const clockRule: Rule = (files) => {
  const outside = files.filter(
    (file) => isSource(file) && !file.path.startsWith('src/runtime/') && file.path !== ordersEvents,
  );
  return [
    ...linesMatching(outside, hiddenTime, 'take a Clock'),
    ...linesMatching(outside, hiddenTimers, 'take a Clock'),
    ...linesMatching(outside, hiddenChance, 'take a Random'),
  ];
};

/** Programs of their own, whose loops end with them. */
const ownPrograms = /^(src\/(runtime|cli)|tools|payment-simulator)\//;

export const loopRule: Rule = (files) => {
  const sources = files.filter(isSource);
  const supervised = sources.filter((file) => !ownPrograms.test(file.path));
  return [
    ...linesMatching(supervised, /\bwhile \(!\w+(\.signal)?\.aborted\)/, 'run it in runtime/loops.ts'),
    ...linesMatching(sources, /\bAbortSignal\.any\b/, 'leaks on Node 20 with a signal that lives long'),
  ];
};

// ---- tests wait for conditions ----

/** The soak is a program of its own. */
export const waitingRule: Rule = (files) =>
  linesMatching(
    files.filter(
      ({ path }) =>
        /^test\/(?!soak\/)/.test(path) && !['test/support/wait.ts', 'test/tidy.test.ts'].includes(path),
    ),
    /\bsetTimeout\(|\.sleep\(/,
    'until() waits for a condition, pause() names its reason (test/support/wait.ts)',
  );

// ---- sizes and names ----

export const sizeRule: Rule = (files) =>
  files
    .filter((file) => isCode(file) && file.path !== longAllowed)
    .map((file) => ({ file, lines: file.text.trimEnd().split('\n').length }))
    .filter(({ lines }) => lines > linesMax)
    .map(({ file, lines }) => `${file.path}: ${lines} lines, more than ${linesMax}`);

const vagueNames = new Set(['util', 'utils', 'helper', 'helpers', 'common', 'types', 'misc']);

export const nameRule: Rule = (files) =>
  files.flatMap((file) => {
    const vague = file.path.split('/').filter((part) => vagueNames.has(part.replace(/\..*$/, '')));
    return vague.map((name) => `${file.path}: ${name} says nothing about what is inside`);
  });

// ---- SQL ----

/** functions/ is applied again and again, in any order: each name stands once, and each statement may be repeated. */
export const functionRule: Rule = (files) => {
  const sql = files.filter(
    (file) => /^(functions|migrations)\/.*\.sql$/.test(file.path) && file.path !== dumped,
  );
  const homes = new Map<string, string[]>();
  for (const file of sql)
    for (const [, name] of file.text.matchAll(/^CREATE (?:OR REPLACE )?FUNCTION (\w+)/gm))
      homes.set(name!, [...(homes.get(name!) ?? []), file.path]);
  const twice = [...homes].filter(([, paths]) => paths.length > 1);
  return [
    ...twice.map(([name, paths]) => `${paths.join(', ')}: ${name} is defined ${paths.length} times`),
    ...sql
      .filter((file) => file.path.startsWith('functions/'))
      .flatMap((file) =>
        [
          ...file.text.matchAll(
            /^(?:CREATE (?!OR REPLACE (?:FUNCTION|TRIGGER|VIEW)\b)|ALTER|DROP(?! FUNCTION IF EXISTS)|DO|INSERT|UPDATE|DELETE)\b.*$/gm,
          ),
        ].map(([line]) => `${file.path}: cannot be repeated, belongs into a numbered migration: ${line}`),
      ),
  ];
};

// ---- tests ----

export const skipRule: Rule = (files) =>
  linesMatching(
    files.filter(isTest),
    /\b(test|it|describe|suite)\.(only|skip|todo)\b|\bt\.(skip|todo)\(|\b(only|skip|todo):\s*(true|['"`])/,
    'a test that is left out or runs alone',
  );

/** The value is read before the wait and written after it: what others added meanwhile is lost. */
export const lostUpdateRule: Rule = (files) =>
  linesMatching(files.filter(isScript), /[\w\])][ ]*[-+*]=\s*await\b/, 'loses updates of others');

// ---- traces of one machine ----

export const machineRule: Rule = (files) =>
  files.flatMap((file) =>
    file.text.split('\n').flatMap((line, index) => {
      const found = /(?<![\w.:/}\])])\/(work|home|Users|root|tmp)\/[\w.-]+/.exec(line);
      return found ? [`${file.path}:${index + 1}: a path of one machine: ${found[0]}`] : [];
    }),
  );

// ---- documents ----

/** As the usual renderers make it: lower case, punctuation out, blanks to hyphens. */
function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/`|\*|\[|\]\([^)]*\)/g, '')
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

function anchorsIn(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading] of text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6}\s+(.+)$/gm))
    anchors.add(anchorOf(heading!));
  for (const [, id] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id!);
  return anchors;
}

/** README's files to read first exist and hold the functions that it names. */
export const readingRule: Rule = (files) => {
  const readme = files.find((file) => file.path === 'README.md')?.text ?? '';
  const section = /^## Files to read first\n([\s\S]*?)^(?:## |Decisions)/m.exec(readme)?.[1] ?? '';
  const lines = section.split('\n').filter((line) => /^\d+\. /.test(line));
  if (lines.length < 5) return ['README.md: no list of files to read first'];
  const wrong = lines.flatMap((line) => {
    const target = /\]\(([^)]+)\)/.exec(line)?.[1] ?? '';
    const text = files.find((file) => file.path === target)?.text;
    if (text === undefined) return [`README.md: ${target} does not exist`];
    const names = [...line.matchAll(/`(\w+)`/g)].map((match) => match[1]!);
    return names
      .filter((name) => !new RegExp(`\\b(?:function|FUNCTION|interface) ${name}\\b`).test(text))
      .map((name) => `README.md: ${target} has no ${name}`);
  });
  return [...new Set(wrong)];
};

export const linkRule: Rule = (files) => {
  const texts = new Map(files.map((file) => [file.path, file.text]));
  const folders = new Set(
    files.flatMap(({ path: name }) =>
      name.split('/').map((_, index, parts) => parts.slice(0, index).join('/')),
    ),
  );
  return files
    .filter((file) => file.path.endsWith('.md'))
    .flatMap((file) => {
      const prose = file.text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '');
      const targets = [...prose.matchAll(/\]\(([^)\s]+)(?:\s+"[^"]*")?\)/g)].map((match) => match[1]!);
      return targets.flatMap((target) => {
        if (/^[a-z][a-z+.-]*:/i.test(target)) return [];
        const [place, anchor] = decodeURI(target).split('#');
        const to = place
          ? path.posix.normalize(path.posix.join(path.posix.dirname(file.path), place)).replace(/\/$/, '')
          : file.path;
        const text = texts.get(to);
        if (text === undefined && !folders.has(to === '.' ? '' : to))
          return [`${file.path}: the link ${target} leads nowhere`];
        if (anchor && text !== undefined && to.endsWith('.md') && !anchorsIn(text).has(anchor))
          return [`${file.path}: no heading for ${target}`];
        return [];
      });
    });
};

const specPath = 'docs/SPEC.md';
/** Marks a promise in SPEC.md that a later part keeps. */
export const notBuiltYet = 'Not built yet';

/** The numbers of the promises that SPEC.md makes now. A list item, table row or heading states one. */
export function promisesOf(spec: string): string[] {
  const lines = [...spec.matchAll(/^(?:\s*[-*|]\s*|#+\s+)(?:\*\*|`)?([SPWD]\d+)\b.*$/gm)];
  return lines.filter((match) => !match[0].includes(notBuiltYet)).map((match) => match[1]!);
}

/**
 * Titles of the runner's functions, and of a suite's own (`clause('S4: …', …)`) if the title begins with a promise's number.
 */
export function titlesOf(text: string): string[] {
  const code = withoutComments(text);
  const own = /\b(?:test|it|describe|suite)\(\s*(['"`])((?:\\.|(?!\1)[\s\S])*)\1/g;
  const suites = /\b(?!(?:test|it|describe|suite)\()\w+\(\s*(['"`])([SPWD]\d+\b(?:\\.|(?!\1)[^\n])*)\1/g;
  return [own, suites].flatMap((form) => [...code.matchAll(form)].map((match) => match[2]!));
}

export const promiseRule: Rule = (files) => {
  const spec = files.find((file) => file.path === specPath);
  if (!spec) return [];
  const titles = files.filter(isTest).flatMap((file) => titlesOf(file.text));
  const promises = promisesOf(spec.text);
  if (promises.length === 0) return [`${specPath}: holds no promise that this rule can read`];
  const unproven = promises.filter(
    (number) => !titles.some((title) => new RegExp(`\\b${number}\\b`).test(title)),
  );
  return [...new Set(unproven)].map((number) => `${specPath}: no test title carries ${number}`);
};

// ---- words ----

/** Words that plain technical English avoids, with the words to use instead (CONTRIBUTING.md). */
const avoided: readonly [pattern: RegExp, instead: string][] = [
  [/\b(?:whoever|whomever|somebody|nobody)\b/i, 'name the actor: the buyer, the worker, no buyer'],
  [/\b(?:he|his|him)\b/, 'they, their, them'],
  [/\b(?:anew|once more)\b/i, 'again'],
  [/\bin vain\b/i, 'failed'],
  [/\bmend(?:s|ed|ing)?\b/i, 'fix'],
  [/\bto be had\b/i, 'available'],
  [/\b(?:surely|gladly)\b/i, 'leave it out'],
];
/** Titles of tests, which the documents repeat. */
const quotesTitles = /^docs\/reference\/(?:payment-facts|promises-and-tests)\.md$/;

/** The lines that people read: comments that begin a line, and documents outside of code. */
function proseOf({ path: name, text }: SourceFile): { line: number; words: string }[] {
  const withoutCode = (line: string): string => line.replace(/`[^`]*`/g, '');
  if (name.endsWith('.md')) {
    if (quotesTitles.test(name)) return [];
    const blanked = text.replace(/^```[\s\S]*?^```/gm, (code) => code.replace(/[^\n]/g, ''));
    return blanked.split('\n').map((line, i) => ({ line: i + 1, words: withoutCode(line) }));
  }
  if (!/\.(?:ts|tsx|mjs|sql|lua)$/.test(name) || name === dumped) return [];
  return text.split('\n').flatMap((line, i) => {
    const comment = /^\s*(?:\/\/|\/\*\*?|\*|--)\s(.*)$/.exec(line);
    return comment ? [{ line: i + 1, words: withoutCode(comment[1]!) }] : [];
  });
}

export const wordRule: Rule = (files) =>
  files.flatMap((file) =>
    proseOf(file).flatMap(({ line, words }) =>
      avoided.flatMap(([pattern, instead]) => {
        const found = pattern.exec(words);
        return found ? [`${file.path}:${line}: "${found[0]}": ${instead}`] : [];
      }),
    ),
  );

// ---- packages ----

export const pinRule: Rule = (files) => {
  const manifest = files.find((file) => file.path === 'package.json');
  if (!manifest) return ['package.json is missing'];
  const { dependencies = {}, devDependencies = {} } = JSON.parse(manifest.text);
  return Object.entries<string>({ ...dependencies, ...devDependencies })
    .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
    .map(([name, version]) => `package.json: ${name} ${version} is not one exact version`);
};

/** `npm ci` refuses a lock file that is behind package.json, on the first command of every fresh clone. */
export const lockRule: Rule = (files) => {
  const parsed = ['package.json', 'package-lock.json'].map(
    (name) => files.find((file) => file.path === name)?.text ?? '{}',
  );
  const manifest = JSON.parse(parsed[0]!);
  const locked = JSON.parse(parsed[1]!).packages?.[''] ?? {};
  return ['dependencies', 'devDependencies'].flatMap((kind) => {
    const wanted: Record<string, string> = manifest[kind] ?? {};
    const names = new Set([...Object.keys(wanted), ...Object.keys(locked[kind] ?? {})]);
    return [...names]
      .filter((name) => wanted[name] !== locked[kind]?.[name])
      .map((name) => `package-lock.json: ${name} is not as in package.json: run npm install`);
  });
};
