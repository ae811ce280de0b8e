import { openRefunds } from '../app/refunds.ts';
import { createEvents } from '../catalogue/events.ts';
import { type AnyOperation, runOperation } from '../http/organiser-operations.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { OperateDeps } from '../operate/deps.ts';
import type { InputOf, OutputOf } from '../operate/operation.ts';
import { createPlanWork } from '../operate/plan-work.ts';
import { createSalesRecord } from '../orders/orders-record.ts';
import type { Db } from '../postgres/db.ts';
import { silentLogger } from '../runtime/log.ts';
import { type CliContext, cliActor } from './context.ts';
import { keyringOf } from './ticket-keyring.ts';

/** The refusal of an operation: the problem document of the API. */
export interface Refusal {
  code: string;
  detail: string;
  [extra: string]: unknown;
}

export interface CallOptions {
  /** Lines to add to the sentence of a refusal. */
  more?: (refusal: Refusal) => readonly string[];
  /** The idempotency key; a new one when absent. */
  key?: string;
  /** The file that an upload sends. */
  file?: Uint8Array;
  onProgress?: (step: string) => void;
  /** Codes of refusals after which the exit code stays 0. */
  harmless?: readonly string[];
}

/**
 * Runs an operation in process, with the checks and the sentences of the API. Returns its answer; null after a refusal, which
 * has been printed and makes the exit code 1.
 */
export async function call<One extends AnyOperation<OperateDeps>>(
  context: CliContext,
  one: One,
  input: InputOf<One>,
  { more = () => [], key, file, onProgress, harmless = [] }: CallOptions = {},
): Promise<OutputOf<One> | null> {
  const { deps, closeOpened } = operateDeps(context, databaseOf(context));
  try {
    const { status, body } = await runOperation(one, input as Record<string, unknown>, {
      deps,
      actor: cliActor,
      key: key ?? context.random.uuid(),
      log: silentLogger,
      file,
      onProgress,
    });
    if (status < 400) return body as OutputOf<One>;
    const refusal = body as Refusal;
    const say = harmless.includes(refusal.code) ? context.print : context.fail;
    say([refusal.detail, ...optionOf(refusal), ...more(refusal)].join('\n'));
    return null;
  } finally {
    await closeOpened();
  }
}

/** Connects at the first query, so that a refused input or a dry run needs no database. */
function databaseOf({ openDatabase }: CliContext): Db {
  return {
    query: async <Row>(...query: Parameters<Db['query']>) => (await openDatabase()).db.query<Row>(...query),
    close: async () => {},
  };
}

/** The option that the field of a refusal was given by. */
function optionOf({ field }: Refusal): string[] {
  const name = typeof field === 'string' ? /^\/([a-z]+[a-zA-Z]*)$/.exec(field)?.[1] : undefined;
  return name === undefined
    ? []
    : [`(option --${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)})`];
}

/** Connections beyond the database are opened by the operations that need them. */
function operateDeps(context: CliContext, db: Db): { deps: OperateDeps; closeOpened(): Promise<void> } {
  const { clock, random } = context;
  const known = context.redisServers();
  let opened: Promise<{ arbiter: Arbiter; close(): Promise<void> }> | undefined;
  const openArbiter = async (): Promise<Arbiter> => {
    opened ??= context.openArbiter(db);
    return (await opened).arbiter;
  };
  const events = createEvents({ db, clock });
  const deps: OperateDeps = {
    db,
    events,
    openArbiter,
    refundServices: openRefunds({
      db,
      record: createSalesRecord({ db }),
      provider: null,
      // Only decisions that free seats or block them need the stores of the holds.
      arbiter: { project: async (projection) => (await openArbiter()).project(projection) },
      events,
      redisHolds: null,
      owner: cliActor,
      clock,
      random,
      log: silentLogger,
    }),
    planWork: createPlanWork(db),
    ticketKeys: () => keyringOf(context, db),
    webhookAddresses: context.webhookAddresses(),
    published: () => ({ counts: null, status: null }),
    redisServers: known.length > 0 ? known : null,
    namesAccounts: context.namesAccounts(),
    clock,
    random,
  };
  return { deps, closeOpened: async () => (await opened)?.close() };
}
