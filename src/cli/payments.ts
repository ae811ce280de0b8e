import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { amountText } from '../core/money.ts';
import { actionsWithNote, type EntryAction, entryActions } from '../core/operator-list.ts';
import type { OutputOf } from '../operate/operation.ts';
import { decideOpenPayment, listOpenPayments } from '../operate/payments.ts';
import { call } from './call.ts';
import type { CliContext } from './context.ts';

type Entry = OutputOf<typeof listOpenPayments>['entries'][number];

interface ListFlags {
  event?: string;
  json?: boolean;
}

/** More is read page by page in the console or over the API. */
const listedMax = 1_000;

/** `onsale payments …`: the operator's list. The worker of a running "onsale start" makes the calls that follow. */
export function registerPaymentCommands(program: Command, context: CliContext): void {
  const payments = program
    .command('payments')
    .description('Payments that need a decision: what happened, what was charged, what can be done.');
  payments
    .command('list')
    .description(`The list, oldest first, up to ${listedMax} entries. Exit code 1 when there is one.`)
    .option('--event <event>', 'of one event')
    .option('--json', 'print JSON')
    .action((flags: ListFlags) => listCommand(context, flags));
  payments
    .command('act')
    .description('Do something about an entry. A running "onsale start" makes the calls to the provider.')
    .argument('<entry>', 'as the list names it, such as operation-3f0c…')
    .argument('<action>', entryActions.join(', '))
    .option('--note <text>', `what was decided and why; needed for ${actionsWithNote.join(', ')}`)
    .option('--json', 'print JSON')
    .action((entry: string, action: string, flags: { note?: string; json?: boolean }) =>
      actCommand(context, entry, action, flags),
    );
}

async function listCommand(context: CliContext, { event, json }: ListFlags): Promise<void> {
  const entries: Entry[] = [];
  let total = 0;
  for (let after: string | undefined; entries.length < listedMax; ) {
    const page = await call(context, listOpenPayments, { event, after, limit: '100' });
    if (!page) return;
    entries.push(...page.entries);
    total = page.total;
    if (page.next === null) break;
    after = page.next;
  }
  if (json) context.print(JSON.stringify({ total, entries }));
  else if (entries.length === 0) context.print('Nothing is on the list.');
  else context.print(entries.map(entryText).join('\n\n'));
  if (total > 0) context.fail(`${counted(total, 'entry', 'entries')} on the list.`);
}

async function actCommand(
  context: CliContext,
  entry: string,
  named: string,
  flags: { note?: string; json?: boolean },
): Promise<void> {
  const action = named as EntryAction;
  const outcome = await call(context, decideOpenPayment, { entry, action, note: flags.note });
  if (!outcome) return;
  if (flags.json) return context.print(JSON.stringify(outcome));
  context.print(outcome.repeated ? 'This was done before; nothing changed.' : doneText(action));
  if (outcome.entry) context.print(entryText(outcome.entry));
  else context.print('The entry is off the list.');
}

function doneText(action: EntryAction): string {
  return action === 'look' ? 'A running "onsale start" looks at it now.' : 'Done.';
}

function entryText(entry: Entry): string {
  const { operation, currency } = entry;
  /** Leaves out what is not known, as of a finding that names no sum of ours. */
  const sum = (what: string, amount: number | null): string[] =>
    amount === null || currency === null ? [] : [`${what} ${amountText(amount, currency)}`];
  const facts = [
    operation && `operation ${operation.kind}, ${operation.state}, ${counted(operation.attempts, 'attempt')}`,
    entry.order && `order ${entry.order} (${entry.orderState}) of ${entry.event}`,
    entry.seatNames.length > 0 && `seats: ${entry.seatNames.join('; ')}`,
    [
      ...sum('amount', entry.amount),
      ...sum('captured', entry.captured),
      ...sum('refunded', entry.refunded),
    ].join(', '),
    entry.object && `payment ${entry.object} at the provider`,
    entry.says && `reported: ${entry.says}`,
  ].filter(Boolean);
  return [
    `${entry.entry}  ${entry.kind}  since ${entry.since} (${ageText(entry.ageMs)})`,
    `  ${entry.title}. ${entry.means}`,
    `  ${entry.charged}`,
    ...facts.map((fact) => `  ${fact}`),
    ...entry.actions.map(
      ({ action, label, note }) =>
        `  → onsale payments act ${entry.entry} ${action}${note ? ' --note <text>' : ''}   ${label}`,
    ),
  ].join('\n');
}

function ageText(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return counted(minutes, 'minute');
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? counted(hours, 'hour') : counted(Math.floor(hours / 24), 'day');
}
