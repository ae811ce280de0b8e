import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import Stripe from 'stripe';
import { assert, impossible } from '../core/outcome.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type {
  AuthoriseCommand,
  CaptureCommand,
  DisputesAnswer,
  ListQuery,
  OpenCommand,
  PageAnswer,
  PaymentProvider,
  PaymentView,
  ProviderAnswer,
  ProviderEvent,
  RefundAnswer,
  RefundCommand,
  RefundsAnswer,
  VoidCommand,
} from './provider.ts';
import {
  disputeViewOf,
  madeBy,
  refundViewOf,
  unknown,
  type Verdict,
  verdictOf,
  viewOf,
} from './stripe-answers.ts';
import { type Judge, judgeAuthorise, judgeCapture, judgeVoid } from './stripe-judges.ts';

export interface StripeOptions {
  secretKey: string;
  /** Several while a secret is being rotated; blanks around them are a usual mistake and are taken off. */
  webhookSecrets: string[];
  /** `https://api.stripe.com` unless it is the simulator or a proxy. */
  apiBase?: string;
  /** Names this installation in the metadata of created objects. Null while it is not known. */
  installation?: () => string | null;
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
 * the same request again. It carries our key, so it cannot do the work twice.
 */
export function createStripeProvider(options: StripeOptions): PaymentProvider {
  const stripe = createClient(options);
  const secrets = options.webhookSecrets.map((secret) => secret.trim()).filter((secret) => secret !== '');
  const installation = options.installation ?? (() => null);
  const { look, attempt } = createAttempts(stripe, options.log, installation);

  return {
    name: 'stripe',
    capabilities: { hold: true, partialCapture: true, voidIsFinal: true, windowSeconds: HOLD_WINDOW_S },
    open: async (command) =>
      attempt(creation(stripe, command, installation()), null, (view) => ({ kind: 'done', view })),
    authorise: async (command) => attempt(confirmation(stripe, command), command.object, judgeAuthorise),
    capture: async (command) => attempt(capturing(stripe, command), command.object, judgeCapture),
    void: async (command) => attempt(cancellation(stripe, command), command.object, judgeVoid),
    refund: async (command) => refund(stripe, command, installation(), options.log),
    refunds: (object) => refundsOf(stripe, object),
    disputes: (object) => disputesOf(stripe, object),
    lookup: async (object) => {
      const found = await look(object);
      return 'kind' in found ? found : { kind: 'done', view: found };
    },
    list: async (query) => {
      const view = (intent: Stripe.PaymentIntent) => ({
        object: intent.id,
        createdAt: intent.created * 1000,
        view: viewOf(intent, installation()),
      });
      const expand = EXPAND.map((field) => `data.${field}`);
      const page = await pageOf(query, (params) => stripe.paymentIntents.list({ ...params, expand }), view);
      return page.kind === 'page' ? { kind: 'page', payments: page.views, next: page.next } : page;
    },
    listRefunds: (query) => pageOf(query, (params) => stripe.refunds.list(params), refundViewOf),
    listDisputes: (query) => pageOf(query, (params) => stripe.disputes.list(params), disputeViewOf),
    parseWebhook: (rawBody, signature) =>
      parseWebhook(stripe, secrets, installation(), rawBody, signature, options.clock.now()),
    tellsOfMoneyBack: (type) => !type.startsWith('payment_intent.'),
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

type Call = () => Promise<Stripe.PaymentIntent>;
type Unknown = ProviderAnswer & { kind: 'unknown' };

function creation(stripe: Stripe, command: OpenCommand, installation: string | null): Call {
  const options = keyed(command.key);
  const params: Stripe.PaymentIntentCreateParams = {
    amount: minor(command.amount),
    currency: command.currency.toLowerCase(),
    capture_method: 'manual',
    // `payment_method_types` is refused since API version 2026-09-30; this list filters instead.
    allowed_payment_method_types: ['card'],
    // Stripe rejects an empty text. There is no `receipt_email`, because Stripe would mail a receipt in addition to ours, and
    // an address that it does not accept would fail the whole payment.
    ...(command.description && { description: command.description }),
    metadata: { order: command.reference, event: command.eventId, ...marked(installation) },
    expand: EXPAND,
  };
  return () => stripe.paymentIntents.create(params, options);
}

/** Two installations, or another shop, may share an account: each leaves the objects of the others alone. */
function marked(installation: string | null): { installation?: string } {
  return installation === null ? {} : { installation };
}

function confirmation(stripe: Stripe, command: AuthoriseCommand): Call {
  const options = keyed(command.key);
  const { instrument } = command;
  const params: Stripe.PaymentIntentConfirmParams = {
    ...('paymentMethod' in instrument
      ? { payment_method: instrument.paymentMethod }
      : { confirmation_token: instrument.confirmationToken }),
    return_url: command.returnUrl,
    expand: EXPAND,
  };
  return () => stripe.paymentIntents.confirm(command.object, params, options);
}

function capturing(stripe: Stripe, command: CaptureCommand): Call {
  const options = keyed(command.key);
  const params = { amount_to_capture: minor(command.amount), expand: EXPAND };
  return () => stripe.paymentIntents.capture(command.object, params, options);
}

function cancellation(stripe: Stripe, command: VoidCommand): Call {
  const options = keyed(command.key);
  return () =>
    stripe.paymentIntents.cancel(
      command.object,
      { cancellation_reason: 'abandoned', expand: EXPAND },
      options,
    );
}

interface Attempts {
  look(object: string): Promise<PaymentView | Unknown>;
  /** Makes the call and judges what became of it, looking the object up where the error says no more. */
  attempt(call: Call, object: string | null, judge: Judge): Promise<ProviderAnswer>;
}

function createAttempts(stripe: Stripe, log: Logger, installation: () => string | null): Attempts {
  const look = async (object: string): Promise<PaymentView | Unknown> => {
    const verdict = await answerOf(
      () => stripe.paymentIntents.retrieve(object, { expand: EXPAND }),
      installation(),
    );
    if (verdict.kind === 'view') return same(object, verdict.view);
    return unknown(verdict.kind === 'unknown' ? verdict.reason : 'not_found', verdict.detail);
  };

  const attempt = async (call: Call, object: string | null, judge: Judge): Promise<ProviderAnswer> => {
    const verdict = await answerOf(call, installation());
    switch (verdict.kind) {
      case 'view': {
        const view = same(object ?? verdict.view.object, verdict.view);
        return 'kind' in view ? view : judge(view, true);
      }
      case 'unknown':
        log.warn({ object, reason: verdict.reason, detail: verdict.detail }, 'stripe: outcome unknown');
        return verdict;
      case 'refused': {
        const view = verdict.intent ? viewOf(verdict.intent, installation()) : null;
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
  return { look, attempt };
}

/** Another object's state says nothing about the one that was asked for. */
function same(object: string, view: PaymentView): PaymentView | Unknown {
  if (view.object === object) return view;
  return unknown('server_error', `asked about ${object}, answered about ${view.object}`);
}

async function answerOf(
  call: Call,
  installation: string | null,
): Promise<Verdict | { kind: 'view'; view: PaymentView }> {
  try {
    const intent = await call();
    const view = viewOf(intent, installation);
    return view ? { kind: 'view', view } : unknown('server_error', `unknown status ${intent.status}`);
  } catch (fault) {
    return verdictOf(fault);
  }
}

const KEY_LENGTH_MAX = 255;

/** Without a key the SDK would make one up, and our retry would do the work twice. */
function keyed(key: string): Stripe.RequestOptions {
  assert(key.length > 0 && key.length <= KEY_LENGTH_MAX, `idempotency key of ${key.length} characters`);
  return { idempotencyKey: key };
}

/** An amount left out would mean the whole, so a wrong one must never be sent. */
function minor(amount: number): number {
  assert(Number.isSafeInteger(amount) && amount > 0, `amount ${amount}`);
  return amount;
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

/** As many as Stripe gives at once. */
const PAGE_MAX = 100;

type PageParams = Stripe.PaginationParams & { created: Stripe.RangeQueryParam };

/** One page of a list by creation. */
async function pageOf<Row extends { id: string }, View>(
  query: ListQuery,
  fetchPage: (params: PageParams) => PromiseLike<{ data: Row[]; has_more: boolean }>,
  view: (row: Row) => View,
): Promise<PageAnswer<View>> {
  const params: PageParams = {
    created: { gte: Math.floor(query.createdFrom / 1000), lte: Math.ceil(query.createdTo / 1000) },
    limit: PAGE_MAX,
    ...(query.cursor !== null && { starting_after: query.cursor }),
  };
  try {
    const page = await fetchPage(params);
    return {
      kind: 'page',
      views: page.data.map(view),
      next: page.has_more ? (page.data.at(-1)?.id ?? null) : null,
    };
  } catch (fault) {
    const verdict = verdictOf(fault);
    return unknown(verdict.kind === 'unknown' ? verdict.reason : 'server_error', verdict.detail);
  }
}

async function refund(
  stripe: Stripe,
  command: RefundCommand,
  installation: string | null,
  log: Logger,
): Promise<RefundAnswer> {
  const options = keyed(command.key);
  const params = {
    payment_intent: command.object,
    amount: minor(command.amount),
    metadata: { refund: command.reference, ...marked(installation) },
  };
  try {
    const answer = await stripe.refunds.create(params, options);
    const view = refundViewOf(answer);
    if (view.object !== command.object || view.amount !== command.amount) {
      return unknown('server_error', `asked to refund ${command.object}, answered about ${answer.id}`);
    }
    if (view.status === 'failed') {
      return {
        kind: 'refused',
        detail: `refund ${answer.id} ${answer.status}: ${answer.failure_reason ?? ''}`,
      };
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

async function refundsOf(stripe: Stripe, object: string): Promise<RefundsAnswer> {
  const all = await allOf((params) => stripe.refunds.list({ payment_intent: object, ...params }));
  return 'kind' in all ? all : { kind: 'done', refunds: all.rows.map(refundViewOf) };
}

async function disputesOf(stripe: Stripe, object: string): Promise<DisputesAnswer> {
  const all = await allOf((params) => stripe.disputes.list({ payment_intent: object, ...params }));
  return 'kind' in all ? all : { kind: 'done', disputes: all.rows.map(disputeViewOf) };
}

/** All that one object has, page by page. */
async function allOf<Row extends { id: string }>(
  fetchPage: (params: Stripe.PaginationParams) => PromiseLike<{ data: Row[]; has_more: boolean }>,
): Promise<{ rows: Row[] } | Unknown> {
  const rows: Row[] = [];
  try {
    for (let after: string | undefined; ; ) {
      const page = await fetchPage({
        limit: PAGE_MAX,
        ...(after !== undefined && { starting_after: after }),
      });
      rows.push(...page.data);
      after = page.data.at(-1)?.id;
      if (!page.has_more || after === undefined) return { rows };
    }
  } catch (fault) {
    const verdict = verdictOf(fault);
    return verdict.kind === 'unknown' ? verdict : unknown('not_found', verdict.detail);
  }
}

function parseWebhook(
  stripe: Stripe,
  secrets: string[],
  installation: string | null,
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
      return eventOf(event, installation);
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
function eventOf(event: unknown, installation: string | null): ProviderEvent | null {
  const { id, type, data } = (event ?? {}) as { id?: unknown; type?: unknown; data?: { object?: unknown } };
  if (!isName(id) || !isName(type)) return null;
  const about = (data?.object ?? {}) as {
    object?: unknown;
    id?: unknown;
    payment_intent?: unknown;
    metadata?: unknown;
  };
  const intent = about.object === 'payment_intent' ? about.id : about.payment_intent;
  const expanded = typeof intent === 'object' && intent !== null ? (intent as { id?: unknown }).id : intent;
  // Stripe copies a payment's metadata to its charges; refunds and disputes have their own, or none.
  const carries = about.object === 'payment_intent' || about.object === 'charge';
  return {
    id,
    type,
    object: isName(expanded) ? expanded : null,
    madeBy: carries ? madeBy((about.metadata ?? {}) as Stripe.Metadata, installation) : null,
  };
}

/** Short and without control characters or halves of surrogate pairs: text that the record can keep. */
function isName(text: unknown): text is string {
  return typeof text === 'string' && /^\P{C}{1,255}$/u.test(text);
}
