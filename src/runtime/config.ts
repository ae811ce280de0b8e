import path from 'node:path';
import {
  databaseUrl,
  defaultRedis,
  httpUrl,
  longEnough,
  mailAddress,
  type Parsed,
  redisServers,
  redisUrl,
  smtpUrl,
  stripeKey,
  timeZone,
  trustedProxies,
  webhookSecrets,
  wholeNumber,
  yesOrNo,
} from './config-values.ts';
import { fallbackDataDir } from './private-server.ts';
import { projectDir } from './project-dir.ts';

export { defaultRedis };

/** Everything that is read from the environment, once, at start. Frozen; `app.ts` hands each part its branch. */
export interface Config {
  readonly http: {
    readonly host: string;
    /** Undefined: the first free port from 3000 on. 0: any free one. */
    readonly port: number | undefined;
    /** Without a final slash. Undefined: the address that the server listens on. */
    readonly publicUrl: string | undefined;
    /** Which X-Forwarded-For headers are trusted: none, those of this many hops, or those of these addresses. */
    readonly trustProxy: false | number | readonly string[];
  };
  readonly dataDir: string;
  readonly database:
    | { readonly kind: 'embedded'; readonly dataDir: string; readonly fallbackDir: string | undefined }
    | { readonly kind: 'external'; readonly url: string };
  readonly redis: {
    /** Prefix of all keys, because several installations may share a Redis. */
    readonly prefix: string;
    /**
     * `default` is the server in REDIS_URL and comes first. Without servers Postgres does everything. The addresses contain
     * passwords.
     */
    readonly servers: readonly { readonly name: string; readonly url: string }[];
    /** A private server is to be started first, and is then the default one. */
    readonly embedded: boolean;
    /** The private server's folder, also when another process runs it. */
    readonly dataDir: string;
  };
  readonly organiser: {
    readonly email: string /** Undefined: made once and stored. */;
    readonly password: string | undefined;
  };
  /** Undefined: made once and stored (stored-secret.ts). */
  readonly secret: string | undefined;
  /** Undefined: no platform names buyers' accounts. */
  readonly accountSecret: string | undefined;
  readonly logLevel: string;
  readonly staticDir: string | undefined;
  readonly payments:
    | { readonly kind: 'simulator' }
    | {
        readonly kind: 'stripe';
        readonly secretKey: string;
        readonly publishableKey: string;
        /** Several while one is being replaced. */
        readonly webhookSecrets: readonly string[];
        readonly apiBase: string;
        readonly live: boolean;
      };
  /** How long the provider's events are kept after they were dealt with, days. */
  readonly providerEventsKeptDays: number;
  /** Calls a second that the payment provider accepts from this account. Null means no limit. */
  readonly providerCallsPerSecond: number | null;
  readonly mail: {
    /** It may contain a password. If undefined, mails are not sent but kept in the database. */
    readonly smtpUrl: string | undefined;
    /** Mails are shown at `/dev/mail`, because this is a demo. */
    readonly mailbox: boolean;
    readonly from: { readonly name: string; readonly address: string };
  };
  /** IANA name: the venue's clock, in which pages, mails and tickets give the times of its events. */
  readonly timeZone: string;
  readonly webhooks: {
    /** Webhooks may go to addresses that are not on the public internet. */
    readonly privateAllowed: boolean;
  };
  /** Sentences, shown at start, about settings that are allowed but need attention. */
  readonly warnings: readonly string[];
}

export interface ConfigProblem {
  variable: string;
  problem: string;
}

export type ConfigOutcome = { kind: 'ok'; config: Config } | { kind: 'invalid'; problems: ConfigProblem[] };

export const organiserPasswordLengthMin = 12;
export const secretLengthMin = 32;

interface Variable<T> {
  doc: string;
  /** The value if it is not set, in words. */
  otherwise: string;
  parse(text: string): Parsed<T>;
  /** Its value is never printed. */
  secret?: true;
}

const variable = <T>(definition: Variable<T>): Variable<T> => definition;
const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];
const stripeApi = 'https://api.stripe.com';
/** A day longer than Stripe lists an event, and can be told to send it again (https://docs.stripe.com/api/events). */
const providerEventsDays = 31;
/** For an account whose limit was not raised: https://docs.stripe.com/rate-limits. */
const stripeCallsPerSecond = { live: 100, test: 25 } as const;

const variables = {
  PORT: variable({
    doc: 'Port of the web server; 0 takes any free one.',
    otherwise: 'the first free port from 3000 on',
    parse: (text) => wholeNumber(text, 0, 65_535),
  }),
  HOST: variable({
    doc: 'Address to listen on. 0.0.0.0 lets other machines in.',
    otherwise: '127.0.0.1',
    parse: (text) =>
      /^[\w.:-]+$/.test(text) ? { value: text } : { problem: 'is not a host name or address' },
  }),
  DATABASE_URL: variable({
    doc: 'A Postgres of your own, 14 or later: postgres://user:password@host:port/database. `start` and `migrate` wait up to 60 s for it.',
    otherwise: 'an embedded Postgres in the data folder',
    parse: databaseUrl,
    secret: true,
  }),
  REDIS_URL: variable({
    doc: 'A Redis or Valkey of your own, 6.2 or later, that arbitrates faster than Postgres: redis://user:password@host:port/db, rediss:// for TLS. Several nodes of one cluster, comma separated.',
    otherwise: 'Postgres arbitrates',
    parse: redisUrl,
    secret: true,
  }),
  ONSALE_REDIS_SERVERS: variable({
    doc: 'Further ones that partitions may be pinned to, each with a name: north=redis://…;south=redis://…',
    otherwise: 'there is none but that of REDIS_URL',
    parse: redisServers,
    secret: true,
  }),
  ONSALE_REDIS_PREFIX: variable({
    doc: 'Prefix of all keys in Redis, before the id of the database. Only a copy of a database that runs next to its original needs another.',
    otherwise: 'onsale',
    parse: (text) =>
      /^[\w-]{1,32}$/.test(text)
        ? { value: text }
        : { problem: 'is not up to 32 letters, digits, hyphens and underscores' },
  }),
  ONSALE_EMBEDDED_REDIS: variable({
    doc: '`yes` starts a private redis-server in the data folder with the engine, as `npm run start:redis` does.',
    otherwise: 'no',
    parse: yesOrNo,
  }),
  ONSALE_DATA_DIR: variable({
    doc: 'Folder for the embedded database and for the secrets that are made once.',
    otherwise: '`.data` in the checkout',
    parse: (text) => {
      const value = path.resolve(text);
      // For a folder in one of these, Node's recursive mkdir never returns.
      if (/^\/(proc|sys|dev)(\/|$)/.test(value))
        return { problem: 'is in a folder where nothing can be stored' };
      return { value };
    },
  }),
  ONSALE_PUBLIC_URL: variable({
    doc: 'The address that buyers see, as in links and returns from the bank.',
    otherwise: 'the address that the server listens on',
    parse: (text) => httpUrl(text),
  }),
  ONSALE_TRUST_PROXY: variable({
    doc: 'Proxies in front whose X-Forwarded-For is believed: a number of hops, or their addresses or networks, comma separated.',
    otherwise: 'none is believed',
    parse: trustedProxies,
  }),
  ONSALE_ORGANISER_EMAIL: variable({
    doc: 'The organiser who may sign in.',
    otherwise: 'organiser@example.org',
    parse: (text) =>
      /^[^\s@]+@[^\s@]+$/.test(text)
        ? { value: text.toLowerCase() }
        : { problem: 'is not an e-mail address' },
  }),
  ONSALE_ORGANISER_PASSWORD: variable({
    doc: `Their password, at least ${organiserPasswordLengthMin} characters.`,
    otherwise: 'made by the first start, printed by it, and stored in the data folder (`organiser-password`)',
    parse: (text) => longEnough(text, organiserPasswordLengthMin),
    secret: true,
  }),
  ONSALE_SECRET: variable({
    doc: `Signs queue tickets, passes and receipts; at least ${secretLengthMin} characters, the same in all processes of one installation.`,
    otherwise: 'made once and stored in the data folder',
    parse: (text) => longEnough(text, secretLengthMin),
    secret: true,
  }),
  ONSALE_ACCOUNT_SECRET: variable({
    doc: `Shared with the platform that embeds the sale: it signs the tokens that name a buyer's account, for events that ask for an account before seats are held; at least ${secretLengthMin} characters.`,
    otherwise: 'no event can ask for an account',
    parse: (text) => longEnough(text, secretLengthMin),
    secret: true,
  }),
  ONSALE_LOG_LEVEL: variable({
    doc: `How much is logged: ${logLevels.join(', ')}.`,
    otherwise: 'warn',
    parse: (text) =>
      logLevels.includes(text) ? { value: text } : { problem: `is none of ${logLevels.join(', ')}` },
  }),
  ONSALE_STATIC_DIR: variable({
    doc: 'Folder that the published objects are also written to as files, for nginx or a CDN to serve.',
    otherwise: 'they are served from memory only',
    parse: (text) => ({ value: path.resolve(text) }),
  }),
  ONSALE_PROVIDER_EVENTS_DAYS: variable({
    // Stripe delivers an event for three days and shows it for 30. For that long a repeat is recognised.
    doc: 'For how many days the provider’s events are kept after they were processed, 4 to 3650. A repeat of a deleted one is harmless: its payment is checked again.',
    otherwise: `${providerEventsDays}`,
    parse: (text) => wholeNumber(text, 4, 3_650),
  }),
  ONSALE_SMTP_URL: variable({
    doc: 'The mail server that takes what buyers are sent: smtp://user:password@host:587 (with a password only over STARTTLS) or smtps://…:465.',
    otherwise: 'no mail is sent; in a demo mails are shown at `/dev/mail`',
    parse: smtpUrl,
    secret: true,
  }),
  ONSALE_DEMO: variable({
    doc: '`yes` makes this a demo: without ONSALE_SMTP_URL the mails to buyers, with names, addresses and links that open orders, can be read at `/dev/mail` by the signed-in organiser and on the machine itself.',
    otherwise:
      'yes while nothing real is configured (no DATABASE_URL, ONSALE_SMTP_URL, ONSALE_PUBLIC_URL or Stripe keys), else no',
    parse: yesOrNo,
  }),
  ONSALE_MAIL_FROM: variable({
    doc: 'Whom mails are from: `Box Office <tickets@example.org>`. Asked for with ONSALE_SMTP_URL.',
    otherwise: '`Onsale <tickets@localhost>`',
    parse: mailAddress,
  }),
  ONSALE_TIME_ZONE: variable({
    doc: 'Time zone of the venue, such as Europe/Berlin. Buyers’ pages, mails and tickets show the times of events in it and name it.',
    otherwise: 'the server’s own',
    parse: timeZone,
  }),
  ONSALE_WEBHOOKS_PRIVATE: variable({
    doc: '`yes` lets webhooks go to loopback, private and link-local addresses and over http: for receivers in your own network.',
    otherwise: 'no',
    parse: yesOrNo,
  }),
  STRIPE_SECRET_KEY: variable({
    doc: 'Stripe secret or restricted key (sk_… or rk_…). All three Stripe keys, or none.',
    otherwise: 'the payment simulator takes the payments',
    parse: (text) => stripeKey(text, /^(sk|rk)_(test|live)_\w+$/, 'sk_test_… or sk_live_…'),
    secret: true,
  }),
  STRIPE_PUBLISHABLE_KEY: variable({
    doc: 'Stripe publishable key (pk_…), sent to the payment page.',
    otherwise: 'the payment simulator takes the payments',
    parse: (text) => stripeKey(text, /^pk_(test|live)_\w+$/, 'pk_test_… or pk_live_…'),
  }),
  STRIPE_WEBHOOK_SECRET: variable({
    doc: 'Signing secret of the webhook endpoint (whsec_…); several, comma separated, while one is being replaced.',
    otherwise: 'the payment simulator takes the payments',
    parse: webhookSecrets,
    secret: true,
  }),
  ONSALE_PROVIDER_CALLS_PER_SECOND: variable({
    doc: 'Calls a second that the payment provider takes from your account. The waiting room admits no more buyers than it can pay for: four calls a purchase. Have the limit raised before a large sale, then set it here.',
    otherwise: `with live Stripe keys ${stripeCallsPerSecond.live}, with test keys ${stripeCallsPerSecond.test}, with the simulator no limit`,
    parse: (text) => wholeNumber(text, 1, 100_000),
  }),
  STRIPE_API_BASE: variable({
    doc: 'Where the Stripe API is, when it is not Stripe: a simulator or a recording proxy.',
    otherwise: stripeApi,
    parse: (text) => httpUrl(text),
  }),
};

type Name = keyof typeof variables;
type Values = { [K in Name]?: (typeof variables)[K] extends Variable<infer T> ? T : never };

/** Read by the tests or by other programs of ours, not part of the configuration. */
const otherVariables = new Set([
  'ONSALE_TEST_POSTGRES',
  'ONSALE_TEST_POSTGRES_BIN',
  'ONSALE_TEST_CHROMIUM',
  'ONSALE_TEST_REDIS',
  'ONSALE_TEST_NGINX',
]);

/** Collects all problems, so that a person can fix them at once. Empty values count as not set. */
export function readConfig(env: Record<string, string | undefined>): ConfigOutcome {
  const problems: ConfigProblem[] = unknownVariables(env);
  const values: Values = {};
  for (const name of Object.keys(variables) as Name[]) {
    const text = env[name]?.trim();
    if (!text) continue;
    const parsed = variables[name].parse(text);
    if ('problem' in parsed) problems.push({ variable: name, problem: parsed.problem });
    else Object.assign(values, { [name]: parsed.value });
  }
  problems.push(...crossChecks(values, env));
  if (problems.length > 0) return { kind: 'invalid', problems };
  return { kind: 'ok', config: deepFreeze(assemble(values)) };
}

function assemble(values: Values): Config {
  const dataDir = values.ONSALE_DATA_DIR ?? path.join(projectDir, '.data');
  const config = {
    http: {
      host: values.HOST ?? '127.0.0.1',
      port: values.PORT,
      publicUrl: values.ONSALE_PUBLIC_URL,
      trustProxy: values.ONSALE_TRUST_PROXY ?? (false as const),
    },
    dataDir,
    database: values.DATABASE_URL
      ? { kind: 'external' as const, url: values.DATABASE_URL }
      : {
          kind: 'embedded' as const,
          dataDir: path.join(dataDir, 'postgres'),
          // A folder that was named explicitly is used or rejected, and never replaced.
          fallbackDir: values.ONSALE_DATA_DIR ? undefined : fallbackDataDir(dataDir),
        },
    redis: {
      prefix: values.ONSALE_REDIS_PREFIX ?? 'onsale',
      servers: [
        ...(values.REDIS_URL ? [{ name: defaultRedis, url: values.REDIS_URL }] : []),
        ...(values.ONSALE_REDIS_SERVERS ?? []),
      ],
      embedded: values.ONSALE_EMBEDDED_REDIS ?? false,
      dataDir: path.join(dataDir, 'redis'),
    },
    organiser: {
      email: values.ONSALE_ORGANISER_EMAIL ?? 'organiser@example.org',
      password: values.ONSALE_ORGANISER_PASSWORD,
    },
    secret: values.ONSALE_SECRET,
    accountSecret: values.ONSALE_ACCOUNT_SECRET,
    logLevel: values.ONSALE_LOG_LEVEL ?? 'warn',
    staticDir: values.ONSALE_STATIC_DIR,
    payments: payments(values),
    providerEventsKeptDays: values.ONSALE_PROVIDER_EVENTS_DAYS ?? providerEventsDays,
    providerCallsPerSecond: values.ONSALE_PROVIDER_CALLS_PER_SECOND ?? callsPerSecondOf(payments(values)),
    mail: {
      smtpUrl: values.ONSALE_SMTP_URL,
      mailbox: values.ONSALE_SMTP_URL === undefined && isDemo(values),
      from: values.ONSALE_MAIL_FROM ?? { name: 'Onsale', address: 'tickets@localhost' },
    },
    timeZone: values.ONSALE_TIME_ZONE ?? new Intl.DateTimeFormat('en').resolvedOptions().timeZone,
    webhooks: { privateAllowed: values.ONSALE_WEBHOOKS_PRIVATE ?? false },
  };
  return { ...config, warnings: warningsAbout(config) };
}

/** Nothing real is at stake: the installation is as `npm start` makes it, unless ONSALE_DEMO says otherwise. */
function isDemo(values: Values): boolean {
  const { ONSALE_DEMO, DATABASE_URL, ONSALE_SMTP_URL, ONSALE_PUBLIC_URL, STRIPE_SECRET_KEY } = values;
  return ONSALE_DEMO ?? !(DATABASE_URL || ONSALE_SMTP_URL || ONSALE_PUBLIC_URL || STRIPE_SECRET_KEY);
}

function payments(values: Values): Config['payments'] {
  const {
    STRIPE_SECRET_KEY: secretKey,
    STRIPE_PUBLISHABLE_KEY: publishableKey,
    STRIPE_WEBHOOK_SECRET: secrets,
  } = values;
  if (!secretKey || !publishableKey || !secrets) return { kind: 'simulator' };
  const apiBase = values.STRIPE_API_BASE ?? stripeApi;
  return {
    kind: 'stripe',
    secretKey,
    publishableKey,
    webhookSecrets: secrets,
    apiBase,
    live: isLive(secretKey),
  };
}

/** A server that replaces Stripe has a limit that we do not know. */
function callsPerSecondOf(money: Config['payments']): number | null {
  if (money.kind !== 'stripe' || money.apiBase !== stripeApi) return null;
  return money.live ? stripeCallsPerSecond.live : stripeCallsPerSecond.test;
}

function crossChecks(values: Values, env: Record<string, string | undefined>): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const keys = ['STRIPE_SECRET_KEY', 'STRIPE_PUBLISHABLE_KEY', 'STRIPE_WEBHOOK_SECRET'] as const;
  const given = keys.filter((key) => env[key]?.trim());
  if (given.length > 0 && given.length < keys.length) {
    for (const key of keys.filter((name) => !given.includes(name))) {
      problems.push({
        variable: key,
        problem: `is missing while ${given.join(' and ')} ${given.length > 1 ? 'are' : 'is'} set: all three or none`,
      });
    }
  }
  if (given.length === 0 && values.STRIPE_API_BASE) {
    problems.push({ variable: 'STRIPE_API_BASE', problem: 'has no effect without the Stripe keys' });
  }
  if (values.ONSALE_EMBEDDED_REDIS && values.REDIS_URL) {
    problems.push({
      variable: 'ONSALE_EMBEDDED_REDIS',
      problem: 'and REDIS_URL name two default Redis servers',
    });
  }
  if (values.ONSALE_SMTP_URL && !values.ONSALE_MAIL_FROM && !env.ONSALE_MAIL_FROM?.trim()) {
    problems.push({
      variable: 'ONSALE_MAIL_FROM',
      problem: 'is missing while ONSALE_SMTP_URL is set: mails need a sender',
    });
  }
  const { STRIPE_SECRET_KEY: secretKey, STRIPE_PUBLISHABLE_KEY: publishableKey } = values;
  if (values.ONSALE_DEMO && secretKey && isLive(secretKey)) {
    problems.push({ variable: 'ONSALE_DEMO', problem: 'does not go with live Stripe keys: buyers are real' });
  }
  if (secretKey && publishableKey && isLive(secretKey) !== isLive(publishableKey)) {
    problems.push({
      variable: 'STRIPE_PUBLISHABLE_KEY',
      problem: 'and STRIPE_SECRET_KEY mix a test and a live key',
    });
  }
  return problems;
}

function warningsAbout(config: Omit<Config, 'warnings'>): string[] {
  const warnings: string[] = [];
  const { payments: money, http } = config;
  const loopback = ['127.0.0.1', '::1', 'localhost'].includes(http.host);
  if (money.kind === 'simulator' && !loopback) {
    warnings.push(
      `HOST ${http.host} lets other machines in while payments are simulated: anybody can "pay" with a test card.`,
    );
  }
  if (money.kind === 'stripe' && money.live) {
    if (!http.publicUrl?.startsWith('https://')) {
      warnings.push(
        'Live Stripe keys without an https:// ONSALE_PUBLIC_URL: buyers would pay over an open connection.',
      );
    }
    if (money.apiBase !== stripeApi)
      warnings.push(`Live Stripe keys are sent to ${money.apiBase}, which is not Stripe.`);
  }
  if (!config.mail.smtpUrl && !config.mail.mailbox) {
    warnings.push(
      'ONSALE_SMTP_URL is not set: mails go nowhere, so buyers are sent no tickets by mail. They are kept in the database.',
    );
  }
  return warnings;
}

function unknownVariables(env: Record<string, string | undefined>): ConfigProblem[] {
  return Object.keys(env)
    .filter((name) => name.startsWith('ONSALE_') && !(name in variables) && !otherVariables.has(name))
    .map((name) => {
      const [nearest] = Object.keys(variables)
        .map((known) => ({ known, distance: editDistance(name, known) }))
        .sort((a, b) => a.distance - b.distance);
      const hint = nearest && nearest.distance <= 4 ? ` Did you mean ${nearest.known}?` : '';
      return { variable: name, problem: `is not a setting of Onsale.${hint}` };
    });
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (letter === other ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

function isLive(key: string): boolean {
  return key.includes('_live_');
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFreeze(child);
  }
  return value;
}

/** docs/reference/configuration.md; a test compares the file with this. */
export function configReference(): string {
  const rows = (Object.entries(variables) as [Name, Variable<unknown>][]).map(
    ([name, { doc, otherwise, secret }]) =>
      `| \`${name}\` | ${doc}${secret ? ' Secret.' : ''} | ${otherwise} |`,
  );
  return [
    '# Configuration',
    '',
    'Read once from the environment at start. All mistakes are reported together, and nothing starts until they are',
    'fixed. An `ONSALE_` variable that is not listed here is reported as a probable typing error.',
    'Made from `src/runtime/config.ts` by `node --import tsx scripts/write-reference.ts`.',
    '',
    '| variable | what it sets | when not set |',
    '|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}
