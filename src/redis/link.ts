import { Command, Redis } from 'ioredis';
import type { Clock } from '../runtime/clock.ts';
import type { RedisAddress } from '../runtime/redis-url.ts';
import { RedisFault } from './faults.ts';
import { infoFields } from './launch.ts';
import { createQuestions, type Questions } from './questions.ts';
import { type RedisRun, redisRun } from './run.ts';
import type { RedisArg } from './store.ts';

/** The server at the other end, read when the connection was made and at each `identify`. */
export interface RedisIdentity extends RedisRun {
  /** A replica refuses writes, and what it knows may lag. */
  primary: boolean;
  cluster: boolean;
  /** `7.0.15`; Valkey gives the Redis version that it is compatible with. */
  version: string;
}

/**
 * One connection, from its making to its end: it never reconnects, so it always speaks to the same run of the same server, and
 * what was sent on it is never sent again. Answers come in the order of the questions, those to questions that timed out too.
 */
export interface RedisLink {
  /** Undefined until the other end has said who it is. */
  readonly identity: RedisIdentity | undefined;
  /** Why it ended; undefined while it lives. */
  readonly ended: Error | undefined;
  /** A question timed out and is still unanswered: asking more would only queue up behind it. */
  readonly stuck: boolean;
  /**
   * Rejects with a RedisFault, or with Redis's own error reply. Sent at once or not at all; calls made one right after the
   * other reach Redis next to each other.
   */
  send(name: string, args: readonly RedisArg[], options: SendOptions): Promise<unknown>;
  /** Asks again who is there. */
  identify(timeoutMs: number): Promise<RedisIdentity>;
  /**
   * Asks again, unless that was done within `maxAgeMs`, and returns the question that is under way, or undefined if there is
   * none. Requests sent afterwards reach the same memory or a later one.
   */
  confirm(maxAgeMs: number): Promise<RedisIdentity> | undefined;
  close(reason: Error): void;
}

export interface SendOptions {
  timeoutMs: number;
  /** Texts in the answer come as Buffers. */
  buffers?: boolean;
}

export interface LinkOptions {
  address: RedisAddress;
  clock: Clock;
  /** Whenever `identity`, `ended` or `stuck` changed. */
  onChange(): void;
}

const connectTimeoutMs = 1_000;
const greetingTimeoutMs = 2_000;
const confirmTimeoutMs = 500;
/** After this time without a response the connection may be dead although no error was reported. Milliseconds. */
const stuckMs = 5_000;
const questionsMax = 20_000;
const gatherMax = 16;

export function openLink({ address, clock, onChange }: LinkOptions): RedisLink {
  const at = `${address.host}:${address.port}`;
  const redis = new Redis({
    ...connectionOptions(address),
    connectTimeout: connectTimeoutMs,
    lazyConnect: true,
  });
  let identity: RedisIdentity | undefined;
  let ended: Error | undefined;
  let lastError: Error | undefined;

  const close = (reason: Error): void => {
    if (ended) return;
    ended = reason;
    if (redis.status !== 'end') {
      redis.disconnect();
      // Not closed politely, because the answers that a frozen server still owes have been given up.
      redis.stream?.destroy();
    }
    questions.abandon(outcomeUnknown(at, reason));
    onChange();
  };
  const questions = createQuestions({
    clock,
    timeout: () => new RedisFault('outcome_unknown', 'timeout', `${at} did not answer in time`),
    onChange,
    onTick: () => {
      const since = questions.stuckSince;
      if (since !== undefined && clock.monotonic() - since > stuckMs)
        close(new RedisFault('store_unavailable', 'timeout', `${at} has not answered for ${stuckMs} ms`));
    },
  });
  const transmit = createTransmitter(redis, at, questions, () => ended ?? lastError);

  let askedAt = Number.NEGATIVE_INFINITY;
  let confirming: Promise<RedisIdentity> | undefined;

  const identify = async (timeoutMs: number): Promise<RedisIdentity> => {
    const [server, replication] = await Promise.all([
      transmit('info', ['server'], { timeoutMs }),
      transmit('info', ['replication'], { timeoutMs }),
    ]);
    identity = identityOf(String(server), String(replication), at);
    return identity;
  };
  const confirm = (maxAgeMs: number): Promise<RedisIdentity> | undefined => {
    const now = clock.monotonic();
    if (now - askedAt < maxAgeMs) return confirming;
    askedAt = now;
    const asked = identify(confirmTimeoutMs).finally(() => {
      if (confirming === asked) confirming = undefined;
    });
    // Callers that wait get the error; without a caller it must not be an unhandled rejection.
    asked.catch(() => {});
    confirming = asked;
    return asked;
  };
  const refuse = (): void => {
    if (ended) throw unreachable(at, ended);
    if (questions.stuckSince !== undefined)
      throw new RedisFault('store_unavailable', 'timeout', `${at} has not answered an earlier question`);
  };

  redis.on('error', (error: Error) => {
    lastError = error;
  });
  redis.on('end', () => close(unreachable(at, lastError ?? new Error('the connection was closed'))));
  redis
    .connect()
    .then(() => identify(greetingTimeoutMs))
    .then(onChange)
    .catch((error: Error) => close(unreachable(at, lastError ?? error)));

  return {
    get identity() {
      return identity;
    },
    get ended() {
      return ended;
    },
    get stuck() {
      return questions.stuckSince !== undefined;
    },
    send: async (name, args, options) => {
      refuse();
      return transmit(name, args, options);
    },
    identify: async (timeoutMs) => {
      refuse();
      return identify(timeoutMs);
    },
    confirm,
    close,
  };
}

type Transmit = (name: string, args: readonly RedisArg[], options: SendOptions) => Promise<unknown>;

function createTransmitter(
  redis: Redis,
  at: string,
  questions: Questions,
  whyEnded: () => Error | undefined,
): Transmit {
  let gathered = 0;
  const flush = (): void => {
    if (gathered > 0) redis.stream.uncork();
    gathered = 0;
  };
  /**
   * Commands of one turn of this process are sent in few writes, because the system call costs more than everything else. Not
   * in a single one, so that Redis starts while we continue.
   */
  const gather = (): void => {
    if (gathered >= gatherMax) flush();
    gathered += 1;
    if (gathered > 1) return;
    redis.stream.cork();
    process.nextTick(flush);
  };
  return (name, args, { timeoutMs, buffers }) =>
    new Promise((resolve, reject) => {
      if (redis.status !== 'ready' || !redis.stream?.writable)
        return reject(new RedisFault('store_unavailable', 'unreachable', `${at} is not connected`));
      if (questions.count >= questionsMax)
        return reject(new RedisFault('store_busy', 'busy', `${at} owes ${questionsMax} answers`));
      const question = questions.ask(timeoutMs, reject);
      const command = new Command(name, args as (string | number | Buffer)[], {
        replyEncoding: buffers ? null : 'utf8',
      });
      gather();
      redis.sendCommand(command);
      command.promise.then(
        (value) => {
          questions.answered(question);
          resolve(value);
        },
        (error: Error) => {
          questions.answered(question);
          // An error reply is an answer; everything else comes with the connection's end.
          reject(error.name === 'ReplyError' ? error : outcomeUnknown(at, whyEnded() ?? error));
        },
      );
    });
}

/** Plain connections: nothing is queued, sent again or retried behind our back. */
export function connectionOptions(address: RedisAddress) {
  return {
    host: address.host,
    port: address.port,
    username: address.username,
    password: address.password,
    db: address.db,
    ...(address.tls ? { tls: {} } : {}),
    retryStrategy: () => null,
    maxRetriesPerRequest: null,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    enableReadyCheck: false,
    disableClientInfo: true,
    noDelay: true,
    keepAlive: 5_000,
  };
}

function identityOf(server: string, replication: string, at: string): RedisIdentity {
  const fields = { ...infoFields(server), ...infoFields(replication) };
  if (!fields.run_id || !fields.role) throw new Error(`${at} does not say which run it is (INFO)`);
  return {
    ...redisRun(fields),
    primary: fields.role === 'master',
    cluster: fields.redis_mode === 'cluster',
    version: fields.redis_version ?? '',
  };
}

export function unreachable(at: string, cause: Error): RedisFault {
  if (!(cause instanceof RedisFault))
    return new RedisFault('store_unavailable', 'unreachable', `${at}: ${cause.message || cause.name}`, cause);
  if (cause.code === 'store_unavailable') return cause;
  return new RedisFault(
    'store_unavailable',
    cause.reason,
    `${at} did not answer when it was connected`,
    cause,
  );
}

function outcomeUnknown(at: string, cause: Error): RedisFault {
  return new RedisFault(
    'outcome_unknown',
    'unreachable',
    `${at}: lost before it answered: ${cause.message}`,
    cause,
  );
}
