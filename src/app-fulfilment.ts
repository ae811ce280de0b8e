import type { Runtime } from './app.ts';
import type { OrderId } from './core/hold.ts';
import { createDocumentThread } from './fulfilment/document-thread.ts';
import { type IssuedOrderParts, readIssuedOrder } from './fulfilment/issued-order.ts';
import { createJobQueue } from './fulfilment/job-queue.ts';
import { createSmtpTransport, type MailTransport } from './fulfilment/mail-transport.ts';
import { createMailboxTransport } from './fulfilment/mailbox.ts';
import { createTasks } from './fulfilment/tasks.ts';
import type { DocumentSize, TicketDocuments } from './fulfilment/ticket-document.ts';
import type { Clock } from './runtime/clock.ts';
import type { Config } from './runtime/config.ts';
import type { Loops } from './runtime/loops.ts';
import type { Shutdown } from './runtime/shutdown.ts';
import type { Db } from './sales/db.ts';
import type { Order } from './sales/record.ts';

export interface Documents extends TicketDocuments {
  /** Null: the order has no valid ticket. */
  ofOrder(order: Order, size: DocumentSize): Promise<Uint8Array | null>;
}

export function openDocuments(
  config: Config,
  parts: IssuedOrderParts & { shutdown: Shutdown; clock: Clock },
): Documents {
  const thread = createDocumentThread({ timeZone: config.timeZone, clock: parts.clock });
  parts.shutdown.add('documents', () => thread.close());
  return {
    render: thread.render,
    async ofOrder(order, size) {
      const issued = await readIssuedOrder(parts, order);
      return issued.seats.some(({ ticket }) => ticket !== null) ? await thread.render(issued, size) : null;
    },
  };
}

/** What the worker role runs besides the reconciler: the job queue with all that follows a step of an order. */
export function startFulfilment(
  config: Config,
  parts: Runtime &
    IssuedOrderParts & {
      db: Db;
      databaseUrl: string;
      documents: Documents;
      orderSecretOf(order: OrderId): string;
      /** The address that buyers see. */
      publicUrl: string;
      shutdown: Shutdown;
      loops: Loops;
    },
): void {
  const { db, databaseUrl, documents, shutdown, clock, log } = parts;
  const transport = openMailTransport(config, db);
  shutdown.add('mail', () => transport.close());
  const { from } = config.mail;
  const { timeZone } = config;
  const ticketDocument: Parameters<typeof createTasks>[0]['ticketDocument'] = (issued) =>
    documents.render(issued, 'a4');
  const tasks = createTasks({ ...parts, transport, from, timeZone, ticketDocument });
  const queue = createJobQueue({ databaseUrl, db, tasks, clock, log });
  shutdown.add('job queue', () => queue.stop());
  queue.start(parts.loops);
}

function openMailTransport(config: Config, db: Db): MailTransport {
  const { smtpUrl } = config.mail;
  return smtpUrl === undefined ? createMailboxTransport({ db }) : createSmtpTransport({ url: smtpUrl });
}
