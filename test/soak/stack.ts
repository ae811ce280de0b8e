import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { createDemoEvent } from '../../src/cli/demo-event.ts';
import { ticketKeyFiles } from '../../src/fulfilment/ticket-code.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { type GameRedis, startGameRedis } from '../../tools/gameday/servers.ts';
import { freePort } from '../support/server-process.ts';
import { startTestSimulator, type TestSimulator } from '../support/simulator.ts';
import { startTestSmtp, type TestSmtp } from '../support/smtp.ts';
import { findNginx, startNginx } from './nginx.ts';
import { type OwnPostgres, startOwnPostgres } from './own-postgres.ts';

/** One `onsale start` of the installation. */
export interface OnsaleProcess {
  name: string;
  dataDir: string;
  /** Its own address behind the proxy. */
  url: string;
  pid(): number;
  /** How often the process ended although the run did not end it. */
  deaths(): number;
  /** Does not wait until it serves. */
  start(): void;
  kill(): Promise<void>;
  stop(): Promise<number | null>;
  /** Resolves when it answers. */
  ready(withinMs: number): Promise<void>;
}

/** An installation as an operator runs it: three processes behind nginx, Postgres and Redis of their own, a mail server. */
export interface Stack {
  url: string;
  event: string;
  eventNo: number;
  postgres: OwnPostgres;
  redis: GameRedis;
  smtp: TestSmtp;
  simulator: TestSimulator;
  /** Each with all roles. */
  processes: { first: OnsaleProcess; second: OnsaleProcess; third: OnsaleProcess };
  db: Db;
  env: Record<string, string>;
  folder: string;
}

const secret = 'a secret of the soak that is long enough';

export async function startStack(
  scope: { after(run: () => Promise<void>): void },
  options: { folder: string; redisBinary: string; seats: number },
): Promise<Stack> {
  const { folder } = options;
  fs.chmodSync(folder, 0o711);
  const nginxBinary = findNginx();
  if (!nginxBinary)
    throw new Error('There is no nginx here: install it (Debian: apt-get install nginx-light).');
  const postgres = await startOwnPostgres(folder);
  scope.after(() => postgres.stop('fast'));
  const redis = await startGameRedis({
    name: 'default',
    binary: options.redisBinary,
    folder,
    clock: systemClock,
  });
  scope.after(() => redis.stop());
  const smtp = await startTestSmtp(scope);
  const simulator = await startTestSimulator();
  scope.after(() => simulator.stop());
  const ports = [await freePort(), await freePort(), await freePort()] as const;
  const env = {
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    ONSALE_SMTP_URL: smtp.url,
    ONSALE_MAIL_FROM: 'tickets@example.org',
    ONSALE_SECRET: secret,
    ONSALE_TRUST_PROXY: '127.0.0.1',
    ONSALE_LOG_LEVEL: 'warn',
    STRIPE_SECRET_KEY: simulator.secretKey,
    STRIPE_PUBLISHABLE_KEY: simulator.publishableKey,
    STRIPE_WEBHOOK_SECRET: simulator.webhookSecret,
    STRIPE_API_BASE: simulator.url,
  };
  const make = (name: string, port: number): OnsaleProcess => {
    const made = onsaleProcess({ name, port, env, folder });
    scope.after(async () => void (await made.stop()));
    return made;
  };
  const processes = {
    first: make('first', ports[0]),
    second: make('second', ports[1]),
    third: make('third', ports[2]),
  };
  // The first one brings the schema; then they start side by side.
  processes.first.start();
  await processes.first.ready(90_000);
  // Tickets are signed with one key, wherever they are shown.
  for (const { dataDir } of [processes.second, processes.third]) {
    fs.mkdirSync(dataDir, { recursive: true });
    for (const file of Object.values(ticketKeyFiles(processes.first.dataDir)))
      fs.copyFileSync(file, path.join(dataDir, path.basename(file)));
  }
  processes.second.start();
  processes.third.start();
  await Promise.all([processes.second.ready(90_000), processes.third.ready(90_000)]);
  const nginx = await startNginx({ binary: nginxBinary, folder, ports });
  scope.after(() => nginx.stop());
  await simulator.webhooksTo(`${nginx.url}/api/webhooks/stripe`);
  const db = createDb({
    url: postgres.url,
    poolSize: 2,
    clock: systemClock,
    log: silentLogger,
    applicationName: 'soak',
    statementTimeoutMs: 60_000,
  });
  scope.after(() => db.close());
  const event = await createDemoEvent({
    db,
    clock: systemClock,
    seats: options.seats,
    onProgress: () => {},
    event: { event: 'soak', name: 'Soak', currency: 'EUR' },
  });
  const [row] = await db.query<{ no: number }>(
    'soak_event',
    'SELECT event_no AS no FROM events WHERE event_id = $1',
    [event],
  );
  return {
    url: nginx.url,
    event,
    eventNo: row!.no,
    postgres,
    redis,
    smtp,
    simulator,
    processes,
    db,
    env,
    folder,
  };
}

function onsaleProcess(given: {
  name: string;
  port?: number;
  env: Record<string, string>;
  folder: string;
}): OnsaleProcess {
  const { name, port, folder } = given;
  const log = path.join(folder, `${name}.log`);
  const dataDir = path.join(folder, name);
  let child: ChildProcess | null = null;
  let ended: ChildProcess | null = null;
  let deaths = 0;
  const isAlive = (): boolean => child !== null && child.exitCode === null && child.signalCode === null;

  function start(): void {
    const output = fs.openSync(log, 'a');
    const started = spawn(process.execPath, ['bin/onsale.mjs', 'start', '--no-demo'], {
      cwd: projectDir,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        ...given.env,
        ONSALE_DATA_DIR: dataDir,
        PORT: String(port),
      },
      stdio: ['ignore', output, output],
    });
    fs.closeSync(output);
    child = started;
    started.once('exit', () => {
      if (ended !== started) deaths += 1;
    });
  }

  async function end(signal: NodeJS.Signals): Promise<number | null> {
    if (!child || !isAlive()) return child?.exitCode ?? null;
    ended = child;
    const gone = once(child, 'exit');
    // A process that is stopped (SIGSTOP) takes SIGTERM only when it goes on.
    child.kill('SIGCONT');
    child.kill(signal);
    const [code] = (await gone) as [number | null];
    return code;
  }

  return {
    name,
    dataDir,
    url: `http://127.0.0.1:${port}`,
    pid: () => child?.pid ?? 0,
    deaths: () => deaths,
    start,
    kill: async () => void (await end('SIGKILL')),
    stop: () => end('SIGTERM'),
    async ready(withinMs) {
      const until = systemClock.monotonic() + withinMs;
      const from = child;
      while (!(await isReady())) {
        if (!isAlive() || child !== from || systemClock.monotonic() > until)
          throw new Error(`${name} is not ready:\n${fs.readFileSync(log, 'utf8').slice(-3_000)}`);
        await systemClock.sleep(100);
      }
    },
  };

  async function isReady(): Promise<boolean> {
    const answer = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => null);
    return answer?.ok ?? false;
  }
}
