import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { logAction } from '../../src/orders/action-log.ts';
import { createDb, type Db } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { startTestApp, type TestApp, testScope } from '../support/app.ts';
import type { TestBuyer } from '../support/buyer.ts';
import { onsale } from '../support/onsale.ts';

const path = '/api/organiser/audit-log';
let app: TestApp;
let organiser: TestBuyer;
let db: Db;

interface Page {
  entries: {
    entry: number;
    at: string;
    actor: string;
    action: string;
    event: string | null;
    detail: object;
  }[];
  next: number | null;
}

async function page(query: string): Promise<Page> {
  const answer = await organiser.get(`${path}${query}`);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}

describe('the log of actions', () => {
  const scope = testScope();
  before(async () => {
    app = await startTestApp(scope);
    db = createDb({ url: app.database.url, poolSize: 1, clock: systemClock, log: silentLogger });
    organiser = app.buyer();
    const { email, password } = app.app.organiser;
    assert.equal((await organiser.post('/api/organiser/sessions', { email, password })).status, 200);
  });
  after(async () => {
    await db?.close();
    await scope.close();
  });

  test('is read page by page, newest first: each entry once, although others are written meanwhile; organisers only', async () => {
    assert.equal((await app.buyer().get(path)).status, 401);
    const event = app.eventNo;
    for (let i = 0; i < 7; i += 1) {
      await logAction(db, {
        actor: 'tester',
        action: `act_${i}`,
        event: i % 2 ? event : undefined,
        detail: { i },
      });
    }
    const whole = await page('?limit=500');
    assert.equal(whole.next, null);
    const [newest] = whole.entries;
    const { at, entry: _, ...rest } = newest!;
    assert.deepEqual(rest, { actor: 'tester', action: 'act_6', event: null, detail: { i: 6 } });
    assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000, at);

    const walked: number[] = [];
    let next: number | null = null;
    do {
      const one: Page = await page(`?limit=3${next === null ? '' : `&before=${next}`}`);
      assert.ok(one.entries.length === 3 || one.next === null);
      walked.push(...one.entries.map(({ entry }) => entry));
      next = one.next;
      await logAction(db, { actor: 'tester', action: 'meanwhile' });
    } while (next !== null);
    assert.deepEqual(
      walked,
      whole.entries.map(({ entry }) => entry),
    );
    const ofEvent = await page(`?event=${app.event}&limit=3`);
    assert.deepEqual(
      ofEvent.entries.map(({ action, event: id }) => [action, id]),
      ['act_5', 'act_3', 'act_1'].map((action) => [action, app.event]),
    );
    const older = await page(`?event=${app.event}&before=${ofEvent.next}`);
    assert.ok(older.entries.some(({ action }) => action === 'publish'));
    assert.ok(older.entries.every(({ event: id }) => id === app.event));
  });

  test('a limit or a cursor that is none is refused by its name, and an event that is not there', async () => {
    for (const field of ['limit', 'before']) {
      for (const value of ['0', '-1', 'x', '', '1.5', '1e3', '99999999999999999', '9'.repeat(50)]) {
        const answer = await organiser.get(`${path}?${field}=${value}`);
        assert.deepEqual(
          [answer.status, answer.body.code, answer.body.field],
          [400, 'invalid_field', field],
          `${field}=${value}`,
        );
      }
    }
    assert.equal((await organiser.get(`${path}?limit=501`)).body.field, 'limit');
    const none = await organiser.get(`${path}?event=none`);
    assert.deepEqual([none.status, none.body.code], [404, 'unknown_event']);
  });

  test('the command line shows it too', async () => {
    const { entries, next } = await page('?limit=2');
    const json = await onsale(['log', '--limit', '2', '--json'], app.env);
    assert.equal(json.code, 0, json.err);
    const read = JSON.parse(json.out);
    assert.deepEqual(
      [read.next, read.entries.map(({ entry }: { entry: number }) => entry)],
      [next, entries.map(({ entry }) => entry)],
    );
    const text = await onsale(['log', '--event', app.event, '--before', String(next)], app.env);
    assert.equal(text.code, 0, text.err);
    const [first = ''] = text.out.split('\n');
    assert.match(first, /^\d+ {2}\d{4}-.*Z {2}tester {2}act_5 {2}.* {2}i=5$/);
    const wrong = await Promise.all(
      [
        ['--limit', '0'],
        ['--before', 'x'],
        ['--event', 'none'],
      ].map((flags) => onsale(['log', ...flags], app.env)),
    );
    assert.deepEqual(
      wrong.map(({ code }) => code),
      [1, 1, 1],
    );
  });
});
