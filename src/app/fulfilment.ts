import { createDocumentThread } from '../fulfilment/document-thread.ts';
import { type IssuedOrderParts, readIssuedOrder } from '../fulfilment/issued-order.ts';
import { type JobChild, type JobWorkerSetup, startJobChild } from '../fulfilment/job-child.ts';
import type { DocumentSize, TicketDocuments } from '../fulfilment/ticket-document.ts';
import type { Order } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Config } from '../runtime/config.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Shutdown } from '../runtime/shutdown.ts';
import type { Runtime } from './runtime.ts';

export interface Documents extends TicketDocuments {
  /** Null if the order has no valid ticket. */
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

/**
 * Starts the worker role's other parts next to the reconciler: mails and everything else that follows a step of an order, in a
 * process of its own.
 */
export function startFulfilment(
  config: Config,
  parts: Runtime & {
    db: Db;
    databaseUrl: string;
    signingSecret: Uint8Array;
    /** The address that buyers see. */
    publicUrl: string;
    shutdown: Shutdown;
    loops: Loops;
  },
): JobChild {
  const { databaseUrl, signingSecret, publicUrl, shutdown, log } = parts;
  const { dataDir, timeZone, mail } = config;
  const setup: JobWorkerSetup = {
    databaseUrl,
    dataDir,
    signingSecret: Buffer.from(signingSecret).toString(),
    publicUrl,
    timeZone,
    mail: { smtpUrl: mail.smtpUrl, from: { ...mail.from } },
    logLevel: log.level,
  };
  const child = startJobChild({ ...parts, setup });
  shutdown.add('job worker', () => child.stop(), 10_000);
  return child;
}
