import path from 'node:path';
import type { Clock } from '../runtime/clock.ts';
import { createThread } from '../runtime/thread.ts';
import type { IssuedOrder } from './issued-order.ts';
import type { DocumentSize, TicketDocuments } from './ticket-document.ts';

export interface DocumentRequest {
  issued: IssuedOrder;
  size: DocumentSize;
}

/** A minute or two of work. */
const waitingMax = 500;
/** With `waitingMax` requests before it, a request takes a minute or two on a busy machine. */
const answerMaxMs = 5 * 60_000;

/** Makes documents in a thread of their own: each takes tens of milliseconds of computing. */
export function createDocumentThread(options: {
  timeZone: string;
  clock: Clock;
}): TicketDocuments & { close(): Promise<void> } {
  const thread = createThread<DocumentRequest, Uint8Array>({
    file: path.join(import.meta.dirname, 'document-worker'),
    workerData: { timeZone: options.timeZone },
    waitingMax,
    answerMaxMs,
    clock: options.clock,
  });
  return {
    render: (issued, size) => thread.ask({ issued, size }),
    close: () => thread.close(),
  };
}
