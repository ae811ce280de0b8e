import { StoreFault } from '../runtime/store-fault.ts';

/**
 * Why a Redis did not serve a call, in the words of a partition's row and of messages for the operator:
 * - `unreachable`: no connection, it rejects our login, it is loading its file, or its cluster has no node for the slot;
 * - `timeout`: no response in time, or an earlier question is still open;
 * - `untrusted`: another run than the partition's row names, or the same one with another server's data;
 * - `read_only`: a replica, too few replicas, or a disk that it cannot write;
 * - `full`: `maxmemory` is reached;
 * - `busy`: keys are moving between nodes, a long script runs, or too many of our calls wait. This is no fault of the server.
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
 * Converts an error reply into a fault. Redis 6.2 wraps the error of a command in a script (`ERR Error running script … -OOM
 * …`). A script is rejected at its first write, never in the middle, so nothing was done. Any other error is a bug and stays an
 * error.
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
