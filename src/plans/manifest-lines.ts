import { CsvError, parse } from 'csv-parse/sync';
import type { Findings } from './findings.ts';

export interface ManifestLine {
  /** Where the record begins in the file, from 1. */
  line: number;
  cells: string[];
}

export interface ManifestTable {
  headers: string[];
  lines: ManifestLine[];
  delimiter: string;
}

/** One record longer than this is a quote that was never closed. */
const recordCharsMax = 64 * 1024;
/** Bounds of what is parsed at all, well above the largest plan, so that no file fills the memory. */
const linesMax = 500_000;
const cellsMax = 10_000_000;
const headersMax = 200;

/** Splits CSV text into header and records, with line numbers. Returns null after reporting a problem. */
export function readTable(text: string, findings: Findings): ManifestTable | null {
  // Excel writes the separator it used as a first line of its own.
  const stated = /^sep=(.)\r?\n/i.exec(text);
  const body = stated ? text.slice(stated[0].length) : text;
  const skipped = stated ? 1 : 0;
  const delimiter = stated?.[1] ?? guessDelimiter(body);
  if (!sizeIsFine(body, delimiter, findings)) return null;
  let raw: string[][];
  try {
    // No `info` and no `on_record`: either makes the parser three times slower, and lines can be counted here.
    raw = parse(body, { delimiter, relax_column_count: true, max_record_size: recordCharsMax });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const line = Number((error as { lines?: unknown }).lines ?? 1) + skipped;
    findings.refuse(
      'broken_csv',
      `The file is not valid CSV (${error.code}); look at the quotes at and before this line.`,
      `line ${line}`,
    );
    return null;
  }
  let line = 1 + skipped;
  const records = raw.map((cells): ManifestLine => {
    const record = { line, cells };
    line += 1 + cells.reduce((n, cell) => n + lineBreaks(cell), 0);
    return record;
  });
  while (records[0]?.cells.every((cell) => cell.trim() === '')) records.shift();
  const header = records.shift();
  if (!header) {
    findings.refuse('empty_file', 'The file is empty.', 'line 1');
    return null;
  }
  if (header.cells.length > headersMax) {
    findings.refuse('too_many', `The header has more than ${headersMax} columns.`, `line ${header.line}`);
    return null;
  }
  return { headers: header.cells.map((cell) => cell.replace(/\s+/g, ' ').trim()), lines: records, delimiter };
}

function sizeIsFine(text: string, delimiter: string, findings: Findings): boolean {
  const separator = delimiter.charCodeAt(0);
  let lines = 1;
  let cells = 0;
  let begin = 0;
  for (let i = 0; i <= text.length; i++) {
    const c = i < text.length ? text.charCodeAt(i) : 0x0a;
    if (c === separator) cells += 1;
    if (c !== 0x0a && c !== 0x0d) continue;
    if (i - begin > recordCharsMax) {
      findings.refuse(
        'line_too_long',
        `A line is longer than ${recordCharsMax} characters.`,
        `line ${lines}`,
      );
      return false;
    }
    begin = i + 1;
    if (c === 0x0a) lines += 1;
  }
  if (lines <= linesMax && cells <= cellsMax) return true;
  findings.refuse(
    'too_many',
    `The file has more than ${linesMax} lines or ${cellsMax} cells.`,
    `line ${linesMax}`,
  );
  return false;
}

function lineBreaks(cell: string): number {
  return cell.includes('\n') || cell.includes('\r') ? cell.split(/\r\n|\n|\r/).length - 1 : 0;
}

/** The candidate that stands most often in the header outside quotes; German spreadsheets write semicolons. */
function guessDelimiter(text: string): string {
  const counts = new Map([
    [';', 0],
    ['\t', 0],
    [',', 0],
    ['|', 0],
  ]);
  let quoted = false;
  for (let i = 0; i < Math.min(text.length, 10_000); i++) {
    const c = text[i]!;
    if (c === '"') quoted = !quoted;
    else if (quoted) continue;
    else if (c === '\n' || c === '\r') break;
    else if (counts.has(c)) counts.set(c, counts.get(c)! + 1);
  }
  const [best, times] = [...counts].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
  return times === 0 ? ',' : best;
}
