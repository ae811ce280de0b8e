import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { startTestApp } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import {
  assertAccessible,
  awaitTickets,
  cards,
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

const stands = ['North', 'Ost', 'Süd', 'West'];
const blocksOfStand = 5;
const rowsOfBlock = 10;

/**
 * A box office's own list with the usual oddities: labels only and no positions, its own column name for the
 * stand, block numbers and rows that start again in every stand, lower rows that are missing, a gap inside a row, lines in
 * no order, text beyond ASCII, a byte order mark and CRLF.
 */
function boxOfficeList(): { text: string; seats: number; sections: number } {
  const lines: string[] = [];
  for (const [s, stand] of stands.entries()) {
    for (let block = 1; block <= blocksOfStand; block++) {
      const firstRow = block === 2 ? 4 : 1;
      for (let row = firstRow; row < firstRow + rowsOfBlock; row++) {
        for (let seat = 1; seat <= 10; seat++) {
          // An aisle that the numbers tell of: 5, then 8.
          const printed = s === 1 && seat > 5 ? seat + 2 : seat;
          lines.push(`${stand},${block},${row},${printed}`);
        }
      }
    }
  }
  // Every seventh line first: a stable disorder.
  const shuffled = [0, 1, 2, 3, 4, 5, 6].flatMap((k) => lines.filter((_, i) => i % 7 === k));
  return {
    text: `\uFEFF${['tribune,sector,row,seat', ...shuffled].join('\r\n')}\r\n`,
    seats: lines.length,
    sections: stands.length * blocksOfStand,
  };
}

test('a stadium from a box office’s list is imported, published and opened by its organiser, and sold to a ticket', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { event: false });
  const list = boxOfficeList();
  const { page, errors } = await visit(t, browser, app.url);
  await page.goto('/organiser');
  await page.getByLabel('E-mail').fill(app.app.organiser.email);
  await page.getByLabel('Password').fill(app.app.organiser.password);
  await page.getByRole('button', { name: 'Sign in' }).click();

  await page.getByRole('link', { name: 'Seating plans' }).click();
  const file = { name: 'list.csv', mimeType: 'text/csv', buffer: Buffer.from(list.text) };
  await page.getByLabel('File', { exact: true }).setInputFiles(file);
  await page.getByLabel('Name', { exact: true }).fill('Town Ground');
  // A mapping that names no column of the file is refused, and the file can be tried again with a right one.
  await page.getByLabel('Columns (CSV only)').fill('section=block,row=row,seat=seat');
  await page.getByRole('button', { name: 'Check the file' }).click();
  await page.getByText('That did not work').waitFor();
  await page.getByLabel('Columns (CSV only)').fill('section=tribune+sector,row=row,seat=seat');
  await page.getByRole('button', { name: 'Check the file' }).click();
  await page.getByText('Nothing is stored yet.').waitFor();
  const report = page.getByLabel('What the file holds');
  const counted = async (label: string) => {
    const fact = report.locator('.facts > div', { has: page.getByText(label, { exact: true }) });
    const figure = await fact.locator('dd').evaluate((node) => node.firstChild?.textContent);
    return Number(figure?.replace(',', ''));
  };
  assert.equal(await counted('Seats'), list.seats, 'every line is a seat');
  assert.equal(await counted('Sections'), list.sections, 'block 1 of one stand is not block 1 of another');
  await report
    .getByText(/no positions/)
    .first()
    .waitFor();
  await assertAccessible(page, 'dry run of a list');
  await page.getByRole('button', { name: /^Import/ }).click();
  await page.getByText('Town Ground was imported.').waitFor();

  await page.getByRole('link', { name: 'New event' }).click();
  // The page of the plans has a field "Name" as well.
  await page.getByRole('heading', { name: 'Create an event' }).waitFor();
  await page.getByLabel('Name', { exact: true }).fill('Home Game');
  await page.getByLabel('Address', { exact: true }).fill('home-game');
  await page.getByLabel('Seating plan').selectOption({ index: 1 });
  await page.locator('input[id^="price-"]').first().waitFor();
  for (const price of await page.locator('input[id^="price-"]').all()) await price.fill('30');
  await page.getByRole('button', { name: 'Create the draft' }).click();
  await page.getByRole('button', { name: 'Publish' }).click();
  await page.getByText(/Published with 2,000 seats/).waitFor();
  await page.getByRole('button', { name: 'Open the sale' }).click();
  await page.getByRole('heading', { name: 'The sale: Open' }).waitFor();

  const buyer = await visit(t, browser, app.url, phone);
  await joinAndEnter(buyer.page, 'home-game');
  await buyer.page.getByText('Map', { exact: true }).tap();
  await buyer.page.locator('.map-stage canvas').first().waitFor();
  await assertAccessible(buyer.page, 'map of an imported stadium');
  await buyer.page.getByText('Best available', { exact: true }).first().tap();
  await takeBest(buyer.page, 2);
  await toCard(buyer.page);
  await payWith(buyer.page, cards.good);
  await awaitTickets(buyer.page, 2);

  const sold = await app.database.query<{ row: string; number: string }>(`
    SELECT row_label AS row, seat_label AS number FROM tickets JOIN event_seats USING (event_no, seat_no)
    WHERE status = 'sold'`);
  assert.equal(sold.length, 2, 'two seats are sold');
  const shown = (await buyer.page.locator('.ticket').allInnerTexts()).join('\n');
  for (const { row, number } of sold) assert.match(shown, new RegExp(`Row ${row}, seat ${number}\\b`));
  assert.deepEqual([...errors, ...buyer.errors], []);
});
