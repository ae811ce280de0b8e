import type { HoldAnswer, StatusObject } from '../http/api-types.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { type Buyer, createBuyer } from './buyer.ts';
import { type Answer, createHttpClients } from './http-client.ts';

export interface CrowdOptions {
  url: string;
  event: string;
  buyers: number;
  /** Milliseconds over which they arrive, evenly with chance. */
  overMs: number;
  /** After that everybody who is left gives up. Milliseconds. */
  patienceMs: number;
  clock: Clock;
  random: Random;
  connectionsMax?: number;
  /** Shares of people, 0..1. */
  shares?: Partial<CrowdShares>;
  onProgress?: (report: CrowdReport) => void;
}

export interface CrowdShares {
  /** Choose seats on the map, among a few that everybody wants; the others take the best available. */
  hotSeats: number;
  /** Leave with seats in the basket: half of them release, half just go. */
  abandon: number;
  /** First card is declined; half of them try another one. */
  decline: number;
}

const sharesDefault: CrowdShares = { hotSeats: 0.3, abandon: 0.1, decline: 0.1 };
const holdTriesMax = 6;
const hotSeatCount = 40;

export type BuyerEnd = 'bought' | 'sold_out' | 'sale_over' | 'abandoned' | 'declined' | 'gave_up' | 'failed';

export interface CrowdReport {
  buyers: number;
  arrived: number;
  /** Waiting or buying at this moment. */
  present: number;
  ends: Record<BuyerEnd, number>;
  seatsBought: number;
  refusedTaken: number;
  requests: number;
  /** Answers by status. */
  statuses: Record<number, number>;
  /** Unexpected answers and lost connections: the first few, as text. */
  faults: string[];
  /** Per route, milliseconds: p50, p95, p99. */
  latency: Record<string, { count: number; p50: number; p95: number; p99: number }>;
  /** Milliseconds from the published sold-out to the last person told. */
  soldOutToldMs: number | null;
  tookMs: number;
}

/** Sends a crowd over HTTP: each person queues, polls as the page does, holds, pays, declines or leaves. */
export async function runCrowd(options: CrowdOptions): Promise<CrowdReport> {
  const { clock, random } = options;
  const tally = createTally(options);
  const clients = createHttpClients({
    url: options.url,
    clock,
    connectionsMax: options.connectionsMax ?? 100,
    onAnswer: tally.answered,
  });
  const shares = { ...sharesDefault, ...options.shares };
  const ends = clock.monotonic() + options.overMs + options.patienceMs;
  const ticker = setProgress(options, tally.report);
  try {
    await Promise.all(
      Array.from({ length: options.buyers }, async () => {
        await clock.sleep((random.int(10_000) / 10_000) * options.overMs);
        tally.arrived();
        const person = {
          buyer: createBuyer(clients.browser(), options.event, random),
          hotSeats: chance(random, shares.hotSeats),
          abandons: chance(random, shares.abandon),
          declines: chance(random, shares.decline),
          quantity: 1 + random.int(4),
        };
        try {
          tally.ended(await live(person, { ...options, ends, tally }));
        } catch (error) {
          tally.fault((error as Error).message);
          tally.ended('failed');
        }
      }),
    );
    return tally.report();
  } finally {
    ticker();
    clients.close();
  }
}

interface Person {
  buyer: Buyer;
  hotSeats: boolean;
  abandons: boolean;
  declines: boolean;
  quantity: number;
}

interface World extends CrowdOptions {
  /** Monotonic ms. */
  ends: number;
  tally: Tally;
}

/** One person's evening, from arrival to the end. */
async function live(person: Person, world: World): Promise<BuyerEnd> {
  const place = await queue(person, world);
  if ('end' in place) return place.end;
  const basket = await fillBasket(person, world, place.pass);
  if ('end' in basket) return basket.end;
  if (person.abandons) {
    if (chance(world.random, 0.5)) await person.buyer.release(basket.hold.hold);
    return 'abandoned';
  }
  return pay(person, world, basket.hold);
}

async function queue(person: Person, world: World): Promise<{ pass: string } | { end: BuyerEnd }> {
  const { buyer } = person;
  let joined = await buyer.join();
  while (joined.status !== 200) {
    if (isOver(joined)) return { end: 'sale_over' };
    if (joined.body.code !== 'not_open' && joined.status !== 503) return unexpected(world, 'join', joined);
    if (!(await pause(world, joined.body.retryAfterMs ?? 2_000))) return { end: 'gave_up' };
    joined = await buyer.join();
  }
  for (;;) {
    const { body: status } = await buyer.status();
    const over = world.tally.seen(status);
    if (over) return { end: over };
    let waitMs = pollMs(status, joined.body.number, world.random);
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

async function fillBasket(
  person: Person,
  world: World,
  pass: string,
): Promise<{ hold: HoldAnswer } | { end: BuyerEnd }> {
  const { buyer } = person;
  for (let attempt = 0; ; attempt++) {
    const held =
      person.hotSeats && attempt < holdTriesMax / 2
        ? await buyer.holdSeats(pass, hotSeats(person.quantity, world.random))
        : await buyer.holdBest(pass, { quantity: attempt < holdTriesMax ? person.quantity : 1 });
    if (held.status === 201 || held.status === 200) return { hold: held.body };
    if (held.body.code === 'taken') world.tally.refused();
    else if (held.body.code === 'sold_out') return { end: 'sold_out' };
    else if (isOver(held)) return { end: 'sale_over' };
    else if (held.body.code === 'pass_expired') return { end: 'gave_up' };
    else if (held.body.code !== 'paused' && held.status !== 503) return unexpected(world, 'hold', held);
    // Nothing found a few times: watch the status as the page does, and try again while seats may come back.
    if (attempt >= holdTriesMax) {
      const { body: status } = await buyer.status();
      const over = world.tally.seen(status);
      if (over) return { end: over };
      if (!(await pause(world, pollMs(status, 0, world.random)))) return { end: 'gave_up' };
    } else if (!(await pause(world, 100 + world.random.int(900)))) return { end: 'gave_up' };
  }
}

async function pay(person: Person, world: World, hold: HoldAnswer): Promise<BuyerEnd> {
  const { buyer } = person;
  const order = await buyer.order(hold.hold);
  if (order.body.code === 'hold_gone') return 'gave_up';
  if (order.status !== 201 && order.status !== 200) return unexpected(world, 'order', order).end;
  const { order: id } = order.body;
  let paid = await buyer.pay(id, person.declines ? 'pm_card_chargeDeclined' : 'pm_card_visa');
  if (paid.status === 402) {
    if (chance(world.random, 0.5)) {
      await buyer.closeOrder(id);
      return 'declined';
    }
    paid = await buyer.pay(id, 'pm_card_visa');
  }
  while (paid.status === 202 || paid.status === 503 || paid.body.code === 'payment_under_way') {
    if (!(await pause(world, 1_000))) return 'gave_up';
    paid = await buyer.refresh(id);
  }
  if (paid.status !== 200) return unexpected(world, 'payment', paid).end;
  world.tally.bought(hold.seats.length);
  return 'bought';
}

/** Some seats that everybody wants: the first of the house. */
function hotSeats(quantity: number, random: Random): number[] {
  const first = random.int(hotSeatCount);
  return Array.from({ length: quantity }, (_, index) => first + index);
}

/** As the page polls: the wait's tenth, within the published bounds, with jitter in proportion. */
function pollMs(status: StatusObject, number: number, random: Random): number {
  const ahead = Math.max(0, number - (status.frontier[0] ?? 0));
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

function unexpected(world: World, step: string, answer: Answer): { end: BuyerEnd } {
  world.tally.fault(`${step}: ${answer.status} ${answer.body.code ?? ''} ${answer.body.detail ?? ''}`);
  return { end: 'failed' };
}

function chance(random: Random, share: number): boolean {
  return random.int(10_000) < share * 10_000;
}

interface Tally {
  arrived(): void;
  answered(method: string, route: string, answer: Answer): void;
  /** Notes what a status says; answers the end when the sale is over for everybody. */
  seen(status: StatusObject): BuyerEnd | null;
  refused(): void;
  bought(seats: number): void;
  fault(text: string): void;
  ended(end: BuyerEnd): void;
  report(): CrowdReport;
}

const faultsListedMax = 20;

function createTally({ clock, buyers }: CrowdOptions): Tally {
  const started = clock.monotonic();
  const ends: Record<BuyerEnd, number> = {
    bought: 0,
    sold_out: 0,
    sale_over: 0,
    abandoned: 0,
    declined: 0,
    gave_up: 0,
    failed: 0,
  };
  const statuses: Record<number, number> = {};
  const took = new Map<string, number[]>();
  const faults: string[] = [];
  let arrived = 0;
  let requests = 0;
  let refusedTaken = 0;
  let seatsBought = 0;
  let soldOutFirst: number | null = null;
  let soldOutLast: number | null = null;
  const endedCount = (): number => Object.values(ends).reduce((sum, count) => sum + count, 0);

  return {
    arrived: () => {
      arrived += 1;
    },
    answered(method, route, answer) {
      requests += 1;
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
      const key = `${method} ${route}`;
      const list = took.get(key) ?? [];
      list.push(answer.tookMs);
      took.set(key, list);
      if (answer.status >= 500 && answer.status !== 503)
        this.fault(`${key}: ${answer.status} ${answer.body.code ?? ''}`);
    },
    seen(status) {
      if (status.phase === 'closed' || status.phase === 'cancelled') return 'sale_over';
      if (!status.soldOut) return null;
      soldOutFirst ??= clock.monotonic();
      soldOutLast = clock.monotonic();
      return 'sold_out';
    },
    refused: () => {
      refusedTaken += 1;
    },
    bought: (seats) => {
      seatsBought += seats;
    },
    fault: (text) => {
      if (faults.length < faultsListedMax) faults.push(text);
    },
    ended: (end) => {
      ends[end] += 1;
    },
    report: () => ({
      buyers,
      arrived,
      present: arrived - endedCount(),
      ends: { ...ends },
      seatsBought,
      refusedTaken,
      requests,
      statuses: { ...statuses },
      faults: [...faults],
      latency: Object.fromEntries([...took].map(([route, list]) => [route, percentiles(list)])),
      soldOutToldMs: soldOutFirst === null || soldOutLast === null ? null : soldOutLast - soldOutFirst,
      tookMs: clock.monotonic() - started,
    }),
  };
}

function percentiles(list: number[]): { count: number; p50: number; p95: number; p99: number } {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (share: number): number =>
    Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 10) / 10;
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

/** Calls back every second until the returned function is called. */
function setProgress({ clock, onProgress }: CrowdOptions, report: () => CrowdReport): () => void {
  if (!onProgress) return () => {};
  let cancel = (): void => {};
  const tick = (): void => {
    onProgress(report());
    cancel = clock.after(1_000, tick);
  };
  cancel = clock.after(1_000, tick);
  return () => cancel();
}
