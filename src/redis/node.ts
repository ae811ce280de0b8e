import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import type { RedisAddress } from '../runtime/redis-url.ts';
import { RedisFault } from './faults.ts';
import { openLink, type RedisIdentity, type RedisLink, unreachable } from './link.ts';

/** One server's address, which is kept connected: after each loss a new link is opened, soon and then ever less often. */
export interface RedisNode {
  /** host:port */
  readonly at: string;
  /** The link, once the other end has said who it is. */
  readonly link: RedisLink | undefined;
  /** The fault for callers that need the link while there is none. */
  fault(): RedisFault;
  /** Resolves with the link as soon as there is one; rejects when the next attempt to connect fails, or after `patienceMs`. */
  ready(patienceMs: number): Promise<RedisLink>;
  /** The link's `confirm`. One that has become a replica is left, so that its promotion is seen. */
  confirm(maxAgeMs: number): Promise<RedisIdentity> | undefined;
  close(): void;
}

export interface NodeOptions {
  address: RedisAddress;
  clock: Clock;
  random: Random;
  /** A link is there, was lost, or got stuck or free again. */
  onChange(node: RedisNode): void;
}

const delayMinMs = 20;
const delayMaxMs = 500;
/** A replica may have been promoted meanwhile, which only asking again shows. */
const replicaAskMs = 500;

export function createNode(options: NodeOptions): RedisNode {
  const { address, clock, random } = options;
  const at = `${address.host}:${address.port}`;
  let closed = false;
  let link: RedisLink;
  let left: RedisLink | undefined;
  let delayMs = delayMinMs;
  let lastFault: Error = new RedisFault('store_unavailable', 'unreachable', `${at} is not connected yet`);
  let cancel: () => void = () => {};
  const waiting = new Set<(outcome: RedisLink | RedisFault) => void>();
  const tell = (outcome: RedisLink | RedisFault): void => {
    for (const one of waiting) one(outcome);
  };

  const open = (): void => {
    if (closed) return;
    let greeted = false;
    link = openLink({
      address,
      clock,
      onChange: () => {
        if (link.ended) {
          lastFault = link.ended;
          tell(node.fault());
          retry();
        } else if (link.identity && !greeted) {
          greeted = true;
          delayMs = delayMinMs;
          tell(link);
          if (!link.identity.primary) askReplica(link);
        }
        options.onChange(node);
      },
    });
  };
  const retry = (): void => {
    if (closed) return;
    // Half of the delay is random, so that processes that lost the same server do not come back at the same
    // instant.
    const wait = delayMs / 2 + random.int(delayMs / 2 + 1);
    delayMs = Math.min(delayMs * 2, delayMaxMs);
    cancel = clock.after(wait, open);
  };
  const askReplica = (asked: RedisLink): void => {
    if (left === asked) return;
    left = asked;
    cancel = clock.after(replicaAskMs, () => {
      if (!asked.ended) asked.close(new RedisFault('store_unavailable', 'read_only', `${at} was a replica`));
    });
  };

  const node: RedisNode = {
    at,
    get link() {
      return link?.identity && !link.ended ? link : undefined;
    },
    fault: () => unreachable(at, lastFault),
    ready: (patienceMs) =>
      new Promise((resolve, reject) => {
        if (node.link) return resolve(node.link);
        if (closed) return reject(node.fault());
        const take = (outcome: RedisLink | RedisFault): void => {
          stop();
          waiting.delete(take);
          if (outcome instanceof RedisFault) reject(outcome);
          else resolve(outcome);
        };
        const stop = clock.after(patienceMs, () => take(node.fault()));
        waiting.add(take);
      }),
    confirm: (maxAgeMs) => {
      const asked = node.link;
      const answer = asked?.confirm(maxAgeMs);
      answer?.then(
        ({ primary }) => {
          if (!primary) askReplica(asked!);
        },
        () => {},
      );
      return answer;
    },
    close: () => {
      closed = true;
      cancel();
      link.close(new RedisFault('store_unavailable', 'unreachable', `${at} is not used any more`));
    },
  };
  open();
  return node;
}
