import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createDb } from '../../src/sales/db.ts';

const message = (type: string, body: Buffer | string = ''): Buffer => {
  const bytes = Buffer.from(body);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length + 4);
  return Buffer.concat([Buffer.from(type), length, bytes]);
};
const ready = message('Z', 'I');
const farewell = message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0');
const answer = [message('1'), message('2'), message('n'), message('C', 'SELECT 0\0'), ready];

/** Speaks as much of Postgres's protocol as one query needs, and says farewell in the packet of its answer. */
async function stoppingServer(): Promise<{ url: string; close(): Promise<unknown> }> {
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', Buffer.alloc(4)), ready]));
      socket.once('data', () => socket.end(Buffer.concat([...answer, farewell])));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  return {
    url: `postgres://user@127.0.0.1:${port}/any`,
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}

test('D2: a server that stops right behind an answer costs neither the answer nor the process', async () => {
  const server = await stoppingServer();
  const db = createDb({ url: server.url, poolSize: 1, clock: systemClock, log: silentLogger });
  for (let query = 0; query < 3; query++) assert.deepEqual(await db.query('any', 'SELECT'), []);
  await db.close();
  await server.close();
});
