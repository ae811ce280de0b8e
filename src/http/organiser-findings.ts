import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { limitBounds } from '../core/limits.ts';
import { problem } from '../core/problems.ts';
import { oneLine } from '../operate/operation.ts';
import { ambiguousOrders, refundsAtBank } from '../orders/money-figures.ts';
import {
  type Finding,
  lastRun,
  openFindings,
  settledFindings,
  settleFinding,
} from '../orders/reconcile-findings.ts';
import type { OrganiserDeps } from './organiser.ts';

const { reasonLengthMax } = limitBounds;
const FindingParams = Type.Object({ finding: Type.String({ pattern: '^[1-9][0-9]{0,14}$' }) });
const findingsMax = 1_000;
const security = [{ organiser: [] }];
const tags = ['organiser'];

/** Findings of the comparison with the payment provider. */
export function registerFindings(
  root: FastifyInstance,
  { db }: OrganiserDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const app = root.withTypeProvider<TypeBoxTypeProvider>();
  app.get(
    '/api/organiser/reconcile',
    {
      schema: {
        tags,
        security,
        summary: 'Where the payment provider and the record do not fit',
        description:
          'Oldest first; with `settled=true` those that were taken off the list, newest first. `ambiguous`: orders of which nobody can say yet how their money ends. `refundsAtBank`: refunds that were accepted and that the bank has not paid out yet.',
        querystring: Type.Object({
          settled: Type.Optional(Type.Union([Type.Literal('true'), Type.Literal('false')])),
        }),
      },
    },
    async (request) => {
      await requireSession(request);
      const settled = request.query.settled === 'true';
      const [findings, run, ambiguous, atBank] = await Promise.all([
        settled ? settledFindings(db, findingsMax) : openFindings(db, findingsMax),
        lastRun(db),
        ambiguousOrders(db, null),
        refundsAtBank(db),
      ]);
      return {
        ambiguous: ambiguous.reduce((sum, { orders }) => sum + orders, 0),
        refundsAtBank: atBank.refunds,
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
  );

  app.post(
    '/api/organiser/reconcile/:finding/settle',
    {
      schema: {
        tags,
        security,
        summary: 'Take a finding off the list, with a note of what was done',
        description: 'Changes neither order nor payment. It comes back when something else is found.',
        params: FindingParams,
        body: Type.Object({ note: oneLine(reasonLengthMax) }),
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const finding = Number(request.params.finding);
      const note = request.body.note.trim();
      if (note === '') throw problem('invalid_field', { field: '/note', detail: 'Say what was done.' });
      const kind = await settleFinding(db, { finding, actor, note });
      if (kind === 'unknown') throw problem('unknown_finding');
      if (kind === 'not_possible') throw problem('action_not_possible', { extra: { actions: [] } });
      return { finding, settled: true };
    },
  );
}

function findingView(finding: Finding) {
  const { firstSeenAt, lastSeenAt, settledAt, ...rest } = finding;
  return { ...rest, firstSeenAt: iso(firstSeenAt), lastSeenAt: iso(lastSeenAt), settledAt: iso(settledAt) };
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
