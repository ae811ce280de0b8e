import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Hold } from '../../src/core/hold.ts';
import type { ArbiterStore, HoldCommand } from '../../src/inventory/arbiter.ts';
import type { PartitionRow, RebuildableArbiter, ReportCommand } from '../../src/inventory/modes.ts';
import { createRoutedArbiter } from '../../src/inventory/routed.ts';
import { type Clock, systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';

/** The router over scripted stores, with time and the partition's row controlled by the test. */

const at = { event: 1, partition: 0 };
const hold = { hold: 'h', ...at, epoch: 5 } as unknown as Hold;
const granted = { kind: 'granted', hold, repeated: false } as const;

function stage(row: Partial<PartitionRow>) {
  let now = 10_000;
  const asked: string[] = [];
  const answers = new Map<string, () => unknown>();
  const reports: ReportCommand[] = [];
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
    /** How old a shared reading may be, ms: as the events' memory has it. */
    cached: null as { at: number; row: PartitionRow } | null,
    losses: 0,
  };
  const store = (name: string) =>
    new Proxy(
      {},
      {
        get: (_, operation) => async () => {
          asked.push(`${name}.${String(operation)}`);
          const answer = answers.get(`${name}.${String(operation)}`);
          return answer ? answer() : undefined;
        },
      },
    );
  const clock: Clock = { ...systemClock, monotonic: () => now, now: () => now };
  const arbiter = createRoutedArbiter({
    postgres: store('postgres') as ArbiterStore,
    redis: (name) =>
      name === 'elsewhere'
        ? null
        : {
            arbiter: store('redis') as RebuildableArbiter,
            trust: (_event, _partition, runIds) => asked.push(`trust ${runIds}`),
          },
    modes: {
      async read(_event, notBefore = 0) {
        if (state.cached && now - state.cached.at < 900 && state.cached.at >= notBefore) {
          return { at: state.cached.at, modes: [state.cached.row] };
        }
        state.cached = { at: now, row: state.row };
        return { at: now, modes: [state.row] };
      },
    },
    report: async (command) => {
      reports.push(command);
      return { kind: 'noted' };
    },
    granted: async () => {},
    wake: async () => void asked.push('wake'),
    reporter: 'me',
    onLoss: () => {
      state.losses += 1;
    },
    clock,
    log: silentLogger,
  });
  return {
    state,
    asked,
    reports,
    arbiter,
    answer: (operation: string, give: () => unknown) => void answers.set(operation, give),
    pass: (ms: number) => {
      now += ms;
    },
    /** The row changes in Postgres; who has read it lately does not know. */
    change: (to: Partial<PartitionRow>) => {
      state.row = { ...state.row, ...to };
    },
    claim: () => arbiter.hold({ ...at } as HoldCommand),
  };
}

const fault = (code: StoreFault['code']) => () => {
  throw new StoreFault(code, 'told to');
};

test('a claim goes to the store that the row names, Redis with its run ids, and its event woken, first', async () => {
  const redis = stage({});
  redis.answer('redis.hold', () => granted);
  assert.equal(await redis.claim(), granted);
  assert.deepEqual(redis.asked, ['trust run', 'wake', 'redis.hold']);
  const postgres = stage({ mode: 'postgres' });
  postgres.answer('postgres.hold', () => granted);
  assert.equal(await postgres.claim(), granted);
  assert.deepEqual(postgres.asked, ['postgres.hold']);
});

test('while the partition moves no store is asked, and the caller retries', async () => {
  const { claim, asked } = stage({ mode: 'moving' });
  assert.equal((await claim()).kind, 'retry');
  assert.deepEqual(asked, []);
});

test('a store at another epoch is asked again, once, under the epoch of the row as it is now', async () => {
  const { claim, asked, answer, change, pass, state } = stage({ mode: 'postgres' });
  answer('postgres.hold', () => {
    pass(1);
    change({ epoch: 7 });
    return state.cached?.row.epoch === 7 ? granted : { kind: 'stale', epoch: 7 };
  });
  assert.equal(await claim(), granted);
  assert.deepEqual(asked, ['postgres.hold', 'postgres.hold']);
  const { claim: late, answer: always } = stage({ mode: 'postgres' });
  always('postgres.hold', () => ({ kind: 'stale', epoch: 9 }));
  assert.equal((await late()).kind, 'retry', 'and not for ever');
});

test('D1: a grant under a mode that was read a second ago is returned only if the row is still the same', async () => {
  for (const [to, expected] of [
    [{}, 'granted'],
    [{ mode: 'postgres', epoch: 6 }, 'taken'],
    [{ mode: 'redis', epoch: 7 }, 'taken'],
    [{ mode: 'moving' }, 'retry'],
  ] as const) {
    const { claim, answer, pass, change, asked } = stage({});
    const taken = { kind: 'taken', seats: [1] };
    answer('postgres.hold', () => taken);
    answer('redis.hold', () => {
      if (asked.filter((call) => call === 'redis.hold').length > 1) return taken;
      // The answer, or this process, takes its time, and meanwhile another store arbitrates.
      pass(1_000);
      change(to);
      return granted;
    });
    assert.equal((await claim()).kind, expected);
  }
});

test('a refusal is returned unchanged, however old the mode', async () => {
  const { claim, answer, pass, change } = stage({});
  const taken = { kind: 'taken', seats: [1] };
  answer('redis.hold', () => {
    pass(2_000);
    change({ mode: 'postgres', epoch: 6 });
    return taken;
  });
  assert.equal(await claim(), taken);
});

test('a lost answer is retry; faults that go on are reported, once a second; keys on the move are not', async () => {
  const { claim, answer, pass, reports, state } = stage({});
  answer('redis.hold', fault('outcome_unknown'));
  assert.equal((await claim()).kind, 'retry');
  // A connection that breaks and comes back at once is no loss: the leader looks, nothing is reported.
  assert.deepEqual([state.losses, reports.length], [1, 0]);
  for (let call = 0; call < 20; call++) {
    pass(100);
    assert.equal((await claim()).kind, 'retry');
  }
  assert.equal(reports.length, 2);
  assert.deepEqual(reports[0], { ...at, epoch: 5, reporter: 'me', reason: 'unreachable', term: null });
  answer('redis.hold', () => granted);
  assert.equal((await claim()).kind, 'granted');
  answer('redis.hold', fault('store_busy'));
  pass(5_000);
  assert.equal((await claim()).kind, 'retry');
  answer('redis.hold', fault('store_unavailable'));
  assert.equal((await claim()).kind, 'retry');
  assert.equal(reports.length, 2, 'the first fault after an answer is a suspicion only');
});

test('a bug is not a fault: it fails the request and is not reported as a loss', async () => {
  const { claim, answer, reports, pass } = stage({});
  answer('redis.hold', () => {
    throw new TypeError('a bug');
  });
  for (let call = 0; call < 5; call++) {
    await assert.rejects(claim(), TypeError);
    pass(300);
  }
  assert.equal(reports.length, 0);
});

test('D1: a store that is stale under the epoch of the row, read again, forgot; under another epoch it is asked again', async () => {
  const forgot = stage({});
  forgot.answer('redis.hold', () => ({ kind: 'stale', epoch: 0 }));
  assert.equal((await forgot.claim()).kind, 'retry');
  assert.deepEqual(
    forgot.reports.map(({ reason }) => reason),
    ['forgot'],
  );
  const changed = stage({});
  changed.answer('redis.hold', () => {
    if (changed.state.cached?.row.epoch === 8) return granted;
    changed.pass(1);
    changed.change({ epoch: 8 });
    return { kind: 'stale', epoch: 8 };
  });
  assert.equal(await changed.claim(), granted);
  assert.equal(changed.reports.length, 0);
});

test('a row that names a Redis which this process does not have: retry, and no word against that Redis', async () => {
  const { claim, reports, asked, state } = stage({ store: 'elsewhere' });
  assert.equal((await claim()).kind, 'retry');
  assert.deepEqual([reports.length, asked, state.losses], [0, [], 0]);
});

test('D1: a hold is "gone" only if the store that said so is still the one', async () => {
  const { arbiter, answer, pass, change, asked } = stage({ mode: 'postgres' });
  answer('postgres.find', () => {
    // The flip takes the holds along: who read the row before it finds none here.
    pass(1);
    change({ mode: 'redis', epoch: 6 });
    return null;
  });
  answer('redis.find', () => hold);
  assert.equal(await arbiter.find(1, 0, 'h'), hold);
  assert.deepEqual(asked, ['postgres.find', 'trust run', 'redis.find']);
});

test('D1: in grace a hold that is not there yet is not gone', async () => {
  const { arbiter, answer, pass } = stage({ mode: 'postgres', graceUntil: 20_000 });
  answer('postgres.find', () => null);
  await assert.rejects(arbiter.find(1, 0, 'h'), { code: 'store_busy' });
  pass(10_000);
  assert.equal(await arbiter.find(1, 0, 'h'), null);
});

test('a find or a picture that Redis does not give is a fault of the store', async () => {
  const { arbiter, answer } = stage({});
  answer('redis.find', fault('outcome_unknown'));
  await assert.rejects(arbiter.find(1, 0, 'h'), { code: 'outcome_unknown' });
  answer('redis.snapshot', () => ({ at: 0, epoch: 4, codes: new Uint8Array() }));
  await assert.rejects(arbiter.snapshot(1, 0), { code: 'store_unavailable' });
});

test('decisions reach the row’s store, both stores while it moves, and never fail their caller', async () => {
  const command = { ...at, changes: [], ordered: [], ended: [] };
  for (const [mode, expected] of [
    ['postgres', ['postgres.project']],
    ['moving', ['postgres.project', 'redis.project']],
    ['redis', ['trust run', 'redis.project']],
  ] as const) {
    const { arbiter, asked, answer } = stage({ mode });
    answer('redis.project', fault('store_unavailable'));
    assert.equal(await arbiter.project(command), mode === 'postgres');
    assert.deepEqual(asked, expected);
    answer('redis.project', () => true);
    assert.equal(await arbiter.project(command), true);
  }
});
