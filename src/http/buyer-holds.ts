import type { Hold, HoldId, PartitionNo, Visitor } from '../core/hold.ts';
import { seatStateOfOrder } from '../core/order.ts';
import type { SeatNo } from '../core/seat-map.ts';
import type { Claim, HoldCommand, HoldOutcome } from '../inventory/arbiter.ts';
import type { House } from '../sales/events.ts';
import type { EventRecord } from '../sales/record.ts';
import type { AdmissionPass } from '../waiting-room/credentials.ts';
import { holdAnswer, iso, linesOf, seatInfos } from './answers.ts';
import type { HoldAnswer } from './api-types.ts';
import { claimPatienceMs, createArbiterTime } from './arbiter-time.ts';
import { type BestSeats, createBestSeats, type Found } from './best-seats.ts';
import { eventOf } from './buyer-queue.ts';
import type { HttpDeps } from './deps.ts';
import { problem } from './errors.ts';
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
  uuidPattern,
} from './schemas.ts';
import { readWish, requestHash, type Wish } from './seat-wish.ts';
import type { App } from './server.ts';
import { createVisitors } from './visitor.ts';

const uuidForm = new RegExp(uuidPattern);
const tags = ['holds'];
/** A whole house is one partition until part of it is given a store of its own. */
const partition: PartitionNo = 0;
/** Best available: how often the candidates are drawn anew when all of them were gone. */
const bestTriesMax = 4;

export function registerHolds(app: App, deps: HttpDeps): void {
  const { arbiter, credentials, events, clock } = deps;
  const visitors = createVisitors(deps);
  const best = createBestSeats(deps);
  const arbiterTime = createArbiterTime(deps);

  const answer = async (event: EventRecord, hold: Hold, found?: Found): Promise<HoldAnswer> =>
    holdAnswer({
      hold,
      event,
      house: await events.house(event),
      receipt: credentials.signReceipt(hold),
      // The deadline is by the arbiter’s clock, so the time to compare it with is too, once it is known.
      serverTime: arbiterTime.in(0) ?? clock.now(),
      best: found?.described,
    });

  app.post(
    '/api/events/:event/holds',
    {
      schema: {
        tags,
        summary: 'Hold seats',
        description:
          'Named `seats`, or the `best` available. All or nothing. A repeat with the same Idempotency-Key answers the same hold.',
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
      const house = await events.house(event);
      const wish = readWish(request.body, event, house);
      const commandNow = (): Omit<HoldCommand, 'claim' | 'epoch'> => ({
        event: event.eventNo,
        partition,
        hold: credentials.holdIdOf(event.eventNo, visitor, key),
        visitor,
        holder: visitor,
        request: requestHash(wish, request.body.replaces),
        ttlMs: event.settings.holdTtlMs,
        seatsMax: event.settings.holdSeatsMax,
        replaces: request.body.replaces ?? null,
        // The session ends by the stores' clock, not by ours.
        notAfter: Math.min(arbiterTime.in(claimPatienceMs) ?? pass.expiresAt, pass.expiresAt),
      });
      let command = commandNow();
      const wished = { deps, best, event, house, wish };
      let { outcome, found } = await claimWish({ ...wished, command });
      // It stood in our own queue for too long, and nothing was granted: its buyer still waits, so once more.
      if (outcome.kind === 'too_late' && command.notAfter !== pass.expiresAt && !request.raw.destroyed) {
        arbiterTime.seen(command, outcome);
        command = commandNow();
        ({ outcome, found } = await claimWish({ ...wished, command }));
      }
      if (outcome.kind === 'too_late' && command.notAfter === pass.expiresAt) throw problem('pass_expired');
      arbiterTime.seen(command, outcome);
      switch (outcome.kind) {
        case 'granted':
          best.granted(event, outcome.hold.seats);
          return reply.code(outcome.repeated ? 200 : 201).send(await answer(event, outcome.hold, found));
        case 'taken': {
          const nearest = best.nearest(event, house, wish, outcome.seats);
          throw problem('taken', {
            extra: { seats: outcome.seats, nearest: seatInfos(house, linesOf(event, house, nearest)) },
          });
        }
        case 'hold_exists':
          throw problem('hold_exists', {
            extra: { hold: outcome.hold.hold, held: await answer(event, outcome.hold) },
          });
        default:
          throw problemOfHold(outcome, event.onSaleAt);
      }
    },
  );

  app.get(
    '/api/holds/:hold',
    {
      schema: {
        tags,
        summary: 'A hold of mine',
        params: HoldParams,
        response: { 200: HoldSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { id, event, hold, visitor } = await findMine(deps, visitors.of(request), request.params.hold);
      if (!hold) throw await goneInto(deps, id, visitor);
      return await answer(event, hold);
    },
  );

  app.delete(
    '/api/holds/:hold',
    {
      schema: {
        tags,
        summary: 'Give the seats back',
        description: 'Repeatable. A hold whose payment has started is closed by its order.',
        params: HoldParams,
        response: { 204: { type: 'null', description: 'Released, now or before' }, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { id, event, visitor } = await locateMine(deps, visitors.of(request), request.params.hold);
      const outcome = await withEpoch(deps, event, (epoch) =>
        arbiter.release({ event: event.eventNo, partition, epoch, hold: id, visitor }),
      );
      if (outcome.kind === 'bound') await abandonBound(deps, event, id);
      else if (outcome.kind === 'hold_gone') await refuseOrdered(deps, id);
      else refuse(problemOfRelease(outcome));
      return reply.code(204).send(null);
    },
  );

  app.post(
    '/api/holds/:hold/recover',
    {
      schema: {
        tags,
        summary: 'Present a receipt',
        description:
          'After a change of stores the browser shows its receipt by itself; answers the hold as it is.',
        params: HoldParams,
        body: RecoverBody,
        response: { 200: HoldSchema, 202: RecoveringSchema, ...problemResponses },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const { id, event, visitor } = await locateMine(deps, visitors.of(request), request.params.hold);
      const read = credentials.readReceipt(request.body.receipt, { event: event.eventNo, visitor });
      if (read.kind === 'invalid' || read.hold.hold !== id) throw problem('receipt_refused');
      const outcome = await withEpoch(deps, event, (epoch) =>
        arbiter.recover({
          event: event.eventNo,
          partition: read.hold.partition,
          epoch,
          receipt: read.hold,
          seatsMax: event.settings.holdSeatsMax,
        }),
      );
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
        default:
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

interface WishedClaim {
  deps: HttpDeps;
  best: BestSeats;
  event: EventRecord;
  house: House;
  wish: Wish;
  command: Omit<HoldCommand, 'claim' | 'epoch'>;
}

async function claimWish(wished: WishedClaim): Promise<{ outcome: HoldOutcome; found?: Found }> {
  const { deps, best, event, house, wish, command } = wished;
  const claim = (what: Claim): Promise<HoldOutcome> =>
    withEpoch(deps, event, (epoch) => deps.arbiter.hold({ ...command, epoch, claim: what }));
  if (wish.kind === 'seats') return { outcome: await claim({ kind: 'seats', seats: wish.seats }) };

  const excluded = new Set<SeatNo>();
  for (let attempt = 1; ; attempt++) {
    const found = best.find(event, house, wish, excluded, attempt);
    if (!found) return { outcome: await repeatedOrTaken(wished) };
    const outcome = await claim(found.claim);
    if (outcome.kind !== 'taken' || attempt === bestTriesMax) return { outcome, found };
    for (const seat of found.considered) excluded.add(seat);
  }
}

/** Nothing is left to try, yet this may be the repeat of a claim that was granted when there was. */
async function repeatedOrTaken({ deps, event, command }: WishedClaim): Promise<HoldOutcome> {
  const hold = await deps.arbiter.find(event.eventNo, partition, command.hold);
  return hold && hold.visitor === command.visitor
    ? { kind: 'granted', hold, repeated: true }
    : { kind: 'taken', seats: [] };
}

/** Asks under the epoch we believe in, and once more under the present one when that was another. */
async function withEpoch<Outcome extends { kind: string }>(
  { events }: Pick<HttpDeps, 'events'>,
  event: EventRecord,
  ask: (epoch: number) => Promise<Outcome>,
): Promise<Outcome> {
  const epochNow = async (): Promise<number> => {
    const mode = (await events.modes(event.eventNo)).find((each) => each.partition === partition);
    if (!mode || mode.mode === 'moving') throw problem('busy', { retryAfterMs: 500 });
    return mode.epoch;
  };
  const outcome = await ask(await epochNow());
  if (outcome.kind !== 'stale') return outcome;
  events.forgetModes(event.eventNo);
  return await ask(await epochNow());
}

interface Mine {
  id: HoldId;
  event: EventRecord;
  visitor: Visitor;
}

/** Somebody else's hold, and one that never was, do not exist for this visitor: its id tells. */
async function locateMine(deps: HttpDeps, visitor: Visitor | null, id: string): Promise<Mine> {
  const eventNo = visitor && uuidForm.test(id) ? deps.credentials.holdEventOf(id, visitor) : null;
  // Postgres counts events with 31 bits: a stray id may decode to more.
  const event = eventNo !== null && eventNo <= 0x7fffffff ? await deps.events.findByNo(eventNo) : null;
  if (!visitor || !event?.layoutHash) throw problem('unknown_hold');
  return { id, event, visitor };
}

export async function findMine(
  deps: HttpDeps,
  visitor: Visitor | null,
  id: string,
): Promise<Mine & { hold: Hold | null }> {
  const mine = await locateMine(deps, visitor, id);
  const hold = await deps.arbiter.find(mine.event.eventNo, partition, id);
  if (hold && hold.visitor !== mine.visitor) throw problem('unknown_hold');
  return { ...mine, hold };
}

function refuse(refused: Error | null): void {
  if (refused) throw refused;
}

/** Payment was about to start: if it did, the seats are the order's; if not, no order can come of the hold any more. */
async function abandonBound({ arbiter, checkout }: HttpDeps, event: EventRecord, id: HoldId): Promise<void> {
  const hold = await arbiter.find(event.eventNo, partition, id);
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

/** 410, with the order that the hold became if it did. */
async function goneInto({ checkout, credentials }: HttpDeps, id: HoldId, visitor: Visitor) {
  const order = await checkout.find(credentials.orderIdOf(id));
  return problem('hold_gone', order?.visitor === visitor ? { extra: { order: order.order } } : {});
}
