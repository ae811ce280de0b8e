import { StoreFault } from '../runtime/store-fault.ts';

/**
 * Why a Redis did not serve a call, in the words that a partition's row and the operator are told:
 * - `unreachable`: no connection, it lets us not in, it is loading its file, or its cluster has no node for the slot;
 * - `timeout`: no answer in time, or an earlier question is still unanswered;
 * - `untrusted`: another run than the partition's row names, or the same one with another server's data;
 * - `read_only`: a replica, too few replicas, or a disk that it cannot write;
 * - `full`: `maxmemory` is reached;
 * - `busy`: keys are on their way between nodes, a long script runs, or too much of ours waits. Says nothing against it.
 */
export type RedisReason = 'unreachable' | 'timeout' | 'untrusted' | 'read_only' | 'full' | 'busy';

export class RedisFault extends StoreFault {
  readonly reason: RedisReason;

  constructor(code: StoreFault['code'], reason: RedisReason, message: string, cause?: unknown) {
    super(code, `${reason}: ${message}`, cause);
    this.reason = reason;
  }
}

/** Error words of Redis that leave everything as it was. What else a script can say is a mistake of ours. */
const words: Record<string, { code: StoreFault['code']; reason: RedisReason }> = {
  LOADING: { code: 'store_unavailable', reason: 'unreachable' },
  MASTERDOWN: { code: 'store_unavailable', reason: 'unreachable' },
  CLUSTERDOWN: { code: 'store_unavailable', reason: 'unreachable' },
  NOAUTH: { code: 'store_unavailable', reason: 'unreachable' },
  WRONGPASS: { code: 'store_unavailable', reason: 'unreachable' },
  NOPERM: { code: 'store_unavailable', reason: 'unreachable' },
  READONLY: { code: 'store_unavailable', reason: 'read_only' },
  NOREPLICAS: { code: 'store_unavailable', reason: 'read_only' },
  MISCONF: { code: 'store_unavailable', reason: 'read_only' },
  OOM: { code: 'store_unavailable', reason: 'full' },
  TRYAGAIN: { code: 'store_busy', reason: 'busy' },
  BUSY: { code: 'store_busy', reason: 'busy' },
};
const anyWord = new RegExp(`(?:^|-)(${Object.keys(words).join('|')})\\b`);

/**
 * An error reply as a fault. Redis 6.2 wraps what a script's command was told (`ERR Error running script … -OOM …`). A script
 * is refused at its first write, never in the middle, so nothing was done. Anything else is a bug, and stays an error.
 */
export function faultOfReply(error: Error, at: string): Error {
  const word = anyWord.exec(error.message)?.[1];
  const found = word && words[word];
  if (!found) return error;
  return new RedisFault(found.code, found.reason, `${at} answered ${shortened(error.message)}`, error);
}

/** Redis's own text, never the arguments of a call: they name visitors. */
function shortened(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
