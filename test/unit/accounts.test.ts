import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { accountOf } from '../../src/sales/accounts.ts';

test('P7: the spellings of one mailbox are one account', () => {
  const spellings: Record<string, string[]> = {
    'anna.b@example.org': [
      'Anna.B@Example.ORG',
      ' anna.b@example.org ',
      'anna.b+2@example.org',
      'ａｎｎａ.b@example.org',
    ],
    'x@xn--exmple-cua.org': ['x@exämple.org', 'X@EXÄMPLE.org', 'x@xn--exmple-cua.org', 'x+y+z@exämple.org'],
    'annab@gmail.com': ['a.n.n.a.b@gmail.com', 'Anna.B+tickets@googlemail.com'],
    // Not a tag: nothing stands before it.
    '+anna@example.org': ['+anna@example.org'],
  };
  for (const [account, ways] of Object.entries(spellings)) {
    for (const way of ways) assert.equal(accountOf(way), account, way);
  }
  assert.notEqual(accountOf('anna.b@example.org'), accountOf('annab@example.org'), 'dots count elsewhere');
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
