import { type Static, Type } from 'typebox';
import type { ActOutcome, OperatorEntry } from '../checkout/operator-desk.ts';
import { actionsWithNote, type EntryKind, entryActions, operatorEntries } from '../core/operator-list.ts';
import { operationStates, orderStates } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import { type Problem, problem } from '../core/problems.ts';
import { moneyUnderWay } from '../orders/money-figures.ts';
import type { ListPlace } from '../orders/operator-list.ts';
import {
  type Finding,
  lastRun,
  openFindings,
  settleFinding as settle,
  settledFindings,
} from '../orders/reconcile-findings.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { Instant, iso, nullable, oneLine, operation } from './operation.ts';

// Payments that need a decision, and what the comparison with the payment provider has found.

const entriesMax = 100;
const entriesDefault = 50;
const noteLengthMax = 500;
const findingsMax = 1_000;

const Amount = nullable(Type.Integer());
const EntryView = Type.Object({
  entry: Type.String({ description: '`operation-…`, `refund-…`, `event-…` or `finding-…`.' }),
  kind: Type.Enum(Object.keys(operatorEntries) as EntryKind[]),
  title: Type.String(),
  means: Type.String(),
  charged: Type.String({ description: 'What the buyer was charged.' }),
  since: Instant,
  ageMs: Type.Number(),
  operation: nullable(
    Type.Object({
      operation: Type.String(),
      kind: Type.Enum(['open', 'authorise', 'capture', 'refund']),
      state: Type.Enum([...operationStates]),
      attempts: Type.Integer(),
    }),
  ),
  refund: nullable(Type.String()),
  order: nullable(Type.String()),
  orderState: nullable(Type.Enum([...orderStates])),
  event: nullable(Type.String()),
  seats: Type.Array(Type.Integer()),
  seatNames: Type.Array(Type.String(), { description: 'As printed.' }),
  amount: Amount,
  currency: nullable(Type.String()),
  captured: Amount,
  refunded: Amount,
  object: nullable(Type.String({ description: 'The provider’s id of the payment.' })),
  says: nullable(Type.String({ description: 'The words of the provider or of the comparison.' })),
  actions: Type.Array(
    Type.Object({
      action: Type.Enum([...entryActions]),
      label: Type.String(),
      does: Type.String(),
      note: Type.Boolean({ description: 'It needs a note.' }),
    }),
  ),
});

export const listOpenPayments = operation({
  id: 'listOpenPayments',
  method: 'GET',
  path: '/attention',
  summary: 'Payments that need a decision, oldest first',
  description:
    'Each with what it means, what was charged, and the actions that are possible now. `total` is of all pages; `next` is null on the last.',
  query: Type.Object({
    event: Type.Optional(Type.String({ maxLength: 40 })),
    after: Type.Optional(Type.String({ maxLength: 300, description: '`next` of the page before.' })),
    limit: Type.Optional(
      Type.String({
        pattern: '^([1-9][0-9]?|100)$',
        description: `1 to ${entriesMax}; ${entriesDefault} when absent.`,
      }),
    ),
  }),
  output: Type.Object({
    total: Type.Integer(),
    entries: Type.Array(EntryView),
    next: nullable(Type.String()),
  }),
  problems: ['unknown_event', 'invalid_field'],
  async run(deps: OperateDeps, { event: id, after, limit }) {
    const event = id === undefined ? null : await eventOf(deps.events, id, 'event');
    const place = after === undefined ? null : placeOf(after);
    const { desk } = deps.refundServices;
    const found = await desk.list({
      event: event?.eventNo ?? null,
      after: place,
      limit: Number(limit ?? entriesDefault),
    });
    return {
      total: found.total,
      entries: found.entries.map(entryView),
      next: found.next && `${found.next.since}~${found.next.entry}`,
    };
  },
});

export const decideOpenPayment = operation({
  id: 'decideOpenPayment',
  method: 'POST',
  path: '/attention/:entry/:action',
  summary: 'Do something about an entry',
  description: `The same action again changes nothing. A \`note\` is needed for ${actionsWithNote.join(', ')}. Calls to the provider that follow are made by the worker. \`entry\` is the entry as it stands now, or null when it left the list.`,
  params: Type.Object({ entry: Type.String({ maxLength: 300 }), action: Type.Enum([...entryActions]) }),
  body: Type.Object({ note: Type.Optional(oneLine(noteLengthMax)) }, { additionalProperties: false }),
  bodyOptional: true,
  output: Type.Object({ repeated: Type.Boolean(), entry: nullable(EntryView) }),
  problems: ['unknown_entry', 'action_not_possible', 'payment_busy', 'invalid_field'],
  async run(deps: OperateDeps, { entry, action, note = '' }, { actor }) {
    const { desk } = deps.refundServices;
    const outcome = await desk.act({ entry, action, actor, note: note.trim() });
    if (outcome.kind !== 'done') throw problemOfAct(outcome);
    return { repeated: outcome.repeated, entry: outcome.entry && entryView(outcome.entry) };
  },
});

const FindingView = Type.Object({
  finding: Type.Integer(),
  kind: Type.String(),
  subject: Type.String({ description: 'The provider’s id of the payment; the order where there is none.' }),
  order: nullable(Type.String()),
  object: nullable(Type.String()),
  says: Type.String(),
  detail: Type.Object({}, { additionalProperties: true }),
  firstSeenAt: Instant,
  lastSeenAt: Instant,
  settledAt: nullable(Instant),
  settledBy: nullable(Type.String({ description: 'An operator, or `reconcile` when it fits by now.' })),
  note: nullable(Type.String()),
});

export const listFindings = operation({
  id: 'listFindings',
  method: 'GET',
  path: '/reconcile',
  summary: 'Where the payment provider and the record do not fit',
  description:
    'Oldest first; with `settled=true` those that were taken off the list, newest first. `ambiguous`: orders whose money has no known outcome yet. `refundsAtBank`: refunds that were accepted and that the bank has not paid out yet.',
  query: Type.Object({ settled: Type.Optional(Type.Enum(['true', 'false'])) }),
  output: Type.Object({
    ambiguous: Type.Integer(),
    refundsAtBank: Type.Integer(),
    findings: Type.Array(FindingView),
    lastRun: nullable(
      Type.Object({
        from: Instant,
        to: Instant,
        startedAt: Instant,
        finishedAt: nullable(Instant),
        counts: Type.Record(Type.String(), Type.Integer()),
      }),
    ),
  }),
  problems: [],
  async run({ db }: OperateDeps, { settled }) {
    const [findings, run, underWay] = await Promise.all([
      settled === 'true' ? settledFindings(db, findingsMax) : openFindings(db, findingsMax),
      lastRun(db),
      moneyUnderWay(db),
    ]);
    return {
      ...underWay,
      findings: findings.map(findingView),
      lastRun: run && {
        from: iso(run.from),
        to: iso(run.to),
        startedAt: iso(run.startedAt),
        finishedAt: iso(run.finishedAt),
        counts: run.counts,
      },
    };
  },
});

export const settleFinding = operation({
  id: 'settleFinding',
  method: 'POST',
  path: '/reconcile/:finding/settle',
  summary: 'Take a finding off the list, with a note of what was done',
  description: 'Changes neither order nor payment. It comes back when something else is found.',
  params: Type.Object({ finding: Type.String({ pattern: '^[1-9][0-9]{0,14}$' }) }),
  body: Type.Object({ note: oneLine(noteLengthMax) }),
  output: Type.Object({ finding: Type.Integer(), settled: Type.Literal(true) }),
  problems: ['unknown_finding', 'action_not_possible', 'invalid_field'],
  async run({ db }: OperateDeps, { finding: text, note }, { actor }) {
    const finding = Number(text);
    const kind = await settle(db, { finding, actor, note: note.trim() });
    if (kind === 'unknown') throw problem('unknown_finding');
    if (kind === 'not_possible') throw problem('action_not_possible', { extra: { actions: [] } });
    return { finding, settled: true as const };
  },
});

function problemOfAct(outcome: Exclude<ActOutcome, { kind: 'done' }>): Problem {
  switch (outcome.kind) {
    case 'unknown_entry':
      return problem('unknown_entry');
    case 'not_possible':
      return problem('action_not_possible', { extra: { actions: outcome.actions } });
    case 'busy':
      return problem('payment_busy', { retryAfterMs: 5_000 });
    case 'note_missing':
      return problem('invalid_field', { field: '/note', detail: 'Say in a note what was decided.' });
    default:
      return impossible(outcome, 'act outcome');
  }
}

function placeOf(text: string): ListPlace {
  const match = /^(\d{1,15})~(.{1,280})$/.exec(text);
  if (!match) throw problem('invalid_field', { field: 'after', detail: 'Send `next` of the page before.' });
  return { since: Number(match[1]), entry: match[2]! };
}

function entryView({ since, eventNo: _eventNo, ...rest }: OperatorEntry): Static<typeof EntryView> {
  return { ...rest, since: iso(since) };
}

function findingView(finding: Finding): Static<typeof FindingView> {
  const { firstSeenAt, lastSeenAt, settledAt, ...rest } = finding;
  return { ...rest, firstSeenAt: iso(firstSeenAt), lastSeenAt: iso(lastSeenAt), settledAt: iso(settledAt) };
}

export const paymentOperations = [listOpenPayments, decideOpenPayment, listFindings, settleFinding];
