import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { hashOf, placeOf, placeOfEvent, tabs, views } from '../../web/console/place.ts';

test('every place of the organiser’s page has an address that leads back to it', () => {
  for (const tab of tabs) {
    assert.deepEqual(placeOf(hashOf({ tab })), { tab, event: null, view: 'overview', order: null });
  }
  fc.assert(
    fc.property(
      fc.string({ minLength: 1 }),
      fc.constantFrom(...views),
      fc.option(fc.uuid()),
      (event, view, order) => {
        const hash = placeOfEvent(event, view, order);
        const shown = view === 'orders' ? order : null;
        assert.deepEqual(placeOf(hash), { tab: 'events', event, view, order: shown });
      },
    ),
  );
});

test('whatever an address says, it is a place of ours or none: the link to the content is none', () => {
  assert.equal(placeOf('#main'), null);
  assert.equal(placeOf('')?.tab, 'events');
  assert.equal(placeOf('#events/show/nowhere')?.view, 'overview');
  assert.equal(placeOf('#events/%E0%A4%A/orders')?.view, 'orders', 'not well encoded');
  assert.deepEqual(placeOf('#mails/show'), { tab: 'mails', event: null, view: 'overview', order: null });
  fc.assert(
    fc.property(fc.string(), (text) => {
      const place = placeOf(`#events/${text}`);
      assert.ok(place && views.includes(place.view));
    }),
  );
});
