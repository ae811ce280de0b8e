import { Type } from 'typebox';
import { problem } from '../core/problems.ts';
import { degradedParts } from '../health/background-work.ts';
import { actionPage, actionPageMax } from '../orders/action-log.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { Instant, iso, nullable, operation } from './operation.ts';

// What operators did, and background work that fails or is late.

const limitDefault = 100;

export const listActions = operation({
  id: 'listActions',
  method: 'GET',
  path: '/audit-log',
  summary: 'The log of actions: what operators did, newest first',
  description:
    '`next` is the `before` of the next page, null on the last one. Entries that are written meanwhile are on no later page: start again to see them.',
  query: Type.Object({
    event: Type.Optional(Type.String({ maxLength: 40, description: 'Of this event only.' })),
    limit: Type.Optional(
      Type.String({ maxLength: 20, description: `1 to ${actionPageMax}; ${limitDefault} when absent.` }),
    ),
    before: Type.Optional(
      Type.String({ maxLength: 20, description: '`next` of the page before; the newest page when absent.' }),
    ),
  }),
  output: Type.Object({
    entries: Type.Array(
      Type.Object({
        entry: Type.Integer(),
        at: Instant,
        actor: Type.String(),
        action: Type.String(),
        event: nullable(Type.String()),
        detail: Type.Object({}, { additionalProperties: true }),
      }),
    ),
    next: nullable(Type.Integer()),
  }),
  problems: ['unknown_event', 'invalid_field'],
  async run({ db, events }: OperateDeps, { event: id, limit, before }) {
    const page = {
      limit: limit === undefined ? limitDefault : numberOf('limit', limit, actionPageMax),
      before: before === undefined ? null : numberOf('before', before, Number.MAX_SAFE_INTEGER),
    };
    const event = id === undefined ? null : await eventOf(events, id, 'event');
    const { entries, next } = await actionPage(db, { event: event?.eventNo ?? null, ...page });
    return { entries: entries.map((one) => ({ ...one, at: iso(one.at) })), next };
  },
});

export const listDegraded = operation({
  id: 'listDegraded',
  method: 'GET',
  path: '/background',
  summary: 'Background work that fails or is late, over the whole installation',
  description:
    'Empty while all work proceeds. `since` is null where it is not known; `count` is given for overdue work. See docs/operating/background-work.md.',
  output: Type.Object({
    degraded: Type.Array(
      Type.Object({
        code: Type.Enum(['loop_failing', 'clock', 'process_silent', 'role_missing', 'overdue']),
        part: Type.String(),
        detail: Type.String(),
        remedy: Type.String(),
        since: nullable(Instant),
        count: nullable(Type.Integer()),
      }),
    ),
  }),
  problems: [],
  async run({ db }: OperateDeps) {
    const parts = await degradedParts(db);
    return { degraded: parts.map((one) => ({ ...one, since: iso(one.since) })) };
  },
});

function numberOf(field: string, text: string, max: number): number {
  const number = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= max) return number;
  const what = max === actionPageMax ? `1 to ${actionPageMax}` : '`next` of an earlier page';
  throw problem('invalid_field', { field, detail: `The parameter ${field} takes ${what}.` });
}

export const workOperations = [listActions, listDegraded];
