import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { startTestApp, type TestApp, testScope } from '../support/app.ts';
import type { TestBuyer } from '../support/buyer.ts';

const secret = 'a secret that platform and sale both know';
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

describe('an event that asks for an account before seats are held', () => {
  let app: TestApp;
  const scope = testScope();
  before(async () => {
    const settings = { accountFirst: true, holdSeatsMax: 4, accountSeatsMax: 4 };
    app = await startTestApp(scope, { settings, env: { ONSALE_ACCOUNT_SECRET: secret } });
  });
  test.after(() => scope.close());

  function token(sub: string): string {
    const exp = Math.floor(Date.now() / 1000) + 600;
    const text = `${part({ alg: 'HS256' })}.${part({ sub, aud: app.event, exp })}`;
    return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
  }
  const hold = (buyer: TestBuyer, seats: number[], account?: string) =>
    buyer.post(
      `/api/events/${app.event}/holds`,
      { pass: buyer.pass, account, seats: seats.map((seat) => ({ seat })) },
      { 'idempotency-key': randomUUID() },
    );

  test('S7: the browsers of one account hold no more together than the event allows, also when they ask at once', async () => {
    const browsers = await Promise.all(Array.from({ length: 6 }, () => app.admitted()));
    const answers = await Promise.all(
      browsers.map((browser, n) => hold(browser, [2 * n, 2 * n + 1], token('member-17'))),
    );
    const codes = answers.map(({ status, body }) => body.code ?? status);
    assert.equal(codes.filter((code) => code === 201).length, 2, codes.join());
    assert.equal(codes.filter((code) => code === 'hold_quota').length, 4, codes.join());
    const another = await hold(await app.admitted(), [40, 41], token('member-18'));
    assert.equal(another.status, 201, JSON.stringify(another.body));
    const nobody = await hold(await app.admitted(), [50]);
    assert.deepEqual([nobody.status, nobody.body.code], [403, 'account_required']);
  });

  test('P7: what is bought is counted by that account, whatever address is typed', async () => {
    const buy = async (seats: number[], email: string) => {
      const browser = await app.admitted();
      const held = await hold(browser, seats, token('member-19'));
      assert.equal(held.status, 201, JSON.stringify(held.body));
      const ordered = await browser.order(held.body.hold, { name: 'A Member', email });
      if (ordered.status === 201) await browser.pay(ordered.body.order);
      else await browser.request('DELETE', `/api/holds/${held.body.hold}`);
      return ordered.body.code ?? ordered.status;
    };
    assert.equal(await buy([60, 61, 62], 'one@example.org'), 201);
    assert.equal(await buy([70, 71], 'two@example.org'), 'account_limit');
    assert.equal(await buy([70], 'three@example.org'), 201);
  });
});
