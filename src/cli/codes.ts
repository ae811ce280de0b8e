import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { CsvError, parse } from 'csv-parse/sync';
import { counted } from '../core/counted.ts';
import { canonicalCode } from '../core/prices.ts';
import { Problem } from '../core/problems.ts';
import { type CodesWish, codesFile, makeCodes } from '../http/organiser-codes.ts';
import {
  type AccessCode,
  type CodeBatch,
  codeLimits,
  listBatches,
  listCodes,
  readCodes,
  revokeCodes,
} from '../orders/access-codes.ts';
import { type CliContext, cliActor, withEvent } from './organise.ts';

interface CreateFlags {
  label: string;
  count?: string;
  length?: string;
  prefix?: string;
  import?: string;
  category?: string[];
  kind?: string[];
  presale?: boolean;
  uses: string;
  seatsMax?: string;
  until?: string;
  json?: boolean;
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const listMax = 10_000;

/** `onsale code`: what only those may buy who were given a code. */
export function registerCodeCommands(program: Command, context: CliContext): void {
  const code = program
    .command('code')
    .description('Access codes: they open locked categories and kinds of an event, and its presale.');
  code
    .command('create')
    .description('Make a batch of codes, all or none; prints them, one a line. It is in the audit log.')
    .argument('<event>', 'the id in its address')
    .requiredOption('--label <name>', 'the batch’s name, for people')
    .option('--count <codes>', `generate so many, 1 to ${codeLimits.codesMax}`)
    .option(
      '--length <characters>',
      `of a generated code, ${codeLimits.length.min} to ${codeLimits.length.max}`,
    )
    .option('--prefix <text>', 'what each generated code begins with')
    .option('--import <file>', 'codes of one’s own from a CSV file: a column "code", perhaps one "uses"')
    .option('--category <name...>', 'locked categories that they open')
    .option('--kind <id...>', 'locked kinds of buyers that they open')
    .option('--presale', 'they open the presale')
    .option('--uses <orders>', 'orders that each may be used for, or "any"', '1')
    .option('--seats-max <seats>', 'seats of one order')
    .option('--until <time>', 'ISO 8601; not valid from then on')
    .option('--json', 'print JSON')
    .action((id: string, flags: CreateFlags, command: Command) => createCommand(context, id, flags, command));
  code
    .command('list')
    .description('The batches of an event, or the codes of one of them.')
    .argument('<event>')
    .option('--batch <batch>', 'its id, as the list of batches shows it')
    .option('--csv', 'all codes as CSV')
    .option('--json', 'print JSON')
    .action((id: string, flags: { batch?: string; csv?: boolean; json?: boolean }, command: Command) =>
      listCommand(context, id, flags, command),
    );
  code
    .command('revoke')
    .description('Revoke a batch or a code; orders that were made with them go on. It is in the audit log.')
    .argument('<event>')
    .option('--batch <batch>')
    .option('--code <code>')
    .option('--json', 'print JSON')
    .action((id: string, flags: { batch?: string; code?: string; json?: boolean }, command: Command) =>
      revokeCommand(context, id, flags, command),
    );
}

async function createCommand(
  context: CliContext,
  id: string,
  flags: CreateFlags,
  command: Command,
): Promise<void> {
  const wrong = (sentence: string): never => command.error(sentence);
  const whole = (flag: string, text: string | undefined, min: number, max: number): number | undefined => {
    if (text === undefined) return undefined;
    const count = Number(text);
    return Number.isInteger(count) && count >= min && count <= max
      ? count
      : wrong(`${flag} takes ${min} to ${max}.`);
  };
  const { length, codesMax } = codeLimits;
  if ((flags.count === undefined) === (flags.import === undefined)) {
    wrong('Either --count, to generate codes, or --import, for codes of your own.');
  }
  const usesMax = flags.uses === 'any' ? null : whole('--uses', flags.uses, 1, codeLimits.usesMax)!;
  const wish: CodesWish = {
    label: flags.label,
    categories: flags.category ?? [],
    kinds: flags.kind ?? [],
    presale: flags.presale ?? false,
    usesMax,
    seatsMax: whole('--seats-max', flags.seatsMax, 1, 50) ?? null,
    until: flags.until ?? null,
    ...(flags.import === undefined
      ? {
          generate: {
            count: whole('--count', flags.count, 1, codesMax)!,
            length: whole('--length', flags.length, length.min, length.max),
            prefix: flags.prefix,
          },
        }
      : { codes: await codesIn(flags.import, usesMax, wrong) }),
  };
  await withEvent(context, id, async (db, _events, event) => {
    try {
      const made = await makeCodes(
        { db, random: context.random, clock: context.clock },
        event,
        cliActor,
        wish,
      );
      context.print(flags.json ? JSON.stringify(made) : made.codes.join('\n'));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { codes } = error.options.extra ?? {};
      context.fail(Array.isArray(codes) ? `${error.message} ${codes.join(', ')}` : error.message);
    }
  });
}

async function codesIn(
  file: string,
  usesMax: number | null,
  wrong: (sentence: string) => never,
): Promise<{ code: string; usesMax: number | null }[]> {
  let rows: string[][];
  try {
    rows = parse(await readFile(file, 'utf8'), {
      bom: true,
      relax_column_count: true,
      skip_empty_lines: false,
    });
  } catch (error) {
    if (error instanceof CsvError) return wrong(`${file} is not valid CSV (${error.code}).`);
    return wrong(`${file} cannot be read: ${(error as Error).message}`);
  }
  const read = readCodes(rows, usesMax);
  return read.kind === 'read' ? read.codes : wrong(`${file}, line ${read.line}: ${read.sentence}`);
}

async function listCommand(
  context: CliContext,
  id: string,
  flags: { batch?: string; csv?: boolean; json?: boolean },
  command: Command,
): Promise<void> {
  const { batch } = flags;
  if (batch !== undefined && !uuidForm.test(batch)) command.error('--batch takes a batch’s id.');
  await withEvent(context, id, async (db, _events, event) => {
    if (flags.csv) {
      context.print((await codesFile({ db }, event, batch)).trimEnd());
      return;
    }
    if (batch === undefined) {
      const batches = await listBatches(db, event.eventNo);
      if (flags.json) context.print(JSON.stringify(batches));
      else if (batches.length === 0) context.print(`${id} has no access codes: onsale code create --help`);
      else for (const one of batches) context.print(batchText(one));
      return;
    }
    const codes = await listCodes(db, event.eventNo, { batch, limit: listMax });
    if (flags.json) context.print(JSON.stringify(codes));
    else if (codes.length === 0) context.fail(`${id} has no batch ${batch}.`);
    else for (const one of codes) context.print(codeText(one));
  });
}

async function revokeCommand(
  context: CliContext,
  id: string,
  flags: { batch?: string; code?: string; json?: boolean },
  command: Command,
): Promise<void> {
  const { batch } = flags;
  if ((batch === undefined) === (flags.code === undefined)) command.error('Name either --batch or --code.');
  if (batch !== undefined && !uuidForm.test(batch)) command.error('--batch takes a batch’s id.');
  const code = flags.code === undefined ? undefined : (canonicalCode(flags.code) ?? flags.code);
  await withEvent(context, id, async (db, _events, event) => {
    const revoked = await revokeCodes(db, { event: event.eventNo, actor: cliActor, batch, code });
    if (revoked === null)
      context.fail(`${id} has no ${batch === undefined ? `code ${code}` : `batch ${batch}`}.`);
    else
      context.print(
        flags.json ? JSON.stringify({ revoked }) : `Revoked ${revoked}; orders made before go on.`,
      );
  });
}

function opensText({
  categories,
  kinds,
  presale,
}: Pick<CodeBatch, 'categories' | 'kinds' | 'presale'>): string {
  return [...(presale ? ['presale'] : []), ...categories, ...kinds].join(', ');
}

function usesText({ used, usesMax }: Pick<CodeBatch, 'used' | 'usesMax'>): string {
  return usesMax === null ? counted(used, 'use') : `${used} of ${counted(usesMax, 'use')}`;
}

function batchText(one: CodeBatch): string {
  const uses = usesText(one);
  const revoked = one.revoked > 0 ? `, ${one.revoked} revoked` : '';
  return `${one.batch}  ${counted(one.codes, 'code')}${revoked}  ${uses}  opens ${opensText(one)}  ${one.label}`;
}

function codeText(one: AccessCode): string {
  const uses = usesText(one);
  const state = one.revokedAt === null ? '' : '  revoked';
  return `${one.code}  ${uses}${state}`;
}
