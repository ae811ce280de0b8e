import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';

/** Steps that the browser tests repeat on our pages. Texts are those of the English catalogue. */

export const desktop = { width: 1280, height: 860 } as const;
export const phone = { width: 360, height: 740 } as const;

const axeSource = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

type Context = { after(run: () => Promise<void>): void };

export interface Visit {
  context: BrowserContext;
  page: Page;
  /** Uncaught errors of any page of this context; refused requests are none. */
  errors: string[];
}

/** A separate browser profile. Its tabs share cookies and storage, other profiles do not. */
export async function visit(
  t: Context,
  browser: Browser,
  url: string,
  viewport: { width: number; height: number } = desktop,
): Promise<Visit> {
  const context = await browser.newContext({
    baseURL: url,
    viewport,
    locale: 'en-GB',
    hasTouch: viewport.width < 600,
    reducedMotion: 'reduce',
  });
  t.after(() => context.close());
  context.setDefaultTimeout(20_000);
  const errors: string[] = [];
  context.on('page', (page) => page.on('pageerror', (error) => errors.push(String(error))));
  context.on('console', (message) => {
    // A refused request is logged as an error too; what the page did about it is what the test looks at.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      errors.push(message.text());
    }
  });
  return { context, page: await context.newPage(), errors };
}

interface AxeResult {
  violations: { id: string; impact: string | null; help: string; nodes: { target: unknown[] }[] }[];
}

/** No serious or critical finding, nothing that has to be scrolled sideways, no field that sticks out of its column. */
export async function assertAccessible(page: Page, state: string): Promise<void> {
  // Evaluated instead of added as a script, because the pages' policy forbids adding one.
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(): Promise<AxeResult> } };
    return await axe.run();
  });
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const found = grave.map(
    ({ id, help, nodes }) => `${id}: ${help} at ${JSON.stringify(nodes.map((n) => n.target))}`,
  );
  assert.deepEqual(found, [], `${state}: accessible`);
  const { width, needed } = await page.evaluate(() => ({
    width: document.documentElement.clientWidth,
    needed: document.documentElement.scrollWidth,
  }));
  assert.ok(needed <= width, `${state}: ${needed} px wide in a window of ${width}`);
  const tooWide = await page.locator('input, select, textarea').evaluateAll((fields) =>
    fields.flatMap((field) => {
      const [own, column] = [field, field.parentElement!].map((node) => node.getBoundingClientRect());
      return own!.width > 0 && own!.right > column!.right + 1
        ? [field.id || field.outerHTML.slice(0, 80)]
        : [];
    }),
  );
  assert.deepEqual(tooWide, [], `${state}: fields as wide as their columns`);
}

/** From the event's page through the line to the seats. */
export async function joinAndEnter(page: Page, event: string): Promise<void> {
  await page.goto(`/events/${event}`);
  await page.getByRole('button', { name: 'Join the line' }).click();
  await page.getByRole('heading', { name: 'Choose your seats' }).waitFor();
}

/** Best available: `quantity` seats into the basket. */
export async function takeBest(page: Page, quantity: number): Promise<void> {
  await page.getByLabel('How many?').fill(String(quantity));
  await page.getByLabel('How many?').blur();
  await page.getByRole('button', { name: /^Find/ }).click();
  await page.getByRole('heading', { name: 'Your seats are held' }).waitFor();
}

/** From the basket to the card form. */
export async function toCard(
  page: Page,
  buyer = { name: 'Ada Lovelace', email: 'ada@example.org' },
): Promise<void> {
  await page.getByRole('button', { name: 'Continue to payment' }).click();
  await page.getByLabel('Name').fill(buyer.name);
  await page.getByLabel('E-mail').fill(buyer.email);
  await page.getByRole('button', { name: 'Continue to the card' }).click();
  await page.getByLabel('Card number').waitFor();
}

export const cards = {
  good: '4242424242424242',
  declined: '4000000000000002',
  poor: '4000000000009995',
  askBank: '4000000000003220',
} as const;

export async function payWith(page: Page, card: string): Promise<void> {
  await page.getByLabel('Card number').fill(card);
  await page.getByLabel('Expiry (MM / YY)').fill('12 / 40');
  await page.getByLabel('Security code').fill('123');
  await page.getByRole('button', { name: /^Pay/ }).click();
}

export async function awaitTickets(page: Page, count: number): Promise<void> {
  await page.waitForURL(/\/orders\//);
  await page.getByRole('heading', { name: 'Paid. The seats are yours.' }).waitFor();
  await page
    .locator('.ticket .qr svg')
    .nth(count - 1)
    .waitFor();
  assert.equal(await page.locator('.ticket').count(), count);
}
