import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inflateSync } from 'node:zlib';
import jsqr from 'jsqr';
import { createDocumentFonts } from '../../src/fulfilment/document-fonts.ts';
import type { IssuedOrder } from '../../src/fulfilment/issued-order.ts';
import { createTicketDocuments, type DocumentSize } from '../../src/fulfilment/ticket-document.ts';

const code = `${'AEKX2TZZ'.repeat(18)}ABCDE`;
const seat = {
  section: '112',
  row: '4',
  number: '9',
  category: 'Stalls',
  kind: 'full',
  price: 5_000,
  fee: 250,
};
const names = [
  'المشتري الأول',
  'קונה ראשון',
  '买家甲',
  'Первый Покупатель',
  'Πρώτος Αγοραστής',
  '구매자',
  'さいしょの 購入者',
];

function issuedTo(name: string, eventName = 'The Show'): IssuedOrder {
  return {
    order: '7f6d3f6e-0000-4000-8000-000000000001',
    state: 'paid',
    reason: null,
    buyer: { name, email: 'someone@example.org' },
    eventName,
    venue: 'The Hall',
    performanceAt: Date.UTC(2026, 11, 5, 18, 30),
    currency: 'EUR',
    amount: 5_250,
    orderFee: 0,
    seats: [
      { ...seat, seat: 1, ticket: { id: 'a', code } },
      { ...seat, seat: 2, ticket: null },
      { ...seat, seat: 3, number: '11', ticket: { id: 'b', code } },
    ],
  };
}

const documents = createTicketDocuments({ timeZone: 'Europe/Berlin' });
const render = async (issued: IssuedOrder, size: DocumentSize = 'a4') =>
  Buffer.from(await documents.render(issued, size));

function streamsOf(pdf: Buffer): string[] {
  const text = pdf.toString('latin1');
  return [...text.matchAll(/\/Filter \/FlateDecode\s*>>\s*stream\n/g)].map((match) => {
    const start = match.index + match[0].length;
    return inflateSync(pdf.subarray(start, text.indexOf('\nendstream', start))).toString('latin1');
  });
}

/** The content streams of the pages. */
const contentsOf = (pdf: Buffer): string[] =>
  streamsOf(pdf).filter((content) => / re\n/.test(content) && /BT\n/.test(content));

/** The characters that the painted shapes represent for copying and reading aloud. */
function charactersOf(pdf: Buffer): Set<string> {
  const maps = streamsOf(pdf).filter((stream) => stream.includes('begincmap'));
  const codes = maps.flatMap((map) => [...map.matchAll(/<([\da-f ]+)>/gi)].map(([, hex = '']) => hex.trim()));
  return new Set(
    codes.flatMap((hex) => hex.split(' ').map((one) => String.fromCharCode(Number.parseInt(one, 16)))),
  );
}

/** Fills the black rectangles of a page as a printer would, and reads the code in the picture. */
function scan(content: string, [width, height]: [number, number]): string | undefined {
  const zoom = 3;
  const [columns, rows] = [Math.ceil(width * zoom), Math.ceil(height * zoom)];
  const pixels = new Uint8ClampedArray(columns * rows * 4).fill(255);
  const squares = content.slice(content.indexOf('1 1 1 scn'));
  for (const [, ...numbers] of squares.matchAll(/^([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+) re$/gm)) {
    const [x, y, w, h] = numbers.map(Number) as [number, number, number, number];
    // The first one is the white ground.
    if (w > 100) continue;
    for (let row = Math.round(y * zoom); row < Math.round((y + h) * zoom); row += 1) {
      for (let column = Math.round(x * zoom); column < Math.round((x + w) * zoom); column += 1) {
        pixels.fill(0, (row * columns + column) * 4, (row * columns + column) * 4 + 3);
      }
    }
  }
  return jsqr.default(pixels, columns, rows)?.data;
}

test('a page for each valid ticket, whose code a scanner reads, in both sizes', async () => {
  for (const [size, box] of [
    ['a4', [596, 842]],
    ['phone', [360, 760]],
  ] as const) {
    const pdf = await render(issuedTo('Käufer Größe'), size);
    const contents = contentsOf(pdf);
    assert.equal(contents.length, 2, 'a revoked ticket has no page');
    for (const content of contents) assert.equal(scan(content, [...box]), code);
  }
});

test('names of every script are painted with fonts that have their letters, and told as characters', async () => {
  for (const name of names) {
    const pdf = await render(issuedTo(name, `${name} live`));
    const told = charactersOf(pdf);
    for (const character of name) assert.ok(told.has(character), `${character} of ${name} is told`);
    const choice = await createDocumentFonts().ready([name]);
    let before: ReturnType<typeof choice.fontOf> | undefined;
    for (const character of name) {
      before = choice.fontOf(character, 'regular', before);
      const [glyph] = before.font.glyphsForString(character);
      assert.ok(glyph && glyph.id !== 0, `${character} of ${name} in ${before.name}`);
    }
  }
});

test('Arabic letters are joined and stand from right to left', async () => {
  const word = 'المشتري';
  const choice = await createDocumentFonts().ready([word]);
  const { font } = choice.fontOf(word[0]!, 'regular', undefined);
  const alone = [...word].map((letter) => font.glyphsForString(letter)[0]!.id);
  const { glyphs } = font.layout(word);
  assert.equal(glyphs.at(-1)!.codePoints[0], word.codePointAt(0), 'the first letter is painted last');
  const inOrder = glyphs.map(({ id }) => id).reverse();
  assert.notDeepEqual(inOrder, alone, 'joined forms are other shapes');
});

test('hostile lengths stay on their page', async () => {
  const long = 'W'.repeat(400);
  const started = process.cpuUsage();
  const pdf = await render({ ...issuedTo(long, `${long} ${'אבג '.repeat(100)}`), venue: long });
  const { user } = process.cpuUsage(started);
  assert.equal(contentsOf(pdf).length, 2);
  assert.ok(user < 10_000_000, `${user} µs`);
});
