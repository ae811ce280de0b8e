/**
 * One Redis (or Valkey): a single server, or a cluster reached through any of its nodes. Calls scripts by their SHA, on the
 * node that serves the keys' hash tag, and only on a node whose run is trusted for that tag: one that was
 * restarted, promoted, or a replica for a while, is another, whatever its memory says.
 */
export interface RedisStore {
  /** As configured: `default`, or a name of ONSALE_REDIS_SERVERS. */
  readonly name: string;
  /**
   * Runs `script` on the node that serves `tag`. `keys` all carry `{tag}`. Faults are `RedisFault`s, which are `StoreFault`s
   * with a `reason`:
   * - `store_unavailable`: not connected, not trusted, loading, out of memory, read-only: nothing was done;
   * - `store_busy`: keys are being moved between nodes: nothing was done, worth a retry;
   * - `outcome_unknown`: no answer in time, the connection broke after sending, or the server's memory turned out to be
   *   another than was trusted.
   * An error of the script itself is a bug and comes as it is. At most `callTimeoutMs` in all, redirections included. Nothing
   * is queued while there is no connection, nor behind a question that timed out and is still unanswered.
   */
  call(tag: string, script: LuaScript, keys: readonly string[], args: readonly RedisArg[]): Promise<unknown>;
  /**
   * Trusts only nodes with one of these runs (`RedisPrimary.run`) with the tag from now on; null trusts none. A tag without
   * such a call is not trusted either.
   */
  trust(tag: string, runIds: readonly string[] | null): void;
  /**
   * Asks each primary (those of the cluster, or the one server) who it is, and how its clock stands to ours. Rejects when one
   * of them cannot be asked, or when a slot of a cluster has none. Does not depend on trust.
   */
  primaries(): Promise<RedisPrimary[]>;
  /**
   * Called for each new connection and each loss, so that the caller can probe at once. Returns a function that removes the
   * listener.
   */
  onChange(listener: () => void): () => void;
  close(): Promise<void>;
}

export type RedisArg = string | number | Buffer;

export interface LuaScript {
  /** For logs and faults. */
  name: string;
  text: string;
  /** SHA-1 of the text, hexadecimal. */
  sha: string;
  /** Bulk strings in its answer come as Buffers; otherwise as text (UTF-8). */
  buffers?: true;
}

export interface RedisPrimary {
  /** host:port */
  address: string;
  runId: string;
  /** The argument of `trust`: the run, and the history of its data (run.ts). */
  run: string;
  /** Redis's TIME, epoch ms, taken back by half of the round trip; and this process's clock at that instant. */
  time: number;
  localTime: number;
  /** Round trip of TIME. */
  roundTripMs: number;
  /** Writes are refused: a replica, `min-replicas-to-write`, a full disk. */
  readOnly: boolean;
  /** A maxmemory-policy under which it may drop any key, such as `allkeys-lru`. Null if it drops none of ours. */
  evicts: string | null;
}

/** Why the primary cannot be trusted with data, as the end of a sentence. Null if it can. */
export function unfitness({ address, readOnly, evicts }: RedisPrimary): string | null {
  if (readOnly) return `${address} refuses writes`;
  if (evicts !== null) {
    return `${address} may drop what it was told: its maxmemory-policy is ${evicts}, set it to noeviction`;
  }
  return null;
}

/** How long a call may take. A Redis that answers does so in a millisecond; a busy process of ours may need much of this. */
export const callTimeoutMs = 400;
