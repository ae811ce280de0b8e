import { createEvents } from '../catalogue/events.ts';
import { createDocumentThread } from '../fulfilment/document-thread.ts';
import type { JobWorkerReport, JobWorkerSetup } from '../fulfilment/job-child.ts';
import { createJobQueue } from '../fulfilment/job-queue.ts';
import { createSmtpTransport } from '../fulfilment/mail-transport.ts';
import { createMailboxTransport } from '../fulfilment/mailbox.ts';
import { createTasks } from '../fulfilment/tasks.ts';
import { storedTicketKey } from '../fulfilment/ticket-code.ts';
import { createDb } from '../postgres/db.ts';
import { systemClock } from '../runtime/clock.ts';
import { createLogger } from '../runtime/log.ts';
import { createLoops } from '../runtime/loops.ts';
import { systemRandom } from '../runtime/random.ts';
import { createCredentials } from '../waiting-room/credentials.ts';

/**
 * The job worker's process, started by fulfilment/job-child.ts with an IPC channel: takes its setup as the first message,
 * reports to its parent, stops on the message "stop" and when its parent is gone.
 */

const reportEveryMs = 500;
const poolSize = 3;
/** This long after an orderly stop began, the process ends, whatever is still open. */
const endWithinMs = 5_000;

function run(setup: JobWorkerSetup): void {
  const clock = systemClock;
  const random = systemRandom;
  const log = createLogger(setup.logLevel);
  const endAtOnce = (error: unknown): void => {
    log.fatal({ err: error }, 'the job worker ends: an error that nothing handled');
    process.exit(1);
  };
  process.on('uncaughtException', endAtOnce);
  process.on('unhandledRejection', endAtOnce);

  const { databaseUrl, timeZone, publicUrl, mail } = setup;
  const db = createDb({ url: databaseUrl, poolSize, clock, log, applicationName: 'onsale fulfilment' });
  const loops = createLoops({ clock, random, log });
  const documents = createDocumentThread({ timeZone, clock });
  const { smtpUrl, from } = mail;
  const transport =
    smtpUrl === undefined ? createMailboxTransport({ db }) : createSmtpTransport({ url: smtpUrl });
  const { orderSecretOf } = createCredentials({ secret: Buffer.from(setup.signingSecret), random, clock });
  const tasks = createTasks({
    db,
    events: createEvents({ db, clock }),
    ticketKey: storedTicketKey(setup.dataDir),
    transport,
    from,
    publicUrl,
    orderSecretOf,
    timeZone,
    ticketDocument: (issued) => documents.render(issued, 'a4'),
    log,
  });
  const queue = createJobQueue({ databaseUrl, db, tasks, clock, log });
  queue.start(loops);
  void queue.failed.then((reason) => {
    log.error({ reason }, 'the job worker ends: its queue failed');
    process.exit(1);
  });

  const reporting = createLoops({ clock, random, log });
  reporting.run({
    name: 'report to the server',
    everyMs: reportEveryMs,
    turn: async () => {
      const report: JobWorkerReport = { ...queue.progress(), loops: loops.health() };
      if (process.connected) process.send!(report, () => {});
    },
  });

  let stopping = false;
  async function stop(): Promise<void> {
    if (stopping) return;
    stopping = true;
    clock.after(endWithinMs, () => process.exit(0));
    await queue.stop().catch((err: unknown) => log.warn({ err }, 'could not stop the job queue'));
    process.exit(0);
  }
  process.on('message', (message) => message === 'stop' && void stop());
  process.on('disconnect', () => void stop());
}

process.once('message', (setup) => run(setup as JobWorkerSetup));
// Its parent may be gone before it said anything.
if (!process.connected) process.exit(0);
