import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PDFiumLibrary } from '@hyzyla/pdfium';
import jsqr from 'jsqr';
import type { IssuedOrder, IssuedSeat } from '../../src/fulfilment/issued-order.ts';
import { signTicketCode, storedTicketKey, ticketKeyFiles } from '../../src/fulfilment/ticket-code.ts';
import { createTicketDocuments } from '../../src/fulfilment/ticket-document.ts';
import { onsale } from '../support/onsale.ts';

const names = [
  'Käufer Größe',
  'المشتري الأول',
  'Maximiliane Wilhelmina Freifrau von Hohenlohe-Schillingsfürst',
];
let pdfium: PDFiumLibrary;
let dataDir: string;

before(async () => {
  pdfium = await PDFiumLibrary.init();
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-scan-'));
});

after(() => {
  pdfium.destroy();
  fs.rmSync(dataDir, { recursive: true, force: true });
});

/** Points: what a scanner has in sight at once, and how far it moves on; the code, 256 at most, is whole in one of its views. */
const sight = 330;
const move = 70;

const dark = { inversionAttempts: 'dontInvert' } as const;

/** Scans the whole page, then parts of it, until a code is read, as a person at the gate does. */
function read(page: Uint8ClampedArray, [width, height]: [number, number], scale: number): string | undefined {
  const atOnce = jsqr.default(page, width, height, dark)?.data;
  if (atOnce) return atOnce;
  const [wide, high] = [
    Math.min(width, Math.round(sight * scale)),
    Math.min(height, Math.round(sight * scale)),
  ];
  for (let y = 0; y < height - high + move * scale; y += Math.round(move * scale)) {
    for (let x = 0; x < width - wide + move * scale; x += Math.round(move * scale)) {
      const [left, top] = [Math.min(x, width - wide), Math.min(y, height - high)];
      const view = new Uint8ClampedArray(wide * high * 4);
      for (let row = 0; row < high; row += 1) {
        const from = ((top + row) * width + left) * 4;
        view.set(page.subarray(from, from + wide * 4), row * wide * 4);
      }
      const found = jsqr.default(view, wide, high, dark)?.data;
      if (found) return found;
    }
  }
  return undefined;
}

/** Reads each page with a scanner, rendered by another program than ours. `scale` 1 is 72 dots an inch. */
async function scanned(document: Uint8Array, scale: number): Promise<(string | undefined)[]> {
  const opened = await pdfium.loadDocument(document);
  try {
    const codes: (string | undefined)[] = [];
    for (const page of opened.pages()) {
      const { data, width, height } = await page.render({ scale, render: 'bitmap' });
      codes.push(read(new Uint8ClampedArray(data), [width, height], scale));
    }
    return codes;
  } finally {
    opened.destroy();
  }
}

async function textsOf(document: Uint8Array): Promise<string[]> {
  const opened = await pdfium.loadDocument(document);
  try {
    return [...opened.pages()].map((page) => page.getText().replace(/\s+/g, ' '));
  } finally {
    opened.destroy();
  }
}

test('codes scan: a ticket as a PDF program shows it, on paper and on a telephone, is read and verified as ours', async () => {
  const key = storedTicketKey(dataDir);
  const seats = names.slice(0, 2).map((name, seat): IssuedSeat => {
    const id = randomUUID();
    const label = { section: `${name} 12`, row: '4', number: String(seat), category: 'Stalls', kind: 'full' };
    const code = signTicketCode(key, { ticket: id, event: 7, seat });
    return { ...label, seat, price: 5_000, fee: 250, ticket: { id, code } };
  });
  const issued: IssuedOrder = {
    order: randomUUID(),
    state: 'paid',
    reason: null,
    buyer: { name: names[1]!, email: 'someone@example.org' },
    eventName: `${names[2]}: ${names[1]} 2026`,
    venue: 'The Hall',
    performanceAt: Date.UTC(2026, 11, 5, 18, 30),
    currency: 'EUR',
    amount: 15_750,
    orderFee: 0,
    seats,
  };
  const documents = createTicketDocuments({ timeZone: 'Europe/Berlin' });
  // A printer's 150 dots an inch, and the screen of a poor telephone.
  for (const [size, scale] of [
    ['a4', 150 / 72],
    ['phone', 1.25],
  ] as const) {
    const document = await documents.render(issued, size);
    const codes = seats.map(({ ticket }) => ticket!.code);
    assert.deepEqual(await scanned(document, scale), codes, `${size} at ${scale}`);
    for (const text of await textsOf(document)) assert.match(text, /€52\.50 incl\. €2\.50 fee/, size);
  }

  const [code = ''] = await scanned(await documents.render(issued, 'a4'), 2);
  const { publicKey } = ticketKeyFiles(dataDir);
  const verify = (text: string) => onsale(['ticket', 'verify', text, '--key', publicKey, '--json'], {});
  const said = await verify(code);
  assert.equal(said.code, 0, said.err);
  const { kind, code: read } = JSON.parse(said.out);
  assert.deepEqual([kind, read.ticket], ['valid', seats[0]!.ticket!.id]);
  const altered = await verify(`${code.slice(0, 60)}${code[60] === 'A' ? 'B' : 'A'}${code.slice(61)}`);
  assert.equal(altered.code, 1);
});
