import type { HoldAnswer } from '../http/api-types.ts';
import type { Buyer, RecoveringAnswer } from './buyer.ts';
import type { Answer } from './http-client.ts';

/** What became of a hold, as its owner learned it. */
export type HoldEvent =
  | { kind: 'granted'; hold: HoldAnswer }
  /** The receipt brought it back; `repeated`: it had not been away. */
  | { kind: 'recovered'; hold: HoldAnswer }
  /** Gone before its time; `why` is the code of the answer. */
  | { kind: 'lost'; hold: string; why: string }
  | { kind: 'ordered'; hold: string; order: string }
  | { kind: 'released'; hold: string }
  /** Its owner went away and keeps no receipt. */
  | { kind: 'left'; hold: string };

export interface BasketWorld {
  /** Epoch ms: the sale is on this machine, and so is its clock. */
  now(): number;
  /** False: patience is over. */
  pause(ms: number): Promise<boolean>;
  /** Repeats while the answer is "not now", as long as patience lasts. */
  insist<Body>(call: () => Promise<Answer<Body>>): Promise<Answer<Body>>;
  onHold(event: HoldEvent): void;
}

export type Basket = { hold: HoldAnswer } | { lost: string };

/** As the page: with a basket, the status is read every 3 s. */
const statusEveryMs = 3_000;
/** As the page: a receipt that is being judged is shown again. */
const showAgainMs = 1_000;
const slackMs = 300;
const showsMax = 20;

/**
 * Keeps a basket for a while, as the page does: whenever the status says that receipts are being collected, the receipt is
 * presented, once each time.
 */
export async function keepBasket(
  buyer: Buyer,
  world: BasketWorld,
  held: HoldAnswer,
  forMs: number,
): Promise<Basket> {
  let basket: Basket = { hold: held };
  let presentedFor = 0;
  for (let left = forMs; left > 0; left -= statusEveryMs) {
    if (!(await world.pause(Math.min(left, statusEveryMs)))) break;
    const { body: status } = await buyer.status();
    const latest = Math.max(0, ...(status.grace ?? []).map(({ until }) => until));
    if (latest <= Math.max(presentedFor, status.serverTime ?? 0)) continue;
    presentedFor = latest;
    basket = await presentReceipt(buyer, world, basket.hold);
    if ('lost' in basket) return basket;
  }
  return basket;
}

/** Shows the receipt until it is judged. */
export async function presentReceipt(buyer: Buyer, world: BasketWorld, held: HoldAnswer): Promise<Basket> {
  let lost = 'unanswered';
  for (let shows = 0; shows < showsMax; shows++) {
    const answer = await world.insist(() => buyer.recover(held.hold, held.receipt));
    if (answer.status === 200) {
      const hold = answer.body as HoldAnswer;
      world.onHold({ kind: 'recovered', hold });
      return { hold };
    }
    if (answer.status !== 202) {
      lost = answer.body.code ?? `${answer.status}`;
      break;
    }
    const { until, retryAfterMs } = answer.body as RecoveringAnswer;
    const left = Date.parse(until) - world.now() + slackMs;
    if (!(await world.pause(Math.max(showAgainMs, Math.min(left, retryAfterMs))))) break;
  }
  world.onHold({ kind: 'lost', hold: held.hold, why: lost });
  return { lost };
}
