import type { HoldAnswer } from '../../src/http/api-types.ts';
import { persist } from '../shared/api.ts';
import { pause, serverClock } from '../shared/clock.ts';
import { recallOrder } from './order-acts.ts';
import { type Buyer, setHold } from './session.ts';

/** While the store that knew the holds is being replaced, the answer is "not yet": all receipts are collected first. */
interface Recovering {
  code: 'recovering';
  until: string;
  retryAfterMs: number;
}

/** Asked again this often at most, ms, whatever the answer says; and so long after the end that it named. */
const askAgainMs = 1_000;
const slackMs = 300;
const triesMax = 20;

/**
 * Shows the receipt that this browser keeps, by itself: the store that knew the hold was lost, or may have been. Answers
 * whether the hold lives; when it does not, it is out of the page and a notice says so.
 */
export async function presentReceipt(buyer: Buyer): Promise<boolean> {
  const { store, keep } = buyer;
  const kept = keep.read<{ hold: string; receipt: string }>('hold');
  if (!kept?.receipt || store.get().recovering) return store.get().hold !== null;
  store.set({ recovering: true });
  try {
    for (let tries = 1; tries <= triesMax; tries++) {
      const answer = await persist<HoldAnswer | Recovering>(
        `/api/holds/${encodeURIComponent(kept.hold)}/recover`,
        { method: 'POST', body: { receipt: kept.receipt } },
        { triesMax: 8 },
      );
      // The hold was given back or exchanged meanwhile, here or in another tab, so this receipt no longer
      // belongs to a hold.
      if (keep.read<{ hold: string }>('hold')?.hold !== kept.hold) return store.get().hold !== null;
      // The outcome is unknown, so the next status check starts over.
      if (answer.kind === 'lost') return true;
      if (answer.kind === 'problem') {
        if (answer.problem.status >= 500) return true;
        if (typeof answer.problem.order === 'string') {
          await recallOrder(buyer, answer.problem.order);
          return true;
        }
        setHold(buyer, null);
        store.set({ notice: answer.problem.code === 'taken' ? 'hold_lost' : 'hold_gone' });
        return false;
      }
      if (!('code' in answer.body)) {
        setHold(buyer, answer.body);
        return true;
      }
      const left = Date.parse(answer.body.until) - serverClock.now() + slackMs;
      await pause(Math.max(askAgainMs, Math.min(left, answer.body.retryAfterMs)));
    }
    return true;
  } finally {
    store.set({ recovering: false });
  }
}

/** After each look at the status: a partition in grace collects receipts. Presented once for each such time. */
export function presentInGrace(buyer: Buyer): void {
  const { status, order } = buyer.store.get();
  if (order || !status || !buyer.keep.read('hold')) return;
  const ends = status.grace.map((each) => each.until).filter((until) => until > serverClock.now());
  const latest = Math.max(0, ...ends);
  if (latest <= (presented.get(buyer) ?? 0)) return;
  presented.set(buyer, latest);
  void presentReceipt(buyer);
}

/** The end of the last grace for which a page has shown its receipt. */
const presented = new WeakMap<Buyer, number>();
