import fs from 'node:fs';
import { open } from 'node:fs/promises';
import type { Command } from 'commander';
import { Argument, Option } from 'commander';
import { createEvents } from '../catalogue/events.ts';
import { counted } from '../core/counted.ts';
import { Problem } from '../core/problems.ts';
import { type ExportFormat, exportFormats } from '../fulfilment/export-forms.ts';
import { type ExportKind, exportKinds, writeExport } from '../fulfilment/exports.ts';
import { recordedTicketKeys } from '../fulfilment/recorded-ticket-keys.ts';
import { storedTicketKey, type TicketKey, ticketKeyFiles, ticketKeyPem } from '../fulfilment/ticket-code.ts';
import { beginExport } from '../operate/exports.ts';
import { type CliContext, cliActor } from './context.ts';

interface ExportFlags {
  format: ExportFormat;
  out: string;
  codes?: boolean;
  bom: boolean;
}

const progressEvery = 10_000;

/** `onsale export`: what was sold, as a file. */
export function registerExportCommand(program: Command, context: CliContext): void {
  program
    .command('export')
    .description(
      'Write orders, tickets or refunds to a file. All of it shows one moment; names and addresses of buyers are in it.',
    )
    .addArgument(new Argument('<what>').choices(exportKinds))
    .argument('[event]', 'the id in its address; all events when absent')
    .addOption(new Option('--format <format>', 'how it is written').choices(exportFormats).default('csv'))
    .requiredOption('--out <file>', 'to this file; FILE.part until it is whole')
    .option('--codes', 'with the codes of valid tickets: a person who has one can enter with it')
    .option('--no-bom', 'CSV: without the mark that Excel needs to read it as UTF-8')
    .action((what: ExportKind, event: string | undefined, flags: ExportFlags) =>
      exportCommand(context, what, event, flags),
    );
}

async function exportCommand(
  context: CliContext,
  what: ExportKind,
  event: string | undefined,
  flags: ExportFlags,
): Promise<void> {
  const { format, out, bom, codes = false } = flags;
  if (codes && what !== 'tickets') return context.fail('Only tickets have codes.');
  const key = codes ? keyOf(context) : undefined;
  if (key === null) return;
  const { db, url } = await context.openDatabase();
  try {
    if (key && !(await recordedTicketKeys(db)).includes(ticketKeyPem(key.publicKey))) {
      return context.fail(strangeKey(context));
    }
    const events = createEvents({ db, clock: context.clock });
    const request = { event, file: `${what}.${format}`, bom: `${bom}`, codes: `${codes}` };
    const { wish } = await beginExport({ db, events }, request, { actor: cliActor });
    const parts = { url, events, ...(key && { ticketKey: key }) };
    const rows = await writeWhole(out, (write) => writeExport(parts, wish, write), context.progress);
    context.print(`${counted(rows, what.slice(0, -1))} of ${event ?? 'all events'} in ${out}.`);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    context.fail(error.message);
  }
}

/** The file has its name only once it is whole; what is left of one that is not is removed. */
async function writeWhole(
  out: string,
  run: (write: (text: string, rows: number) => Promise<void>) => Promise<number>,
  report: (line: string) => void,
): Promise<number> {
  const part = `${out}.part`;
  // The file holds names and addresses, so only its owner may read it.
  const file = await open(part, 'w', 0o600);
  let reported = 0;
  try {
    const rows = await run(async (text, written) => {
      await file.writeFile(text);
      if (written - reported < progressEvery) return;
      reported = written;
      report(`${written} …`);
    });
    await file.sync();
    await file.close();
    fs.renameSync(part, out);
    return rows;
  } catch (error) {
    await file.close().catch(() => {});
    fs.rmSync(part, { force: true });
    throw error;
  }
}

const strangeKey = (context: CliContext): string =>
  `No process of this installation was ever started with ${ticketKeyFiles(context.dataDir()).privateKey}: no gate lets in what it signs. Copy ticket-key.pem of a machine that sells to it.`;

/** Null if there is no key; the error was printed. A new key would sign codes that no gate knows. */
function keyOf(context: CliContext): TicketKey | null {
  const dataDir = context.dataDir();
  const { privateKey } = ticketKeyFiles(dataDir);
  if (fs.existsSync(privateKey)) return storedTicketKey(dataDir);
  context.fail(`There is no key ${privateKey}: codes are made where the tickets are.`);
  return null;
}
