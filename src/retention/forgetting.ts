import type { OrderId } from '../core/hold.ts';
import { accountNamed, accountOf } from '../orders/accounts.ts';
import type { Db } from '../postgres/db.ts';

/** The buyer to be forgotten: by e-mail address, by a platform's account (`sub:…`), or as the buyer of an order. */
export type BuyerNamed = { email: string } | { account: string } | { order: OrderId };

/** Why an order's buyer cannot be forgotten yet; `event_not_over` alone yields to `nameless`. */
export type Unforgettable =
  | 'under_way'
  | 'refund_under_way'
  | 'refund_failed'
  | 'on_the_list'
  | 'mail_under_way'
  | 'event_not_over';

export interface ForgetReport {
  /** Orders that no longer name a person, and their events. */
  orders: OrderId[];
  events: string[];
  erased: {
    /** Orders whose name and address went. */
    buyers: number;
    /** Browsers (by the hash of their secret) that only these orders named. */
    browsers: number;
    /** Payment instruments: brand, last digits and fingerprint. */
    cards: number;
    /** Letters in the local mailbox, and mails that were owed and are not any more. */
    letters: number;
    mailsOwed: number;
    /** Exceptions from limits for this buyer: ended, and without a name. */
    exceptions: number;
    /** Reasons and notes that people or the provider wrote in words of their own. */
    words: number;
    /** Other counts and notes about the buyer's account: limits, holds, cooldowns. */
    counts: number;
  };
  kept: {
    orders: number;
    /** Minor units, by currency; refunds of any state. */
    amounts: { currency: string; paid: number | null; refunded: number }[];
    tickets: number;
    validTickets: number;
    refunds: number;
    /** First uses of tickets at the entrance. */
    entries: number;
    auditEntries: number;
    /** Ids at the payment provider, which keeps data of its own about the payer. */
    payments: string[];
  };
}

export type ForgetOutcome =
  | ({ kind: 'forgotten' } & ForgetReport)
  /** Nothing was changed. */
  | { kind: 'refused'; orders: { order: OrderId; event: string; why: Unforgettable }[] }
  /** Nothing is known, or left, of such a buyer. */
  | { kind: 'nothing' }
  | { kind: 'unknown_order' }
  /** The code is wrong, used, too old, or was for another wish or organiser. */
  | { kind: 'not_confirmed' };

export interface ForgetCommand {
  buyer: BuyerNamed;
  /** Also where the buyer has valid tickets for an event that is not over: they stay valid and have no name. */
  nameless: boolean;
  actor: string;
  /** Says what would become of the data; nothing is changed. */
  dryRun: boolean;
  /**
   * Hashes of the code that confirms it and of the request that the code was issued for. Undefined if no confirmation is
   * needed.
   */
  confirmed?: { codeHash: string; request: string };
}

/** Parses the organiser's text: an address, or `sub:` and the platform's name. Null if it is neither. */
export function buyerNamed(text: string): BuyerNamed | null {
  const email = text.normalize('NFC').trim();
  if (accountNamed(email) === null) return null;
  return email.startsWith('sub:') ? { account: email } : { email };
}

/** Forgets a buyer in one step, or changes nothing. A repeat answers `nothing`. */
export async function forgetBuyer(db: Db, command: ForgetCommand): Promise<ForgetOutcome> {
  const { buyer, nameless, actor, dryRun, confirmed } = command;
  const [account, email, order] =
    'order' in buyer
      ? [null, null, buyer.order]
      : 'email' in buyer
        ? [accountOf(buyer.email), buyer.email, null]
        : [buyer.account, null, null];
  const rows = await db.query<{ result: ForgetOutcome }>(
    'buyer_forget',
    'SELECT buyer_forget($1, $2, $3, $4, $5, $6, $7, $8) AS result',
    [account, email, order, nameless, actor, confirmed?.codeHash ?? null, confirmed?.request ?? null, dryRun],
  );
  return rows[0]!.result;
}

/** Writes down that a forgetting was asked for, and under which code it may be done. `ttlMs`: how long that counts. */
export async function askToForget(
  db: Db,
  asked: { actor: string; codeHash: string; request: string; ttlMs: number },
): Promise<void> {
  await db.query(
    'forgetting_ask',
    `WITH tidied AS (
       DELETE FROM confirmations WHERE act = 'forget_buyer' AND expires_at < clock_timestamp())
     INSERT INTO confirmations (code_hash, act, event_no, request, actor, shown, expires_at)
     VALUES ($1, 'forget_buyer', NULL, $2, $3, '{}', clock_timestamp() + $4 * interval '1 millisecond')`,
    [asked.codeHash, asked.request, asked.actor, asked.ttlMs],
  );
}

const whys: Record<Unforgettable, string> = {
  under_way: 'is not settled: its payment is under way',
  refund_under_way: 'has a refund under way',
  refund_failed: 'has a refund that failed: the money is owed to him',
  on_the_list: 'is on the operator’s list: something about its money does not fit',
  mail_under_way: 'has a mail that is being sent this moment',
  event_not_over: 'has valid tickets, and the event is not over',
};

/** Why nothing was forgotten, for people: one line for each order. */
export function unforgettableLines({
  orders,
}: Pick<ForgetOutcome & { kind: 'refused' }, 'orders'>): string[] {
  return orders.map(({ order, event, why }) => `order ${order} of ${event} ${whys[why]}`);
}
