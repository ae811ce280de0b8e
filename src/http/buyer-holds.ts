import type { House } from '../catalogue/events.ts';
import type { Hold, Holder, HoldId, PartitionNo, Visitor } from '../core/hold.ts';
import { seatStateOfOrder } from '../core/order.ts';
import { problem } from '../core/problems.ts';
import type { Claim, HoldOutcome, ReleaseOutcome } from '../inventory/arbiter.ts';
import { uuidPattern } from '../operate/operation.ts';
import type { EventRecord } from '../orders/record.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import type { AdmissionPass } from '../waiting-room/credentials.ts';
import { holdAnswer, iso, linesOf, seatInfos } from './answers.ts';
import type { HoldAnswer } from './api-types.ts';
import { claimPatienceMs, createArbiterTime } from './arbiter-time.ts';
import { allBut, createBestSeats, type Found } from './best-seats.ts';
import { createBounds } from './bounds.ts';
import { eventOf } from './buyer-queue.ts';
import type { HttpDeps } from './deps.ts';
import { createHoldClaims } from './hold-claims.ts';
import { problemOfHold, problemOfRecover, problemOfRelease } from './outcomes.ts';
import { idempotencyKey } from './request-checks.ts';
import {
  EventParams,
  HoldBody,
  HoldParams,
  HoldSchema,
  IdempotencyHeaders,
  problemResponses,
  RecoverBody,
  RecoveringSchema,
} from './schemas.ts';
import { readWish, requestHash, rightsOfWish } from './seat-wish.ts';
import type { App } from './server.ts';
import { createVisitors } from './visitor.ts';

const uuidForm = new RegExp(uuidPattern);
const tags = ['holds'];
/** Seats of an address range, for a buyer whom the organiser has excepted. */
const unlimited = 1_000_000;

export function registerHolds(app: App, deps: HttpDeps): void {
  const { arbiter, credentials, events, clock, accessCodes } = deps;
  const visitors = createVisitors(deps);
  const best = createBestSeats(deps);
  const bounds = createBounds(deps);
  const claims = createHoldClaims({ ...deps, best });
  /** Each partition's store has a clock of its own. */
  const times = new Map<string, ReturnType<typeof createArbiterTime>>();
  const timeOf = (event: EventRecord, partition: PartitionNo) => {
    const key = `${event.eventNo}/${partition}`;
    const time = times.get(key) ?? createArbiterTime(deps);
    times.set(key, time);
    return time;
  };

  const answer = async (
    event: EventRecord,
    hold: Hold,
    { found, kinds }: { found?: Found; kinds?: readonly string[] } = {},
  ): Promise<HoldAnswer> =>
    holdAnswer({
      hold,
      event,
      house: await events.house(event),
      receipt: credentials.signReceipt(hold),
      // The deadline is by the arbiter’s clock, so the time to compare it with is too, once it is known.
      serverTime: timeOf(event, hold.partition).in(0) ?? clock.now(),
      best: found?.described,
      kinds,
    });

  app.post(
    '/api/events/:event/holds',
    {
      schema: {
        tags,
        operationId: 'holdSeats',
        summary: 'Hold seats',
        description:
          'Named `seats`, or the `best` available. All or nothing, and all within one of the event’s `partitions`. A repeat with the same Idempotency-Key answers the same hold. Kinds price the answer; they are decided when the order is made, which names them again.',
        params: EventParams,
        headers: IdempotencyHeaders,
        body: HoldBody,
        response: { 200: HoldSchema, 201: HoldSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const key = idempotencyKey(request);
      const event = await eventOf(deps, request.params.event);
      const pass = admitted(deps, event, visitors.of(request), request.body.pass);
      const { visitor } = pass;
      bounds.checkClaim('hold', event, visitor);
      const house = await events.house(event);
      const opened = await accessCodes.of(request, event);
      const wish = readWish(request.body, event, house, opened.rights);
      accessCodes.demand(opened, event, rightsOfWish(wish, event, house));
      let { replaces = null } = request.body;
      const held = replaces === null ? null : heldPartition(deps, event, house, visitor, replaces);
      const idIn = (partition: PartitionNo) => credentials.holdIdOf(event.eventNo, visitor, key, partition);
      const holder = event.settings.accountFirst
        ? await accountOf(deps, event, request.body.account)
        : visitor;
      const { cooldown } = event.settings;
      // A replacement keeps the lease of the hold that it replaces, so it does not count as a new hold.
      if (cooldown && replaces === null) await refuseCooling(deps, { event, house, visitor, holder, idIn });
      let address = bounds.addressOf(request, event);
      const claim = async (partition: PartitionNo, what: Claim): Promise<HoldOutcome> => {
        const time = timeOf(event, partition);
        for (let again = false; ; again = true) {
          const command = {
            event: event.eventNo,
            partition,
            hold: idIn(partition),
            visitor,
            holder,
            request: requestHash(wish, request.body.replaces),
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
          if (request.raw.socket.destroyed) return outcome;
        }
      };
      const wished = { event, house, wish, visitor, held, idIn, claim };
      let { outcome, found } = await claims.make(wished);
      if (outcome.kind === 'address_quota' && address && (await bounds.isExcepted(event, holder, visitor))) {
        // The seats still count for the address of the others.
        address = { ...address, seatsMax: unlimited };
        ({ outcome, found } = await claims.make(wished));
      }
      if (
        outcome.kind === 'hold_gone' &&
        replaces !== null &&
        (await giveBackUnordered(deps, visitor, replaces))
      ) {
        replaces = null;
        ({ outcome, found } = await claims.make(wished));
      }
      switch (outcome.kind) {
        case 'granted':
          best.granted(event, outcome.hold.seats);
          if (cooldown && !outcome.repeated)
            deps.cooldowns?.granted(outcome.hold, replaces, address?.id ?? null);
          return reply
            .code(outcome.repeated ? 200 : 201)
            .send(await answer(event, outcome.hold, { found, kinds: wish.kinds }));
        case 'taken': {
          const nearest = best.nearest(event, house, wish, outcome.seats, held);
          throw problem('taken', {
            extra: { seats: outcome.seats, nearest: seatInfos(house, linesOf(event, house, nearest)) },
          });
        }
        case 'hold_exists':
          throw problem('hold_exists', {
            extra: {
              hold: outcome.hold.hold,
              held: await answer(event, await withoutRefusedOrder(deps, outcome.hold)),
            },
          });
        case 'hold_gone':
          throw await keySpent(deps, {
            visitor,
            ids: house.partitions.map(({ partition }) => idIn(partition)),
          });
        case 'address_quota':
        case 'mismatch':
        case 'not_open':
        case 'quota':
        case 'retry':
        case 'too_late':
          throw problemOfHold(outcome, event.onSaleAt, holder);
      }
    },
  );

  app.get(
    '/api/holds/:hold',
    {
      schema: {
        tags,
        operationId: 'getHold',
        summary: 'A hold of this visitor',
        params: HoldParams,
        response: { 200: HoldSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { id, event, hold, visitor } = await findMine(deps, visitors.of(request), request.params.hold);
      if (!hold) throw await goneInto(deps, id, visitor);
      return await answer(event, await withoutRefusedOrder(deps, hold));
    },
  );

  app.delete(
    '/api/holds/:hold',
    {
      schema: {
        tags,
        operationId: 'releaseHold',
        summary: 'Give the seats back',
        description: 'Repeatable. A hold whose payment has started is closed by its order.',
        params: HoldParams,
        response: { 204: { type: 'null', description: 'Released, now or before' }, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const mine = await locateMine(deps, visitors.of(request), request.params.hold);
      const outcome = await releaseEverywhere(deps, mine);
      if (outcome.kind === 'bound') await abandonBound(deps, mine);
      else if (outcome.kind === 'hold_gone') await refuseOrdered(deps, mine.id);
      else refuse(problemOfRelease(outcome));
      if (mine.event.settings.cooldown) deps.cooldowns?.released(mine.event.eventNo, mine.id);
      return reply.code(204).send(null);
    },
  );

  app.post(
    '/api/holds/:hold/recover',
    {
      schema: {
        tags,
        operationId: 'recoverHold',
        summary: 'Recover a hold by its receipt',
        description:
          'After a change of stores the browser shows its receipt by itself; answers the hold as it is.',
        params: HoldParams,
        body: RecoverBody,
        response: { 200: HoldSchema, 202: RecoveringSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const mine = await locateMine(deps, visitors.of(request), request.params.hold);
      const { id, event, partition, visitor } = mine;
      const read = credentials.readReceipt(request.body.receipt, { event: event.eventNo, visitor });
      if (read.kind === 'invalid' || read.hold.hold !== id || read.hold.partition !== partition) {
        throw problem('receipt_refused');
      }
      const outcome = await arbiter.recover({
        event: event.eventNo,
        partition,
        receipt: read.hold,
        seatsMax: event.settings.holdSeatsMax,
      });
      switch (outcome.kind) {
        case 'recovered':
          return reply.code(200).send(await answer(event, outcome.hold));
        case 'recovering':
          return reply.code(202).send({
            code: 'recovering' as const,
            hold: id,
            until: iso(outcome.until),
            retryAfterMs: 3_000,
          });
        case 'hold_gone':
          throw await goneInto(deps, id, visitor);
        case 'taken':
        case 'retry':
          throw problemOfRecover(outcome);
      }
    },
  );
}

/** The pass, whose visitor has to be the one who brings it (W2). Whether its session has ended is for the arbiter. */
function admitted(
  { credentials }: HttpDeps,
  event: EventRecord,
  visitor: Visitor | null,
  pass: string,
): AdmissionPass {
  const read = visitor ? credentials.readPass(pass, { event: event.eventNo, visitor }) : null;
  if (!read || read.kind === 'invalid') throw problem('pass_refused');
  return read.pass;
}

/** The account, where the event asks for one before anything is held; it has to be proved. */
async function accountOf(
  { accountTokens }: HttpDeps,
  event: EventRecord,
  token: string | undefined,
): Promise<Holder> {
  const account = token === undefined ? null : await accountTokens?.read(token, event.event);
  if (!account) throw problem('account_required');
  return account;
}

/** Visitors who repeatedly let holds end unpaid must wait. The repeat of a granted claim still gets its result. */
async function refuseCooling(
  { cooldowns, arbiter }: HttpDeps,
  claim: {
    event: EventRecord;
    house: House;
    visitor: Visitor;
    holder: Holder;
    idIn(partition: PartitionNo): HoldId;
  },
): Promise<void> {
  const { event, house, visitor, holder, idIn } = claim;
  const cooling = cooldowns?.of(event.eventNo, visitor, holder);
  if (!cooling) return;
  const before = house.partitions.map(({ partition }) =>
    arbiter.find(event.eventNo, partition, idIn(partition)),
  );
  if ((await Promise.all(before)).some((hold) => hold !== null)) return;
  throw problem('cooldown', {
    retryAfterMs: cooling.leftMs,
    // The reference names this browser, or its account, to the organiser, who can lift the wait; it is no secret.
    extra: { until: iso(cooling.until), unpaid: cooling.unpaid, reference: cooling.reference },
  });
}

/** The partition of the hold to replace. Null if the id is not this visitor's; the arbiter reports that. */
function heldPartition(
  { credentials }: HttpDeps,
  event: EventRecord,
  house: House,
  visitor: Visitor,
  id: HoldId,
): PartitionNo | null {
  const place = credentials.holdPlaceOf(id, visitor);
  const known = house.partitions.some(({ partition }) => partition === place?.partition);
  return place?.event === event.eventNo && known ? place.partition : null;
}

interface Mine {
  id: HoldId;
  event: EventRecord;
  house: House;
  partition: PartitionNo;
  visitor: Visitor;
}

/** Returns null for another visitor's hold and for one that never existed. The id names its visitor. */
async function locateMine(deps: HttpDeps, visitor: Visitor | null, id: string): Promise<Mine> {
  const place = visitor && uuidForm.test(id) ? deps.credentials.holdPlaceOf(id, visitor) : null;
  // Postgres counts events with 31 bits: a stray id may decode to more.
  const event = place && place.event <= 0x7fffffff ? await deps.events.findByNo(place.event) : null;
  if (!visitor || !place || !event?.layoutHash) throw problem('unknown_hold');
  const house = await deps.events.house(event);
  const { partition } = place;
  if (!house.partitions.some((each) => each.partition === partition)) throw problem('unknown_hold');
  return { id, event, house, partition, visitor };
}

export async function findMine(
  deps: HttpDeps,
  visitor: Visitor | null,
  id: string,
): Promise<Mine & { hold: Hold | null }> {
  const mine = await locateMine(deps, visitor, id);
  const hold = await deps.arbiter.find(mine.event.eventNo, mine.partition, id);
  if (hold && hold.visitor !== mine.visitor) throw problem('unknown_hold');
  return { ...mine, hold };
}

/**
 * The claim with that id may still be on its way to another partition, where it has another id. A tombstone
 * is left there too, as in its own partition, so that the claim cannot be granted later.
 */
async function releaseEverywhere(deps: HttpDeps, mine: Mine): Promise<ReleaseOutcome> {
  const { event, house, partition, visitor } = mine;
  const releaseIn = (where: PartitionNo): Promise<ReleaseOutcome> => {
    const hold = deps.credentials.holdIdIn(mine.id, visitor, where);
    return deps.arbiter.release({ event: event.eventNo, partition: where, hold, visitor });
  };
  const others = [...allBut(house, partition)].map((where) =>
    releaseIn(where).catch((error: unknown) => {
      // A store that is away decides nothing about the hold of another.
      if (!(error instanceof StoreFault)) throw error;
    }),
  );
  const [outcome] = await Promise.all([releaseIn(partition), ...others]);
  return outcome;
}

function refuse(refused: Error | null): void {
  if (refused) throw refused;
}

/**
 * A hold is bound to its order before the order is made. If the order was then refused, for example because
 * of a limit, there is no order, and the hold is shown as seats in a basket.
 */
async function withoutRefusedOrder({ checkout }: HttpDeps, hold: Hold): Promise<Hold> {
  if (hold.order === null) return hold;
  return (await checkout.find(hold.order)) ? hold : { ...hold, order: null };
}

/**
 * A bound hold cannot be exchanged in one step (S5). If its order was refused, its seats are given back, so that the buyer can
 * hold fewer of them. Returns whether they were.
 */
async function giveBackUnordered(deps: HttpDeps, visitor: Visitor, replaces: string): Promise<boolean> {
  const { hold } = await findMine(deps, visitor, replaces);
  if (!hold || hold.order === null || (await deps.checkout.find(hold.order))) return false;
  return (await deps.checkout.abandon(hold)).kind === 'released';
}

/** Payment was about to start: if it did, the seats are the order's; if not, no order can come of the hold any more. */
async function abandonBound({ arbiter, checkout }: HttpDeps, mine: Mine): Promise<void> {
  const hold = await arbiter.find(mine.event.eventNo, mine.partition, mine.id);
  if (!hold) return;
  const outcome = await checkout.abandon(hold);
  if (outcome.kind === 'ordered') throw problem('hold_ordered', { extra: { order: outcome.order.order } });
}

/** "Gone" is what was asked for, unless the seats went into an order that still has them. */
async function refuseOrdered({ checkout, credentials }: HttpDeps, id: HoldId): Promise<void> {
  const order = await checkout.find(credentials.orderIdOf(id));
  if (order && seatStateOfOrder[order.state] !== 'free') {
    throw problem('hold_ordered', { extra: { order: order.order } });
  }
}

/** A claim's 410: its key may have led to an order before, which it is for ever; else a hold was replaced or released meanwhile. */
async function keySpent({ checkout, credentials }: HttpDeps, of: { visitor: Visitor; ids: HoldId[] }) {
  const found = Promise.all(of.ids.map((id) => checkout.find(credentials.orderIdOf(id))));
  const orders = await found.catch((error: unknown) => {
    // If the record cannot be read, the answer is the same but has less detail.
    if (error instanceof StoreFault) return [];
    throw error;
  });
  const order = orders.find((one) => one?.visitor === of.visitor);
  if (!order) return problem('hold_gone');
  return problem('hold_gone', {
    detail:
      'This Idempotency-Key held the seats of an order before. Nothing was held now. Use a new key for new seats.',
    extra: { order: order.order },
  });
}

/** 410, with the order that the hold became if it did. */
async function goneInto({ checkout, credentials }: HttpDeps, id: HoldId, visitor: Visitor) {
  const order = await checkout.find(credentials.orderIdOf(id));
  return problem('hold_gone', order?.visitor === visitor ? { extra: { order: order.order } } : {});
}
