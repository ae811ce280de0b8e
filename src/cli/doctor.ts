import fs from 'node:fs';
import { statfs } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';
import { stripeProvider } from '../app/payments.ts';
import type { Runtime } from '../app/runtime.ts';
import { clockSkewMaxMs, skewText } from '../health/background-work.ts';
import { type ProxySighting, proxyAdvice, recentProxiesQuery } from '../health/undeclared-proxies.ts';
import { inspectFunctions, newerFunctionsText } from '../postgres/functions.ts';
import { knownVersion } from '../postgres/migrate.ts';
import type { Config } from '../runtime/config.ts';
import { reachDatabase } from './database.ts';
import { examineBackground } from './doctor-background.ts';
import type { Finding } from './doctor-finding.ts';
import { examinePartitions } from './doctor-partitions.ts';
import { examineRedis } from './doctor-redis.ts';
import { examineTicketKeys } from './doctor-ticket-keys.ts';

const freeBytesMin = 512 * 1024 * 1024;
const freeBytesWarn = 5 * 1024 * 1024 * 1024;
const postgresMin = 140_000;

/** Everything that selling stands on, each with what is wrong and what to do. */
export async function examine(config: Config, runtime: Runtime): Promise<Finding[]> {
  const findings: Finding[] = [...config.warnings.map(noteOf), ...mail(config), await disk(config)];
  let reached: Awaited<ReturnType<typeof reachDatabase>>;
  try {
    reached = await reachDatabase(config, runtime);
  } catch (error) {
    findings.push({
      check: 'database',
      state: 'wrong',
      detail: (error as Error).message,
      remedy: 'Mend what the sentence says, or set DATABASE_URL to a Postgres 14 or later.',
    });
    return [...findings, ...(await examineRedis(config, runtime)), await payments(config, runtime)];
  }
  try {
    findings.push(...(await database(reached.url, runtime, config)));
  } finally {
    await reached.close();
  }
  return [...findings, ...(await examineRedis(config, runtime)), await payments(config, runtime)];
}

const noteOf = (detail: string): Finding => ({ check: 'configuration', state: 'note', detail });

/** Without a mail server, and not as a demo, the configuration's own warning says so. */
function mail({ mail: { mailbox } }: Config): Finding[] {
  if (!mailbox) return [];
  return [
    {
      check: 'mail',
      state: 'note',
      detail:
        'Mails go nowhere: this is a demo, which keeps them at /dev/mail. Set ONSALE_SMTP_URL to send them.',
    },
  ];
}

async function disk(config: Config): Promise<Finding> {
  const check = 'disk';
  let folder = config.dataDir;
  // Not made yet: the nearest folder above it has the same disk.
  while (!fs.existsSync(folder)) folder = path.dirname(folder);
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const detail = `${(free / 1024 ** 3).toFixed(1)} GB free at ${folder}`;
  if (free < freeBytesMin)
    return {
      check,
      state: 'wrong',
      detail,
      remedy: 'Free some space: Postgres stops when its disk is full.',
    };
  if (free < freeBytesWarn)
    return { check, state: 'note', detail, remedy: 'A large sale may write a few gigabytes.' };
  return { check, state: 'ok', detail };
}

async function database(url: string, runtime: Runtime, config: Config): Promise<Finding[]> {
  const servers = config.redis.servers.map(({ name }) => name);
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    query_timeout: 5_000,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const ask = async (sql: string): Promise<Record<string, string>> =>
      (await client.query(sql)).rows[0] ?? {};
    return [
      await serverVersion(ask),
      await schema(ask),
      await functions(client),
      ...(await durability(ask)),
      await clockSkew(ask, runtime),
      ...(await undeclaredProxies(client, config)),
      ...(await examineBackground(url, runtime)),
      ...(await examinePartitions(ask, servers)),
      ...(await examineTicketKeys(ask, config.dataDir)),
    ];
  } catch (error) {
    return [
      {
        check: 'database',
        state: 'wrong',
        detail: `It does not answer: ${(error as Error).message}`,
        remedy: 'Check DATABASE_URL and that the server runs.',
      },
    ];
  } finally {
    await client.end().catch(() => {});
  }
}

type Ask = (sql: string) => Promise<Record<string, string>>;

async function serverVersion(ask: Ask): Promise<Finding> {
  const { number, text } = await ask(
    "SELECT current_setting('server_version_num') AS number, current_setting('server_version') AS text",
  );
  const check = 'database';
  if (Number(number) >= postgresMin) return { check, state: 'ok', detail: `Postgres ${text}` };
  return { check, state: 'wrong', detail: `Postgres ${text}`, remedy: 'Use Postgres 14 or later.' };
}

async function schema(ask: Ask): Promise<Finding> {
  const check = 'schema';
  const known = await knownVersion();
  const { ledger } = await ask("SELECT to_regclass('schema_migrations') AS ledger");
  if (!ledger)
    return { check, state: 'wrong', detail: 'The database is empty.', remedy: 'Run: onsale migrate' };
  const { version } = await ask('SELECT max(version) AS version FROM schema_migrations');
  const detail = `version ${version}, this program knows ${known}`;
  if (Number(version) < known) return { check, state: 'wrong', detail, remedy: 'Run: onsale migrate' };
  if (Number(version) > known) return { check, state: 'wrong', detail, remedy: 'Start the newer program.' };
  return { check, state: 'ok', detail };
}

async function functions(client: pg.Client): Promise<Finding> {
  const check = 'functions';
  const found = await inspectFunctions(client);
  if (found.kind === 'current') return { check, state: 'ok', detail: "this program's" };
  if (found.kind === 'newer')
    return { check, state: 'note', detail: newerFunctionsText(found.databaseProgram, found.program) };
  return { check, state: 'wrong', detail: "not this program's", remedy: 'Run: onsale migrate' };
}

/** D2 is promised for nothing less. */
async function durability(ask: Ask): Promise<Finding[]> {
  const setting =
    await ask(`SELECT current_setting('synchronous_commit') AS commit, current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS pages, current_setting('synchronous_standby_names') AS standbys`);
  const safe =
    ['on', 'remote_apply'].includes(setting.commit ?? '') && setting.fsync === 'on' && setting.pages === 'on';
  const detail = `synchronous_commit=${setting.commit} fsync=${setting.fsync} full_page_writes=${setting.pages}`;
  const findings: Finding[] = [
    safe
      ? { check: 'durability', state: 'ok', detail }
      : {
          check: 'durability',
          state: 'wrong',
          detail,
          remedy: 'Set all three to on: otherwise a power cut may lose sales that buyers were told of.',
        },
  ];
  if (!setting.standbys) {
    findings.push({
      check: 'standby',
      state: 'note',
      detail: 'No synchronous standby: sales survive a restart of the server, not the loss of its disk.',
    });
  }
  return findings;
}

/** Reported by the web processes, which see the requests. */
async function undeclaredProxies(client: pg.Client, config: Config): Promise<Finding[]> {
  if (config.http.trustProxy !== false) return [];
  const { rows: ready } = await client.query("SELECT to_regclass('undeclared_proxies') AS known");
  if (!ready[0]?.known) return [];
  const { rows } = await client.query<ProxySighting>(recentProxiesQuery);
  return rows.map((sighting) => ({ check: 'proxy', state: 'note', detail: proxyAdvice(sighting) }));
}

async function clockSkew(ask: Ask, { clock }: Runtime): Promise<Finding> {
  const before = clock.now();
  const { now } = await ask('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now');
  const skew = Math.round(Number(now) - (before + clock.now()) / 2);
  const check = 'clock';
  const detail = skewText(skew);
  if (Math.abs(skew) <= clockSkewMaxMs) return { check, state: 'ok', detail };
  return {
    check,
    state: 'wrong',
    detail,
    remedy: 'Run an NTP client on both machines: countdowns and webhook signatures would be off.',
  };
}

async function payments(config: Config, runtime: Runtime): Promise<Finding> {
  const check = 'payments';
  if (config.payments.kind === 'simulator') {
    return {
      check,
      state: 'note',
      detail: 'Simulated: no money is taken. Set the three STRIPE_ keys to sell.',
    };
  }
  const { apiBase } = config.payments;
  const provider = stripeProvider(config.payments, runtime);
  const answer = await provider.ping();
  if (answer.ok) return { check, state: 'ok', detail: `Stripe answers at ${apiBase}` };
  return {
    check,
    state: 'wrong',
    detail: answer.reason,
    remedy: 'Check STRIPE_SECRET_KEY and the way to Stripe.',
  };
}

export function findingsText(findings: readonly Finding[]): string {
  const marks = { ok: 'ok   ', note: 'note ', wrong: 'WRONG' } as const;
  return findings
    .flatMap(({ check, state, detail, remedy }) => [
      `${marks[state]}  ${check.padEnd(14)} ${detail}`,
      ...(remedy ? [`       ${' '.repeat(14)} → ${remedy}`] : []),
    ])
    .join('\n');
}
