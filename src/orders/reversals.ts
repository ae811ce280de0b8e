import type { OrderId } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import type { FindingKind } from './reconcile-findings.ts';

/**
 * Money that left a payment without us: refunds that were made at the provider, and disputes of the buyer's bank. The steps are
 * in functions/provider.sql. Times are epoch ms, amounts minor units.
 */
export interface Reversal {
  /** The provider's id of the refund or the dispute. */
  reversal: string;
  kind: 'refund' | 'dispute';
  order: OrderId;
  object: string;
  amount: number;
  currency: string;
  state: 'pending' | 'done' | 'failed' | 'open' | 'won' | 'lost';
  /** In the order's currency, what can no longer be refunded: 0 for a failed refund and a dispute that was won. */
  taken: number;
  detail: ReversalDetail;
  createdAt: number;
  updatedAt: number;
}

export interface ReversalDetail {
  /** In the provider's words. */
  reason?: string;
  inquiry?: boolean;
  /** ISO 8601: until when a dispute can be answered. */
  respondBy?: string;
  fee?: { amount: number; currency: string };
}

/** One as the provider shows it, with what is said about it on the operator's list. */
export interface ReversalSeen extends Omit<Reversal, 'order' | 'updatedAt'> {
  /** The reference of a refund's request. If it is one of our operations, the refund is ours. */
  reference: string;
  finding: FindingKind;
  says: string;
}

/** Keeps what the provider shows of an order's payment; our own refunds are left out. Returns those that are new or changed. */
export async function recordReversals(
  db: Db,
  order: OrderId,
  seen: readonly ReversalSeen[],
): Promise<Reversal[]> {
  const rows = await db.query<{ changed: Reversal[] }>(
    'reversals_record',
    'SELECT reversals_record($1, $2) AS changed',
    [order, JSON.stringify(seen)],
  );
  return rows[0]!.changed;
}

/** Oldest first. */
export async function reversalsOfOrder(db: Db, order: OrderId): Promise<Reversal[]> {
  const rows = await db.query<{ reversal: Reversal }>(
    'reversals_of_order',
    'SELECT reversal_json(v) AS reversal FROM reversals v WHERE order_id = $1 ORDER BY created_at, reversal_id',
    [order],
  );
  return rows.map(({ reversal }) => reversal);
}

export type ListingKind = Reversal['kind'];

export interface Listing {
  kind: ListingKind;
  from: number;
  to: number;
  cursor: string | null;
  counts: Record<string, number>;
}

/** Claims the listing that is due. Null if none is. */
export async function dueListing(
  db: Db,
  owner: string,
  when: { everyMs: number; backMs: number; leaseMs: number },
): Promise<Listing | null> {
  const rows = await db.query<{ listing: Listing | null }>(
    'provider_listing_due',
    'SELECT provider_listing_due($1, $2, $3, $4) AS listing',
    [owner, when.everyMs, when.backMs, when.leaseMs],
  );
  return rows[0]?.listing ?? null;
}

/** Records that a page was read. False: another process has taken over the listing. */
export async function listingPage(
  db: Db,
  owner: string,
  page: { kind: ListingKind; cursor: string | null; counts: Record<string, number>; leaseMs: number },
): Promise<boolean> {
  const rows = await db.query<{ mine: boolean }>(
    'provider_listing_page',
    'SELECT provider_listing_page($1, $2, $3, $4, $5) AS mine',
    [page.kind, owner, page.cursor, JSON.stringify(page.counts), page.leaseMs],
  );
  return rows[0]!.mine;
}

/** The states in which the record knows a refund or a dispute that is not under way there any more. */
export interface ListedReversal {
  id: string;
  object: string;
  reference: string;
  state: Reversal['state'];
}

/**
 * Compares the provider's list with the record: returns our payments that have to be inspected, because the record does not
 * have the refund or dispute in that state, and the number of entries about payments that are not ours.
 */
export async function unknownReversals(
  db: Db,
  listed: readonly ListedReversal[],
): Promise<{ look: { id: string; object: string; state: string }[]; foreign: number }> {
  const rows = await db.query<{ id: string; object: string; state: string; ours: boolean; known: boolean }>(
    'reversals_unknown',
    `SELECT s.id, s.object, s.state,
            EXISTS (SELECT 1 FROM money_operations m WHERE m.provider_object = s.object) AS ours,
            EXISTS (SELECT 1 FROM reversals v WHERE v.reversal_id = s.id AND v.state = s.state)
              OR EXISTS (SELECT 1 FROM money_operations m
                         WHERE m.operation_id = CASE WHEN s.reference ~ $2 THEN s.reference::uuid END
                           AND (m.kind <> 'refund' OR m.state = CASE s.state WHEN 'done' THEN 'done' WHEN 'failed' THEN 'refused'
                                                                ELSE 'waiting' END)) AS known
     FROM jsonb_to_recordset($1) s (id text, object text, reference text, state text)`,
    [JSON.stringify(listed), uuidForm],
  );
  return {
    look: rows.filter(({ ours, known }) => ours && !known),
    foreign: rows.filter(({ ours }) => !ours).length,
  };
}

const uuidForm = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';

/** Payments with a dispute or a refund that is still under way: it may end long after it was listed. */
export async function openReversals(db: Db): Promise<{ id: string; object: string }[]> {
  return db.query(
    'reversals_open',
    `SELECT reversal_id AS id, object FROM reversals WHERE state IN ('pending','open') ORDER BY reversal_id`,
  );
}

/** Returns the counts of the listing under way, or else of the last one: listed, inspected, and not ours (`foreign`). */
export async function listingCounts(db: Db): Promise<Record<ListingKind, Record<string, number>>> {
  const rows = await db.query<{ kind: ListingKind; counts: Record<string, number> }>(
    'provider_listing_counts',
    'SELECT kind, counts FROM provider_listings',
  );
  const none = { refund: {}, dispute: {} };
  return { ...none, ...Object.fromEntries(rows.map(({ kind, counts }) => [kind, counts])) };
}
