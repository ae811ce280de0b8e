import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Logger, pino } from 'pino';
import { createApp } from '../../src/app/app.ts';
import type { App } from '../../src/app/runtime.ts';
import { signTicketCode, storedTicketKey, ticketKeyId } from '../../src/fulfilment/ticket-code.ts';
import { createTicketKeyring } from '../../src/fulfilment/ticket-keys.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { readConfig } from '../../src/runtime/config.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { startTestApp, type TestApp, testScope } from '../support/app.ts';
import { createTestBuyer, type TestBuyer } from '../support/buyer.ts';
import { onsale } from '../support/onsale.ts';

interface Finding {
  check: string;
  state: string;
  detail: string;
  remedy?: string;
}

/** The warnings of a process, from its log. */
function warned(): { log: Logger; ofKeys(): string[] } {
  const lines: { msg: string }[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  return { log, ofKeys: () => lines.map(({ msg }) => msg).filter((msg) => /ticket-key\.pem/.test(msg)) };
}

describe('tickets of an earlier key', () => {
  const scope = testScope();
  const [firstLog, secondLog] = [warned(), warned()];
  let app: TestApp;
  /** The same installation on a machine whose data folder is new. */
  let second: App;
  let lostDir: string;
  /** Codes of the same six tickets, as each of the two machines signs them. */
  let sold: string[] = [];
  let soldLater: string[] = [];
  let stranger: string;
  let organiser: TestBuyer;

  const keyIdIn = (dir: string) => ticketKeyId(storedTicketKey(dir).publicKey);
  const env = (dir: string) => ({ ...app.env, ONSALE_DATA_DIR: dir });

  async function started(dir: string, log: Logger): Promise<App> {
    const read = readConfig(env(dir));
    assert.ok(read.kind === 'ok');
    return await createApp(read.config, { clock: systemClock, random: systemRandom, log, roles: ['web'] });
  }

  async function signedIn({ url, organiser: { email, password } }: App): Promise<TestBuyer> {
    const made = createTestBuyer(url!, app.event);
    assert.equal((await made.post('/api/organiser/sessions', { email, password })).status, 200);
    return made;
  }

  async function checkIn(gate: TestBuyer, code: string): Promise<string> {
    const answer = await gate.post('/api/organiser/checkin', { code, event: app.event });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return [answer.body.result, answer.body.why].filter(Boolean).join(' ');
  }

  async function doctor(dir: string): Promise<Finding> {
    const said = await onsale(['doctor', '--json'], env(dir));
    const found = (JSON.parse(said.out).findings as Finding[]).find(({ check }) => check === 'ticket key');
    assert.ok(found, said.out);
    return found;
  }

  before(async () => {
    app = await startTestApp(scope, { log: firstLog.log });
    const buyer = await app.admitted();
    const { order } = await buyer.mustBuy([0, 1, 2, 3, 4, 5]);
    const { tickets } = (await buyer.tickets(order)).body;
    sold = tickets.map(({ code }) => code);

    // The doctor's findings before and while there is one key, in one test, because separate tests could change their order.
    const here = await doctor(app.dataDir);
    assert.deepEqual([here.state, here.detail], ['ok', keyIdIn(app.dataDir)]);
    lostDir = path.join(app.dataDir, 'new-machine');
    const none = await doctor(lostDir);
    assert.equal(none.state, 'note');
    assert.match(none.detail, new RegExp(`^None in this data folder, .* ${keyIdIn(app.dataDir)} `));
    assert.match(none.remedy ?? '', /Copy ticket-key\.pem/);

    second = await started(lostDir, secondLog.log);
    scope.after(() => second.stop());
    organiser = await signedIn(second);
    const again = createTestBuyer(second.url!, app.event);
    for (const [name, value] of buyer.cookies) again.cookies.set(name, value);
    soldLater = (await again.tickets(order)).body.tickets.map(({ code }) => code);
    const elsewhere = storedTicketKey(path.join(app.dataDir, 'stranger'));
    stranger = signTicketCode(elsewhere, {
      ticket: tickets[0]!.ticket,
      event: app.eventNo,
      seat: 0,
    });
  });
  after(() => scope.close());

  test('a ticket sold under a key that was lost since is let in, once; a stranger’s is not', async () => {
    assert.notEqual(sold[0], soldLater[0]);
    assert.equal(await checkIn(organiser, stranger), 'forged other_key');
    assert.equal(await checkIn(organiser, sold[0]!), 'valid');
    assert.equal(await checkIn(organiser, sold[0]!), 'used');
    assert.equal(await checkIn(organiser, soldLater[0]!), 'used', 'the same ticket under the new key');
    assert.equal(await checkIn(organiser, soldLater[1]!), 'valid');
    const undo = { code: sold[1], reason: 'looked' };
    assert.equal((await organiser.post('/api/organiser/checkin/undo', undo)).status, 200);
    const at = new Date().toISOString();
    const scans = [sold[1], soldLater[2], stranger].map((code, n) => ({ code, scan: `scan ${n}`, at }));
    const { body } = await organiser.post(`/api/organiser/events/${app.event}/entries`, { scans });
    const results = body.scans.map(({ result }: { result: string }) => result);
    assert.deepEqual(results, ['entered', 'entered', 'forged']);
  });

  test('a process that started before the new key was made lets its tickets in too', async () => {
    const gate = await signedIn(app.app);
    assert.equal(await checkIn(gate, soldLater[3]!), 'valid');
    assert.equal(await checkIn(gate, sold[3]!), 'used');
    assert.equal(await checkIn(gate, stranger), 'forged other_key');
  });

  test('the command line lets in by each key of the installation, whichever its data folder has', async () => {
    const enter = (code: string, dir: string) => onsale(['ticket', 'checkin', code, '--json'], env(dir));
    const [empty, strange] = [path.join(app.dataDir, 'empty'), path.join(app.dataDir, 'stranger')];
    assert.equal(JSON.parse((await enter(sold[4]!, lostDir)).out).result, 'valid');
    assert.equal(JSON.parse((await enter(soldLater[4]!, empty)).out).result, 'used');
    assert.equal(JSON.parse((await enter(soldLater[5]!, strange)).out).result, 'valid');
    const refused = await enter(stranger, strange);
    assert.deepEqual([refused.code, JSON.parse(refused.out).why], [1, 'other_key']);
    const out = path.join(app.dataDir, 'tickets.csv');
    const codes = (dir: string) => onsale(['export', 'tickets', '--codes', '--out', out], env(dir));
    const unknown = await codes(strange);
    assert.equal(unknown.code, 1);
    assert.match(unknown.err, /no gate lets in what it signs/);
    assert.equal((await codes(lostDir)).code, 0);
  });

  test('gates without a network take each key that the list carries; a list of one key takes one', async () => {
    const { body: key } = await organiser.get('/api/organiser/ticket-key');
    const { body: list } = await organiser.get(`/api/organiser/events/${app.event}/gate-list`);
    const ids = [keyIdIn(lostDir), keyIdIn(app.dataDir)];
    assert.deepEqual(
      key.keys.map(({ keyId }: { keyId: string }) => keyId),
      ids,
    );
    assert.deepEqual([list.publicKey, list.keys], [key.publicKey, key.keys]);
    assert.equal(key.publicKey, key.keys[0].publicKey);

    const file = path.join(app.dataDir, 'gate.json');
    assert.equal((await onsale(['ticket', 'export', app.event, '--out', file], env(lostDir))).code, 0);
    assert.deepEqual(JSON.parse(fs.readFileSync(file, 'utf8')).keys, list.keys);
    const offline = { ONSALE_DATA_DIR: path.join(app.dataDir, 'gate-machine') };
    const codes = [sold[0]!, soldLater[0]!, stranger];
    const verified = async (...flags: string[]) => {
      const said = await Promise.all(
        codes.map((code) => onsale(['ticket', 'verify', code, ...flags], offline)),
      );
      return said.map(({ code }) => code);
    };
    assert.deepEqual(await verified('--revoked', file), [0, 0, 1]);
    fs.writeFileSync(file, JSON.stringify({ ...list, keys: undefined }));
    assert.deepEqual(await verified('--revoked', file), [1, 0, 1], 'of a program that writes one key');
    fs.writeFileSync(file, JSON.stringify({ ...list, keys: [{ keyId: ids[0] }] }));
    assert.match((await onsale(['ticket', 'verify', codes[0]!, '--revoked', file], {})).err, /no gate list/);
    const files = key.keys.map(({ publicKey }: { publicKey: string }, n: number) => {
      fs.writeFileSync(`${file}.${n}`, publicKey);
      return `${file}.${n}`;
    });
    assert.deepEqual(await verified('--key', files[1]), [0, 1, 1]);
    assert.deepEqual(await verified('--key', files[0], '--key', files[1]), [0, 0, 1]);
    const noKey = await onsale(['ticket', 'verify', codes[0]!, '--key', file], offline);
    assert.equal(noKey.code, 1);
    assert.match(noKey.err, /^--key takes files/);
  });

  test('a start with a new key is reported once, in one line; the doctor lists the keys', async () => {
    assert.deepEqual(firstLog.ofKeys(), [], 'the first key of an installation');
    assert.equal(secondLog.ofKeys().length, 1);
    assert.match(secondLog.ofKeys()[0]!, /Tickets sold before stay valid .* copy it here/);
    await second.stop();
    second = await started(lostDir, secondLog.log);
    assert.equal(secondLog.ofKeys().length, 1, 'the next start');

    const two = await doctor(lostDir);
    assert.equal(two.state, 'note');
    assert.ok(two.detail.startsWith(`${keyIdIn(lostDir)}; this installation knows 1 more: `), two.detail);
    assert.ok(two.detail.includes(keyIdIn(app.dataDir)));
    const strange = await doctor(path.join(app.dataDir, 'stranger'));
    assert.match(strange.detail, /^[0-9a-f]{8}, which nothing was started with yet; .* 2 more: /);
  });

  test('forged codes make no load: unknown keys are looked for once a second; known ones never', async () => {
    const db = createDb({ url: app.database.url, poolSize: 2, clock: systemClock, log: silentLogger });
    let asked = 0;
    const counted: Db = {
      ...db,
      query: (...call) => {
        asked += 1;
        return db.query(...call);
      },
    };
    let now = 0;
    const clock = { ...systemClock, monotonic: () => now };
    const { publicKey: own } = storedTicketKey(lostDir);
    const ring = createTicketKeyring({ db: counted, own, clock });
    const kinds = async (code: string) => {
      const reads = await Promise.all(Array.from({ length: 50 }, () => ring.verify(code)));
      return [...new Set(reads.map(({ kind }) => kind))];
    };
    assert.deepEqual([await kinds(soldLater[0]!), asked], [['valid'], 0]);
    assert.deepEqual([await kinds(stranger), asked], [['other_key'], 1]);
    assert.deepEqual([await kinds(sold[0]!), asked], [['valid'], 1]);
    now = 999;
    assert.deepEqual([await kinds(stranger), asked], [['other_key'], 1]);
    now = 1_000;
    assert.deepEqual([await kinds(stranger), await kinds(sold[0]!), asked], [['other_key'], ['valid'], 2]);
    // Without the record the owner of a code is unknown.
    await db.close();
    now = 2_000;
    await assert.rejects(ring.verify(stranger), { code: 'store_unavailable' });
    assert.deepEqual([await kinds(sold[0]!), asked], [['valid'], 3]);
  });
});
