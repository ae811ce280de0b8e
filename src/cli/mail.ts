import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { impossible } from '../core/outcome.ts';
import { type MailSheet, mailSheet, mailsOfOrder, mailTroubles, resendMail } from '../fulfilment/mails.ts';
import { type CliContext, cliActor, withDatabase } from './context.ts';

const listedMax = 200;
const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** `onsale mail …`: what became of the mails that are owed to buyers. A running "onsale start" sends them. */
export function registerMailCommands(program: Command, context: CliContext): void {
  const mail = program
    .command('mail')
    .description(
      'Mails to buyers: those that failed, and sending one again. A running "onsale start" sends them.',
    );
  mail
    .command('list')
    .description(
      `Mails that were refused, or not taken yet, the newest ${listedMax}. Exit code 1 when there is one.`,
    )
    .option('--order <order>', 'all mails of this order instead; exit code 0')
    .option('--json', 'print JSON')
    .action((flags: { order?: string; json?: boolean }) => listCommand(context, flags));
  mail
    .command('show')
    .description('What became of a mail: its state, attempts, the last error, and when it is tried next.')
    .argument('<mail>', 'id of the mail')
    .option('--json', 'print JSON')
    .action((id: string, flags: { json?: boolean }) =>
      withDatabase(context, async (db) => {
        const found = uuidForm.test(id) ? await mailSheet(db, id) : null;
        if (!found) return context.fail(`There is no mail ${id}.`);
        context.print(flags.json ? JSON.stringify(found) : sheetText(found));
      }),
    );
  mail
    .command('resend')
    .description('Send a mail that failed again, under its own Message-ID.')
    .argument('<mail>', 'id of the mail')
    .option('--copy', 'also one that was sent: once more, as a mail of its own')
    .action((id: string, flags: { copy?: boolean }) => resendCommand(context, id, flags.copy ?? false));
}

function listCommand(
  context: CliContext,
  { order, json }: { order?: string; json?: boolean },
): Promise<void> {
  return withDatabase(context, async (db) => {
    if (order !== undefined) {
      const mails = uuidForm.test(order) ? await mailsOfOrder(db, order) : [];
      if (json) context.print(JSON.stringify(mails));
      else if (mails.length === 0) context.print('None.');
      else for (const one of mails) context.print(lineOf(one));
      return;
    }
    const { count, mails } = await mailTroubles(db, listedMax);
    if (json) context.print(JSON.stringify({ count, mails }));
    else for (const one of mails) context.print(lineOf(one));
    if (count > 0) context.fail(`${counted(count, 'mail was', 'mails were')} refused or not taken yet.`);
    else if (!json) context.print('None.');
  });
}

function resendCommand(context: CliContext, id: string, copy: boolean): Promise<void> {
  return withDatabase(context, async (db) => {
    if (!uuidForm.test(id)) return context.fail(`There is no mail ${id}.`);
    const outcome = await resendMail(db, id, { copy, actor: cliActor });
    switch (outcome.kind) {
      case 'again':
        return context.print(`Mail ${id} is due.`);
      case 'copied':
        return context.print(`Mail ${outcome.mail} is due, a copy of ${id}.`);
      case 'under_way':
        return context.print(
          outcome.mail ? `A copy is due already, mail ${outcome.mail}.` : 'It is due already.',
        );
      case 'sent':
        return context.fail('It was sent. --copy sends it once more, as a mail of its own.');
      case 'not_needed':
        return context.fail('It was not needed any more when it was to be sent.');
      case 'unknown':
        return context.fail(`There is no mail ${id}.`);
      default:
        return impossible(outcome, 'resend');
    }
  });
}

const timeText = (at: number): string => new Date(at).toISOString();

function lineOf(one: MailSheet): string {
  const error = one.error === null ? '' : `: ${one.error}`;
  return `${timeText(one.updatedAt)}  ${one.mail}  ${one.what} of order ${one.order} (${one.event})  ${one.state}, ${counted(one.attempts, 'attempt')}${error}`;
}

function sheetText(one: MailSheet): string {
  const next =
    one.state !== 'due' || one.error === null
      ? null
      : one.nextAt === null
        ? 'Not tried again by itself.'
        : `Tried again at ${timeText(one.nextAt)}.`;
  return [
    `Mail ${one.mail}: ${one.what} of order ${one.order} (${one.event}).`,
    `${one.state}, ${counted(one.attempts, 'attempt')}; owed since ${timeText(one.createdAt)}, changed at ${timeText(one.updatedAt)}.`,
    ...(one.copyOf === null ? [] : [`A copy of mail ${one.copyOf}.`]),
    ...(one.error === null ? [] : [`Last error: ${one.error}`]),
    ...(next === null ? [] : [next]),
  ].join('\n');
}
