import { serveIn } from './child.ts';
import { type Loaded, loadWith } from './http-load.ts';
import {
  type Case,
  type Comparison,
  compare,
  cpuOf,
  cpuSpreads,
  interleave,
  type Sample,
} from './measure.ts';
import { holdRequest, openSale, type Sale } from './open-sale.ts';
import type { Bench } from './run.ts';

const seats = 100_000;
const connections = 64;
const seatsPerHold = 2;
const attemptsMax = 3;
/** Seats that are held before the refusals begin. */
const takenSeats = 200;

const comparisons: Comparison[] = [
  { case: 'hold granted', baseline: 'bare route', budget: 0.5 },
  { case: 'hold refused', baseline: 'bare route', budget: 0.6 },
  ...['hold granted', 'hold refused'].map((name) => ({
    case: cpuOf(name),
    baseline: cpuOf('bare route'),
    budget: null,
    atMost: true,
  })),
];

export const bench: Bench = {
  name: 'hold',
  question: 'What does a hold over HTTP cost beside a bare route of the same schema that answers a constant?',
  async run({ servers, runs, seconds, progress }) {
    const bare = await serveIn('baselines/bare-route.ts', {});
    const sale = await openSale(servers, { seats });
    try {
      let fresh = 0;
      const take = (holds: number): Buffer[] =>
        Array.from({ length: holds }, () => {
          const chosen = sale.seats.slice(fresh, fresh + seatsPerHold);
          if (chosen.length < seatsPerHold) throw new Error('no fresh seats are left');
          fresh += seatsPerHold;
          return holdRequest(sale, chosen);
        });
      await loadWith(sale.served.url, {
        connections,
        requests: take(takenSeats / seatsPerHold),
        seconds: 30,
      });
      const refusals = (count: number): Buffer[] =>
        Array.from({ length: count }, (_, index) => {
          const first = (index * seatsPerHold) % takenSeats;
          return holdRequest(sale, sale.seats.slice(first, first + seatsPerHold));
        });
      const warmUp = 3_000;
      const holdsPerRun = Math.floor(
        ((sale.seats.length - takenSeats) / seatsPerHold - warmUp) / Math.max(runs, 5) / 1.5,
      );
      const constant = refusals(60_000);
      await loadWith(bare.url, { connections, requests: constant.slice(0, warmUp), seconds: 30 });
      await loadWith(sale.served.url, { connections, requests: take(warmUp), seconds: 30 });
      await loadWith(sale.served.url, { connections, requests: refusals(warmUp), seconds: 30 });

      const against = (
        name: string,
        requests: () => Buffer[],
        status: number,
        served: Sale['served'],
      ): Case => ({
        name,
        unit: 'requests/s',
        async measure() {
          for (let attempt = 1; ; attempt++) {
            await sale.redisArbitrates();
            const list = requests();
            const cpuBefore = served.cpuMs();
            const loaded = await loadWith(served.url, { connections, requests: list, seconds });
            // Redis was late and Postgres took over: that is another question.
            if (loaded.statuses.has(503) && attempt < attemptsMax) continue;
            return sampleOf(loaded, status, served.cpuMs() - cpuBefore);
          }
        },
      });
      const spreads = await interleave(
        [
          against('bare route', () => constant, 201, bare),
          against('hold granted', () => take(holdsPerRun), 201, sale.served),
          against('hold refused', () => refusals(40_000), 409, sale.served),
        ],
        runs,
        progress,
      );
      const all = [...spreads, ...cpuSpreads(spreads, ['serverCpuUs'])];
      return { spreads: all, lines: compare('hold', all, comparisons) };
    } finally {
      await sale.stop();
      await bare.stop();
    }
  },
};

/** All answers have to be of the one status. */
export function sampleOf(loaded: Loaded, status: number, serverCpuMs: number): Sample {
  const { answers, elapsedMs, statuses, samples, p50Ms, p99Ms } = loaded;
  if (statuses.get(status) !== answers) {
    throw new Error(`not all ${status}: ${JSON.stringify([...statuses])} ${JSON.stringify([...samples])}`);
  }
  const value = (answers / elapsedMs) * 1_000;
  return { value, detail: { answers, p50Ms, p99Ms, serverCpuUs: (serverCpuMs / answers) * 1_000 } };
}
