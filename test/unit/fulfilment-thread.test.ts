import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDocumentThread } from '../../src/fulfilment/document-thread.ts';
import type { IssuedOrder } from '../../src/fulfilment/issued-order.ts';
import { systemClock } from '../../src/runtime/clock.ts';

const issued: IssuedOrder = {
  order: '7f6d3f6e-0000-4000-8000-000000000001',
  state: 'paid',
  reason: null,
  buyer: { name: 'Buyer', email: 'someone@example.org' },
  eventName: 'The Show',
  venue: '',
  performanceAt: null,
  currency: 'EUR',
  amount: 5_000,
  orderFee: 0,
  seats: [
    {
      seat: 1,
      section: '112',
      row: '4',
      number: '9',
      category: 'Stalls',
      kind: 'full',
      price: 5_000,
      fee: 0,
      ticket: { id: 'a', code: 'ABCDEFGH' },
    },
  ],
};

test('documents come from their thread; one that cannot be made says so and keeps no other', async (t) => {
  const documents = createDocumentThread({ timeZone: 'UTC', clock: systemClock });
  t.after(() => documents.close());
  const [whole, broken] = await Promise.allSettled([
    documents.render(issued, 'phone'),
    documents.render({ ...issued, currency: 'none' }, 'phone'),
  ]);
  assert.ok(whole.status === 'fulfilled');
  assert.equal(Buffer.from(whole.value).subarray(0, 5).toString(), '%PDF-');
  assert.ok(broken.status === 'rejected');
  assert.match(broken.reason.message, /currency/i);
});
