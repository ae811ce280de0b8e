import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import type { MoneyOperation, SalesRecord } from '../../src/orders/record.ts';
import { holdOf, orderIdOf, uuidOf } from '../support/stage.ts';
import { claim, inPostgres, inProcess, reserveHold, type Stage, viewOf } from './record-world.ts';

// One history on both: every answer of Postgres is the model's.

type Answer = { kind?: string; operation?: MoneyOperation } | null;
type Step = { do: (typeof acts)[number]; n: number; m: number };
const acts = [
  ...(Array(14).fill('advance') as 'advance'[]),
  ...(Array(3).fill('belate') as 'belate'[]),
  'reserve',
  'reserve',
  'open',
  'authorise',
  'opened',
  'authorised',
  'authorised',
  'confirm',
  'captured',
  'refused',
  'refused',
  'end',
  'voided',
  'voided',
  'close',
  'expire',
  'park',
  'claim',
  'claimOne',
  'ask',
  'release',
  'later',
  'deadline',
  'phase',
  'overdue',
  'event',
  'events',
  'late',
  'stray',
  'abandon',
  'find',
] as const;

/** Runs one step; operations are named by the order of their making, so that both sides make the same. */
async function run(stage: Stage, step: Step, made: MoneyOperation[], index: number): Promise<unknown> {
  const { record, event } = stage;
  const hold = uuidOf(`hold ${event} ${step.n % 10}`);
  const order = orderIdOf(hold);
  // Mostly the latest ones: they are the ones that matter.
  const operation = made[made.length - 1 - (step.m % 4)];
  const id = uuidOf(`operation ${event} ${index}`);
  const key = `key ${event} ${index}`;
  const begin = (kind: 'open' | 'authorise') =>
    record.begin(
      {
        operation: id,
        order,
        kind,
        key,
        clientKey: step.m % 3 === 0 ? `${kind} client ${step.m % 2}` : null,
        request: `request ${step.m % 5}`,
        instrument: null,
      },
      claim,
    );
  switch (step.do) {
    case 'advance': {
      const next = await nextOf(record, order);
      if (next.operation) return onOperation(stage, { ...step, do: next.do }, next.operation, key);
      return run(stage, { ...step, do: next.do, m: 1 }, made, index);
    }
    case 'belate': {
      // All the way at once: by single steps chance would hardly ever come to its end.
      const steps: unknown[] = [];
      for (let i = 0; i < 8; i += 1) {
        const next = await nextToLate(record, order);
        if (next.do === 'expire') await stage.later(601_000);
        const done = { ...step, do: next.do, m: next.do === 'late' ? step.m : 1 };
        steps.push(
          next.operation
            ? await onOperation(stage, done, next.operation, `${key} ${i}`)
            : await run(stage, done, made, (index + 1) * 1_000 + i),
        );
        if (next.do === 'late') break;
      }
      return { steps };
    }
    case 'reserve':
      return reserveHold(stage, step.n);
    case 'abandon':
      return record.abandon(holdOf(stage, `visitor-${step.n % 5}`, [], hold), order);
    case 'open':
    case 'authorise':
      return begin(step.do);
    case 'confirm':
      return record.confirm(order, { capture: id, captureKey: key, endKey: `${key} end` }, claim);
    case 'close':
      return record.close(order, 'closed_by_buyer', `${key} end`, claim);
    case 'expire':
      return record.close(order, 'not_paid_in_time', `${key} end`, claim);
    case 'claim':
      return record.claim({ ...claim, limit: 100 });
    case 'release':
      return record.releaseClaims(claim.owner);
    case 'later':
      return stage.later(31_000);
    case 'deadline':
      return stage.later(601_000);
    case 'phase':
      return stage.setPhase(step.m % 4 === 0 ? 'cancelled' : 'open');
    case 'overdue':
      return record.overdue(100);
    case 'find':
      return {
        order: await record.findOrder(order),
        open: await record.findOpenOrder(event, `visitor-${step.n % 5}`),
        operations: (await record.operationsOf(order)).length,
      };
    case 'event':
      return record.providerEvent({
        id: `evt ${event} ${step.m % 4} ${step.n}`,
        type: 't',
        object: step.m === 11 ? null : (operation?.providerObject ?? `stray ${event} ${step.m % 3}`),
      });
    case 'events': {
      const claimed = await record.claimEvents({ ...claim, limit: 100 });
      const ids = claimed.flatMap(({ events }) => events);
      if (step.n % 2) await record.eventsAgain(ids, step.m % 2 ? 0 : 60_000);
      else await record.eventsProcessed(ids, step.m % 2 ? 'unknown_object' : null);
      return claimed
        .map(({ object, order: of, events, attempts }) => ({
          operation: object,
          of,
          attempts,
          events: events.sort(),
        }))
        .sort((a, b) => a.operation.localeCompare(b.operation));
    }
    case 'stray': {
      const own = (await record.findOrder(order))?.providerObject;
      if (step.m % 4 === 0 && (await nextOf(record, order)).do === 'open') await begin('open');
      const object = own && step.m % 3 === 0 ? own : `stray ${event} ${step.m % 3}`;
      const fits = step.m % 2 === 0;
      return record.stray({ order, object, fits, operation: id, key, endKey: `${key} end` }, claim);
    }
    default:
      return operation ? onOperation(stage, step, operation, key) : null;
  }
}

/** The next step towards a paid order. */
async function nextOf(
  record: SalesRecord,
  id: string,
): Promise<{ do: Step['do']; operation?: MoneyOperation }> {
  const order = await record.findOrder(id);
  if (!order) return { do: 'reserve' };
  if (order.state === 'authorised') return { do: 'confirm' };
  const underWay = ['open', 'unknown', 'waiting', 'ending'];
  const last = (await record.operationsOf(id)).find(({ state }) => underWay.includes(state));
  if (!last) return { do: order.providerObject ? 'authorise' : 'open' };
  if (last.state === 'ending') return { do: 'voided', operation: last };
  const answered = { open: 'opened', authorise: 'authorised', capture: 'captured', refund: 'find' } as const;
  return { do: answered[last.kind], operation: last };
}

/** The next step towards an order that was refused, as far as we know, closed at its deadline, and whose money comes then. */
async function nextToLate(
  record: SalesRecord,
  id: string,
): Promise<{ do: Step['do']; operation?: MoneyOperation }> {
  const order = await record.findOrder(id);
  const tries = order ? (await record.operationsOf(id)).filter(({ kind }) => kind === 'authorise') : [];
  const last = tries.at(-1);
  if (order?.state === 'reserved' && last?.state === 'open') return { do: 'refused', operation: last };
  if (order?.state === 'reserved' && last?.state === 'refused') return { do: 'expire' };
  if (order?.state === 'closed' && last) return { do: 'late', operation: last };
  return nextOf(record, id);
}

function onOperation(
  { record, epoch, now }: Stage,
  step: Step,
  operation: MoneyOperation,
  key: string,
): Promise<unknown> {
  const id = operation.operation;
  switch (step.do) {
    case 'opened':
      return record.opened(id, `object ${id}`, {});
    case 'authorised':
      return record.authorised(id, viewOf(operation, 'authorised'), `${key} end`, claim);
    case 'late': {
      const held = {
        kind: 'held' as const,
        hold: uuidOf(`late ${operation.order}`),
        epoch: step.m % 5 === 0 ? 0 : epoch,
        deadline: now() + (step.m % 7 === 0 ? 1_000 : 300_000),
      };
      const late = step.m % 3 === 0 ? { kind: 'gone' as const } : held;
      return record.authorised(id, viewOf(operation, 'authorised'), `${key} end`, claim, late);
    }
    case 'captured':
      return record.captured(id, viewOf(operation, 'captured'));
    case 'refused':
      return record.refused(id, { decline: 'declined' });
    case 'end':
      return record.end(id, step.n % 2 ? 'not_paid_in_time' : 'payment_mismatch', `${key} end`, claim);
    case 'voided':
      return record.voided(id, { detail: 'voided' });
    case 'park': {
      const newKey = step.n % 3 ? undefined : `${key} new`;
      const state = step.m % 2 ? 'waiting' : 'unknown';
      return record.park({
        operation: id,
        state,
        dueMs: step.n % 2 ? 0 : 60_000,
        newKey,
        attention: undefined,
      });
    }
    case 'claimOne':
      return record.claim({ ...claim, limit: 1, operation: id });
    case 'ask':
      return record
        .ask({ ...claim, operation: id, by: step.m % 2 ? 'buyer' : 'provider' })
        .then((asked) => ({ asked }));
    default:
      throw new Error(step.do);
  }
}

/** The fields that both must agree on: all except the instants themselves and the event's public name. */
function comparable(answer: unknown): unknown {
  const plain = JSON.parse(
    JSON.stringify(answer ?? null, (name, value) => {
      if (
        [
          'createdAt',
          'paymentDeadline',
          'event',
          'claimedBy',
          'claimedUntil',
          'askedTimes',
          'askedUntil',
        ].includes(name)
      )
        return undefined;
      if (['dueAt', 'firstSentAt'].includes(name)) return value === null ? null : 'at';
      return value;
    }),
  );
  const sortKey = (one: string | { operation?: string }) =>
    typeof one === 'string' ? one : (one.operation ?? '');
  if (Array.isArray(plain)) return plain.sort((a, b) => sortKey(a).localeCompare(sortKey(b)));
  return plain;
}

test('random histories: Postgres answers each step as the model does (P1, P2, P3, P5, P7)', async () => {
  const seen = new Set<string>();
  const step = fc.record({ do: fc.constantFrom(...acts), n: fc.nat(5), m: fc.nat(11) });
  const on: Step = { do: 'advance', n: 0, m: 1 };
  // A second attempt while one is under way. Chance produces it in only one of a hundred histories.
  const twicePaid: Step[] = [on, on, on, on, { do: 'authorise', n: 0, m: 1 }];
  // An opening that waits for just the object that was found. Rare as well.
  const foundAgain: Step[] = [on, { do: 'stray', n: 0, m: 4 }];
  const someHistories = () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 90, size: 'max' }), async (steps) => {
        const real = await inPostgres();
        const model = await inProcess(real);
        const made: MoneyOperation[] = [];
        for (const [index, one] of steps.entries()) {
          const [a, b] = [await run(real, one, made, index), await run(model, one, made, index)];
          assert.deepEqual(comparable(a), comparable(b), `step ${index}: ${JSON.stringify(one)}`);
          const answers = (a as { steps?: Answer[] } | null)?.steps ?? [a as Answer];
          for (const answer of answers) {
            if (answer?.kind) seen.add(`${answer.kind} ${answer.operation?.kind ?? ''}`.trim());
            const operation = answer?.operation;
            const at = made.findIndex((known) => known.operation === operation?.operation);
            if (operation && at < 0) made.push(operation);
            else if (operation) made[at] = operation;
          }
        }
      }),
      {
        numRuns: 20,
        examples: [[twicePaid], [foundAgain]],
        includeErrorInReport: true,
        endOnFailure: true,
        interruptAfterTimeLimit: 60_000,
      },
    );
  // A comparison that never got anywhere would prove nothing: chance may need a few more histories.
  const wanted = [
    'reserved',
    'limit',
    'open_order',
    'closed',
    'begun open',
    'begun authorise',
    'under_way authorise',
    'authorised authorise',
    'confirmed capture',
    'captured capture',
    'voided authorise',
    'settled authorise',
    'late authorise',
    'ending open',
    'adopted open',
    'known',
  ];
  const missing = () => wanted.filter((reached) => !seen.has(reached));
  for (let round = 0; round < 6 && (round === 0 || missing().length > 0); round++) await someHistories();
  assert.deepEqual(missing(), [], 'no history reached these');
});
