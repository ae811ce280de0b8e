import { parentPort, workerData } from 'node:worker_threads';
import { assert } from '../core/outcome.ts';
import type { DocumentAnswer, DocumentRequest } from './document-thread.ts';
import { createTicketDocuments } from './ticket-document.ts';

/** The thread that makes documents, one after the other: see document-thread.ts. */
const port = parentPort;
assert(port, 'runs as a thread');
const documents = createTicketDocuments(workerData as { timeZone: string });
port.on('message', async ({ id, issued, size }: DocumentRequest) => {
  let answer: DocumentAnswer;
  try {
    answer = { id, bytes: await documents.render(issued, size) };
  } catch (error) {
    answer = { id, error: (error as Error).message };
  }
  port.postMessage(answer);
});
