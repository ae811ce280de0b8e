import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { CsvError, parse } from 'csv-parse/sync';
import { counted } from '../core/counted.ts';
import { createAccessCodes, downloadCodes, listCodes, revokeCodes } from '../operate/codes.ts';
import type { OutputOf } from '../operate/operation.ts';
import { codeLimits, readCodes } from '../orders/access-codes.ts';
import { call } from './call.ts';
import { type CliContext, numeric } from './context.ts';

type CodeBatch = OutputOf<typeof listCodes>['batches'][number];
type AccessCode = OutputOf<typeof listCodes>['codes'][number];

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

/** `onsale code`: the operations of operate/codes.ts. */
export function registerCodeCommands(program: Command, context: CliContext): void {
  const code = program
    .command('code')
    .description('Access codes: they open locked categories and ticket types of an event, and its presale.');
  code
    .command('create')
    .description('Make a batch of codes, all or none; prints them, one a line. It is in the log of actions.')
    .argument('<event>', 'the id in its address')
    .requiredOption('--label <name>', 'the batch’s name, for people')
    .option('--count <codes>', `generate so many, 1 to ${codeLimits.codesMax}`)
    .option(
      '--length <characters>',
      `of a generated code, ${codeLimits.length.min} to ${codeLimits.length.max}`,
    )
    .option('--prefix <text>', 'what each generated code begins with')
    .option('--import <file>', 'your codes from a CSV file: a column "code", perhaps one "uses"')
    .option('--category <name...>', 'locked categories that they open')
    .option('--kind <id...>', 'locked ticket types that they open')
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
    .action((id: string, flags: { batch?: string; csv?: boolean; json?: boolean }) =>
      listCommand(context, id, flags),
    );
  code
    .command('revoke')
    .description(
      'Revoke a batch or a code; orders that were made with them go on. It is in the log of actions.',
    )
    .argument('<event>')
    .option('--batch <batch>')
    .option('--code <code>')
    .option('--json', 'print JSON')
    .action((id: string, flags: { batch?: string; code?: string; json?: boolean }) =>
      revokeCommand(context, id, flags),
    );
}

async function createCommand(
  context: CliContext,
  event: string,
  flags: CreateFlags,
  command: Command,
): Promise<void> {
  const wrong = (sentence: string): never => command.error(sentence);
  if ((flags.count === undefined) === (flags.import === undefined))
    wrong('Either --count, to generate codes, or --import, for codes of your own.');
  const usesMax = flags.uses === 'any' ? null : numeric(flags.uses);
  const given = flags.import === undefined ? undefined : await codesIn(flags.import, usesMax, wrong);
  const generate = given
    ? undefined
    : { count: numeric(flags.count)!, length: numeric(flags.length), prefix: flags.prefix };
  const created = await call(
    context,
    createAccessCodes,
    {
      event,
      label: flags.label,
      categories: flags.category,
      kinds: flags.kind,
      presale: flags.presale,
      usesMax,
      seatsMax: numeric(flags.seatsMax),
      until: flags.until,
      generate,
      codes: given,
    },
    { more: ({ codes }) => (Array.isArray(codes) ? [codes.join(', ')] : []) },
  );
  if (created) context.print(flags.json ? JSON.stringify(created) : created.codes.join('\n'));
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
  event: string,
  flags: { batch?: string; csv?: boolean; json?: boolean },
): Promise<void> {
  const { batch } = flags;
  if (flags.csv) {
    const file = await call(context, downloadCodes, { event, batch });
    if (file !== null) context.print(file.trimEnd());
    return;
  }
  const listed = await call(context, listCodes, { event, batch });
  if (!listed) return;
  if (batch === undefined) {
    const { batches } = listed;
    if (flags.json) context.print(JSON.stringify(batches));
    else if (batches.length === 0) context.print(`${event} has no access codes: onsale code create --help`);
    else for (const one of batches) context.print(batchText(one));
    return;
  }
  const codes = [...listed.codes];
  for (let page = codes; page.length > 0; ) {
    const next = await call(context, listCodes, { event, batch, after: codes.at(-1)!.code });
    page = next?.codes ?? [];
    codes.push(...page);
  }
  if (flags.json) context.print(JSON.stringify(codes));
  else if (codes.length === 0) context.fail(`${event} has no batch ${batch}.`);
  else for (const one of codes) context.print(codeText(one));
}

async function revokeCommand(
  context: CliContext,
  event: string,
  { batch, code, json }: { batch?: string; code?: string; json?: boolean },
): Promise<void> {
  const outcome = await call(context, revokeCodes, { event, batch, code });
  if (outcome)
    context.print(json ? JSON.stringify(outcome) : `Revoked ${outcome.revoked}; orders made before go on.`);
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
