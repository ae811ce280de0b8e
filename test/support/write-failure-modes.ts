import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { FAULT_KINDS } from '../../payment-simulator/fault-kinds.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import {
  END_WORDS,
  ENDS,
  type Entry,
  endOf,
  type FaultName,
  LIVES,
  MAIL_FAULTS,
  STEPS,
  type Step,
} from './saga-matrix.ts';

const file = path.join(projectDir, 'docs/reference/failure-modes.md');

/** docs/reference/failure-modes.md as it stands, and as the table of the matrix makes it. */
export function failureModes(): { before: string; now: string } {
  const before = existsSync(file) ? readFileSync(file, 'utf8') : '';
  return { before, now: [head(), ...STEPS.map(section), faults()].join('\n') };
}

function head(): string {
  const ends = Object.entries(END_WORDS).map(([name, words]) => `| ${name} | ${words} |`);
  return `# How a purchase ends when something fails

Each step of a purchase under each fault that the payment simulator knows, in a process that lives, is killed (-9) just before the
step's call, or just after it, before anything of its answer was written down. Made from the table in
\`test/support/saga-matrix.ts\` by \`node --import tsx test/support/write-failure-modes.ts\`; \`test/services/saga-matrix.test.ts\`
plays every cell against the simulator's process and a real Postgres, and compares seats, order, mail and the simulator's ledger
with this page. A fault lasts until the step was tried and checked again; then the provider works again, what is due is
driven, and the buyer comes back to an order that waits for them (unless a row says that they stay away, so that the deadline passes).

While the result of a payment is unknown, its order keeps its seats, however long that lasts (P4).

| end | order, seats, payment, mail |
|---|---|
${ends.join('\n')}
`;
}

function section(step: Step): string {
  const rows = Object.entries(step.entries).map(([fault, given]) => {
    const entry: Entry = typeof given === 'string' ? { end: given } : given;
    const cell = { step, fault: fault as FaultName, entry, seat: 0 };
    const away = entry.buyer ? ' (the buyer stays away)' : '';
    const ends = LIVES.map((life) => endOf(cell, life)).join(' | ');
    return `| ${fault === 'none' ? 'no fault' : `\`${fault}\``}${away} | ${ends} |`;
  });
  const left = Object.keys(FAULT_KINDS).filter((fault) => !Object.hasOwn(step.entries, fault));
  const others = left.length === Object.keys(FAULT_KINDS).length ? '' : `\n\n${names(left)}`;
  return `## ${step.title}

${step.story} Killed around \`${step.killedAt}\`.

| fault | the process lives | killed before | killed after |
|---|---|---|---|
${rows.join('\n')}

${step.elsewhere}${others}
`;
}

const names = (faults: string[]): string => `Not here: ${faults.map((fault) => `\`${fault}\``).join(', ')}.`;

function faults(): string {
  const rows = [
    ...Object.entries(FAULT_KINDS).map(([name, { says }]) => [name, says]),
    ...Object.entries(MAIL_FAULTS),
  ].map(([name, says]) => `| \`${name}\` | ${says} |`);
  return `## The faults

| fault | what happens |
|---|---|
${rows.join('\n')}
`;
}

/** Ends that no cell has, which the document would describe needlessly. */
export function unusedEnds(): string[] {
  const used = new Set(
    STEPS.flatMap((step) =>
      Object.values(step.entries).flatMap((entry) =>
        typeof entry === 'string' ? [entry] : [entry.end, entry.killedBefore, entry.killedAfter],
      ),
    ),
  );
  return Object.keys(ENDS).filter((end) => !used.has(end as never));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { before, now } = failureModes();
  if (before !== now) writeFileSync(file, now);
}
