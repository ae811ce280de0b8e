import { createApp } from '../app/app.ts';
import { passwordPlace } from '../app/organiser.ts';
import { type App, type Role, type Runtime, roles, StartInterrupted } from '../app/runtime.ts';
import { proxyAdvice, recentProxies } from '../health/undeclared-proxies.ts';
import { createDb } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Config } from '../runtime/config.ts';
import { createShutdown } from '../runtime/shutdown.ts';
import { createDemoEvent } from './demo-event.ts';

export interface StartFlags {
  roles?: string;
  /** False: no demo event. */
  demo: boolean;
  demoSeats: string;
}

export interface StartContext extends Runtime {
  config: Config;
  print(text: string): void;
  progress(line: string): void;
  fail(sentence: string): void;
  /** Takes what is to be called after an error that nothing handled. */
  onFatal(stop: () => void): void;
}

const publishStatementMs = 120_000;
/** The leader publishes a new event within two of its ticks. */
const visiblePatienceMs = 30_000;

/** Runs until a signal or a fault ends it. */
export async function startCommand(context: StartContext, flags: StartFlags): Promise<void> {
  const { config, clock, log, print, fail, progress } = context;
  const chosen = rolesOf(flags.roles);
  const demoSeats = Number(flags.demoSeats);
  if (chosen === null) return fail(`--roles takes ${roles.join(', ')}, comma separated.`);
  if (!Number.isInteger(demoSeats) || demoSeats < 100 || demoSeats > 200_000) {
    return fail('--demo-seats takes a whole number from 100 to 200000.');
  }
  const shutdown = createShutdown({ clock, log });
  const deaf = shutdown.listen();
  context.onFatal(() => void shutdown.stop('an error that nothing handled'));
  try {
    for (const warning of config.warnings) progress(`Note: ${warning}`);
    const app = await createApp(config, { ...context, roles: chosen, shutdown, onProgress: progress });
    if (config.http.trustProxy === false) {
      for (const sighting of await recentProxies(app.db)) progress(`Note: ${proxyAdvice(sighting)}`);
    }
    const event = flags.demo ? await firstEvent(app, context, demoSeats) : null;
    if (!shutdown.requested.aborted) print(welcome(app, event, config));
    const end = await shutdown.ended;
    if (end.kind !== 'closed') fail(`Not everything ended in order: ${end.open.join(', ')}.`);
    else if (end.failed.length > 0) fail(`Could not be closed in order: ${end.failed.join(', ')}.`);
    else progress('Stopped.');
  } catch (error) {
    if (!(error instanceof StartInterrupted)) throw error;
    await shutdown.ended;
    progress('Stopped.');
  } finally {
    deaf();
  }
}

function rolesOf(text: string | undefined): Role[] | null {
  if (text === undefined) return [...roles];
  const chosen = text.split(',').map((role) => role.trim());
  return chosen.every((role) => (roles as readonly string[]).includes(role)) ? (chosen as Role[]) : null;
}

/** The event whose page is printed: the first one there is, or the demo, made now. */
async function firstEvent(app: App, context: StartContext, seats: number): Promise<string | null> {
  const { clock, log, progress } = context;
  const all = await app.events.list();
  const shown = all.filter(({ phase }) => phase !== 'draft');
  // A start that was interrupted left its demo behind as a draft.
  if (shown.length > 0 || all.some(({ event }) => event !== 'demo')) return shown[0]?.event ?? null;
  const db = createDb({
    url: app.databaseUrl,
    poolSize: 2,
    clock,
    log,
    applicationName: 'onsale demo',
    statementTimeoutMs: publishStatementMs,
  });
  try {
    const event = await createDemoEvent({ db, clock, seats, onProgress: progress });
    if (app.url) await untilVisible(`${app.url}/api/events/${event}/status`, clock);
    return event;
  } finally {
    await db.close();
  }
}

async function untilVisible(url: string, clock: Clock): Promise<void> {
  const until = clock.monotonic() + visiblePatienceMs;
  while (clock.monotonic() < until) {
    const answer = await fetch(url).catch(() => null);
    const status = answer?.ok ? ((await answer.json()) as { phase?: string }) : null;
    if (status?.phase === 'open') return;
    await clock.sleep(200);
  }
}

function welcome(app: App, event: string | null, config: Config): string {
  const { redis } = config;
  const { email, password, passwordFrom } = app.organiser;
  const place = passwordPlace(config, app.organiser);
  if (!app.url) return '\nRunning without the web role.\nCtrl-C stops it.\n';
  const lines = [
    '',
    `  Buyers     ${app.url}/${event ? `events/${event}` : ''}`,
    `  Organiser  ${app.url}/organiser`,
    passwordFrom === 'made'
      ? `             ${email}  ${password}  (from now on only ${place})`
      : `             ${email}  password ${place}`,
    `  API        ${app.url}/docs`,
  ];
  if (app.simulatorUrl) lines.push(`  Payments   simulated: ${app.simulatorUrl}  (card 4242 4242 4242 4242)`);
  const servers = [...(redis.embedded ? ['private'] : []), ...redis.servers.map(({ name }) => name)];
  if (servers.length > 0)
    lines.push(`  Redis      ${servers.join(', ')}  (Postgres takes over when it is lost)`);
  if (app.mailboxUrl) lines.push(`  Mail       kept here: ${app.mailboxUrl}`);
  return [...lines, '', '  Ctrl-C stops everything; the next start goes on where this one ended.', ''].join(
    '\n',
  );
}
