import type { Venue } from '../catalogue/events.ts';
import type { Hold, Holder, HoldId, PartitionNo, Visitor } from '../core/hold.ts';
import { impossible } from '../core/outcome.ts';
import { type Problem, problem } from '../core/problems.ts';
import type { AddressQuota, Claim, HoldOutcome } from '../inventory/arbiter.ts';
import type { EventRecord } from '../orders/record.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { AdmissionPass } from '../waiting-room/credentials.ts';
import { claimPatienceMs, createArbiterTime } from './arbiter-time.ts';
import { type BestSeats, createBestSeats, type Found } from './best-seats.ts';
import { createSeatClaims } from './claim-seats.ts';
import type { BookingDeps } from './deps.ts';
import { createHolds, type Holds } from './holds.ts';
import { problemOfHold } from './refusals.ts';
import { demandRights, type Opened } from './rights.ts';
import { linesOf, seatInfos } from './seat-lines.ts';
import { readSelection, requestHash, rightsOfSelection, type SelectionBody } from './selection.ts';

/** The buyer, as the request proves it. */
export interface AdmittedBuyer {
  pass: AdmissionPass;
  /** The visitor, or the account where the event asks for one. Throws `account_required`. */
  holder(): Promise<Holder>;
  /** What the access code of this browser opens. */
  opened: Opened;
  /** Null if the event does not count by address. */
  address: AddressQuota | null;
  isConnected(): boolean;
}

export interface HoldRequest {
  event: EventRecord;
  buyer: AdmittedBuyer;
  /** The request's idempotency key: a repeat with it gets the same hold. */
  key: string;
  selection: SelectionBody;
  /** The hold that is given up for this one, in one step. */
  replaces: string | null;
}

export type Placed =
  | {
      kind: 'placed';
      hold: Hold;
      repeated: boolean;
      /** The ticket types that were selected; the hold does not store them. */
      kinds: readonly string[];
      /** Best available only. */
      described?: Found['described'];
    }
  /** The visitor holds other seats already. */
  | { kind: 'hold_exists'; hold: Hold };

/** Seats of an address range, for a buyer whom the organiser has excepted. */
const unlimited = 1_000_000;

/** Holds of buyers. Refusals are thrown as problems. */
export interface Booking extends Holds {
  /**
   * Holds the selected seats, or the best available: all of them or none, within one partition. Checks in this order: the
   * selection, access codes, the buyer's cooldown; then the arbiter decides about the seats and the quotas.
   */
  placeHold(request: HoldRequest): Promise<Placed>;
  /** Free seats near these, as many, by the published state; in the same partition when one is named. */
  nearest: BestSeats['nearest'];
  /** Epoch ms by the clock of the partition's store. Null while it is not known. */
  storeTime(event: EventRecord, partition: PartitionNo): number | null;
}

export function createBooking(deps: BookingDeps): Booking {
  const { arbiter, credentials, events, cooldowns } = deps;
  // One for all routes: it has to hear of every grant of this process.
  const best = createBestSeats(deps);
  const claims = createSeatClaims({ arbiter, best });
  const holds = createHolds(deps);
  /** Each partition's store has a clock of its own. */
  const times = new Map<string, ReturnType<typeof createArbiterTime>>();
  const timeOf = (event: EventRecord, partition: PartitionNo) => {
    const key = `${event.eventNo}/${partition}`;
    const time = times.get(key) ?? createArbiterTime(deps);
    times.set(key, time);
    return time;
  };

  async function placeHold({ event, buyer, key, selection: asked, ...more }: HoldRequest): Promise<Placed> {
    const { pass, opened } = buyer;
    const { visitor } = pass;
    const venue = await events.venue(event);
    const selection = readSelection(asked, event, venue, opened.rights);
    demandRights(opened, event, rightsOfSelection(selection, event, venue));
    let { replaces } = more;
    const held = replaces === null ? null : heldPartition(event, venue, visitor, replaces);
    const idIn = (partition: PartitionNo) => credentials.holdIdOf(event.eventNo, visitor, key, partition);
    const holder = await buyer.holder();
    const { cooldown } = event.settings;
    // A replacement keeps the lease of the hold that it replaces, so it does not count as a new hold.
    if (cooldown && replaces === null) await refuseCooling(event, venue, visitor, holder, idIn);
    let { address } = buyer;

    const claim = async (partition: PartitionNo, what: Claim): Promise<HoldOutcome> => {
      const time = timeOf(event, partition);
      for (let again = false; ; again = true) {
        const command = {
          event: event.eventNo,
          partition,
          hold: idIn(partition),
          visitor,
          holder,
          request: requestHash(selection, more.replaces),
          claim: what,
          ttlMs: event.settings.holdTtlMs,
          seatsMax: event.settings.holdSeatsMax,
          address,
          replaces,
          // The session ends by the stores' clock, not by ours.
          notAfter: Math.min((again ? null : time.in(claimPatienceMs)) ?? pass.expiresAt, pass.expiresAt),
        };
        const outcome = await arbiter.hold(command);
        time.seen(command, outcome);
        if (outcome.kind !== 'too_late') return outcome;
        if (command.notAfter === pass.expiresAt) throw problem('pass_expired');
        // The claim waited too long in our own queue and nothing was granted. If its buyer is still connected, the claim is
        // made again without a time limit, so that the response names the taken seats instead of "busy".
        if (!buyer.isConnected()) return outcome;
      }
    };

    const request = { event, venue, selection, visitor, held, idIn, claim };
    let { outcome, found } = await claims.make(request);
    if (
      outcome.kind === 'address_quota' &&
      address &&
      (await deps.isExcepted?.(event.eventNo, holder, visitor))
    ) {
      // The seats still count for the address of the others.
      address = { ...address, seatsMax: unlimited };
      ({ outcome, found } = await claims.make(request));
    }
    if (
      outcome.kind === 'hold_gone' &&
      replaces !== null &&
      (await holds.giveBackUnordered(visitor, replaces))
    ) {
      replaces = null;
      ({ outcome, found } = await claims.make(request));
    }
    switch (outcome.kind) {
      case 'granted': {
        const { hold, repeated } = outcome;
        best.granted(event, hold.seats);
        if (cooldown && !repeated) cooldowns?.granted(hold, replaces, address?.id ?? null);
        return { kind: 'placed', hold, repeated, kinds: selection.kinds, described: found?.described };
      }
      case 'hold_exists':
        return { kind: 'hold_exists', hold: await holds.withoutRefusedOrder(outcome.hold) };
      case 'taken': {
        const nearest = best.nearest(event, venue, selection, outcome.seats, held);
        throw problem('taken', {
          extra: { seats: outcome.seats, nearest: seatInfos(venue, linesOf(event, venue, nearest)) },
        });
      }
      case 'hold_gone':
        throw await keySpent(
          visitor,
          venue.partitions.map(({ partition }) => idIn(partition)),
        );
      case 'address_quota':
      case 'mismatch':
      case 'not_open':
      case 'quota':
      case 'retry':
      case 'too_late':
        throw problemOfHold(outcome, event.onSaleAt, holder);
      default:
        return impossible(outcome, 'hold outcome');
    }
  }

  /** The partition of the hold to replace. Null if the id is not this visitor's; the arbiter reports that. */
  function heldPartition(event: EventRecord, venue: Venue, visitor: Visitor, id: HoldId): PartitionNo | null {
    const place = credentials.holdPlaceOf(id, visitor);
    const known = venue.partitions.some(({ partition }) => partition === place?.partition);
    return place?.event === event.eventNo && known ? place.partition : null;
  }

  /** Visitors who repeatedly let holds end unpaid must wait. The repeat of a granted claim still gets its result. */
  async function refuseCooling(
    event: EventRecord,
    venue: Venue,
    visitor: Visitor,
    holder: Holder,
    idIn: (partition: PartitionNo) => HoldId,
  ): Promise<void> {
    const cooling = cooldowns?.of(event.eventNo, visitor, holder);
    if (!cooling) return;
    const before = venue.partitions.map(({ partition }) =>
      arbiter.find(event.eventNo, partition, idIn(partition)),
    );
    if ((await Promise.all(before)).some((hold) => hold !== null)) return;
    throw problem('cooldown', {
      retryAfterMs: cooling.leftMs,
      // The reference names this browser, or its account, to the organiser, who can lift the wait; it is no secret.
      extra: {
        until: new Date(cooling.until).toISOString(),
        unpaid: cooling.unpaid,
        reference: cooling.reference,
      },
    });
  }

  /** The claim's id is used up: its key led to an order before, or its hold was replaced or released meanwhile. */
  async function keySpent(visitor: Visitor, ids: HoldId[]): Promise<Problem> {
    const found = Promise.all(ids.map((id) => deps.checkout.find(credentials.orderIdOf(id))));
    const orders = await found.catch((error: unknown) => {
      // If the record cannot be read, the answer is the same but has less detail.
      if (error instanceof StoreFault) return [];
      throw error;
    });
    const order = orders.find((one) => one?.visitor === visitor);
    if (!order) return problem('hold_gone');
    return problem('hold_gone', {
      detail:
        'This Idempotency-Key held the seats of an order before. Nothing was held now. Use a new key for new seats.',
      extra: { order: order.order },
    });
  }

  return {
    ...holds,
    placeHold,
    nearest: best.nearest,
    storeTime: (event, partition) => timeOf(event, partition).in(0),
  };
}
