import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { accountOf } from '../../src/orders/accounts.ts';

test('P7: the spellings of one mailbox are one account', () => {
  const spellings: Record<string, string[]> = {
    'first.b@example.org': [
      'First.B@Example.ORG',
      ' first.b@example.org ',
      'first.b+2@example.org',
      'ｆｉｒｓｔ.b@example.org',
    ],
    'x@xn--exmple-cua.org': ['x@exämple.org', 'X@EXÄMPLE.org', 'x@xn--exmple-cua.org', 'x+y+z@exämple.org'],
    'firstb@gmail.com': ['f.i.r.s.t.b@gmail.com', 'First.B+tickets@googlemail.com'],
    // Not a tag: nothing stands before it.
    '+first@example.org': ['+first@example.org'],
    // The end of a name in the domain system, in whatever script.
    'dotted@example.org': [
      'dotted@example.org.',
      'dotted@example.org。',
      'dotted@example.org．',
      'dotted@example。org｡',
    ],
  };
  for (const [account, ways] of Object.entries(spellings)) {
    for (const way of ways) assert.equal(accountOf(way), account, way);
  }
  assert.notEqual(accountOf('first.b@example.org'), accountOf('firstb@example.org'), 'dots count elsewhere');
});

test('P7: an account is the account of itself, and never empty', () => {
  fc.assert(
    fc.property(fc.emailAddress(), (email) => {
      const account = accountOf(email);
      assert.equal(accountOf(account), account);
      assert.match(account, /^[^@]+@.+$/);
    }),
  );
});
