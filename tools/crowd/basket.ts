import type { HoldAnswer } from '../../src/http/api-types.ts';
import type { Buyer, RecoveringAnswer } from './buyer.ts';
import type { Answer } from './http-client.ts';

/** The outcome of a hold, as its owner learned it. */
export type HoldEvent =
  | { kind: 'granted'; hold: HoldAnswer }
  /** An answer about it: to a receipt that was shown, or to the wish to pay. */
  | { kind: 'answered'; hold: string; to: 'receipt' | 'order'; says: string }
  /** The receipt brought it back, or it had not been away. */
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

/** A hold in a browser that does with it what the page does by itself. */
export interface Basket {
  /** With its latest receipt. */
  hold(): HoldAnswer;
  /**
   * Lets time pass. Reads the status every 3 s and shows the receipt when the status says that receipts are
   * being collected, once for each collection. Returns false if the hold is lost.
   */
  keep(ms: number): Promise<boolean>;
  /** Shows the receipt until it is judged. False: the hold is lost. */
  present(): Promise<boolean>;
}

const statusEveryMs = 3_000;
/**
 * A receipt that is being judged is shown again after `showAgainMs` at the earliest, and `slackMs` after the
 * end that the answer named.
 */
const showAgainMs = 1_000;
const slackMs = 300;
const showsMax = 20;

export function createBasket(buyer: Buyer, world: BasketWorld, granted: HoldAnswer): Basket {
  let held = granted;
  let presentedFor = 0;

  async function present(): Promise<boolean> {
    let why = 'unanswered';
    for (let shows = 0; shows < showsMax; shows++) {
      const answer = await world.insist(() => buyer.recover(held.hold, held.receipt));
      const says = `${answer.status} ${answer.body.code ?? ''}`;
      world.onHold({ kind: 'answered', hold: held.hold, to: 'receipt', says });
      if (answer.status === 200) {
        held = answer.body as HoldAnswer;
        world.onHold({ kind: 'recovered', hold: held });
        return true;
      }
      if (answer.status !== 202) {
        why = answer.body.code ?? `${answer.status}`;
        break;
      }
      const { until, retryAfterMs } = answer.body as RecoveringAnswer;
      const left = Date.parse(until) - world.now() + slackMs;
      if (!(await world.pause(Math.max(showAgainMs, Math.min(left, retryAfterMs))))) break;
    }
    world.onHold({ kind: 'lost', hold: held.hold, why });
    return false;
  }

  async function look(): Promise<boolean> {
    const { body: status } = await buyer.status();
    const latest = Math.max(0, ...(status.grace ?? []).map(({ until }) => until));
    if (latest <= Math.max(presentedFor, status.serverTime ?? 0)) return true;
    presentedFor = latest;
    return await present();
  }

  return {
    hold: () => held,
    present,
    async keep(ms) {
      for (let left = ms; left > 0; left -= statusEveryMs) {
        if (!(await world.pause(Math.min(left, statusEveryMs)))) return true;
        if (!(await look())) return false;
      }
      return true;
    },
  };
}
