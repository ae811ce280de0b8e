import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStoreWatch, type WatchedRedis } from '../../src/controller/store-watch.ts';
import type { PartitionModes, PartitionRow, RebuildableArbiter } from '../../src/inventory/modes.ts';
import type { RedisPrimary } from '../../src/redis/store.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';
import { testLoops } from '../support/loops.ts';
import { until } from '../support/wait.ts';

/** The leader's watch over a Redis and a partition's row that do what a test tells them to. */

const term = 7;

function stage(row: Partial<PartitionRow>, options: { configured?: boolean } = {}) {
  const state = {
    row: {
      partition: 0,
      mode: 'redis',
      epoch: 5,
      store: null,
      runIds: ['run'],
      graceUntil: null,
      ...row,
    } as PartitionRow,
    /** Results of the probes, in turn. The last one repeats. */
    probes: [] as (() => Promise<{ epoch: number; time: number }>)[],
    probed: 0,
    asked: 0,
    primary: {} as Partial<RedisPrimary>,
    postgresTime: async () => Date.now(),
  };
  const done: [step: string, command: unknown][] = [];
  const note = <Answer>(step: string, answer: Answer) => {
    return async (command: unknown): Promise<Answer> => {
      done.push([step, command]);
      return answer;
    };
  };
  const redis: WatchedRedis = {
    arbiter: {
      probe: () => state.probes[Math.min(state.probed++, state.probes.length - 1)]!(),
    } as unknown as RebuildableArbiter,
    trust: () => {},
    async primaries() {
      state.asked += 1;
      const now = Date.now();
      return [
        {
          address: 'a:1',
          runId: 'run',
          run: 'run',
          time: now,
          localTime: now,
          roundTripMs: 1,
          readOnly: false,
          evicts: null,
          ...state.primary,
        },
      ];
    },
    onChange: () => () => {},
  };
  const watch = createStoreWatch({
    leads: () => new Map([[1, term]]),
    modes: { read: async () => ({ at: performance.now(), modes: [state.row] }) },
    partitionModes: {
      report: note('report', { kind: 'changed' }),
      abort: note('abort', { kind: 'refused', reason: 'other_mode' }),
      begin: note('begin', { kind: 'refused', reason: 'other_mode' }),
    } as unknown as PartitionModes,
    redis: () => (options.configured === false ? null : redis),
    stores: options.configured === false ? [] : [redis],
    phaseOf: async () => ({ phase: 'open', version: 1 }),
    postgresTime: () => state.postgresTime(),
    reporter: 'leader',
    clock: systemClock,
    log: silentLogger,
  });
  /** Runs the watch until the condition holds. */
  async function watchUntil(condition: () => boolean): Promise<void> {
    watch.start(testLoops());
    await until(condition, () => `the watch; done: ${JSON.stringify(done)}`);
    await watch.stop();
  }
  return { state, done, until: watchUntil };
}

const well = async () => ({ epoch: 5, time: Date.now() });
const fails = (code: StoreFault['code']) => async () => {
  throw new StoreFault(code, 'told to');
};
const report = (reason: string) => [
  'report',
  { event: 1, partition: 0, epoch: 5, reporter: 'leader', reason, term },
];

test('D1: a leader that was not given the Redis of its partition takes it to Postgres', async () => {
  const { done, until } = stage({ store: 'north' }, { configured: false });
  await until(() => done.length > 0);
  assert.deepEqual(done[0], report('unconfigured'));
});

test('without any Redis a partition in Postgres is left alone', async () => {
  const { state, done, until } = stage({ mode: 'postgres' }, { configured: false });
  let reads = 0;
  Object.defineProperty(state, 'row', { get: () => ({ partition: 0, mode: 'postgres', n: reads++ }) });
  await until(() => reads > 2);
  assert.deepEqual(done, []);
});

test('D1: a move that its maker left is moved back by the next leader', async () => {
  const { done, until } = stage({ mode: 'moving' });
  await until(() => done.length > 0);
  assert.deepEqual(done[0], ['abort', { event: 1, partition: 0, term }]);
});

test('D1: one probe that fails is no loss, two are; another epoch is one at once', async () => {
  const once = stage({});
  once.state.probes = [fails('store_unavailable'), well, fails('outcome_unknown'), well];
  await once.until(() => once.state.probed > 5);
  assert.deepEqual(once.done, []);
  const twice = stage({});
  twice.state.probes = [well, fails('store_unavailable')];
  await twice.until(() => twice.done.length > 0);
  assert.deepEqual([twice.done[0], twice.state.probed], [report('unreachable'), 3]);
  const forgot = stage({});
  forgot.state.probes = [async () => ({ epoch: 0, time: Date.now() })];
  await forgot.until(() => forgot.done.length > 0);
  assert.deepEqual([forgot.done[0], forgot.state.probed], [report('forgot'), 1]);
});

test('S3: a Redis whose clock is half a second from Postgres’s is not trusted; this process’s own clock does not matter', async () => {
  const off = stage({});
  off.state.probes = [async () => ({ epoch: 5, time: Date.now() + 900 })];
  await off.until(() => off.done.length > 0);
  assert.deepEqual(off.done[0], report('clock'));
  const both = stage({});
  both.state.probes = [async () => ({ epoch: 5, time: Date.now() + 60_300 })];
  both.state.postgresTime = async () => Date.now() + 60_000;
  await both.until(() => both.state.probed > 2);
  assert.deepEqual(both.done, []);
});

test('a Postgres that does not tell its time says nothing against Redis', async () => {
  const { state, done, until } = stage({});
  state.probes = [well];
  state.postgresTime = fails('store_unavailable') as never;
  await until(() => state.probed > 3);
  assert.deepEqual(done, []);
});

test('keys on the move are no loss for five seconds', async () => {
  const { state, done, until } = stage({});
  state.probes = [fails('store_busy')];
  await until(() => state.probed > 3);
  assert.deepEqual(done, []);
});

test('D1: a rebuild waits for grace, for writes and for a fitting clock', async () => {
  for (const [row, primary, begins] of [
    [{ graceUntil: Date.now() + 60_000 }, {}, false],
    [{}, { readOnly: true }, false],
    [{}, { evicts: 'allkeys-lru' }, false],
    [{}, { localTime: Date.now() - 5_000 }, false],
    [{}, {}, true],
    // Was lost before: it has to be well for a second.
    [{ graceUntil: Date.now() - 4_000 }, {}, true],
  ] as const) {
    const { state, done, until } = stage({ mode: 'postgres', ...row });
    state.primary = primary;
    const end = performance.now() + 500;
    // In grace nothing is asked at all.
    await until(() =>
      begins ? done.length > 0 : state.asked > 1 || ('graceUntil' in row && performance.now() > end),
    );
    assert.equal(done[0]?.[0], begins ? 'begin' : undefined, JSON.stringify([row, primary]));
  }
});
