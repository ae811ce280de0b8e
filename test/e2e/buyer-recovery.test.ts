import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { startTestApp, type TestApp, until } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import {
  assertAccessible,
  awaitTickets,
  cards,
  desktop,
  joinAndEnter,
  payWith,
  phone,
  takeBest,
  toCard,
  visit,
} from '../support/pages.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';

const skip = withoutBrowser || withoutRedis;
let browser: Browser;

before(async () => {
  if (!skip) browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

async function inMode(app: TestApp, mode: 'redis' | 'postgres'): Promise<boolean> {
  const rows = await app.database.query<{ mode: string }>(
    'SELECT mode FROM event_partitions WHERE event_no = $1',
    [app.eventNo],
  );
  return rows.every((row) => row.mode === mode);
}

const seatsOn = (text: string | null): string[] => (text ?? '').match(/Seat \d+/g) ?? [];

test('D1: Redis is killed while seats are in the basket: the page shows its receipt by itself and the seats are paid', {
  skip,
}, async (t) => {
  const redis = await testRedis(t);
  const app = await startTestApp(t, { seats: 200, env: { REDIS_URL: redis.url } });
  await until(() => inMode(app, 'redis'), 'Redis to arbitrate');
  const { page, errors } = await visit(t, browser, app.url, phone);
  await joinAndEnter(page, app.event);
  await takeBest(page, 2);
  const before = seatsOn(await page.locator('table').first().textContent());

  await redis.kill();
  const notice = page.locator('main').getByText('we are making sure of your seats');
  await notice.waitFor();
  await assertAccessible(page, 'recovering');
  assert.equal(
    await page.getByRole('heading', { name: 'Your seats are held' }).count(),
    1,
    'the basket stays',
  );
  await notice.waitFor({ state: 'detached' });
  assert.deepEqual(seatsOn(await page.locator('table').first().textContent()), before, 'the same seats');
  assert.ok(await inMode(app, 'postgres'), 'decided by Postgres');

  await toCard(page);
  await payWith(page, cards.good);
  await awaitTickets(page, 2);
  assert.deepEqual(errors, []);
});

test('D1: a page that was asleep through it all shows its receipt when it is opened again within grace, and says when it comes too late', {
  skip,
}, async (t) => {
  const redis = await testRedis(t);
  const app = await startTestApp(t, { seats: 200, env: { REDIS_URL: redis.url } });
  await until(() => inMode(app, 'redis'), 'Redis to arbitrate');
  const early = await visit(t, browser, app.url, phone);
  const late = await visit(t, browser, app.url, desktop);
  for (const { page } of [early, late]) {
    await joinAndEnter(page, app.event);
    await takeBest(page, 1);
    await page.goto('about:blank');
  }
  await redis.kill();
  await until(() => inMode(app, 'postgres'), 'Postgres to arbitrate');
  await early.page.goto(`/events/${app.event}`);
  await early.page.getByRole('heading', { name: 'Your seats are held' }).waitFor();

  await late.page.goto(`/events/${app.event}`);
  await late.page.locator('main').getByText('Nothing was charged. You can choose again.').waitFor();
  await late.page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
  assert.deepEqual([...early.errors, ...late.errors], []);
});
