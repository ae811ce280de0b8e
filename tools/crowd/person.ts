import type { HoldAnswer, OrderAnswer, StatusObject } from '../../src/http/api-types.ts';
import type { Clock } from '../../src/runtime/clock.ts';
import type { Random } from '../../src/runtime/random.ts';
import { type Basket, type BasketWorld, createBasket, type HoldEvent } from './basket.ts';
import type { Buyer } from './buyer.ts';
import type { Answer } from './http-client.ts';
import type { BuyerEnd, Tally } from './tally.ts';

export interface Person {
  buyer: Buyer;
  hotSeats: boolean;
  abandons: boolean;
  declines: boolean;
  quantity: number;
  /** A card of the simulator that no other buyer has. */
  card: string;
  /** Milliseconds between the hold and the payment. */
  thinkMs: number;
}

export interface World {
  clock: Clock;
  random: Random;
  tally: Tally;
  /** Monotonic ms: then everybody gives up. */
  ends: number;
  onHold(event: HoldEvent): void;
  /** Told to their face: the order is paid, with these tickets. */
  onBought(order: string, seats: number[]): void;
}

type Ended = { end: BuyerEnd };

const holdTriesMax = 6;
const hotSeatCount = 40;

/** One person's evening, from arrival to the end. */
export async function live(person: Person, world: World): Promise<BuyerEnd> {
  const place = await queue(person, world);
  if ('end' in place) return place.end;
  const filled = await fillBasket(person, world, place.pass);
  if ('end' in filled) return filled.end;
  world.onHold({ kind: 'granted', hold: filled.hold });
  const basket = createBasket(person.buyer, basketWorld(world), filled.hold);
  if (person.thinkMs > 0 && !(await basket.keep(person.thinkMs))) return 'lost_hold';
  const { hold } = basket.hold();
  if (!person.abandons) return pay(person, world, basket);
  if (chance(world.random, 0.5)) {
    await insist(world, () => person.buyer.release(hold));
    world.onHold({ kind: 'released', hold });
  } else world.onHold({ kind: 'left', hold });
  return 'abandoned';
}

async function queue(person: Person, world: World): Promise<{ pass: string } | Ended> {
  const { buyer } = person;
  let joined = await buyer.join();
  while (joined.status !== 200) {
    if (isOver(joined)) return { end: 'sale_over' };
    if (joined.body.code !== 'not_open' && !isNotNow(joined)) return unexpected(world, 'join', joined);
    if (!(await pause(world, joined.body.retryAfterMs ?? 2_000))) return { end: 'gave_up' };
    joined = await buyer.join();
  }
  for (;;) {
    const { body: status, status: answered } = await buyer.status();
    // Not published yet, or a server that is just starting: the page asks again too.
    if (answered !== 200) {
      if (await pause(world, insistAfterMs)) continue;
      return { end: 'gave_up' };
    }
    const over = world.tally.noteStatus(status);
    if (over) return { end: over };
    let waitMs = pollMs(status, joined.body, world.random);
    if ((status.frontier[joined.body.shard] ?? 0) >= joined.body.number && status.phase === 'open') {
      const redeemed = await buyer.pass(joined.body.ticket);
      if (redeemed.status === 200) return { pass: redeemed.body.pass };
      if (redeemed.body.code === 'sold_out') return { end: 'sold_out' };
      if (isOver(redeemed)) return { end: 'sale_over' };
      if (redeemed.status !== 409 && redeemed.status !== 503) return unexpected(world, 'pass', redeemed);
      waitMs = Math.max(redeemed.body.retryAfterMs ?? waitMs, 250);
    }
    if (!(await pause(world, waitMs))) return { end: 'gave_up' };
  }
}

async function fillBasket(person: Person, world: World, pass: string): Promise<{ hold: HoldAnswer } | Ended> {
  const { buyer } = person;
  for (let attempt = 0; ; attempt++) {
    // One key a wish: a repeat after "not now" finds what became of the first.
    const key = { key: world.random.uuid() };
    const seats = hotSeats(person.quantity, world.random);
    const quantity = attempt < holdTriesMax ? person.quantity : 1;
    const held = await insist(world, () =>
      person.hotSeats && attempt < holdTriesMax / 2
        ? buyer.holdSeats(pass, seats, key)
        : buyer.holdBest(pass, { quantity }, key),
    );
    if (held.status === 201 || held.status === 200) return { hold: held.body };
    if (held.body.code === 'taken') world.tally.refused();
    else if (held.body.code === 'sold_out') return { end: 'sold_out' };
    else if (isOver(held)) return { end: 'sale_over' };
    else if (held.body.code === 'pass_expired' || isNotNow(held)) return { end: 'gave_up' };
    else if (!passing.has(held.body.code ?? '')) return unexpected(world, 'hold', held);
    // Nothing found a few times: watch the status as the page does, and try again while seats may come back.
    if (attempt >= holdTriesMax) {
      const { body: status } = await buyer.status();
      const over = world.tally.noteStatus(status);
      if (over) return { end: over };
      if (!(await pause(world, pollMs(status, { number: 0, shard: 0 }, world.random))))
        return { end: 'gave_up' };
    } else if (!(await pause(world, 100 + world.random.int(900)))) return { end: 'gave_up' };
  }
}
/** Refusals of a wish after which another one is tried. */
const passing = new Set(['paused', 'across_partitions', 'hold_gone']);

async function pay(person: Person, world: World, basket: Basket): Promise<BuyerEnd> {
  const { buyer } = person;
  const ordered = await order(person, world, basket);
  if ('end' in ordered) return ordered.end;
  const { order: id } = ordered.order;
  const key = world.random.uuid();
  let paid = await buyer.pay(id, person.declines ? 'pm_card_chargeDeclined' : person.card, key);
  // Stripe's own test mode has no such card.
  if (paid.body.decline === 'invalid_instrument') paid = await buyer.pay(id, 'pm_card_visa');
  // The first refusal may be the answer to a later look.
  for (let refused = false; ; ) {
    if (paid.status === 402 && !refused) {
      refused = true;
      if (chance(world.random, 0.5)) {
        await insist(world, () => buyer.closeOrder(id));
        return 'declined';
      }
      paid = await buyer.pay(id, person.card);
    } else if (
      paid.status === 202 ||
      isNotNow(paid) ||
      paid.body.code === 'payment_under_way' ||
      isUnpaid(paid)
    ) {
      if (!(await pause(world, waitAsAsked(world, paid)))) return 'gave_up';
      // Nothing is under way: the payment never arrived, and is sent again.
      paid = isUnpaid(paid) ? await buyer.pay(id, person.card) : await buyer.refresh(id);
    } else break;
  }
  if (paid.status !== 200) return unexpected(world, 'payment', paid).end;
  const seats = basket.hold().seats.map(({ seat }) => seat);
  world.tally.bought(seats.length);
  world.onBought(id, seats);
  return 'bought';
}

function isUnpaid({ status, body }: { status: number; body: { state?: string } }): boolean {
  return status === 200 && body.state === 'reserved';
}

/**
 * Orders the hold. As on the page, the status is still polled while the response is "not now", and a hold that is reported as
 * gone is requested again after its receipt was presented.
 */
async function order(
  { buyer }: Person,
  world: World,
  basket: Basket,
): Promise<{ order: OrderAnswer } | Ended> {
  const { hold } = basket.hold();
  for (let shown = false; ; ) {
    const answer = await buyer.order(hold);
    world.onHold({ kind: 'answered', hold, to: 'order', says: `${answer.status} ${answer.body.code ?? ''}` });
    if (answer.status === 201 || answer.status === 200) {
      world.onHold({ kind: 'ordered', hold, order: answer.body.order });
      return { order: answer.body };
    }
    if (isNotNow(answer)) {
      if (world.clock.monotonic() >= world.ends) return { end: 'gave_up' };
      world.tally.retried();
      if (!(await basket.keep(waitAsAsked(world, answer)))) return { end: 'lost_hold' };
      continue;
    }
    if (answer.body.code !== 'hold_gone') return unexpected(world, 'order', answer);
    if (shown) {
      world.onHold({ kind: 'lost', hold, why: 'hold_gone' });
      return { end: 'lost_hold' };
    }
    if (!(await basket.present())) return { end: 'lost_hold' };
    shown = true;
  }
}

function basketWorld(world: World): BasketWorld {
  return {
    now: world.clock.now,
    pause: (ms) => pause(world, ms),
    insist: (call) => insist(world, call),
    onHold: world.onHold,
  };
}

const insistAfterMs = 1_000;

async function insist<Body>(world: World, call: () => Promise<Answer<Body>>): Promise<Answer<Body>> {
  for (;;) {
    const answer = await call();
    if (!isNotNow(answer)) return answer;
    world.tally.retried();
    if (!(await pause(world, waitAsAsked(world, answer)))) return answer;
  }
}

/** Refused for now: asking again later helps. */
function isNotNow({ status }: Answer): boolean {
  return status === 503 || status === 429;
}

/** Waits as the response asks, spread as on the page, so that buyers do not all come back at the same instant. */
function waitAsAsked({ random }: World, { body }: Answer): number {
  const asked = body.retryAfterMs ?? insistAfterMs;
  return Math.min(Math.max(asked, 250), 30_000) * (0.85 + random.int(300) / 1_000);
}

/** Some seats that everybody wants: the first of the venue. */
function hotSeats(quantity: number, random: Random): number[] {
  const first = random.int(hotSeatCount);
  return Array.from({ length: quantity }, (_, index) => first + index);
}

/** As the page polls: the wait's tenth, within the published bounds, with jitter in proportion. */
function pollMs(status: StatusObject, place: { number: number; shard: number }, random: Random): number {
  // Shards are called side by side: each of them has its share of the rate.
  const ahead = Math.max(0, place.number - (status.frontier[place.shard] ?? 0)) * status.frontier.length;
  const waitMs = status.rate.measured > 0 ? (ahead / status.rate.measured) * 1_000 : 0;
  const base = Math.min(status.poll.maxMs, Math.max(status.poll.minMs, waitMs / 10));
  return base * (0.85 + random.int(150) / 1_000);
}

async function pause(world: World, ms: number): Promise<boolean> {
  if (world.clock.monotonic() + ms >= world.ends) return false;
  await world.clock.sleep(ms);
  return true;
}

function isOver(answer: Answer): boolean {
  return answer.body.code === 'sale_closed' || answer.body.code === 'event_cancelled';
}

function unexpected(world: World, step: string, answer: Answer): Ended {
  world.tally.fault(`${step}: ${answer.status} ${answer.body.code ?? ''} ${answer.body.detail ?? ''}`);
  return { end: 'failed' };
}

export function chance(random: Random, share: number): boolean {
  return random.int(10_000) < share * 10_000;
}
