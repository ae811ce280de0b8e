import { StartProblem } from '../app/runtime.ts';
import { createEvents } from '../catalogue/events.ts';
import { publishEvent, savePlan } from '../catalogue/plans.ts';
import { type EventSettings, eventSettingsDefault } from '../orders/record.ts';
import { generateStadium } from '../plans/generate.ts';
import { importPlan } from '../plans/import-plan.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';

/** The event of a first start: a stadium of our own, imported like any organiser's plan. */
export const demoEvent = { event: 'demo', name: 'Demo Night at the Stadium', currency: 'EUR' } as const;
const actor = 'onsale start';
/**
 * Ten full purchases from one browser with one card, so that who tries the demo out is not stopped by the limits of a real sale.
 * All other limits are those of any new event.
 */
const demoSeatsMax = 10 * eventSettingsDefault.holdSeatsMax;
const demoLimits = {
  accountSeatsMax: demoSeatsMax,
  instrumentSeatsMax: demoSeatsMax,
  visitorSeatsMax: demoSeatsMax,
};
const daysUntilPerformance = 60;
/** Minor units: the dearest category first, then each a step cheaper. */
const priceMax = 14_900;
const priceStep = 2_500;
const priceMin = 2_900;

export interface DemoOptions {
  db: Db;
  clock: Clock;
  seats: number;
  onProgress: (line: string) => void;
  event?: { event: string; name: string; currency: string };
  settings?: Partial<EventSettings>;
}

/** Generates, imports, creates, publishes and opens; takes up where an interrupted start left off. */
export async function createDemoEvent(options: DemoOptions): Promise<string> {
  const { db, clock, seats, onProgress, event: wanted = demoEvent } = options;
  const events = createEvents({ db, clock });
  let event = await events.find(wanted.event);
  if (!event) {
    onProgress(`Making a stadium of ${seats.toLocaleString('en')} seats …`);
    const plan = Buffer.from(JSON.stringify(generateStadium({ seats, name: 'Demo Stadium' })));
    const imported = importPlan(plan);
    if (imported.kind === 'refused') {
      throw new StartProblem(
        `The demo stadium was refused: ${imported.problems[0]?.sentence ?? 'unknown reason'}`,
      );
    }
    const saved = await savePlan(db, imported.plan, imported.report);
    const prices = Object.fromEntries(
      imported.plan.categories.map(({ name }, i) => [name, Math.max(priceMin, priceMax - i * priceStep)]),
    );
    const created = await events.create({
      ...wanted,
      planId: saved.plan.plan,
      performanceAt: clock.now() + daysUntilPerformance * 24 * 3_600_000,
      onSaleAt: null,
      saleEndsAt: null,
      prices,
      settings: { seatFee: 150, orderFee: 0, ...demoLimits, ...options.settings },
    });
    if (created.kind !== 'created')
      throw new StartProblem(`The demo event could not be made: ${created.kind}`);
    event = created.event;
  }
  if (event.phase === 'draft') {
    onProgress('Publishing the demo event …');
    const published = await publishEvent(db, event, { actor, acceptWarnings: false });
    if (published.kind !== 'published') {
      throw new StartProblem(`The demo event could not be published: ${published.kind}`);
    }
  }
  const fresh = (await createEvents({ db, clock }).find(wanted.event)) ?? event;
  if (fresh.phase === 'scheduled') {
    onProgress('Opening the sale …');
    await events.changeOnSale({ event: fresh, actor, expectedVersion: fresh.version, phase: 'open' });
  }
  return wanted.event;
}
