import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { IssuedOrder } from './issued-order.ts';
import type { DocumentSize, TicketDocuments } from './ticket-document.ts';

export interface DocumentRequest {
  id: number;
  issued: IssuedOrder;
  size: DocumentSize;
}

export type DocumentAnswer = { id: number; bytes: Uint8Array } | { id: number; error: string };

/** Too many documents are waiting to be made: ask again in a moment. */
export class DocumentsBusy extends Error {
  override readonly name = 'DocumentsBusy';
}

/** A minute's work or two. */
const waitingMax = 500;

interface Waiting {
  resolve(bytes: Uint8Array): void;
  reject(error: Error): void;
}

/**
 * Documents are made in a thread of their own: each takes tens of milliseconds of computing, which nobody who holds seats in
 * this process shall wait for. The thread begins with the first document, and again with the next one after it failed.
 */
export function createDocumentThread(options: {
  timeZone: string;
}): TicketDocuments & { close(): Promise<void> } {
  const waiting = new Map<number, Waiting>();
  let thread: Worker | undefined;
  let last = 0;

  function begin(): Worker {
    const made = startThread(options);
    made.unref();
    made.on('message', (answer: DocumentAnswer) => {
      const asked = waiting.get(answer.id);
      waiting.delete(answer.id);
      if ('bytes' in answer) asked?.resolve(answer.bytes);
      else asked?.reject(new Error(answer.error));
    });
    const end = (error: Error): void => {
      if (thread !== made) return;
      thread = undefined;
      for (const asked of waiting.values()) asked.reject(error);
      waiting.clear();
    };
    made.on('error', end);
    made.on('exit', (code) => end(new Error(`the documents' thread ended with ${code}`)));
    return made;
  }

  return {
    render: (issued, size) =>
      new Promise((resolve, reject) => {
        if (waiting.size >= waitingMax) {
          reject(new DocumentsBusy(`${waiting.size} documents are waiting`));
          return;
        }
        thread ??= begin();
        last += 1;
        waiting.set(last, { resolve, reject });
        thread.postMessage({ id: last, issued, size } satisfies DocumentRequest);
      }),
    async close() {
      await thread?.terminate();
    },
  };
}

/** Uncompiled sources need their loader in the thread too, where Node applies none from the command line. */
function startThread(workerData: { timeZone: string }): Worker {
  const language = path.extname(import.meta.filename);
  const file = path.join(import.meta.dirname, `document-worker${language}`);
  if (language !== '.ts') return new Worker(file, { workerData });
  const [loader, program] = [import.meta.resolve('tsx/esm/api'), pathToFileURL(file).href];
  const start = `import('${loader}').then(({ register }) => { register(); return import('${program}'); });`;
  return new Worker(start, { eval: true, workerData });
}
