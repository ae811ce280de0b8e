import { PassThrough } from 'node:stream';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { counted } from '../core/counted.ts';
import { problem } from '../core/problems.ts';
import { planLimits } from '../core/seat-map.ts';
import { isSet, oneLine, QueryFlag } from '../operate/operation.ts';
import { PlanReportView, PlanView } from '../operate/plans.ts';
import { logAction } from '../orders/action-log.ts';
import { parseMapping } from '../plans/mapping-text.ts';
import type { Db } from '../postgres/db.ts';
import type { Logger } from '../runtime/log.ts';
import { answerOf, problemDocument } from './errors.ts';
import type { ImportAnswer, ImportProgress, PlanDesk } from './plan-desk.ts';
import { problemResponses } from './schemas.ts';

const PlanQuery = Type.Object({
  dryRun: QueryFlag,
  name: Type.Optional(oneLine(planLimits.labelLengthMax)),
  format: Type.Optional(Type.Union([Type.Literal('pretix'), Type.Literal('csv')])),
  map: Type.Optional(Type.String({ maxLength: 1_000, description: 'CSV: section=…,row=…,seat=…,x=…,y=…' })),
});

const progressType = 'application/x-ndjson';
const importAnswer = {
  description: 'Stored now (201), stored before (200), or checked only',
  content: {
    'application/json': {
      schema: Type.Union([
        Type.Object({ ...PlanView.properties, known: Type.Boolean() }),
        Type.Object({ dryRun: Type.Literal(true), report: PlanReportView }),
      ]),
    },
    [progressType]: { schema: Type.String() },
  },
};

interface Answer {
  status: number;
  body: unknown;
}

/** The file is sent as it is, whatever its type says, so this route has a body parser of its own. */
export function registerPlanImport(
  scope: FastifyInstance,
  deps: { db: Db; planDesk: PlanDesk; log: Logger },
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const { db, planDesk, log } = deps;
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/api/organiser/plans',
    {
      schema: {
        tags: ['organiser'],
        security: [{ organiser: [] }],
        operationId: 'importPlan',
        summary:
          'Import a plan: pretix JSON or a CSV manifest as the body; dryRun reports and stores nothing',
        description: `With \`Accept: ${progressType}\` the answer is one JSON object a line: \`{"step": …}\` (reading, checking, storing) as the work goes on, and last \`{"status": …, "body": …}\`, which is what the answer would be otherwise.`,
        querystring: PlanQuery,
        response: { 200: importAnswer, 201: importAnswer, ...problemResponses },
      },
      // The bodies are JSON, or lines of it: written by the handler.
      serializerCompiler: () => (data) => JSON.stringify(data),
      bodyLimit: planLimits.fileBytesMax,
      // Before the body is read: a file may have 64 MB.
      onRequest: async (request) => {
        await requireSession(request);
        planDesk.admit();
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const { dryRun, name, format, map } = request.query;
      const mapping = map === undefined ? undefined : parseMapping(map);
      if (mapping?.kind === 'invalid')
        throw problem('invalid_field', { field: 'map', detail: mapping.sentence });
      const bytes = request.body instanceof Uint8Array ? request.body : new Uint8Array();
      const options = { name, format, mapping: mapping?.mapping };
      const work = async (onProgress?: (step: ImportProgress) => void): Promise<Answer> => {
        const outcome = await planDesk.importPlan({ bytes, options, dryRun: isSet(dryRun) }, onProgress);
        if (outcome.kind === 'stored') {
          const detail = { plan: outcome.plan.plan, known: outcome.known };
          await logAction(db, { actor, action: 'import', detail });
        }
        return answerOfImport(outcome);
      };
      if (request.headers.accept?.includes(progressType)) return withProgress(reply, work, log);
      const { status, body } = await work();
      return (reply as FastifyReply).code(status).send(body);
    },
  );
}

function answerOfImport(outcome: ImportAnswer): Answer {
  switch (outcome.kind) {
    case 'refused': {
      const { problems, problemCount, report } = outcome;
      throw problem('plan_refused', {
        detail: `The file has ${counted(problemCount, 'problem')}; nothing was stored. Fix the places listed and import it again.`,
        extra: { problems, problemCount, report },
      });
    }
    case 'checked':
      return { status: 200, body: { dryRun: true, report: outcome.report } };
    case 'stored': {
      const { plan, known } = outcome;
      const createdAt = new Date(plan.createdAt).toISOString();
      return { status: known ? 200 : 201, body: { ...plan, createdAt, known } };
    }
  }
}

/** The status line is sent before the outcome is known, so the last line carries the status. */
function withProgress(
  reply: FastifyReply,
  work: (onProgress: (step: ImportProgress) => void) => Promise<Answer>,
  log: Logger,
): FastifyReply {
  const lines = new PassThrough();
  const write = (line: object): void => void lines.write(`${JSON.stringify(line)}\n`);
  void work((step) => write({ step }))
    .catch((error: Error): Answer => {
      const { code, options } = answerOf(error);
      if (code === 'internal') log.error({ err: error }, 'could not import a plan');
      const body = problemDocument(code, options);
      return { status: body.status, body };
    })
    .then((answer) => {
      write(answer);
      lines.end();
    });
  return reply.header('content-type', progressType).header('cache-control', 'no-store').send(lines);
}
