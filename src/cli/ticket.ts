import fs from 'node:fs';
import type { Command } from 'commander';
import { readTicketPublicKey, ticketKeyFiles, verifyTicketCode } from '../fulfilment/ticket-code.ts';

export function registerTicketCommands(
  program: Command,
  context: { dataDir: () => string; print(text: string): void; fail(sentence: string): void },
): void {
  const ticket = program.command('ticket').description('Tickets: check a code.');
  ticket
    .command('verify')
    .description('Check a ticket code offline: whether we issued it, unaltered. Exit code 1 when not.')
    .argument('<code>', 'what the QR code shows')
    .option('--key <file>', 'public key of the issuer; the one in the data folder when absent')
    .option('--json', 'print JSON')
    .action((code: string, flags: { key?: string; json?: boolean }) => {
      const file = flags.key ?? ticketKeyFiles(context.dataDir()).publicKey;
      if (!fs.existsSync(file)) {
        context.fail(`There is no key ${file}: "onsale start" makes it; --key names another.`);
        return;
      }
      const read = verifyTicketCode(readTicketPublicKey(file), code);
      if (flags.json) context.print(JSON.stringify(read));
      if (read.kind === 'valid') {
        if (flags.json) return;
        const { ticket: id, event, seat } = read.code;
        context.print(`Valid: ticket ${id}, event number ${event}, seat_no ${seat}.`);
        context.print('Whether it was cancelled or used since, only the server knows.');
        return;
      }
      context.fail(
        {
          unreadable: 'This is no ticket code of ours.',
          other_key: 'This code was signed with another key.',
          forged: 'This code was altered or forged.',
        }[read.kind],
      );
    });
}
