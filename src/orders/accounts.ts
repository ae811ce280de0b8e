import { domainToASCII } from 'node:url';

/** Domains whose mailboxes ignore dots in the local part, by the domain that all of them are counted as. */
const dotless: Record<string, string> = { 'gmail.com': 'gmail.com', 'googlemail.com': 'gmail.com' };

/**
 * The name of an account on the platform that embeds the sale. It can never equal an e-mail address, which any visitor may
 * type.
 */
export const platformAccount = (subject: string): string => `sub:${subject}`;

/** Whether a name is a platform's account, not an address or a browser. */
export const isPlatformAccount = (name: string): boolean => /^sub:[\x21-\x7e]{1,200}$/.test(name);

/** Parses the organiser's name of an account: an address, or `sub:` and the platform's name. Null if it is neither. */
export function accountNamed(text: string): string | null {
  if (isPlatformAccount(text)) return text;
  const account = accountOf(text);
  return /^[^@\s]+@[^@\s]+$/.test(account) ? account : null;
}

/**
 * The account that limits count by: the address without the parts that give one mailbox many spellings. These are case and
 * Unicode forms, the `+tag` of subaddressing (RFC 5233), the two spellings of an internationalised domain, and dots where the
 * provider is known to ignore them. Mail goes to the address as it was typed. An address that was not verified stays a weak
 * limit: a second mailbox is enough to get around it.
 */
export function accountOf(email: string): string {
  const plain = email.normalize('NFKC').trim().toLowerCase().normalize('NFKC');
  const at = plain.lastIndexOf('@');
  if (at <= 0) return plain;
  const typed = plain.slice(at + 1);
  // Another script's full stop becomes a dot only here, and one at the end names the same domain.
  const domain = (domainToASCII(typed) || typed).replace(/\.+$/, '');
  const local = plain.slice(0, at);
  // An address that begins with its `+` has no mailbox before it.
  const plus = local.indexOf('+');
  const box = plus > 0 ? local.slice(0, plus) : local;
  const counted = dotless[domain];
  return counted === undefined ? `${box}@${domain}` : `${box.replaceAll('.', '') || box}@${counted}`;
}
