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

/** Splits CSV text into header and records, with line numbers; answers null after refusing. */
export function readTable(text: string, findings: Findings): ManifestTable | null {
  // Excel writes the separator it used as a first line of its own.
  const stated = /^sep=(.)\r?\n/i.exec(text);
  const body = stated ? text.slice(stated[0].length) : text;
  const skipped = stated ? 1 : 0;
  const delimiter = stated?.[1] ?? guessDelimiter(body);
  const records: ManifestLine[] = [];
  try {
    parse(body, {
      delimiter,
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
      max_record_size: recordCharsMax,
      on_record: (entry: unknown) => {
        const { record, info } = entry as { record: string[]; info: { lines: number } };
        const inside = record.reduce((n, cell) => n + (cell.match(/\r\n|\n|\r/g)?.length ?? 0), 0);
        records.push({ line: info.lines - inside + skipped, cells: record });
        return null;
      },
    });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const last = records.at(-1)?.line ?? skipped;
    findings.refuse(
      'broken_csv',
      `The file is not valid CSV (${error.code}); look at the quotes from this line on.`,
      `line ${last + 1}`,
    );
    return null;
  }
  const header = records.shift();
  if (!header) {
    findings.refuse('empty_file', 'The file is empty.', 'line 1');
    return null;
  }
  return { headers: header.cells.map((cell) => cell.replace(/\s+/g, ' ').trim()), lines: records, delimiter };
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
  return [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best))[1] === 0
    ? ','
    : [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best))[0];
}
