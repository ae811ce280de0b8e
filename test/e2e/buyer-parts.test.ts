import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { startTestApp } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import { assertAccessible, desktop, joinAndEnter, phone, visit } from '../support/pages.ts';

const skip = withoutBrowser;
let browser: Browser;

before(async () => {
  if (!skip) browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

/** Ticks free seats of a section in the list. */
async function tick(page: Page, section: string, count: number): Promise<void> {
  await page.getByText('List', { exact: true }).click();
  const back = page.getByRole('button', { name: 'All sections' });
  const entry = page.locator('.section-list button', { hasText: section });
  await back.or(entry).first().waitFor();
  if (await back.isVisible()) await back.click();
  await entry.first().click();
  const free = page.locator('.list-seat input:not(:checked)');
  for (let i = 0; i < count; i++) await free.nth(2).click();
}

test('picked across parts that are sold apart: the page says so before it asks, and offers each part', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { seats: 600, settings: { partitions: [{ sections: ['102'] }] } });
  for (const viewport of [phone, desktop]) {
    const { page, errors } = await visit(t, browser, app.url, viewport);
    const asked: string[] = [];
    page.on('request', (request) => {
      if (request.method() === 'POST' && /\/holds$/.test(request.url())) asked.push(request.url());
    });
    await joinAndEnter(page, app.event);
    await tick(page, '101', 2);
    await page.getByRole('button', { name: 'Hold these 2 seats' }).waitFor();
    await tick(page, '102', 1);
    await page.getByText('Sold in separate parts').first().waitFor();
    await assertAccessible(page, `across at ${viewport.width}`);
    assert.equal(await page.getByRole('button', { name: /^Hold th/ }).count(), 0, 'nothing to ask for yet');
    assert.deepEqual([asked, errors], [[], []]);
    // The rest is the same at every width.
    if (viewport === desktop) continue;
    await page.getByRole('button', { name: 'Keep 2 seats in Section 101' }).click();
    await page.getByRole('button', { name: 'Hold these 2 seats' }).click();
    await page.getByRole('heading', { name: 'Your seats are held' }).waitFor();

    // The held ones cannot be exchanged in one step for seats of the other part: the page does it in two.
    await page
      .getByRole('button', { name: /change/i })
      .first()
      .click();
    await tick(page, '102', 1);
    await page.getByText('Sold in separate parts').first().waitFor();
    await page.getByRole('button', { name: 'Keep 1 seat in Section 102' }).click();
    await page.getByText('another part of the venue than those you hold').first().waitFor();
    await assertAccessible(page, `another part at ${viewport.width}`);
    await page.getByRole('button', { name: 'Hold these, give mine back' }).click();
    await page.getByText('Your seats were changed.').first().waitFor();
    const live = await app.database.query(
      `SELECT partition, cardinality(seats) AS seats FROM holds WHERE event_no = $1 AND state = 'live'`,
      [app.eventNo],
    );
    assert.deepEqual(live[0], { partition: 1, seats: 1 });
    assert.equal(live.length, 1, 'the old hold was given back');
    assert.deepEqual(errors, []);
  }
});
