import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import type { RedisAddress } from '../runtime/redis-url.ts';
import { RedisFault } from './faults.ts';
import { createNode, type RedisNode } from './node.ts';
import { hostOf, type Redirection, type SlotMap, slotCount, slotMapOf, slotOf } from './slots.ts';

/** Which nodes there are, and which one serves a slot. */
export interface Topology {
  /** Throws a RedisFault when no node is known to serve it. */
  nodeOf(tag: string): RedisNode;
  redirect(to: Redirection): RedisNode;
  /** Returns the one server, or all primaries of the cluster, after asking them again. */
  primaries(): Promise<RedisNode[]>;
  close(): void;
}

export interface TopologyOptions {
  name: string;
  seeds: RedisAddress[];
  clock: Clock;
  log: Logger;
  random: Random;
  onChange(): void;
}

/** How long a connection that is being made is waited for. */
export const connectPatienceMs = 1_000;
const mapTimeoutMs = 500;
const mapEveryMs = 5_000;
/** While a primary of the map is not connected: its slots may have gone to another. */
const mapRetryMs = 150;
/** A node without slots any more still owes answers. */
const leaveMs = 1_000;

/** The first node that answers tells whether this is one server or a cluster. */
export function createTopology(options: TopologyOptions): Topology {
  const { name, log } = options;
  const nodes = createNodes(options, changed);
  const cluster = createSlots(options, nodes);
  const slots = new Map<string, number>();
  let kind: 'unknown' | 'single' | 'cluster' = 'unknown';
  let closed = false;

  function changed(node: RedisNode): void {
    if (closed) return;
    const identity = node.link?.identity;
    if (identity && kind === 'unknown') {
      kind = identity.cluster ? 'cluster' : 'single';
      const extra = nodes.seeds().slice(1);
      if (kind === 'single' && extra.length > 0) {
        log.warn({ redis: name }, 'several addresses of a Redis that is no cluster: only the first is used');
        for (const { at } of extra) nodes.leave(at);
      }
    }
    if (kind === 'cluster') cluster.nodeChanged(node);
    log.debug({ redis: name, node: node.at, runId: identity?.runId }, 'a connection to Redis changed');
    options.onChange();
  }
  const slotFor = (tag: string): number => {
    const known = slots.get(tag);
    if (known !== undefined) return known;
    const slot = slotOf(`{${tag}}`);
    slots.set(tag, slot);
    return slot;
  };
  const noNode = (what: string): RedisFault =>
    new RedisFault('store_unavailable', 'unreachable', `Redis ${name}: ${what}`);

  const first = nodes.seeds()[0]!;
  return {
    nodeOf: (tag) => {
      if (closed) throw noNode('it is closed');
      if (kind !== 'cluster') return first;
      const at = cluster.map()?.[slotFor(tag)];
      if (at !== undefined) return nodes.at(at);
      throw noNode(cluster.map() ? 'no node of the cluster serves the slot' : 'its slots are not known yet');
    },
    redirect: (to) => {
      if (to.kind === 'MOVED') cluster.moved(to);
      return nodes.at(to.at);
    },
    primaries: async () => {
      if (closed) throw noNode('it is closed');
      if (kind === 'unknown') await anyOf(nodes.seeds().map((node) => node.ready(connectPatienceMs)));
      if (kind === 'single') return [first];
      await cluster.refresh();
      const map = cluster.map();
      if (!map || map.length < slotCount || map.includes(undefined)) throw noNode('some slots have no node');
      return cluster.primaries();
    },
    close: () => {
      closed = true;
      cluster.close();
      nodes.close();
    },
  };
}

async function anyOf(attempts: Promise<unknown>[]): Promise<void> {
  await Promise.any(attempts).catch((error: AggregateError) => {
    throw error.errors[0];
  });
}

interface Nodes {
  at(at: string): RedisNode;
  seeds(): RedisNode[];
  all(): RedisNode[];
  leave(at: string): void;
  close(): void;
}

function createNodes(options: TopologyOptions, onChange: (node: RedisNode) => void): Nodes {
  const { seeds, clock, random } = options;
  const known = new Map<string, RedisNode>();
  const leaving = new Set<RedisNode>();
  const nodeAt = (at: string): RedisNode => {
    const found = known.get(at);
    if (found) return found;
    const { tls, username, password } = seeds[0]!;
    const port = Number(at.slice(at.lastIndexOf(':') + 1));
    const address = seeds.find((seed) => `${seed.host}:${seed.port}` === at) ?? {
      host: hostOf(at),
      port,
      tls,
      username,
      password,
    };
    const created = createNode({
      address,
      clock,
      random,
      onChange: (node) => {
        if (known.get(at) === node) onChange(node);
      },
    });
    known.set(at, created);
    return created;
  };
  return {
    at: nodeAt,
    seeds: () => seeds.map(({ host, port }) => nodeAt(`${host}:${port}`)),
    all: () => [...known.values()],
    leave: (at) => {
      const node = known.get(at);
      if (!node) return;
      known.delete(at);
      leaving.add(node);
      clock.after(leaveMs, () => {
        leaving.delete(node);
        node.close();
      });
    },
    close: () => {
      for (const node of [...known.values(), ...leaving]) node.close();
      known.clear();
    },
  };
}

interface Slots {
  map(): SlotMap | undefined;
  primaries(): RedisNode[];
  moved(to: Redirection): void;
  nodeChanged(node: RedisNode): void;
  refresh(): Promise<void>;
  close(): void;
}

/** The cluster's slots: read again at intervals, when a redirection shows that they changed, and while a primary is missing. */
function createSlots({ clock, random, onChange }: TopologyOptions, nodes: Nodes): Slots {
  let map: SlotMap | undefined;
  let refreshing: Promise<void> | undefined;
  let closed = false;
  let cancel: () => void = () => {};

  const primaries = (): RedisNode[] =>
    [...new Set(map)].filter((at) => at !== undefined).map((at) => nodes.at(at));
  const plan = (ms: number): void => {
    cancel();
    if (!closed) cancel = clock.after(ms, () => void refresh());
  };
  const refresh = (): Promise<void> => {
    refreshing ??= read().finally(() => {
      refreshing = undefined;
      const whole = map !== undefined && primaries().every((node) => node.link);
      plan(whole ? mapEveryMs : mapRetryMs);
    });
    return refreshing;
  };
  const read = async (): Promise<void> => {
    const connected = nodes.all().filter((node) => node.link && !node.link.stuck);
    if (connected.length === 0) nodes.seeds();
    // Starts with another node each time: a node that is cut off from the others reports what it knew before.
    const start = random.int(Math.max(connected.length, 1));
    for (const node of [...connected.slice(start), ...connected.slice(0, start)]) {
      const asked = node.link?.send('cluster', ['SLOTS'], { timeoutMs: mapTimeoutMs });
      const reply = await asked?.catch(() => null);
      if (!reply || closed) continue;
      try {
        map = slotMapOf(reply, hostOf(node.at));
      } catch {
        // A reply that cannot be parsed counts as none. No caller waits for most of these calls, so a rejection would end the
        // process.
        continue;
      }
      const serving = new Set(primaries());
      for (const other of nodes.all()) if (!serving.has(other)) nodes.leave(other.at);
      onChange();
      return;
    }
  };

  return {
    map: () => map,
    primaries,
    moved: ({ slot, at }) => {
      if (map) map[slot] = at;
      void refresh();
    },
    nodeChanged: (node) => {
      if (!map) void refresh();
      else if (!node.link) plan(mapRetryMs);
    },
    refresh,
    close: () => {
      closed = true;
      cancel();
    },
  };
}
