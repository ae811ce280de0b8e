import type { StatusObject } from '../../src/http/api-types.ts';
import type { Clock } from '../../src/runtime/clock.ts';
import type { Answer } from './http-client.ts';

export type BuyerEnd =
  | 'bought'
  | 'sold_out'
  | 'sale_over'
  | 'abandoned'
  | 'declined'
  | 'gave_up'
  /** Told that the seats in the basket are gone. */
  | 'lost_hold'
  | 'failed';

export interface CrowdReport {
  buyers: number;
  arrived: number;
  /** Waiting or buying at this moment. */
  present: number;
  ends: Record<BuyerEnd, number>;
  seatsBought: number;
  refusedTaken: number;
  /** Requests repeated after "not now". */
  retried: number;
  requests: number;
  /** Responses by status. */
  statuses: Record<number, number>;
  /** Unexpected answers and lost connections: the first few, as text. */
  faults: string[];
  /** Per route, milliseconds: p50, p95, p99. */
  latency: Record<string, { count: number; p50: number; p95: number; p99: number }>;
  /** Milliseconds from the published sold-out to the last person told. */
  soldOutToldMs: number | null;
  tookMs: number;
}

export interface Tally {
  arrived(): void;
  answered(method: string, route: string, answer: Answer): void;
  /** Records a status. Returns the end if the sale is over for all buyers. */
  noteStatus(status: StatusObject): BuyerEnd | null;
  refused(): void;
  retried(): void;
  bought(seats: number): void;
  fault(text: string): void;
  ended(end: BuyerEnd): void;
  report(): CrowdReport;
}

const faultsListedMax = 20;

export function createTally({ clock, buyers }: { clock: Clock; buyers: number }): Tally {
  const started = clock.monotonic();
  const ends: Record<BuyerEnd, number> = {
    bought: 0,
    sold_out: 0,
    sale_over: 0,
    abandoned: 0,
    declined: 0,
    gave_up: 0,
    lost_hold: 0,
    failed: 0,
  };
  const statuses: Record<number, number> = {};
  const took = new Map<string, number[]>();
  const faults: string[] = [];
  let arrived = 0;
  let requests = 0;
  let refusedTaken = 0;
  let retried = 0;
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
    noteStatus(status) {
      if (status.phase === 'closed' || status.phase === 'cancelled') return 'sale_over';
      if (!status.soldOut) return null;
      soldOutFirst ??= clock.monotonic();
      soldOutLast = clock.monotonic();
      return 'sold_out';
    },
    refused: () => {
      refusedTaken += 1;
    },
    retried: () => {
      retried += 1;
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
      retried,
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
