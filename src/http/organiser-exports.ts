import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { problem } from '../core/problems.ts';
import type { ExportFormat } from '../fulfilment/export-forms.ts';
import { type ExportParts, writeExport } from '../fulfilment/exports.ts';
import { beginExport, type ExportRequest, exportQuery, exportRoutes } from '../operate/exports.ts';
import type { Db } from '../postgres/db.ts';
import { SnapshotAborted } from '../postgres/snapshot.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { problemResponse } from './organiser-operations.ts';
import { ProblemSchema } from './schemas.ts';

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

const mimeTypes: Record<ExportFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
};
const content = Object.fromEntries(Object.values(mimeTypes).map((type) => [type, { schema: Type.String() }]));

/** The routes of operate/exports.ts. */
export function registerOrganiserExports(
  app: FastifyInstance,
  deps: OrganiserExportsDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const exporting = createExporter(deps);
  app.addHook('preClose', exporting.giveUp);
  for (const { id, path, summary, params, problems } of exportRoutes) {
    app.get<{ Params: { event?: string; file: string }; Querystring: Static<typeof exportQuery> }>(
      `/api/organiser${path}`,
      {
        schema: {
          tags: ['organiser'],
          security: [{ organiser: [] }],
          operationId: id,
          summary,
          response: {
            200: { description: 'The file', content },
            '4xx': problemResponse(problems),
            '5xx': ProblemSchema,
          },
          description:
            'All of it shows one moment. `codes=true` adds the codes of valid tickets: a person who has a code can enter with it.',
          params,
          querystring: exportQuery,
        },
        exposeHeadRoute: false,
      },
      async (request, reply) => {
        const actor = await requireSession(request);
        return exporting.send(reply, actor, { ...request.params, ...request.query });
      },
    );
  }
}

function createExporter(deps: OrganiserExportsDeps) {
  const { dataDir, clock, random } = deps;
  const running = new Set<AbortController>();

  async function send(reply: FastifyReply, actor: string, request: ExportRequest) {
    if (running.size >= exportsAtOnceMax) throw problem('busy', { retryAfterMs: busyRetryMs });
    const gone = new AbortController();
    const onClose = (): void => gone.abort();
    running.add(gone);
    reply.raw.once('close', onClose);
    try {
      const { event, wish } = await beginExport(deps, request, { actor });
      const { what, format } = wish;
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
