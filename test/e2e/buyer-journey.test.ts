import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { startTestApp } from '../support/app.ts';
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

const skip = withoutBrowser;
let browser: Browser;

before(async () => {
  if (!skip) browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

test('the whole journey with the mouse at 1280 px: line, map, basket, decline, another card, tickets', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 400 });
  const { page, errors } = await visit(t, browser, app.url, desktop);
  await page.goto('/');
  await assertAccessible(page, 'list of events');
  await page.getByRole('link', { name: 'Get tickets for The Show' }).click();
  await page.getByRole('button', { name: 'Join the line' }).waitFor();
  await assertAccessible(page, 'event');
  await page.getByRole('button', { name: 'Join the line' }).click();
  await page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
  await assertAccessible(page, 'best available');

  await page.getByText('List', { exact: true }).click();
  await page.locator('.section-list button').first().waitFor();
  await assertAccessible(page, 'sections as a list');
  await page.locator('.section-list button:not([aria-disabled="true"])').first().click();
  await page.locator('.list-seat input').first().waitFor();
  await assertAccessible(page, 'seats as a list');
  await page.locator('.list-seat input').nth(0).click();
  await page.locator('.list-seat input').nth(1).click();
  await page.getByText('2 seats chosen').first().waitFor();
  await page.getByText('Map', { exact: true }).click();
  await page.locator('.map-stage canvas').first().waitFor();
  await assertAccessible(page, 'map');
  await page.getByRole('button', { name: 'Hold these 2 seats' }).click();

  await page.getByRole('heading', { name: 'Your seats are held' }).waitFor();
  await assertAccessible(page, 'basket');
  await toCard(page);
  await assertAccessible(page, 'payment');
  await payWith(page, cards.poor);
  await page.getByText('The card does not have enough funds.').first().waitFor();
  await page
    .getByText(/Nothing was charged/)
    .first()
    .waitFor();
  await assertAccessible(page, 'declined');
  await payWith(page, cards.good);
  await awaitTickets(page, 2);
  await assertAccessible(page, 'tickets');
  assert.match(new URL(page.url()).hash, /^#.{10,}/, 'the link carries the secret of the order');
  assert.deepEqual(errors, []);

  // The link alone opens the order in another browser, and only the whole link does.
  const other = await visit(t, browser, app.url);
  await other.page.goto(page.url());
  await awaitTickets(other.page, 2);
  await other.page.goto(page.url().replace(/#.*/, '#not-the-secret'));
  await other.page.reload();
  await other.page.getByRole('heading', { name: 'This order cannot be shown here' }).waitFor();
});

test('the whole journey by touch at 360 px: best available, pay, tickets', { skip }, async (t) => {
  const app = await startTestApp(t, { seats: 300, env: { ONSALE_TIME_ZONE: 'Asia/Kathmandu' } });
  const { page, errors } = await visit(t, browser, app.url, phone);
  await joinAndEnter(page, app.event);
  await assertAccessible(page, 'best available');
  await page.getByText('Map', { exact: true }).tap();
  await page.locator('.map-stage canvas').first().waitFor();
  await assertAccessible(page, 'map');
  await page.getByText('Best available', { exact: true }).first().tap();
  await takeBest(page, 3);
  await assertAccessible(page, 'basket');
  await toCard(page);
  await assertAccessible(page, 'payment');
  await payWith(page, cards.good);
  await awaitTickets(page, 3);
  const ticket = (await page.locator('.ticket-text').first().textContent()) ?? '';
  // In the venue's time zone, which is named, wherever the browser is.
  assert.match(ticket, /The Show\w+day, \d+ \w+ 20\d\d, \d\d:\d\d\sGMT\+5:45Demo Stadium/);
  assert.match(ticket, /€\d+\.\d\d \+ €1\.50 fee/);
  await assertAccessible(page, 'tickets');
  // 320 px: what a page of 1280 px shows at 400 %.
  await page.setViewportSize({ width: 320, height: 640 });
  await assertAccessible(page, 'tickets at 320 px');
  assert.deepEqual(errors, []);
});

test('the whole journey by keyboard alone: the map by arrow keys, no pointer at all', { skip }, async (t) => {
  const app = await startTestApp(t, { seats: 400 });
  const { page, errors } = await visit(t, browser, app.url, desktop);
  await page.goto(`/events/${app.event}`);
  await page.getByRole('button', { name: 'Join the line' }).waitFor();
  const tabTo = async (reached: () => Promise<boolean>, what: string) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      if (await reached()) return;
    }
    assert.fail(`no way by Tab to ${what}`);
  };
  const focusIs = (css: string) => () =>
    page.evaluate((selector) => document.activeElement?.matches(selector) ?? false, css);
  const focusSays = (text: string) => () =>
    page.evaluate((wanted) => (document.activeElement?.textContent ?? '').includes(wanted), text);

  await tabTo(focusSays('Join the line'), 'the join button');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
  await tabTo(focusIs('.ways input'), 'the ways of choosing');
  await page.keyboard.press('ArrowRight');
  await page.locator('.map-stage canvas').first().waitFor();
  await tabTo(focusIs('.map-stage'), 'the map');
  const spoken = page.locator('[role=status]').last();
  await page.keyboard.press('ArrowRight');
  await spoken.getByText(/left/).waitFor();
  await page.keyboard.press('Enter');
  await spoken.getByText(/opened/).waitFor();
  // The seats' states arrive a moment after the section was opened.
  await page.waitForResponse(/\/availability\//);
  await page.keyboard.press('ArrowDown');
  await spoken.getByText(/free|taken/).waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('1 seat chosen').first().waitFor();
  await page.keyboard.press('Escape');
  await spoken.getByText('Whole venue shown.').waitFor();
  await tabTo(focusSays('Hold this seat'), 'the hold button');
  await page.keyboard.press('Enter');

  await page.getByRole('heading', { name: 'Your seats are held' }).waitFor();
  await tabTo(focusSays('Continue to payment'), 'the way to the payment');
  await page.keyboard.press('Enter');
  await page.getByLabel('Name').waitFor();
  await tabTo(focusIs('#buyer-name'), 'the name');
  await page.keyboard.type('Grace Hopper');
  await page.keyboard.press('Tab');
  await page.keyboard.type('grace@example.org');
  await page.keyboard.press('Enter');
  await page.getByLabel('Card number').waitFor();
  await tabTo(focusIs('input[autocomplete="cc-number"]'), 'the card number');
  await page.keyboard.type(cards.good);
  await page.keyboard.press('Tab');
  await page.keyboard.type('12/40');
  await page.keyboard.press('Tab');
  await page.keyboard.type('123');
  await page.keyboard.press('Enter');
  await awaitTickets(page, 1);
  assert.deepEqual(errors, []);
});

test('P1: 3-D Secure: to the bank and back, the tickets are there and the card is charged once', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const { page } = await visit(t, browser, app.url);
  await joinAndEnter(page, app.event);
  await takeBest(page, 1);
  await toCard(page);
  await payWith(page, cards.askBank);
  await page.waitForURL((url) => url.origin === new URL(app.simulator.url).origin);
  await page
    .getByRole('button', { name: /authori[sz]e|complete|confirm/i })
    .first()
    .click();
  await awaitTickets(page, 1);
  const { rows } = await captured(app.database);
  assert.equal(rows, 1);
});

test('P3: refused at the bank: nothing is charged, and another card can be tried', { skip }, async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const { page } = await visit(t, browser, app.url);
  await joinAndEnter(page, app.event);
  await takeBest(page, 1);
  await toCard(page);
  await payWith(page, cards.askBank);
  await page.waitForURL((url) => url.origin === new URL(app.simulator.url).origin);
  await page
    .getByRole('button', { name: /refuse|fail|decline|reject/i })
    .first()
    .click();
  await page.waitForURL(/\/orders\//);
  await page.getByRole('heading', { name: 'The payment did not go through' }).waitFor();
  await page
    .getByText(/Nothing was charged/)
    .first()
    .waitFor();
  await page.getByRole('link', { name: 'Go to the payment' }).click();
  await page.getByLabel('Card number').waitFor();
  await payWith(page, cards.good);
  await awaitTickets(page, 1);
});

/** Orders that were paid. */
async function captured(database: {
  query<Row extends object>(sql: string): Promise<Row[]>;
}): Promise<{ rows: number }> {
  const [row] = await database.query<{ rows: number }>(
    "SELECT count(*)::int AS rows FROM orders WHERE state = 'paid'",
  );
  return { rows: row?.rows ?? 0 };
}
