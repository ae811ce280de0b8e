import type { ScenarioName } from './scenarios.ts';

/** One stored round: a line of JSON. Durations in milliseconds. Null means that it did not happen. */
export interface RoundFigures {
  round: number;
  scenario: ScenarioName;
  seed: number;
  buyers: number;
  seats: number;
  live: number;
  recovered: number;
  lost: number;
  lostOthers: number;
  why: Record<string, number>;
  lostTrails: string[];
  /** As the row of the partition says it. */
  reason: string | null;
  /** From the blow to the row's change. */
  degradeMs: number | null;
  /** From the blow to the first hold that was granted afterwards. */
  holdAgainMs: number | null;
  /** From the repair of Redis until it arbitrates again. */
  restoreMs: number | null;
  /** The longest time of refused grants after grace: that of the move back. */
  refusedMs: number;
  /** The longest time between two grants after grace, slow answers included. */
  quietMs: number;
  /** Time for which the row said `moving`. Null if it was too short to be seen. */
  movingMs: number | null;
  /** As `refusedMs`, in a partition whose server was well, from the blow on. */
  othersRefusedMs: number | null;
  probes: number;
  probeFaults: string[];
  moves: string[];
  ends: Record<string, number>;
  requests: number;
  /** Answers 503 to the crowd, each of which was followed. */
  busy: number;
  retried: number;
  refusedTaken: number;
  /** Answers from 500 on, 503 left out. */
  errors: number;
  faults: string[];
  bought: number;
  lostSales: number;
  doubleSales: number;
  chargesWithoutTickets: number;
  violations: { promise: string; says: string }[];
  problems: string[];
  tookMs: number;
}

export interface RoundResult extends RoundFigures {
  /** Promises of a degrade that this round missed; see `targets`. */
  missed: string[];
}

export const targets = { recoveredShareMin: 0.99, degradeMsMax: 2_000, refusedMsMax: 1_000 } as const;

/** Checks the conditions that must hold, and the targets. */
export function judged(figures: RoundFigures): RoundResult {
  const { live, recovered, degradeMs, refusedMs, othersRefusedMs } = figures;
  const problems = [...figures.problems];
  const wrong: [number, string][] = [
    [figures.doubleSales, 'double sales'],
    [figures.lostSales, 'lost sales'],
    [figures.chargesWithoutTickets, 'charges without tickets'],
    [figures.violations.length, 'contradictions in the audit'],
    [figures.errors, 'errors (5xx)'],
    [figures.faults.length, 'unexpected answers'],
    [figures.probeFaults.length, "unexpected answers to the prober's holds"],
  ];
  for (const [count, what] of wrong) if (count > 0) problems.push(`${count} ${what}`);
  const missed: string[] = [];
  if (live > 0 && recovered / live < targets.recoveredShareMin) {
    missed.push(`${figures.lost} of ${live} holds lost`);
  }
  if (degradeMs !== null && degradeMs > targets.degradeMsMax) missed.push(`degraded after ${degradeMs} ms`);
  if (refusedMs >= targets.refusedMsMax) missed.push(`grants refused for ${refusedMs} ms in the restore`);
  if ((othersRefusedMs ?? 0) >= targets.refusedMsMax) {
    missed.push(`grants refused for ${othersRefusedMs} ms in a partition that was well`);
  }
  return { ...figures, problems, missed };
}

/** A round that could not be played to its end counts too, with the reason as its problem. */
export function brokenOff(
  identity: Pick<RoundFigures, 'round' | 'scenario' | 'seed' | 'buyers' | 'seats'>,
  reason: string,
): RoundResult {
  return {
    ...identity,
    live: 0,
    recovered: 0,
    lost: 0,
    lostOthers: 0,
    why: {},
    lostTrails: [],
    reason: null,
    degradeMs: null,
    holdAgainMs: null,
    restoreMs: null,
    refusedMs: 0,
    quietMs: 0,
    movingMs: null,
    othersRefusedMs: null,
    probes: 0,
    probeFaults: [],
    moves: [],
    ends: {},
    requests: 0,
    busy: 0,
    retried: 0,
    refusedTaken: 0,
    errors: 0,
    faults: [],
    bought: 0,
    lostSales: 0,
    doubleSales: 0,
    chargesWithoutTickets: 0,
    violations: [],
    problems: [`broken off: ${reason}`],
    tookMs: 0,
    missed: [],
  };
}

export function roundLine(result: RoundResult): string {
  const { round, scenario, live, recovered, degradeMs, holdAgainMs, restoreMs, refusedMs } = result;
  const seconds = (ms: number | null): string => (ms === null ? 'never' : `${(ms / 1_000).toFixed(1)} s`);
  const why = Object.entries(result.why).map(([code, count]) => `${code} ${count}`);
  return [
    `round ${round} ${scenario}: ${recovered} of ${live} holds recovered${why.length > 0 ? ` (lost: ${why.join(', ')})` : ''}, degraded after ${seconds(degradeMs)}, hold again after ${seconds(holdAgainMs)}, restored after ${seconds(restoreMs)}, refused in it ${refusedMs} ms, quiet ${result.quietMs} ms`,
    `  ${result.bought} bought, ${result.requests} requests, ${result.busy} answered "not now", ${result.errors} errors, ${Math.round(result.tookMs / 1_000)} s`,
    ...result.problems.map((problem) => `  ! ${problem}`),
    ...result.violations.slice(0, 5).map(({ promise, says }) => `    ${promise} ${says}`),
    ...result.faults.slice(0, 5).map((fault) => `    ${fault}`),
    ...result.lostTrails.map((trail) => `    lost: ${trail}`),
    ...result.missed.map((what) => `  - ${what}`),
  ].join('\n');
}

const columns: [string, (result: RoundResult) => number | null][] = [
  ['degrade', ({ degradeMs }) => degradeMs],
  ['hold again', ({ holdAgainMs }) => holdAgainMs],
  ['restore', ({ restoreMs }) => restoreMs],
  ['refused', ({ refusedMs }) => refusedMs],
  ['quiet', ({ quietMs }) => quietMs],
];

/** Per scenario: medians, and the worst in brackets. */
export function summaryTable(results: readonly RoundResult[]): string {
  const sum = (list: readonly RoundResult[], of: (result: RoundResult) => number): number =>
    list.reduce((total, each) => total + of(each), 0);
  const rows = [...new Set(results.map(({ scenario }) => scenario))].map((scenario) => {
    const list = results.filter((each) => each.scenario === scenario);
    const live = sum(list, (each) => each.live);
    const lost = sum(list, (each) => each.lost);
    return [
      scenario,
      `${list.length}`,
      `${live}`,
      live > 0 ? `${((100 * (live - lost)) / live).toFixed(2)} %` : '-',
      ...columns.map(([, of]) => medianAndWorst(list.map(of))),
      `${sum(list, (each) => each.errors + each.faults.length)}`,
      `${sum(list, (each) => each.doubleSales)}/${sum(list, (each) => each.lostSales)}/${sum(list, (each) => each.chargesWithoutTickets)}`,
      `${sum(list, (each) => each.problems.length)}`,
    ];
  });
  const heads = [
    'scenario',
    'rounds',
    'holds',
    'recovered',
    ...columns.map(([head]) => head),
    '5xx',
    'double/lost/charged',
    'problems',
  ];
  const widths = heads.map((head, i) => Math.max(head.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd();
  return [
    line(heads),
    ...rows.map(line),
    '',
    'Times in ms: median (worst). In the restore, "refused": the longest time of refused holds; "quiet": between two grants.',
  ].join('\n');
}

function medianAndWorst(values: readonly (number | null)[]): string {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (known.length === 0) return 'never';
  const never = values.length - known.length;
  return `${known[Math.floor((known.length - 1) / 2)]} (${known.at(-1)})${never > 0 ? ` +${never} never` : ''}`;
}
