import type { Clock } from '../../src/runtime/clock.ts';
import type { Random } from '../../src/runtime/random.ts';
import type { GameRedis } from './servers.ts';

/** The failures of Redis, and how it comes back. */
export const scenarioNames = ['kill', 'freeze', 'empty', 'flush', 'failover', 'cut'] as const;
export type ScenarioName = (typeof scenarioNames)[number];

export interface Hurting {
  /** The server that is hurt; of `cut` that of one partition. */
  redis: GameRedis;
  clock: Clock;
  random: Random;
}

export interface Scenario {
  says: string;
  /** Before the crowd comes. */
  prepare?(at: Hurting): Promise<void>;
  /** Some seconds before the blow, with the crowd in the venue. */
  before?(at: Hurting): Promise<void>;
  hurt(at: Hurting): Promise<void>;
  /** Milliseconds from the failure to the repair, drawn for each round. */
  downMs(random: Random): number;
  mend(at: Hurting): Promise<void>;
}

/** Longer than grace, so that Postgres arbitrates for a while. */
const longDown = (random: Random): number => 11_000 + random.int(4_000);
const nothing = async (): Promise<void> => {};

export const scenarios: Record<ScenarioName, Scenario> = {
  kill: {
    says: 'killed, back later with an old file',
    before: ({ redis }) => redis.save(),
    hurt: ({ redis }) => redis.kill(),
    downMs: longDown,
    mend: ({ redis }) => redis.start('saved'),
  },
  freeze: {
    says: 'frozen, later thawed',
    hurt: async ({ redis }) => redis.freeze(),
    downMs: longDown,
    mend: async ({ redis }) => redis.thaw(),
  },
  empty: {
    says: 'killed and at once back, empty',
    hurt: ({ redis }) => redis.kill(),
    downMs: (random) => 100 + random.int(500),
    mend: ({ redis }) => redis.start('empty'),
  },
  flush: {
    says: 'flushed while it runs',
    hurt: ({ redis }) => redis.flush(),
    downMs: () => 0,
    mend: nothing,
  },
  failover: {
    says: 'failed over to its replica',
    prepare: ({ redis }) => redis.addReplica(),
    hurt: ({ redis }) => redis.failOver(),
    downMs: () => 0,
    mend: nothing,
  },
  cut: {
    says: 'one of three servers killed, back later empty',
    hurt: ({ redis }) => redis.kill(),
    downMs: longDown,
    mend: ({ redis }) => redis.start('empty'),
  },
};

export function isScenario(name: string): name is ScenarioName {
  return (scenarioNames as readonly string[]).includes(name);
}
