import { createReconcileReport } from '../checkout/reconcile-report.ts';
import { createReversalListing } from '../checkout/reversal-listing.ts';
import { type Cooldowns, createCooldowns, judgeHoldEndsRegularly } from '../orders/cooldowns.ts';
import type { SalesRecord } from '../orders/record.ts';
import type { PaymentProvider } from '../payments/provider.ts';
import type { Db } from '../postgres/db.ts';
import { cleanRegularly } from '../retention/cleaning.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Shutdown } from '../runtime/shutdown.ts';

interface Parts {
  db: Db;
  clock: Clock;
  log: Logger;
  loops: Loops;
}

/** The web role's part: what this process knows of cooldowns. */
export async function startCooldowns(parts: Parts & { shutdown: Shutdown }): Promise<Cooldowns> {
  const cooldowns = createCooldowns(parts);
  parts.shutdown.add('record of ended holds', () => cooldowns.flush());
  await cooldowns.start(parts.loops);
  return cooldowns;
}

/**
 * The worker's part: holds that ended are judged, the provider's payments compared with the record, its refunds and disputes
 * listed, and its events cleaned away after `eventsKeptDays`.
 */
export function startLimitTasks(
  parts: Parts & { provider: PaymentProvider; record: SalesRecord; owner: string; eventsKeptDays: number },
): void {
  const { loops, eventsKeptDays, ...rest } = parts;
  cleanRegularly(loops, { db: rest.db, keptMs: eventsKeptDays * 24 * 3_600_000 });
  judgeHoldEndsRegularly(loops, rest.db);
  createReconcileReport({ ...rest, handOver: handOverTo(parts.record) }).start(loops);
  createReversalListing(rest).start(loops);
}

/**
 * Reports an object that names our order as if an event of the provider had named it, once a run. The saga handles it by its
 * own rules, repeatedly until it is done.
 */
export function handOverTo(
  record: Pick<SalesRecord, 'providerEvent'>,
): (object: string, run: string) => Promise<void> {
  return async (object, run) => {
    await record.providerEvent({ id: `reconcile:${run}:${object}`, type: 'reconcile', object });
  };
}
