import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';
import { type Random, systemRandom } from './random.ts';
import { faultOfReply, RedisFault } from './redis-faults.ts';
import type { RedisLink } from './redis-link.ts';
import { createNode, type RedisNode } from './redis-node.ts';
import { redirectionOf, type SlotMap, slotCount, slotMapOf, slotOf } from './redis-slots.ts';
import {
  callTimeoutMs,
  type LuaScript,
  type RedisAddress,
  type RedisArg,
  type RedisPrimary,
  type RedisStore,
} from './redis-store.ts';
import { parseRedisUrl } from './redis-url.ts';

export interface RedisStoreOptions {
  name: string;
  /** See redis-url.ts. */
  url: string;
  clock: Clock;
  log: Logger;
  random?: Random;
}

const redirectionsMax = 5;
/** How long `primaries` waits for a connection that is being made. */
const connectPatienceMs = 1_000;
const probeTimeoutMs = 500;
const mapEveryMs = 5_000;
/** While a primary of the map is not connected: its slots may have gone to another. */
const mapRetryMs = 150;
/** After a redirection that gave up its call: a slot that is just moving is told by two nodes in turn. */
const leastMs = 50;

/** Connects in the background, at once; see the contract in redis-store.ts. */
export function createRedisStore(options: RedisStoreOptions): RedisStore {
  const { name, clock, log } = options;
  const parsed = parseRedisUrl(options.url);
  if ('problem' in parsed) throw new Error(`the address of Redis ${name} ${parsed.problem}`);
  const listeners = new Set<() => void>();
  const trusted = new Map<string, ReadonlySet<string>>();
  const topology = createTopology({
    name,
    seeds: parsed.value,
    clock,
    log,
    random: options.random ?? systemRandom,
    onChange: () => {
      for (const listener of listeners) listener();
    },
  });

  /** The node's link if the tag may be served by it. */
  const usable = (tag: string, node: RedisNode): RedisLink => {
    const { link } = node;
    if (!link?.identity) throw node.fault();
    if (!link.identity.primary)
      throw new RedisFault('store_unavailable', 'read_only', `${node.at} is a replica`);
    if (!trusted.get(tag)?.has(link.identity.runId))
      throw new RedisFault('store_unavailable', 'untrusted', `${node.at} is another run than is trusted`);
    return link;
  };

  const call = async (
    tag: string,
    script: LuaScript,
    keys: readonly string[],
    args: readonly RedisArg[],
  ): Promise<unknown> => {
    const until = clock.monotonic() + callTimeoutMs;
    let node = topology.nodeOf(tag);
    let asking = false;
    let load = false;
    for (let step = 0; ; step += 1) {
      const link = usable(tag, node);
      try {
        const timeoutMs = step === 0 ? callTimeoutMs : Math.max(until - clock.monotonic(), leastMs);
        return await evaluate(link, script, keys, args, { asking, load, timeoutMs });
      } catch (error) {
        const { message } = error as Error;
        if (step >= redirectionsMax || !(error instanceof Error) || error instanceof RedisFault) throw error;
        if (message.startsWith('NOSCRIPT')) {
          load = true;
          continue;
        }
        const redirection = redirectionOf(message, hostOf(node.at));
        if (!redirection) {
          const fault = faultOfReply(error, node.at);
          // It was a primary when it was asked who it is: the next connection asks again.
          if (fault instanceof RedisFault && fault.reason === 'read_only') link.close(fault);
          throw fault;
        }
        asking = redirection.kind === 'ASK';
        node = topology.redirect(redirection);
        await node.ready(Math.max(until - clock.monotonic(), leastMs));
      }
    }
  };

  return {
    name,
    call,
    trust: (tag, runIds) => {
      if (runIds) trusted.set(tag, new Set(runIds));
      else trusted.delete(tag);
    },
    primaries: async () => {
      const nodes = await topology.primaries();
      return await Promise.all(
        nodes.map(async (node) => look(node.at, await node.ready(connectPatienceMs), clock)),
      );
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    close: async () => topology.close(),
  };
}

/** What goes before the script reaches the node right before it, on the same connection. */
function evaluate(
  link: RedisLink,
  script: LuaScript,
  keys: readonly string[],
  args: readonly RedisArg[],
  how: { asking: boolean; load: boolean; timeoutMs: number },
): Promise<unknown> {
  const { timeoutMs } = how;
  // Their own answers tell nothing that the script's does not.
  if (how.load) link.send('script', ['LOAD', script.text], { timeoutMs }).catch(() => {});
  if (how.asking) link.send('asking', [], { timeoutMs }).catch(() => {});
  return link.send('evalsha', [script.sha, keys.length, ...keys, ...args], {
    timeoutMs,
    buffers: script.buffers ?? false,
  });
}

/** An empty script that may write: servers from 7.0 on refuse it whenever they would refuse a write. */
const writeProbe = '#!lua\nreturn 1';

async function look(address: string, link: RedisLink, clock: Clock): Promise<RedisPrimary> {
  const timeoutMs = probeTimeoutMs;
  const { runId, primary } = await link.identify(timeoutMs);
  const refused = await link.send('eval', [writeProbe, 0], { timeoutMs }).then(
    () => false,
    (error: Error) => {
      const fault = faultOfReply(error, address);
      if (fault instanceof RedisFault && fault.code === 'outcome_unknown') throw fault;
      return fault instanceof RedisFault && fault.reason === 'read_only';
    },
  );
  const localTime = clock.now();
  const before = clock.monotonic();
  const [seconds, micros] = (await link.send('time', [], { timeoutMs })) as [string, string];
  const roundTripMs = clock.monotonic() - before;
  const time = Number(seconds) * 1000 + Number(micros) / 1000 - roundTripMs / 2;
  return { address, runId, time, localTime, roundTripMs, readOnly: !primary || refused };
}

function hostOf(at: string): string {
  return at.slice(0, at.lastIndexOf(':'));
}

interface Topology {
  /** Throws a RedisFault when no node is known to serve it. */
  nodeOf(tag: string): RedisNode;
  redirect(to: { kind: 'MOVED' | 'ASK'; slot: number; at: string }): RedisNode;
  primaries(): Promise<RedisNode[]>;
  close(): void;
}

/** Which nodes there are, and which one serves a slot. Whether it is one server or a cluster, the first node that answers tells. */
function createTopology(options: {
  name: string;
  seeds: RedisAddress[];
  clock: Clock;
  log: Logger;
  random: Random;
  onChange(): void;
}): Topology {
  const { name, seeds, clock, log, random } = options;
  const nodes = new Map<string, RedisNode>();
  const slots = new Map<string, number>();
  let kind: 'unknown' | 'single' | 'cluster' = 'unknown';
  let map: SlotMap | undefined;
  let refreshing: Promise<void> | undefined;
  let closed = false;
  let cancel: () => void = () => {};

  const nodeAt = (at: string): RedisNode => {
    const known = nodes.get(at);
    if (known) return known;
    const { tls, username, password } = seeds[0]!;
    const seed = seeds.find(({ host, port }) => `${host}:${port}` === at);
    const address = seed ?? {
      host: hostOf(at),
      port: Number(at.slice(at.lastIndexOf(':') + 1)),
      tls,
      username,
      password,
    };
    const made = createNode({ address, clock, random, onChange: changed });
    nodes.set(at, made);
    return made;
  };
  const seedNodes = (): RedisNode[] => seeds.map(({ host, port }) => nodeAt(`${host}:${port}`));

  const changed = (node: RedisNode): void => {
    if (closed) return;
    const identity = node.link?.identity;
    if (identity && kind === 'unknown') {
      kind = identity.cluster ? 'cluster' : 'single';
      if (kind === 'single' && seeds.length > 1)
        log.warn({ redis: name }, 'several addresses of a Redis that is no cluster: only the first is used');
      if (kind === 'single') for (const extra of seedNodes().slice(1)) drop(extra.at);
    }
    if (kind === 'cluster' && !map) void refresh();
    else if (kind === 'cluster' && !node.link) plan(mapRetryMs);
    log.debug({ redis: name, node: node.at, runId: identity?.runId }, 'a connection to Redis changed');
    options.onChange();
  };
  const drop = (at: string): void => {
    nodes.get(at)?.close();
    nodes.delete(at);
  };

  const plan = (ms: number): void => {
    cancel();
    if (!closed) cancel = clock.after(ms, () => void refresh());
  };
  const refresh = (): Promise<void> => {
    refreshing ??= readMap().finally(() => {
      refreshing = undefined;
      const whole = map !== undefined && [...primaryNodes()].every((node) => node.link);
      plan(whole ? mapEveryMs : mapRetryMs);
    });
    return refreshing;
  };
  const readMap = async (): Promise<void> => {
    const connected = [...nodes.values()].filter((node) => node.link && !node.link.stuck);
    if (connected.length === 0) seedNodes();
    // Another first each time: one that is cut off from the others answers what it knew before.
    const start = random.int(Math.max(connected.length, 1));
    for (const node of [...connected.slice(start), ...connected.slice(0, start)]) {
      const reply = await node.link
        ?.send('cluster', ['SLOTS'], { timeoutMs: probeTimeoutMs })
        .catch(() => null);
      if (!reply || closed) continue;
      map = slotMapOf(reply, hostOf(node.at));
      const served = new Set(primaryNodes().map(({ at }) => at));
      for (const at of [...nodes.keys()]) if (!served.has(at)) drop(at);
      options.onChange();
      return;
    }
  };
  const primaryNodes = (): RedisNode[] =>
    [...new Set(map)].filter((at) => at !== undefined).map((at) => nodeAt(at));

  const slotFor = (tag: string): number => {
    const known = slots.get(tag);
    if (known !== undefined) return known;
    const slot = slotOf(`{${tag}}`);
    slots.set(tag, slot);
    return slot;
  };
  const noNode = (what: string): RedisFault =>
    new RedisFault('store_unavailable', 'unreachable', `Redis ${name}: ${what}`);

  const first = seedNodes()[0]!;
  return {
    nodeOf: (tag) => {
      if (closed) throw noNode('it is closed');
      if (kind !== 'cluster') return first;
      const at = map?.[slotFor(tag)];
      if (at === undefined)
        throw noNode(map ? 'no node of the cluster serves the slot' : 'the slots are not known yet');
      return nodeAt(at);
    },
    redirect: ({ kind: what, slot, at }) => {
      if (what === 'MOVED') {
        if (map) map[slot] = at;
        void refresh();
      }
      return nodeAt(at);
    },
    primaries: async () => {
      if (closed) throw noNode('it is closed');
      if (kind === 'unknown')
        await Promise.any(seedNodes().map((node) => node.ready(connectPatienceMs))).catch(
          (error: AggregateError) => {
            throw error.errors[0];
          },
        );
      if (kind === 'single') return [first];
      await refresh();
      if (!map || map.length < slotCount || map.includes(undefined)) throw noNode('some slots have no node');
      return primaryNodes();
    },
    close: () => {
      closed = true;
      cancel();
      for (const at of [...nodes.keys()]) drop(at);
    },
  };
}
