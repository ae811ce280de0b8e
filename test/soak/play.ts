import { execFile } from 'node:child_process';
import path from 'node:path';
import { systemClock } from '../../src/runtime/clock.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { type CrowdReport, runCrowd } from '../../tools/crowd/crowd.ts';
import type { Fault } from './faults.ts';
import type { Stack } from './stack.ts';

export interface SoakOptions {
  faults: readonly Fault[];
  /** Time between the beginnings of two faults, and before the first fault. */
  everyMs: number;
  /** The crowd arrives over this time; the last fault begins before its end. */
  overMs: number;
  buyers: number;
  /** How long the end is waited for: unpaid orders have their deadline of ten minutes. */
  restWithinMs: number;
  say(line: string): void;
}

/** The result of a run. `problems` is empty if every promise was kept. */
export interface SoakResult {
  postgres: string;
  buyers: number;
  minutes: number;
  faults: { at: string; name: string; soldInTheMinuteAfter: number }[];
  ends: Record<string, number>;
  requests: number;
  statuses: Record<number, number>;
  /** Unexpected answers and lost connections: the first few. */
  unexpected: string[];
  orders: number;
  mails: { owed: number; sent: number; received: number; messages: number };
  problems: string[];
}

const patienceMs = 120_000;
const minuteMs = 60_000;

/** A crowd buys while one fault after the other is played; then everything has to come to rest by itself. */
export async function playSoak(stack: Stack, options: SoakOptions): Promise<SoakResult> {
  const { say } = options;
  const began = systemClock.monotonic();
  const at = (): string => `${Math.round((systemClock.monotonic() - began) / 1_000)} s`;
  const sold: number[] = [];
  const crowding = runCrowd({
    url: stack.url,
    event: stack.event,
    buyers: options.buyers,
    overMs: options.overMs,
    patienceMs,
    thinkMs: [500, 5_000],
    clock: systemClock,
    random: systemRandom,
    connectionsMax: 200,
    onBought: () => void sold.push(systemClock.monotonic()),
  });
  crowding.catch(() => {});
  const problems: string[] = [];
  const played: { at: string; name: string; since: number }[] = [];
  for (let turn = 0; ; turn += 1) {
    const due = began + (turn + 1) * options.everyMs;
    if (due >= began + options.overMs) break;
    await systemClock.sleep(Math.max(0, due - systemClock.monotonic()));
    const fault = options.faults[turn % options.faults.length]!;
    say(`${at()}: ${sold.length} orders paid; ${fault.name} …`);
    played.push({ at: at(), name: fault.name, since: systemClock.monotonic() });
    await fault.play(stack).catch((error: Error) => problems.push(`${fault.name}: ${error.message}`));
  }
  const report = await crowding;
  say(`${at()}: the crowd has gone; ${report.ends.bought} bought. Waiting until nothing is under way …`);
  problems.push(...(await atRest(stack, options.restWithinMs)));
  for (const each of Object.values(stack.processes)) {
    if (each.deaths() > 0) problems.push(`process ${each.name} ended by itself, ${each.deaths()} times`);
  }
  const mails = await mailsOf(stack, problems);
  problems.push(...(await unpaidOf(stack, report.ends.bought)));
  say(`${at()}: auditing …`);
  problems.push(...(await audited(stack)));
  return {
    ...crowdOf(report, problems),
    postgres: stack.postgres.version,
    buyers: options.buyers,
    minutes: Math.round((systemClock.monotonic() - began) / minuteMs),
    faults: played.map(({ at: when, name, since }) => ({
      at: when,
      name,
      soldInTheMinuteAfter: sold.filter((time) => time >= since && time < since + minuteMs).length,
    })),
    orders: sold.length,
    mails,
    problems,
  };
}

function crowdOf(report: CrowdReport, problems: string[]) {
  const { ends, requests, statuses, faults } = report;
  const errors = Object.entries(statuses).filter(
    ([status]) => Number(status) >= 500 && Number(status) !== 503,
  );
  for (const [status, count] of errors) problems.push(`${count} answers with status ${status}`);
  if (ends.bought === 0) problems.push('nobody bought');
  return { ends, requests, statuses, unexpected: faults };
}

/**
 * Waits until orders are settled, mails and webhooks sent, and no process reports a degraded part. Returns what is still open
 * at the end.
 */
async function atRest(stack: Stack, withinMs: number): Promise<string[]> {
  const until = systemClock.monotonic() + withinMs;
  for (;;) {
    const open = await notAtRest(stack).catch((error: Error) => [error.message]);
    if (open.length === 0) return [];
    if (systemClock.monotonic() > until) return open.map((what) => `not at rest: ${what}`);
    await systemClock.sleep(1_000);
  }
}

async function notAtRest(stack: Stack): Promise<string[]> {
  const [row] = await stack.db.query<Record<string, number>>(
    'soak_rest',
    `SELECT (SELECT count(*) FROM orders WHERE state NOT IN ('paid','closed','cancelled'))::int AS "orders that are not settled",
            (SELECT count(*) FROM money_operations WHERE due_at IS NOT NULL)::int AS "money operations",
            (SELECT count(*) FROM provider_events WHERE due_at IS NOT NULL)::int AS "provider events",
            (SELECT count(*) FROM mails WHERE state = 'due')::int AS "mails"`,
    [],
  );
  const open = Object.entries(row!).flatMap(([what, count]) => (count > 0 ? [`${count} ${what}`] : []));
  for (const { name, readyParts } of await readiness(stack)) {
    for (const [part, { ok, reason }] of Object.entries(readyParts))
      if (!ok) open.push(`${name}: ${part}: ${reason ?? 'not ok'}`);
  }
  return open;
}

interface Parts {
  [part: string]: { ok: boolean; reason?: string };
}

async function readiness(stack: Stack): Promise<{ name: string; readyParts: Parts }[]> {
  return await Promise.all(
    Object.values(stack.processes).map(async ({ name, url }) => {
      const answer = await fetch(`${url}/readyz`);
      return { name, readyParts: ((await answer.json()) as { parts: Parts }).parts };
    }),
  );
}

/** Each purchase that a buyer saw is paid, and its mail is owed. */
async function unpaidOf(stack: Stack, bought: number): Promise<string[]> {
  const [row] = await stack.db.query<{ paid: number; silent: number }>(
    'soak_paid',
    `SELECT count(*)::int AS paid, count(*) FILTER (WHERE NOT EXISTS (
       SELECT FROM mails m WHERE m.order_id = o.order_id AND m.what = 'order.confirmed'))::int AS silent
     FROM orders o WHERE state = 'paid'`,
    [],
  );
  const { paid, silent } = row!;
  return [
    ...(paid === bought ? [] : [`${bought} buyers saw a paid order, ${paid} are paid`]),
    ...(silent === 0 ? [] : [`${silent} paid orders owe no mail`]),
  ];
}

/** Each owed mail reached the mail server; where it came twice, it is the same mail to a reader (one Message-ID). */
async function mailsOf(stack: Stack, problems: string[]): Promise<SoakResult['mails']> {
  const owed = await stack.db.query<{ mail: string; state: string }>(
    'soak_mails',
    'SELECT mail_id::text AS mail, state FROM mails',
    [],
  );
  const received = stack.smtp.mails.map(({ messageId }) => messageId ?? '');
  const messages = new Set(received);
  const sent = owed.filter(({ state }) => state === 'sent');
  const missing = sent.filter(({ mail }) => ![...messages].some((id) => id.includes(mail)));
  if (missing.length > 0) problems.push(`${missing.length} mails are recorded as sent and did not arrive`);
  if (messages.size > owed.length)
    problems.push(`${messages.size} different mails for ${owed.length} owed ones`);
  return { owed: owed.length, sent: sent.length, received: received.length, messages: messages.size };
}

async function audited(stack: Stack): Promise<string[]> {
  const args = ['audit', '--json', '--wait', '60s'];
  const { stdout, stderr } = await onsale(stack, args);
  try {
    const { reports } = JSON.parse(stdout) as {
      reports: { promises: { violations: { promise: string; says: string }[] }[] }[];
    };
    return reports.flatMap(({ promises }) =>
      promises.flatMap(({ violations }) =>
        violations.map(({ promise, says }) => `audit: ${promise} ${says}`),
      ),
    );
  } catch {
    return [`the audit did not end: ${stderr.slice(-500)}`];
  }
}

/** A command on the installation, with the settings of one of its processes. */
function onsale(stack: Stack, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    ...stack.env,
    ONSALE_DATA_DIR: path.join(stack.folder, stack.processes.third.name),
  };
  return new Promise((resolve) => {
    const options = { cwd: projectDir, env, maxBuffer: 64 * 1024 * 1024 };
    execFile(process.execPath, ['bin/onsale.mjs', ...args], options, (_error, stdout, stderr) =>
      resolve({ stdout, stderr }),
    );
  });
}
