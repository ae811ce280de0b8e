import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { generateStadium } from '../../src/plans/generate.ts';
import { startTestApp, type TestApp, until } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import { assertAccessible, desktop, joinAndEnter, phone, visit } from '../support/pages.ts';
import { startTestSmtp } from '../support/smtp.ts';

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
  const app = await startTestApp(t, { env: { ONSALE_DEMO: 'yes' }, event: false });
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
  // The page of the plans has a field "Name" as well.
  await page.getByRole('heading', { name: 'Create an event' }).waitFor();
  await page.getByLabel('Name', { exact: true }).fill('Opening Night');
  await page.getByLabel('Address', { exact: true }).fill('opening-night');
  await page.getByLabel('Seating plan').selectOption({ index: 1 });
  await page.locator('input[id^="price-"]').first().waitFor();
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
  await looksThroughMailbox(buyer.page, app);
  // The mail's own script, in a frame that runs none.
  const others = buyer.errors.filter((error) => !error.startsWith('Blocked script execution'));
  assert.deepEqual([...errors, ...others], []);
});

/** The local mailbox on a phone: in pages, and whatever a subject or a name holds is text. */
async function looksThroughMailbox(page: Page, app: TestApp): Promise<void> {
  const hostile = '<script>document.title = "run"</script><b>';
  await app.database.query(
    `INSERT INTO mailbox (message_id, at, sender, recipient, subject, body_text, body_html)
     SELECT n || '@localhost', '2026-01-01'::timestamptz + n * interval '1 s', 'box@localhost', $1 || n, $2 || n, $2, $2
     FROM generate_series(1, 60) n`,
    ['\u0645\u062d\u0645\u062f <m@example.org> ', hostile + 'long'.repeat(60)],
  );
  await app.database.query(`UPDATE mailbox SET subject = '' WHERE message_id = '60@localhost'`);
  await page.goto('/dev/mail');
  await page.getByText('1 to 50 of 60').waitFor();
  await assertAccessible(page, 'mailbox');
  await page.getByRole('link', { name: 'Older' }).tap();
  await page.getByText('51 to 60 of 60').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Older' }).count(), 0);
  await page.getByRole('link', { name: hostile }).first().tap();
  await page.getByRole('heading', { name: hostile }).waitFor();
  await assertAccessible(page, 'a mail');
  await page.goto('/dev/mail?page=3');
  await page.getByRole('link', { name: 'The newest mails' }).tap();
  await page.getByRole('link', { name: '(no subject)' }).waitFor();
}

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
  await page.getByText('This was changed in the meantime').waitFor();
  await page.getByRole('cell', { name: 'Doors at seven.' }).waitFor();
  await assertAccessible(page, 'conflict');
  assert.equal((await app.app.events.find('show'))?.phase, 'open', 'nothing was changed');
  await page.getByRole('button', { name: 'Pause the sale' }).click();
  await page.getByRole('heading', { name: 'The sale: Paused' }).waitFor();
});

/** Signed in, at a place of the organiser's page. How far it jumped by itself is counted from each load of the page on. */
async function organiserAt(page: Page, app: TestApp, place: string): Promise<void> {
  const { email, password } = app.app.organiser;
  const signedIn = await page.request.post('/api/organiser/sessions', { data: { email, password } });
  assert.equal(signedIn.status(), 200);
  await page.addInitScript(() => {
    const counted = window as unknown as { jumped: number };
    counted.jumped = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as unknown as { value: number; hadRecentInput: boolean }[]) {
        if (!entry.hadRecentInput) counted.jumped += entry.value;
      }
    }).observe({ type: 'layout-shift', buffered: true });
  });
  await page.goto(`/organiser#${place}`);
}

/** Web Vitals calls more than 0.1 a page that jumps. */
async function assertCalm(page: Page, state: string): Promise<void> {
  const jumped = await page.evaluate(() => (window as unknown as { jumped: number }).jumped);
  assert.ok(jumped < 0.1, `${state}: jumped by ${jumped}`);
}

const press = async (page: Page, ...keys: string[]) => {
  for (const key of keys) await page.keyboard.press(key);
};

test('by keyboard on a phone: a check-in is taken back, a double use too; a refused mail goes out, and a copy; a buyer is forgotten', {
  skip,
}, async (t) => {
  const smtp = await startTestSmtp(t);
  smtp.behave({ rcpt: '550 5.1.1 no such mailbox' });
  const env = { ONSALE_SMTP_URL: smtp.url, ONSALE_MAIL_FROM: 'Box Office <tickets@venue.example>' };
  const app = await startTestApp(t, { seats: 100, env });
  const buyer = await app.admitted();
  const order = await buyer.mustBuy([5]);
  const { code } = (await buyer.tickets(order.order)).body.tickets[0]!;
  const { page, errors } = await visit(t, browser, app.url, phone);
  const focused = () => page.evaluate(() => document.activeElement?.id ?? '');
  /** Another view of the event: it takes the focus, a moment after it is shown. */
  const toView = async (link: string) => {
    await page.getByRole('link', { name: link, exact: true }).press('Enter');
    await page.waitForFunction(() => document.activeElement?.tagName === 'SECTION');
  };

  // A place has an address of its own.
  await organiserAt(page, app, 'events/show/entry');
  await page.getByText('0 of 1 came in.').waitFor();
  await assertCalm(page, 'entry');
  await page.getByLabel('Code of the ticket').focus();
  await page.keyboard.insertText(code);
  await press(page, 'Enter');
  await page.getByText('Valid.').waitFor();
  await press(page, 'Tab', 'Tab', 'Enter');
  await page.getByLabel('Why is it taken back?').waitFor();
  await assertAccessible(page, 'a check-in to be taken back');
  await page.keyboard.insertText('the wrong person');
  await press(page, 'Enter');
  await page.getByText('It is taken back. The ticket may be used again.').waitFor();
  assert.equal(await focused(), 'entry-code', 'the next scan goes on there');
  await page.keyboard.insertText(code);
  await press(page, 'Enter');
  await page.getByText('1 of 1 came in.').waitFor();
  const scans = [{ code, scan: 'offline', gate: 'South', at: new Date(Date.now() - 60_000).toISOString() }];
  const uploaded = await page.request.post('/api/organiser/events/show/entries', { data: { scans } });
  assert.equal(uploaded.status(), 200, await uploaded.text());

  await page.getByRole('link', { name: 'Overview' }).press('Enter');
  await page.reload();
  await page.getByText('1 ticket was used more than once.').waitFor();
  await page.getByText(/^as of/).waitFor();
  await assertCalm(page, 'an overview');
  await page.getByText('By category and kind of buyer').press('Enter');
  await page.getByRole('columnheader', { name: 'Category' }).waitFor();
  await assertAccessible(page, 'what needs attention');
  await toView('See the uses');
  assert.match(page.url(), /#events\/show\/entry$/);
  await page.getByRole('button', { name: /^Take back .*South/ }).press('Enter');
  await page.keyboard.insertText('a gate that only tried');
  await assertAccessible(page, 'a double use to be taken back');
  await press(page, 'Enter');
  await page.getByText('It is taken back. Another use of the ticket counts:').waitFor();
  await page.getByText(/^None\. Gates without a network/).waitFor();
  const [left] = await app.database.query<{ n: number }>('SELECT count(*)::int AS n FROM entries');
  assert.equal(left?.n, 1, 'the other use counts');

  await until(
    async () => (await app.database.query(`SELECT 1 FROM mails WHERE state = 'refused'`)).length > 0,
    'the refusal',
    60_000,
  );
  await page.goto('/organiser#mails');
  await page.getByText(/550 5\.1\.1 no such mailbox/).waitFor();
  await assertAccessible(page, 'mails that need attention');
  smtp.behave(null);
  await page.getByRole('button', { name: /^Send again/ }).press('Enter');
  await page.getByText('It is being sent again.').waitFor();
  await page.getByRole('link', { name: `Order ${order.order}` }).press('Enter');
  await page.getByText(/· sent$/).waitFor();
  await page.reload();
  await page.getByText(/· sent$/).waitFor();
  await assertCalm(page, 'an order');
  await page.getByRole('button', { name: /^Send a copy/ }).press('Enter');
  await page.getByText('A copy is on its way').waitFor();
  await page.getByText(/· sent · a copy$/).waitFor();
  assert.equal(smtp.mails.length, 2);
  await assertAccessible(page, 'an order with its mails');

  await toView('Exports');
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Orders as CSV' }).press('Enter');
  assert.match((await download).suggestedFilename(), /\.csv$/);
  await assertAccessible(page, 'exports');
  await page.getByRole('link', { name: 'Buyers’ data' }).press('Enter');
  const email = page.getByLabel('E-mail address');
  await email.fill(order.buyer.email);
  await email.press('Enter');
  await page.getByText(/its tickets are still to be used\.$/).waitFor();
  await page.getByLabel('Also if tickets are still to be used.').press('Space');
  await page.getByRole('button', { name: 'What would happen?' }).press('Enter');
  const asked = await page.getByText(/^To delete the data for good, type /).textContent();
  await assertAccessible(page, 'a buyer to be forgotten');
  await page.keyboard.insertText(asked?.split(' ').at(-1) ?? '');
  await press(page, 'Enter');
  await page.getByText('Done: the names were deleted from 1 order.').waitFor();
  assert.equal(await focused(), 'forget-buyer');
  const [name] = await app.database.query('SELECT 1 FROM orders WHERE buyer::text LIKE $1', [
    `%${order.buyer.email}%`,
  ]);
  assert.equal(name, undefined, 'nobody is named any more');

  await page.setViewportSize(desktop);
  for (const place of ['entry', 'exports']) {
    await page.goto(`/organiser#events/show/${place}`);
    await page.locator(`a[aria-current=page][href$=${place}]`).waitFor();
    await assertAccessible(page, `${place}, wide`);
  }
  await page.goBack();
  assert.match(page.url(), /\/entry$/, 'the way back is the browser’s own');
  assert.deepEqual(errors, []);
});
