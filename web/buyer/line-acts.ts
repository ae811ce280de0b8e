import { allows } from '../../src/core/phase.ts';
import type { EventObject, PassAnswer, QueueTicketAnswer, StatusObject } from '../../src/http/api-types.ts';
import { call, isNewer, persist } from '../shared/api.ts';
import { pause, serverClock } from '../shared/clock.ts';
import { type Place, pollDelay, waitOf } from './line.ts';
import { presentInGrace } from './recover-acts.ts';
import { type Buyer, type Pass, passLeftMs } from './session.ts';

const api = (buyer: Buyer) => `/api/events/${encodeURIComponent(buyer.eventId)}`;

/**
 * Runs on the visitor's click only, never automatically. The first response may only set the cookie; then the request is
 * repeated.
 */
export async function join(buyer: Buyer, again = false): Promise<void> {
  const { store, keep } = buyer;
  if (store.get().busy) return;
  store.set({ busy: 'join', problem: null, notice: null, sessionOver: false });
  let answer = await askForPlace(buyer);
  if (answer.kind === 'problem' && answer.problem.code === 'cookie_required')
    answer = await askForPlace(buyer);
  store.set({ busy: null, trouble: 0 });
  if (answer.kind === 'ok') {
    const { ticket, number, shard } = answer.body;
    const place: Place = { ticket, number, shard };
    keep.write('place', place);
    store.set({ place });
    await tryPass(buyer);
    // The number that came back has had its turn, which the server has just learnt: the next one is a new one.
    if (store.get().sessionOver && !again) return join(buyer, true);
    buyer.lookSoon();
  } else if (answer.kind === 'problem') {
    store.set({ problem: answer.problem });
    await look(buyer);
  }
}

function askForPlace(buyer: Buyer) {
  return persist<QueueTicketAnswer>(
    `${api(buyer)}/queue`,
    { method: 'POST', body: {} },
    { onTrouble: buyer.trouble },
  );
}

/**
 * Fetches the visitor's cookie before the opening, so that joining takes one request. Runs only while joining is not possible
 * yet, because later the same request would draw a number that the visitor did not ask for.
 */
export async function fetchCookieEarly(buyer: Buyer): Promise<void> {
  const phase = buyer.store.get().status?.phase;
  if (!phase || allows(phase, 'join') || phase === 'closed' || phase === 'cancelled') return;
  await call(`${api(buyer)}/queue`, { method: 'POST', body: {} });
}

export function leaveLine(buyer: Buyer): void {
  buyer.keep.drop('place');
  buyer.keep.drop('pass');
  buyer.store.set({ place: null, pass: null, atTheDoor: false });
}

/** Called: turns the number into a pass. Safe to repeat: the same visitor gets the same pass. */
export async function tryPass(buyer: Buyer): Promise<void> {
  const { store, keep } = buyer;
  const { place, pass, status } = store.get();
  if (!place || pass || !status || !allows(status.phase, 'redeem') || !waitOf(status, place).called) return;
  const answer = await call<PassAnswer>(`${api(buyer)}/pass`, {
    method: 'POST',
    body: { ticket: place.ticket },
  });
  if (answer.kind === 'ok') {
    const got: Pass = { pass: answer.body.pass, expiresAt: Date.parse(answer.body.expiresAt) };
    if (passLeftMs(got) <= 0) return endSession(buyer);
    keep.write('pass', got);
    store.set({ pass: got, atTheDoor: false, problem: null, looking: false });
    return;
  }
  store.set({ atTheDoor: true });
  if (answer.kind !== 'problem') return;
  const { code } = answer.problem;
  if (code === 'ticket_refused') {
    leaveLine(buyer);
    store.set({ problem: answer.problem });
  } else if (code === 'pass_expired') endSession(buyer);
  else if (answer.problem.retryAfterMs !== undefined) nextPassTry = Date.now() + answer.problem.retryAfterMs;
}

/** Device time before which the door need not be tried again. */
let nextPassTry = 0;

/** The buying session is over: the number has been used; a live hold or order is not touched. */
export function endSession(buyer: Buyer): void {
  buyer.keep.drop('pass');
  buyer.keep.drop('place');
  buyer.store.set({
    pass: null,
    place: null,
    atTheDoor: false,
    sessionOver: true,
    changing: false,
    refusal: null,
  });
}

/** One look at the status object; older versions than the one shown are ignored. */
export async function look(buyer: Buyer): Promise<void> {
  const answer = await call<StatusObject>(`${api(buyer)}/status`);
  const { status, event } = buyer.store.get();
  if (answer.kind !== 'ok') {
    buyer.store.set({ stale: true });
    return;
  }
  const fresh = answer.body;
  // The same version again says that nothing has changed, as of a later time.
  if (status && isNewer(status.v, fresh.v)) {
    buyer.store.set({ stale: false });
    return;
  }
  buyer.store.set({ status: fresh, stale: false });
  if (event && status && status.phase !== fresh.phase) await loadEvent(buyer);
}

export async function loadEvent(buyer: Buyer): Promise<'ready' | 'not_found' | 'lost'> {
  const answer = await call<EventObject>(api(buyer));
  if (answer.kind === 'ok') {
    buyer.store.set({ event: answer.body });
    return 'ready';
  }
  // Published a moment ago but not visible yet, so it is asked for again, as after a lost answer.
  if (answer.kind === 'problem' && answer.problem.code === 'not_published') return 'lost';
  return answer.kind === 'problem' && answer.problem.status === 404 ? 'not_found' : 'lost';
}

/**
 * The page's heartbeat: polls only the shared status, by its policy; sleeps while hidden; looks at once on return, but
 * never more often than the policy's floor.
 */
export function startPolling(buyer: Buyer): () => void {
  const stop = new AbortController();
  let lastLook = Date.now();
  let wake: (() => void) | null = null;
  const onVisible = () => {
    if (document.visibilityState === 'visible') {
      serverClock.forget();
      wake?.();
    }
  };
  document.addEventListener('visibilitychange', onVisible);
  window.addEventListener('online', onVisible);
  buyer.lookSoon = () => wake?.();
  const run = async () => {
    while (!stop.signal.aborted) {
      const woken = new Promise<'woken'>((resolve) => {
        wake = () => resolve('woken');
      });
      const delay = document.visibilityState === 'hidden' ? 3_600_000 : nextDelay(buyer);
      const how = await Promise.race([pause(delay, stop.signal), woken]);
      if (stop.signal.aborted) return;
      if (how === 'woken') {
        const floor = buyer.store.get().status?.poll.minMs ?? 2000;
        await pause(Math.max(0, lastLook + floor - Date.now()), stop.signal);
      }
      if (document.visibilityState === 'hidden') continue;
      lastLook = Date.now();
      await look(buyer);
      presentInGrace(buyer);
      await tryPass(buyer);
      const { pass } = buyer.store.get();
      if (pass && passLeftMs(pass) <= 0) endSession(buyer);
    }
  };
  void run();
  return () => {
    stop.abort();
    document.removeEventListener('visibilitychange', onVisible);
    window.removeEventListener('online', onVisible);
  };
}

/** How often a page with a hold looks whether its receipt is wanted, ms. */
const holdLookMs = 3_000;

function nextDelay(buyer: Buyer): number {
  const { status, place, pass, hold, order, stale, atTheDoor } = buyer.store.get();
  if (!status) return 3000;
  const { minMs, maxMs } = status.poll;
  // Should the store that knows the hold be lost, its receipt has to be shown within seconds.
  if (hold && !order) return holdLookMs;
  if (stale) return pollDelay(status.poll, minMs * 20, Math.random());
  if (atTheDoor) return Math.max(500, Math.min(Math.max(nextPassTry - Date.now(), 1000), maxMs));
  if (place && !pass) {
    // A queue that does not move may move at any moment; one that is sold out hardly will.
    const unknown = status.soldOut ? maxMs * 10 : (maxMs * 10) / 3;
    return pollDelay(status.poll, waitOf(status, place).waitMs ?? unknown, Math.random());
  }
  // Opened by hand, at any moment.
  if (status.phase === 'scheduled' && status.opensAt === null) {
    return pollDelay(status.poll, (maxMs * 10) / 3, Math.random());
  }
  const untilOpening = (status.opensAt ?? Number.POSITIVE_INFINITY) - serverClock.now();
  if (status.phase === 'scheduled' && untilOpening < maxMs && untilOpening > -60_000) {
    return pollDelay(status.poll, Math.max(untilOpening, 0) * 10, Math.random());
  }
  return pollDelay(status.poll, maxMs * 10, Math.random());
}
