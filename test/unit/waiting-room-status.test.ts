import assert from 'node:assert/strict';
import test from 'node:test';
import { eventSettingsDefault } from '../../src/orders/record.ts';
import type { Db } from '../../src/postgres/db.ts';
import { createPublisher, type PublishCommand } from '../../src/read-path/publish.ts';
import type { StatusObject } from '../../src/read-path/published.ts';
import { systemClock } from '../../src/runtime/clock.ts';

/** Publishes into memory and returns the status objects in turn. */
async function statusesOf(commands: Partial<PublishCommand>[]): Promise<StatusObject[]> {
  const statuses: StatusObject[] = [];
  const db: Db = {
    query: async (_name, _text, values = []) => {
      const [names, bytes] = [values[2] as string[], values[4] as Uint8Array[]];
      const at = names.indexOf('status');
      if (at >= 0) statuses.push(JSON.parse(Buffer.from(bytes[at]!).toString()));
      return [{ written: true }] as never[];
    },
    close: async () => {},
  };
  const payment = { publishableKey: 'pk', script: '', test: true };
  const publisher = createPublisher({ db, clock: systemClock, payment, timeZone: 'UTC' });
  for (const [count, command] of commands.entries()) {
    await publisher.publish({ ...commandOf(), count, ...command });
  }
  return statuses;
}

function commandOf(): PublishCommand {
  return {
    event: {
      eventNo: 1,
      event: 'e',
      name: 'E',
      planId: 'p',
      currency: 'EUR',
      performanceAt: null,
      onSaleAt: null,
      saleEndsAt: null,
      prices: {},
      settings: eventSettingsDefault,
      phase: 'open',
      version: 1,
      message: null,
      rateCeiling: null,
      layoutHash: 'h',
      seatCount: 0,
    },
    venue: {
      layoutHash: 'h',
      layout: { sections: [], categories: [] } as never,
      seats: [],
      byGuid: new Map(),
      partitions: [],
      partitionOf: () => 0,
    },
    term: 1,
    count: 0,
    snapshot: { at: 1_000_000, epoch: 1, codes: new Uint8Array() },
    line: { frontier: [10], last: [10], gaps: [[]], measuredRate: 1, targetRate: 1, noShow: 0 },
  };
}

test('W4: gaps are reported by shard and do not count as waiting visitors', async () => {
  const line = commandOf().line;
  const [short, long] = await statusesOf([
    { line: { ...line, frontier: [10, 5], last: [30_010, 6], gaps: [[[12, 30_000]], []] } },
    { event: { ...commandOf().event, version: 2 }, line: { ...line, last: [30_010] } },
  ]);
  assert.deepEqual(short!.gaps, [[[12, 30_000]], []]);
  assert.equal(short!.poll.minMs, 2_000, 'a dozen people wait');
  assert.equal(long!.poll.minMs, 5_000);
});

test('D1: partitions in grace are listed with its end, at once, and not after it', async () => {
  const grace = [
    { partition: 1, until: 1_000_001 },
    { partition: 2, until: 1_000_000 },
  ];
  const statuses = await statusesOf([{}, {}, { grace }, { grace }]);
  assert.deepEqual(
    statuses.map((status) => status.grace),
    [[], [{ partition: 1, until: 1_000_001 }]],
    'the second of each is not due, the change is',
  );
});
