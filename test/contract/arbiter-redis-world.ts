import type { Redis } from 'ioredis';
import type { DecidedState } from '../../src/core/hold.ts';
import { seatStates } from '../../src/core/hold.ts';
import type { Phase } from '../../src/core/phase.ts';
import type { ArbiterStore } from '../../src/inventory/arbiter.ts';
import type { RebuildableArbiter, StoredHold } from '../../src/inventory/modes.ts';
import { createRedisArbiter } from '../../src/inventory/redis/arbiter.ts';
import { heldStates } from '../../src/inventory/redis/codes.ts';
import { partitionKeys, partitionTag } from '../../src/inventory/redis/scripts.ts';
import { createRedisStore } from '../../src/redis/client.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import type { TestRedis } from '../support/redis.ts';
import type { ArbiterWorld } from './arbiter-world.ts';

export interface RedisWorld extends ArbiterWorld {
  /** Without what the router does. */
  redis: RebuildableArbiter;
  store: RedisStore;
  tag: string;
  client: Redis;
  /** As Postgres would take it along to a rebuild. */
  dump(): Promise<Dump>;
  /** A new epoch, with the seats as they are decided and these holds. */
  rebuild(holds?: StoredHold[]): Promise<number>;
}
export interface Dump {
  seats: { seat: number; version: number; state: DecidedState }[];
  holds: StoredHold[];
  /** A seat of a hold was decided about, and is free again or another's: a stored hold has no way to say that. */
  bereft: boolean;
}

const prefix = 'test';
let events = 0;

/** A connected store that trusts no server yet. */
export async function connectedStore(server: { url: string }): Promise<RedisStore> {
  const store = createRedisStore({
    name: 'default',
    url: server.url,
    clock: systemClock,
    log: silentLogger,
  });
  await store.primaries();
  return store;
}

/** A new event of its own in the store, open, without seats. */
export function redisWorld(
  server: TestRedis,
  store: RedisStore,
  client: Redis,
  options: { claimsPerCall?: number } = {},
): Promise<RedisWorld> {
  return redisWorldAt(async () => ({ runIds: [server.runId], client }), store, options);
}

/** Likewise, where who serves the tag is known by the tag alone. */
export async function redisWorldAt(
  place: (tag: string) => Promise<{ runIds: string[]; client: Redis }>,
  store: RedisStore,
  options: { claimsPerCall?: number } = {},
): Promise<RedisWorld> {
  events += 1;
  const event = events;
  const at = { event, partition: 0 };
  const tag = partitionTag(prefix, event, 0);
  const keys = partitionKeys(tag);
  const { runIds, client } = await place(tag);
  const redis = createRedisArbiter({ store, prefix, clock: systemClock, ...options });
  let phase: Phase = 'open';
  let version = 1;
  let epoch = 0;
  let moving = false;
  store.trust(tag, runIds);

  const dump = async (): Promise<Dump> => {
    const text = await client.eval(dumpScript, keys.length, ...keys);
    return dumpOf(JSON.parse(text as string) as RawDump);
  };
  const rebuild = async (holds: StoredHold[] = []): Promise<number> => {
    const { seats } = await dump();
    epoch += 1;
    await redis.begin({ ...at, epoch });
    await redis.load({ ...at, epoch, seats });
    await redis.remember({ ...at, epoch, holds });
    await redis.open({ ...at, epoch, phase: { phase, version }, lastGrant: 7 });
    return epoch;
  };
  await rebuild();

  return {
    arbiter: routed(redis, () => moving),
    redis,
    store,
    tag,
    client,
    event,
    epoch,
    // The server's clock cannot be moved: what was granted is moved into its past instead.
    advance: async (ms) => {
      await client.eval(advanceScript, keys.length, ...keys, ms);
    },
    setPhase: async (to) => {
      phase = to;
      version += 1;
      const nothing = { changes: [], ordered: [], ended: [] };
      await redis.project({ ...at, ...nothing, phase: { phase, version } });
    },
    setMode: async (mode) => {
      moving = mode === 'moving';
      return moving ? epoch : rebuild();
    },
    dump,
    rebuild,
  };
}

/** A move between stores is known by Postgres's row, so it is the router that asks to retry; this does so in its place. */
function routed(redis: RebuildableArbiter, isMoving: () => boolean): ArbiterStore {
  const retry = { kind: 'retry' as const, afterMs: 250 };
  return {
    ...redis,
    hold: async (command) => (isMoving() ? retry : redis.hold(command)),
    extend: async (command) => (isMoving() ? retry : redis.extend(command)),
    release: async (command) => (isMoving() ? retry : redis.release(command)),
    recover: async (command) => (isMoving() ? retry : redis.recover(command)),
  };
}

const advanceScript = `
  local by = tonumber(ARGV[1])
  local all = redis.call('HGETALL', KEYS[4])
  for i = 1, #all, 2 do
    local kind, value = string.sub(all[i], 1, 1), all[i + 1]
    if kind == 's' then
      local deadline, hold = string.match(value, '^(%d+):(.*)$')
      redis.call('HSET', KEYS[4], all[i], (deadline - by) .. ':' .. hold)
    elseif kind == 'h' then
      local r = cmsgpack.unpack(value)
      r[5], r[6] = r[5] - by, r[6] - by
      redis.call('HSET', KEYS[4], all[i], cmsgpack.pack(r))
    end
  end
  local due = redis.call('ZRANGE', KEYS[5], 0, -1, 'WITHSCORES')
  for i = 1, #due, 2 do redis.call('ZADD', KEYS[5], due[i + 1] - by, due[i]) end
`;

const dumpScript = `
  local versions, holds, bereft = {}, {}, false
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local all = redis.call('HGETALL', KEYS[4])
  for i = 1, #all, 2 do
    local kind, name = string.sub(all[i], 1, 1), string.sub(all[i], 2)
    if kind == 'd' then versions[#versions + 1] = { tonumber(name), tonumber(all[i + 1]) } end
    if kind == 'h' then
      local r = cmsgpack.unpack(all[i + 1])
      local counts = r[1] == 2 or (r[1] == 1 and r[6] > now)
      for _, seat in ipairs(counts and r[9] or {}) do
        local lease = redis.call('HGET', KEYS[4], 's' .. seat)
        if redis.call('GETRANGE', KEYS[3], seat, seat) == '0' and lease ~= r[6] .. ':' .. name then bereft = true end
      end
      r[9] = table.concat(r[9], ' ')
      holds[#holds + 1] = { name, r }
    end
  end
  return cjson.encode({ codes = redis.call('GETRANGE', KEYS[3], 0, -1), versions = versions, holds = holds, bereft = bereft })
`;

interface RawDump {
  codes: string;
  bereft: boolean;
  versions: [seat: number, version: number][] | Record<string, never>;
  holds:
    | [
        hold: string,
        record: [
          state: number,
          visitor: string,
          holder: string,
          request: string,
          grantedAt: number,
          deadline: number,
          grant: number,
          order: string,
          seats: string,
          address?: string,
        ],
      ][]
    | Record<string, never>;
}

function dumpOf(raw: RawDump): Dump {
  const versions = new Map(Array.isArray(raw.versions) ? raw.versions : []);
  const seats = [...raw.codes].flatMap((code, seat) =>
    code === 'x'
      ? []
      : [{ seat, version: versions.get(seat) ?? 1, state: seatStates[Number(code)] as DecidedState }],
  );
  const holds = (Array.isArray(raw.holds) ? raw.holds : []).map(([hold, r]): StoredHold => {
    const [state, visitor, holder, request, grantedAt, deadline, grant, order, text, address] = r;
    return {
      hold,
      visitor,
      holder,
      request,
      seats: text === '' ? [] : text.split(' ').map(Number),
      grantedAt,
      deadline,
      grant,
      order: order || null,
      address,
      state: heldStates[state - 1]!,
    };
  });
  return { seats, holds, bereft: raw.bereft };
}
