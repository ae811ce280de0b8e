import path from 'node:path';
import { startSimulatorChild } from '../../payment-simulator/child.ts';
import type { HttpDeps } from '../http/deps.ts';
import { metered, type ProviderMeter } from '../payments/metered.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import { createStripeProvider } from '../payments/stripe.ts';
import type { EventObject } from '../read-path/published.ts';
import type { Config } from '../runtime/config.ts';
import type { Shutdown } from '../runtime/shutdown.ts';
import { storedSecret } from '../runtime/stored-secret.ts';
import type { AppOptions, Runtime } from './runtime.ts';

type StripeConfig = Extract<Config['payments'], { kind: 'stripe' }>;

/** Stripe, or what speaks like it, as configured. */
export function stripeProvider(
  payments: Pick<StripeConfig, 'secretKey' | 'webhookSecrets' | 'apiBase'>,
  { clock, log }: Pick<Runtime, 'clock' | 'log'>,
  installation?: () => string | null,
): PaymentProvider {
  const { secretKey, webhookSecrets, apiBase } = payments;
  return createStripeProvider({
    secretKey,
    webhookSecrets: [...webhookSecrets],
    apiBase,
    installation,
    clock,
    log,
  });
}

export interface Payments {
  provider: PaymentProvider;
  meter: ProviderMeter;
  page: EventObject['payment'];
  origins: HttpDeps['paymentOrigins'];
  simulatorUrl: string | null;
  webhooksTo(url: string): Promise<void>;
  /** From now on what is created carries this mark. */
  markWith(installation: string): void;
}

/** Stripe's own script with Stripe's API. A server that replaces the API also replaces the script. */
function cardForm(apiBase: string): { script: string; origins: Payments['origins'] } {
  if (new URL(apiBase).origin !== 'https://api.stripe.com') {
    const { origin } = new URL(apiBase);
    return { script: `${origin}/v3/`, origins: { script: [origin], connect: [origin], frame: [origin] } };
  }
  return {
    script: 'https://js.stripe.com/v3/',
    origins: {
      script: ['https://js.stripe.com'],
      connect: ['https://api.stripe.com'],
      frame: ['https://js.stripe.com', 'https://hooks.stripe.com'],
    },
  };
}

export async function openPayments(
  config: Config,
  options: AppOptions,
  shutdown: Shutdown,
): Promise<Payments> {
  const { clock, log, random } = options;
  let installation: string | null = null;
  const markWith = (id: string): void => {
    installation = id;
  };
  const counted = (made: PaymentProvider) => metered(options.replace?.provider?.(made) ?? made, clock);
  if (config.payments.kind === 'stripe') {
    const { apiBase, publishableKey, live } = config.payments;
    const provider = stripeProvider(config.payments, options, () => installation);
    const { script, origins } = cardForm(apiBase);
    return {
      ...counted(provider),
      page: { publishableKey, script, test: !live },
      origins,
      simulatorUrl: null,
      webhooksTo: async () => {},
      markWith,
    };
  }
  options.onProgress?.('Starting the payment simulator …');
  const keys = { secretKey: 'sk_test_simulator', publishableKey: 'pk_test_simulator' };
  const webhookSecret = `whsec_${storedSecret(config.dataDir, 'simulator-webhook-secret', random)}`;
  const dataDir = path.join(config.dataDir, 'simulator');
  const child = await startSimulatorChild({ dataDir, host: '127.0.0.1', ...keys, webhookSecret, clock, log });
  shutdown.add('payment simulator', () => child.stop(), 8_000);
  const { secretKey } = keys;
  const provider = stripeProvider(
    { secretKey, webhookSecrets: [webhookSecret], apiBase: child.url },
    options,
    () => installation,
  );
  return {
    ...counted(provider),
    page: { publishableKey: keys.publishableKey, script: `${child.url}/v3/`, test: true },
    origins: { script: [child.url], connect: [child.url], frame: [child.url] },
    simulatorUrl: child.url,
    webhooksTo: child.webhooksTo,
    markWith,
  };
}
