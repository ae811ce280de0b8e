import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { parseRedisUrl, type RedisAddress } from '../runtime/redis-url.ts';
import { infoFields } from './launch.ts';
import type { RedisLink } from './link.ts';
import { createNode, type RedisNode } from './node.ts';
import { hostOf, slotMapOf } from './slots.ts';

/** Facts about one server for an operator. */
export interface RedisInspection {
  /** host:port */
  address: string;
  /** `7.0.15`; Valkey gives the Redis version that it is compatible with. */
  version: string;
  primary: boolean;
  /** `noeviction` is the only policy that keeps holds. Null if CONFIG is not allowed. */
  evictionPolicy: string | null;
  /** How far its clock is ahead of this process's. */
  skewMs: number;
  /** Whether it writes a file or a log of its memory. Null if it does not let us read that. */
  saves: boolean | null;
  /** `ok`, or the state in CLUSTER INFO. Null if it is no cluster. */
  clusterState: string | null;
}

const patienceMs = 3_000;
const timeoutMs = 2_000;

/** Looks at the server, or at each primary of the cluster. Rejects with a RedisFault when one cannot be asked. */
export async function inspectRedis(
  url: string,
  { clock, random }: { clock: Clock; random: Random },
): Promise<RedisInspection[]> {
  const parsed = parseRedisUrl(url);
  if ('problem' in parsed) throw new Error(`the address ${parsed.problem}`);
  const nodes: RedisNode[] = [];
  const reach = async (address: RedisAddress): Promise<{ at: string; link: RedisLink }> => {
    const node = createNode({ address, clock, random, onChange: () => {} });
    nodes.push(node);
    return { at: node.at, link: await node.ready(patienceMs) };
  };
  try {
    const first = await Promise.any(parsed.value.map(reach)).catch((error: AggregateError) => {
      throw error.errors[0];
    });
    if (!first.link.identity?.cluster) return [await inspect(first.at, first.link, clock)];
    const asked = hostOf(first.at);
    const map = slotMapOf(await first.link.send('cluster', ['SLOTS'], { timeoutMs }), asked);
    const primaries = [...new Set(map)].filter((at) => at !== undefined);
    return await Promise.all(
      primaries.map(async (at) => {
        const colon = at.lastIndexOf(':');
        const address = { ...parsed.value[0]!, host: at.slice(0, colon), port: Number(at.slice(colon + 1)) };
        const { link } = await reach(address);
        return await inspect(at, link, clock);
      }),
    );
  } finally {
    for (const node of nodes) node.close();
  }
}

async function inspect(address: string, link: RedisLink, clock: Clock): Promise<RedisInspection> {
  const ask = (name: string, ...args: string[]): Promise<unknown> => link.send(name, args, { timeoutMs });
  const { version, primary, cluster } = link.identity!;
  const setting = async (name: string): Promise<string | null> => {
    const pair = (await ask('config', 'GET', name).catch(() => null)) as string[] | null;
    return pair?.[1] ?? null;
  };
  const evictionPolicy = await setting('maxmemory-policy');
  const [save, log] = [await setting('save'), await setting('appendonly')];
  const clusterInfo = cluster ? infoFields(String(await ask('cluster', 'INFO'))) : null;
  const before = clock.now();
  const [seconds, micros] = (await ask('time')) as [string, string];
  const middle = (before + clock.now()) / 2;
  return {
    address,
    version,
    primary,
    evictionPolicy,
    skewMs: Math.round(Number(seconds) * 1000 + Number(micros) / 1000 - middle),
    saves: save === null || log === null ? null : save !== '' || log === 'yes',
    clusterState: clusterInfo ? (clusterInfo.cluster_state ?? 'unknown') : null,
  };
}
