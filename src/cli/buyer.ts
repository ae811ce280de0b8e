import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { decimalOf } from '../core/money.ts';
import {
  type BuyerNamed,
  buyerNamed,
  type ForgetOutcome,
  forgetBuyer,
  unforgettableLines,
} from '../retention/forgetting.ts';
import { type CliContext, cliActor, withDatabase } from './context.ts';

interface ForgetFlags {
  email?: string;
  account?: string;
  order?: string;
  evenThoughTicketsBecomeNameless?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

/** `onsale buyer`: what a buyer has a right to. */
export function registerBuyerCommands(program: Command, context: CliContext): void {
  const buyer = program.command('buyer').description('Buyers: delete what is personal about one.');
  buyer
    .command('forget')
    .description(
      'Delete a buyer’s personal data and say what is kept, and why. Cannot be undone: look with --dry-run first.',
    )
    .option('--email <address>', 'the buyer, by e-mail address')
    .option('--account <account>', 'the buyer, by your platform’s account: "sub:" and its name')
    .option('--order <order>', 'the buyer, by any order of his')
    .option(
      '--even-though-tickets-become-nameless',
      'also where an event is not over: his tickets stay valid and bear no name',
    )
    .option('--dry-run', 'say what would be deleted and kept; change nothing')
    .option('--json', 'print JSON')
    .action((flags: ForgetFlags, command: Command) => forgetCommand(context, flags, command));
}

async function forgetCommand(context: CliContext, flags: ForgetFlags, command: Command): Promise<void> {
  const buyer = buyerIn(flags, (sentence) => command.error(sentence));
  await withDatabase(context, async (db) => {
    const dryRun = flags.dryRun ?? false;
    const nameless = flags.evenThoughTicketsBecomeNameless ?? false;
    const outcome = await forgetBuyer(db, { buyer, nameless, actor: cliActor, dryRun });
    if (flags.json) context.print(JSON.stringify({ dryRun, ...outcome }));
    switch (outcome.kind) {
      case 'forgotten':
        if (!flags.json) context.print(reportLines(outcome, dryRun).join('\n'));
        return;
      case 'nothing':
        // A repeat is no failure: what was asked for is so.
        if (!flags.json) context.print('Nothing is known, or left, of this buyer.');
        return;
      case 'refused':
        return context.fail(['Nothing was deleted:', ...unforgettableLines(outcome)].join('\n  '));
      case 'unknown_order':
        return context.fail(`There is no order ${flags.order}.`);
      case 'not_confirmed':
        throw new Error('only an organiser’s question from the page needs to be confirmed');
    }
  });
}

function buyerIn(flags: ForgetFlags, wrong: (sentence: string) => never): BuyerNamed {
  const { email, account, order } = flags;
  if ([email, account, order].filter((one) => one !== undefined).length !== 1) {
    return wrong('Name the buyer by one of --email, --account and --order.');
  }
  if (order !== undefined) return uuidForm.test(order) ? { order } : wrong('--order takes an order’s id.');
  const named = buyerNamed(email ?? account ?? '');
  if (email !== undefined) return named && 'email' in named ? named : wrong('--email takes an address.');
  return named && 'account' in named ? named : wrong('--account takes "sub:" and the name of an account.');
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

function reportLines(outcome: ForgetOutcome & { kind: 'forgotten' }, dryRun: boolean): string[] {
  const { erased, kept, events } = outcome;
  const sums = kept.amounts.map(
    ({ currency, paid, refunded }) =>
      `${decimalOf(paid ?? 0, currency)} ${currency} paid, ${decimalOf(refunded, currency)} given back`,
  );
  return [
    `${dryRun ? 'Would be deleted' : 'Deleted'} (${counted(outcome.orders.length, 'order')} of ${events.join(', ') || 'no event'}):`,
    `  name, e-mail address and account on ${counted(erased.buyers, 'order')}; ${counted(erased.browsers, 'browser')}`,
    `  brand, last digits and fingerprint of ${counted(erased.cards, 'card')}`,
    `  ${counted(erased.letters, 'letter')} in the local mailbox; ${counted(erased.mailsOwed, 'mail that was owed is not sent', 'mails that were owed are not sent')}`,
    `  ${counted(erased.words, 'reason or note', 'reasons and notes')}; ${counted(erased.exceptions, 'exception')} from limits; ${counted(erased.counts, 'count')} by account`,
    'Kept, without a name:',
    `  ${counted(kept.orders, 'order')} with seats and amounts (${sums.join('; ') || 'nothing paid'}), ${counted(kept.refunds, 'refund')}: bookkeeping`,
    `  ${counted(kept.tickets, 'ticket')}, ${kept.validTickets} of them valid, ${kept.entries} used at the door: seats are sold once`,
    `  ${counted(kept.auditEntries, 'entry', 'entries')} of the audit log: who did what; no buyer is named`,
    `Kept elsewhere, not by us: ${counted(kept.payments.length, 'payment')} at the payment provider${
      kept.payments.length > 0 ? ` (${kept.payments.join(', ')})` : ''
    }, mails that were sent, backups.`,
  ];
}
