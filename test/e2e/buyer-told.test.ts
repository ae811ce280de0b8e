import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { startTestApp, until } from '../support/app.ts';
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

test('paying is not possible, then a bank that cannot be reached for the cancellation: the page says each, and neither is an end', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 200 });
  const { page, errors } = await visit(t, browser, app.url, phone);
  await joinAndEnter(page, app.event);
  await takeBest(page, 2);
  await toCard(page);
  await app.simulator.fault('unavailable', { match: { route: 'payment_intents.create' } });
  await payWith(page, cards.askBank);
  await page.getByText('Paying is not possible at this moment', { exact: true }).first().waitFor();
  await page.getByText('Your card was not tried and nothing was charged.').first().waitFor();
  await assertAccessible(page, 'payment not possible');
  await page.setViewportSize(desktop);
  await page.setViewportSize(phone);
  await app.simulator.clearFaults();
  // It is opened in the background, as soon as that is possible.
  const opened = () =>
    app.database.query(`SELECT FROM money_operations WHERE kind = 'open' AND state = 'done'`);
  await until(async () => (await opened()).length === 1, 'the opened payment');
  // The same form goes on: the bank wants to see the buyer, who comes back without having answered and cancels.
  await payWith(page, cards.askBank);
  await page.waitForURL((url) => url.origin === new URL(app.simulator.url).origin);
  await app.simulator.fault('error_500_before', { match: { route: 'cancel' } });
  await page.goto(`/events/${app.event}`);
  await page.getByRole('button', { name: 'Cancel the order' }).click();
  await page.getByRole('button', { name: 'Yes, cancel it' }).click();
  await page.getByText('Nothing was charged, and nothing will be.').first().waitFor();
  await assertAccessible(page, 'cancelled, release pending');
  await page.setViewportSize(desktop);
  const [{ order }] = (await app.database.query<{ order: string }>(
    'SELECT order_id AS "order" FROM orders',
  )) as [{ order: string }];
  const tab = await page.context().newPage();
  await tab.goto(`/orders/${order}`);
  await tab.getByRole('heading', { name: 'You cancelled this order' }).waitFor();
  await assertAccessible(tab, 'order cancelled, release pending');
  await tab.setViewportSize(phone);
  await app.simulator.clearFaults();
  await until(
    async () => (await app.database.query(`SELECT FROM orders WHERE state = 'closed'`)).length === 1,
    'the released reservation',
  );
  // The seats are free and the session goes on: this time it is paid.
  await takeBest(page, 2);
  await toCard(page);
  await payWith(page, cards.good);
  await awaitTickets(page, 2);
  assert.deepEqual(errors, []);
});
