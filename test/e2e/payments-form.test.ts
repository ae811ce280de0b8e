import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { type Browser, chromium, type Page } from 'playwright-core';
import { openPayment, startTestSimulator, type TestSimulator } from '../support/simulator.ts';

/** A shop's page as strict as ours: nothing inline, only the simulator's script and address allowed. */
const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Pay</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>Pay</h1><form id="form"><div id="card"></div><button>Pay</button></form>
<output id="result"></output></main>
<script src="SIMULATOR/v3/"></script><script src="/shop.js"></script></body></html>`;

const SHOP = `
const stripe = Stripe('pk_test_simulator');
const elements = stripe.elements({ mode: 'payment', amount: 5000, currency: 'eur', captureMethod: 'manual', paymentMethodCreation: 'manual' });
const payment = elements.create('payment');
payment.on('ready', () => document.body.classList.add('ready'));
payment.on('change', (event) => { document.body.dataset.complete = String(event.complete); });
payment.mount('#card');
document.querySelector('#form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const submitted = await elements.submit();
  if (submitted.error) return show('invalid: ' + submitted.error.message);
  const { confirmationToken, error } = await stripe.createConfirmationToken({ elements });
  show(error ? 'error: ' + error.message : confirmationToken.id);
});
function show(text) { document.querySelector('#result').textContent = text; }
`;

let sim: TestSimulator;
let browser: Browser;
let shopUrl: string;
let shopRequests: string[];
const shop = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    shopRequests.push(`${req.method} ${req.url} ${Buffer.concat(chunks)}`);
    const script = req.url === '/shop.js';
    res
      .writeHead(200, {
        'content-type': script ? 'application/javascript' : 'text/html',
        'content-security-policy': `default-src 'none'; script-src 'self' ${sim.url}; connect-src ${sim.url}; style-src 'self'; form-action 'self' ${sim.url}`,
      })
      .end(script ? SHOP : PAGE.replace('SIMULATOR', sim.url));
  });
});

before(async () => {
  sim = await startTestSimulator();
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
  shopUrl = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
  const executablePath = process.env.ONSALE_TEST_CHROMIUM ?? '/usr/bin/chromium';
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
});
after(async () => {
  await browser?.close();
  shop.closeAllConnections();
  await new Promise((resolve) => shop.close(resolve));
  await sim?.stop();
});

async function openPage(width = 360): Promise<Page> {
  shopRequests = [];
  const page = await browser.newPage({ viewport: { width, height: 800 } });
  page.on('pageerror', (error) => assert.fail(error));
  await page.goto(shopUrl);
  await page.waitForSelector('body.ready');
  return page;
}

/** The result that the shop's page shows at the end. Uses locators only, because its policy forbids evaluating text. */
async function resultOf(page: Page): Promise<string> {
  const result = page.locator('#result', { hasText: /\S/ });
  await result.waitFor();
  return (await result.textContent()) ?? '';
}

async function seriousFindings(page: Page): Promise<string[]> {
  const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  await page.evaluate(axe);
  const found = await page.evaluate(
    'axe.run().then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" ")))',
  );
  return found as string[];
}

test('P5: a card typed by keyboard alone becomes a token that authorises, and the shop never sees the number', async () => {
  const page = await openPage();
  await page.getByLabel('Card number').focus();
  await page.keyboard.type('4000000000009995');
  await page.keyboard.press('Tab');
  await page.keyboard.type('12/40');
  await page.keyboard.press('Tab');
  await page.keyboard.type('123');
  assert.equal(await page.getAttribute('body', 'data-complete'), 'true');
  assert.equal(await page.getByLabel('Card number').inputValue(), '4000 0000 0000 9995');
  await page.keyboard.press('Enter');
  const token = await resultOf(page);
  assert.match(token, /^ctoken_/);

  const { object } = await openPayment(sim.provider);
  const answer = await sim.provider.authorise({
    key: 'form-1',
    object,
    instrument: { confirmationToken: token },
    returnUrl: shopUrl,
  });
  assert.ok(answer.kind === 'refused', JSON.stringify(answer));
  assert.equal(answer.decline, 'insufficient_funds');
  assert.ok(!shopRequests.join('\n').includes('4000'), 'no digit of it in any request to the shop');
  await page.close();
});

test('a test card can be chosen from the list', async () => {
  const page = await openPage();
  await page.getByLabel('Fill in a test card').selectOption('5555555555554444');
  await page.getByRole('button', { name: 'Pay' }).click();
  assert.match(await resultOf(page), /^ctoken_/);
  await page.close();
});

test('mistakes are shown at their fields, the first has the focus, and nothing is sent', async () => {
  const page = await openPage();
  await page.getByLabel('Card number').fill('4242');
  await page.getByLabel('Expiry').fill('13/40');
  await page.getByRole('button', { name: 'Pay' }).click();
  assert.match(await resultOf(page), /^invalid: /);
  const number = page.getByLabel('Card number');
  assert.equal(await number.getAttribute('aria-invalid'), 'true');
  assert.equal(await page.evaluate('document.activeElement.id'), await number.getAttribute('id'));
  const told = await page.locator('fieldset p').allTextContents();
  assert.ok(told.includes("Your card's expiration month is invalid."), told.join(' | '));
  assert.deepEqual(await seriousFindings(page), []);
  await page.close();
});

test('what the simulator refuses comes back as an error with a sentence', async () => {
  const page = await openPage();
  await page.getByLabel('Card number').fill('4242424242424241');
  await page.getByLabel('Expiry').fill('12/40');
  await page.getByLabel('Security code').fill('123');
  await page.getByRole('button', { name: 'Pay' }).click();
  assert.equal(await resultOf(page), 'error: Your card number is incorrect.');
  await page.close();
});

test('P4: the bank’s page authorises or refuses by keyboard and sends the buyer back', async () => {
  for (const [button, status] of [
    ['Authorise', 'authorised'],
    ['Refuse', 'new'],
  ] as const) {
    const { object } = await openPayment(sim.provider, {
      description: '<script>alert(1)</script> & "seats"',
    });
    const asked = await sim.provider.authorise({
      key: `bank-${button}`,
      object,
      instrument: { paymentMethod: 'pm_card_threeDSecure2Required' },
      returnUrl: `${shopUrl}/back`,
    });
    assert.ok(asked.kind === 'pending');
    const page = await openPage();
    page.on('dialog', () => assert.fail('a script from the description ran'));
    await page.goto(asked.view.action!.url);
    assert.match(
      (await page.textContent('main')) ?? '',
      /50\.00 EUR.*3220.*<script>alert\(1\)<\/script> & "seats"/s,
    );
    assert.deepEqual(await seriousFindings(page), []);
    await page.getByRole('button', { name: button }).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(`${shopUrl}/back**`);
    const found = await sim.provider.lookup(object);
    assert.equal(found.kind === 'done' && found.view.status, status);
    await page.close();
  }
});

test('the ledger’s page shows every payment, escaped, without serious accessibility findings', async () => {
  await openPayment(sim.provider, { reference: '<img src=x onerror=alert(1)>', key: 'hostile' });
  for (const width of [360, 1280]) {
    const page = await openPage(width);
    page.on('dialog', () => assert.fail('a script from a reference ran'));
    await page.goto(sim.url);
    assert.ok(await page.getByRole('cell', { name: '<img src=x onerror=alert(1)>' }).isVisible());
    assert.deepEqual(await seriousFindings(page), []);
    const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    assert.ok(Number(overflow) <= 0, `the page is ${overflow} px too wide at ${width}`);
    await page.close();
  }
});
