import { createHash } from 'node:crypto';
import fs from 'node:fs';
import type { EventNo } from '../../core/hold.ts';
import { assert } from '../../core/outcome.ts';
import type { LuaScript, RedisStore } from '../../redis/store.ts';
import type {
  DrawCommand,
  DrawOutcome,
  LookOutcome,
  NumberStore,
  ShardEpoch,
  StaleNumbers,
} from '../numbers.ts';
import { joinBatchMax, joinMemoryMs } from '../waiting-room.ts';

const drawScript = scriptOf('queue_draw');
const lookScript = scriptOf('queue_look');
const probeScript = scriptOf('queue_probe');
const openScript = scriptOf('queue_open');

/**
 * Arrivals by second stay in Redis until the leader, which reads them each second, has had ample time to write them to
 * Postgres.
 */
const arrivalsKeptSeconds = 300;

/**
 * Queue numbers in Redis: one hash tag a shard, so one slot. The phase is not looked at here: a number gives no right, and
 * the process that asks knows the phase as it was less than a second ago; redeem, which gives one, asks Postgres.
 * `memoryMs`: how long visitor → number is remembered; tests shorten it.
 */
export function createRedisNumbers(options: {
  store: RedisStore;
  prefix: string;
  memoryMs?: number;
}): NumberStore {
  const { store, prefix, memoryMs = joinMemoryMs } = options;
  const tagOf = (event: EventNo, shard: number): string => `${prefix}:q:${event}:${shard}`;

  return {
    async draw(command) {
      const { event, shard, visitors } = command;
      assert(visitors.length > 0 && visitors.length <= joinBatchMax, `a batch is of 1 to ${joinBatchMax}`);
      const tag = tagOf(event, shard);
      const keys = [...keysOf(tag), ...visitors.map((visitor) => `{${tag}}:v:${visitor}`)];
      const { epoch, ceiling, floor } = command;
      const args = [epoch, ceiling, floor, memoryMs, arrivalsKeptSeconds];
      return drawOutcome(await store.call(tag, drawScript, keys, args), command);
    },

    async look(at) {
      const tag = tagOf(at.event, at.shard);
      return lookOutcome(await store.call(tag, lookScript, keysOf(tag), [at.epoch, at.floor, at.since]));
    },

    async probe(event, shard) {
      const tag = tagOf(event, shard);
      const reply = await store.call(tag, probeScript, keysOf(tag), []);
      assert(Array.isArray(reply), 'a queue script answers a list');
      return { epoch: Number(reply[1]) };
    },

    async open(at: ShardEpoch & { last: number; ceiling: number }) {
      const tag = tagOf(at.event, at.shard);
      const reply = await store.call(tag, openScript, keysOf(tag), [at.epoch, at.last, at.ceiling]);
      return staleOf(reply) ?? { kind: 'opened' };
    },

    trust: (event, shard, runIds) => store.trust(tagOf(event, shard), runIds),
    primaries: () => store.primaries(),
  };
}

const keysOf = (tag: string): string[] => [`{${tag}}:meta`, `{${tag}}:arrivals`];

function staleOf(reply: unknown): StaleNumbers | null {
  assert(Array.isArray(reply), 'a queue script answers a list');
  return Number(reply[0]) === 0 ? { kind: 'stale', epoch: Number(reply[1]) } : null;
}

function drawOutcome(reply: unknown, { visitors, ceiling: asked }: DrawCommand): DrawOutcome {
  const stale = staleOf(reply);
  if (stale) return stale;
  const [, , beforeText, lastText, ceilingText, ...answers] = reply as string[];
  const [before, last, ceiling] = [beforeText, lastText, ceilingText].map(Number) as [number, number, number];
  assert(answers.length === visitors.length, 'every visitor of a batch gets an answer');
  assert(
    last >= before && (last === before || last < ceiling) && ceiling >= asked,
    'numbers stay below the ceiling',
  );
  const seen = new Set<number>();
  const drawn = answers.map((answer) => {
    const text = String(answer);
    if (text === '') return null;
    const [number, issuedAt] = text.split(':').map(Number) as [number, number];
    const repeated = number <= before || seen.has(number);
    seen.add(number);
    return { number, issuedAt, repeated };
  });
  return { kind: 'drawn', last, ceiling, drawn };
}

function lookOutcome(reply: unknown): LookOutcome {
  const stale = staleOf(reply);
  if (stale) return stale;
  const [, at, last, ceiling, ...pairs] = (reply as string[]).map(Number) as [number, number, number, number];
  const flat = pairs as number[];
  const arrivals = flat
    .flatMap((second, index) => (index % 2 === 0 ? [{ second, last: flat[index + 1]! }] : []))
    .toSorted((a, b) => a.second - b.second);
  return { kind: 'looked', at, last, ceiling, arrivals };
}

function scriptOf(name: string): LuaScript {
  const text = fs.readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8');
  return { name, text, sha: createHash('sha1').update(text).digest('hex') };
}
