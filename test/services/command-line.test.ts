import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import { signTicketCode, storedTicketKey } from '../../src/fulfilment/ticket-code.ts';
import { postgresAnswers } from '../../src/postgres/wait.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { onsale as runOnsale, spawnOnsale } from '../support/onsale.ts';
import { testDatabase } from '../support/postgres.ts';

let environment: Record<string, string>;
let dataDir: string;

async function onsale(argv: string[], more: Record<string, string> = {}) {
  return await runOnsale(argv, { ...environment, ...more });
}

describe('the command line', () => {
  before(async () => {
    const database = await testDatabase();
    dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-cli-'));
    environment = { DATABASE_URL: database.url, ONSALE_DATA_DIR: dataDir };
  });

  test('help is exit code 0 and says what the codes mean; wrong usage is 2', async () => {
    const help = await onsale(['--help']);
    assert.equal(help.code, 0);
    for (const word of ['start', 'migrate', 'plan', 'event', 'doctor', 'ticket', 'Exit codes']) {
      assert.ok(help.out.includes(word), word);
    }
    for (const argv of [['nonsense'], ['start', '--nonsense'], ['ticket', 'verify']]) {
      assert.equal((await onsale(argv)).code, 2, argv.join(' '));
    }
  });

  test('mistakes in the configuration are all named, exit code 2', async () => {
    const { code, err } = await onsale(['doctor'], { PORT: 'x', ONSALE_SECRET: 'short' });
    assert.equal(code, 2);
    assert.match(err, /PORT/);
    assert.match(err, /ONSALE_SECRET/);
  });

  test('doctor finds a migrated database well, and says what is wrong with one that does not answer', async () => {
    const well = await onsale(['doctor', '--json'], {});
    const { findings } = JSON.parse(well.out) as {
      findings: { check: string; state: string; remedy?: string }[];
    };
    const stateOf = (check: string) => findings.find((one) => one.check === check)?.state;
    for (const check of ['database', 'schema', 'functions', 'clock'])
      assert.equal(stateOf(check), 'ok', well.out);
    // The tests' server does not flush to disk: exactly what the doctor is for.
    const durable = stateOf('durability') === 'ok';
    assert.equal(well.code, durable ? 0 : 1);
    const ill = await onsale(['doctor', '--json'], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
    assert.equal(ill.code, 1);
    const { findings: bad } = JSON.parse(ill.out) as {
      findings: { check: string; state: string; remedy?: string }[];
    };
    const wrong = bad.find(({ state }) => state === 'wrong');
    assert.equal(wrong?.check, 'database');
    assert.ok(wrong?.remedy);
  });

  test('a database that cannot be reached is exit code 3; a dry run of an import needs none', async () => {
    const away = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
    const file = path.join(dataDir, 'plan.csv');
    fs.writeFileSync(file, 'section,row,seat,x,y\nA,1,1,0,0\n');
    const [listed, checked, imported] = await Promise.all([
      onsale(['event', 'list'], away),
      onsale(['plan', 'import', file, '--dry-run'], away),
      onsale(['plan', 'import', file], away),
    ]);
    assert.equal(listed.code, 3, listed.err);
    assert.match(listed.err, /database/i);
    assert.deepEqual([checked.code, imported.code], [0, 3], `${checked.err}\n${imported.err}`);
    assert.match(checked.out, /1 seat/);
  });

  test('start waits for a Postgres that is not up yet, and ends at once where waiting does not help', async (t) => {
    const real = new URL(environment.DATABASE_URL!);
    // Nothing listens here; then a server that starts up (57P03), twice; then the real one.
    const port = await freePort();
    const waiting = new URL(real);
    waiting.port = String(port);
    const child = spawnOnsale(t, ['start', '--no-demo', '--roles', 'controller'], {
      ...environment,
      DATABASE_URL: String(waiting),
    });
    await child.says(/Waiting for Postgres at [^ ]+: .*ECONNREFUSED.* of 60 s/);
    let greeted = 0;
    const server = net.createServer((socket) => {
      socket.on('error', () => {});
      greeted += 1;
      if (greeted <= 2) {
        socket.once('data', () => socket.end(startingUp));
        return;
      }
      const behind = net.connect(Number(real.port), real.hostname);
      behind.on('error', () => socket.destroy());
      socket.pipe(behind).pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(port, real.hostname, resolve));
    t.after(() => server.close());
    await child.says(/Running without the web role/);
    assert.ok(greeted > 2);
    assert.equal(await child.end('SIGTERM'), 0);

    const missing = new URL(real);
    missing.pathname = '/no_such_database';
    for (const argv of [['start', '--no-demo'], ['migrate']]) {
      const { code, err } = await onsale(argv, { DATABASE_URL: String(missing) });
      assert.equal(code, 3, err);
      assert.match(err, /cannot be used: database "no_such_database" does not exist\. Check DATABASE_URL/);
    }
    const away = postgresAnswers({
      url: String(waiting).replace(`:${port}/`, ':1/'),
      clock: systemClock,
      patienceMs: 700,
    });
    await assert.rejects(away, /did not answer within 1 s: .*ECONNREFUSED/);
  });

  test('ticket verify: 0 for a code of ours, 1 for any other, offline', async () => {
    const key = storedTicketKey(dataDir);
    const text = signTicketCode(key, { ticket: '0f8fad5b-d9cb-469f-a165-70867728950e', event: 3, seat: 9 });
    const offline = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
    const good = await onsale(['ticket', 'verify', text, '--json'], offline);
    assert.equal(good.code, 0, good.err);
    assert.deepEqual(JSON.parse(good.out).code, {
      ticket: '0f8fad5b-d9cb-469f-a165-70867728950e',
      event: 3,
      seat: 9,
    });
    const forged = await onsale(
      ['ticket', 'verify', `${text.slice(0, 60)}${text[60] === 'A' ? 'B' : 'A'}${text.slice(61)}`],
      offline,
    );
    assert.equal(forged.code, 1);
    assert.match(forged.err, /altered|forged|no ticket code/);
  });
});

/** The reply of a recovering server to each connection: cannot_connect_now. */
const startingUp = (() => {
  const fields = 'SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0';
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, Buffer.from(fields)]);
})();

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
