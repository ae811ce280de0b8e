import fs from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import type { Runtime } from '../../src/app/runtime.ts';
import { createDemoEvent } from '../../src/cli/demo-event.ts';
import { counted } from '../../src/core/counted.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { importPlan } from '../../src/plans/import-plan.ts';
import type { Db } from '../../src/postgres/db.ts';
import { requireRedis } from '../../src/redis/program.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { createShutdown, type Shutdown } from '../../src/runtime/shutdown.ts';
import { brokenOff, type RoundResult, roundLine, summaryTable, targets } from './results.ts';
import { paces, runRound } from './round.ts';
import { OtherProgram, openRounds, programTree, type RoundsFile } from './rounds-file.ts';
import { isScenario, type ScenarioName, scenarioNames, scenarios } from './scenarios.ts';
import { type Stack, startStack } from './stack.ts';

interface GamedayFlags {
  rounds: string;
  scenarios: string;
  buyers: string;
  seats: string;
  seed?: string;
  resume?: string;
  json?: string;
  keep?: boolean;
  quick?: boolean;
}

export interface GamedayContext {
  runtime(): Runtime;
  print(text: string): void;
  say(text: string): void;
  fail(sentence: string): void;
}

/** Long enough for a round, short enough that the line is let in at the pace of the crowd. */
const holdTtlMs = 120_000;
const otherServers = ['north', 'south'] as const;
/** Rounds on one installation: its tables grow, and a fresh one costs ten seconds. */
const roundsPerStack = 20;
const brokenInARowMax = 3;

/** `onsale gameday`: hurts Redis under a crowd, on an installation of its own, and says what buyers saw. */
export function registerGamedayCommand(program: Command, context: GamedayContext): void {
  program
    .command('gameday')
    .description('Rehearse losing Redis under a crowd, on a private installation; ends in the audit.')
    .option('--rounds <number>', 'how many rounds; with --resume those of the file count', '6')
    .option(
      '--scenarios <names>',
      `in turn: ${scenarioNames.map((name) => `${name} (${scenarios[name].says})`).join(', ')}`,
      scenarioNames.join(','),
    )
    .option('--buyers <number>', 'how many people a round', '500')
    .option('--seats <number>', 'seats of each event', '5000')
    .option('--seed <number>', 'repeatable chance')
    .option('--resume <file>', 'collect rounds in this file, over several sittings of the same program')
    .option('--json <file>', 'write all results there')
    .option('--quick', 'shorter rounds, for crowds of a hundred at most')
    .option('--keep', 'leave the folder of the installation')
    .action(async (flags: GamedayFlags, command: Command) => {
      const [rounds, buyers, seats] = [flags.rounds, flags.buyers, flags.seats].map(Number) as [
        number,
        number,
        number,
      ];
      const names = flags.scenarios.split(',').map((name) => name.trim());
      if (!names.every(isScenario)) command.error(`--scenarios takes ${scenarioNames.join(', ')}.`);
      const whole = [rounds, buyers, seats].every(Number.isInteger);
      if (!(whole && rounds >= 1 && buyers >= 1 && buyers <= 10_000 && seats >= 300 && seats <= 200_000)) {
        command.error('--rounds and --buyers take whole numbers from 1, --seats from 300 to 200000.');
      }
      await gameday(context, { ...flags, rounds, buyers, seats, names: names as ScenarioName[] });
    });
}

type Wanted = Omit<GamedayFlags, 'rounds' | 'buyers' | 'seats'> & {
  rounds: number;
  buyers: number;
  seats: number;
  names: ScenarioName[];
};

async function gameday(context: GamedayContext, wanted: Wanted): Promise<void> {
  const { fail, print } = context;
  const runtime = context.runtime();
  const { clock, random, log } = runtime;
  for (const [option, file] of [
    ['--json', wanted.json],
    ['--resume', wanted.resume],
  ] as const) {
    const problem = file === undefined ? null : notWritable(file);
    if (problem) return fail(`${option}: ${file} cannot be written: ${problem}. Nothing was started.`);
  }
  const rounds = keptRounds(wanted.resume, fail);
  if (!rounds) return;
  const binary = requireRedis();
  const shutdown = createShutdown({ clock, log, deadlineMs: 60_000 });
  const deaf = shutdown.listen();
  const seed = wanted.seed === undefined ? 1 + random.int(2 ** 31 - 1) : Number(wanted.seed);
  try {
    await playRounds({ context, runtime, wanted, rounds, binary, seed, shutdown });
  } catch (error) {
    if (!shutdown.requested.aborted) fail(`The game day ended early: ${(error as Error).message}`);
  } finally {
    deaf();
    await shutdown.stop('done');
  }
  const { kept: results } = rounds;
  print(`\n${summaryTable(results)}`);
  if (wanted.json) fs.writeFileSync(wanted.json, `${JSON.stringify({ seed, targets, results }, null, 2)}\n`);
  verdict(results, fail);
}

/** Returns why the file cannot be written. Null if it can. A missing file is not created by this check. */
function notWritable(file: string): string | null {
  try {
    const there = fs.existsSync(file);
    fs.closeSync(fs.openSync(file, 'a'));
    if (!there) fs.rmSync(file);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

interface Game {
  context: GamedayContext;
  runtime: Runtime;
  wanted: Wanted;
  rounds: RoundsFile;
  binary: string;
  seed: number;
  shutdown: Shutdown;
}

async function playRounds(game: Game): Promise<void> {
  const { wanted, rounds, shutdown } = game;
  const { say } = game.context;
  let stack: Stack | null = null;
  let onStack = 0;
  let brokenInARow = 0;
  // The installation stops in order, whatever requests it, including Ctrl-C.
  const closeStack = async (): Promise<void> => {
    const going = stack;
    stack = null;
    await going?.stop();
  };
  shutdown.add('installation', closeStack, 60_000);
  while (rounds.kept.length < wanted.rounds && !shutdown.requested.aborted) {
    if (stack === null || onStack >= roundsPerStack) {
      await closeStack();
      stack = await openStack(game);
      onStack = 0;
    }
    onStack += 1;
    const result = await playRound(game, stack, rounds.kept.length + 1);
    // The rounds were interrupted, which says nothing about the program.
    if (shutdown.requested.aborted) break;
    rounds.append(result);
    say(roundLine(result));
    const isBroken = result.problems.length > 0;
    brokenInARow = isBroken ? brokenInARow + 1 : 0;
    if (!isBroken) continue;
    say(stack.log());
    // A fault must not continue into the next round, and a fault that always occurs need not be seen a hundred times.
    await closeStack();
    if (brokenInARow >= brokenInARowMax) break;
  }
}

async function openStack({ context, runtime, wanted, binary }: Game): Promise<Stack> {
  const { clock, log } = runtime;
  context.say('Starting a private installation …');
  const others = wanted.names.includes('cut') ? otherServers : [];
  const stack = await startStack({ binary, others, clock, log, keep: wanted.keep === true });
  if (wanted.keep) context.say(`  in ${stack.folder}`);
  return stack;
}

async function playRound(game: Game, stack: Stack, round: number): Promise<RoundResult> {
  const { wanted, runtime, seed } = game;
  const { say } = game.context;
  const { buyers, seats } = wanted;
  const scenario = wanted.names[(round - 1) % wanted.names.length]!;
  say(`Round ${round} of ${wanted.rounds}: ${scenario}, ${scenarios[scenario].says} …`);
  const identity = { round, scenario, seed: seed + round, buyers, seats };
  try {
    return await runRound({
      ...identity,
      stack,
      pace: wanted.quick ? paces.quick : paces.full,
      makeEvent: (name, split) => makeEvent({ db: stack.db, runtime, name, split, seats }),
      clock: runtime.clock,
      say,
    });
  } catch (error) {
    return brokenOff(identity, (error as Error).message);
  }
}

function keptRounds(file: string | undefined, fail: (sentence: string) => void): RoundsFile | null {
  const source = path.join(projectDir, 'src');
  try {
    return openRounds(file ?? null, () => programTree(source));
  } catch (error) {
    if (!(error instanceof OtherProgram)) throw error;
    fail(error.message);
    return null;
  }
}

function verdict(results: readonly RoundResult[], fail: (sentence: string) => void): void {
  const broken = results.filter(({ problems }) => problems.length > 0).length;
  const missed = results.filter(({ missed: list }) => list.length > 0).length;
  if (broken > 0) fail(`${broken} of ${counted(results.length, 'round')} broke a promise.`);
  if (missed > 0) fail(`${missed} of ${counted(results.length, 'round')} missed a target.`);
  if (results.length === 0) fail('No round was played.');
}

async function makeEvent(given: {
  db: Db;
  runtime: Runtime;
  name: string;
  split: boolean;
  seats: number;
}): Promise<void> {
  const { db, seats, name, split } = given;
  await createDemoEvent({
    db,
    clock: given.runtime.clock,
    seats,
    onProgress: () => {},
    event: { event: name, name: `Game day, ${name}`, currency: 'EUR' },
    // The probers hold a seat and give it back several times a second, each as one browser.
    settings: {
      holdTtlMs,
      holdSeatsMax: 6,
      claimsPerMinute: null,
      cooldown: null,
      ...(split ? { partitions: thirds(seats) } : {}),
    },
  });
}

/** Two thirds of the sections on servers of their own; the rest stays with the default one. */
function thirds(seats: number): { sections: string[]; redis: string }[] {
  const plan = Buffer.from(JSON.stringify(generateStadium({ seats, name: 'Demo Stadium' })));
  const imported = importPlan(plan);
  if (imported.kind === 'refused') throw new Error('the demo stadium was refused');
  const ids = imported.plan.sections.map(({ id }) => id);
  return otherServers.map((redis, nth) => ({
    sections: ids.filter((_, index) => index % (otherServers.length + 1) === nth + 1),
    redis,
  }));
}
