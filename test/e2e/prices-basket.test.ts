import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { BuyerKind } from '../../src/core/prices.ts';
import { startTestApp } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import { assertAccessible, desktop, joinAndEnter, phone, takeBest, toCard, visit } from '../support/pages.ts';

const skip = withoutBrowser;
let browser: Browser;

before(async () => {
  if (!skip) browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

const categories = ['Category 1', 'Category 2', 'Category 3', 'Standing'];
const kinds: BuyerKind[] = [
  {
    id: 'reduced',
    name: 'Reduced',
    conditions: 'Students and pupils; bring the card',
    prices: Object.fromEntries(categories.map((name) => [name, 1_000])),
  },
];

/** Where everything of the table stands, to the pixel. */
const places = (page: Page) =>
  page.locator('.seat-table tr, .seat-table select, .big-total').evaluateAll((nodes) =>
    nodes.map((node) => {
      const { x, y, width, height } = node.getBoundingClientRect();
      return [x, y, width, height].map(Math.round).join(' ');
    }),
  );

test('the kind of each ticket is chosen in the basket by keyboard; the total follows in place and nothing moves', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { settings: { kinds } });
  for (const viewport of [phone, desktop]) {
    const { page, errors } = await visit(t, browser, app.url, viewport);
    await joinAndEnter(page, app.event);
    await takeBest(page, 2);
    const choosers = page.getByLabel(/^Ticket for /);
    assert.equal(await choosers.count(), 2);
    await page.getByText('Reduced: Students and pupils').waitFor();
    await assertAccessible(page, `kinds at ${viewport.width}`);
    const total = page.locator('.big-total');
    const full = (await total.textContent()) ?? '';
    const before = await places(page);

    await choosers.first().focus();
    await page.keyboard.press('ArrowDown');
    await page.waitForFunction((was) => document.querySelector('.big-total')?.textContent !== was, full);
    const reduced = (await total.textContent()) ?? '';
    assert.deepEqual(await places(page), before, 'nothing moves');
    await page
      .locator('[aria-live]', { hasText: `The total is now ${reduced}` })
      .first()
      .waitFor();

    await page.reload();
    await page.getByRole('heading', { name: 'Your seats are held' }).waitFor();
    assert.equal((await total.textContent()) ?? '', reduced, 'kept over a reload');
    await toCard(page);
    await page.getByText('· Reduced').waitFor();
    const [order] = await app.database.query(
      'SELECT amount::integer, lines FROM orders WHERE event_no = $1 ORDER BY created_at DESC LIMIT 1',
      [app.eventNo],
    );
    assert.equal(reduced.replace(/\D/g, ''), String(order.amount));
    assert.deepEqual(
      order.lines.map((line: { kind: string }) => line.kind),
      ['reduced', 'full'],
    );
    assert.deepEqual(errors, []);
  }
});
