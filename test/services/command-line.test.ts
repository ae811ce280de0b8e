import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import { signTicketCode, storedTicketKey } from '../../src/fulfilment/ticket-code.ts';
import { onsale as runOnsale } from '../support/onsale.ts';
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
    for (const check of ['database', 'schema', 'clock']) assert.equal(stateOf(check), 'ok', well.out);
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

  test('a database that cannot be reached is exit code 3', async () => {
    const { code, err } = await onsale(['event', 'list'], {
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    });
    assert.equal(code, 3, err);
    assert.match(err, /database/i);
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
