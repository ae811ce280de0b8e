import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeDue, postponed } from '../support/acts.ts';
import { startTestApp, until } from '../support/app.ts';
import { openBrowser, withoutBrowser } from '../support/browser.ts';
import { assertAccessible, phone, visit } from '../support/pages.ts';
import { rawCall } from '../support/stripe-calls.ts';

const skip = withoutBrowser;
/** For looking at the pages: a folder for pictures. */
const pictures = process.env.ONSALE_PICTURES;

test('an organiser decides about a partly captured payment by keyboard, on a phone and at a desk; the buyer sees what came back; a ticket is refunded and the event cancelled', {
  skip,
}, async (t) => {
  const browser = await openBrowser();
  t.after(() => browser.close());
  const app = await startTestApp(t);
  const orders: { order: string; secret: string }[] = [];
  for (const seat of [10, 11]) {
    const buyer = await app.admitted();
    const { order, secret } = await buyer.mustOrder([seat]);
    const fault = await app.simulator.fault('unavailable', { match: { route: 'capture', reference: order } });
    await buyer.pay(order);
    // The worker would take all of it once the provider answers again.
    await until(() => postponed(app.database, order), 'the worker to leave the capture alone');
    await app.simulator.endFault(fault);
    const { id } = (await app.simulator.ledger()).intents.find(({ reference }) => reference === order)!;
    const taken = await rawCall(app.simulator, 'payment_intents.capture', { id, amount_to_capture: '400' });
    assert.equal(taken.status, 200);
    orders.push({ order, secret: secret! });
  }
  await makeDue(app.database);
  const listed = async () =>
    (await app.database.query(`SELECT 1 FROM money_operations WHERE attention = 'captured_amount'`)).length;
  await until(async () => (await listed()) === 2, 'both on the list', 60_000);

  const { email, password } = app.app.organiser;
  const desk = await visit(t, browser, app.url);
  const { page } = desk;
  const picture = async (name: string) => {
    if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
  };
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await page.goto('/organiser');
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'Manage' }).first().waitFor();
  await page.goto('/organiser#events/show');
  await page.getByText('2 payments need a decision.').waitFor();
  await page.getByRole('link', { name: 'See the payments' }).press('Enter');
  await page.getByRole('heading', { name: 'Payments that need a decision' }).waitFor();
  await page.getByText('2 entries, oldest first.').waitFor();
  await assertAccessible(page, 'payments that need a decision');
  await picture('list-1280');

  // An action that needs a note: the note gets the focus next, and nothing is done while it is empty.
  await page
    .getByRole('button', { name: /^Accept the captured amount/ })
    .first()
    .press('Enter');
  await page.getByLabel('Note').waitFor();
  await assertAccessible(page, 'an action with its note');
  await picture('accept-1280');
  await press('Tab', 'Enter');
  await page.getByText('Write a note first.').waitFor();
  await page.keyboard.insertText('The rest was paid in cash');
  await press('Enter');
  await page.getByText('Done: Accept the captured amount.').waitFor();
  await page.getByText('1 entry, oldest first.').waitFor();

  await page.setViewportSize(phone);
  await assertAccessible(page, 'the list on a phone');
  await picture('list-360');
  await page.getByRole('button', { name: /^Give all back/ }).press('Enter');
  await page.getByText('the captured amount is refunded to the card').waitFor();
  await assertAccessible(page, 'a confirmation on a phone');
  await picture('confirm-360');
  // The way out has the focus.
  await press('Shift+Tab', 'Enter');
  await page.getByText('Nothing is on the list.').waitFor();
  await picture('empty-360');

  const [accepted, given] = await Promise.all(
    orders.map(async ({ order }) =>
      (
        await app.database.query('SELECT state, accepted_difference FROM orders WHERE order_id = $1', [order])
      ).at(0),
    ),
  );
  const states = [accepted?.state, given?.state].sort();
  assert.deepEqual(states, ['cancelled', 'paid']);
  const back = orders[accepted?.state === 'cancelled' ? 0 : 1]!;
  await until(
    async () =>
      (await app.database.query(`SELECT 1 FROM mails WHERE what = 'order.money_returned'`)).length === 1,
    'the mail about the money',
  );
  await page.goto(`/organiser#events/show/orders/${back.order}`);
  await page.getByText(/was taken and given back/).waitFor();
  await picture('order-360');
  await page.goto(`/orders/${back.order}#${back.secret}`);
  await page.getByText(/was taken and given back to the same card/).waitFor();
  await assertAccessible(page, 'an order with money that came back');
  await picture('buyer-360');

  // One ticket of another order is refunded with goodwill; then the event is cancelled.
  const { order } = await (await app.admitted()).mustBuy([12, 13]);
  await page.goto(`/organiser#events/show/orders/${order}`);
  const boxes = page.getByRole('group', { name: 'Tickets to refund' }).getByRole('checkbox');
  await boxes.first().press('Space');
  await page.getByLabel('Goodwill on top').fill('1.50');
  await page.locator('#refund-reason').fill('Fell ill');
  await press('Enter');
  await page.getByText('Refund 1 ticket:').waitFor();
  await page.getByRole('button', { name: 'Yes, refund' }).press('Enter');
  await page.getByText('is being given back.').waitFor();
  await boxes.nth(1).and(page.locator(':disabled')).waitFor();
  assert.ok(await boxes.first().isEnabled());
  await page.goto('/organiser#events/show/cancel');
  await page.locator('#cancel-reason').fill('Storm');
  await press('Enter');
  const code = page.getByLabel(/^To cancel the event for good, type /);
  await code.fill('WRONG');
  await press('Enter');
  await page.getByText('That is not the code').waitFor();
  const asked = await page.getByText(/^To cancel the event for good, type /).textContent();
  await code.fill(asked!.split(' ').at(-1)!);
  await press('Enter');
  await page.locator('strong', { hasText: 'The event is cancelled' }).waitFor();
  await page.getByText(/^2 refunds, .*: given back$/).waitFor();
  await assertAccessible(page, 'a cancelled event');
  await picture('cancelled-360');
  assert.deepEqual(desk.errors, []);
});
