import path from 'node:path';
import { reportPath } from '../controller/path-signals.ts';
import { signTicketCode, type TicketKey } from '../fulfilment/ticket-code.ts';
import type { TicketKeyring } from '../fulfilment/ticket-keys.ts';
import { readiness } from '../health/readiness.ts';
import { recordProxy } from '../health/undeclared-proxies.ts';
import { createAccessCodes } from '../http/access-codes.ts';
import { createAccountTokens } from '../http/account-token.ts';
import { createClientAddresses } from '../http/client-address.ts';
import type { HttpDeps } from '../http/deps.ts';
import { registerMailbox } from '../http/mailbox.ts';
import { registerGates, registerOrganiser } from '../http/organiser.ts';
import { registerOrganiserExports } from '../http/organiser-exports.ts';
import { createOrganiserSessions } from '../http/organiser-sessions.ts';
import { createPathMeter } from '../http/path-meter.ts';
import { createPlanDesk } from '../http/plan-desk.ts';
import type { App as Scope } from '../http/routes.ts';
import { buildServer } from '../http/server.ts';
import { registerTicketDocument } from '../http/ticket-document.ts';
import { lookAtCode } from '../orders/access-codes.ts';
import { isExcepted } from '../orders/limits.ts';
import { ticketsOfOrder } from '../orders/tickets.ts';
import { createPublishedReader } from '../read-path/published-reader.ts';
import { freeHttpPort } from '../runtime/http-port.ts';
import { projectDir } from '../runtime/project-dir.ts';
import type { Credentials } from '../waiting-room/credentials.ts';
import { createJoinBatcher } from '../waiting-room/join-batcher.ts';
import type { WaitingRoom } from '../waiting-room/waiting-room.ts';
import { organiserStatementMs, poolSizes } from './database.ts';
import type { Documents } from './fulfilment.ts';
import { startCooldowns } from './limits.ts';
import { processName } from './process-name.ts';
import { reportEverySecond, StartProblem, urlHost } from './runtime.ts';
import type { Services } from './services.ts';

/** Requests under way when a stop begins: a payment waits for the provider. */
const answersWithinMs = 15_000;

export interface WebParts extends Services {
  credentials: Credentials;
  room: Pick<WaitingRoom, 'redeem' | 'join'>;
  ticketKey: TicketKey;
  ticketKeys: TicketKeyring;
  documents: Documents;
}

/** The web role: the routes of buyers, organisers and gates, and the pages. Returns once it listens. */
export async function startWeb(parts: WebParts): Promise<{ url: string; mailboxUrl: string | null }> {
  const { config, db, databaseUrl, events, arbiter, checkout, record, payments, refundServices } = parts;
  const { credentials, redis, room, clock, random, log, loops, shutdown, organiser, pool } = parts;
  const { ticketKey, ticketKeys, documents } = parts;
  const pathMeter = createPathMeter({ clock });
  const published = createPublishedReader({ db, events, clock });
  await published.start(loops);

  const { host, trustProxy } = config.http;
  const port = await freeHttpPort(host, config.http.port);
  const listening = `http://${urlHost(host)}:${port}`;
  const url = config.http.publicUrl ?? listening;
  const { accountSecret } = config;
  const accountTokens =
    accountSecret === undefined ? undefined : createAccountTokens({ secret: accountSecret, clock });
  const clients = createClientAddresses({ trustProxy, clock, log, record: (seen) => recordProxy(db, seen) });
  const deps: HttpDeps = {
    clock,
    random,
    log,
    accountTokens,
    publicUrl: () => url,
    timeZone: config.timeZone,
    trustProxy: typeof trustProxy === 'object' ? [...trustProxy] : trustProxy,
    clients,
    webDir: path.join(projectDir, 'dist/web'),
    paymentOrigins: payments.origins,
    credentials,
    events,
    published,
    room,
    joins: createJoinBatcher({ room, clock }),
    arbiter,
    checkout,
    provider: payments.provider,
    accessCodes: createAccessCodes({
      clients,
      credentials,
      clock,
      closing: shutdown.requested,
      publicUrl: () => url,
      look: (event, code) => lookAtCode(db, event, code),
    }),
    operations: record.operationsOf,
    refundsOf: refundServices.refundRecord.ofOrder,
    returnedOf: refundServices.refundRecord.returned,
    reversalsOf: refundServices.reversals.ofOrder,
    cooldowns: await startCooldowns({ db, clock, log, shutdown, loops }),
    isExcepted: (event, holder, visitor) => isExcepted(db, event, holder, visitor),
    tickets: async ({ eventNo, order }) =>
      (await ticketsOfOrder(db, eventNo, order)).map(({ ticket, seat }) => ({
        ticket,
        seat,
        code: signTicketCode(ticketKey, { ticket, event: eventNo, seat }),
      })),
    ready: readiness({ db, published, provider: payments.provider, redis, clock }),
  };
  const planDesk = createPlanDesk({ databaseUrl, logLevel: config.logLevel, clock });
  shutdown.add('seating plans', () => planDesk.close());
  const organiserDeps = {
    namesAccounts: accountTokens !== undefined,
    clients,
    planDesk,
    log,
    closing: shutdown.requested,
    hasMailbox: config.mail.mailbox,
    db: pool('organiser', poolSizes.organiser, organiserStatementMs),
    events,
    clock,
    random,
    account: organiser,
    https: url.startsWith('https://'),
    published: published.get,
    arbiter,
    refundServices,
    ticketKeys,
    webhookAddresses: config.webhooks,
    redisServers: parts.redisServers,
  };
  const organisers = createOrganiserSessions(organiserDeps);
  const signedIn = organisers.require;
  // Gates do not wait behind a plan that is being published.
  const gates = createOrganiserSessions({ ...organiserDeps, db });
  const server = await buildServer({ ...deps, pathMeter }, [
    organisers.guarding((scope) => registerOrganiser(scope, organiserDeps)),
    organisers.guarding((scope) => {
      const exporting = { ...organiserDeps, url: databaseUrl, dataDir: config.dataDir, ticketKey };
      registerOrganiserExports(scope, exporting, signedIn);
    }),
    gates.guarding(async (scope) => registerGates(scope, { ...organiserDeps, db })),
    (scope) => registerTicketDocument(scope, { ...deps, ticketDocument: documents.ofOrder }),
    ...(config.mail.mailbox ? [(scope: Scope) => registerMailbox(scope, { db, signedIn })] : []),
  ]);
  shutdown.add('web server', () => server.close(), answersWithinMs);
  try {
    await server.listen({ host, port });
  } catch (error) {
    throw new StartProblem(`Port ${port} cannot be listened on: ${(error as Error).message}`);
  }
  await payments.webhooksTo(`${listening}/api/webhooks/stripe`);
  reportEverySecond(loops, 'report response times', pathMeter, (window) =>
    reportPath(db, processName(config, random), window),
  );
  return { url, mailboxUrl: config.mail.mailbox ? `${listening}/dev/mail` : null };
}
