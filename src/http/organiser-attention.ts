import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import type { ActOutcome, OperatorDesk, OperatorEntry } from '../checkout/operator-desk.ts';
import { entryActions } from '../core/operator-list.ts';
import { impossible } from '../core/outcome.ts';
import { type Problem, problem } from '../core/problems.ts';
import { oneLine } from '../operate/operation.ts';
import type { ListPlace } from '../orders/operator-list.ts';
import { iso } from './answers.ts';

export interface OrganiserAttentionDeps {
  events: Pick<Events, 'find'>;
  desk: OperatorDesk;
}

const security = [{ organiser: [] }];
const tags = ['organiser'];
export const entriesMax = 100;
const entriesDefault = 50;
export const noteLengthMax = 500;

const ListQuery = Type.Object({
  event: Type.Optional(Type.String({ maxLength: 40 })),
  after: Type.Optional(Type.String({ maxLength: 300, description: '`next` of the page before.' })),
  limit: Type.Optional(
    Type.String({
      pattern: '^([1-9][0-9]?|100)$',
      description: `1 to ${entriesMax}; ${entriesDefault} when absent.`,
    }),
  ),
});
const EntryParams = Type.Object({
  entry: Type.String({ maxLength: 300 }),
  action: Type.Union(entryActions.map((action) => Type.Literal(action))),
});
const ActBody = Type.Optional(
  Type.Union([
    Type.Object({ note: Type.Optional(oneLine(noteLengthMax)) }, { additionalProperties: false }),
    Type.Null(),
  ]),
);

/** The operator's list: payments that need a person, and the actions that end each. */
export function registerOrganiserAttention(
  root: FastifyInstance,
  { events, desk }: OrganiserAttentionDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/organiser/attention',
    {
      schema: {
        tags,
        security,
        summary: 'Payments that need a decision, oldest first',
        description:
          'Each with what it means, what was charged, and the actions that are possible now. `total` is of all pages; `next` is null on the last.',
        querystring: ListQuery,
      },
    },
    async (request) => {
      await requireSession(request);
      const { event: id, after } = request.query;
      const limit = Number(request.query.limit ?? entriesDefault);
      const event = id === undefined ? null : await events.find(id);
      if (id !== undefined && !event) throw problem('unknown_event', { field: 'event' });
      const place = after === undefined ? null : placeOf(after);
      const found = await desk.list({ event: event?.eventNo ?? null, after: place, limit });
      return {
        total: found.total,
        entries: found.entries.map(entryView),
        next: found.next && `${found.next.since}~${found.next.entry}`,
      };
    },
  );

  app.post(
    '/api/organiser/attention/:entry/:action',
    {
      schema: {
        tags,
        security,
        summary: 'Do something about an entry',
        description:
          'The same action again changes nothing. `accept`, `settle` and `dismiss` need a `note`. Calls to the provider that follow are made by the worker. `entry` is the entry as it stands now, or null when it left the list.',
        params: EntryParams,
        body: ActBody,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const { entry, action } = request.params;
      const note = request.body?.note?.trim() ?? '';
      const outcome = await desk.act({ entry, action, actor, note });
      if (outcome.kind !== 'done') throw problemOfAct(outcome);
      return { repeated: outcome.repeated, entry: outcome.entry && entryView(outcome.entry) };
    },
  );
}

export function problemOfAct(outcome: Exclude<ActOutcome, { kind: 'done' }>): Problem {
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

function entryView({ since, eventNo: _eventNo, ...rest }: OperatorEntry) {
  return { ...rest, since: iso(since) };
}
