import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { machineOf } from '../bench/machine.ts';
import { createDemoEvent } from '../src/cli/demo-event.ts';
import { type CrowdReport, runCrowd } from '../src/crowd/crowd.ts';
import { systemClock as clock } from '../src/runtime/clock.ts';
import { silentLogger } from '../src/runtime/log.ts';
import { projectDir } from '../src/runtime/project-dir.ts';
import { systemRandom } from '../src/runtime/random.ts';
import { askRedis } from '../src/runtime/redis-launch.ts';
import { createDb, type Db } from '../src/sales/db.ts';
import { type SoakStack, startSoakStack } from './soak-stack.ts';

/**
 * `node --import tsx scripts/soak.ts [--minutes 60] [--every 180] [--short] [--json FILE] [--keep]`: three servers behind nginx with a Postgres
 * and a Redis of their own, a crowd that buys, and every three minutes (`--every` seconds) one fault. Passes if at the end all mails are sent, the
 * audit is clean, and no process had to be restarted by hand. `--short`: two quick faults, for the test suite.
 * Needs nginx, redis-server, ps and Debian's postgresql-15 (or ONSALE_SOAK_POSTGRES_BIN).
 */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    every: { type: 'string', default: '180' },
    short: { type: 'boolean', default: false },
    buyers: { type: 'string' },
    json: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

const say = (line: string): void =>
  void process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

interface Fault {
  name: string;
  /** Resolves when the fault is over; what recovers afterwards does so without us. */
  strike(stack: SoakStack): Promise<void>;
}

const postgresStopped = (seconds: number): Fault => ({
  name: `Postgres stopped for ${seconds} s`,
  async strike({ postgres }) {
    await postgres.stop();
    await clock.sleep(seconds * 1_000);
    await postgres.start();
  },
});

const serverFrozen = (seconds: number): Fault => ({
  name: `a server frozen for ${seconds} s`,
  async strike({ servers }) {
    const pid = servers[1]!.pid();
    process.kill(pid, 'SIGSTOP');
    await clock.sleep(seconds * 1_000);
    process.kill(pid, 'SIGCONT');
  },
});

const jobChild = (signal: 'SIGKILL' | 'SIGSTOP'): Fault => ({
  name: signal === 'SIGKILL' ? 'a job worker killed' : 'a job worker frozen',
  async strike({ servers }) {
    const server = servers[0]!;
    const before = server.jobChild();
    if (before === null) throw new Error('there is no job worker to hurt');
    process.kill(before, signal);
    const until = clock.monotonic() + 60_000;
    for (;;) {
      const now = server.jobChild();
      if (now !== null && now !== before) return;
      if (clock.monotonic() > until) throw new Error('the job worker was not replaced within a minute');
      await clock.sleep(500);
    }
  },
});

const redisKilled: Fault = {
  name: 'Redis killed, back empty after 5 s',
  async strike({ redis }) {
    await redis.kill();
    await clock.sleep(5_000);
    await redis.start('empty');
  },
};

const redisFrozen: Fault = {
  name: 'Redis frozen for 10 s',
  async strike({ redis }) {
    redis.freeze();
    await clock.sleep(10_000);
    redis.thaw();
  },
};

const redisOlder: Fault = {
  name: 'Redis made a replica of an older copy and primary again',
  async strike({ redis }) {
    const copy = await redis.copy();
    try {
      await clock.sleep(10_000);
      const port = Number(new URL(redis.url).port);
      await askRedis({ port }, ['replicaof', '127.0.0.1', String(copy.port)]);
      const until = clock.monotonic() + 10_000;
      while (!/master_link_status:up/.test(String(await askRedis({ port }, ['info', 'replication'])))) {
        if (clock.monotonic() > until) break;
        await clock.sleep(20);
      }
      await askRedis({ port }, ['replicaof', 'no', 'one']);
    } finally {
      process.kill(copy.pid, 'SIGKILL');
    }
  },
};

const startedWithoutDatabase: Fault = {
  name: 'a server started while Postgres is away',
  async strike({ servers, postgres }) {
    const server = servers[2]!;
    const { code, ms } = await server.stop();
    say(`  ${server.name} stopped with code ${code} in ${ms} ms`);
    if (code !== 0) throw new Error(`${server.name} did not stop in order: code ${code}`);
    await postgres.stop();
    const starting = server.start();
    starting.catch(() => {});
    await clock.sleep(5_000);
    await postgres.start();
    await starting;
  },
};

const all: readonly Fault[] = [
  postgresStopped(1),
  jobChild('SIGKILL'),
  redisKilled,
  postgresStopped(5),
  jobChild('SIGSTOP'),
  redisFrozen,
  serverFrozen(20),
  redisOlder,
  postgresStopped(30),
  startedWithoutDatabase,
];
const quick: readonly Fault[] = [jobChild('SIGKILL'), postgresStopped(1)];

interface Segment {
  fault: string;
  bought: number;
  ends: CrowdReport['ends'];
  problem: string | null;
}

async function main(): Promise<number> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-soak-'));
  const stack = await startSoakStack(folder);
  say(`three servers behind ${stack.url}, everything in ${folder}`);
  const db = createDb({
    url: stack.databaseUrl,
    poolSize: 3,
    clock,
    log: silentLogger,
    applicationName: 'onsale soak',
    statementTimeoutMs: 60_000,
  });
  const began = clock.monotonic();
  const segments: Segment[] = [];
  let end: Awaited<ReturnType<typeof judge>>;
  try {
    const faults = values.short ? quick : all;
    const segmentMs = values.short ? 8_000 : Number(values.every) * 1_000;
    const totalMs = values.short ? segmentMs * quick.length : Number(values.minutes) * 60_000;
    const count = Math.max(1, Math.round(totalMs / segmentMs));
    for (let n = 0; n < count; n += 1) {
      segments.push(await play(stack, db, faults[n % faults.length]!, n + 1, segmentMs));
    }
    end = await judge(stack, db, segments);
  } finally {
    await db.close();
    await stack.stop();
    if (!values.keep) fs.rmSync(folder, { recursive: true, force: true });
  }
  const minutes = Math.round((clock.monotonic() - began) / 6_000) / 10;
  const machine = machineOf({ postgres: end.versions.postgres, redis: end.versions.redis });
  const { versions: _versions, ...outcome } = end;
  const result = { minutes, servers: 3, ...outcome, segments, machine };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  const file = values.json ?? (values.short ? null : path.join(projectDir, 'bench/results/soak.json'));
  if (file) fs.writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
  for (const problem of end.problems) say(`PROBLEM: ${problem}`);
  return end.problems.length === 0 ? 0 : 1;
}

/** A crowd on an event of its own, and the fault in the middle of it. */
async function play(
  stack: SoakStack,
  db: Db,
  fault: Fault,
  nth: number,
  segmentMs: number,
): Promise<Segment> {
  const event = `soak-${nth}`;
  const buyers = Number(values.buyers ?? (values.short ? 12 : 200));
  await createDemoEvent({
    db,
    clock,
    seats: values.short ? 200 : 2_000,
    onProgress: () => {},
    event: { event, name: `Soak ${nth}`, currency: 'EUR' },
    settings: { holdTtlMs: 60_000 },
  });
  say(`${nth}: ${fault.name}, ${buyers} buyers`);
  const crowd = runCrowd({
    url: stack.url,
    event,
    buyers,
    overMs: segmentMs * 0.6,
    patienceMs: segmentMs * 0.4 + (values.short ? 15_000 : 30_000),
    thinkMs: values.short ? [0, 500] : [500, 5_000],
    connectionsMax: 60,
    clock,
    random: systemRandom,
  });
  let problem: string | null = null;
  await clock.sleep(segmentMs / 4);
  await fault.strike(stack).catch((error: Error) => {
    problem = error.message;
  });
  const report = await crowd;
  const { ends } = report;
  say(`  ${ends.bought} bought, ${report.retried} requests repeated${problem ? `; ${problem}` : ''}`);
  await closeEvent(db, event);
  return { fault: fault.name, bought: ends.bought, ends, problem };
}

async function closeEvent(db: Db, event: string): Promise<void> {
  await db.query(
    'soak_close',
    `UPDATE events SET phase = 'closed', version = version + 1 WHERE event_id = $1 AND phase <> 'closed'`,
    [event],
  );
}

interface Counts {
  sent: number;
  unsent: number;
  underWay: number;
}

async function judge(stack: SoakStack, db: Db, segments: readonly Segment[]) {
  say('waiting for mails and payments to come to their end');
  const read = async (): Promise<Counts> => {
    const [row] = await db.query<Counts>(
      'soak_rest',
      `SELECT (SELECT count(*) FROM mails WHERE state = 'sent') AS sent,
              (SELECT count(*) FROM mails WHERE state <> 'sent') + (SELECT count(*) FROM job_outbox) AS unsent,
              (SELECT count(*) FROM money_operations WHERE due_at IS NOT NULL) AS "underWay"`,
    );
    return row!;
  };
  const until = clock.monotonic() + 180_000;
  let counts = await read();
  while (counts.unsent + counts.underWay > 0 && clock.monotonic() < until) {
    await clock.sleep(1_000);
    counts = await read();
  }
  const audit = await stack.run(['audit', '--json', '--wait', '60s']);
  const ids = stack.smtp.mails.map(({ messageId }) => messageId);
  const died = stack.servers.reduce((sum, server) => sum + server.died, 0);
  const [said] = await db.query<{ postgres: string }>(
    'soak_version',
    `SELECT current_setting('server_version') AS postgres`,
  );
  const info = String(await askRedis({ port: Number(new URL(stack.redis.url).port) }, ['info', 'server']));
  const stops: { code: number | null; ms: number }[] = [];
  for (const server of stack.servers) stops.push(await server.stop());
  const problems = [
    ...segments.flatMap(({ fault, problem }) => (problem ? [`${fault}: ${problem}`] : [])),
    ...(segments.some(({ bought }) => bought > 0) ? [] : ['nothing was bought']),
    ...(counts.unsent > 0 ? [`${counts.unsent} mails were not sent`] : []),
    ...(new Set(ids).size < counts.sent ? ['mails are recorded as sent that did not arrive'] : []),
    ...(counts.underWay > 0 ? [`${counts.underWay} money operations did not end`] : []),
    ...(audit.code === 0
      ? []
      : [`the audit ended with ${audit.code}: ${(audit.stderr || audit.stdout).slice(-1_500)}`]),
    ...(died > 0 ? [`${died} servers ended without being asked to`] : []),
    ...stops.flatMap(({ code, ms }) => (code === 0 ? [] : [`a stop ended with ${code} after ${ms} ms`])),
  ];
  return {
    ok: problems.length === 0,
    problems,
    bought: segments.reduce((sum, { bought }) => sum + bought, 0),
    mails: { sent: counts.sent, arrived: ids.length, repeatedUnderTheirId: ids.length - new Set(ids).size },
    restartedByHand: died,
    stopMs: stops.map(({ ms }) => ms),
    versions: { postgres: said?.postgres ?? null, redis: /redis_version:(\S+)/.exec(info)?.[1] ?? null },
  };
}

process.exitCode = await main();
