import type { Command } from 'commander';
import { blockSeats, unblockSeats } from '../catalogue/blocks.ts';
import { counted } from '../core/counted.ts';
import { type CliContext, cliActor, withArbiter } from './organise.ts';

/** `event block` and `event unblock`: seats named by seat_guid. */
export function registerBlockCommands(event: Command, context: CliContext): void {
  event
    .command('block')
    .description('Take seats out of the sale; those that somebody has are listed, not taken.')
    .argument('<event>')
    .argument('<seats...>', 'seat_guids')
    .requiredOption('--reason <text>', 'why')
    .option('--json', 'print JSON')
    .action((id: string, guids: string[], flags: { reason: string; json?: boolean }) =>
      withArbiter(context, id, async (deps, record, events) => {
        const { byGuid } = await events.house(record);
        const seats = guids.flatMap((guid) => byGuid.get(guid) ?? []);
        const outcome = await blockSeats(deps, {
          event: record.eventNo,
          actor: cliActor,
          reason: flags.reason,
          seats,
        });
        if (flags.json) context.print(JSON.stringify(outcome));
        else context.print(`${outcome.blocked.length} blocked, ${outcome.refused.length} left as they are.`);
        if (outcome.unanswered.length > 0) {
          const count = outcome.unanswered.length;
          context.fail(`${count} of these seats could not be asked for just now: try again in a moment.`);
        }
        if (seats.length < guids.length)
          context.fail(
            `${counted(guids.length - seats.length, 'of these seats is', 'of these seats are')} unknown.`,
          );
      }),
    );
  event
    .command('unblock')
    .description('Give blocked seats back to the sale.')
    .argument('<event>')
    .argument('<seats...>', 'seat_guids')
    .option('--json', 'print JSON')
    .action((id: string, guids: string[], flags: { json?: boolean }) =>
      withArbiter(context, id, async (deps, record, events) => {
        const { byGuid } = await events.house(record);
        const seats = guids.flatMap((guid) => byGuid.get(guid) ?? []);
        const freed = await unblockSeats(deps, { event: record.eventNo, actor: cliActor, seats });
        context.print(flags.json ? JSON.stringify(freed) : `${freed.length} unblocked.`);
      }),
    );
}
