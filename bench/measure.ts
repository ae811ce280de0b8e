/** One measurement of one case, in a run. */
export interface Sample {
  /** The compared quantity: operations a second, bytes, milliseconds. */
  value: number;
  /** Anything else worth keeping from it, for the saved result. */
  detail?: Record<string, number>;
}

/** A case is measured once a run; what it needs is made before and undone after, outside the measured time. */
export interface Case {
  name: string;
  unit: string;
  measure(): Promise<Sample>;
}

/** The target of one case compared with another. */
export interface Comparison {
  case: string;
  /** One name, or several of which the best median counts. */
  baseline: string | string[];
  /** value / baselineValue to reach. Null means for information only. */
  budget: number | null;
  /** For figures of which less is better (bytes, milliseconds): the ratio has to stay at or under the budget. */
  atMost?: boolean;
}

export interface Line {
  bench: string;
  case: string;
  value: number;
  unit: string;
  baseline: string;
  baselineValue: number;
  ratio: number;
  budget: number | null;
  reached: boolean | null;
  runs: number;
}

export interface Spread {
  case: string;
  unit: string;
  median: number;
  lowest: number;
  highest: number;
  values: number[];
  /** Medians of the details. */
  detail: Record<string, number>;
  /** One for each run. */
  details: Record<string, number>[];
}

export interface Measured {
  lines: Line[];
  spreads: Spread[];
}

/** A B C A B C …: what disturbs the machine for a while disturbs all of them. */
export async function interleave(
  cases: readonly Case[],
  runs: number,
  progress: (text: string) => void,
): Promise<Spread[]> {
  const samples = new Map<string, Sample[]>(cases.map((one) => [one.name, []]));
  for (let run = 1; run <= runs; run++) {
    for (const one of cases) {
      const sample = await one.measure();
      samples.get(one.name)!.push(sample);
      const { clientCpuUs, storeCpuUs } = sample.detail ?? {};
      const cpu =
        storeCpuUs === undefined
          ? ''
          : `, CPU us each: client ${figure(clientCpuUs!)}, store ${figure(storeCpuUs)}`;
      progress(`run ${run}/${runs}  ${one.name}: ${figure(sample.value)} ${one.unit}${cpu}`);
    }
  }
  return cases.map(({ name, unit }) => spreadOf(name, unit, samples.get(name)!));
}

export function spreadOf(name: string, unit: string, samples: readonly Sample[]): Spread {
  const values = samples.map((sample) => sample.value);
  const keys = [...new Set(samples.flatMap((sample) => Object.keys(sample.detail ?? {})))];
  return {
    case: name,
    unit,
    median: rounded(median(values)),
    lowest: rounded(Math.min(...values)),
    highest: rounded(Math.max(...values)),
    values: values.map(rounded),
    details: samples.map((sample) => sample.detail ?? {}),
    detail: Object.fromEntries(
      keys.map((key) => [key, rounded(median(samples.map((sample) => sample.detail?.[key] ?? 0)))]),
    ),
  };
}

/**
 * CPU time for one answer, all processes together, as separate cases: these figures vary less on a machine
 * with other load.
 */
export function cpuSpreads(spreads: readonly Spread[], parts: readonly string[]): Spread[] {
  return spreads.map(({ case: name, details }) =>
    spreadOf(
      cpuOf(name),
      'us each',
      details.map((detail) => ({ value: parts.reduce((sum, part) => sum + (detail[part] ?? 0), 0) })),
    ),
  );
}

export const cpuOf = (name: string): string => `${name}: CPU`;

export function compare(
  bench: string,
  spreads: readonly Spread[],
  comparisons: readonly Comparison[],
): Line[] {
  const spread = (name: string): Spread => {
    const found = spreads.find((one) => one.case === name);
    if (!found) throw new Error(`no case ${name} was measured`);
    return found;
  };
  return comparisons.map(({ case: name, baseline, budget, atMost = false }) => {
    const ours = spread(name);
    const candidates = (typeof baseline === 'string' ? [baseline] : baseline).map(spread);
    const best = candidates.reduce((a, b) => (b.median > a.median !== atMost ? b : a));
    const ratio = ours.median / best.median;
    return {
      bench,
      case: name,
      value: ours.median,
      unit: ours.unit,
      baseline: best.case,
      baselineValue: best.median,
      ratio: Math.round(ratio * 100) / 100,
      budget,
      reached: budget === null ? null : atMost ? ratio <= budget : ratio >= budget,
      runs: ours.values.length,
    };
  });
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The value that `share` of them do not exceed. */
export function quantile(values: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted.length === 0 ? 0 : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}

function rounded(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 100) / 100;
}

export function figure(value: number): string {
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en') : String(rounded(value));
}

/** For people; columns as wide as their content. */
export function tableOf(lines: readonly Line[]): string {
  const rows = [
    ['case', 'value', 'unit', 'baseline', 'value', 'ratio', 'budget', ''],
    ...lines.map((line) => [
      line.case,
      figure(line.value),
      line.unit,
      line.baseline,
      figure(line.baselineValue),
      line.ratio.toFixed(2),
      line.budget === null ? '' : String(line.budget),
      line.reached === null ? '' : line.reached ? 'reached' : 'MISSED',
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const numeric = new Set([1, 4, 5, 6]);
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          numeric.has(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
