import { workerData } from 'node:worker_threads';
import { serveThread } from '../runtime/thread.ts';
import type { DocumentRequest } from './document-thread.ts';
import { createTicketDocuments } from './ticket-document.ts';

/** The thread that makes documents: see document-thread.ts. */
const documents = createTicketDocuments(workerData as { timeZone: string });
serveThread<DocumentRequest, Uint8Array>(({ issued, size }) => documents.render(issued, size));
