import type { EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';

/** Statements about webhook endpoints and what they are owed (functions/webhooks.sql). Times are epoch ms. */

/** The event types that other systems can be notified about. `webhook.trial` is sent only on request. */
export const happenings = [
  'order.confirmed',
  'order.cancelled',
  'order.closed_late',
  'order.money_returned',
  'refund.created',
  'refund.succeeded',
  'refund.failed',
  'event.opened',
  'event.paused',
  'event.sold_out',
  'event.closed',
  'event.cancelled',
] as const;
export type WebhookHappening = (typeof happenings)[number];

export const webhookBounds = {
  /** Each is asked about by itself, a few times a second. */
  endpointsMax: 50,
  /** Secrets that are valid at the same time, while some are being replaced. */
  secretsMax: 4,
  urlLengthMax: 1_000,
  noteLengthMax: 200,
  /** How long a replaced secret stays valid: by default, and at most. */
  keepMs: 24 * 3_600_000,
  keepMsMax: 30 * 24 * 3_600_000,
} as const;

export interface WebhookEndpoint {
  endpoint: string;
  url: string;
  /** Public id. Null means every event. */
  event: string | null;
  happenings: WebhookHappening[];
  note: string | null;
  state: 'active' | 'disabled' | 'removed';
  /** A sentence for the operator; null while active. */
  disabledWhy: string | null;
  disabledAt: number | null;
  /** Failures since the last success. */
  failures: number;
  failingSince: number | null;
  restsUntil: number | null;
  createdBy: string;
  createdAt: number;
  /** Deliveries that it has not taken yet. */
  due: number;
  /** Valid secrets, oldest first. A secret itself is shown only when it is created. */
  secrets: { createdAt: number; until: number | null }[];
}

export interface WebhookDelivery {
  delivery: string;
  endpoint: string;
  event: string | null;
  what: string;
  state: 'due' | 'delivered' | 'failed' | 'dropped';
  attempts: number;
  /** Time of the next attempt. Null if there is no automatic one. */
  dueAt: number | null;
  createdAt: number;
  updatedAt: number;
  /** HTTP status of the last attempt. */
  status: number | null;
  error: string | null;
  durationMs: number | null;
}

export interface WebhookAttempt {
  attempt: number;
  at: number;
  /** HTTP status. Null if there was no response. */
  status: number | null;
  /** Null with a status: it was taken. Null without one: the process died, or it is under way. */
  error: string | null;
  durationMs: number | null;
}

export async function listEndpoints(db: Db): Promise<WebhookEndpoint[]> {
  const rows = await db.query<{ endpoint: WebhookEndpoint }>(
    'webhook_endpoints',
    `SELECT webhook_endpoint_json(e) AS endpoint FROM webhook_endpoints e WHERE state <> 'removed' ORDER BY created_at`,
  );
  return rows.map(({ endpoint }) => endpoint);
}

export async function findEndpoint(db: Db, endpoint: string): Promise<WebhookEndpoint | null> {
  const rows = await db.query<{ endpoint: WebhookEndpoint }>(
    'webhook_endpoint',
    `SELECT webhook_endpoint_json(e) AS endpoint FROM webhook_endpoints e WHERE endpoint_id = $1 AND state <> 'removed'`,
    [endpoint],
  );
  return rows[0]?.endpoint ?? null;
}

export interface NewEndpoint {
  endpoint: string;
  /** Null means every event. */
  event: EventNo | null;
  url: string;
  happenings: readonly WebhookHappening[];
  note: string | null;
  secret: string;
  actor: string;
}

/** As it is called: one text an address, so that lists and the log of actions name the host that deliveries go to. */
const asCalled = (url: string): string => new URL(url).href;

/** `url` has to be one. */
export async function makeEndpoint(
  db: Db,
  { endpoint, event, url, happenings: wanted, note, secret, actor }: NewEndpoint,
): Promise<{ kind: 'made'; endpoint: WebhookEndpoint } | { kind: 'too_many' }> {
  const rows = await db.query<{
    outcome: { kind: 'made'; endpoint: WebhookEndpoint } | { kind: 'too_many' };
  }>('webhook_endpoint_make', 'SELECT webhook_endpoint_make($1, $2, $3, $4, $5, $6, $7, $8) AS outcome', [
    endpoint,
    event,
    asCalled(url),
    wanted,
    note,
    secret,
    webhookBounds.endpointsMax,
    actor,
  ]);
  return rows[0]!.outcome;
}

export interface EndpointChanges {
  url?: string;
  happenings?: readonly WebhookHappening[];
  note?: string | null;
  /** `removed` is for good. */
  state?: WebhookEndpoint['state'];
}
export type EndpointChanged = { kind: 'changed'; endpoint: WebhookEndpoint } | { kind: 'unknown' };

export async function changeEndpoint(
  db: Db,
  endpoint: string,
  changes: EndpointChanges,
  actor: string,
): Promise<EndpointChanged> {
  const rows = await db.query<{ outcome: EndpointChanged }>(
    'webhook_endpoint_change',
    'SELECT webhook_endpoint_change($1, $2, $3) AS outcome',
    [
      endpoint,
      JSON.stringify(changes.url === undefined ? changes : { ...changes, url: asCalled(changes.url) }),
      actor,
    ],
  );
  return rows[0]!.outcome;
}

/** A further secret; those before it count for `keepMs` more. */
export async function addSecret(
  db: Db,
  { endpoint, secret, keepMs, actor }: { endpoint: string; secret: string; keepMs: number; actor: string },
): Promise<EndpointChanged | { kind: 'too_many' }> {
  const rows = await db.query<{ outcome: EndpointChanged | { kind: 'too_many' } }>(
    'webhook_secret_add',
    'SELECT webhook_secret_add($1, $2, $3, $4, $5) AS outcome',
    [endpoint, secret, keepMs, webhookBounds.secretsMax, actor],
  );
  return rows[0]!.outcome;
}

/** Owes a trial delivery; false: the endpoint is unknown or disabled. */
export async function oweTrial(db: Db, endpoint: string, delivery: string, actor: string): Promise<boolean> {
  const rows = await db.query<{ owed: boolean }>(
    'webhook_trial',
    'SELECT webhook_trial($1, $2, $3) AS owed',
    [endpoint, delivery, actor],
  );
  return rows[0]!.owed;
}

/** `disabled`: owed, and sent when the endpoint is enabled. */
export async function deliverAgain(
  db: Db,
  delivery: string,
  actor: string,
): Promise<'owed' | 'disabled' | 'under_way' | 'unknown'> {
  const rows = await db.query<{ outcome: 'owed' | 'disabled' | 'under_way' | 'unknown' }>(
    'webhook_again',
    'SELECT webhook_again($1, $2) AS outcome',
    [delivery, actor],
  );
  return rows[0]!.outcome;
}

const deliveryColumns = `d.delivery_id AS delivery, d.endpoint_id AS endpoint, d.what, d.state, d.attempts,
  (SELECT event_id FROM events v WHERE v.event_no = d.event_no) AS event,
  CASE WHEN d.state = 'due' THEN d.due_at END AS "dueAt", d.created_at AS "createdAt", d.updated_at AS "updatedAt",
  a.status, a.error, a.duration_ms AS "durationMs"`;
const lastAttempt = `LEFT JOIN webhook_attempts a ON a.delivery_id = d.delivery_id AND a.attempt = d.attempts`;

/** An endpoint's deliveries, the newest first; those before the delivery `before` when given. */
export function listDeliveries(
  db: Db,
  endpoint: string,
  filter: { state?: WebhookDelivery['state']; before?: string; limit: number },
): Promise<WebhookDelivery[]> {
  return db.query<WebhookDelivery>(
    'webhook_deliveries',
    `SELECT ${deliveryColumns} FROM webhook_deliveries d ${lastAttempt}
     WHERE d.endpoint_id = $1 AND ($2::text IS NULL OR d.state = $2)
       AND ($3::uuid IS NULL OR (d.created_at, d.delivery_id) <
         (SELECT b.created_at, b.delivery_id FROM webhook_deliveries b WHERE b.delivery_id = $3))
     ORDER BY d.created_at DESC, d.delivery_id DESC LIMIT $4`,
    [endpoint, filter.state ?? null, filter.before ?? null, filter.limit],
  );
}

/** One delivery with the text that is sent and every attempt. */
export async function findDelivery(
  db: Db,
  delivery: string,
): Promise<(WebhookDelivery & { body: string; log: WebhookAttempt[] }) | null> {
  const rows = await db.query<WebhookDelivery & { body: string; log: WebhookAttempt[] }>(
    'webhook_delivery',
    `SELECT ${deliveryColumns}, d.body,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('attempt', l.attempt, 'at', epoch_ms(l.at), 'status', l.status,
          'error', l.error, 'durationMs', l.duration_ms) ORDER BY l.attempt), '[]')
        FROM webhook_attempts l WHERE l.delivery_id = d.delivery_id) AS log
     FROM webhook_deliveries d ${lastAttempt} WHERE d.delivery_id = $1`,
    [delivery],
  );
  return rows[0] ?? null;
}

// ---- the worker's ----

/** One attempt that is ours to make now. */
export interface TakenDelivery {
  delivery: string;
  endpoint: string;
  url: string;
  body: string;
  /** From 1 on. */
  attempt: number;
  /** The newest first. */
  secrets: string[];
}

export function takeDeliveries(
  db: Db,
  bounds: { perEndpoint: number; failuresMax: number; leaseMs: number },
): Promise<TakenDelivery[]> {
  return db.query<TakenDelivery>('webhook_take', 'SELECT * FROM webhook_take($1, $2, $3)', [
    bounds.perEndpoint,
    bounds.failuresMax,
    bounds.leaseMs,
  ]);
}

export interface AttemptRecord {
  delivery: string;
  attempt: number;
  status: number | null;
  /** Our description of the failure. Null if it was accepted. */
  error: string | null;
  durationMs: number;
  gapMs: number;
  failuresMax: number;
  restMs: number;
  restMaxMs: number;
  giveUpMs: number;
}

export async function recordAttempt(db: Db, went: AttemptRecord): Promise<WebhookDelivery['state'] | 'gone'> {
  const { delivery, attempt, status, error, durationMs, gapMs, failuresMax, restMs, restMaxMs, giveUpMs } =
    went;
  const rows = await db.query<{ state: WebhookDelivery['state'] | 'gone' }>(
    'webhook_went',
    'SELECT webhook_went($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS state',
    [delivery, attempt, status, error, durationMs, gapMs, failuresMax, restMs, restMaxMs, giveUpMs],
  );
  return rows[0]!.state;
}

/** Returns the number of deleted deliveries. */
export async function tidyDeliveries(db: Db, keepDays: number, limit: number): Promise<number> {
  const rows = await db.query<{ gone: number }>('webhook_tidy', 'SELECT webhook_tidy($1, $2) AS gone', [
    keepDays,
    limit,
  ]);
  return rows[0]!.gone;
}
