import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { type Random, systemRandom } from '../runtime/random.ts';
import { parseRedisUrl } from '../runtime/redis-url.ts';
import { faultOfReply, RedisFault } from './faults.ts';
import { infoFields } from './launch.ts';
import type { RedisIdentity, RedisLink } from './link.ts';
import type { RedisNode } from './node.ts';
import { isRunOf, nameOfRun } from './run.ts';
import { hostOf, redirectionOf } from './slots.ts';
import { callTimeoutMs, type LuaScript, type RedisArg, type RedisPrimary, type RedisStore } from './store.ts';
import { connectPatienceMs, createTopology, type Topology } from './topology.ts';

export interface RedisStoreOptions {
  name: string;
  /** See runtime/redis-url.ts. */
  url: string;
  clock: Clock;
  log: Logger;
  random?: Random;
}

const redirectionsMax = 5;
/**
 * A call asks first who answers, unless that was asked so short a time ago: a server cannot become a replica, copy another's
 * memory and be a primary again in much less.
 */
const confirmEveryMs = 50;
const probeTimeoutMs = 500;
/** Minimum time for the last step of a call, ms: a failure because of one missing millisecond would be of no use. */
const leastMs = 50;

/** Connects in the background, at once; see the contract in store.ts. */
export function createRedisStore(options: RedisStoreOptions): RedisStore {
  const { name, clock, log } = options;
  const parsed = parseRedisUrl(options.url);
  if ('problem' in parsed) throw new Error(`the address of Redis ${name} ${parsed.problem}`);
  const listeners = new Set<() => void>();
  const trusted = new Map<string, readonly string[]>();
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
    const { identity } = link;
    if (!trusted.get(tag)?.some((name) => isRunOf(name, identity)))
      throw new RedisFault('store_unavailable', 'untrusted', `${node.at} is another run than is trusted`);
    return link;
  };

  return {
    name,
    call: (tag, script, keys, args) => callOn({ topology, usable, clock }, tag, script, keys, args),
    trust: (tag, runIds) => {
      if (runIds) trusted.set(tag, runIds);
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

interface CallParts {
  topology: Topology;
  usable(tag: string, node: RedisNode): RedisLink;
  clock: Clock;
}

async function callOn(
  { topology, usable, clock }: CallParts,
  tag: string,
  script: LuaScript,
  keys: readonly string[],
  args: readonly RedisArg[],
): Promise<unknown> {
  const until = clock.monotonic() + callTimeoutMs;
  const leftMs = (): number => Math.max(until - clock.monotonic(), leastMs);
  let node = topology.nodeOf(tag);
  let asking = false;
  let load = false;
  for (let step = 0; ; step += 1) {
    const link = usable(tag, node);
    const trustedAs = nameOfRun(link.identity!);
    const confirmed = node.confirm(confirmEveryMs);
    try {
      const timeoutMs = step === 0 ? callTimeoutMs : leftMs();
      const answer = await evaluate(link, script, keys, args, { asking, load, timeoutMs });
      // The identity was asked for before the script, so its answer has arrived too.
      if (confirmed) checkSame(trustedAs, await confirmed, node.at);
      return answer;
    } catch (error) {
      if (step >= redirectionsMax || !(error instanceof Error) || error instanceof RedisFault) throw error;
      if (error.message.startsWith('NOSCRIPT')) {
        load = true;
        continue;
      }
      const redirection = redirectionOf(error.message, hostOf(node.at));
      if (!redirection) {
        if (/READONLY|LOADING|MASTERDOWN/.test(error.message)) void node.confirm(0);
        throw faultOfReply(error, node.at);
      }
      asking = redirection.kind === 'ASK';
      node = topology.redirect(redirection);
      await node.ready(leftMs());
    }
  }
}

/** The script ran, but on a memory that may have forgotten grants, so its answer cannot be trusted. */
function checkSame(trustedAs: string, now: RedisIdentity, at: string): void {
  if (now.primary && isRunOf(trustedAs, now)) return;
  throw new RedisFault('outcome_unknown', 'untrusted', `${at} has another memory than was trusted`);
}

/** A command that precedes the script reaches the node immediately before it, on the same connection. */
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
  const identity = await link.identify(timeoutMs);
  const refused = await link.send('eval', [writeProbe, 0], { timeoutMs }).then(
    () => false,
    (error: Error) => {
      const fault = faultOfReply(error, address);
      if (fault instanceof RedisFault && fault.code === 'outcome_unknown') throw fault;
      return fault instanceof RedisFault && fault.reason === 'read_only';
    },
  );
  const memory = infoFields(String(await link.send('info', ['memory'], { timeoutMs })));
  const policy = memory.maxmemory_policy ?? '';
  const localTime = clock.now();
  const before = clock.monotonic();
  const [seconds, micros] = (await link.send('time', [], { timeoutMs })) as [string, string];
  const roundTripMs = clock.monotonic() - before;
  const time = Number(seconds) * 1000 + Number(micros) / 1000 - roundTripMs / 2;
  return {
    address,
    runId: identity.runId,
    run: nameOfRun(identity),
    time,
    localTime,
    roundTripMs,
    readOnly: !identity.primary || refused,
    // The only keys of ours that expire are what is remembered of a join for a minute: the volatile policies cost that at most.
    evicts: policy.startsWith('allkeys-') ? policy : null,
  };
}
