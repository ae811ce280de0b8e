import type { Redis } from 'ioredis';
import { infoFields, portIfFree } from '../../src/redis/launch.ts';
import { RedisServerFault } from '../../src/redis/program.ts';
import { slotCount, slotOf } from '../../src/redis/slots.ts';
import { type TestRedis, testRedis } from './redis.ts';
import { until } from './wait.ts';

/** A real cluster of three primaries, each with a replica: six processes on 127.0.0.1. */
export interface TestRedisCluster {
  /** redis://127.0.0.1:port,… of the three first primaries. */
  readonly url: string;
  readonly nodes: readonly TestRedis[];
  /** The node that serves the tag's slot now, according to the live nodes. A tag is the text between the braces. */
  primaryOf(tag: string): Promise<TestRedis>;
  replicaOf(tag: string): Promise<TestRedis>;
  /** Some other primary, for a slot to go to. */
  otherPrimary(tag: string): Promise<TestRedis>;
  /** The replica hears no more of its primary: what is written from now on is lost with the next `failover`. */
  holdBack(tag: string): Promise<void>;
  /** Kills the slot's primary and waits until its replica is promoted and serves the slot. */
  failover(tag: string): Promise<{ lost: TestRedis; promoted: TestRedis }>;
  /**
   * Moves the slot with all its keys, one key at a time. `during` is called after each with how many are left, at first
   * before any: the slot is then half here and half there.
   */
  migrateSlot(tag: string, to: TestRedis, during?: (left: number) => Promise<void>): Promise<void>;
}

const primaryCount = 3;
const busOffset = 10_000;

export async function testRedisCluster(t?: {
  after(run: () => Promise<void>): void;
}): Promise<TestRedisCluster> {
  const nodes = await Promise.all(Array.from({ length: primaryCount * 2 }, () => startNode(t)));
  const clients = new Map(nodes.map((node) => [node, node.client()]));
  const ask = (node: TestRedis, ...args: (string | number)[]): Promise<unknown> =>
    (clients.get(node) as Redis).call('CLUSTER', args);
  await form(nodes, ask);

  const dead = new Set<TestRedis>();
  const heldBack = new Set<TestRedis>();
  const lookers = (): TestRedis[] => nodes.filter((node) => !dead.has(node) && !heldBack.has(node));
  /** The primary first, then its replicas. */
  const serving = async (tag: string, asked: TestRedis): Promise<TestRedis[]> => {
    const slot = slotOf(`{${tag}}`);
    const ranges = (await ask(asked, 'SLOTS')) as [number, number, ...[string, number, string][]][];
    const range = ranges.find(([from, to]) => from <= slot && slot <= to);
    const ports = range ? (range.slice(2) as [string, number, string][]).map(([, port]) => port) : [];
    return ports.flatMap((port) => nodes.filter((node) => node.port === port));
  };
  const primaryOf = async (tag: string): Promise<TestRedis> => {
    const [primary] = await serving(tag, lookers()[0]!);
    if (!primary) throw new Error(`no node serves the slot of ${tag}`);
    return primary;
  };
  const replicaOf = async (tag: string): Promise<TestRedis> => {
    const [, replica] = await serving(tag, lookers()[0]!);
    if (!replica) throw new Error(`the slot of ${tag} has no replica`);
    return replica;
  };

  return {
    url: nodes
      .slice(0, primaryCount)
      .map(({ port }) => `redis://127.0.0.1:${port}`)
      .join(','),
    nodes,
    primaryOf,
    replicaOf,
    otherPrimary: async (tag) => {
      const own = await primaryOf(tag);
      const ranges = (await ask(lookers()[0]!, 'SLOTS')) as [number, number, [string, number]][];
      const other = ranges.map(([, , [, port]]) => port).find((port) => port !== own.port);
      return nodes.find((node) => node.port === other)!;
    },
    holdBack: async (tag) => {
      const replica = await replicaOf(tag);
      const primary = await primaryOf(tag);
      // Stopped first: it cannot come back for what it misses.
      replica.freeze();
      heldBack.add(replica);
      await (clients.get(primary) as Redis).call('CLIENT', 'KILL', 'TYPE', 'replica');
    },
    failover: async (tag) => {
      const lost = await primaryOf(tag);
      const promoted = await replicaOf(tag);
      dead.add(lost);
      await lost.kill();
      if (heldBack.delete(promoted)) promoted.thaw();
      await until(async () => {
        const seen = await Promise.all(lookers().map(async (node) => (await serving(tag, node))[0]));
        return seen.every((node) => node === promoted);
      }, 'the replica is promoted');
      return { lost, promoted };
    },
    migrateSlot: async (tag, to, during = async () => {}) => {
      const slot = slotOf(`{${tag}}`);
      const from = await primaryOf(tag);
      const [fromId, toId] = (await Promise.all([ask(from, 'MYID'), ask(to, 'MYID')])) as [string, string];
      await ask(to, 'SETSLOT', slot, 'IMPORTING', fromId);
      await ask(from, 'SETSLOT', slot, 'MIGRATING', toId);
      for (;;) {
        const left = Number(await ask(from, 'COUNTKEYSINSLOT', slot));
        await during(left);
        const [key] = (await ask(from, 'GETKEYSINSLOT', slot, 1)) as string[];
        if (key === undefined) break;
        await (clients.get(from) as Redis).call('MIGRATE', '127.0.0.1', to.port, key, 0, 5_000);
      }
      const others = lookers().filter((node) => node !== to && node !== from);
      for (const node of [to, from, ...others])
        await ask(node, 'SETSLOT', slot, 'NODE', toId).catch((error: Error) => {
          // Replicas learn it from their primaries.
          if (!/only with masters/i.test(error.message)) throw error;
        });
    },
  };
}

async function startNode(t?: { after(run: () => Promise<void>): void }): Promise<TestRedis> {
  for (let attempt = 1; ; attempt += 1) {
    // Its bus listens 10,000 above, so the usual free ports are too high.
    const port = 15_000 + Math.floor(Math.random() * 15_000);
    if (!(await portIfFree(port)) || !(await portIfFree(port + busOffset))) continue;
    try {
      return await testRedis(t, { port, settings: clusterSettings });
    } catch (error) {
      const taken = error instanceof RedisServerFault && error.code === 'port_taken';
      if (!taken || attempt >= 10) throw error;
    }
  }
}

const clusterSettings = {
  'cluster-enabled': 'yes',
  'cluster-config-file': 'nodes.conf',
  'cluster-node-timeout': 1_500,
  'cluster-announce-ip': '127.0.0.1',
  // One lost primary must not stop the others' slots.
  'cluster-require-full-coverage': 'no',
  // A replica that lags is promoted all the same: that is what has to be withstood.
  'cluster-replica-validity-factor': 0,
  'cluster-allow-replica-migration': 'no',
  'repl-diskless-sync-delay': 0,
  // A replica is not announced before it has heard something.
  'repl-ping-replica-period': 1,
};

async function form(
  nodes: readonly TestRedis[],
  ask: (node: TestRedis, ...args: (string | number)[]) => Promise<unknown>,
): Promise<void> {
  const primaries = nodes.slice(0, primaryCount);
  const share = Math.ceil(slotCount / primaryCount);
  await Promise.all(
    primaries.map(async (node, index) => {
      const from = index * share;
      const length = Math.min(share, slotCount - from);
      await ask(node, 'ADDSLOTS', ...Array.from({ length }, (_, offset) => from + offset));
    }),
  );
  await Promise.all(nodes.map((node, index) => ask(node, 'SET-CONFIG-EPOCH', index + 1)));
  await Promise.all(nodes.slice(1).map(({ port }) => ask(nodes[0]!, 'MEET', '127.0.0.1', port)));
  const info = async (node: TestRedis) => infoFields(String(await ask(node, 'INFO')));
  await until(async () => {
    const all = await Promise.all(nodes.map(info));
    return all.every((fields) => Number(fields.cluster_known_nodes) === nodes.length);
  }, 'all nodes know each other');
  const ids = (await Promise.all(primaries.map((node) => ask(node, 'MYID')))) as string[];
  await Promise.all(
    nodes
      .slice(primaryCount)
      .map((node, index) =>
        untilDone('the replica knows its primary', () => ask(node, 'REPLICATE', ids[index]!)),
      ),
  );
  await until(async () => {
    const all = await Promise.all(nodes.map(info));
    if (!all.every((fields) => fields.cluster_state === 'ok')) return false;
    const seen = (await Promise.all(nodes.map((node) => ask(node, 'SLOTS')))) as unknown[][][];
    return seen.every(
      (ranges) => ranges.length === primaryCount && ranges.every((range) => range.length === 4),
    );
  }, 'the cluster serves all slots and each primary has its replica');
  await until(async () => {
    const offline = await Promise.all(
      nodes.slice(primaryCount).map(async (node) => {
        const client = node.client();
        const fields = infoFields(await client.info('replication'));
        client.disconnect();
        return fields.master_link_status !== 'up';
      }),
    );
    return !offline.includes(true);
  }, 'the replicas hold what their primaries hold');
}

async function untilDone(what: string, attempt: () => Promise<unknown>): Promise<void> {
  let last: unknown;
  await until(async () => {
    try {
      await attempt();
      return true;
    } catch (error) {
      last = error;
      return false;
    }
  }, what).catch((error: Error) => {
    throw new Error(error.message, { cause: last });
  });
}
