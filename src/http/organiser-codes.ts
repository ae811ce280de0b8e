import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { isEventTime } from '../catalogue/events.ts';
import { canonicalCode } from '../core/prices.ts';
import { problem } from '../core/problems.ts';
import { planLimits } from '../core/seat-map.ts';
import {
  type AccessCode,
  type CodeBatch,
  codeLimits,
  codeRule,
  codesCsv,
  codesCsvHeader,
  createCodes,
  generateCodes,
  listBatches,
  listCodes,
  readCodes,
  revokeCodes,
} from '../orders/access-codes.ts';
import type { EventRecord } from '../orders/record.ts';
import type { OrganiserDeps } from './organiser.ts';
import { oneLine, uuidPattern } from './schemas.ts';

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const { codesMax, labelMax, usesMax, length } = codeLimits;
const Uses = nullable(Type.Integer({ minimum: 1, maximum: usesMax }));
const codeText = () => Type.String({ minLength: 1, maxLength: 100 });

export const CodesBody = Type.Object(
  {
    label: oneLine(labelMax, { description: 'The batch’s name, for people.' }),
    categories: Type.Optional(
      Type.Array(Type.String({ maxLength: planLimits.labelLengthMax }), {
        maxItems: 100,
        description: 'Locked categories that the codes open.',
      }),
    ),
    kinds: Type.Optional(
      Type.Array(Type.String({ maxLength: 40 }), {
        maxItems: 10,
        description: 'Locked kinds that they open.',
      }),
    ),
    presale: Type.Optional(Type.Boolean({ description: 'They open the event’s presale.' })),
    usesMax: Type.Optional({
      ...Uses,
      description: 'Orders that each code may be used for; null: any number. 1 when absent.',
    }),
    seatsMax: Type.Optional(
      nullable(Type.Integer({ minimum: 1, maximum: 50, description: 'Seats of one order with the code.' })),
    ),
    until: Type.Optional(nullable(Type.String({ format: 'date-time', maxLength: 40 }))),
    generate: Type.Optional(
      Type.Object({
        count: Type.Integer({ minimum: 1, maximum: codesMax }),
        length: Type.Optional(Type.Integer({ minimum: length.min, maximum: length.max })),
        prefix: Type.Optional(Type.String({ maxLength: 20 })),
      }),
    ),
    codes: Type.Optional(
      Type.Array(Type.Object({ code: codeText(), usesMax: Type.Optional(Uses) }), {
        minItems: 1,
        maxItems: codesMax,
        description: 'Codes of one’s own, in place of `generate`.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type CodesWish = Type.Static<typeof CodesBody>;

const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });
const CodesQuery = Type.Object({
  batch: Type.Optional(Type.String({ pattern: uuidPattern })),
  after: Type.Optional(codeText()),
});
const security = [{ organiser: [] }];
const tags = ['organiser'];
const pageSize = 500;

/** Access codes of an event: made in batches, listed, revoked, as CSV. */
export function registerOrganiserCodes(
  root: FastifyInstance,
  deps: OrganiserDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const { db, events } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  async function eventOf(id: string): Promise<EventRecord> {
    const event = await events.find(id);
    if (!event) throw problem('unknown_event');
    return event;
  }

  app.get(
    '/api/organiser/events/:event/codes',
    {
      schema: {
        tags,
        security,
        summary: 'Access codes: the batches, and the codes of one of them',
        description: `Codes come ${pageSize} at a time, by code; \`after\` the last one for the next. Without \`batch\` only the batches.`,
        params: EventParams,
        querystring: CodesQuery,
      },
    },
    async (request) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      const { batch, after } = request.query;
      const wanted = { batch, after, limit: pageSize };
      const [batches, codes] = await Promise.all([
        listBatches(db, event.eventNo),
        batch === undefined ? [] : listCodes(db, event.eventNo, wanted),
      ]);
      return { event: event.event, batches: batches.map(batchView), codes: codes.map(codeView) };
    },
  );

  app.post(
    '/api/organiser/events/:event/codes',
    {
      schema: {
        tags,
        security,
        summary: 'Make a batch of access codes, all or none',
        description:
          'Either `generate`d or `codes` of one’s own; they open locked categories, locked kinds, the presale, or several of these.',
        params: EventParams,
        body: CodesBody,
      },
      bodyLimit: 2 * 1024 * 1024,
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const event = await eventOf(request.params.event);
      const made = await makeCodes(deps, event, actor, request.body);
      return reply.code(201).send(made);
    },
  );

  app.post(
    '/api/organiser/events/:event/codes/revoke',
    {
      schema: {
        tags,
        security,
        summary: 'Revoke a batch or a code; orders that were made with them go on',
        params: EventParams,
        body: Type.Object({
          batch: Type.Optional(Type.String({ pattern: uuidPattern })),
          code: Type.Optional(codeText()),
        }),
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const event = await eventOf(request.params.event);
      const { batch, code: text } = request.body;
      if ((batch === undefined) === (text === undefined)) {
        throw problem('invalid_field', { field: '/code', detail: 'Name either a batch or a code.' });
      }
      const code = text === undefined ? undefined : canonicalCode(text);
      if (code === null) throw problem('unknown_code', { field: '/code' });
      const revoked = await revokeCodes(db, { event: event.eventNo, actor, batch, code });
      if (revoked === null) throw problem('unknown_code', { field: code === undefined ? '/batch' : '/code' });
      return { event: event.event, revoked };
    },
  );

  app.get(
    '/api/organiser/events/:event/codes.csv',
    {
      schema: {
        tags,
        security,
        summary: 'The codes as CSV, of a batch or all',
        params: EventParams,
        querystring: Type.Pick(CodesQuery, ['batch']),
      },
    },
    async (request, reply) => {
      await requireSession(request);
      const event = await eventOf(request.params.event);
      reply
        .header('content-type', 'text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="${event.event}-codes.csv"`)
        .header('cache-control', 'no-store');
      return codesFile(deps, event, request.query.batch);
    },
  );
}

/** Page by page; a batch has ten thousand at most, and few events have many batches. */
export async function codesFile(
  { db }: Pick<OrganiserDeps, 'db'>,
  event: EventRecord,
  batch: string | undefined,
): Promise<string> {
  const parts = [codesCsvHeader];
  for (let after: string | undefined; ; ) {
    const codes = await listCodes(db, event.eventNo, { batch, after, limit: 5_000 });
    if (codes.length === 0) return parts.join('');
    parts.push(codesCsv(codes));
    after = codes.at(-1)!.code;
  }
}

export interface MadeCodes {
  batch: string;
  label: string;
  codes: string[];
}

/** The batch of a wish that fits the event; anything else is a problem that says what to do. */
export async function makeCodes(
  deps: Pick<OrganiserDeps, 'db' | 'random' | 'clock'>,
  event: EventRecord,
  actor: string,
  wish: CodesWish,
): Promise<MadeCodes> {
  const { db, random, clock } = deps;
  const { categories = [], kinds = [], presale = false, seatsMax = null } = wish;
  const label = wish.label.normalize('NFC').trim();
  if (label === '') throw problem('invalid_field', { field: '/label', detail: 'Give the batch a name.' });
  checkOpens(event, { categories, kinds, presale });
  const until = wish.until ? Date.parse(wish.until) : null;
  if (until !== null && !(isEventTime(until) && until > clock.now())) {
    throw problem('invalid_field', { field: '/until', detail: 'Name a time that is still to come.' });
  }
  const batch = random.uuid();
  const common = { event: event.eventNo, actor, batch, label, categories, kinds, presale, seatsMax, until };
  // A generated code that is there already is drawn again; that happens once in a lifetime.
  for (let tries = 1; ; tries += 1) {
    const codes = codesOf(wish, random);
    const outcome = await createCodes(db, { ...common, codes });
    if (outcome.kind === 'created') return { batch, label, codes: codes.map(({ code }) => code) };
    if (wish.codes || tries === 3) {
      const some = outcome.codes.slice(0, 20);
      throw problem('code_exists', {
        field: '/codes',
        extra: { codes: some, codeCount: outcome.codes.length },
      });
    }
  }
}

function codesOf(
  wish: CodesWish,
  random: OrganiserDeps['random'],
): { code: string; usesMax: number | null }[] {
  const { generate, codes, usesMax: uses = 1 } = wish;
  if ((generate === undefined) === (codes === undefined)) {
    throw problem('invalid_field', { field: '/generate', detail: 'Send either generate or codes.' });
  }
  if (generate) {
    const prefix = generate.prefix ? canonicalPrefix(generate.prefix) : '';
    const made = generateCodes(random, generate.count, generate.length ?? length.usual, prefix);
    return made.map((code) => ({ code, usesMax: uses }));
  }
  const read = readCodes(
    [['code', 'uses'], ...codes!.map((one) => [one.code, one.usesMax ? String(one.usesMax) : ''])],
    uses,
  );
  if (read.kind === 'refused') {
    throw problem('invalid_field', {
      field: `/codes/${Math.max(0, read.line - 2)}/code`,
      detail: read.sentence,
    });
  }
  // A code of its own any number of uses says so by null, which a cell cannot.
  return read.codes.map((one, i) => (codes![i]?.usesMax === null ? { ...one, usesMax: null } : one));
}

function canonicalPrefix(text: string): string {
  const code = canonicalCode(`${text}AAAA`);
  if (code === null) throw problem('invalid_field', { field: '/generate/prefix', detail: codeRule });
  return code.slice(0, -4);
}

/**
 * Codes must open something that is closed. A batch for something that everybody may buy is a mistake that would go unnoticed.
 */
function checkOpens(
  event: EventRecord,
  { categories, kinds, presale }: { categories: string[]; kinds: string[]; presale: boolean },
): void {
  const refuse = (field: string, detail: string) => problem('invalid_field', { field, detail });
  const { lockedCategories = [], kinds: known = [], presaleAt = null } = event.settings;
  if (categories.length + kinds.length === 0 && !presale) {
    throw refuse('/categories', 'Say what the codes open: locked categories, locked kinds, or the presale.');
  }
  for (const [i, name] of categories.entries()) {
    if (!lockedCategories.includes(name)) {
      throw refuse(`/categories/${i}`, `${name} is not a locked category of the event.`);
    }
  }
  for (const [i, id] of kinds.entries()) {
    if (!known.some((kind) => kind.id === id && kind.locked)) {
      throw refuse(`/kinds/${i}`, `${id} is not a locked kind of the event.`);
    }
  }
  if (presale && presaleAt === null) throw refuse('/presale', 'The event has no presale.');
}

function batchView({ until, createdAt, ...rest }: CodeBatch) {
  return { ...rest, until: iso(until), createdAt: iso(createdAt) };
}

function codeView({ id: _id, until, createdAt, revokedAt, ...rest }: AccessCode) {
  return { ...rest, until: iso(until), createdAt: iso(createdAt), revokedAt: iso(revokedAt) };
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
