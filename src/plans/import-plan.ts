import { type PlanProblem, type PlanReport, reportPlan } from '../core/plan-report.ts';
import { planLimits, type SeatingPlan } from '../core/seat-map.ts';
import { decodeText, type TextEncodingName } from './decode-text.ts';
import { createFindings, type Findings } from './findings.ts';
import { type ManifestMapping, readManifest } from './import-manifest.ts';
import { readPretix } from './import-pretix.ts';
import { labelIsFine } from './labels.ts';
import { checkPlan } from './plan-checks.ts';

export interface ImportOptions {
  /** Told from the first character when absent. */
  format?: 'pretix' | 'csv';
  /** CSV only: which column is what; several columns joined with `+`. Guessed from usual names when absent. */
  mapping?: ManifestMapping;
  /** Overrides the name in the file. */
  name?: string;
  /** For files without a byte order mark whose encoding is known. */
  encoding?: TextEncodingName;
}

export type ImportOutcome =
  | { kind: 'imported'; plan: SeatingPlan; report: PlanReport }
  /** `problems` is capped at `planLimits.problemsListedMax`; `problemCount` counts them all. */
  | { kind: 'refused'; problems: PlanProblem[]; problemCount: number; report?: PlanReport };

/** The current step of an import. Each step takes about a second for 200,000 seats. */
export type ImportStep = 'reading' | 'checking';

/**
 * Reads a venue's file into a plan, or refuses it whole with the list of places to fix. Nothing is stored here; a dry run
 * is this call and its report. Never throws for any bytes. Computes for seconds with a large file.
 */
export function importPlan(
  bytes: Uint8Array,
  options: ImportOptions = {},
  onProgress: (step: ImportStep) => void = () => {},
): ImportOutcome {
  const findings = createFindings();
  onProgress('reading');
  const plan = readPlan(bytes, options, findings);
  onProgress('checking');
  if (plan) checkPlan(plan, findings);
  const report = plan ? reportPlan(plan, findings.warnings()) : undefined;
  if (findings.problemCount() > 0 || !plan || !report) {
    return {
      kind: 'refused',
      problems: findings.problems,
      problemCount: findings.problemCount(),
      ...(report ? { report } : {}),
    };
  }
  return { kind: 'imported', plan, report };
}

function readPlan(bytes: Uint8Array, options: ImportOptions, findings: Findings): SeatingPlan | null {
  if (bytes.length > planLimits.fileBytesMax) {
    const megabytes = planLimits.fileBytesMax / 1024 / 1024;
    findings.refuse('file_too_large', `The file is larger than ${megabytes} MB; split the plan.`, 'line 1');
    return null;
  }
  if (options.name !== undefined && !labelIsFine(options.name, 'name', findings)) return null;
  const format = options.format;
  const text = decodeText(bytes, findings, { encoding: options.encoding, fallback: format !== 'pretix' });
  if (text === null) return null;
  if (text.trim() === '') {
    findings.refuse('empty_file', 'The file is empty.', 'line 1');
    return null;
  }
  if ((format ?? guessFormat(text)) === 'pretix') return readPretix(text, findings, options.name);
  return readManifest(text, findings, { mapping: options.mapping, name: options.name });
}

function guessFormat(text: string): 'pretix' | 'csv' {
  return /^\s*[{[]/.test(text.slice(0, 200)) ? 'pretix' : 'csv';
}
