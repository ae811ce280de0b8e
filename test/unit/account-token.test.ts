import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import test from 'node:test';
import { createAccountTokens } from '../../src/http/account-token.ts';

const secret = 'a secret that platform and sale both know';
const now = Date.UTC(2027, 0, 1);
const seconds = now / 1000;
const tokens = createAccountTokens({ secret, clock: { now: () => now } });
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

function sign(payload: unknown, header: unknown = { alg: 'HS256', typ: 'JWT' }, by = secret): string {
  const text = `${part(header)}.${part(payload)}`;
  return `${text}.${createHmac('sha256', by).update(text).digest('base64url')}`;
}

test('S7: an account token is taken for its event, its time and its one algorithm alone', async () => {
  const good = { sub: 'member-17', aud: 'final', exp: seconds + 600 };
  assert.equal(await tokens.read(sign(good), 'final'), 'sub:member-17');
  assert.equal(await tokens.read(sign({ ...good, aud: ['other', 'final'] }), 'final'), 'sub:member-17');
  const [header, payload, signature] = sign(good).split('.');
  const refused: Record<string, string> = {
    'another event': sign({ ...good, aud: 'semi-final' }),
    'no audience': sign({ ...good, aud: undefined }),
    over: sign({ ...good, exp: seconds }),
    'no end': sign({ ...good, exp: undefined }),
    'an end in two days': sign({ ...good, exp: seconds + 2 * 86_400 }),
    'not yet valid': sign({ ...good, nbf: seconds + 60 }),
    'an end that is no number': sign({ ...good, exp: `${seconds + 600}` }),
    'no subject': sign({ ...good, sub: '' }),
    'a subject with blanks': sign({ ...good, sub: 'member 17' }),
    'a subject of another type': sign({ ...good, sub: 17 }),
    'another secret': sign(good, { alg: 'HS256' }, 'somebody else’s secret of enough letters'),
    'no algorithm': `${part({ alg: 'none' })}.${payload}.`,
    'algorithm none, signed': sign(good, { alg: 'none' }),
    'another algorithm': sign(good, { alg: 'HS512' }),
    'an extension that must be understood': sign(good, { alg: 'HS256', crit: ['b64'] }),
    'another payload': `${header}.${part({ ...good, sub: 'member-18' })}.${signature}`,
    'a cut signature': `${header}.${payload}.${signature!.slice(0, 20)}`,
    'four parts': `${sign(good)}.x`,
    'no JSON': `x.y.${createHmac('sha256', secret).update('x.y').digest('base64url')}`,
    nothing: '',
  };
  for (const [what, token] of Object.entries(refused))
    assert.equal(await tokens.read(token, 'final'), null, what);
});
