import type { Command } from 'commander';
import type { OutputOf } from '../operate/operation.ts';
import { listActions } from '../operate/work.ts';
import { actionPageMax } from '../orders/action-log.ts';
import { call } from './call.ts';
import type { CliContext } from './context.ts';

interface LogFlags {
  event?: string;
  limit: string;
  before?: string;
  json?: boolean;
}

/** `onsale log`: the log of actions. `onsale audit` is something else: it checks the promises. */
export function registerLogCommand(program: Command, context: CliContext): void {
  program
    .command('log')
    .description('The log of actions: what operators did, newest first. ("audit" checks the record instead.)')
    .option('--event <event>', 'of this event only')
    .option('--limit <number>', `1 to ${actionPageMax}`, '50')
    .option('--before <entry>', 'those before this entry: go on where another call ended')
    .option('--json', 'print JSON')
    .action(async ({ event, limit, before, json }: LogFlags) => {
      const page = await call(context, listActions, { event, limit, before });
      if (!page) return;
      if (json) return context.print(JSON.stringify(page));
      if (page.entries.length === 0) context.print('It has no entries.');
      for (const entry of page.entries) context.print(entryText(entry));
      if (page.next !== null) context.print(`More: --before ${page.next}`);
    });
}

function entryText({
  entry,
  at,
  actor,
  action,
  event,
  detail,
}: OutputOf<typeof listActions>['entries'][number]): string {
  const more = Object.entries(detail).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return [entry, at, actor, action, event ?? '-', ...more].join('  ');
}
