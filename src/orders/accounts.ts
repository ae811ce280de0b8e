import { domainToASCII } from 'node:url';

/** Domains whose mailboxes ignore dots in the local part, by the domain that all of them are counted as. */
const dotless: Record<string, string> = { 'gmail.com': 'gmail.com', 'googlemail.com': 'gmail.com' };

/** What the platform that embeds the sale calls its accounts; never the same as an address, which anybody may type. */
export const platformAccount = (subject: string): string => `sub:${subject}`;

/** Whether a name is a platform's account, not an address or a browser. */
export const isPlatformAccount = (name: string): boolean => /^sub:[\x21-\x7e]{1,200}$/.test(name);

/** An account as an organiser names it: by address, or `sub:` and the platform's name. Null: it is neither. */
export function accountNamed(text: string): string | null {
  if (isPlatformAccount(text)) return text;
  const account = accountOf(text);
  return /^[^@\s]+@[^@\s]+$/.test(account) ? account : null;
}

/**
 * The account that limits count by: the address without what makes many spellings of one mailbox. Case and Unicode forms,
 * the `+tag` of subaddressing (RFC 5233), the two spellings of an internationalised domain, and dots where the provider is
 * known to ignore them. Mail goes to the address as it was typed. An address that nobody proved stays a weak limit: it only
 * takes a second mailbox to get around it.
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
