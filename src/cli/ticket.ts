import fs from 'node:fs';
import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { entryBounds } from '../fulfilment/entry.ts';
import { type GateList, placeInList, readGateList } from '../fulfilment/gate-list.ts';
import { readWrittenScans, type WrittenScan } from '../fulfilment/offline-scans.ts';
import { placeText } from '../fulfilment/place.ts';
import {
  codeRefusals,
  readTicketPublicKey,
  storedTicketPublicKey,
  type TicketCodeRead,
  type TicketKeys,
  ticketKeyFiles,
  ticketKeysOf,
  verifyTicketCode,
} from '../fulfilment/ticket-code.ts';
import { checkIn, getGateList, undoCheckIn, uploadScans } from '../operate/entry.ts';
import type { OutputOf } from '../operate/operation.ts';
import type { Clock } from '../runtime/clock.ts';
import { call } from './call.ts';
import type { CliContext } from './context.ts';

type Scan = OutputOf<typeof uploadScans>['scans'][number];

/** `onsale ticket …`: checks codes offline, on this machine or at the gate with the files that `export` wrote. */
export function registerTicketCommands(program: Command, context: CliContext): void {
  const ticket = program
    .command('ticket')
    .description('Tickets: check a code, let a ticket holder in, prepare a gate.');
  ticket
    .command('verify')
    .description(
      'Check a ticket code offline: whether we issued it, unaltered, and with --revoked whether it was revoked since. Exit code 1 when not.',
    )
    .argument('<code>', 'what the QR code shows')
    .option(
      '--key <file>',
      'public key of the issuer, repeat for each; those of --revoked, or that in the data folder, when absent',
      (file: string, before: string[] | undefined) => [...(before ?? []), file],
    )
    .option('--revoked <file>', 'gate list that "onsale ticket export" wrote')
    .option('--json', 'print JSON')
    .action((code: string, flags: VerifyFlags) => verifyCommand(context, code, flags));
  ticket
    .command('export')
    .description(
      'Write the gate list of an event: the public keys, the tickets that were revoked, and where each seat is.',
    )
    .argument('<event>', 'the id in its address')
    .option('--out <file>', 'to this file; to the output when absent')
    .action(async (id: string, flags: { out?: string }) => {
      const list = await call(context, getGateList, { event: id });
      if (!list) return;
      if (flags.out === undefined) return context.print(JSON.stringify(list));
      fs.writeFileSync(flags.out, `${JSON.stringify(list)}\n`);
      context.print(
        `${counted(list.revoked.length, 'revoked ticket')} of ${id}, as of ${list.asOf}, in ${flags.out}.`,
      );
    });
  ticket
    .command('checkin')
    .description('Let the holder of a ticket in, once. Exit code 1 if not.')
    .argument('<code>', 'what the QR code shows')
    .option('--event <event>', 'what is entered here; a ticket of any event when absent')
    .option('--gate <name>', 'where')
    .option('--json', 'print JSON')
    .action((code: string, flags: { event?: string; gate?: string; json?: boolean }) =>
      checkInCommand(context, code, flags),
    );
  registerCorrectionCommands(ticket, context);
}

function registerCorrectionCommands(ticket: Command, context: CliContext): void {
  ticket
    .command('undo')
    .description('Take back a check-in that was a mistake: the ticket may be used again.')
    .argument('<code>', 'what the QR code shows; or the id of the ticket, with --event')
    .requiredOption('--reason <text>', 'why; in the log of actions')
    .option('--event <event>', 'whose ticket it is')
    .option('--at <time>', 'ISO 8601: the check-in of that time; its first use when absent')
    .option('--json', 'print JSON')
    .action((code: string, flags: UndoFlags) => undoCommand(context, code, flags));
  ticket
    .command('upload')
    .description(
      'Take in the scans of gates that had no network: a JSON array of {code, scan, gate, at}. The same file again changes nothing. Exit code 1 when a ticket was used twice, or one was not valid.',
    )
    .argument('<event>', 'the id in its address')
    .argument('<file>', 'JSON; - reads the input')
    .option('--json', 'print JSON')
    .action((id: string, file: string, flags: { json?: boolean }) =>
      uploadCommand(context, id, file, flags.json ?? false),
    );
}

interface UndoFlags {
  reason: string;
  at?: string;
  event?: string;
  json?: boolean;
}

interface VerifyFlags {
  key?: string[];
  revoked?: string;
  json?: boolean;
}

function verifyCommand(context: CliContext, code: string, flags: VerifyFlags): void {
  const gate = flags.revoked === undefined ? null : gateListIn(context, flags.revoked);
  if (gate === undefined) return;
  const keys = flags.key === undefined && gate ? gate.keys : keysIn(context, flags.key);
  if (!keys) return;
  const read = verifyTicketCode(keys, code);
  const judged: Judged = read.kind === 'valid' && gate ? judgedBy(gate.list, read) : read;
  const listed = gate ? { asOf: gate.list.asOf, ageMs: ageOf(gate.list, context.clock) } : undefined;
  const age = listed
    ? `The list is ${ageWords(listed.ageMs)} old: what was revoked since, it does not know.`
    : '';
  const place = gate && read.kind === 'valid' ? placeInList(gate.list, read.code.seat) : null;
  if (flags.json) {
    const here = { eventName: gate?.list.eventName, place, list: listed };
    context.print(JSON.stringify(listed ? { ...judged, ...here } : judged));
  }
  if (judged.kind !== 'valid') {
    context.fail(refusalOf(judged, age));
  } else if (!flags.json) {
    const { ticket: id, event, seat } = judged.code;
    const of = gate ? gate.list.eventName : `event number ${event}`;
    context.print(`Valid: ${place ? placeText(place) : `seat_no ${seat}`}; ${of}. Ticket ${id}.`);
    context.print(gate ? age : 'Whether it was cancelled since, a gate list tells (--revoked).');
    context.print('Whether it was used since, only the server knows.');
  }
}

type Judged = TicketCodeRead | { kind: 'revoked' | 'other_event'; code: Valid['code'] };

function refusalOf(judged: Exclude<Judged, Valid>, age: string): string {
  if (judged.kind === 'other_event') {
    return `A ticket of ours, but for another event (number ${judged.code.event}) than this list’s.`;
  }
  if (judged.kind === 'revoked') return `Revoked: ticket ${judged.code.ticket} admits no one. ${age}`;
  return codeRefusals[judged.kind];
}

type Valid = Extract<TicketCodeRead, { kind: 'valid' }>;

function judgedBy(list: GateList, read: Valid): Judged {
  const { code } = read;
  if (code.event !== list.eventNo) return { kind: 'other_event', code };
  return list.revoked.includes(code.ticket) ? { kind: 'revoked', code } : read;
}

/** Undefined: it cannot be read, and that was said. */
function gateListIn(context: CliContext, file: string): { list: GateList; keys: TicketKeys } | undefined {
  if (!fs.existsSync(file)) {
    context.fail(`There is no file ${file}: "onsale ticket export" writes it.`);
    return undefined;
  }
  const read = readGateList(fs.readFileSync(file, 'utf8'));
  if (read.kind === 'read') return read;
  context.fail(read.sentence);
  return undefined;
}

/** The keys of these files, or of the data folder. Null if a file is missing or holds no key; the error was printed. */
function keysIn(context: CliContext, files: readonly string[] | undefined): TicketKeys | null {
  if (files === undefined) {
    const own = storedTicketPublicKey(context.dataDir());
    if (own) return ticketKeysOf([own]);
    const { publicKey } = ticketKeyFiles(context.dataDir());
    context.fail(`There is no key ${publicKey}: "onsale start" makes it; --key names another.`);
    return null;
  }
  try {
    return ticketKeysOf(files.map(readTicketPublicKey));
  } catch (error) {
    context.fail(`--key takes files that hold a public key (PEM): ${(error as Error).message}`);
    return null;
  }
}

/** The list's age by this machine's clock, which may be wrong. A list dated in the future has age zero. */
function ageOf(list: GateList, clock: Clock): number {
  return Math.max(0, clock.now() - Date.parse(list.asOf));
}

function ageWords(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : counted(Math.floor(hours / 24), 'day');
}

async function checkInCommand(
  context: CliContext,
  code: string,
  { event, gate, json }: { event?: string; gate?: string; json?: boolean },
): Promise<void> {
  const answer = await call(context, checkIn, { code, event, gate });
  if (!answer) return;
  if (json) context.print(JSON.stringify(answer));
  const { result, why = '', at = '', seat, eventName } = answer;
  const place = seat ? placeText(seat) : 'a seat that the plan does not have any more';
  switch (result) {
    case 'valid':
      if (!json) context.print(`Let in: ${[place, eventName].filter(Boolean).join('; ')}.`);
      return;
    case 'used':
      return context.fail(`Used before: ${useText({ at, gate: answer.gate ?? null })} (${place}).`);
    case 'undone':
      return context.fail('This scan was taken back since. Scan the ticket again.');
    case 'revoked':
      return context.fail(`Revoked: ${why.replaceAll('_', ' ')}.`);
    case 'other_event':
      return context.fail(`This ticket is for another event${eventName ? `: ${eventName}` : ''}.`);
    case 'forged':
      return context.fail(codeRefusals[why as keyof typeof codeRefusals] ?? why);
  }
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

async function undoCommand(context: CliContext, text: string, flags: UndoFlags): Promise<void> {
  const { reason, at, event, json } = flags;
  const named = uuidForm.test(text) ? { ticket: text } : { code: text };
  const undone = await call(context, undoCheckIn, { ...named, event, at, reason });
  if (!undone) return;
  if (json) return context.print(JSON.stringify(undone));
  context.print(`Taken back: the check-in of ${useText(undone)}.`);
  context.print(
    undone.next
      ? `The ticket's first use is that of ${useText(undone.next)}.`
      : 'The ticket may be used again.',
  );
}

async function uploadCommand(
  context: CliContext,
  event: string,
  file: string,
  quiet: boolean,
): Promise<void> {
  const written = writtenScansIn(context, file);
  if (!written) return;
  const outcomes: Scan[] = [];
  for (let from = 0; from < written.length; from += entryBounds.scansMax) {
    const scans = written
      .slice(from, from + entryBounds.scansMax)
      .map(({ at, ...scan }) => ({ ...scan, at: new Date(at).toISOString() }));
    const taken = await call(context, uploadScans, { event, scans });
    if (!taken) return;
    outcomes.push(...taken.scans);
  }
  if (quiet) context.print(JSON.stringify(outcomes));
  const wrong = outcomes.filter(({ result }) => result !== 'entered' && result !== 'undone');
  if (!quiet) {
    for (const one of wrong) context.print(scanText(one));
    const known = outcomes.filter(({ repeated }) => repeated).length;
    context.print(`${counted(outcomes.length, 'scan')}, ${known} of them known before.`);
  }
  if (wrong.length > 0) context.fail(`${counted(wrong.length, 'scan is', 'scans are')} to be looked at.`);
}

/** Undefined: it cannot be read, and that was said. */
function writtenScansIn(context: CliContext, file: string): WrittenScan[] | undefined {
  if (file !== '-' && !fs.existsSync(file)) {
    context.fail(`There is no file ${file}.`);
    return undefined;
  }
  const written = readWrittenScans(fs.readFileSync(file === '-' ? 0 : file, 'utf8'));
  if (written) return written;
  context.fail('This is no JSON array of {"code", "scan", "gate", "at"}, with "at" as 2026-12-05T18:30:00Z.');
  return undefined;
}

function scanText(one: Scan): string {
  const where = `${useText(one)} (scan ${one.scan})`;
  if (one.result === 'double')
    return `Used twice: ${where}, and ${(one.others ?? []).map(useText).join(', ')}; ticket ${one.ticket}.`;
  if (one.result === 'revoked') return `Revoked (${one.why?.replaceAll('_', ' ')}): ${where}.`;
  return one.result === 'forged' ? `No code of ours: ${where}.` : `Of another event: ${where}.`;
}

function useText({ at, gate }: { at: string; gate: string | null }): string {
  return `${at}${gate === null ? '' : ` at ${gate}`}`;
}
