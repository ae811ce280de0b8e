import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { BuyerKind } from '../../src/core/prices.ts';
import { createCodes } from '../../src/orders/access-codes.ts';
import type { Db } from '../../src/postgres/db.ts';
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

test('the event’s page says what the gate asks for, what a code opens, and when the code is used up', {
  skip,
}, async (t) => {
  const members = { id: 'members', name: 'Members', conditions: '', locked: true, prices: { Standing: 100 } };
  const app = await startTestApp(t, {
    settings: { kinds: [...kinds, members], lockedCategories: ['Category 1'] },
  });
  const [dearest, open] = [14_900 + 150, 12_400 + 150];
  await createCodes({ query: (_name, text, values) => app.database.query(text, [...(values ?? [])]) } as Db, {
    ...{ event: app.eventNo, actor: 'test', batch: crypto.randomUUID(), label: 'Club', presale: false },
    ...{ codes: [{ code: 'CLUB2026', usesMax: 1 }], categories: ['Category 1'], kinds: ['members'] },
    ...{ seatsMax: null, until: null },
  });
  const { page, errors } = await visit(t, browser, app.url, phone);
  await page.goto(`/events/${app.event}`);
  const table = page.locator('.price-table');
  await table.getByText('Students and pupils; bring the card').first().waitFor();
  const prices = page.locator('.facts dd').first();
  const rangeTo = (max: number) =>
    page.waitForFunction(
      (end) => document.querySelector('.facts dd')?.textContent?.endsWith(end),
      `€${(max / 100).toFixed(2)}`,
    );
  await rangeTo(open);
  assert.match((await prices.textContent()) ?? '', /^€11\.50 to /, 'of what everybody may have');
  assert.equal(await table.getByText('with an access code', { exact: true }).count(), 2);

  // As if its network had too many wrong codes under way: the page says so and asks again by itself.
  await page.route(
    '**/code',
    (route) =>
      route.fulfill({
        status: 429,
        contentType: 'application/problem+json',
        body: JSON.stringify({ code: 'too_many_requests', detail: '', retryAfterMs: 2_000 }),
      }),
    { times: 1 },
  );
  await page.getByLabel('Your access code').fill('club-2026');
  await page.getByRole('button', { name: 'Use the code' }).click();
  await page.getByText('Your code is checked again automatically in about 2 seconds.').waitFor();
  await assertAccessible(page, 'a code that waits');
  await page.getByText('Your code opens: Category 1 and Members.').first().waitFor();
  await rangeTo(dearest);
  assert.match((await prices.textContent()) ?? '', /^€2\.50 to /);
  assert.equal(await table.getByText('your code opens this').count(), 2);
  assert.equal(await table.getByText('with an access code', { exact: true }).count(), 0);
  await assertAccessible(page, 'event with a code');
  const spoken = page.locator('[role="status"][aria-live]');
  assert.match((await spoken.textContent()) ?? '', /Your code opens/);
  await page.getByRole('button', { name: 'Look at the seats first' }).click();
  await page.getByRole('button', { name: 'Back to the event' }).waitFor();
  assert.equal(await spoken.textContent(), '', 'what was said of one view does not stand in the next');

  await app.database.query('UPDATE access_codes SET used = uses_max');
  await page.reload();
  await page.getByText('CLUB2026 has been used as often as it may be.').waitFor();
  await rangeTo(open);
  assert.equal(await table.getByText('with an access code', { exact: true }).count(), 2);
  await page.reload();
  await page.getByLabel('Your access code').waitFor();
  assert.equal(await page.getByText('CLUB2026').count(), 0);
  assert.deepEqual(errors, []);
});
