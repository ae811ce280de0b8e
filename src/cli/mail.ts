import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { getMail, listMails, sendMailAgain } from '../operate/mails.ts';
import type { OutputOf } from '../operate/operation.ts';
import { call, type Refusal } from './call.ts';
import type { CliContext } from './context.ts';

type Mail = OutputOf<typeof getMail>;

/** `onsale mail`: the operations of operate/mails.ts. A running "onsale start" sends the mails. */
export function registerMailCommands(program: Command, context: CliContext): void {
  const mail = program
    .command('mail')
    .description(
      'Mails to buyers: those that failed, and sending one again. A running "onsale start" sends them.',
    );
  mail
    .command('list')
    .description('Mails that were refused, or not taken yet, the newest. Exit code 1 when there is one.')
    .option('--order <order>', 'all mails of this order instead; exit code 0')
    .option('--json', 'print JSON')
    .action((flags: { order?: string; json?: boolean }) => listCommand(context, flags));
  mail
    .command('show')
    .description('What became of a mail: its state, attempts, the last error, and when it is tried next.')
    .argument('<mail>', 'id of the mail')
    .option('--json', 'print JSON')
    .action(async (id: string, flags: { json?: boolean }) => {
      const found = await call(context, getMail, { mail: id });
      if (found) context.print(flags.json ? JSON.stringify(found) : mailText(found));
    });
  mail
    .command('resend')
    .description('Send a mail that failed again, under its own Message-ID.')
    .argument('<mail>', 'id of the mail')
    .option('--copy', 'also one that was sent: once more, as a separate mail')
    .action(async (id: string, { copy }: { copy?: boolean }) => {
      const more = ({ code }: Refusal) => (code === 'mail_sent' ? ['Here: --copy.'] : []);
      const due = await call(context, sendMailAgain, { mail: id, copy }, { more });
      if (due)
        context.print(due.mail === id ? `Mail ${id} is due.` : `Mail ${due.mail} is due, a copy of ${id}.`);
    });
}

async function listCommand(
  context: CliContext,
  { order, json }: { order?: string; json?: boolean },
): Promise<void> {
  const found = await call(context, listMails, { order });
  if (!found) return;
  const { count, mails } = found;
  if (json) context.print(JSON.stringify(order === undefined ? found : mails));
  else if (mails.length === 0) context.print('None.');
  else for (const one of mails) context.print(lineOf(one));
  if (order === undefined && count > 0)
    context.fail(`${counted(count, 'mail was', 'mails were')} refused or not taken yet.`);
}

function lineOf(one: Mail): string {
  const error = one.error === null ? '' : `: ${one.error}`;
  return `${one.updatedAt}  ${one.mail}  ${one.what} of order ${one.order} (${one.event})  ${one.state}, ${counted(one.attempts, 'attempt')}${error}`;
}

function mailText(one: Mail): string {
  const next =
    one.state !== 'due' || one.error === null
      ? null
      : one.nextAt === null
        ? 'Not tried again automatically.'
        : `Tried again at ${one.nextAt}.`;
  return [
    `Mail ${one.mail}: ${one.what} of order ${one.order} (${one.event}).`,
    `${one.state}, ${counted(one.attempts, 'attempt')}; owed since ${one.createdAt}, changed at ${one.updatedAt}.`,
    ...(one.copyOf === null ? [] : [`A copy of mail ${one.copyOf}.`]),
    ...(one.error === null ? [] : [`Last error: ${one.error}`]),
    ...(next === null ? [] : [next]),
  ].join('\n');
}
