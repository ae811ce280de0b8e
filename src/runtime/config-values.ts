import { parseRedisUrl } from './redis-url.ts';

/** How the text of a variable is read: into a value, or into what is wrong with it, which never repeats a secret. */
export type Parsed<T> = { value: T } | { problem: string };

/** The name of what REDIS_URL, or the private server, is. */
export const defaultRedis = 'default';

export function wholeNumber(text: string, min: number, max: number): Parsed<number> {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return { value };
  return { problem: `is not a whole number from ${min} to ${max}` };
}

export function longEnough(text: string, min: number): Parsed<string> {
  return text.length >= min
    ? { value: text }
    : { problem: `has ${text.length} characters, at least ${min} are needed` };
}

export function databaseUrl(text: string): Parsed<string> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^postgres(ql)?:$/.test(url.protocol)) return { problem: 'is not a postgres:// address' };
  return url.pathname.length > 1
    ? { value: text }
    : { problem: 'names no database (postgres://host/database)' };
}

export function redisUrl(text: string): Parsed<string> {
  const parsed = parseRedisUrl(text);
  return 'problem' in parsed ? parsed : { value: text };
}

export function redisServers(text: string): Parsed<{ name: string; url: string }[]> {
  const value: { name: string; url: string }[] = [];
  for (const part of text.split(';').filter((entry) => entry.trim() !== '')) {
    const equals = part.indexOf('=');
    const name = part.slice(0, Math.max(equals, 0)).trim();
    const url = part.slice(equals + 1).trim();
    if (!/^[a-z0-9-]{1,32}$/.test(name))
      return { problem: 'is not of the form north=redis://…;south=redis://… (names of a-z, 0-9, hyphens)' };
    if (name === defaultRedis)
      return { problem: `names a server ${defaultRedis}, which is that of REDIS_URL` };
    if (value.some((other) => other.name === name)) return { problem: `names ${name} twice` };
    const parsed = parseRedisUrl(url);
    if ('problem' in parsed) return { problem: `gives ${name} an address that ${parsed.problem}` };
    value.push({ name, url });
  }
  return { value };
}

export function httpUrl(text: string): Parsed<string> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) return { problem: 'is not an http:// or https:// address' };
  if (url.username || url.search || url.hash) return { problem: 'may hold neither credentials, nor ? or #' };
  return { value: url.href.replace(/\/+$/, '') };
}

export function stripeKey(text: string, form: RegExp, example: string): Parsed<string> {
  return form.test(text) ? { value: text } : { problem: `does not look like ${example}` };
}

export function webhookSecrets(text: string): Parsed<string[]> {
  const value = text.split(',').map((part) => part.trim());
  return value.every((part) => /^whsec_\S+$/.test(part))
    ? { value }
    : { problem: 'does not look like whsec_…, comma separated' };
}

export function trustedProxies(text: string): Parsed<number | string[]> {
  if (/^\d+$/.test(text)) return wholeNumber(text, 1, 10);
  const value = text.split(',').map((part) => part.trim());
  const known = /^(loopback|linklocal|uniquelocal|[\d.]+(\/\d+)?|[\da-f:.]*:[\da-f:.]*(\/\d+)?)$/i;
  if (value.every((part) => known.test(part))) return { value };
  return {
    problem:
      'is neither a number of hops (1 to 10) nor a list of addresses; believing everybody would let buyers choose their own address',
  };
}

/** An address that nodemailer takes as it is, after a check that it names a server. */
export function smtpUrl(text: string): Parsed<string> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^smtps?:$/.test(url.protocol)) return { problem: 'is not an smtp:// or smtps:// address' };
  if (!url.hostname) return { problem: 'names no mail server' };
  if (url.search || url.hash || !/^\/?$/.test(url.pathname))
    return { problem: 'has more behind the server’s name than a port' };
  return { value: text };
}

/** `box@example.org` or `Some Name <box@example.org>`. */
export function mailAddress(text: string): Parsed<{ name: string; address: string }> {
  const match = /^(?:"?([^"<>\r\n]*?)"?\s*<)?([^\s<>@"]+@[^\s<>@"]+)>?$/.exec(text);
  if (!match || text.includes('<') !== text.endsWith('>')) return { problem: 'is not an e-mail address' };
  return { value: { name: match[1] ?? '', address: match[2]! } };
}

export function timeZone(text: string): Parsed<string> {
  try {
    return { value: new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone };
  } catch {
    return { problem: 'is not the name of a time zone, such as Europe/Berlin' };
  }
}

export function yesOrNo(text: string): Parsed<boolean> {
  return text === 'yes' || text === 'no' ? { value: text === 'yes' } : { problem: 'is neither yes nor no' };
}
