import type { FastifyInstance } from 'fastify';
import type { Events } from '../catalogue/events.ts';
import type { TicketKeyring } from '../fulfilment/ticket-keys.ts';
import type { AddressRule } from '../fulfilment/webhook-addresses.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import { blockOperations } from '../operate/blocks.ts';
import { buyerOperations } from '../operate/buyers.ts';
import { cancellationOperations } from '../operate/cancellation.ts';
import { codeOperations } from '../operate/codes.ts';
import type { OperateDeps, RefundServices } from '../operate/deps.ts';
import { entryOperations } from '../operate/entry.ts';
import { eventOperations } from '../operate/events.ts';
import { limitsOperations } from '../operate/limits.ts';
import { mailOperations } from '../operate/mails.ts';
import { paymentOperations } from '../operate/payments.ts';
import { planOperations } from '../operate/plans.ts';
import { refundOperations } from '../operate/refunds.ts';
import { webhookOperations } from '../operate/webhooks.ts';
import { workOperations } from '../operate/work.ts';
import type { Db } from '../postgres/db.ts';
import type { SharedBytes } from '../read-path/published-reader.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Random } from '../runtime/random.ts';
import type { ClientAddresses } from './client-address.ts';
import { registerOperations } from './organiser-operations.ts';
import { createOrganiserSessions, type OrganiserAccount } from './organiser-sessions.ts';
import type { PlanDesk } from './plan-desk.ts';

export interface OrganiserDeps {
  /** With a longer statement time limit than the buyers': publishing a large plan takes seconds. */
  db: Db;
  events: Events;
  planDesk: PlanDesk;
  log: Logger;
  clock: Clock;
  random: Random;
  account: OrganiserAccount;
  clients: ClientAddresses;
  /** Aborted when the process stops. */
  closing: AbortSignal;
  /** The local mailbox is served: the signed-in organiser may read it. */
  hasMailbox: boolean;
  /** Cookies are marked Secure. */
  https: boolean;
  /** The published object of that name, for the counts. */
  published: (event: string, name: string) => SharedBytes | null;
  /** Blocks are claims like any other, and the arbiter receives sale decisions. */
  arbiter: Arbiter;
  refundServices: RefundServices;
  ticketKeys: TicketKeyring;
  webhookAddresses: AddressRule;
  /** Names of the configured Redis servers that partitions may be pinned to. Undefined means that any name is accepted. */
  redisServers?: readonly string[];
  /** A platform can name accounts. */
  namesAccounts: boolean;
}

/** Routes of the organiser's page: everything under /api/organiser. */
export async function registerOrganiser(root: FastifyInstance, deps: OrganiserDeps): Promise<void> {
  const sessions = createOrganiserSessions(deps);
  await sessions.register(root);
  const operations = [
    ...[...eventOperations, ...planOperations, ...blockOperations, ...codeOperations, ...limitsOperations],
    ...[...refundOperations, ...cancellationOperations, ...paymentOperations, ...buyerOperations],
    ...[...mailOperations, ...webhookOperations, ...workOperations],
  ];
  registerOperations<OperateDeps>(root, operations, operateDeps(deps), {
    actorOf: sessions.require,
    log: deps.log,
  });
}

/** Routes of gates. `deps.db` is that of the buyers, so that gates do not wait behind a plan that is being published. */
export function registerGates(root: FastifyInstance, deps: OrganiserDeps): void {
  const sessions = createOrganiserSessions(deps);
  registerOperations<OperateDeps>(root, entryOperations, operateDeps(deps), {
    actorOf: sessions.require,
    log: deps.log,
  });
}

function operateDeps(deps: OrganiserDeps): OperateDeps {
  const { arbiter, planDesk, published, ticketKeys, redisServers = null } = deps;
  return {
    ...deps,
    redisServers,
    openArbiter: async () => arbiter,
    ticketKeys: async () => ticketKeys,
    planWork: planDesk,
    published: (event) => ({
      counts: jsonOf(published(event, 'counts')),
      status: jsonOf(published(event, 'status')),
    }),
  };
}

function jsonOf<T>(shared: SharedBytes | null): T | null {
  return shared && (JSON.parse(Buffer.from(shared.bytes).toString('utf8')) as T);
}
