import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { FaultKind, FaultMatch, FaultSwitch } from '../../payment-simulator/faults.ts';
import type { Ledger, LedgerOf } from '../../payment-simulator/ledger.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { createStripeProvider } from '../../src/payments/stripe.ts';
import { type Clock, systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { programArguments } from './program.ts';
import { until } from './wait.ts';

export interface TestSimulator {
  readonly url: string;
  readonly secretKey: string;
  readonly publishableKey: string;
  readonly webhookSecret: string;
  readonly dataDir: string;
  /** The real Stripe adapter, through the real SDK, pointed at this process. */
  readonly provider: PaymentProvider;
  /** Another adapter for the same simulator, such as one with a shorter timeout or another clock. */
  providerWith(options: {
    timeoutMs?: number;
    clock?: Clock;
    secretKey?: string;
    installation?: string;
  }): PaymentProvider;
  ledger(): Promise<Ledger>;
  /** The ledger of one payment (by its id) or of one order (by our reference). */
  ledgerOf(of: string): Promise<LedgerOf>;
  /**
   * Switches a fault on and returns its id. `times` defaults to always. The SDK sends again once after a reset
   * connection. `payment-simulator/fault-kinds.ts` describes each kind.
   */
  fault(
    fault: FaultKind,
    options?: { match?: FaultMatch } & Partial<
      Pick<FaultSwitch, 'delayMs' | 'times' | 'rate' | 'copies' | 'forMs'>
    >,
  ): Promise<string>;
  /** Switches one off; false when it is off already, such as after its last time. */
  endFault(id: string): Promise<boolean>;
  /** How often each kind has struck since the process started. */
  struck(): Promise<Partial<Record<FaultKind, number>>>;
  clearFaults(): Promise<void>;
  /** Where webhooks go from now on. */
  webhooksTo(url: string | null): Promise<void>;
  releaseWebhooks(): Promise<number>;
  /** Lets pending refunds arrive and fails those that are to fail later, by their card or by a fault. */
  settleRefunds(): Promise<string[]>;
  /** A refund made by hand on the provider's page, without our key and reference. Returns its id. */
  refundByHand(intent: string, amount?: number): Promise<string>;
  /** The buyer's bank disputes a payment. Returns the dispute's id. */
  dispute(intent: string, wish?: { amount?: number; reason?: string; inquiry?: boolean }): Promise<string>;
  decideDispute(dispute: string, outcome: 'under_review' | 'won' | 'lost'): Promise<void>;
  /** API calls per second from now on. Null means unlimited. */
  rateLimit(perSecond: number | null): Promise<void>;
  /** Submits the bank's page at `action.url`. Returns the URL that the buyer is sent back to. */
  answerBank(actionUrl: string, answer: 'authorise' | 'refuse'): Promise<string>;
  /** A confirmation token as the payment form makes it, of a card number or `pm_card_…` name. */
  confirmationToken(card: string): Promise<string>;
  /** kill -9. */
  kill(): Promise<void>;
  /** Starts it again on the same port and ledger; kills it first when it still runs. */
  restart(): Promise<void>;
  /** Ends the process and removes its directory. */
  stop(): Promise<void>;
}

/** Starts the payment simulator as the process that it is, on a free port with a ledger of its own. */
export async function startTestSimulator(
  options: { webhookUrl?: string; webhookEvents?: string; timeoutMs?: number } = {},
): Promise<TestSimulator> {
  const dataDir = await mkdtemp(join(tmpdir(), 'onsale-simulator-'));
  const secretKey = 'sk_test_simulator';
  const publishableKey = 'pk_test_simulator';
  const webhookSecret = 'whsec_simulator';
  let running = await launch(dataDir, 0, options);
  const { port, url } = running;

  const providerWith: TestSimulator['providerWith'] = (given) =>
    createStripeProvider({
      secretKey: given.secretKey ?? secretKey,
      webhookSecrets: [webhookSecret],
      apiBase: url,
      timeoutMs: given.timeoutMs ?? options.timeoutMs,
      installation: () => given.installation ?? null,
      log: silentLogger,
      clock: given.clock ?? systemClock,
    });

  const kill = async (): Promise<void> => {
    if (running.child.exitCode !== null || running.child.signalCode !== null) return;
    const gone = once(running.child, 'exit');
    running.child.kill('SIGKILL');
    await gone;
  };

  return {
    url,
    secretKey,
    publishableKey,
    webhookSecret,
    dataDir,
    provider: providerWith({}),
    providerWith,
    ledger: () => ask<Ledger>(`${url}/_sim/ledger`),
    ledgerOf: (of) => ask<LedgerOf>(`${url}/_sim/ledger?of=${encodeURIComponent(of)}`),
    fault: async (fault, given = {}) =>
      (await ask<{ id: string }>(`${url}/_sim/faults`, 'POST', { fault, ...given })).id,
    endFault: async (id) => {
      const response = await fetch(`${url}/_sim/faults/${id}`, { method: 'DELETE' });
      await response.body?.cancel();
      return response.ok;
    },
    struck: async () =>
      (await ask<{ struck: Partial<Record<FaultKind, number>> }>(`${url}/_sim/faults`)).struck,
    clearFaults: async () => {
      await ask(`${url}/_sim/faults`, 'DELETE');
    },
    webhooksTo: async (target) => {
      await ask(`${url}/_sim/webhooks/target`, 'POST', { url: target });
    },
    releaseWebhooks: async () =>
      (await ask<{ released: number }>(`${url}/_sim/webhooks/release`, 'POST')).released,
    settleRefunds: async () =>
      (await ask<{ settled: string[] }>(`${url}/_sim/refunds/settle`, 'POST')).settled,
    refundByHand: async (intent, amount) =>
      (await ask<{ id: string }>(`${url}/_sim/refunds`, 'POST', { intent, amount })).id,
    dispute: async (intent, wish = {}) =>
      (await ask<{ id: string }>(`${url}/_sim/disputes`, 'POST', { intent, ...wish })).id,
    decideDispute: async (dispute, outcome) => {
      await ask(`${url}/_sim/disputes/decide`, 'POST', { dispute, outcome });
    },
    rateLimit: async (perSecond) => {
      await ask(`${url}/_sim/rate-limit`, 'POST', { perSecond });
    },
    answerBank: (actionUrl, answer) => answerBank(actionUrl, answer),
    confirmationToken: (card) => confirmationToken(url, publishableKey, card),
    kill,
    restart: async () => {
      await kill();
      running = await launch(dataDir, port, options);
    },
    stop: async () => {
      await kill();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function launch(
  dataDir: string,
  port: number,
  options: { webhookUrl?: string; webhookEvents?: string },
): Promise<{ child: ChildProcess; port: number; url: string }> {
  const args = [
    ...programArguments('payment-simulator/main.ts'),
    '--data-dir',
    dataDir,
    '--port',
    String(port),
  ];
  if (options.webhookUrl) args.push('--webhook-url', options.webhookUrl);
  if (options.webhookEvents) args.push('--webhook-events', options.webhookEvents);
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  for await (const line of createInterface({ input: child.stdout })) {
    const ready = JSON.parse(line) as { ready: boolean; port: number; url: string };
    child.stdout.resume();
    return { child, port: ready.port, url: ready.url };
  }
  throw new Error('the payment simulator ended before it was ready');
}

export async function ask<T>(url: string, method = 'GET', body?: unknown): Promise<T> {
  const response = await fetch(url, {
    method,
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  });
  const value = await response.json();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${JSON.stringify(value)}`);
  return value as T;
}

export async function answerBank(actionUrl: string, answer: 'authorise' | 'refuse'): Promise<string> {
  const secret = new URL(actionUrl).searchParams.get('client_secret') ?? '';
  const response = await fetch(actionUrl.split('?')[0] ?? '', {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ client_secret: secret, answer }),
  });
  await response.body?.cancel();
  const back = response.headers.get('location');
  if (response.status !== 303 || back === null)
    throw new Error(`the bank's page answered ${response.status}`);
  return back;
}

async function confirmationToken(url: string, publishableKey: string, card: string): Promise<string> {
  const fields: Record<string, string> = card.startsWith('pm_')
    ? { payment_method: card }
    : {
        'payment_method_data[type]': 'card',
        'payment_method_data[card][number]': card,
        'payment_method_data[card][exp_month]': '12',
        'payment_method_data[card][exp_year]': String(new Date().getUTCFullYear() + 2),
        'payment_method_data[card][cvc]': '123',
      };
  const response = await fetch(`${url}/v1/confirmation_tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${publishableKey}` },
    body: new URLSearchParams(fields),
  });
  const made = (await response.json()) as { id?: string };
  if (!made.id) throw new Error(`no confirmation token for ${card}: ${JSON.stringify(made)}`);
  return made.id;
}

let references = 0;

/** Opens a payment of 50.00 EUR, or as given. Returns its id and reference. */
export async function openPayment(
  provider: PaymentProvider,
  fields: Partial<Parameters<PaymentProvider['open']>[0]> = {},
): Promise<{ object: string; reference: string }> {
  references += 1;
  const reference = fields.reference ?? `order-${references}`;
  const answer = await provider.open({
    key: `${reference}-open`,
    eventId: 'event-1',
    amount: 5000,
    currency: 'EUR',
    description: 'Two seats',
    email: 'buyer@example.org',
    ...fields,
    reference,
  });
  if (answer.kind !== 'done') throw new Error(`open: ${JSON.stringify(answer)}`);
  return { object: answer.view.object, reference };
}

/** Repeats the call with the same key, as a reconciler does, until the result is not `unknown`. */
export async function untilKnown<A extends { kind: string }>(
  call: () => Promise<A>,
): Promise<Exclude<A, { kind: 'unknown' }>> {
  let answer: A | undefined;
  return await until(
    async () => {
      answer = await call();
      return answer.kind !== 'unknown' && (answer as Exclude<A, { kind: 'unknown' }>);
    },
    () => `a known result: ${JSON.stringify(answer)}`,
  );
}
