import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { type Config, configReference, readConfig } from '../../src/runtime/config.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';

const stripe = {
  STRIPE_SECRET_KEY: 'sk_test_1',
  STRIPE_PUBLISHABLE_KEY: 'pk_test_1',
  STRIPE_WEBHOOK_SECRET: 'whsec_old, whsec_new',
};

function valid(env: Record<string, string | undefined>): Config {
  const outcome = readConfig(env);
  assert.equal(outcome.kind, 'ok', JSON.stringify(outcome));
  return (outcome as { config: Config }).config;
}

function problemsOf(env: Record<string, string | undefined>): string[] {
  const outcome = readConfig(env);
  return outcome.kind === 'invalid'
    ? outcome.problems.map(({ variable, problem }) => `${variable} ${problem}`)
    : [];
}

test('an empty environment is the demo: embedded database, simulator, loopback only', () => {
  const config = valid({ PORT: '', STRIPE_SECRET_KEY: ' ' });
  assert.equal(config.http.host, '127.0.0.1');
  assert.equal(config.http.port, undefined);
  assert.equal(config.http.trustProxy, false);
  assert.equal(config.database.kind, 'embedded');
  assert.equal(config.payments.kind, 'simulator');
  assert.deepEqual(config.warnings, []);
});

test('every mistake is reported at once, each with its variable', () => {
  const problems = problemsOf({
    PORT: '70000',
    HOST: 'a b',
    DATABASE_URL: 'mysql://x/y',
    ONSALE_PUBLIC_URL: 'example.org',
    ONSALE_TRUST_PROXY: 'true',
    ONSALE_ORGANISER_EMAIL: 'nobody',
    ONSALE_ORGANISER_PASSWORD: 'elevenchars',
    ONSALE_SECRET: 'short',
    ONSALE_LOG_LEVEL: 'loud',
    STRIPE_SECRET_KEY: 'pk_test_1',
    STRIPE_PUBLISHABLE_KEY: 'sk_test_1',
    STRIPE_WEBHOOK_SECRET: 'whsec_a,b',
    STRIPE_API_BASE: 'ftp://x',
    REDIS_URL: 'http://x',
    ONSALE_REDIS_SERVERS: 'North=redis://x',
    ONSALE_REDIS_PREFIX: 'a b',
    ONSALE_EMBEDDED_REDIS: 'perhaps',
  });
  assert.equal(problems.length, 17, problems.join('\n'));
});

test('no problem prints the value of a secret', () => {
  const text = problemsOf({
    ONSALE_ORGANISER_PASSWORD: 'tiny-secret',
    ONSALE_SECRET: 'tiny-secret',
    DATABASE_URL: 'tiny-secret',
    REDIS_URL: 'tiny-secret',
    ONSALE_REDIS_SERVERS: 'north=tiny-secret',
  });
  assert.equal(text.length, 5);
  assert.ok(!text.join().includes('tiny-secret'));
});

test('a mistyped ONSALE_ variable is named with the one that was meant; others are left alone', () => {
  assert.deepEqual(problemsOf({ ONSALE_ORGANIZER_EMAIL: 'a@b.c', OTHER: 'x', ONSALE_TEST_POSTGRES: 'x' }), [
    'ONSALE_ORGANIZER_EMAIL is not a setting of Onsale. Did you mean ONSALE_ORGANISER_EMAIL?',
  ]);
  assert.deepEqual(problemsOf({ ONSALE_COMPLETELY_DIFFERENT: '1' }), [
    'ONSALE_COMPLETELY_DIFFERENT is not a setting of Onsale.',
  ]);
});

test('the three Stripe keys come together, and of one kind', () => {
  for (const missing of Object.keys(stripe)) {
    const problems = problemsOf({ ...stripe, [missing]: undefined });
    assert.equal(problems.length, 1);
    assert.ok(problems[0]?.startsWith(`${missing} is missing`), problems[0]);
  }
  assert.match(
    problemsOf({ ...stripe, STRIPE_PUBLISHABLE_KEY: 'pk_live_1' }).join(),
    /mix a test and a live key/,
  );
  assert.match(problemsOf({ STRIPE_API_BASE: 'http://127.0.0.1:1' }).join(), /no effect/);
  const { payments } = valid(stripe);
  assert.deepEqual(payments.kind === 'stripe' && payments.webhookSecrets, ['whsec_old', 'whsec_new']);
});

test('live keys without https, or sent elsewhere, are warned of', () => {
  const mail = { ONSALE_SMTP_URL: 'smtp://mail.example.org', ONSALE_MAIL_FROM: 'tickets@example.org' };
  const live = { ...stripe, ...mail, STRIPE_SECRET_KEY: 'sk_live_1', STRIPE_PUBLISHABLE_KEY: 'pk_live_1' };
  assert.equal(valid(live).warnings.length, 1);
  assert.equal(
    valid({ ...live, ONSALE_SMTP_URL: undefined, ONSALE_MAIL_FROM: undefined }).warnings.length,
    2,
  );
  assert.equal(valid({ ...live, ONSALE_PUBLIC_URL: 'https://tickets.example.org' }).warnings.length, 0);
  assert.equal(valid({ ...live, STRIPE_API_BASE: 'http://127.0.0.1:9' }).warnings.length, 2);
  assert.equal(valid({ HOST: '0.0.0.0' }).warnings.length, 1);
});

test('mails are shown only in a demo: when nothing real is configured, or the setting says so', () => {
  const mailboxOf = (env: Record<string, string>) => valid(env).mail.mailbox;
  assert.equal(mailboxOf({}), true);
  const real: Record<string, string>[] = [
    { DATABASE_URL: 'postgres://127.0.0.1/onsale' },
    { ONSALE_PUBLIC_URL: 'https://tickets.example.org' },
    stripe,
  ];
  for (const env of real) {
    assert.equal(mailboxOf(env), false, Object.keys(env)[0]);
    assert.match(valid(env).warnings.join(' '), /mails go nowhere/);
    assert.equal(mailboxOf({ ...env, ONSALE_DEMO: 'yes' }), true);
    assert.doesNotMatch(valid({ ...env, ONSALE_DEMO: 'yes' }).warnings.join(' '), /mails go nowhere/);
  }
  assert.equal(mailboxOf({ ONSALE_DEMO: 'no' }), false);
  const smtp = { ONSALE_SMTP_URL: 'smtp://mail.example.org', ONSALE_MAIL_FROM: 'tickets@example.org' };
  assert.equal(mailboxOf({ ...smtp, ONSALE_DEMO: 'yes' }), false);
  const live = { ...stripe, STRIPE_SECRET_KEY: 'sk_live_1', STRIPE_PUBLISHABLE_KEY: 'pk_live_1' };
  assert.match(problemsOf({ ...live, ONSALE_DEMO: 'yes' }).join(), /^ONSALE_DEMO [^,]*live/);
});

test('a named data folder is never replaced by another', () => {
  const named = valid({ ONSALE_DATA_DIR: '/srv/onsale' }).database;
  assert.ok(named.kind === 'embedded' && named.fallbackDir === undefined);
  const ours = valid({}).database;
  assert.ok(ours.kind === 'embedded' && ours.fallbackDir !== undefined);
});

test('without a setting there is no Redis; the default one comes first, the named ones after it', () => {
  assert.deepEqual(valid({}).redis.servers, []);
  assert.equal(valid({}).redis.prefix, 'onsale');
  const { redis } = valid({
    REDIS_URL: 'redis://a,redis://b:7000',
    ONSALE_REDIS_SERVERS: 'north=redis://n:1; south = rediss://:p@s ;',
    ONSALE_REDIS_PREFIX: 'arena-2',
  });
  assert.deepEqual(redis.servers, [
    { name: 'default', url: 'redis://a,redis://b:7000' },
    { name: 'north', url: 'redis://n:1' },
    { name: 'south', url: 'rediss://:p@s' },
  ]);
  assert.equal(redis.prefix, 'arena-2');
  for (const [servers, said] of [
    ['redis://n', /form/],
    ['default=redis://n', /REDIS_URL/],
    ['n=redis://n;n=redis://m', /twice/],
    ['n=redis://n/x', /gives n an address/],
  ] as const)
    assert.match(problemsOf({ ONSALE_REDIS_SERVERS: servers }).join(), said);
});

test('a private Redis is requested by name, and not together with a configured one', () => {
  assert.equal(valid({}).redis.embedded, false);
  const { redis, dataDir } = valid({ ONSALE_EMBEDDED_REDIS: 'yes' });
  assert.equal(redis.embedded, true);
  assert.equal(path.dirname(redis.dataDir), dataDir);
  assert.match(problemsOf({ ONSALE_EMBEDDED_REDIS: 'yes', REDIS_URL: 'redis://a' }).join(), /two default/);
});

test('addresses lose their final slash; proxies are a count or a list', () => {
  assert.equal(valid({ ONSALE_PUBLIC_URL: 'https://example.org/' }).http.publicUrl, 'https://example.org');
  assert.equal(valid({ ONSALE_TRUST_PROXY: '2' }).http.trustProxy, 2);
  assert.deepEqual(valid({ ONSALE_TRUST_PROXY: 'loopback, 10.0.0.0/8' }).http.trustProxy, [
    'loopback',
    '10.0.0.0/8',
  ]);
});

test('the configuration cannot be changed after it was read', () => {
  const config = valid(stripe);
  assert.throws(() => Object.assign(config.payments, { kind: 'simulator' }), TypeError);
  assert.throws(() => Object.assign(config, { secret: 'x' }), TypeError);
});

test('the reference page is made from this table', () => {
  const file = path.join(projectDir, 'docs/reference/configuration.md');
  assert.equal(
    readFileSync(file, 'utf8'),
    configReference(),
    'run node --import tsx scripts/write-reference.ts',
  );
});
