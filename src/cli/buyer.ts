import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { decimalOf } from '../core/money.ts';
import { forgetBuyerData } from '../operate/buyers.ts';
import { type ForgetReport, unforgettableLines } from '../retention/forgetting.ts';
import { call, type Refusal } from './call.ts';
import type { CliContext } from './context.ts';

interface ForgetFlags {
  email?: string;
  account?: string;
  order?: string;
  evenThoughTicketsBecomeNameless?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

/** `onsale buyer`: operate/buyers.ts. */
export function registerBuyerCommands(program: Command, context: CliContext): void {
  const buyer = program.command('buyer').description('Buyers: delete what is personal about one.');
  buyer
    .command('forget')
    .description(
      'Delete a buyer’s personal data and say what is kept, and why. Cannot be undone: look with --dry-run first.',
    )
    .option('--email <address>', 'the buyer, by e-mail address')
    .option('--account <account>', 'the buyer, by your platform’s account: "sub:" and its name')
    .option('--order <order>', 'the buyer, by any of their orders')
    .option(
      '--even-though-tickets-become-nameless',
      'also where an event is not over: the tickets stay valid and bear no name',
    )
    .option('--dry-run', 'say what would be deleted and kept; change nothing')
    .option('--json', 'print JSON')
    .action((flags: ForgetFlags, command: Command) => forgetCommand(context, flags, command));
}

async function forgetCommand(context: CliContext, flags: ForgetFlags, command: Command): Promise<void> {
  const { email, account, order, dryRun = false, evenThoughTicketsBecomeNameless: nameless } = flags;
  if ([email, account, order].filter((one) => one !== undefined).length !== 1)
    command.error('Name the buyer by one of --email, --account and --order.');
  const request = { buyer: email ?? account, order, nameless };
  // A repeat is no failure: the result is what was asked for.
  const options = { harmless: ['unknown_buyer'], more: unforgettableOrders };
  const asked = await call(context, forgetBuyerData, request, options);
  if (!asked) return;
  const { confirmation, confirmWithinMs: _, ...would } = asked;
  const report = dryRun ? would : await call(context, forgetBuyerData, { ...request, confirmation });
  if (!report) return;
  context.print(flags.json ? JSON.stringify({ dryRun, ...report }) : reportLines(report, dryRun).join('\n'));
}

function unforgettableOrders({ orders }: Refusal): string[] {
  return Array.isArray(orders) ? unforgettableLines({ orders }).map((line) => `  ${line}`) : [];
}

function reportLines(report: ForgetReport, dryRun: boolean): string[] {
  const { orders, erased, kept, events } = report;
  const sums = kept.amounts.map(
    ({ currency, paid, refunded }) =>
      `${decimalOf(paid ?? 0, currency)} ${currency} paid, ${decimalOf(refunded, currency)} given back`,
  );
  return [
    `${dryRun ? 'Would be deleted' : 'Deleted'} (${counted(orders.length, 'order')} of ${events.join(', ') || 'no event'}):`,
    `  name, e-mail address and account on ${counted(erased.buyers, 'order')}; ${counted(erased.browsers, 'browser')}`,
    `  brand, last digits and fingerprint of ${counted(erased.cards, 'card')}`,
    `  ${counted(erased.letters, 'letter')} in the local mailbox; ${counted(erased.mailsOwed, 'mail that was owed is not sent', 'mails that were owed are not sent')}`,
    `  ${counted(erased.words, 'reason or note', 'reasons and notes')}; ${counted(erased.exceptions, 'exception')} from limits; ${counted(erased.counts, 'count')} by account`,
    'Kept, without a name:',
    `  ${counted(kept.orders, 'order')} with seats and amounts (${sums.join('; ') || 'nothing paid'}), ${counted(kept.refunds, 'refund')}: bookkeeping`,
    `  ${counted(kept.tickets, 'ticket')}, ${kept.validTickets} of them valid, ${kept.entries} used at the door: seats are sold once`,
    `  ${counted(kept.auditEntries, 'entry', 'entries')} of the log of actions: who did what; no buyer is named`,
    `Kept elsewhere, not by us: ${counted(kept.payments.length, 'payment')} at the payment provider${
      kept.payments.length > 0 ? ` (${kept.payments.join(', ')})` : ''
    }, mails that were sent, backups.`,
  ];
}
