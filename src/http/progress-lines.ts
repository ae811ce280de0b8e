import { PassThrough } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../runtime/log.ts';
import { answerOf, problemDocument } from './errors.ts';

/** One JSON object a line. */
export const progressType = 'application/x-ndjson';

export const asksForProgress = ({ headers }: FastifyRequest): boolean =>
  headers.accept?.includes(progressType) ?? false;

/** Sends the steps of the work and then its answer. The status line is sent first, so the last line carries the status. */
export function sendProgress(
  reply: FastifyReply,
  work: (onProgress: (step: string) => void) => Promise<{ status: number; body: unknown }>,
  log: Logger,
): FastifyReply {
  const lines = new PassThrough();
  const write = (line: object): void => void lines.write(`${JSON.stringify(line)}\n`);
  void work((step) => write({ step }))
    .catch((error: Error) => {
      const { code, options } = answerOf(error);
      if (code === 'internal') log.error({ err: error }, 'request failed');
      const body = problemDocument(code, options);
      return { status: body.status, body };
    })
    .then((answer) => {
      write(answer);
      lines.end();
    });
  return reply.header('content-type', progressType).header('cache-control', 'no-store').send(lines);
}
