import type { Command } from 'commander';
import { createEvents } from '../catalogue/events.ts';
import { type AuditEntry, auditPage, auditPageMax } from '../orders/audit.ts';
import { type CliContext, withDatabase } from './context.ts';

interface LogFlags {
  event?: string;
  limit: string;
  before?: string;
  json?: boolean;
}

/** `onsale log`: the audit log. `onsale audit` is something else: it checks the promises. */
export function registerLogCommand(program: Command, context: CliContext): void {
  program
    .command('log')
    .description('The audit log: what operators did, newest first. ("audit" checks the record instead.)')
    .option('--event <event>', 'of this event only')
    .option('--limit <number>', `1 to ${auditPageMax}`, '50')
    .option('--before <entry>', 'those before this entry: go on where another call ended')
    .option('--json', 'print JSON')
    .action((flags: LogFlags, command: Command) => logCommand(context, flags, command));
}

async function logCommand(context: CliContext, flags: LogFlags, command: Command): Promise<void> {
  const limit = Number(flags.limit);
  const before = flags.before === undefined ? null : Number(flags.before);
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= auditPageMax)) {
    command.error(`--limit takes 1 to ${auditPageMax}.`);
  }
  if (before !== null && !(Number.isSafeInteger(before) && before >= 1)) {
    command.error('--before takes the number of an entry.');
  }
  await withDatabase(context, async (db) => {
    const id = flags.event;
    const event = id === undefined ? null : await createEvents({ db, clock: context.clock }).find(id);
    if (id !== undefined && !event) {
      return context.fail(`There is no event ${id}; "onsale event list" shows all.`);
    }
    const page = await auditPage(db, { event: event?.eventNo ?? null, before, limit });
    if (flags.json) return context.print(JSON.stringify(page));
    if (page.entries.length === 0) context.print('Nothing is in it.');
    for (const entry of page.entries) context.print(entryText(entry));
    if (page.next !== null) context.print(`More: --before ${page.next}`);
  });
}

function entryText({ entry, at, actor, action, event, detail }: AuditEntry): string {
  const more = Object.entries(detail).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return [entry, new Date(at).toISOString(), actor, action, event ?? '-', ...more].join('  ');
}
