import { createEvents } from '../catalogue/events.ts';
import { type AnyOperation, runOperation } from '../http/organiser-operations.ts';
import type { OperateDeps } from '../operate/deps.ts';
import type { InputOf, OutputOf } from '../operate/operation.ts';
import { silentLogger } from '../runtime/log.ts';
import { type CliContext, cliActor } from './organise.ts';

/**
 * Runs an operation in process, with the checks and the sentences of the API. Returns its answer; null after a refusal, which
 * has been printed and makes the exit code 1.
 */
export async function call<One extends AnyOperation<OperateDeps>>(
  context: CliContext,
  one: One,
  input: InputOf<One>,
): Promise<OutputOf<One> | null> {
  const { db, close } = await context.openDatabase();
  try {
    const { clock, random } = context;
    const deps: OperateDeps = { db, clock, random, events: createEvents({ db, clock }) };
    const parts = { deps, actor: cliActor, log: silentLogger };
    const { status, body } = await runOperation(one, input as Record<string, unknown>, parts);
    if (status < 400) return body as OutputOf<One>;
    const { detail } = body as { detail: string };
    context.fail(detail);
    return null;
  } finally {
    await close();
  }
}
