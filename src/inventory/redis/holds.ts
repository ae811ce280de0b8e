import { createHash } from 'node:crypto';
import fs from 'node:fs';
import type { EventNo, PartitionNo } from '../../core/hold.ts';
import { assert } from '../../core/outcome.ts';
import type { LuaScript, RedisStore } from '../../redis/store.ts';
import { StoreFault } from '../../runtime/store-fault.ts';
import type { StoredHold } from '../modes.ts';
import { heldStates, luaTables } from './codes.ts';
import { partitionKeys, partitionTag } from './scripts.ts';

/** A call with this many fields takes Redis a few milliseconds. */
const fieldsPerCall = 2_000;
const fieldsOfHold = 10;

/**
 * All records of a partition's holds, live ones and memories, for audits: not of one instant, since Redis answers others
 * between two calls. A StoreFault where the partition does not answer.
 */
export async function readRedisHolds(
  store: Pick<RedisStore, 'call'>,
  prefix: string,
  at: { event: EventNo; partition: PartitionNo },
): Promise<StoredHold[]> {
  const tag = partitionTag(prefix, at.event, at.partition);
  const script = readScript();
  // Keyed by id, because a page may repeat an entry of an earlier one.
  const holds = new Map<string, StoredHold>();
  let cursor = '0';
  let run = '';
  do {
    const answer = await store.call(tag, script, partitionKeys(tag), [0, 0, cursor, fieldsPerCall]);
    assert(Array.isArray(answer) && answer.length >= 3, 'holds: an epoch, a cursor and a run');
    if (answer[0] === 0) {
      throw new StoreFault(
        'store_unavailable',
        `partition ${at.partition} of event ${at.event} does not answer`,
      );
    }
    if (run !== '' && run !== answer[2]) {
      // The slot has moved to another node. Entries that the cursor had not reached there may be before it
      // here, so the reading starts again.
      holds.clear();
      cursor = '0';
      run = '';
      continue;
    }
    run = String(answer[2]);
    cursor = String(answer[1]);
    const fields = answer.slice(3).map(String);
    assert(fields.length % fieldsOfHold === 0, 'holds: whole records');
    for (let i = 0; i < fields.length; i += fieldsOfHold) {
      const hold = holdOf(fields.slice(i, i + fieldsOfHold));
      if (hold) holds.set(hold.hold, hold);
    }
  } while (cursor !== '0' || run === '');
  return [...holds.values()];
}

function holdOf(fields: string[]): StoredHold | null {
  const [hold = '', kind, visitor = '', holder = '', request = '', ...rest] = fields;
  const [grantedAt, deadline, grant, order, seats] = rest;
  const state = heldStates[Number(kind) - 1];
  assert(state, `hold ${hold} in a known state, not ${kind}`);
  // The remainder of a hold that ended before its record arrived. It has no owner.
  if (visitor === '' && seats === '') return null;
  return {
    hold,
    visitor,
    holder,
    request,
    seats: seats ? seats.split(' ').map(Number) : [],
    grantedAt: Number(grantedAt),
    deadline: Number(deadline),
    grant: Number(grant),
    order: order || null,
    state,
  };
}

function readScript(): LuaScript {
  const read = (file: string): string =>
    fs.readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), 'utf8');
  const text = `${luaTables()}${read('partition')}\n${read('holds')}`;
  return { name: 'arbiter_holds', text, sha: createHash('sha1').update(text).digest('hex') };
}
