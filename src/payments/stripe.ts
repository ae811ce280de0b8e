import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import Stripe from 'stripe';
import { impossible } from '../core/outcome.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type {
  PaymentProvider,
  PaymentView,
  ProviderAnswer,
  ProviderEvent,
  RefundAnswer,
} from './provider.ts';
import { refundViewOf, unknown, type Verdict, verdictOf, viewOf } from './stripe-answers.ts';

export interface StripeOptions {
  secretKey: string;
  /** Several while a secret is being rotated; blanks around them are a usual mistake and are taken off. */
  webhookSecrets: string[];
  /** `https://api.stripe.com` unless it is the simulator or a proxy. */
  apiBase?: string;
  /** Silence after which a call is given up as unknown, ms. The SDK's own default is 80 s. */
  timeoutMs?: number;
  log: Logger;
  clock: Clock;
}

const TIMEOUT_MS = 8_000;
const PING_TIMEOUT_MS = 3_000;
/** Age at which a webhook's signature is stale, and, which the SDK does not check, how far ahead it may be. */
const SIGNATURE_TOLERANCE_S = 300;
const HOLD_WINDOW_S = 7 * 24 * 3600;
/** The charge tells the card's fingerprint and until when it can be captured; before it exists the method does. */
const EXPAND = ['latest_charge', 'payment_method'];

/**
 * Stripe through its official SDK: PaymentIntents with manual capture, confirmed from the server. Cards only, because
 * many other methods cannot hold money. `lookup` answers `done` with whatever state the object is in.
 *
 * The SDK's retries are off, with one exception that it does not let us switch off: after a reset connection it sends
 * the same request once more. It carries our key, so it cannot do the work twice.
 */
export function createStripeProvider(options: StripeOptions): PaymentProvider {
  const { log, clock } = options;
  const stripe = createClient(options);
  const secrets = options.webhookSecrets.map((secret) => secret.trim()).filter((secret) => secret !== '');
  const withKey = (key: string): Stripe.RequestOptions => ({ idempotencyKey: key });

  const look = async (object: string): Promise<PaymentView | (ProviderAnswer & { kind: 'unknown' })> => {
    try {
      const intent = await stripe.paymentIntents.retrieve(object, { expand: EXPAND });
      return viewOf(intent) ?? unknown('server_error', `unknown status ${intent.status}`);
    } catch (fault) {
      const verdict = verdictOf(fault);
      return unknown(verdict.kind === 'unknown' ? verdict.reason : 'not_found', verdict.detail);
    }
  };

  /** Makes the call and judges what became of it by `judge`, looking the object up where the error says no more. */
  const attempt = async (
    call: () => Promise<Stripe.PaymentIntent>,
    object: string | null,
    judge: (view: PaymentView, answered: boolean) => ProviderAnswer,
  ): Promise<ProviderAnswer> => {
    const verdict = await answerOf(call);
    switch (verdict.kind) {
      case 'view':
        return judge(verdict.view, true);
      case 'unknown':
        log.warn({ object, reason: verdict.reason, detail: verdict.detail }, 'stripe: outcome unknown');
        return verdict;
      case 'refused': {
        const view = verdict.intent ? viewOf(verdict.intent) : null;
        log.info({ object, detail: verdict.detail }, 'stripe: refused');
        return { kind: 'refused', decline: verdict.decline, detail: verdict.detail, view };
      }
      case 'look': {
        if (object === null) return unknown('conflict', verdict.detail);
        const found = await look(object);
        return 'kind' in found ? found : judge(found, false);
      }
      default:
        return impossible(verdict, 'verdict');
    }
  };

  return {
    name: 'stripe',
    capabilities: { hold: true, partialCapture: true, voidIsFinal: true, windowSeconds: HOLD_WINDOW_S },

    open: (command) =>
      attempt(
        () =>
          stripe.paymentIntents.create(
            {
              amount: command.amount,
              currency: command.currency.toLowerCase(),
              capture_method: 'manual',
              // `payment_method_types` is refused since API version 2026-09-30; this list filters instead.
              allowed_payment_method_types: ['card'],
              description: command.description,
              ...(command.email && { receipt_email: command.email }),
              metadata: { order: command.reference, event: command.eventId },
              expand: EXPAND,
            },
            withKey(command.key),
          ),
        null,
        (view) => ({ kind: 'done', view }),
      ),

    authorise: (command) =>
      attempt(
        () =>
          stripe.paymentIntents.confirm(
            command.object,
            {
              ...('paymentMethod' in command.instrument
                ? { payment_method: command.instrument.paymentMethod }
                : { confirmation_token: command.instrument.confirmationToken }),
              return_url: command.returnUrl,
              expand: EXPAND,
            },
            withKey(command.key),
          ),
        command.object,
        judgeAuthorise,
      ),

    capture: (command) =>
      attempt(
        () =>
          stripe.paymentIntents.capture(
            command.object,
            { amount_to_capture: command.amount, expand: EXPAND },
            withKey(command.key),
          ),
        command.object,
        judgeCapture,
      ),

    void: (command) =>
      attempt(
        () =>
          stripe.paymentIntents.cancel(
            command.object,
            { cancellation_reason: 'abandoned', expand: EXPAND },
            withKey(command.key),
          ),
        command.object,
        judgeVoid,
      ),

    refund: (command) => refund(stripe, command, log),

    lookup: async (object) => {
      const found = await look(object);
      return 'kind' in found ? found : { kind: 'done', view: found };
    },

    parseWebhook: (rawBody, signature) => parseWebhook(stripe, secrets, rawBody, signature, clock.now()),

    ping: async () => {
      try {
        await stripe.balance.retrieve({}, { timeout: PING_TIMEOUT_MS });
        return { ok: true };
      } catch (fault) {
        return { ok: false, reason: verdictOf(fault).detail };
      }
    },
  };
}

async function answerOf(
  call: () => Promise<Stripe.PaymentIntent>,
): Promise<Verdict | { kind: 'view'; view: PaymentView }> {
  try {
    const intent = await call();
    const view = viewOf(intent);
    return view ? { kind: 'view', view } : unknown('server_error', `unknown status ${intent.status}`);
  } catch (fault) {
    return verdictOf(fault);
  }
}

function createClient(options: StripeOptions): Stripe {
  const base = new URL(options.apiBase ?? 'https://api.stripe.com');
  const plain = base.protocol === 'http:';
  const timeout = options.timeoutMs ?? TIMEOUT_MS;
  // A pool of our own: two providers in one process (tests, two accounts) do not share connections. Its timeout covers
  // connecting too, which the SDK's does not.
  const pool = { keepAlive: true, timeout };
  return new Stripe(options.secretKey, {
    host: base.hostname.replace(/^\[|\]$/g, ''),
    port: base.port === '' ? (plain ? 80 : 443) : Number(base.port),
    protocol: plain ? 'http' : 'https',
    timeout,
    maxNetworkRetries: 0,
    telemetry: false,
    httpAgent: plain ? new HttpAgent(pool) : new HttpsAgent(pool),
  });
}

/** `answered`: the view is the call's own answer; otherwise it was looked up after the call did not fit the state. */
function judgeAuthorise(view: PaymentView, answered: boolean): ProviderAnswer {
  switch (view.status) {
    case 'authorised':
    case 'captured':
      return { kind: 'done', view };
    case 'waiting':
    case 'processing':
      return { kind: 'pending', view };
    case 'cancelled':
      return refused(view, 'the payment was cancelled');
    case 'new':
      // Right after an unexpected state this means that the state moved on meanwhile; nothing of this call stands.
      return refused(view, answered ? 'not authorised' : 'not possible when it was tried');
    default:
      return impossible(view.status, 'status');
  }
}

function judgeCapture(view: PaymentView, answered: boolean): ProviderAnswer {
  switch (view.status) {
    case 'captured':
      return { kind: 'done', view };
    case 'processing':
      return { kind: 'pending', view };
    case 'authorised':
      // Answered, yet still reserved, or refused for its state and now in that very state: nobody can say.
      return unknown('conflict', answered ? 'still reserved after capture' : 'reserved, yet not capturable');
    case 'new':
    case 'waiting':
    case 'cancelled':
      return refused(view, `nothing is reserved: ${view.status}`);
    default:
      return impossible(view.status, 'status');
  }
}

function judgeVoid(view: PaymentView, answered: boolean): ProviderAnswer {
  switch (view.status) {
    case 'cancelled':
      return { kind: 'done', view };
    case 'captured':
      return refused(view, 'already captured');
    case 'processing':
      return { kind: 'pending', view };
    case 'new':
    case 'waiting':
    case 'authorised':
      return unknown('conflict', answered ? `still ${view.status} after cancelling` : `now ${view.status}`);
    default:
      return impossible(view.status, 'status');
  }
}

function refused(view: PaymentView, detail: string): ProviderAnswer {
  return { kind: 'refused', decline: view.decline ?? 'declined', detail, view };
}

async function refund(
  stripe: Stripe,
  command: Parameters<PaymentProvider['refund']>[0],
  log: Logger,
): Promise<RefundAnswer> {
  try {
    const made = await stripe.refunds.create(
      { payment_intent: command.object, amount: command.amount, metadata: { refund: command.reference } },
      { idempotencyKey: command.key },
    );
    const view = refundViewOf(made, command.object);
    if (view.status === 'failed') {
      return { kind: 'refused', detail: `refund ${made.id} ${made.status}: ${made.failure_reason ?? ''}` };
    }
    return { kind: view.status === 'succeeded' ? 'done' : 'pending', refund: view };
  } catch (fault) {
    const verdict = verdictOf(fault);
    if (verdict.kind !== 'unknown') return { kind: 'refused', detail: verdict.detail };
    log.warn(
      { object: command.object, reason: verdict.reason, detail: verdict.detail },
      'stripe: refund unknown',
    );
    return verdict;
  }
}

function parseWebhook(
  stripe: Stripe,
  secrets: string[],
  rawBody: Uint8Array,
  signature: string | undefined,
  now: number,
): ProviderEvent | null {
  if (signature === undefined || isAhead(signature, now)) return null;
  const payload = Buffer.from(rawBody.buffer, rawBody.byteOffset, rawBody.byteLength);
  for (const secret of secrets) {
    try {
      const event: unknown = stripe.webhooks.constructEvent(
        payload,
        signature,
        secret,
        SIGNATURE_TOLERANCE_S,
        undefined,
        now,
      );
      return eventOf(event);
    } catch {
      // Another secret may fit; what fits none is forged, stale or malformed, and all are answered alike.
    }
  }
  return null;
}

/** The SDK refuses old timestamps only. As it does, the last `t=` counts. */
function isAhead(signature: string, now: number): boolean {
  const stamps = [...signature.matchAll(/(?:^|,)t=([^,]*)/g)];
  const seconds = Number.parseInt(stamps.at(-1)?.[1] ?? '', 10);
  return !Number.isFinite(seconds) || seconds > Math.floor(now / 1000) + SIGNATURE_TOLERANCE_S;
}

/** Signed, so it is Stripe's; still read with care, because another API version may shape it otherwise. */
function eventOf(event: unknown): ProviderEvent | null {
  const { id, type, data } = (event ?? {}) as { id?: unknown; type?: unknown; data?: { object?: unknown } };
  if (typeof id !== 'string' || typeof type !== 'string') return null;
  const about = (data?.object ?? {}) as { object?: unknown; id?: unknown; payment_intent?: unknown };
  const intent = about.object === 'payment_intent' ? about.id : about.payment_intent;
  const expanded = typeof intent === 'object' && intent !== null ? (intent as { id?: unknown }).id : intent;
  return { id, type, object: typeof expanded === 'string' ? expanded : null };
}
