import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { claimKinds } from '../../src/inventory/redis/codes.ts';
import { partitionKeys, readScripts } from '../../src/inventory/redis/scripts.ts';
import type { RedisServer } from '../../src/redis/server.ts';

const run = promisify(execFile);
const connections = 50;
const pipeline = 16;

/**
 * Redis's own load generator on our hold script, one claim of two random seats a call, 16 calls a write: what a client in C
 * that does nothing else gets out of the same step. Answers milliseconds. Its random numbers are twelve digits each, so an id
 * takes two of them.
 */
export async function holdByRedisBenchmark(
  server: RedisServer,
  { tag, epoch, seats, claims }: { tag: string; epoch: number; seats: number; claims: number },
): Promise<number> {
  const client = new Redis(server.url);
  const script = readScripts().hold;
  await client.script('LOAD', script.text);
  client.disconnect();
  const any = '__rand_int__';
  const visitor = `v${any}${any}`;
  const kind = claimKinds.indexOf('seats') + 1;
  const numbers = `${kind} 2 600000 8 ${Number.MAX_SAFE_INTEGER} ${any} ${any}`;
  const words = [`0000-4000-80${any}${any}`, visitor, visitor, 'bench', '', numbers];
  const keys = partitionKeys(tag);
  const { port, password } = new URL(server.url);
  const { stdout } = await run('redis-benchmark', [
    ...['-h', '127.0.0.1', '-p', port, '-a', password, '--csv'],
    ...['-c', String(connections), '-P', String(pipeline), '-n', String(claims), '-r', String(seats)],
    ...['EVALSHA', script.sha, String(keys.length), ...keys, String(epoch), ...words],
  ]);
  const perSecond = Number(stdout.trim().split('\n').at(-1)!.split('","')[1]);
  if (!(perSecond > 0)) throw new Error(`redis-benchmark said ${stdout}`);
  return (claims / perSecond) * 1_000;
}

/** Whether the program is there: it comes with Debian's redis-tools. */
export async function hasRedisBenchmark(): Promise<boolean> {
  return await run('redis-benchmark', ['--version']).then(
    () => true,
    () => false,
  );
}
