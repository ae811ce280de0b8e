import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { onsale } from '../support/onsale.ts';
import { testDatabase } from '../support/postgres.ts';
import { stageEvent } from '../support/stage.ts';

test('codes are made, imported, listed and revoked at the command line; prices are read by category and kind', async (t) => {
  const database = await testDatabase(t);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-codes-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const environment = { DATABASE_URL: database.url, ONSALE_DATA_DIR: folder };
  const { event } = await stageEvent(database, { settings: { lockedCategories: ['A'] } });
  const [{ event_id: id }] = await database.query('SELECT event_id FROM events WHERE event_no = $1', [event]);
  const run = (...argv: string[]) => onsale(argv, environment);

  const file = path.join(folder, 'own.csv');
  const [made, wrongFile, wrongCategory, neither] = await Promise.all([
    run('code', 'create', id, '--label', 'Fans', '--count', '3', '--prefix', 'fan', '--category', 'A'),
    run('code', 'create', id, '--label', 'Own', '--import', path.join(folder, 'none.csv'), '--category', 'A'),
    run('code', 'create', id, '--label', 'Own', '--count', '1', '--category', 'B'),
    run('code', 'create', id, '--label', 'Own', '--category', 'A'),
  ]);
  assert.equal(made.code, 0, made.err);
  assert.match(made.out, /^(FAN[A-Z2-9]{10}\n){3}$/);
  assert.deepEqual([wrongFile.code, wrongCategory.code, neither.code], [2, 1, 2]);
  assert.match(wrongCategory.err, /B is not a locked category/);

  fs.writeFileSync(file, 'code,uses\nclub-2026,5\nguest 7,\n');
  const imported = await run(
    'code',
    'create',
    id,
    '--label',
    'Own',
    '--import',
    file,
    '--category',
    'A',
    '--uses',
    'any',
  );
  assert.equal(imported.code, 0, imported.err);
  const listed = await run('code', 'list', id, '--csv');
  const lines = listed.out.trim().split(/\r?\n/);
  assert.equal(lines[0], 'code,label,categories,kinds,presale,uses,used,seats,until,revoked');
  assert.ok(lines.includes('CLUB2026,Own,A,,,5,0,,,') && lines.includes('GUEST7,Own,A,,,,0,,,'), listed.out);
  assert.equal(lines.length, 6);
  const revoked = await run('code', 'revoke', id, '--code', 'Guest-7');
  assert.deepEqual([revoked.code, revoked.out.slice(0, 9)], [0, 'Revoked 1'], revoked.err);

  const seats = ['section,row,seat,x,y,category', 'Stalls,1,1,0,0,A', 'Stalls,1,2,1,0,A'];
  const manifest = path.join(folder, 'plan.csv');
  fs.writeFileSync(manifest, seats.join('\n'));
  const stored = await run('plan', 'import', manifest, '--json');
  assert.equal(stored.code, 0, stored.err);
  const { plan } = JSON.parse(stored.out);
  const logged = JSON.parse((await run('log', '--limit', '1', '--json')).out).entries[0];
  assert.deepEqual([logged.actor, logged.action], ['command line', 'import']);
  assert.deepEqual(logged.detail, { plan, known: false });
  const create = ['event', 'create', '--plan', plan, '--name'];
  const dear = await run(...create, 'Cheap', '--price', 'A=1', '--seat-fee', '0.50');
  assert.equal(dear.code, 0, dear.err);
  assert.ok(
    dear.out.startsWith(
      'Created cheap (draft).\nPrices:\n  A: 1.00 EUR\n  Fee of each seat: 0.50 EUR\nLimits (',
    ),
    dear.out,
  );
  assert.match(dear.out, /Seats per card: 12/);
  const missing = await run(...create, 'Missing', '--price', 'B=100.00');
  assert.equal(missing.code, 1);
  assert.match(missing.err, /no price: A\. Nothing was created/);
  const price = ['--price', 'A=149.00', '--price', 'A/reduced=99.00', '--kind', 'reduced=Reduced'];
  const created = await run(...create, 'Kinds', ...price, '--json');
  assert.equal(created.code, 0, created.err);
  const { prices, settings } = JSON.parse(created.out);
  assert.deepEqual(prices, { A: 14_900 });
  const published = await run('event', 'publish', 'kinds', '--accept-warnings');
  assert.ok(published.out.endsWith(`Prices:\n  A: 149.00 EUR\n  A/reduced: 99.00 EUR\n`), published.out);
  assert.deepEqual(settings.kinds, [
    { id: 'reduced', name: 'Reduced', conditions: '', prices: { A: 9_900 } },
  ]);
});
