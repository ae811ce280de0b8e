import { fullKind } from '../../src/core/prices.ts';
import type {
  CodeAnswer,
  EventObject,
  HoldAnswer,
  OrderAnswer,
  Problem,
  SeatInfo,
  StatusObject,
} from '../../src/http/api-types.ts';
import { serverClock } from '../shared/clock.ts';
import {
  type Attempts,
  createAttempts,
  createKeep,
  type Keep,
  newKey,
  storageArea,
} from '../shared/storage.ts';
import { createStore, type Store } from '../shared/store.ts';
import type { Place } from './line.ts';

export type Act = 'join' | 'hold' | 'release' | 'order' | 'pay' | 'close' | 'code';

export interface Pass {
  pass: string;
  /** Epoch ms, server's clock. */
  expiresAt: number;
}

/** The seats that a buyer asks for: named ones or the best available. */
export type Wish =
  | { seats: { seat: number; kind?: string }[] }
  | { best: { quantity: number; category?: string; section?: string } };

/** A refused hold, explained in place. */
export type Refusal =
  | { kind: 'taken'; seats: number[]; nearest: number[]; wish: Wish }
  | { kind: 'hold_exists'; hold: string; wish: Wish }
  /** The wish spans parts of the venue that are sold apart, or leaves the part that the hold to be replaced is in. */
  | { kind: 'across'; parts: { partition: number; seats: number[] }[]; wish: Wish };

export interface BuyerState {
  load: 'loading' | 'ready' | 'not_found';
  event: EventObject | null;
  status: StatusObject | null;
  place: Place | null;
  pass: Pass | null;
  hold: HoldAnswer | null;
  /** The kind of ticket chosen for each seat of the hold, by seat number; full for those that are not in it. */
  kinds: Record<number, string>;
  /** The areas that this browser's access code opens. */
  code: CodeAnswer | null;
  /** A code that this browser carried and that opens nothing any more; why, by the API's code. */
  codeOver: { code: string; why: string } | null;
  order: OrderAnswer | null;
  /** An order of this browser that is bought already: linked, never in the way of another purchase. */
  bought: { order: string; secret: string | null } | null;
  sessionOver: boolean;
  /** Looks at the map without a pass. */
  looking: boolean;
  /** Exchanges the seats of a live hold. */
  changing: boolean;
  busy: Act | null;
  /** Failed tries of the act under way: above 0 the page says that it keeps trying. */
  trouble: number;
  /** The last look at the status failed. */
  stale: boolean;
  /** Called, but passes leave a few a second. */
  atTheDoor: boolean;
  /** The receipt of the hold is being shown to a store that took over; the seats are this buyer's until it says otherwise. */
  recovering: boolean;
  problem: Problem | null;
  refusal: Refusal | null;
  notice:
    | 'released'
    | 'hold_gone'
    | 'hold_lost'
    | 'order_cancelled'
    | 'order_cancelling'
    | 'swapped'
    | 'not_as_asked'
    | null;
  /** How the payment stands, beyond what the order says. */
  payment: 'idle' | 'asking' | 'action' | 'declined' | 'unavailable' | 'under_way' | 'done';
  decline: string | null;
  actionUrl: string | null;
}

/** State and services that all actions of the buyer's page share. */
export interface Buyer {
  eventId: string;
  store: Store<BuyerState>;
  keep: Keep;
  attempts: Attempts;
  trouble: (tries: number) => void;
  /** Looks at the status soon instead of at the end of the present pause; the poll policy's floor is kept. */
  lookSoon: () => void;
}

export function createBuyer(eventId: string): Buyer {
  const store = createStore<BuyerState>({
    load: 'loading',
    event: null,
    status: null,
    place: null,
    pass: null,
    hold: null,
    kinds: {},
    code: null,
    codeOver: null,
    order: null,
    bought: null,
    sessionOver: false,
    looking: false,
    changing: false,
    busy: null,
    trouble: 0,
    stale: false,
    atTheDoor: false,
    recovering: false,
    problem: null,
    refusal: null,
    notice: null,
    payment: 'idle',
    decline: null,
    actionUrl: null,
  });
  return {
    eventId,
    store,
    keep: createKeep(eventId, storageArea('local')),
    attempts: createAttempts(storageArea('session'), newKey),
    trouble: (tries) => store.set({ trouble: tries }),
    lookSoon: () => {},
  };
}

export type View =
  | 'loading'
  | 'not_found'
  | 'cancelled'
  | 'pay'
  | 'basket'
  | 'choose'
  | 'look'
  | 'session_over'
  | 'waiting'
  | 'event';

/** One place decides what is shown. What a buyer already has goes before what the sale's phase says. */
export function viewOf(state: BuyerState): View {
  if (state.load !== 'ready' || !state.event || !state.status)
    return state.load === 'not_found' ? 'not_found' : 'loading';
  if (state.status.phase === 'cancelled') return 'cancelled';
  if (state.order) return 'pay';
  if (state.hold) return state.changing && state.pass ? 'choose' : 'basket';
  if (state.sessionOver) return 'session_over';
  if (state.pass) return 'choose';
  if (state.looking) return 'look';
  if (state.place && state.status.phase !== 'closed') return 'waiting';
  return 'event';
}

/** Puts a hold into the page and the browser's memory, or takes it out. */
export function setHold(buyer: Buyer, hold: HoldAnswer | null): void {
  const kinds = hold ? kindsOf(buyer, hold) : {};
  if (hold) keepHold(buyer, hold, kinds);
  else buyer.keep.drop('hold');
  buyer.store.set({ hold, kinds, changing: false });
  // The pause that is under way was chosen for a page without a hold: it may be half a minute long.
  if (hold) buyer.lookSoon();
}

interface KeptHold {
  hold: string;
  receipt: string;
  kinds?: Record<number, string>;
}

/** A hold itself knows no kinds: this browser remembers them, else they are those that the answer priced. */
function kindsOf(buyer: Buyer, hold: HoldAnswer): Record<number, string> {
  const kept = buyer.keep.read<KeptHold>('hold');
  if (kept?.hold === hold.hold && kept.kinds) return kept.kinds;
  const chosen = hold.seats.filter(({ kind }) => kind !== fullKind);
  return Object.fromEntries(chosen.map(({ seat, kind }) => [seat, kind]));
}

function keepHold(buyer: Buyer, hold: HoldAnswer, kinds: Record<number, string>): void {
  const some = Object.keys(kinds).length > 0 ? { kinds } : {};
  buyer.keep.write('hold', { hold: hold.hold, receipt: hold.receipt, ...some } satisfies KeptHold);
}

export function chooseKind(buyer: Buyer, seat: number, kind: string): void {
  const { hold, kinds } = buyer.store.get();
  if (!hold) return;
  const { [seat]: _before, ...others } = kinds;
  const chosen = kind === fullKind ? others : { ...others, [seat]: kind };
  keepHold(buyer, hold, chosen);
  buyer.store.set({ kinds: chosen });
}

/** The hold's seats with the kinds that were chosen, at the event's prices. */
export function pricedSeats(state: Pick<BuyerState, 'event' | 'hold' | 'kinds'>): SeatInfo[] {
  return (state.hold?.seats ?? []).map((seat) => {
    const listed = state.event?.prices.find(({ category }) => category === seat.category);
    const kind = state.kinds[seat.seat] ?? fullKind;
    const price = kind === fullKind ? listed?.price : listed?.kinds?.[kind];
    // A kind that this category is not sold to (any more) is none.
    if (price === undefined)
      return { ...seat, kind: fullKind, kindName: undefined, price: listed?.price ?? seat.price };
    const kindName = state.event?.kinds?.find(({ id }) => id === kind)?.name;
    return { ...seat, kind, kindName, price };
  });
}

export function setOrder(buyer: Buyer, order: OrderAnswer | null): void {
  if (!order) {
    buyer.keep.drop('order');
    buyer.store.set({ order: null });
    return;
  }
  const kept = buyer.keep.read<{ order: string; secret: string | null }>('order');
  const secret = order.secret ?? (kept?.order === order.order ? kept.secret : null);
  if (secret !== kept?.secret || kept?.order !== order.order)
    buyer.keep.write('order', { order: order.order, secret });
  buyer.store.set({ order });
}

/** URL of an order's tickets. The secret is in the fragment, so it never reaches a server's log. */
export function orderUrl(buyer: Buyer, order: string): string {
  const kept = buyer.keep.read<{ order: string; secret: string | null }>('order');
  const secret = kept?.order === order ? kept.secret : null;
  return `/orders/${encodeURIComponent(order)}${secret ? `#${secret}` : ''}`;
}

export function isBought(order: Pick<OrderAnswer, 'state'>): boolean {
  return order.state === 'confirmed' || order.state === 'paid';
}

export function isEnded(order: Pick<OrderAnswer, 'state'>): boolean {
  return order.state === 'closed' || order.state === 'cancelled' || order.state === 'voiding';
}

export function passLeftMs(pass: Pass | null): number {
  return pass ? pass.expiresAt - serverClock.now() : 0;
}

export function totalOf(seats: Pick<SeatInfo, 'price' | 'fee'>[], orderFee: number): number {
  return seats.reduce((sum, seat) => sum + seat.price + seat.fee, orderFee);
}
