import type { EventNo } from '../core/hold.ts';
import { assert } from '../core/outcome.ts';
import { canonicalCode } from '../core/prices.ts';
import type { Db } from '../postgres/db.ts';
import type { Random } from '../runtime/random.ts';

/** Access codes of an event; the steps are in functions/codes.sql. Times are epoch ms. */

export interface AccessCode {
  id: string;
  /** In its one form, see `canonicalCode`. */
  code: string;
  /** The codes that were created together, and their name for people. */
  batch: string;
  label: string;
  categories: string[];
  kinds: string[];
  presale: boolean;
  /** Number of orders. Null means any number. */
  usesMax: number | null;
  /** Seats of one order. Null means no limit beyond the event's own. */
  seatsMax: number | null;
  /** Orders that were not ended unpaid. */
  used: number;
  until: number | null;
  revokedAt: number | null;
  createdAt: number;
}

export const codeLimits = {
  /** Codes of one batch. */
  codesMax: 10_000,
  labelMax: 100,
  usesMax: 1_000_000,
  /**
   * Characters of a generated code, without its prefix. With 8 there are 31^8 = 8.5e11: at the rate that http/access-codes.ts
   * allows one address, one of 10,000 codes is found in years. docs/operating/prices-and-codes.md has the arithmetic.
   */
  length: { min: 8, usual: 10, max: 20 },
} as const;

/** No letters or digits that are taken for one another. */
const alphabet = 'ABCDEFGHJKMNPQRSTUVWXYZ23456789';

/** Makes `count` codes, all different, each beginning with the prefix (in canonical form, may be empty). */
export function generateCodes(random: Random, count: number, length: number, prefix = ''): string[] {
  const created = new Set<string>();
  // 31^8 is far more than a batch, so that a code that is there already is rare and this ends.
  assert(length >= codeLimits.length.min && count <= codeLimits.codesMax, 'codes that do not run out');
  while (created.size < count) {
    const letters = Array.from({ length }, () => alphabet[random.int(alphabet.length)]);
    created.add(prefix + letters.join(''));
  }
  return [...created];
}

export interface CreateCodesCommand {
  event: EventNo;
  actor: string;
  batch: string;
  label: string;
  codes: { code: string; usesMax: number | null }[];
  categories: string[];
  kinds: string[];
  presale: boolean;
  seatsMax: number | null;
  until: number | null;
}
/** `exists`: the event has these already; nothing was made. */
export type CreateCodesOutcome = { kind: 'created' } | { kind: 'exists'; codes: string[] };

/** Makes a batch, all codes or none. */
export async function createCodes(db: Db, command: CreateCodesCommand): Promise<CreateCodesOutcome> {
  const { codes } = command;
  assert(codes.length > 0 && codes.length <= codeLimits.codesMax, `a batch of ${codes.length} codes`);
  assert(
    codes.every(({ code }) => canonicalCode(code) === code),
    'codes in their one form',
  );
  const rows = await db.query<{ result: CreateCodesOutcome }>(
    'access_codes_create',
    `SELECT access_codes_create($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, to_timestamp($11::float8 / 1000)) AS result`,
    [
      command.event,
      command.actor,
      command.batch,
      command.label,
      codes.map(({ code }) => code),
      codes.map(({ usesMax }) => usesMax),
      command.categories,
      command.kinds,
      command.presale,
      command.seatsMax,
      command.until,
    ],
  );
  return rows[0]!.result;
}

/** Returns how many were revoked by this call. Null if there is no such code. Orders that were made with them continue. */
export async function revokeCodes(
  db: Db,
  command: { event: EventNo; actor: string; batch?: string; code?: string },
): Promise<number | null> {
  assert(command.batch !== undefined || command.code !== undefined, 'a batch or a code');
  const rows = await db.query<{ count: number | null }>(
    'access_codes_revoke',
    'SELECT access_codes_revoke($1, $2, $3, $4) AS count',
    [command.event, command.actor, command.batch ?? null, command.code ?? null],
  );
  return rows[0]!.count;
}

export interface CodeBatch {
  batch: string;
  label: string;
  categories: string[];
  kinds: string[];
  presale: boolean;
  codes: number;
  revoked: number;
  /** Orders that its codes allow. Null means any number. */
  usesMax: number | null;
  used: number;
  seatsMax: number | null;
  until: number | null;
  createdAt: number;
}

/** Newest first. */
export async function listBatches(db: Db, event: EventNo): Promise<CodeBatch[]> {
  return db.query<CodeBatch>(
    'access_code_batches',
    `SELECT batch, min(label) AS label, categories, kinds, presale, count(*)::integer AS codes,
       count(revoked_at)::integer AS revoked,
       CASE WHEN count(*) = count(uses_max) THEN sum(uses_max)::bigint END AS "usesMax",
       (coalesce(sum(c.used), 0) + (SELECT count(*) FROM orders o JOIN access_codes any_uses ON any_uses.code_id = o.access_code
          WHERE any_uses.event_no = $1 AND any_uses.batch = c.batch AND any_uses.uses_max IS NULL
            AND order_uses_code(o)))::bigint AS used,
       seats_max AS "seatsMax", until, min(created_at) AS "createdAt"
     FROM access_codes c WHERE event_no = $1
     GROUP BY batch, categories, kinds, presale, seats_max, until
     ORDER BY min(created_at) DESC, batch LIMIT 1000`,
    [event],
  );
}

/** Sorted by code, from the one after `after` on. */
export async function listCodes(
  db: Db,
  event: EventNo,
  wanted: { batch?: string; after?: string; limit: number },
): Promise<AccessCode[]> {
  const rows = await db.query<{ result: AccessCode }>(
    'access_codes_list',
    `SELECT access_code_json(c) AS result FROM access_codes c
     WHERE event_no = $1 AND ($2::uuid IS NULL OR batch = $2) AND code > $3 ORDER BY code LIMIT $4`,
    [event, wanted.batch ?? null, wanted.after ?? '', wanted.limit],
  );
  return rows.map(({ result }) => result);
}

/** The rights of a code at the moment of a look-up. The reserve that uses it decides. */
export interface CodeLook {
  id: string;
  code: string;
  categories: string[];
  kinds: string[];
  presale: boolean;
  seatsMax: number | null;
  /** Null if it can be used. */
  refusal: 'ended' | 'used_up' | null;
}

/** `code` in its canonical form. Null if the event has no such code. */
export async function lookAtCode(db: Db, event: EventNo, code: string): Promise<CodeLook | null> {
  const rows = await db.query<CodeLook>(
    'access_code_look',
    `SELECT code_id AS id, code, categories, kinds, presale, seats_max AS "seatsMax",
       CASE WHEN revoked_at IS NOT NULL OR until <= clock_timestamp() THEN 'ended'
            WHEN used >= uses_max THEN 'used_up' END AS refusal
     FROM access_codes WHERE event_no = $1 AND code = $2`,
    [event, code],
  );
  return rows[0] ?? null;
}

// ---- As CSV ----

const csvColumns = [
  'code',
  'label',
  'categories',
  'kinds',
  'presale',
  'uses',
  'used',
  'seats',
  'until',
  'revoked',
];

export const codesCsvHeader = `${csvColumns.join(',')}\r\n`;

export function codesCsv(codes: readonly AccessCode[]): string {
  const at = (ms: number | null) => (ms === null ? '' : new Date(ms).toISOString());
  return codes
    .map((one) =>
      [
        one.code,
        one.label,
        one.categories.join('; '),
        one.kinds.join('; '),
        one.presale ? 'yes' : '',
        one.usesMax === null ? '' : String(one.usesMax),
        String(one.used),
        one.seatsMax === null ? '' : String(one.seatsMax),
        at(one.until),
        at(one.revokedAt),
      ]
        .map(cell)
        .join(','),
    )
    .map((line) => `${line}\r\n`)
    .join('');
}

/** A cell that a spreadsheet takes for text: quoted where it has to be, and never a formula. */
function cell(text: string): string {
  const plain = /^[\s\u{feff}]*[=+\-@\t\r\u{ff1d}\u{ff0b}\u{ff0d}\u{ff20}]/u.test(text) ? `'${text}` : text;
  return /[",\r\n;']/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

/** Codes of an import: the first column is the code, a second one (if it is there) how many orders may use it. */
export type CodesRead =
  | { kind: 'read'; codes: { code: string; usesMax: number | null }[] }
  /** `line` counts from 1. */
  | { kind: 'refused'; line: number; sentence: string };

/** `rows`: of a CSV file, cell by cell. `usesMax`: of codes whose row says nothing. */
export function readCodes(rows: readonly (readonly string[])[], usesMax: number | null): CodesRead {
  const codes: { code: string; usesMax: number | null }[] = [];
  const seen = new Set<string>();
  const header = rows[0]?.map((name) => name.trim().toLowerCase()) ?? [];
  const hasHeader = header.includes('code');
  const codeAt = hasHeader ? header.indexOf('code') : 0;
  const usesAt = hasHeader ? header.indexOf('uses') : 1;
  for (const [index, row] of rows.entries()) {
    const text = row[codeAt]?.trim() ?? '';
    if ((hasHeader && index === 0) || row.every((one) => one.trim() === '')) continue;
    const line = index + 1;
    const code = canonicalCode(text);
    if (code === null) return { kind: 'refused', line, sentence: codeRule };
    if (seen.has(code)) return { kind: 'refused', line, sentence: `${code} is there twice.` };
    seen.add(code);
    const uses = row[usesAt]?.trim() ?? '';
    const count = uses === '' ? usesMax : Number(uses);
    if (count !== null && !(Number.isInteger(count) && count >= 1 && count <= codeLimits.usesMax)) {
      return { kind: 'refused', line, sentence: `How many orders may use it is 1 to ${codeLimits.usesMax}.` };
    }
    codes.push({ code, usesMax: count });
  }
  if (codes.length === 0) return { kind: 'refused', line: 1, sentence: 'There is no code in it.' };
  if (codes.length > codeLimits.codesMax) {
    return { kind: 'refused', line: rows.length, sentence: `At most ${codeLimits.codesMax} codes at once.` };
  }
  return { kind: 'read', codes };
}

export const codeRule = 'A code is 4 to 40 letters and digits; spaces and dashes do not count.';
