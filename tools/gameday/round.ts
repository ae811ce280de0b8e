import type { Clock } from '../../src/runtime/clock.ts';
import { type Random, seededRandom } from '../../src/runtime/random.ts';
import type { HoldEvent } from '../crowd/basket.ts';
import { type CrowdReport, runCrowd } from '../crowd/crowd.ts';
import { createFates, type Fates } from './fates.ts';
import {
  firstGrantAfter,
  longestQuiet,
  longestRefusal,
  type ModeWatch,
  type Prober,
  startProber,
  watchModes,
} from './observers.ts';
import { judged, type RoundResult } from './results.ts';
import { checkSales, closeEvent, readVenue, type Venue } from './sales.ts';
import { type Hurting, type ScenarioName, scenarios } from './scenarios.ts';
import type { GameRedis } from './servers.ts';
import type { Stack } from './stack.ts';

export interface RoundOptions {
  stack: Stack;
  round: number;
  scenario: ScenarioName;
  seed: number;
  buyers: number;
  seats: number;
  pace: Pace;
  /** Makes an event of that name and opens it; `split`: in three partitions, each on a server of its own. */
  makeEvent(name: string, split: boolean): Promise<void>;
  clock: Clock;
  say(line: string): void;
}

/** Milliseconds. */
export interface Pace {
  /** The crowd comes within this long… */
  arriveOverMs: number;
  /** …and keeps its baskets for this long, so that there are holds to lose whenever the blow falls. */
  thinkMs: readonly [number, number];
  /** The earliest and the latest time of the blow after the first buyer came. */
  blowMs: readonly [number, number];
}
export const paces = {
  full: { arriveOverMs: 8_000, thinkMs: [4_000, 18_000], blowMs: [5_000, 13_000] },
  /** For small crowds: a round takes half a minute. */
  quick: { arriveOverMs: 2_500, thinkMs: [2_500, 6_000], blowMs: [3_000, 4_000] },
} as const satisfies Record<string, Pace>;

const patienceMs = 90_000;
const warnBeforeMs = 2_000;
const inRedisWithinMs = 30_000;
const degradedWithinMs = 15_000;
const restoredWithinMs = 60_000;
/** The prober goes on for so long after the restore: what is refused late counts too. */
const watchAfterMs = 2_000;

/** One round: a crowd buys, Redis fails and is repaired, everything comes to rest, and the audit runs. */
export async function runRound(options: RoundOptions): Promise<RoundResult> {
  const { stack, clock, scenario, say } = options;
  const random = seededRandom(options.seed);
  const startedAt = clock.monotonic();
  const event = `round-${options.round}-${scenario}`;
  const split = scenario === 'cut';
  await options.makeEvent(event, split);
  const venue = await readVenue(stack.db, event);
  const partition = split ? random.int(venue.partitions.length) : 0;
  const redis = serverOf(stack, venue, partition);
  const at: Hurting = { redis, clock, random };
  const script = scenarios[scenario];
  await script.prepare?.(at);
  const watch = watchModes({ db: stack.db, clock, event: venue.eventNo });
  const probers: Prober[] = [];
  try {
    const inRedis = (): boolean => venue.partitions.every((each) => watch.now(each)?.mode === 'redis');
    if (!(await watch.until(inRedis, inRedisWithinMs))) throw new Error('the event did not come to Redis');
    await untilOpen(`${stack.url}/api/events/${event}/status`, clock);
    const other = venue.partitions.find((each) => each !== partition);
    for (const each of [partition, ...(other === undefined ? [] : [other])]) {
      const section = venue.sectionOf(each);
      probers.push(await startProber({ url: stack.url, event, section, clock, random }));
    }
    const fates = createFates((seat) => venue.partitionOf(seat) === partition, clock);
    const bought = new Map<string, number[]>();
    const crowd = startCrowd({ ...options, event, random, fates, bought });
    const blow = await strike(at, scenario, watch, { partition, fates, pace: options.pace });
    const seconds = (): string => `  ${Math.round((clock.monotonic() - startedAt) / 1_000)} s:`;
    say(`${seconds()} back in Redis; the crowd goes home …`);
    await clock.sleep(watchAfterMs);
    await Promise.all(probers.map((prober) => prober.stop()));
    const report = await crowd;
    say(`${seconds()} everybody has gone; the audit …`);
    const sales = await checkSales(stack, event, venue.eventNo, bought);
    return judged({
      ...identity(options),
      ...fates.summary(),
      ...timesOf(blow, probers, watch, partition),
      ...crowdOf(report),
      ...sales,
      problems: [...blow.problems, ...(stack.alive() ? [] : ['the server ended'])],
      tookMs: Math.round(clock.monotonic() - startedAt),
    });
  } finally {
    await Promise.all(probers.map((prober) => prober.stop()));
    await watch.stop();
    await script.mend(at).catch(() => {});
    await closeEvent(stack.db, venue.eventNo).catch(() => {});
  }
}

/** The leader publishes a new event within two of its ticks. */
async function untilOpen(url: string, clock: Clock): Promise<void> {
  const end = clock.monotonic() + inRedisWithinMs;
  while (clock.monotonic() < end) {
    const answer = await fetch(url).catch(() => null);
    const status = answer?.ok ? ((await answer.json()) as { phase?: string }) : null;
    if (status?.phase === 'open') return;
    await clock.sleep(100);
  }
  throw new Error('the event was not published');
}

function identity({ round, scenario, seed, buyers, seats }: RoundOptions) {
  return { round, scenario, seed, buyers, seats };
}

function serverOf(stack: Stack, venue: Venue, partition: number): GameRedis {
  const name = venue.storeOf(partition) ?? 'default';
  const found = stack.redis.find((each) => each.name === name);
  if (!found) throw new Error(`there is no Redis named ${name}`);
  return found;
}

function startCrowd(
  given: RoundOptions & { event: string; random: Random; fates: Fates; bought: Map<string, number[]> },
): Promise<CrowdReport> {
  const { stack, event, buyers, pace, clock, random, fates, bought } = given;
  const crowd = runCrowd({
    url: stack.url,
    event,
    buyers,
    overMs: pace.arriveOverMs,
    patienceMs,
    clock,
    random,
    connectionsMax: 200,
    thinkMs: pace.thinkMs,
    onHold: (change: HoldEvent) => fates.note(change),
    onBought: (order, seats) => void bought.set(order, seats),
  });
  // Awaited later; a round that fails before that must not end the process.
  crowd.catch(() => {});
  return crowd;
}

interface Blow {
  hurtAt: number;
  mendedAt: number;
  /** Null if it did not happen in time. */
  degradedAt: number | null;
  graceUntil: number | null;
  restoredAt: number | null;
  reason: string | null;
  problems: string[];
}

async function strike(
  at: Hurting,
  scenario: ScenarioName,
  watch: ModeWatch,
  where: { partition: number; fates: Fates; pace: Pace },
): Promise<Blow> {
  const { clock, random } = at;
  const { partition, fates } = where;
  const [earliest, latest] = where.pace.blowMs;
  const script = scenarios[scenario];
  const problems: string[] = [];
  const waitMs = earliest + random.int(latest - earliest);
  await clock.sleep(waitMs - warnBeforeMs);
  await script.before?.(at);
  await clock.sleep(warnBeforeMs);
  const before = watch.now(partition)!;
  const hurtAt = clock.now();
  fates.blow();
  await script.hurt(at);
  const downMs = script.downMs(random);
  const seen = watch.until(() => watch.now(partition)!.epoch !== before.epoch, degradedWithinMs);
  await clock.sleep(downMs);
  await script.mend(at);
  const mendedAt = clock.now();
  await seen;
  const lost = watch.changes.find(
    (change) => change.partition === partition && change.mode === 'postgres' && change.epoch > before.epoch,
  );
  if (!lost) problems.push(`not degraded within ${degradedWithinMs / 1_000} s`);
  const back = (): boolean => {
    const now = watch.now(partition)!;
    return now.mode === 'redis' && now.epoch !== before.epoch;
  };
  const restored = await watch.until(back, restoredWithinMs);
  if (!restored) problems.push(`not back in Redis within ${restoredWithinMs / 1_000} s of the mending`);
  for (const change of watch.changes) {
    if (change.partition !== partition && change.mode !== 'redis' && change.at > hurtAt) {
      problems.push(`partition ${change.partition}, whose server was well, went to ${change.mode}`);
    }
  }
  return {
    hurtAt,
    mendedAt,
    degradedAt: lost?.at ?? null,
    graceUntil: lost?.graceUntil ?? null,
    restoredAt: restored ? watch.now(partition)!.at : null,
    reason: lost?.reason ?? null,
    problems,
  };
}

function timesOf(blow: Blow, [hurt, other]: readonly Prober[], watch: ModeWatch, partition: number) {
  const { hurtAt, mendedAt, degradedAt, restoredAt, graceUntil } = blow;
  const probes = hurt!.probes;
  const again = degradedAt === null ? null : firstGrantAfter(probes, degradedAt);
  const settled = Math.max(mendedAt, graceUntil ?? 0, again ?? 0);
  return {
    reason: blow.reason,
    degradeMs: degradedAt === null ? null : Math.round(degradedAt - hurtAt),
    holdAgainMs: again === null ? null : Math.round(again - hurtAt),
    restoreMs: restoredAt === null ? null : Math.round(restoredAt - mendedAt),
    refusedMs: Math.round(longestRefusal(probes, settled)),
    quietMs: Math.round(longestQuiet(probes, settled)),
    movingMs: movingMs(watch, partition, restoredAt),
    othersRefusedMs: other ? Math.round(longestRefusal(other.probes, hurtAt)) : null,
    probes: probes.length,
    probeFaults: [...new Set(probes.filter(({ answer }) => answer === 'failed').map(({ code }) => code))],
    moves: watch.changes.filter((change) => change.partition === partition).map(({ mode }) => mode),
  };
}

/** Time from `moving` to `redis`, by the row. Null if it was shorter than the time between two observations. */
function movingMs(watch: ModeWatch, partition: number, restoredAt: number | null): number | null {
  const moving = watch.changes.findLast(
    (change) => change.partition === partition && change.mode === 'moving' && change.at < (restoredAt ?? 0),
  );
  return moving && restoredAt !== null ? Math.round(restoredAt - moving.at) : null;
}

function crowdOf(report: CrowdReport) {
  const { ends, requests, retried, refusedTaken, statuses, faults } = report;
  const errors = Object.entries(statuses)
    .filter(([status]) => Number(status) >= 500 && Number(status) !== 503)
    .reduce((sum, [, count]) => sum + count, 0);
  return { ends, requests, retried, refusedTaken, busy: statuses[503] ?? 0, errors, faults };
}
