import { Command, CommanderError } from 'commander';
import { registerCrowdCommand } from '../tools/crowd/command.ts';
import { registerGamedayCommand } from '../tools/gameday/command.ts';
import { openArbiter } from './app/database.ts';
import { StartProblem } from './app/runtime.ts';
import { registerAuditCommand } from './cli/audit.ts';
import { registerBuyerCommands } from './cli/buyer.ts';
import { registerCodeCommands } from './cli/codes.ts';
import type { CliContext } from './cli/context.ts';
import { reachMigratedDatabase } from './cli/database.ts';
import { examine, findingsText } from './cli/doctor.ts';
import { registerEventCommands } from './cli/events.ts';
import { registerExportCommand } from './cli/export.ts';
import { registerLimitCommands } from './cli/limits.ts';
import { registerLogCommand } from './cli/log.ts';
import { registerMailCommands } from './cli/mail.ts';
import { registerPaymentCommands } from './cli/payments.ts';
import { registerPlanCommands } from './cli/plans.ts';
import { registerQueueCommands } from './cli/queue.ts';
import { registerReconcileCommand } from './cli/reconcile.ts';
import { registerRefundCommands } from './cli/refunds.ts';
import { type StartFlags, startCommand } from './cli/start.ts';
import { registerTicketCommands } from './cli/ticket.ts';
import { registerWebhookCommands } from './cli/webhooks.ts';
import { createDb, type Db } from './postgres/db.ts';
import { PostgresFault } from './postgres/install.ts';
import { PostgresAway, postgresAnswers } from './postgres/wait.ts';
import { RedisServerFault } from './redis/program.ts';
import { systemClock } from './runtime/clock.ts';
import { type Config, readConfig } from './runtime/config.ts';
import { createLogger } from './runtime/log.ts';
import { packageVersion } from './runtime/project-dir.ts';
import { systemRandom } from './runtime/random.ts';
import { StoreFault } from './runtime/store-fault.ts';

/** Exit codes of the process. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, unavailable: 3 } as const;

const exitCodesText = `
Exit codes: 0 done · 1 refused, or a check failed · 2 wrong usage or configuration · 3 database, port or
provider cannot be had. Settings come from the environment: docs/reference/configuration.md.`;

/** Publishing or replanning a large venue takes seconds. */
const statementTimeoutMs = 120_000;

class ConfigurationProblem extends Error {}

/** Runs one command line and returns the exit code. Data goes to stdout, everything for people to stderr. */
export async function main(argv: readonly string[]): Promise<number> {
  let code: number = exitCodes.ok;
  const say = (text: string): void => void process.stderr.write(`${text}\n`);
  const print = (text: string): void => void process.stdout.write(`${text}\n`);
  const fail = (sentence: string): void => {
    say(sentence);
    code = exitCodes.failed;
  };
  const config = readConfigOnce();
  const runtime = () => ({ clock: systemClock, random: systemRandom, log: createLogger(config().logLevel) });

  /** The start command stops its parts in order first. */
  let stopInOrder = (): void => process.exit(exitCodes.failed);
  const onFatal = (error: unknown): void => {
    const message = error instanceof Error ? error.message : String(error);
    fail(`Onsale ends because of an error that nothing handled: ${message}`);
    createLogger('fatal').fatal({ err: error }, 'an error that nothing handled');
    stopInOrder();
  };
  process.on('unhandledRejection', onFatal);
  process.on('uncaughtException', onFatal);

  const program = new Command('onsale')
    .description('On-sales of numbered seats under any demand: queue, hold, pay. No seat is sold twice.')
    .version(packageVersion(), '--version', 'print the version')
    .addHelpText('after', exitCodesText)
    .showHelpAfterError('(--help shows how)')
    .exitOverride()
    .configureHelp({
      optionDescription: ({ description, mandatory, defaultValue }) =>
        [
          description,
          mandatory ? '(required)' : '',
          defaultValue === undefined ? '' : `(default: ${defaultValue})`,
        ]
          .filter(Boolean)
          .join(' '),
    })
    .configureOutput({ writeErr: (text) => process.stderr.write(text) });

  program
    .command('start')
    .description('Run everything: database, payment simulator, web server, controller, workers.')
    .option('--roles <roles>', 'web, controller, worker: the ones to run here', 'web,controller,worker')
    .option('--no-demo', 'make no demo event when there is none')
    .option('--demo-seats <number>', 'seats of the demo event', '50000')
    .action((flags: StartFlags) =>
      startCommand(
        {
          ...runtime(),
          config: config(),
          print,
          progress: say,
          fail,
          onFatal: (stop) => {
            stopInOrder = stop;
          },
        },
        flags,
      ),
    );
  program
    .command('migrate')
    .description("Bring the database to this program's schema.")
    .action(async () => {
      // Like `start`: it may be a separate step that runs during the server's start.
      const { database } = config();
      if (database.kind === 'external')
        await postgresAnswers({ ...runtime(), url: database.url, onProgress: say });
      const reached = await reachMigratedDatabase(config(), runtime(), say);
      await reached.close();
      print('The schema is up to date.');
    });
  program
    .command('doctor')
    .description('Check what selling stands on: database, schema, durability, disk, clock, payments.')
    .option('--json', 'print JSON')
    .action(async (flags: { json?: boolean }) => {
      const findings = await examine(config(), runtime());
      print(flags.json ? JSON.stringify({ findings }) : findingsText(findings));
      if (findings.some(({ state }) => state === 'wrong')) code = exitCodes.failed;
    });
  const connect = async (): Promise<{ db: Db; url: string; close(): Promise<void> }> => {
    const reached = await reachMigratedDatabase(config(), runtime());
    const { clock, log } = runtime();
    const db = createDb({
      url: reached.url,
      poolSize: 3,
      clock,
      log,
      applicationName: 'onsale cli',
      statementTimeoutMs,
    });
    const close = async (): Promise<void> => {
      await db.close();
      await reached.close();
    };
    return { db, url: reached.url, close };
  };
  let database: ReturnType<typeof connect> | undefined;
  const openDatabase = () => {
    database ??= connect();
    return database;
  };
  const organising: CliContext = {
    clock: systemClock,
    random: systemRandom,
    print,
    progress: say,
    fail,
    openArbiter: (db) => openArbiter(db, config(), runtime()),
    webhookAddresses: () => config().webhooks,
    dataDir: () => config().dataDir,
    namesAccounts: () => config().accountSecret !== undefined,
    redisServers: () => config().redis.servers.map(({ name }) => name),
    openDatabase,
  };
  registerPlanCommands(program, organising);
  registerEventCommands(program, organising);
  registerCodeCommands(program, organising);
  registerLimitCommands(program, organising);
  registerBuyerCommands(program, organising);
  registerExportCommand(program, organising);
  registerRefundCommands(program, organising);
  registerPaymentCommands(program, organising);
  registerAuditCommand(program, { config, runtime, print, say, fail, openDatabase });
  registerLogCommand(program, organising);
  registerReconcileCommand(program, { ...organising, config, runtime });
  registerGamedayCommand(program, { runtime, print, say, fail });
  registerQueueCommands(program, organising);
  registerMailCommands(program, organising);
  registerTicketCommands(program, organising);
  registerWebhookCommands(program, organising);
  registerCrowdCommand(program, { clock: systemClock, random: systemRandom, print, fail });

  try {
    await program.parseAsync([...argv], { from: 'user' });
  } catch (error) {
    return codeOf(error, say);
  } finally {
    const opened = await database?.catch(() => null);
    await opened?.close();
  }
  return code;
}

function readConfigOnce(): () => Config {
  let read: Config | undefined;
  return () => {
    if (read) return read;
    const outcome = readConfig(process.env);
    if (outcome.kind === 'invalid') {
      const lines = outcome.problems.map(({ variable, problem }) => `  ${variable} ${problem}`);
      throw new ConfigurationProblem(['The configuration has mistakes:', ...lines].join('\n'));
    }
    read = outcome.config;
    return read;
  };
}

function codeOf(error: unknown, say: (text: string) => void): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  if (error instanceof ConfigurationProblem) {
    say(error.message);
    return exitCodes.usage;
  }
  const sentences = [StartProblem, PostgresAway, PostgresFault, RedisServerFault, StoreFault];
  if (error instanceof Error && sentences.some((fault) => error instanceof fault)) {
    say(error.message);
    return exitCodes.unavailable;
  }
  const { code = '', message } = error as { code?: string; message: string };
  if (['ECONNREFUSED', 'ENOTFOUND', 'ETIMEDOUT', '28P01', '3D000', '28000'].includes(code)) {
    say(`The database cannot be reached: ${message}`);
    return exitCodes.unavailable;
  }
  throw error;
}
