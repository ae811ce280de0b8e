import type { Clock } from '../../src/runtime/clock.ts';
import type { Random } from '../../src/runtime/random.ts';
import type { HoldEvent } from './basket.ts';
import { createBuyer } from './buyer.ts';
import { createHttpClients } from './http-client.ts';
import { householdsOf } from './loopback.ts';
import { chance, live } from './person.ts';
import { type CrowdReport, createTally } from './tally.ts';

export type { BuyerEnd, CrowdReport } from './tally.ts';

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
  /** Milliseconds that a buyer keeps a basket before paying, evenly between the two. None by default. */
  thinkMs?: readonly [number, number];
  onProgress?: (report: CrowdReport) => void;
  onHold?: (event: HoldEvent) => void;
  onBought?: (order: string, seats: number[]) => void;
}

export interface CrowdShares {
  /** Choose seats on the map, among a few that everybody wants; the others take the best available. */
  hotSeats: number;
  /** Leave with seats in the basket: half of them release, half just go. */
  abandon: number;
  /** Have their first card declined; half of them try another one. */
  decline: number;
}

const sharesDefault: CrowdShares = { hotSeats: 0.3, abandon: 0.1, decline: 0.1 };

/** Sends a crowd over HTTP: each person queues, polls as the page does, holds, thinks, pays, declines or leaves. */
export async function runCrowd(options: CrowdOptions): Promise<CrowdReport> {
  const { clock, random } = options;
  const tally = createTally(options);
  const clients = createHttpClients({
    url: options.url,
    clock,
    connectionsMax: options.connectionsMax ?? 100,
    addresses: await householdsOf(options.url, options.buyers),
    onAnswer: tally.answered,
  });
  const shares = { ...sharesDefault, ...options.shares };
  const [thinkMin, thinkMax] = options.thinkMs ?? [0, 0];
  const world = {
    clock,
    random,
    tally,
    ends: clock.monotonic() + options.overMs + options.patienceMs,
    onHold: options.onHold ?? (() => {}),
    onBought: options.onBought ?? (() => {}),
  };
  const ticker = setProgress(options, tally.report);
  try {
    await Promise.all(
      Array.from({ length: options.buyers }, async (_, nth) => {
        await clock.sleep((random.int(10_000) / 10_000) * options.overMs);
        tally.arrived();
        const person = {
          buyer: createBuyer(clients.browser(), options.event, random),
          hotSeats: chance(random, shares.hotSeats),
          abandons: chance(random, shares.abandon),
          declines: chance(random, shares.decline),
          quantity: 1 + random.int(4),
          card: `pm_card_visa_${nth + 1}`,
          thinkMs: thinkMax > 0 ? thinkMin + random.int(thinkMax - thinkMin + 1) : 0,
        };
        try {
          tally.ended(await live(person, world));
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
