import { readFile, writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { listPlans, loadPlan, savePlan } from '../catalogue/plans.ts';
import { counted } from '../core/counted.ts';
import type { PlanProblem, PlanReport, PlanWarning } from '../core/plan-report.ts';
import { exportPretix } from '../plans/export-pretix.ts';
import { generateStadium } from '../plans/generate.ts';
import { importPlan } from '../plans/import-plan.ts';
import { parseMapping } from '../plans/mapping-text.ts';
import type { CliContext } from './context.ts';

interface ImportFlags {
  map?: string;
  name?: string;
  format?: 'pretix' | 'csv';
  dryRun?: boolean;
  json?: boolean;
}

/** `plan import | show | generate`. */
export function registerPlanCommands(program: Command, context: CliContext): void {
  const plan = program.command('plan').description('Seating plans: import, show, generate.');

  plan
    .command('import')
    .description('Import a pretix seating plan (JSON) or a CSV manifest.')
    .argument('<file>', 'the file to read')
    .option('--map <fields>', 'CSV: section=…,row=…,seat=…,x=…,y=… (several columns: section=stand+sector)')
    .option('--name <name>', 'name of the plan instead of the one in the file')
    .option('--format <format>', 'pretix or csv; told from the file when absent')
    .option('--dry-run', 'report only; store nothing')
    .option('--json', 'print JSON')
    .action((file: string, flags: ImportFlags) => importCommand(context, file, flags));

  plan
    .command('show')
    .description('Show a stored plan, or list all.')
    .argument('[plan]', 'id of the plan')
    .option('--export', 'print the plan in the pretix format, with our extra keys')
    .option('--json', 'print JSON')
    .action((id: string | undefined, flags: { export?: boolean; json?: boolean }) =>
      showCommand(context, id, flags),
    );

  plan
    .command('generate')
    .description('Make a demo stadium in the pretix format.')
    .option('--seats <number>', 'how many seats, GA units included', '50000')
    .option('--name <name>', 'name of the stadium', 'Demo Stadium')
    .option('--out <file>', 'write there instead of printing')
    .action(async (flags: { seats: string; name: string; out?: string }) => {
      const seats = Number(flags.seats);
      if (!Number.isInteger(seats) || seats < 100 || seats > 200_000) {
        context.fail('--seats takes a whole number from 100 to 200000.');
        return;
      }
      const json = JSON.stringify(generateStadium({ seats, name: flags.name }));
      if (flags.out === undefined) context.print(json);
      else await writeFile(flags.out, json);
    });
}

async function importCommand(context: CliContext, file: string, flags: ImportFlags): Promise<void> {
  const mapping = flags.map === undefined ? undefined : parseMapping(flags.map);
  if (mapping?.kind === 'invalid') {
    context.fail(`--map: ${mapping.sentence}`);
    return;
  }
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    context.fail(`${file} cannot be read: ${(error as Error).message}`);
    return;
  }
  const steps = { reading: 'Reading the file …', checking: 'Checking the plan …' };
  const options = { name: flags.name, format: flags.format, mapping: mapping?.mapping };
  const outcome = importPlan(bytes, options, (step) => context.progress(steps[step]));
  if (outcome.kind === 'refused') {
    if (flags.json) context.print(JSON.stringify(outcome));
    else printProblems(context, outcome.problems, outcome.problemCount);
    context.fail(`${file} was refused; nothing was stored.`);
    return;
  }
  if (flags.dryRun) {
    context.print(
      flags.json ? JSON.stringify({ dryRun: true, report: outcome.report }) : reportText(outcome.report),
    );
    return;
  }
  const { db } = await context.openDatabase();
  const saved = await savePlan(db, outcome.plan, outcome.report);
  if (flags.json) context.print(JSON.stringify({ ...saved.plan, known: saved.kind === 'known' }));
  else {
    context.print(reportText(outcome.report));
    context.print(`${saved.kind === 'known' ? 'Known already as' : 'Stored as'} ${saved.plan.plan}`);
  }
}

async function showCommand(
  context: CliContext,
  id: string | undefined,
  flags: { export?: boolean; json?: boolean },
): Promise<void> {
  const { db } = await context.openDatabase();
  const plans = await listPlans(db);
  if (id === undefined) {
    if (flags.json) context.print(JSON.stringify(plans));
    else if (plans.length === 0) context.print('No plans yet: onsale plan import FILE');
    else
      for (const plan of plans)
        context.print(`${plan.plan}  ${counted(plan.report.seats, 'seat')}  ${plan.name}`);
    return;
  }
  const plan = await loadPlan(db, id);
  const summary = plans.find((candidate) => candidate.plan === id);
  if (!plan || !summary) {
    context.fail(`There is no plan ${id}; "onsale plan show" lists all.`);
    return;
  }
  if (flags.export) context.print(JSON.stringify(exportPretix(plan), null, 1));
  else context.print(flags.json ? JSON.stringify(summary) : reportText(summary.report));
}

function reportText(report: PlanReport): string {
  const lines = [
    `${report.name}: ${counted(report.seats, 'seat')} (${report.gaUnits} of them general admission), ${counted(report.sections, 'section')}, ${counted(report.rows, 'row')}`,
    ...report.categories.map(({ name, seats }) => `  category ${name}: ${seats}`),
  ];
  for (const warning of report.warnings) {
    lines.push(`  ${warning.beforeSale ? 'settle before the sale: ' : ''}${warningText(warning)}`);
  }
  return lines.join('\n');
}

export function warningText({ sentence, count, places }: PlanWarning): string {
  return `${sentence} (${count}: ${places.join(', ')}${count > places.length ? ', …' : ''})`;
}

function printProblems(context: CliContext, problems: PlanProblem[], count: number): void {
  for (const problem of problems) context.print(`${problem.place}: ${problem.sentence}`);
  if (count > problems.length) context.print(`… and ${count - problems.length} more`);
}
