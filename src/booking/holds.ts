import type { Venue } from '../catalogue/events.ts';
import type { Hold, HoldId, PartitionNo, Visitor } from '../core/hold.ts';
import { seatStateOfOrder } from '../core/order.ts';
import { problem } from '../core/problems.ts';
import type { RecoverOutcome, ReleaseOutcome } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import { allBut } from './best-seats.ts';
import type { BookingDeps } from './deps.ts';
import { problemOfRecover, problemOfRelease } from './refusals.ts';

/** A hold's id with the event, the partition and the visitor that it names. */
export interface LocatedHold {
  id: HoldId;
  event: EventRecord;
  venue: Venue;
  partition: PartitionNo;
  visitor: Visitor;
}

/** What a buyer does with a hold after it was placed. Refusals are thrown as problems. */
export interface Holds {
  /** The hold; null if it has ended. Throws `unknown_hold` for another visitor's hold and for one that never existed. */
  findHold(visitor: Visitor | null, id: string): Promise<LocatedHold & { hold: Hold | null }>;
  /** As `findHold`; throws `hold_gone`, with the order that the hold became, if it has ended. */
  getHold(visitor: Visitor | null, id: string): Promise<LocatedHold & { hold: Hold }>;
  /** Gives the seats back. Repeatable. Throws `hold_ordered` if an order has them. */
  releaseHold(visitor: Visitor | null, id: string): Promise<void>;
  /** Recovers a hold by its receipt after a change of stores. */
  recoverHold(
    visitor: Visitor | null,
    id: string,
    receipt: string,
  ): Promise<LocatedHold & Extract<RecoverOutcome, { kind: 'recovered' | 'recovering' }>>;
  /** A hold whose order was refused, as seats without an order. */
  withoutRefusedOrder(hold: Hold): Promise<Hold>;
  /** Gives back the seats of a hold whose order was refused. Returns whether they were. */
  giveBackUnordered(visitor: Visitor, id: string): Promise<boolean>;
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function createHolds(deps: BookingDeps): Holds {
  const { arbiter, checkout, credentials, events } = deps;

  /** The id of a hold names its visitor, event and partition. */
  async function locate(visitor: Visitor | null, id: string): Promise<LocatedHold> {
    const place = visitor && uuidForm.test(id) ? credentials.holdPlaceOf(id, visitor) : null;
    // Postgres counts events with 31 bits: a stray id may decode to more.
    const event = place && place.event <= 0x7fffffff ? await events.findByNo(place.event) : null;
    if (!visitor || !place || !event?.layoutHash) throw problem('unknown_hold');
    const venue = await events.venue(event);
    const { partition } = place;
    if (!venue.partitions.some((each) => each.partition === partition)) throw problem('unknown_hold');
    return { id, event, venue, partition, visitor };
  }

  async function findHold(visitor: Visitor | null, id: string) {
    const located = await locate(visitor, id);
    const hold = await arbiter.find(located.event.eventNo, located.partition, id);
    if (hold && hold.visitor !== located.visitor) throw problem('unknown_hold');
    return { ...located, hold };
  }

  /**
   * The claim with that id may still be on its way to another partition, where it has another id. A tombstone
   * is left there too, as in its own partition, so that the claim cannot be granted later.
   */
  async function releaseEverywhere(located: LocatedHold): Promise<ReleaseOutcome> {
    const { event, venue, partition, visitor } = located;
    const releaseIn = (where: PartitionNo): Promise<ReleaseOutcome> => {
      const hold = credentials.holdIdIn(located.id, visitor, where);
      return arbiter.release({ event: event.eventNo, partition: where, hold, visitor });
    };
    const others = [...allBut(venue, partition)].map((where) =>
      releaseIn(where).catch((error: unknown) => {
        // A store that is away decides nothing about the hold of another.
        if (!(error instanceof StoreFault)) throw error;
      }),
    );
    const [outcome] = await Promise.all([releaseIn(partition), ...others]);
    return outcome;
  }

  /** Payment was about to start: if it did, the seats are the order's; if not, no order can come of the hold any more. */
  async function abandonBound({ event, partition, id }: LocatedHold): Promise<void> {
    const hold = await arbiter.find(event.eventNo, partition, id);
    if (!hold) return;
    const outcome = await checkout.abandon(hold);
    if (outcome.kind === 'ordered') throw problem('hold_ordered', { extra: { order: outcome.order.order } });
  }

  /** "Gone" is what was asked for, unless the seats went into an order that still has them. */
  async function refuseOrdered(id: HoldId): Promise<void> {
    const order = await checkout.find(credentials.orderIdOf(id));
    if (order && seatStateOfOrder[order.state] !== 'free')
      throw problem('hold_ordered', { extra: { order: order.order } });
  }

  /** With the order that the hold became, if it did. */
  async function gone(id: HoldId, visitor: Visitor) {
    const order = await checkout.find(credentials.orderIdOf(id));
    return problem('hold_gone', order?.visitor === visitor ? { extra: { order: order.order } } : {});
  }

  /**
   * A hold is bound to its order before the order is made. If the order was then refused, for example because
   * of a limit, there is no order, and the hold is shown as seats in a basket.
   */
  async function withoutRefusedOrder(hold: Hold): Promise<Hold> {
    if (hold.order === null) return hold;
    return (await checkout.find(hold.order)) ? hold : { ...hold, order: null };
  }

  return {
    findHold,
    withoutRefusedOrder,
    async getHold(visitor, id) {
      const { hold, ...located } = await findHold(visitor, id);
      if (!hold) throw await gone(located.id, located.visitor);
      return { ...located, hold: await withoutRefusedOrder(hold) };
    },
    async releaseHold(visitor, id) {
      const located = await locate(visitor, id);
      const outcome = await releaseEverywhere(located);
      if (outcome.kind === 'bound') await abandonBound(located);
      else if (outcome.kind === 'hold_gone') await refuseOrdered(located.id);
      else {
        const refusal = problemOfRelease(outcome);
        if (refusal) throw refusal;
      }
      const { event } = located;
      if (event.settings.cooldown) deps.cooldowns?.released(event.eventNo, located.id);
    },
    async recoverHold(visitor, id, receipt) {
      const located = await locate(visitor, id);
      const { event, partition } = located;
      const read = credentials.readReceipt(receipt, { event: event.eventNo, visitor: located.visitor });
      if (read.kind === 'invalid' || read.hold.hold !== id || read.hold.partition !== partition)
        throw problem('receipt_refused');
      const { holdSeatsMax: seatsMax } = event.settings;
      const outcome = await arbiter.recover({
        event: event.eventNo,
        partition,
        receipt: read.hold,
        seatsMax,
      });
      switch (outcome.kind) {
        case 'recovered':
        case 'recovering':
          return { ...located, ...outcome };
        case 'hold_gone':
          throw await gone(id, located.visitor);
        case 'taken':
        case 'retry':
          throw problemOfRecover(outcome);
      }
    },
    /** A bound hold cannot be exchanged in one step (S5), so that the buyer could not hold fewer of its seats. */
    async giveBackUnordered(visitor, id) {
      const { hold } = await findHold(visitor, id);
      if (!hold || hold.order === null || (await checkout.find(hold.order))) return false;
      return (await checkout.abandon(hold)).kind === 'released';
    },
  };
}
