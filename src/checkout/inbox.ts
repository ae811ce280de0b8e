import type { ObjectEvents, SalesRecord } from '../orders/record.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Loop, Loops } from '../runtime/loops.ts';
import type { Lookups } from './lookups.ts';
import { createPlaces } from './places.ts';

export interface InboxOptions {
  record: Pick<SalesRecord, 'claimEvents' | 'eventsProcessed' | 'eventsAgain'>;
  payments: Pick<Lookups, 'claimOf' | 'inspect' | 'inspectStray'>;
  clock: Clock;
  log: Logger;
}

export interface Inbox {
  /** One pass over all that is due now. */
  runOnce(): Promise<InboxPass>;
  /** Wake the loop when an event was stored. */
  start(loops: Loops): Loop;
}

export interface InboxPass {
  /** Objects that were looked at, whatever the number of their events. */
  looked: number;
  processed: number;
  again: number;
  failed: number;
}

const gapMs = 1_000;
/** A round over a full inbox asks the provider thousands of times. */
const roundLateMs = 10 * 60_000;
/** Objects that are looked at at the same time: a look is a call to the provider. */
const placesMax = 8;
const againMs = 1_000;
const againMaxMs = 60_000;
/** Retry gap for an object that is not known here yet. */
const unknownMs = 2_000;
const unknownMaxMs = 6 * 3_600_000;
/** Providers repeat an undelivered event for this long. An object still unknown by then is for the operator to judge. */
const keptMs = 3 * 24 * 3_600_000;

/**
 * The provider's events, after they were stored and answered. What they say is not believed: of each object that they name the
 * present state is fetched, once however many its events are, and drives the order by the same conditional steps as everything
 * else (P6). Events of payments that are not ours are noted and left alone. Events of an object that is not known yet are kept and looked at again with growing gaps; after three days they
 * end on the operator's list.
 */
export function createInbox({ record, payments, clock, log }: InboxOptions): Inbox {
  const places = createPlaces<ObjectEvents>({
    places: placesMax,
    claim: (limit) => record.claimEvents({ ...payments.claimOf, limit }),
    clock,
  });
  const newPass = (): InboxPass => ({ looked: 0, processed: 0, again: 0, failed: 0 });

  async function runOnce(): Promise<InboxPass> {
    const pass = newPass();
    await places.drain((one) => look(one, pass));
    return pass;
  }

  async function look(one: ObjectEvents, pass: InboxPass): Promise<void> {
    const { object, events, order, types } = one;
    pass.looked += 1;
    try {
      const verdict = order ? await inspected(order, types) : await payments.inspectStray(object, types);
      if (verdict === 'done' || verdict === 'foreign') {
        await record.eventsProcessed(events, verdict === 'foreign' ? 'foreign' : null);
        pass.processed += events.length;
        return;
      }
      await notDone(one, verdict, pass);
    } catch (err) {
      pass.failed += 1;
      log.error({ err, object, order }, "a provider's event failed; it will be looked at again");
      // Its claim lapses, should this not be possible either.
      await record.eventsAgain(events, gapOf(againMs, againMaxMs, one.attempts)).catch(() => {});
    }
  }

  async function inspected(order: string, types: readonly string[]): Promise<'done' | 'later'> {
    return (await payments.inspect(order, types)) ? 'done' : 'later';
  }

  async function notDone(one: ObjectEvents, verdict: 'later' | 'unknown', pass: InboxPass): Promise<void> {
    const { object, events, attempts, ageMs } = one;
    if (verdict === 'unknown' && ageMs > keptMs) {
      log.error({ object, events: events.length }, 'the provider tells of a payment that nobody here knows');
      await record.eventsProcessed(events, 'unknown_object');
      pass.processed += events.length;
      return;
    }
    const dueMs =
      verdict === 'later'
        ? gapOf(againMs, againMaxMs, attempts)
        : gapOf(unknownMs, unknownMaxMs, attempts, 4);
    await record.eventsAgain(events, dueMs);
    pass.again += events.length;
  }

  return {
    runOnce,
    start: (loops) =>
      loops.run({
        name: 'read provider events',
        everyMs: gapMs,
        lateAfterMs: roundLateMs,
        turn: (signal) => places.fill((one) => look(one, newPass()), signal),
        ended: places.ended,
      }),
  };
}

function gapOf(firstMs: number, maxMs: number, attempts: number, factor = 2): number {
  return Math.min(maxMs, firstMs * factor ** Math.min(attempts - 1, 12));
}
