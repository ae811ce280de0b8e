import { type Static, Type } from 'typebox';
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
  readCodes,
  revokeCodes as revoke,
  listCodes as storedCodes,
} from '../orders/access-codes.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { EventParams, Instant, iso, nullable, oneLine, operation, uuidPattern } from './operation.ts';

// Access codes of an event: made in batches, listed, revoked, as CSV.

const { codesMax, labelMax, usesMax, length } = codeLimits;
const Uses = nullable(Type.Integer({ minimum: 1, maximum: usesMax }));
const codeText = () => Type.String({ minLength: 1, maxLength: 100 });

const CodesBody = Type.Object(
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
        description: 'Locked ticket types that they open.',
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
        description: 'Given codes, in place of `generate`.',
      }),
    ),
  },
  { additionalProperties: false },
);
type CodesRequest = Static<typeof CodesBody>;

const CodesQuery = Type.Object({
  batch: Type.Optional(Type.String({ pattern: uuidPattern })),
  after: Type.Optional(codeText()),
});
const pageSize = 500;

const opens = {
  categories: Type.Array(Type.String()),
  kinds: Type.Array(Type.String()),
  presale: Type.Boolean(),
};

export const listCodes = operation({
  id: 'listCodes',
  method: 'GET',
  path: '/events/:event/codes',
  summary: 'Access codes: the batches, and the codes of one of them',
  description: `Codes come ${pageSize} at a time, by code; \`after\` the last one for the next. Without \`batch\` only the batches.`,
  params: EventParams,
  query: CodesQuery,
  output: Type.Object({
    event: Type.String(),
    batches: Type.Array(
      Type.Object({
        batch: Type.String(),
        label: Type.String(),
        ...opens,
        codes: Type.Integer(),
        revoked: Type.Integer(),
        usesMax: nullable(Type.Integer({ description: 'Orders that its codes allow; null: any number.' })),
        used: Type.Integer(),
        seatsMax: nullable(Type.Integer()),
        until: nullable(Instant),
        createdAt: Instant,
      }),
    ),
    codes: Type.Array(
      Type.Object({
        code: Type.String(),
        batch: Type.String(),
        label: Type.String(),
        ...opens,
        usesMax: nullable(Type.Integer({ description: 'Number of orders; null: any number.' })),
        seatsMax: nullable(Type.Integer({ description: 'Seats of one order; null: no limit of its own.' })),
        used: Type.Integer({ description: 'Orders that were not ended unpaid.' }),
        until: nullable(Instant),
        revokedAt: nullable(Instant),
        createdAt: Instant,
      }),
    ),
  }),
  problems: ['unknown_event'],
  async run({ db, events }: OperateDeps, { event: id, batch, after }) {
    const event = await eventOf(events, id);
    const page = { batch, after, limit: pageSize };
    const [batches, codes] = await Promise.all([
      listBatches(db, event.eventNo),
      batch === undefined ? [] : storedCodes(db, event.eventNo, page),
    ]);
    return { event: event.event, batches: batches.map(batchView), codes: codes.map(codeView) };
  },
});

export const createAccessCodes = operation({
  id: 'createCodes',
  method: 'POST',
  path: '/events/:event/codes',
  summary: 'Make a batch of access codes, all or none',
  description:
    'Either `generate`d or given `codes`; they open locked categories, locked ticket types, the presale, or several of these.',
  params: EventParams,
  body: CodesBody,
  bodyLimit: 2 * 1024 * 1024,
  output: Type.Object({ batch: Type.String(), label: Type.String(), codes: Type.Array(Type.String()) }),
  status: 201,
  problems: ['unknown_event', 'invalid_field', 'code_exists'],
  async run(deps: OperateDeps, { event: id, ...request }, { actor }) {
    return createBatch(deps, await eventOf(deps.events, id), actor, request);
  },
});

export const revokeCodes = operation({
  id: 'revokeCodes',
  method: 'POST',
  path: '/events/:event/codes/revoke',
  summary: 'Revoke a batch or a code; orders that were made with them go on',
  params: EventParams,
  body: Type.Object({
    batch: Type.Optional(Type.String({ pattern: uuidPattern })),
    code: Type.Optional(codeText()),
  }),
  output: Type.Object({ event: Type.String(), revoked: Type.Integer() }),
  problems: ['unknown_event', 'invalid_field', 'unknown_code'],
  async run({ db, events }: OperateDeps, { event: id, batch, code: text }, { actor }) {
    const event = await eventOf(events, id);
    if ((batch === undefined) === (text === undefined))
      throw problem('invalid_field', { field: '/code', detail: 'Name either a batch or a code.' });
    const code = text === undefined ? undefined : canonicalCode(text);
    if (code === null) throw problem('unknown_code', { field: '/code' });
    const revoked = await revoke(db, { event: event.eventNo, actor, batch, code });
    if (revoked === null) throw problem('unknown_code', { field: code === undefined ? '/batch' : '/code' });
    return { event: event.event, revoked };
  },
});

export const downloadCodes = operation({
  id: 'downloadCodes',
  method: 'GET',
  path: '/events/:event/codes.csv',
  summary: 'The codes as CSV, of a batch or all',
  params: EventParams,
  query: Type.Pick(CodesQuery, ['batch']),
  output: Type.String(),
  file: { type: 'text/csv; charset=utf-8', name: ({ event }) => `${event}-codes.csv` },
  problems: ['unknown_event'],
  async run({ db, events }: OperateDeps, { event: id, batch }) {
    return codesFile(db, await eventOf(events, id), batch);
  },
});

/** Page by page; a batch has ten thousand at most, and few events have many batches. */
async function codesFile(db: Db, event: EventRecord, batch: string | undefined): Promise<string> {
  const parts = [codesCsvHeader];
  for (let after: string | undefined; ; ) {
    const codes = await storedCodes(db, event.eventNo, { batch, after, limit: 5_000 });
    if (codes.length === 0) return parts.join('');
    parts.push(codesCsv(codes));
    after = codes.at(-1)!.code;
  }
}

async function createBatch(
  { db, random, clock }: OperateDeps,
  event: EventRecord,
  actor: string,
  request: CodesRequest,
): Promise<{ batch: string; label: string; codes: string[] }> {
  const { categories = [], kinds = [], presale = false, seatsMax = null } = request;
  const label = request.label.normalize('NFC').trim();
  if (label === '') throw problem('invalid_field', { field: '/label', detail: 'Give the batch a name.' });
  checkOpens(event, { categories, kinds, presale });
  const until = request.until ? Date.parse(request.until) : null;
  if (until !== null && !(isEventTime(until) && until > clock.now())) {
    throw problem('invalid_field', { field: '/until', detail: 'Name a time that is still to come.' });
  }
  const batch = random.uuid();
  const common = { event: event.eventNo, actor, batch, label, categories, kinds, presale, seatsMax, until };
  // A generated code that exists already is drawn again, which is very rare.
  for (let tries = 1; ; tries += 1) {
    const codes = codesOf(request, random);
    const outcome = await createCodes(db, { ...common, codes });
    if (outcome.kind === 'created') return { batch, label, codes: codes.map(({ code }) => code) };
    if (request.codes || tries === 3) {
      const some = outcome.codes.slice(0, 20);
      throw problem('code_exists', {
        field: '/codes',
        extra: { codes: some, codeCount: outcome.codes.length },
      });
    }
  }
}

function codesOf(
  request: CodesRequest,
  random: OperateDeps['random'],
): { code: string; usesMax: number | null }[] {
  const { generate, codes, usesMax: uses = 1 } = request;
  if ((generate === undefined) === (codes === undefined)) {
    throw problem('invalid_field', { field: '/generate', detail: 'Send either generate or codes.' });
  }
  if (generate) {
    const prefix = generate.prefix ? canonicalPrefix(generate.prefix) : '';
    const generated = generateCodes(random, generate.count, generate.length ?? length.usual, prefix);
    return generated.map((code) => ({ code, usesMax: uses }));
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
  // Null means any number of uses, which a CSV cell cannot express.
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
    throw refuse(
      '/categories',
      'Say what the codes open: locked categories, locked ticket types, or the presale.',
    );
  }
  for (const [i, name] of categories.entries()) {
    if (!lockedCategories.includes(name)) {
      throw refuse(`/categories/${i}`, `${name} is not a locked category of the event.`);
    }
  }
  for (const [i, id] of kinds.entries()) {
    if (!known.some((kind) => kind.id === id && kind.locked)) {
      throw refuse(`/kinds/${i}`, `${id} is not a locked ticket type of the event.`);
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

export const codeOperations = [listCodes, createAccessCodes, revokeCodes, downloadCodes];
