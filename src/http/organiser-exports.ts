import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { problem } from '../core/problems.ts';
import { type ExportFormat, exportFormats } from '../fulfilment/export-forms.ts';
import {
  type ExportKind,
  type ExportParts,
  type ExportWish,
  exportKinds,
  writeExport,
} from '../fulfilment/exports.ts';
import { logAction } from '../orders/action-log.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import { SnapshotAborted } from '../postgres/snapshot.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { problemResponses } from './schemas.ts';

export interface OrganiserExportsDeps extends ExportParts {
  db: Db;
  events: Pick<Events, 'find' | 'findByNo' | 'layoutBytes'>;
  /** Where an export lies until its reader has it: on a disk, in no directory. */
  dataDir: string;
  clock: Clock;
  random: Random;
}

/** Exports at once in one process: each has a connection and a file of its own. */
export const exportsAtOnceMax = 2;
const busyRetryMs = 5_000;

const security = [{ organiser: [] }];
const tags = ['organiser'];
const QueryFlag = Type.Optional(Type.Union([Type.Literal('true'), Type.Literal('false')]));
const Query = Type.Object({
  bom: Type.Optional(
    Type.Union([Type.Literal('true'), Type.Literal('false')], {
      description: 'CSV: begin with the byte order mark that Excel needs. true when absent.',
    }),
  ),
  codes: QueryFlag,
});
const fileForm = `^(${exportKinds.join('|')})\\.(${exportFormats.join('|')})$`;
const File = Type.String({ pattern: fileForm, maxLength: 40, description: 'orders.csv, tickets.json …' });
const mimeTypes: Record<ExportFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
};
const response = {
  200: {
    description: 'The file',
    content: Object.fromEntries(Object.values(mimeTypes).map((type) => [type, { schema: Type.String() }])),
  },
  ...problemResponses,
};
const description =
  'All of it shows one moment. `codes=true` adds the codes of valid tickets: a person who has a code can enter with it.';

/** Orders, tickets and refunds as files. */
export function registerOrganiserExports(
  root: FastifyInstance,
  deps: OrganiserExportsDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const { events } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();
  const exporting = createExporter(deps);
  app.addHook('preClose', exporting.giveUp);

  app.get(
    '/api/organiser/events/:event/exports/:file',
    {
      schema: {
        tags,
        security,
        operationId: 'exportEvent',
        summary: 'Orders, tickets or refunds of an event as CSV or JSON',
        response,
        description,
        params: Type.Object({ event: Type.String({ maxLength: 40 }), file: File }),
        querystring: Query,
      },
      exposeHeadRoute: false,
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const event = await events.find(request.params.event);
      if (!event) throw problem('unknown_event');
      return exporting.send(reply, actor, event, wishOf(request.params.file, event, request.query));
    },
  );

  app.get(
    '/api/organiser/exports/:file',
    {
      schema: {
        tags,
        security,
        operationId: 'exportAll',
        summary: 'Orders, tickets or refunds of all events as CSV or JSON',
        response,
        description,
        params: Type.Object({ file: File }),
        querystring: Query,
      },
      exposeHeadRoute: false,
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      return exporting.send(reply, actor, null, wishOf(request.params.file, null, request.query));
    },
  );
}

function createExporter(deps: OrganiserExportsDeps) {
  const { db, dataDir, clock, random } = deps;
  const running = new Set<AbortController>();

  async function send(reply: FastifyReply, actor: string, event: EventRecord | null, wish: ExportWish) {
    if (running.size >= exportsAtOnceMax) throw problem('busy', { retryAfterMs: busyRetryMs });
    const gone = new AbortController();
    const onClose = (): void => gone.abort();
    running.add(gone);
    reply.raw.once('close', onClose);
    try {
      const { what, format, codes } = wish;
      await logAction(db, {
        actor,
        action: 'export',
        ...(event && { event: event.eventNo }),
        detail: { what, format, codes },
      });
      const spool = await openSpool(path.join(dataDir, 'exports'), random);
      const length = await fill(spool, (write) => writeExport(deps, wish, write, gone.signal));
      const day = new Date(clock.now()).toISOString().slice(0, 10);
      return reply
        .header('content-type', mimeTypes[format])
        .header('content-length', length)
        .header(
          'content-disposition',
          `attachment; filename="${event?.event ?? 'all'}-${what}-${day}.${format}"`,
        )
        .header('cache-control', 'no-store')
        .send(spool.createReadStream({ start: 0, autoClose: true }));
    } catch (error) {
      if (!(error instanceof SnapshotAborted)) throw error;
      if (!reply.raw.destroyed) throw problem('unavailable', { retryAfterMs: busyRetryMs });
      return reply.hijack();
    } finally {
      reply.raw.off('close', onClose);
      running.delete(gone);
    }
  }

  return {
    send,
    giveUp: async () => {
      for (const one of running) one.abort();
    },
  };
}

function wishOf(
  file: string,
  event: EventRecord | null,
  query: { bom?: string; codes?: string },
): ExportWish {
  const [what, format] = file.split('.') as [ExportKind, ExportFormat];
  const codes = query.codes === 'true' && what === 'tickets';
  return { what, format, event: event?.eventNo ?? null, codes, byteOrderMark: query.bom !== 'false' };
}

/**
 * A file that only its handle leads to. The export is written there at the database's pace and sent from there at the reader's:
 * a slow reader keeps no transaction open, and what is sent is whole.
 */
async function openSpool(folder: string, random: Random): Promise<FileHandle> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const name = path.join(folder, random.uuid());
  const handle = await open(name, 'wx+', 0o600);
  await unlink(name);
  return handle;
}

/** Returns the number of bytes written. Closes the file if writing failed. */
async function fill(
  spool: FileHandle,
  run: (write: (text: string) => Promise<void>) => Promise<unknown>,
): Promise<number> {
  try {
    await run(async (text) => {
      await spool.writeFile(text);
    });
    return (await spool.stat()).size;
  } catch (error) {
    await spool.close();
    throw error;
  }
}
