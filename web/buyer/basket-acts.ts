import { fullKind } from '../../src/core/prices.ts';
import type { HoldAnswer, OrderAnswer, Problem } from '../../src/http/api-types.ts';
import { persist } from '../shared/api.ts';
import { accountToken } from './account.ts';
import { endSession, leaveLine } from './line-acts.ts';
import { recallOrder } from './order-acts.ts';
import { presentReceipt } from './recover-acts.ts';
import {
  type Buyer,
  isBought,
  orderUrl,
  pricedSeats,
  setHold,
  setOrder,
  totalOf,
  type Wish,
} from './session.ts';

/**
 * Asks for seats. One Idempotency-Key an attempt: it outlives lost answers and reloads, so that the same wish is never
 * held twice.
 */
export async function holdSeats(buyer: Buyer, wish: Wish, replaces: string | null = null): Promise<void> {
  const { store, attempts } = buyer;
  const { pass, busy } = store.get();
  if (!pass || busy) return;
  store.set({ busy: 'hold', problem: null, refusal: null, notice: null });
  const body = { pass: pass.pass, ...withKinds(buyer, wish), ...(replaces ? { replaces } : {}) };
  const account = store.get().event?.accountFirst ? accountToken(buyer.eventId) : undefined;
  const answer = await persist<HoldAnswer>(
    `/api/events/${encodeURIComponent(buyer.eventId)}/holds`,
    // A token that was renewed meanwhile makes no new wish.
    { method: 'POST', body: { ...body, account }, key: attempts.key('hold', body) },
    { onTrouble: buyer.trouble },
  );
  attempts.settled('hold');
  store.set({ busy: null, trouble: 0 });
  if (answer.kind === 'ok') {
    setHold(buyer, answer.body);
    if (answer.body.order) await recallOrder(buyer, answer.body.order);
    else if (answer.body.asAsked === false) store.set({ notice: 'not_as_asked' });
    else if (replaces) store.set({ notice: 'swapped' });
  } else if (answer.kind === 'problem') await refused(buyer, answer.problem, wish);
}

/** Seats that stay keep the kinds of tickets that were chosen for them. */
function withKinds(buyer: Buyer, wish: Wish): Wish {
  const { kinds } = buyer.store.get();
  if (!('seats' in wish)) return wish;
  return { seats: wish.seats.map((one) => (kinds[one.seat] ? { ...one, kind: kinds[one.seat] } : one)) };
}

async function refused(buyer: Buyer, problem: Problem, wish: Wish): Promise<void> {
  const { store } = buyer;
  switch (problem.code) {
    case 'taken':
      store.set({
        refusal: {
          kind: 'taken',
          seats: seatNumbers(problem.seats),
          nearest: seatNumbers(problem.nearest),
          wish,
        },
      });
      return;
    case 'across_partitions':
      store.set({ refusal: { kind: 'across', parts: partsIn(problem.parts), wish } });
      return;
    case 'hold_exists': {
      const hold = typeof problem.hold === 'string' ? problem.hold : '';
      store.set({ refusal: { kind: 'hold_exists', hold, wish } });
      return;
    }
    case 'order_open':
      if (typeof problem.order === 'string') await recallOrder(buyer, problem.order);
      else store.set({ problem });
      return;
    case 'hold_gone':
      await lostHold(buyer);
      return;
    case 'pass_expired':
      endSession(buyer);
      return;
    case 'pass_refused':
      leaveLine(buyer);
      store.set({ problem });
      return;
    default:
      store.set({ problem });
  }
}

/**
 * Seats in another part of the venue than those that are held cannot be exchanged for them in one step: they are held first,
 * then the old ones are given back. When that fails they lapse by themselves.
 */
export async function moveHold(buyer: Buyer, wish: Wish): Promise<void> {
  const { store } = buyer;
  const old = store.get().hold?.hold;
  await holdSeats(buyer, wish);
  const held = store.get().hold?.hold;
  if (!old || !held || held === old) return;
  store.set({ busy: 'release' });
  await persist<unknown>(
    `/api/holds/${encodeURIComponent(old)}`,
    { method: 'DELETE' },
    { onTrouble: buyer.trouble, triesMax: 3 },
  );
  store.set({ busy: null, trouble: 0, notice: store.get().notice ?? 'swapped' });
}

function partsIn(value: unknown): { partition: number; seats: number[] }[] {
  if (!Array.isArray(value)) return [];
  return value.map((part: { partition?: unknown; seats?: unknown } | null) => ({
    partition: Number(part?.partition),
    seats: seatNumbers(part?.seats),
  }));
}

/** Seats in a problem document: seat numbers, or objects that carry one. */
function seatNumbers(value: unknown): number[] {
  if (!Array.isArray(value)) return [];
  return value
    .flat()
    .map((one) => (typeof one === 'number' ? one : Number((one as { seat?: unknown } | null)?.seat)))
    .filter((n) => Number.isInteger(n));
}

/**
 * A hold known by id only (reload, second tab, `hold_exists`): fetched, or forgotten when it is gone. When the server says
 * that, or cannot say, a store may just have been lost: then the receipt decides.
 */
export async function recallHold(buyer: Buyer, hold: string): Promise<void> {
  const answer = await persist<HoldAnswer>(`/api/holds/${encodeURIComponent(hold)}`, {}, { triesMax: 2 });
  if (answer.kind === 'ok') {
    if (answer.body.order) await recallOrder(buyer, answer.body.order);
    else setHold(buyer, answer.body);
    return;
  }
  const isOver = answer.kind === 'problem' && answer.problem.status < 500;
  if (!isOver || answer.problem.code === 'hold_gone') {
    const kept = buyer.keep.read<{ hold: string }>('hold');
    if (kept?.hold === hold) {
      await presentReceipt(buyer);
      return;
    }
  }
  if (!isOver) return;
  const hadIt = buyer.store.get().hold !== null;
  setHold(buyer, null);
  if (hadIt || answer.problem.code === 'hold_gone') buyer.store.set({ notice: 'hold_gone' });
}

/** Unless its receipt brings it back: the store that answered may have taken over a moment ago. */
async function lostHold(buyer: Buyer): Promise<void> {
  buyer.store.set({ busy: null });
  if (buyer.store.get().hold) {
    await presentReceipt(buyer);
    return;
  }
  setHold(buyer, null);
  buyer.store.set({ notice: 'hold_gone', busy: null });
}

/** The countdown has ended, or another tab says so: asks the server, which alone knows. */
export async function checkHold(buyer: Buyer): Promise<void> {
  const { hold } = buyer.store.get();
  if (hold) await recallHold(buyer, hold.hold);
}

export async function release(buyer: Buyer): Promise<void> {
  const { store } = buyer;
  const { hold, busy } = store.get();
  if (!hold || busy) return;
  store.set({ busy: 'release', problem: null });
  const answer = await persist<unknown>(
    `/api/holds/${encodeURIComponent(hold.hold)}`,
    { method: 'DELETE' },
    { onTrouble: buyer.trouble },
  );
  store.set({ busy: null, trouble: 0 });
  if (answer.kind === 'problem' && answer.problem.code === 'hold_ordered') {
    await checkHold(buyer);
    return;
  }
  setHold(buyer, null);
  store.set({ notice: 'released' });
}

/** One seat fewer: the others are exchanged for the whole set; the last one gives the hold back. */
export async function removeSeat(buyer: Buyer, seat: number): Promise<void> {
  const { hold } = buyer.store.get();
  if (!hold) return;
  const rest = hold.seats.filter((one) => one.seat !== seat).map((one) => ({ seat: one.seat }));
  if (rest.length === 0) await release(buyer);
  else await holdSeats(buyer, { seats: rest }, hold.hold);
}

/** Binds the seats to the order. Every repeat returns the same order. */
export async function startOrder(buyer: Buyer, person: { name: string; email: string }): Promise<void> {
  const { store } = buyer;
  const { hold, busy } = store.get();
  if (!hold || busy) return;
  store.set({ busy: 'order', problem: null, notice: null });
  const seats = pricedSeats(store.get());
  const chosen = seats.filter(({ kind }) => kind !== fullKind).map(({ seat, kind }) => ({ seat, kind }));
  const total = totalOf(seats, hold.orderFee);
  const answer = await persist<OrderAnswer>(
    `/api/holds/${encodeURIComponent(hold.hold)}/order`,
    { method: 'POST', body: { buyer: person, total, ...(chosen.length > 0 ? { seats: chosen } : {}) } },
    { onTrouble: buyer.trouble },
  );
  store.set({ busy: null, trouble: 0 });
  if (answer.kind === 'ok') {
    setOrder(buyer, answer.body);
    setHold(buyer, null);
    store.set({ payment: 'idle', decline: null });
    if (isBought(answer.body)) location.assign(orderUrl(buyer, answer.body.order));
  } else if (answer.kind === 'problem') {
    if (answer.problem.code === 'hold_gone' || answer.problem.code === 'unknown_hold') await lostHold(buyer);
    else if (answer.problem.code === 'order_open' && typeof answer.problem.order === 'string') {
      await recallOrder(buyer, answer.problem.order);
    } else store.set({ problem: answer.problem });
  }
}

/** Another tab changed something: the same facts are taken up here. */
export function followOtherTabs(buyer: Buyer): () => void {
  const { store, keep } = buyer;
  return keep.onChange((fact) => {
    if (fact === 'place') {
      store.set({ place: keep.read('place') });
      buyer.lookSoon();
    } else if (fact === 'pass') store.set({ pass: keep.read('pass') });
    else if (fact === 'code') store.set({ code: keep.read('code') });
    else if (fact === 'hold') {
      const kept = keep.read<{ hold: string }>('hold');
      if (!kept) store.set({ hold: null });
      else if (kept) void recallHold(buyer, kept.hold);
    } else {
      const kept = keep.read<{ order: string }>('order');
      if (kept) void recallOrder(buyer, kept.order);
      else store.set({ order: null });
    }
  });
}

/** Best effort while the page loads: `call` once, so that a dead server does not block the first view. */
export async function recallAll(buyer: Buyer): Promise<void> {
  const { keep, store } = buyer;
  store.set({ place: keep.read('place'), pass: keep.read('pass'), code: keep.read('code') });
  const order = keep.read<{ order: string }>('order');
  if (order) await recallOrder(buyer, order.order);
  const hold = keep.read<{ hold: string }>('hold');
  if (hold && !store.get().order) await recallHold(buyer, hold.hold);
}
