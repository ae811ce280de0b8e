import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { Phase } from '../../src/core/phase.ts';
import { startTestApp, type TestApp } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import { assertAccessible, joinAndEnter, phone, takeBest, toCard, visit } from '../support/pages.ts';

const skip = withoutBrowser;
let browser: Browser;

before(async () => {
  if (!skip) browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

/** As the organiser would: phase, message or rate, with the version that stands now. */
async function steer(
  { app, event }: TestApp,
  change: { phase?: Phase; message?: string; rateCeiling?: number | null },
): Promise<void> {
  const record = await app.events.find(event);
  assert.ok(record);
  const outcome = await app.events.changeOnSale({
    event: record,
    actor: 'test',
    expectedVersion: record.version,
    ...change,
  });
  assert.equal(outcome.kind, 'changed');
}

const numberOn = async (page: Page): Promise<string> =>
  (await page
    .locator('dt', { hasText: 'Your number' })
    .locator('xpath=following-sibling::dd')
    .textContent()) ?? '';

test('W1 W4: the place survives reload and second tab; waiting polls nothing but the status; pause and message are shown', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  await steer(app, { phase: 'paused' });
  const { page, context, errors } = await visit(t, browser, app.url);
  await page.goto(`/events/${app.event}`);
  await page.getByRole('button', { name: 'Join the line' }).click();
  await page.getByRole('heading', { name: 'You are in the line' }).waitFor();
  await page.locator('main').getByText('The queue does not move').waitFor();
  await assertAccessible(page, 'waiting while paused');
  const number = await numberOn(page);

  await page.reload();
  await page.getByRole('heading', { name: 'You are in the line' }).waitFor();
  assert.equal(await numberOn(page), number, 'after a reload');
  const second = await context.newPage();
  await second.goto(`/events/${app.event}`);
  await second.getByRole('heading', { name: 'You are in the line' }).waitFor();
  assert.equal(await numberOn(second), number, 'in a second tab');
  await second.evaluate(() => localStorage.clear());
  await second.reload();
  await second.getByRole('button', { name: 'Join the line' }).click();
  await second.getByRole('heading', { name: 'You are in the line' }).waitFor();
  assert.equal(await numberOn(second), number, 'with its storage lost: the cookie has it too');
  await second.close();

  const asked: string[] = [];
  page.on('request', (request) => {
    const path = new URL(request.url()).pathname;
    if (path.startsWith('/api/')) asked.push(path);
  });
  await steer(app, { message: 'The doors of stand B open at seven.' });
  await page.locator('main').getByText('The doors of stand B open at seven.').waitFor();
  assert.deepEqual([...new Set(asked)], [`/api/events/${app.event}/status`]);

  await steer(app, { phase: 'open' });
  await page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
  assert.deepEqual(errors, []);
});

test('W5: the last seat is sold while a visitor waits: their phone says so, and that nothing was charged', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 100, settings: { holdSeatsMax: 50 } });
  await steer(app, { rateCeiling: 0 });
  const { page } = await visit(t, browser, app.url, phone);
  await page.goto(`/events/${app.event}`);
  await page.getByRole('button', { name: 'Join the line' }).click();
  await page.getByRole('heading', { name: 'You are in the line' }).waitFor();
  await assertAccessible(page, 'waiting');
  await sellAllSeats(app);
  await page.getByRole('heading', { name: 'Sold out' }).waitFor({ timeout: 40_000 });
  await page.locator('main').getByText('Nothing was charged').first().waitFor();
  await assertAccessible(page, 'sold out');
});

/** Buyers who did not come through the line buy section after section. */
async function sellAllSeats(app: TestApp): Promise<void> {
  const record = await app.app.events.find(app.event);
  assert.ok(record);
  const { layout } = await app.app.events.venue(record);
  for (const section of layout.sections) {
    const seats = section.seats.flatMap(([first, count]) =>
      Array.from({ length: count }, (_, i) => first + i),
    );
    for (let i = 0; i < seats.length; i += 50) {
      await (await app.admitted()).mustBuy(seats.slice(i, i + 50));
    }
  }
}

test('S5: the basket survives reload and second tab, and giving it back frees the seats for others', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const { page, context } = await visit(t, browser, app.url);
  await joinAndEnter(page, app.event);
  await takeBest(page, 2);
  const rows = () => page.locator('.seat-table tbody tr');
  const seats = await rows().allInnerTexts();
  assert.equal(seats.length, 2);
  await page.reload();
  await page.getByRole('heading', { name: 'Your seats are held' }).waitFor();
  assert.deepEqual(await rows().allInnerTexts(), seats);

  const second = await context.newPage();
  await second.goto(`/events/${app.event}`);
  await second.getByRole('heading', { name: 'Your seats are held' }).waitFor();
  assert.deepEqual(await second.locator('.seat-table tbody tr').allInnerTexts(), seats);

  // One seat out: the other stays, and the second tab follows.
  await page
    .getByRole('button', { name: /^Remove/ })
    .first()
    .click();
  await page.getByText('Your seats were changed.').first().waitFor();
  assert.equal(await rows().count(), 1);
  await second.locator('.seat-table tbody tr').nth(1).waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Give the seats back' }).click();
  await page.getByRole('button', { name: 'Yes, give them back' }).click();
  await page.locator('main').getByText('The seats were given back. Nothing was charged.').waitFor();
  await page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
  await second.getByRole('heading', { name: 'Choose your seats' }).waitFor();
});

test('S2: a seat that another buyer took is explained in place, and the nearest free ones can be taken', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 300 });
  const { page } = await visit(t, browser, app.url);
  await joinAndEnter(page, app.event);
  await page.getByText('List', { exact: true }).click();
  await page.locator('.section-list button:not([aria-disabled="true"])').first().click();
  await page.locator('.list-seat input').first().waitFor();
  // The answer that shows it as taken never arrives: the page cannot know yet.
  await page.route(/\/availability\//, (route) => route.abort());
  await page.locator('.list-seat input').nth(2).click();
  await page.getByText('1 seat chosen').first().waitFor();
  const wanted = page.waitForRequest((request) => request.url().endsWith('/holds'));
  await page.route(/\/holds$/, async (route) => {
    await page.unroute(/\/holds$/);
    const [{ seat }] = route.request().postDataJSON().seats;
    await (await app.admitted()).mustHold([seat]);
    await route.continue();
  });
  await page.getByRole('button', { name: 'Hold this seat' }).click();
  await wanted;
  await page.locator('main').getByText('Somebody else was quicker').waitFor();
  await page.locator('main').getByText('nothing was charged').first().waitFor();
  await assertAccessible(page, 'taken');
  await page.getByRole('button', { name: 'Choose these instead' }).click();
  await page.getByRole('heading', { name: 'Your seats are held' }).waitFor();
});

test('P1: an answer that is lost is asked for again under the same key: one hold, one order', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const { page } = await visit(t, browser, app.url);
  await joinAndEnter(page, app.event);
  const keys: string[] = [];
  await page.route(/\/holds$/, async (route) => {
    keys.push(route.request().headers()['idempotency-key'] ?? '');
    if (keys.length > 1) return route.continue();
    // It arrives and is carried out; its answer gets lost on the way.
    await route.fetch();
    await route.abort('connectionreset');
  });
  await takeBest(page, 2);
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.equal(await page.locator('.seat-table tbody tr').count(), 2);

  await toCard(page);
  await page.reload();
  await page.getByLabel('Card number').waitFor();
  await page.getByRole('button', { name: 'Cancel the order' }).click();
  await page.getByRole('button', { name: 'Yes, cancel it' }).click();
  await page.locator('main').getByText('The order was cancelled').waitFor();
  const [row] = await app.database.query<{ orders: number }>('SELECT count(*)::int AS orders FROM orders');
  assert.equal(row?.orders, 1);
});

test('S4: the time of a hold runs out in the open page: it says so, that nothing was charged, and lets choose again', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 200, settings: { holdTtlMs: 9_000 } });
  const { page } = await visit(t, browser, app.url);
  await joinAndEnter(page, app.event);
  await takeBest(page, 2);
  await page.locator('main').getByText('Your seats went back on sale. Nothing was charged.').waitFor();
  await page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
  await takeBest(page, 2);
});

test('W3: when the time for choosing is over the page says so, and joining again draws a new number', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const { page } = await visit(t, browser, app.url);
  await joinAndEnter(page, app.event);
  await app.database.query(
    "UPDATE passes SET expires_at = clock_timestamp() - interval '1 s' WHERE event_no = $1",
    [app.eventNo],
  );
  // In truth a session lasts far longer than the minute for which the store remembers who drew which number.
  await app.database.query('DELETE FROM queue_recent WHERE event_no = $1', [app.eventNo]);
  // The page asks for its pass again, as after a reload without storage.
  await page.evaluate(() => {
    for (const name of Object.keys(localStorage)) if (name.endsWith('.pass')) localStorage.removeItem(name);
  });
  await page.reload();
  await page.getByRole('heading', { name: 'Your time for choosing is over' }).waitFor();
  await page.locator('main').getByText('Nothing was charged').first().waitFor();
  await assertAccessible(page, 'session over');
  await page.getByRole('button', { name: 'Join the line again' }).click();
  await page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
  const [row] = await app.database.query<{ number: number }>(
    'SELECT number::int FROM passes WHERE event_no = $1',
    [app.eventNo],
  );
  assert.equal(row?.number, 2);
});
