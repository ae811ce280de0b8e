import { decimalOf } from '../core/money.ts';

/**
 * How a column's values are written.
 * `text`: words of people (or of the payment provider), never trusted. `ours`: ids and words of our own. `number`: a whole one.
 * `money`: minor units; a column with the same sum as a decimal number follows. `time`: epoch ms, written as ISO 8601 in UTC.
 * `flag`: yes or no; true or false in JSON.
 */
export type ColumnForm = 'text' | 'ours' | 'number' | 'money' | 'time' | 'flag';

/** Name as in CSV (`created_at`; JSON has `createdAt`) and form. Names are stable: others' programs read them. */
export type Column = readonly [name: string, form: ColumnForm];

/** Keyed by column name. `currency` (ISO 4217) is present if a column is money. */
export type ExportRow = Readonly<Record<string, string | number | boolean | null>>;

export const exportFormats = ['csv', 'json', 'ndjson'] as const;
export type ExportFormat = (typeof exportFormats)[number];

export interface ExportForm {
  head: string;
  row(row: ExportRow, isFirst: boolean): string;
  tail: string;
}

/** Tells Excel that the file is UTF-8; other programs skip it, or are asked to be spared it. */
const byteOrderMark = '\ufeff';

export function exportForm(
  format: ExportFormat,
  columns: readonly Column[],
  options: { byteOrderMark?: boolean } = {},
): ExportForm {
  if (format === 'csv') return csvForm(columns, options.byteOrderMark ?? true);
  const text = (row: ExportRow): string => JSON.stringify(jsonRow(columns, row));
  if (format === 'ndjson') return { head: '', row: (row) => `${text(row)}\n`, tail: '' };
  return { head: '[', row: (row, isFirst) => `${isFirst ? '\n' : ',\n'}${text(row)}`, tail: '\n]\n' };
}

/** RFC 4180: fields with a comma, a quote or a line break in quotes, lines end with CR LF. */
function csvForm(columns: readonly Column[], withMark: boolean): ExportForm {
  const names = columns.flatMap(([name, form]) => (form === 'money' ? [name, `${name}_decimal`] : [name]));
  return {
    head: `${withMark ? byteOrderMark : ''}${names.join(',')}\r\n`,
    row: (row) => `${columns.map((column) => csvCells(column, row)).join(',')}\r\n`,
    tail: '',
  };
}

function csvCells([name, form]: Column, row: ExportRow): string {
  const value = row[name] ?? null;
  if (form === 'money') return value === null ? ',' : `${value},${decimalOf(Number(value), currencyIn(row))}`;
  if (value === null) return '';
  if (form === 'time') return iso(value);
  if (form === 'flag') return value ? 'yes' : 'no';
  return quoted(form === 'text' ? harmless(String(value)) : String(value));
}

function quoted(text: string): string {
  return /[",\r\n;\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * Spreadsheets run what begins with = + - @ (their full-width forms too), also after a tab or a line break: an apostrophe before
 * it makes it text. So does one inside the cell, after what other settings take for the end of a cell (`;`, tab, line break):
 * there quotes that do not begin a cell quote nothing. Source: OWASP, CSV Injection.
 */
export function harmless(text: string): string {
  const inside = text.replace(/([;\t\r\n])(?=[ \u00a0"]*[=+\-@＝＋－＠])/g, "$1'");
  return /^(?:[\t\r\n]|[ \u00a0"]*[=+\-@＝＋－＠])/.test(inside) ? `'${inside}` : inside;
}

function jsonRow(columns: readonly Column[], row: ExportRow): ExportRow {
  return Object.fromEntries(
    columns.flatMap(([name, form]): [string, ExportRow[string]][] => {
      const key = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
      const value = row[name] ?? null;
      if (form === 'time') return [[key, value === null ? null : iso(value)]];
      if (form !== 'money') return [[key, value]];
      const decimal = value === null ? null : decimalOf(Number(value), currencyIn(row));
      return [
        [key, value],
        [`${key}Decimal`, decimal],
      ];
    }),
  );
}

const iso = (value: string | number | boolean): string => new Date(Number(value)).toISOString();
const currencyIn = (row: ExportRow): string => String(row.currency);
