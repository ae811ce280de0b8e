import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { after, type TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { runningRedis, startRedis } from '../../src/redis/server.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { isAlive } from '../../src/runtime/private-server.ts';
import { programArguments } from '../support/program.ts';
import { withoutRedis } from '../support/redis.ts';
import { freePort } from '../support/server-process.ts';
import { until } from '../support/wait.ts';

const shared = { clock: systemClock, log: silentLogger };
const folders: string[] = [];
after(() => {
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});

function folder(): string {
  folders.push(fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-test-redis-')));
  return path.join(folders.at(-1)!, 'redis');
}

function connect(t: TestContext, url: string): Redis {
  const client = new Redis(url, { retryStrategy: () => null, enableReadyCheck: false, lazyConnect: true });
  client.on('error', () => {});
  t.after(() => client.disconnect());
  return client;
}

test('the private server is reached with its password only, keeps nothing and evicts nothing', {
  skip: withoutRedis,
}, async (t) => {
  const dataDir = folder();
  const server = await startRedis({ ...shared, dataDir });
  t.after(() => server.stop());
  const client = connect(t, server.url);
  await client.connect();
  assert.deepEqual(await client.config('GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction']);
  assert.deepEqual(await client.config('GET', 'save'), ['save', '']);
  assert.deepEqual(await client.config('GET', 'appendonly'), ['appendonly', 'no']);
  assert.deepEqual(await client.config('GET', 'bind'), ['bind', '127.0.0.1']);
  const stranger = connect(t, `redis://127.0.0.1:${server.port}`);
  await stranger.connect().catch(() => {});
  await assert.rejects(stranger.get('x'), /NOAUTH/);
  for (const name of ['password', 'redis.conf', 'server.json'])
    assert.equal(fs.statSync(path.join(dataDir, name)).mode & 0o077, 0, name);
  const beside = await runningRedis(dataDir);
  assert.equal(beside?.url, server.url);
  await assert.rejects(startRedis({ ...shared, dataDir }), /Another Onsale/);
  const { pid } = server;
  await server.stop();
  assert.equal(isAlive(pid), false);
  assert.equal(await runningRedis(dataDir), undefined);
});

test('a server that ends by itself comes back empty on the same address; one that was taken down stays away', {
  skip: withoutRedis,
}, async (t) => {
  const server = await startRedis({ ...shared, dataDir: folder(), port: await freePort() });
  t.after(() => server.stop());
  const { runId, port } = server;
  process.kill(server.pid, 'SIGKILL');
  await until(() => server.runId !== runId, 'another run');
  assert.equal(server.port, port);
  assert.ok(isAlive(server.pid));
  const second = server.runId;
  await server.kill();
  assert.equal(isAlive(server.pid), false);
  await server.start();
  assert.notEqual(server.runId, second);
  server.freeze();
  await server.stop();
  assert.equal(isAlive(server.pid), false);
});

test('a server left behind by a killed process is ended, frozen or not, and the address stays', {
  skip: withoutRedis,
}, async (t) => {
  const dataDir = folder();
  const left = await startInKilledProcess(dataDir, await freePort());
  const next = await startRedis({ ...shared, dataDir });
  t.after(() => next.stop());
  assert.equal(isAlive(left.pid), false);
  assert.equal(next.port, left.port);
  await next.stop();

  const frozen = await startInKilledProcess(dataDir);
  process.kill(frozen.pid, 'SIGSTOP');
  const fresh = await startRedis({ ...shared, dataDir });
  t.after(() => fresh.stop());
  assert.equal(isAlive(frozen.pid), false);
  assert.equal(fresh.port, left.port, 'the printed address stays right');
  await fresh.stop();
});

/** Starts a server whose parent process is killed, so that nothing stops it. */
async function startInKilledProcess(dataDir: string, port?: number): Promise<{ pid: number; port: number }> {
  const given = port === undefined ? [dataDir] : [dataDir, String(port)];
  const child = spawn(process.execPath, [...programArguments('test/support/redis-parent.ts'), ...given], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.once('data', (data) => resolve(String(data)));
    void exited.then(() => reject(new Error('the parent ended before its server ran')));
  });
  child.kill('SIGKILL');
  await exited;
  return JSON.parse(line);
}
