import fs from 'node:fs';
import type { Command } from 'commander';
import { createEvents, type Events } from '../catalogue/events.ts';
import { counted } from '../core/counted.ts';
import {
  type CheckInOutcome,
  checkIn,
  entryBounds,
  recordTime,
  undoEntry,
  uploadScans,
} from '../fulfilment/entry.ts';
import { type GateList, gateListOf, placeInList, readGateList } from '../fulfilment/gate-list.ts';
import {
  readWrittenScans,
  type ScanOutcome,
  takeScans,
  type WrittenScan,
} from '../fulfilment/offline-scans.ts';
import { placeOf, placeText } from '../fulfilment/place.ts';
import { recordedTicketKeys } from '../fulfilment/recorded-ticket-keys.ts';
import {
  codeRefusals,
  readTicketPublicKey,
  storedTicketPublicKey,
  type TicketCodeRead,
  type TicketKeys,
  ticketKeyFiles,
  ticketKeyPem,
  ticketKeysOf,
  verifyTicketCode,
} from '../fulfilment/ticket-code.ts';
import { createTicketKeyring, type TicketKeyring } from '../fulfilment/ticket-keys.ts';
import { revokedTickets } from '../orders/refunds.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import { type CliContext, cliActor, withDatabase, withEvent } from './context.ts';

export type TicketContext = CliContext & { dataDir(): string };

/** `onsale ticket …`: checks codes offline, on this machine or at the gate with the files that `export` wrote. */
export function registerTicketCommands(program: Command, context: TicketContext): void {
  const ticket = program
    .command('ticket')
    .description('Tickets: check a code, let somebody in, prepare a gate.');
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
    .action((id: string, flags: { out?: string }) =>
      withEvent(context, id, async (db, events, event) => {
        const keys = await (await keyringOf(context, db)).all();
        if (keys.length === 0) return context.fail('No key is recorded yet: "onsale start" makes one.');
        const asOf = await recordTime(db);
        const revoked = await revokedTickets(db, event.eventNo);
        const house = event.layoutHash ? await events.house(event) : null;
        const list = gateListOf({ event, asOf, keys, revoked, house });
        if (flags.out === undefined) return context.print(JSON.stringify(list));
        fs.writeFileSync(flags.out, `${JSON.stringify(list)}\n`);
        context.print(
          `${counted(list.revoked.length, 'revoked ticket')} of ${id}, as of ${list.asOf}, in ${flags.out}.`,
        );
      }),
    );
  ticket
    .command('checkin')
    .description('Let the holder of a ticket in, once. Exit code 1 when he is not.')
    .argument('<code>', 'what the QR code shows')
    .option('--event <event>', 'what is entered here; a ticket of any event when absent')
    .option('--gate <name>', 'where')
    .option('--json', 'print JSON')
    .action((code: string, flags: { event?: string; gate?: string; json?: boolean }) =>
      checkInCommand(context, code, flags),
    );
  registerCorrectionCommands(ticket, context);
}

function registerCorrectionCommands(ticket: Command, context: TicketContext): void {
  ticket
    .command('undo')
    .description('Take back a check-in that was a mistake: the ticket may be used again. Audited.')
    .argument('<code>', 'what the QR code shows; or the id of the ticket, with --event')
    .requiredOption('--reason <text>', 'why; in the audit log')
    .option('--event <event>', 'whose ticket it is')
    .option('--at <time>', 'ISO 8601: the check-in of that time; its first use when absent')
    .option('--json', 'print JSON')
    .action((code: string, flags: UndoFlags) => undoCommand(context, code, flags));
  ticket
    .command('upload')
    .description(
      'Take in the scans of gates that had no network: a JSON array of {code, scan, gate, at}. The same file again changes nothing. Exit code 1 when a ticket was used twice, or one that lets nobody in.',
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

function verifyCommand(context: TicketContext, code: string, flags: VerifyFlags): void {
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
  if (judged.kind === 'revoked') return `Revoked: ticket ${judged.code.ticket} lets nobody in. ${age}`;
  return codeRefusals[judged.kind];
}

type Valid = Extract<TicketCodeRead, { kind: 'valid' }>;

function judgedBy(list: GateList, read: Valid): Judged {
  const { code } = read;
  if (code.event !== list.eventNo) return { kind: 'other_event', code };
  return list.revoked.includes(code.ticket) ? { kind: 'revoked', code } : read;
}

/** Undefined: it cannot be read, and that was said. */
function gateListIn(context: TicketContext, file: string): { list: GateList; keys: TicketKeys } | undefined {
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
function keysIn(context: TicketContext, files: readonly string[] | undefined): TicketKeys | null {
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

/** All keys of the installation. This data folder's is the present one, unless no process ever signed with it. */
async function keyringOf({ dataDir, clock }: TicketContext, db: Db): Promise<TicketKeyring> {
  const stored = storedTicketPublicKey(dataDir());
  const isRecorded = stored && (await recordedTicketKeys(db)).includes(ticketKeyPem(stored));
  return createTicketKeyring({ db, own: isRecorded ? stored : null, clock });
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
  context: TicketContext,
  code: string,
  flags: { event?: string; gate?: string; json?: boolean },
): Promise<void> {
  const gate = flags.gate ?? null;
  if (gate !== null && (gate === '' || gate.length > entryBounds.gateLengthMax)) {
    return context.fail(`--gate takes a name of ${entryBounds.gateLengthMax} characters at most.`);
  }
  const enter = async (db: Db, events: Events, here: number | null): Promise<void> => {
    const read = await (await keyringOf(context, db)).verify(code);
    if (read.kind !== 'valid') {
      if (flags.json) context.print(JSON.stringify({ kind: 'forged', why: read.kind }));
      return context.fail(codeRefusals[read.kind]);
    }
    const { event, ticket } = read.code;
    if (here !== null && here !== event) {
      if (flags.json) context.print(JSON.stringify({ kind: 'other_event', event }));
      const other = await events.findByNo(event);
      return context.fail(`This ticket is for another event${other ? `: ${other.name}` : ''}.`);
    }
    const outcome = await checkIn(db, { event, ticket, gate, scan: null, actor: cliActor });
    const its = await seatOf(events, event, read.code.seat);
    if (flags.json) context.print(JSON.stringify({ ...outcome, ...its }));
    sayOutcome(context, outcome, its, flags.json ?? false);
  };
  if (flags.event === undefined) {
    return withDatabase(context, (db) => enter(db, createEvents({ db, clock: context.clock }), null));
  }
  await withEvent(context, flags.event, (db, events, record) => enter(db, events, record.eventNo));
}

/** Whose ticket it is and where its holder sits, as the answer over HTTP has it; null where it is not known. */
async function seatOf(events: Events, no: number, seat: number) {
  const event = await events.findByNo(no);
  const place = event?.layoutHash ? placeOf(await events.house(event), seat) : null;
  return { event: event?.event ?? null, eventName: event?.name ?? null, place };
}

function sayOutcome(
  context: TicketContext,
  outcome: CheckInOutcome,
  { eventName, place }: Awaited<ReturnType<typeof seatOf>>,
  quiet: boolean,
): void {
  const seat = place ? placeText(place) : `seat_no ${outcome.seat}`;
  if (outcome.kind === 'valid') {
    if (!quiet) context.print(`Let in: ${[seat, eventName].filter(Boolean).join('; ')}.`);
  } else if (outcome.kind === 'used') {
    context.fail(`Used before: ${useText(outcome)} (${seat}).`);
  } else if (outcome.kind === 'undone') {
    context.fail('This scan was taken back since. Scan the ticket anew.');
  } else context.fail(`Revoked: ${outcome.why.replaceAll('_', ' ')}.`);
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

async function undoCommand(context: TicketContext, text: string, flags: UndoFlags): Promise<void> {
  const reason = flags.reason.trim();
  if (reason === '' || reason.length > entryBounds.reasonLengthMax) {
    return context.fail(`--reason takes a text of ${entryBounds.reasonLengthMax} characters at most.`);
  }
  const at = flags.at === undefined ? null : Date.parse(flags.at);
  if (Number.isNaN(at)) return context.fail('--at takes a time as 2026-12-05T18:30:00.000Z.');
  const undo = async (db: Db, event: number, ticket: string): Promise<void> => {
    const outcome = await undoEntry(db, { event, ticket, at, reason, actor: cliActor });
    if (flags.json) context.print(JSON.stringify(outcome));
    if (outcome.kind === 'unknown') return context.fail('The event has no such ticket.');
    if (outcome.kind === 'not_entered') {
      return context.fail(`This ticket was not checked in${at === null ? '' : ' at that time'}.`);
    }
    if (flags.json) return;
    context.print(`Taken back: the check-in of ${useText(outcome)}.`);
    context.print(
      outcome.next
        ? `The ticket's first use is that of ${useText(outcome.next)}.`
        : 'The ticket may be used again.',
    );
  };
  if (uuidForm.test(text)) {
    if (flags.event === undefined) return context.fail('The id of a ticket asks for --event.');
    return withEvent(context, flags.event, (db, _events, record) => undo(db, record.eventNo, text));
  }
  const undoCode = async (db: Db, here: number | null): Promise<void> => {
    const read = await (await keyringOf(context, db)).verify(text);
    if (read.kind !== 'valid') return context.fail(codeRefusals[read.kind]);
    const { event, ticket } = read.code;
    if (here !== null && here !== event) return context.fail('This ticket is for another event.');
    await undo(db, event, ticket);
  };
  if (flags.event === undefined) return withDatabase(context, (db) => undoCode(db, null));
  await withEvent(context, flags.event, (db, _events, record) => undoCode(db, record.eventNo));
}

async function uploadCommand(
  context: TicketContext,
  id: string,
  file: string,
  quiet: boolean,
): Promise<void> {
  const written = writtenScansIn(context, file);
  if (!written) return;
  await withEvent(context, id, async (db, _events, { eventNo: event }) => {
    const { verify } = await keyringOf(context, db);
    const outcomes: ScanOutcome[] = [];
    for (let from = 0; from < written.length; from += entryBounds.scansMax) {
      const some = written.slice(from, from + entryBounds.scansMax);
      outcomes.push(
        ...(await takeScans({ verify, event }, some, (scans) => uploadScans(db, event, scans, cliActor))),
      );
    }
    if (quiet) context.print(JSON.stringify(outcomes));
    const wrong = outcomes.filter(({ kind }) => kind !== 'entered' && kind !== 'undone');
    if (!quiet) {
      for (const one of wrong) context.print(scanText(one));
      const known = outcomes.filter((one) => 'repeated' in one && one.repeated).length;
      context.print(`${counted(outcomes.length, 'scan')}, ${known} of them known before.`);
    }
    if (wrong.length > 0) context.fail(`${counted(wrong.length, 'scan is', 'scans are')} to be looked at.`);
  });
}

/** Undefined: it cannot be read, and that was said. */
function writtenScansIn(context: TicketContext, file: string): WrittenScan[] | undefined {
  if (file !== '-' && !fs.existsSync(file)) {
    context.fail(`There is no file ${file}.`);
    return undefined;
  }
  const written = readWrittenScans(fs.readFileSync(file === '-' ? 0 : file, 'utf8'));
  if (written) return written;
  context.fail('This is no JSON array of {"code", "scan", "gate", "at"}, with "at" as 2026-12-05T18:30:00Z.');
  return undefined;
}

function scanText(one: ScanOutcome): string {
  const where = `${useText(one)} (scan ${one.scan})`;
  if (one.kind === 'double') {
    return `Used twice: ${where}, and ${(one.others ?? []).map(useText).join(', ')}; ticket ${one.ticket}.`;
  }
  if (one.kind === 'revoked') return `Revoked (${one.why?.replaceAll('_', ' ')}): ${where}.`;
  return one.kind === 'forged' ? `No code of ours: ${where}.` : `Of another event: ${where}.`;
}

function useText({ at, gate }: { at: number; gate: string | null }): string {
  return `${new Date(at).toISOString()}${gate === null ? '' : ` at ${gate}`}`;
}
