import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { machineOf } from './machine.ts';
import { type Measured, tableOf } from './measure.ts';
import { openServers, type Servers } from './servers.ts';

/** The export `bench` of each bench file. */
export interface Bench {
  name: string;
  /** One sentence, for the saved result. */
  question: string;
  run(context: BenchContext): Promise<Measured>;
}

export interface BenchContext {
  runs: number;
  /** Seconds that each case is measured, at least. */
  seconds: number;
  servers: Servers;
  /** Only cases whose name contains it. Empty for all. */
  only: string;
  progress(text: string): void;
}

const names = ['contention', 'arbiter', 'hold', 'join', 'sale', 'size', 'idle'] as const;
const usage = `npm run bench -- NAME [--json] [--runs 5] [--seconds 2] [--only TEXT]

  contention  how many claims a second are decided when 500 buyers want the same 100 seats, beside other locking rules
  arbiter     what gathering claims into calls is worth in Redis
  hold        what a hold over HTTP costs beside a route that answers a constant
  join        what joining the line costs, with few and with very many waiting
  sale        what whole purchases cost beside the same steps with a statement for each row
  size        what seats and holds cost in memory and time
  idle        what 100 published events cost while nothing happens, a minute each run; 1,000 with --only 1000

Needs redis-server (Debian: apt-get install redis-server); arbiter needs redis-benchmark too (redis-tools).`;

async function main(): Promise<number> {
  const flags = parseFlags();
  if (!flags || flags.values.help) {
    (flags ? process.stdout : process.stderr).write(`${usage}\n`);
    return flags ? 0 : 2;
  }
  const { values, positionals } = flags;
  const name = names.find((known) => known === positionals[0]);
  const runs = Number(values.runs);
  const seconds = Number(values.seconds);
  if (!name || positionals.length > 1 || !Number.isInteger(runs) || runs < 1 || !(seconds > 0)) {
    process.stderr.write(`${usage}\n`);
    return 2;
  }
  const { bench } = (await import(`./${name}.ts`)) as { bench: Bench };
  const progress = (text: string): void => void process.stderr.write(`${text}\n`);
  const servers = openServers();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => void servers.stop().finally(() => process.exit(130)));
  }
  const startedAt = new Date().toISOString();
  try {
    const measured = await bench.run({ runs, seconds, servers, only: values.only, progress });
    for (const line of measured.lines) if (values.json) process.stdout.write(`${JSON.stringify(line)}\n`);
    if (!values.json) process.stdout.write(`${tableOf(measured.lines)}\n`);
    // A part of the cases is a look, not a result.
    if (values.only === '') save(bench, { startedAt, runs, seconds, ...measured }, servers);
    return measured.lines.some((line) => line.reached === false) ? 1 : 0;
  } finally {
    await servers.stop();
  }
}

/** Returns null for an unknown flag. */
function parseFlags() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        help: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        runs: { type: 'string', default: '5' },
        seconds: { type: 'string', default: '2' },
        only: { type: 'string', default: '' },
      },
    });
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n`);
    return null;
  }
}

function save(bench: Bench, result: object, servers: Servers): void {
  const folder = path.join(import.meta.dirname, 'results');
  fs.mkdirSync(folder, { recursive: true });
  const machine = machineOf(servers.versions());
  const text = JSON.stringify({ bench: bench.name, question: bench.question, machine, ...result }, null, 2);
  fs.writeFileSync(path.join(folder, `${bench.name}.json`), `${text}\n`);
}

process.exitCode = await main();
