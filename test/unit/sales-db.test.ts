import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { pause, until } from '../support/wait.ts';

const message = (type: string, body: Buffer | string = ''): Buffer => {
  const bytes = Buffer.from(body);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length + 4);
  return Buffer.concat([Buffer.from(type), length, bytes]);
};
const ready = message('Z', 'I');
const farewell = message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0');
const answer = [message('1'), message('2'), message('n'), message('C', 'SELECT 0\0'), ready];

/**
 * Speaks enough of Postgres's protocol for one query, and ends the connection: in the packet of its response, a moment after it,
 * or when its client ends it.
 */
async function stoppingServer(
  farewells: 'with' | 'after' | 'at_goodbye' = 'with',
): Promise<{ url: string; close(): Promise<unknown> }> {
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', Buffer.alloc(4)), ready]));
      socket.once('data', () => {
        if (farewells === 'with') return socket.end(Buffer.concat([...answer, farewell]));
        socket.write(Buffer.concat(answer));
        if (farewells === 'after')
          void pause(20, 'some time after the answer').then(() => socket.end(farewell));
        else socket.once('data', () => socket.end(farewell));
      });
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

for (const [farewells, warned] of [
  ['after', ['idle Postgres connection lost']],
  ['at_goodbye', []],
] as const) {
  const when = farewells === 'after' ? 'while we are at work is warned of' : 'once we close it is no news';
  test(`an idle connection that is lost ${when}`, async () => {
    const server = await stoppingServer(farewells);
    const warnings: string[] = [];
    const log = Object.assign(Object.create(silentLogger), {
      warn: (_: object, text: string) => warnings.push(text),
    });
    const db = createDb({ url: server.url, poolSize: 1, clock: systemClock, log });
    assert.deepEqual(await db.query('any', 'SELECT'), []);
    if (farewells === 'after') await until(() => warnings.length > 0, 'the warning');
    await db.close();
    await server.close();
    // Until the client, too, has read all that there was.
    await until(
      () => !process.getActiveResourcesInfo().includes('TCPSocketWrap'),
      'the end of the connection',
    );
    assert.deepEqual(warnings, warned);
  });
}
