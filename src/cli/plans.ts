import { readFile, writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { loadPlan } from '../catalogue/plans.ts';
import { counted } from '../core/counted.ts';
import type { PlanProblem, PlanReport, PlanWarning } from '../core/plan-report.ts';
import { unknownPlan } from '../operate/event-of.ts';
import { importPlan, listPlans } from '../operate/plans.ts';
import { exportPretix } from '../plans/export-pretix.ts';
import { generateStadium } from '../plans/generate.ts';
import { call } from './call.ts';
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
      if (!Number.isInteger(seats) || seats < 100 || seats > 200_000)
        return context.fail('--seats takes a whole number from 100 to 200000.');
      const json = JSON.stringify(generateStadium({ seats, name: flags.name }));
      if (flags.out === undefined) context.print(json);
      else await writeFile(flags.out, json);
    });
}

const steps: Record<string, string> = {
  reading: 'Reading the file …',
  checking: 'Checking the plan …',
  storing: 'Storing the plan …',
};

async function importCommand(context: CliContext, path: string, flags: ImportFlags): Promise<void> {
  const { name, format, map, json } = flags;
  let file: Buffer;
  try {
    file = await readFile(path);
  } catch (error) {
    return context.fail(`${path} cannot be read: ${(error as Error).message}`);
  }
  const dryRun = flags.dryRun ? 'true' : 'false';
  const outcome = await call(
    context,
    importPlan,
    { dryRun, name, format, map },
    {
      file,
      onProgress: (step) => context.progress(steps[step] ?? step),
      more: (refusal) => {
        if (json) context.print(JSON.stringify(refusal));
        const { problems = [] } = refusal as { problems?: PlanProblem[] };
        return problems.map(({ place, sentence }) => `  ${place}: ${sentence}`);
      },
    },
  );
  if (!outcome) return;
  if (json) return context.print(JSON.stringify(outcome));
  context.print(reportText(outcome.report));
  if (!('dryRun' in outcome))
    context.print(`${outcome.known ? 'Known already as' : 'Stored as'} ${outcome.plan}`);
}

async function showCommand(
  context: CliContext,
  id: string | undefined,
  flags: { export?: boolean; json?: boolean },
): Promise<void> {
  if (id !== undefined && flags.export) return exportCommand(context, id);
  const { plans } = (await call(context, listPlans, {})) ?? { plans: [] };
  if (id === undefined) {
    if (flags.json) context.print(JSON.stringify(plans));
    else if (plans.length === 0) context.print('No plans yet: onsale plan import FILE');
    else
      for (const plan of plans)
        context.print(`${plan.plan}  ${counted(plan.report.seats, 'seat')}  ${plan.name}`);
    return;
  }
  const plan = plans.find((candidate) => candidate.plan === id);
  if (!plan) return context.fail(unknownPlan(id).message);
  context.print(flags.json ? JSON.stringify(plan) : reportText(plan.report));
}

async function exportCommand(context: CliContext, id: string): Promise<void> {
  const { db } = await context.openDatabase();
  const plan = await loadPlan(db, id);
  if (plan) context.print(JSON.stringify(exportPretix(plan), null, 1));
  else context.fail(unknownPlan(id).message);
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
