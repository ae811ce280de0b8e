import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { generateStadium } from '../../src/plans/generate.ts';
import { startTestApp } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import { assertAccessible, joinAndEnter, phone, visit } from '../support/pages.ts';

const skip = withoutBrowser;
let browser: Browser;

before(async () => {
  if (!skip) browser = await openBrowser();
});

after(async () => {
  await browser?.close();
});

const planFile = (name: string, text: string) => ({
  name,
  mimeType: 'application/json',
  buffer: Buffer.from(text),
});

test('an organiser takes a plan from file to sale: sign in, dry run, import, draft, publish, open, block, pause', {
  skip,
}, async (t) => {
  const app = await startTestApp(t, { event: false });
  const { page, errors } = await visit(t, browser, app.url);
  const { email, password } = app.app.organiser;
  await page.goto('/organiser');
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill('not the password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('E-mail or password is wrong.').waitFor();
  await assertAccessible(page, 'sign-in refused');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();

  await page.getByRole('link', { name: 'Seating plans' }).click();
  await page.getByLabel('File').setInputFiles(planFile('broken.json', '{"zones": ['));
  await page.getByRole('button', { name: 'Check the file' }).click();
  await page
    .getByText(/problem.*nothing was stored/)
    .first()
    .waitFor();
  await assertAccessible(page, 'refused plan');
  const stadium = JSON.stringify(generateStadium({ seats: 300, name: 'Small Arena' }));
  await page.getByLabel('File').setInputFiles(planFile('arena.json', stadium));
  await page.getByRole('button', { name: 'Check the file' }).click();
  await page.getByText('Nothing is stored yet.').waitFor();
  await assertAccessible(page, 'dry run');
  await page.getByRole('button', { name: /^Import/ }).click();
  await page.getByText('Small Arena was imported.').waitFor();

  await page.getByRole('link', { name: 'New event' }).click();
  await page.getByLabel('Name', { exact: true }).fill('Opening Night');
  await page.getByLabel('Address', { exact: true }).fill('opening-night');
  await page.getByLabel('Seating plan').selectOption({ index: 1 });
  for (const price of await page.locator('input[id^="price-"]').all()) await price.fill('49,50');
  await assertAccessible(page, 'new event');
  await page.getByRole('button', { name: 'Create the draft' }).click();
  await page.getByRole('button', { name: 'Publish' }).click();
  await page.getByText(/Published with \d+ seats/).waitFor();
  await page.getByRole('button', { name: 'Open the sale' }).click();
  await page.getByRole('heading', { name: 'The sale: Open' }).waitFor();

  await page.getByRole('link', { name: 'Seats', exact: true }).click();
  await page.getByLabel('Section', { exact: true }).selectOption({ index: 1 });
  await page.getByLabel('All rows').check();
  await page.getByRole('button', { name: /^Block/ }).click();
  await page.getByText('Say why the seats are blocked.').waitFor();
  await page.locator('#block-reason').fill('cameras');
  await page.getByRole('button', { name: /^Block/ }).click();
  await page.getByText(/seats? blocked\./).waitFor();
  await assertAccessible(page, 'an event');
  const [blocked] = await app.database.query<{ n: number }>('SELECT count(*)::int AS n FROM blocks');
  assert.ok((blocked?.n ?? 0) > 0, 'seats are blocked');

  const buyer = await visit(t, browser, app.url, phone);
  await joinAndEnter(buyer.page, 'opening-night');
  assert.deepEqual(errors, []);
});

test('a change from a stale screen is refused, and what changed meanwhile is shown', { skip }, async (t) => {
  const app = await startTestApp(t, { seats: 100 });
  const { page, context } = await visit(t, browser, app.url);
  const { email, password } = app.app.organiser;
  await page.goto('/organiser');
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: /Manage/ }).click();
  await page.getByRole('heading', { name: 'The sale: Open' }).waitFor();
  // Its figures refresh no more: the screen is as stale as that of a sleeping laptop.
  await page.route(/\/api\/organiser\/events\/show$/, (route) => route.abort());

  const second = await context.newPage();
  await second.goto('/organiser');
  await second.getByRole('link', { name: /Manage/ }).click();
  await second.getByLabel('Message to everybody on the page').fill('Doors at seven.');
  await second.getByRole('button', { name: 'Save' }).click();
  await second.getByText('Saved.').waitFor();

  await page.getByRole('button', { name: 'Pause the sale' }).click();
  await page.getByText('Somebody changed this in the meantime').waitFor();
  await page.getByRole('cell', { name: 'Doors at seven.' }).waitFor();
  await assertAccessible(page, 'conflict');
  assert.equal((await app.app.events.find('show'))?.phase, 'open', 'nothing was changed');
  await page.getByRole('button', { name: 'Pause the sale' }).click();
  await page.getByRole('heading', { name: 'The sale: Paused' }).waitFor();
});
