import { problem } from '../core/problems.ts';
import { accountOf } from '../orders/accounts.ts';

const nameLengthMax = 200;
/** RFC 5321's longest path, without its brackets. */
const emailLengthMax = 254;
/** Deliberately plain: one @, no spaces or control characters, a dot in the domain. Only a sent mail proves an address. */
const emailForm =
  /^[^\s@<>()[\]\\,;:"\p{C}]{1,64}@[^\s@<>()[\]\\,;:"\p{C}]+\.[^\s@.\u3002\uff0e\uff61<>()[\]\\,;:"\p{C}]+$/u;
/** Control characters and line ends; joiners, which some scripts need, are allowed. */
const control = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/** The buyer as the order stores them, and the account that limits count by, which is the normalised address. */
export function buyerOf(given: { name: string; email: string }): {
  buyer: { name: string; email: string };
  account: string;
} {
  const name = given.name.normalize('NFC').trim();
  if (name.length === 0 || [...name].length > nameLengthMax || control.test(name)) {
    throw problem('invalid_field', {
      field: '/buyer/name',
      detail: `Enter a name of 1 to ${nameLengthMax} characters.`,
    });
  }
  const email = given.email.normalize('NFC').trim();
  // In its compatibility form too: a wide @ is one.
  const forms = [email, email.normalize('NFKC')];
  if (email.length > emailLengthMax || !forms.every((form) => emailForm.test(form)) || email.includes('..')) {
    throw problem('invalid_field', {
      field: '/buyer/email',
      detail: 'Enter an e-mail address, such as name@example.org.',
    });
  }
  return { buyer: { name, email }, account: accountOf(email) };
}
