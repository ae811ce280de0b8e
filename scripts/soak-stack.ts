import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { type GameRedis, startGameRedis } from '../src/gameday/servers.ts';
import { systemClock as clock } from '../src/runtime/clock.ts';
import { projectDir } from '../src/runtime/project-dir.ts';
import { freePort } from '../src/runtime/redis-launch.ts';
import { startTestSmtp, type TestSmtp } from '../test/support/smtp.ts';

/** An installation as it is run for real: Debian's Postgres with its defaults, Redis, nginx, three servers. Loopback only. */
export interface SoakStack {
  folder: string;
  url: string;
  databaseUrl: string;
  postgres: { stop(): Promise<void>; start(): Promise<void> };
  redis: GameRedis;
  smtp: TestSmtp;
  servers: Server[];
  /** Runs a command of ours on this installation. */
  run(args: readonly string[]): Promise<{ code: number | null; stdout: string; stderr: string }>;
  stop(): Promise<void>;
}

export interface Server {
  name: string;
  url: string;
  pid(): number;
  /** Ends that nobody asked for. */
  died: number;
  start(): Promise<void>;
  /** Resolves with its exit code and how long the stop took. */
  stop(): Promise<{ code: number | null; ms: number }>;
  /** The pid of its job worker. */
  jobChild(): number | null;
  frozen: boolean;
}

const binaries = process.env.ONSALE_SOAK_POSTGRES_BIN ?? '/usr/lib/postgresql/15/bin';
const secrets = {
  STRIPE_SECRET_KEY: 'sk_test_soak',
  STRIPE_PUBLISHABLE_KEY: 'pk_test_soak',
  STRIPE_WEBHOOK_SECRET: 'whsec_soak',
};

type Closing = (() => unknown)[];

export async function startSoakStack(folder: string): Promise<SoakStack> {
  const closing: Closing = [];
  const stop = async (): Promise<void> => {
    for (const close of closing.splice(0).reverse()) await Promise.resolve(close()).catch(() => {});
  };
  try {
    fs.chmodSync(folder, 0o711);
    const postgres = await startPostgres(folder, closing);
    const redis = await startGameRedis({ name: 'default', binary: 'redis-server', folder, clock });
    closing.push(() => redis.stop());
    const smtp = await startTestSmtp({ after: (close) => void closing.push(close) });
    const ports = [await freePort(), await freePort(), await freePort(), await freePort()] as const;
    const [front, ...backs] = ports;
    const simulator = await startSimulator(folder, `http://127.0.0.1:${front}/api/webhooks/stripe`, closing);
    const url = `http://127.0.0.1:${front}`;
    const env = {
      ...withoutOurs(),
      ...secrets,
      STRIPE_API_BASE: simulator,
      DATABASE_URL: postgres.url,
      REDIS_URL: redis.url,
      ONSALE_SECRET: 'a secret of the soak run that is long enough',
      ONSALE_PUBLIC_URL: url,
      ONSALE_TRUST_PROXY: '127.0.0.1',
      ONSALE_SMTP_URL: smtp.url,
      ONSALE_MAIL_FROM: 'Box Office <tickets@venue.example>',
      ONSALE_LOG_LEVEL: 'warn',
    };
    const servers: Server[] = [];
    for (const [index, port] of backs.entries()) {
      const server = serverOf(`server-${index + 1}`, port, folder, env);
      closing.push(() => server.stop());
      await server.start();
      servers.push(server);
    }
    await startNginx(folder, front, backs, closing);
    const own = { ...env, ONSALE_DATA_DIR: path.join(folder, 'server-1') };
    return {
      folder,
      url,
      databaseUrl: postgres.url,
      postgres,
      redis,
      smtp,
      servers,
      run: (args) => run(args, own),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function withoutOurs(): NodeJS.ProcessEnv {
  const ours = /^(ONSALE_|STRIPE_|DATABASE_URL$|REDIS_URL$|PORT$|HOST$)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
}

/** As Debian makes it: initdb and nothing but a port. Runs as the user postgres when we are root. */
async function startPostgres(folder: string, closing: Closing) {
  const dir = path.join(folder, 'postgres');
  fs.mkdirSync(dir, { mode: 0o700 });
  const isRoot = process.getuid?.() === 0;
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  const as = isRoot ? { uid: id('-u'), gid: id('-g') } : {};
  if (isRoot) fs.chownSync(dir, as.uid!, as.gid!);
  const port = await freePort();
  execFileSync(`${binaries}/initdb`, ['-D', dir, '-U', 'onsale', '-A', 'trust'], {
    ...as,
    cwd: dir,
    stdio: 'pipe',
  });
  const url = `postgres://onsale@127.0.0.1:${port}/onsale`;
  let child: ChildProcess | null = null;
  const isReady = (): boolean => {
    try {
      execFileSync(`${binaries}/psql`, ['-qtA', url.replace(/onsale$/, 'postgres'), '-c', 'SELECT 1'], {
        stdio: 'pipe',
      });
      return true;
    } catch {
      return false;
    }
  };
  const start = async (): Promise<void> => {
    const log = fs.openSync(path.join(folder, 'postgres.log'), 'a');
    child = spawn(`${binaries}/postgres`, ['-D', dir, '-p', String(port), '-k', dir, '-h', '127.0.0.1'], {
      ...as,
      cwd: dir,
      stdio: ['ignore', log, log],
      detached: true,
    });
    while (!isReady()) await clock.sleep(50);
  };
  const stop = async (): Promise<void> => {
    if (!child || child.exitCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGINT');
    await gone;
  };
  closing.push(stop);
  await start();
  execFileSync(`${binaries}/createdb`, ['-h', '127.0.0.1', '-p', String(port), '-U', 'onsale', 'onsale']);
  return { url, start, stop };
}

async function startSimulator(folder: string, webhooks: string, closing: Closing): Promise<string> {
  const settings = {
    'data-dir': path.join(folder, 'simulator'),
    'secret-key': secrets.STRIPE_SECRET_KEY,
    'publishable-key': secrets.STRIPE_PUBLISHABLE_KEY,
    'webhook-secret': secrets.STRIPE_WEBHOOK_SECRET,
    'webhook-url': webhooks,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/payments/simulator/main.ts', ...flags], {
    cwd: projectDir,
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  closing.push(() => ended(child, 'SIGTERM'));
  const [chunk] = (await once(child.stdout!, 'data')) as [Buffer];
  child.stdout!.resume();
  return (JSON.parse(String(chunk).split('\n')[0]!) as { url: string }).url;
}

async function startNginx(
  folder: string,
  front: number,
  backs: readonly number[],
  closing: Closing,
): Promise<void> {
  const dir = path.join(folder, 'nginx');
  fs.mkdirSync(dir);
  const file = path.join(dir, 'nginx.conf');
  fs.writeFileSync(
    file,
    `worker_processes 1; pid ${dir}/pid; error_log ${dir}/error.log; daemon off;
${process.getuid?.() === 0 ? 'user root;' : ''}
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy; fastcgi_temp_path ${dir}/f;
  uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
  upstream servers { ${backs.map((port) => `server 127.0.0.1:${port} max_fails=1 fail_timeout=2s;`).join(' ')} keepalive 64; }
  server {
    listen 127.0.0.1:${front};
    location / {
      proxy_pass http://servers; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
      proxy_connect_timeout 2s; proxy_read_timeout 15s; proxy_next_upstream error timeout;
    }
  }
}
`,
  );
  const child = spawn('nginx', ['-c', file, '-p', dir], { stdio: 'ignore', detached: true });
  closing.push(() => ended(child, 'SIGTERM'));
  await answers(`http://127.0.0.1:${front}/healthz`, () => child.exitCode === null);
}

function serverOf(name: string, port: number, folder: string, env: NodeJS.ProcessEnv): Server {
  const url = `http://127.0.0.1:${port}`;
  const logFile = path.join(folder, `${name}.log`);
  let child: ChildProcess | null = null;
  let wanted = false;
  const server: Server = {
    name,
    url,
    died: 0,
    frozen: false,
    pid: () => child?.pid ?? 0,
    async start() {
      const log = fs.openSync(logFile, 'a');
      const dataDir = path.join(folder, name);
      const made = spawn(process.execPath, ['bin/onsale.mjs', 'start', '--no-demo'], {
        cwd: projectDir,
        env: { ...env, PORT: String(port), ONSALE_DATA_DIR: dataDir },
        stdio: ['ignore', log, log],
        detached: true,
      });
      child = made;
      wanted = true;
      made.once('exit', () => {
        if (wanted) server.died += 1;
      });
      await answers(`${url}/healthz`, () => made.exitCode === null);
    },
    async stop() {
      wanted = false;
      const began = clock.monotonic();
      if (child) await ended(child, 'SIGTERM');
      return { code: child?.exitCode ?? null, ms: Math.round(clock.monotonic() - began) };
    },
    jobChild() {
      const parent = server.pid();
      const list = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8' }).split('\n');
      const line = list.find(
        (one) => one.includes('job-worker') && Number(one.trim().split(/\s+/)[1]) === parent,
      );
      return line ? Number(line.trim().split(/\s+/)[0]) : null;
    },
  };
  return server;
}

async function answers(url: string, isAlive: () => boolean): Promise<void> {
  const until = clock.monotonic() + 90_000;
  for (;;) {
    const ok = await fetch(url).then(
      (answer) => answer.ok,
      () => false,
    );
    if (ok) return;
    if (!isAlive()) throw new Error(`${url}: the process ended before it answered`);
    if (clock.monotonic() > until) throw new Error(`${url} does not answer`);
    await clock.sleep(100);
  }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill(signal);
  const cancel = clock.after(30_000, () => child.kill('SIGKILL'));
  await gone;
  cancel();
}

async function run(args: readonly string[], env: NodeJS.ProcessEnv) {
  const child = spawn(process.execPath, ['bin/onsale.mjs', ...args], {
    cwd: projectDir,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    texts.stdout += String(chunk);
  });
  child.stderr.on('data', (chunk: Buffer) => {
    texts.stderr += String(chunk);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...texts };
}
