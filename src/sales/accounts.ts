import { domainToASCII } from 'node:url';

/** Domains whose mailboxes ignore dots in the local part, by the domain that all of them are counted as. */
const dotless: Record<string, string> = { 'gmail.com': 'gmail.com', 'googlemail.com': 'gmail.com' };

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
  const domain = domainToASCII(typed) || typed;
  const local = plain.slice(0, at);
  // An address that begins with its `+` has no mailbox before it.
  const plus = local.indexOf('+');
  const box = plus > 0 ? local.slice(0, plus) : local;
  const counted = dotless[domain];
  return counted === undefined ? `${box}@${domain}` : `${box.replaceAll('.', '') || box}@${counted}`;
}
