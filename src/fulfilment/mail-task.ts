import type { OrderId } from '../core/hold.ts';
import type { Logger } from '../runtime/log.ts';
import { StoreFault } from '../runtime/store-fault.ts';
import { type IssuedOrder, type IssuedOrderParts, readIssuedOrder, seatsOfTickets } from './issued-order.ts';
import type { Task } from './job-queue.ts';
import { composeLetter, type Happening, type HappeningDetail, type Letter } from './letters.ts';
import type { MailTransport, SendOutcome } from './mail-transport.ts';
import { findMail, type OwedMail, recordMail } from './mails.ts';
import { plain } from './words.ts';

export interface MailTaskParts extends IssuedOrderParts {
  transport: MailTransport;
  from: { name: string; address: string };
  /** The address that buyers see, without a final slash. */
  publicUrl: string;
  orderSecretOf(order: OrderId): string;
  timeZone: string;
  /** The ticket document as PDF. */
  ticketDocument(issued: IssuedOrder): Promise<Uint8Array>;
  log: Logger;
}

/** Not taken this time: the queue tries again later. Names no person. */
class MailNotTaken extends Error {
  override readonly name = 'MailNotTaken';
}

/**
 * `mail` {mail}: sends one owed mail. What it says is read when it is sent, so that a mail that waited for days tells how
 * things are by then. It touches nothing of the order, whatever happens.
 */
export function createMailTask(parts: MailTaskParts): Task {
  const { db, log } = parts;
  return async (payload, signal) => {
    const owed = await findMail(db, mailIn(payload));
    if (owed?.state !== 'due') return;
    const about = { mail: owed.mail, order: owed.order.order };
    try {
      const issued = await readIssuedOrder(parts, owed.order);
      const letter = await compose(parts, owed, issued);
      // A buyer who was forgotten has no address.
      if (!letter || issued.buyer.email === '') {
        return await recordMail(db, owed.mail, { state: 'not_needed' });
      }
      const mail = await envelop(parts, owed, issued, letter);
      const outcome = await unlessStopped(signal, parts.transport.send(mail));
      if (outcome.kind === 'taken') return await recordMail(db, owed.mail, { state: 'sent' });
      if (outcome.kind === 'not_now') throw new MailNotTaken(outcome.error);
      log.warn({ ...about, error: outcome.error }, 'the mail server refuses a mail for good');
      await recordMail(db, owed.mail, { state: 'refused', error: outcome.error });
    } catch (error) {
      // The operator cannot fix an unreachable database at this mail.
      if (!(error instanceof StoreFault)) {
        await recordMail(db, owed.mail, { state: 'due', error: (error as Error).message });
      }
      throw error;
    }
  };
}

/** A mail server that keeps us waiting does not keep the process from ending: the mail is sent again after it. */
export async function unlessStopped(
  signal: AbortSignal | undefined,
  sending: Promise<SendOutcome>,
): Promise<SendOutcome> {
  let stop = (): void => {};
  const stopped = new Promise<SendOutcome>((resolve) => {
    stop = () => resolve({ kind: 'not_now', error: 'stopped while sending' });
  });
  if (signal?.aborted) stop();
  // The signal lives as long as the worker.
  signal?.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([sending, stopped]);
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

function mailIn(payload: unknown): string {
  const mail = (payload as { mail?: unknown } | null)?.mail;
  if (typeof mail !== 'string') throw new Error('a mail job names its mail');
  return mail;
}

async function compose(parts: MailTaskParts, owed: OwedMail, issued: IssuedOrder): Promise<Letter | null> {
  const { order } = issued;
  const { amount, tickets } = owed.detail;
  const detail: HappeningDetail = {
    ...(typeof amount === 'number' && { amount }),
    ...(Array.isArray(tickets) && { seats: await seatsOfTickets(parts.db, owed.order.eventNo, tickets) }),
  };
  return composeLetter(owed.what as Happening, {
    issued,
    detail,
    orderUrl: `${parts.publicUrl}/orders/${order}#${parts.orderSecretOf(order)}`,
    timeZone: parts.timeZone,
  });
}

async function envelop(parts: MailTaskParts, owed: OwedMail, issued: IssuedOrder, letter: Letter) {
  const { buyer } = issued;
  const bytes = letter.withTickets ? await parts.ticketDocument(issued) : null;
  return {
    // The id of the owed mail, the same for every process and every attempt.
    messageId: `${owed.mail}@${parts.from.address.split('@')[1]}`,
    from: parts.from,
    to: { name: plain(buyer.name), address: buyer.email },
    subject: letter.subject,
    text: letter.text,
    html: letter.html,
    attachments: bytes ? [{ filename: 'tickets.pdf', mimeType: 'application/pdf', bytes }] : [],
  };
}
