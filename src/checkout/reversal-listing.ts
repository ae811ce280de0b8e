import type { SalesRecord } from '../orders/record.ts';
import {
  dueListing,
  type ListedReversal,
  type Listing,
  listingPage,
  openReversals,
  unknownReversals,
} from '../orders/reversals.ts';
import type { PageAnswer, PaymentProvider } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import type { Loops } from '../runtime/loops.ts';
import { stateOfRefund } from './reversals.ts';

export const listingSchedule = {
  everyMs: 24 * 3_600_000,
  /** A list may show late what was made just before it was read. */
  backMs: 3_600_000,
  leaseMs: 120_000,
} as const;

const lookEveryMs = 60_000;
/** Pages of a busy account, each a call of some seconds at worst. */
const turnLateMs = 10 * 60_000;

/**
 * Lists the account's refunds and disputes once a day by their own creation time, page by page. A payment may be refunded or
 * disputed months after it was made, and the event about it may be lost. Entries that the record does not have go to the inbox,
 * which checks the payment as after an event. Open ones are checked every day until an event or a later run closes them.
 */
export function createReversalListing(options: {
  db: Db;
  provider: Pick<PaymentProvider, 'listRefunds' | 'listDisputes'>;
  record: Pick<SalesRecord, 'providerEvent'>;
  owner: string;
}) {
  const { db, provider, record, owner } = options;
  const { leaseMs } = listingSchedule;

  /** Lists what is due. Rejects when the provider does not answer: the next turn goes on at the same page. */
  async function runIfDue(signal?: AbortSignal): Promise<number> {
    let listings = 0;
    for (; !signal?.aborted; listings += 1) {
      const listing = await dueListing(db, owner, listingSchedule);
      if (!listing) break;
      if (!(await listed(listing, signal))) break;
    }
    return listings;
  }

  async function listed(listing: Listing, signal?: AbortSignal): Promise<boolean> {
    let { cursor } = listing;
    if (cursor === null && listing.kind === 'dispute') await lookAtOpen(listing);
    do {
      if (signal?.aborted) return false;
      const page = await pageOf({ ...listing, cursor });
      const { look, foreign } = await unknownReversals(db, page.views);
      for (const { id, object, state } of look) {
        await record.providerEvent({ id: `listed:${id}:${state}`, type: 'listed', object });
      }
      const counts = { listed: page.views.length, looked: look.length, foreign };
      cursor = page.next;
      if (!(await listingPage(db, owner, { kind: listing.kind, cursor, counts, leaseMs }))) return false;
    } while (cursor !== null);
    return true;
  }

  async function lookAtOpen({ to }: Listing): Promise<void> {
    for (const { id, object } of await openReversals(db)) {
      await record.providerEvent({ id: `listed:${id}:${to}`, type: 'listed', object });
    }
  }

  async function pageOf(listing: Listing): Promise<{ views: ListedReversal[]; next: string | null }> {
    const query = { createdFrom: listing.from, createdTo: listing.to, cursor: listing.cursor };
    if (listing.kind === 'refund') {
      const { views, next } = answered(await provider.listRefunds(query));
      return {
        next,
        views: views.map((view) => ({
          id: view.refund,
          object: view.object,
          reference: view.reference,
          state: stateOfRefund(view),
        })),
      };
    }
    const { views, next } = answered(await provider.listDisputes(query));
    return {
      next,
      views: views.map(({ dispute, object, status }) => ({
        id: dispute,
        object,
        reference: '',
        state: status,
      })),
    };
  }

  return {
    runIfDue,
    start: (loops: Loops): void => {
      loops.run({
        name: 'list refunds and disputes of the provider',
        everyMs: lookEveryMs,
        lateAfterMs: turnLateMs,
        turn: (signal) => runIfDue(signal),
      });
    },
  };
}

function answered<View>(answer: PageAnswer<View>): Extract<PageAnswer<View>, { kind: 'page' }> {
  if (answer.kind === 'page') return answer;
  throw new Error(`the provider did not list: ${answer.reason}: ${answer.detail}`);
}
