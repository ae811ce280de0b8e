import type { PlanExtras } from '../core/seat-map.ts';
import { planLimits } from '../core/seat-map.ts';
import { type Findings, quoted } from './findings.ts';
import { labelIsFine } from './labels.ts';

export type JsonObject = Record<string, unknown>;

/** No object of the format has more than a dozen keys. */
const keysMax = 200;

const poison = new Set(['__proto__', 'constructor', 'prototype']);

/**
 * Strict reading of foreign JSON: every value is what the format says it is or the file is refused with the path of the
 * place. Reading goes on after a problem, with a harmless value in its stead, so that one try lists all mistakes.
 */
export interface JsonReader {
  object(value: unknown, path: string): JsonObject | null;
  list(value: unknown, path: string, max: number): unknown[];
  text(from: JsonObject, key: string, path: string): string;
  optionalText(from: JsonObject, key: string, path: string): string | null;
  number(from: JsonObject, key: string, path: string): number;
  flag(from: JsonObject, key: string, path: string): boolean | undefined;
  /** `{x, y}`. Returns null after reporting a problem. */
  position(value: unknown, path: string): { x: number; y: number } | null;
  /** Returns the rest of an object without the keys that were understood. A key that is not in `known` causes a warning. */
  extras(
    from: JsonObject,
    understood: ReadonlySet<string>,
    known: ReadonlySet<string>,
    path: string,
  ): PlanExtras | undefined;
}

export function createJsonReader(findings: Findings): JsonReader {
  const wrongType = (path: string, wanted: string, value: unknown): void =>
    findings.refuse('wrong_type', `Expected ${wanted}, found ${described(value)}.`, path);

  const object = (value: unknown, path: string): JsonObject | null => objectOf(value, path, findings);

  const finite = (value: unknown, path: string): number | null => {
    if (typeof value !== 'number') {
      wrongType(path, 'a number', value);
      return null;
    }
    if (!Number.isFinite(value) || Math.abs(value) > planLimits.coordinateMax) {
      findings.refuse(
        'number_out_of_range',
        `A number must be finite and within ±${planLimits.coordinateMax}.`,
        path,
      );
      return null;
    }
    return value;
  };

  const text = (from: JsonObject, key: string, path: string): string => {
    const value = from[key];
    const at = `${path}.${key}`;
    if (typeof value !== 'string') {
      if (value === undefined) findings.refuse('missing_key', `Add the key ${key}, a text.`, at);
      else
        wrongType(
          at,
          typeof value === 'number' ? `a text (write "${value}" in quotes: labels are no numbers)` : 'a text',
          value,
        );
      return '';
    }
    return labelIsFine(value, at, findings) ? value : '';
  };

  return {
    object,
    text,
    list(value, path, max) {
      if (!Array.isArray(value)) {
        wrongType(path, 'a list', value);
        return [];
      }
      if (value.length > max) {
        findings.refuse(
          'too_many',
          `The list has ${value.length} entries; at most ${max} are allowed.`,
          path,
        );
        return [];
      }
      return value;
    },
    optionalText: (from, key, path) =>
      from[key] === undefined || from[key] === null ? null : text(from, key, path),
    number: (from, key, path) => finite(from[key], `${path}.${key}`) ?? 0,
    flag(from, key, path) {
      const value = from[key];
      if (value === undefined || value === null) return undefined;
      if (typeof value === 'boolean') return value;
      wrongType(`${path}.${key}`, 'true or false without quotes', value);
      return undefined;
    },
    position: (value, path) => positionOf(value, path, { object, finite }),
    extras: (from, understood, known, path) => extrasOf(from, understood, known, path, findings),
  };
}

function positionOf(
  value: unknown,
  path: string,
  { object, finite }: { object: JsonReader['object']; finite(value: unknown, path: string): number | null },
): { x: number; y: number } | null {
  const point = object(value, path);
  if (!point) return null;
  const x = finite(point.x, `${path}.x`);
  const y = finite(point.y, `${path}.y`);
  return x === null || y === null ? null : { x, y };
}

function extrasOf(
  from: JsonObject,
  understood: ReadonlySet<string>,
  known: ReadonlySet<string>,
  path: string,
  findings: Findings,
): PlanExtras | undefined {
  let extras: PlanExtras | undefined;
  for (const key of Object.keys(from)) {
    if (understood.has(key)) continue;
    if (!known.has(key)) {
      findings.warn(
        'unknown_key',
        'Keys that are no part of the format are kept for export and otherwise ignored.',
        `${path}.${shownKey(key)}`,
      );
    }
    if (!carryable(from[key], `${path}.${shownKey(key)}`, findings)) continue;
    extras ??= {};
    extras[key] = from[key];
  }
  return extras;
}

function objectOf(value: unknown, path: string, findings: Findings): JsonObject | null {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const keys = Object.keys(value);
    if (keys.length > keysMax) {
      findings.refuse('too_many', `An object has ${keys.length} keys; at most ${keysMax} are allowed.`, path);
      return null;
    }
    if (keys.some((key) => poison.has(key))) {
      findings.refuse(
        'forbidden_key',
        `Remove the keys ${[...poison].join(', ')}: they are no part of a plan.`,
        path,
      );
      return null;
    }
    return value as JsonObject;
  }
  findings.refuse('wrong_type', `Expected an object, found ${described(value)}.`, path);
  return null;
}

function described(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return `the text ${quoted(value)}`;
  if (typeof value === 'object') return 'an object';
  return String(value);
}

function shownKey(key: string): string {
  return /^[A-Za-z_][A-Za-z0-9_-]{0,60}$/.test(key) ? key : `[${quoted(key)}]`;
}

/** Postgres stores neither zero characters nor lone surrogates in JSON. */
function isBroken(text: string): boolean {
  return text.includes('\0') || /\p{Surrogate}/u.test(text);
}

/** Foreign values are stored and written again, so they have to be shallow and free of keys that change objects. */
function carryable(value: unknown, path: string, findings: Findings): boolean {
  if (typeof value === 'string' && !/[\p{Cc}\p{Surrogate}]/u.test(value)) return true;
  if (value === null || typeof value === 'boolean') return true;
  const stack: [value: unknown, depth: number][] = [[value, 1]];
  for (let top = stack.pop(); top; top = stack.pop()) {
    const [item, depth] = top;
    if (typeof item === 'number' && !Number.isFinite(item)) {
      findings.refuse('number_out_of_range', 'A number must be finite.', path);
      return false;
    }
    if (typeof item === 'string' && isBroken(item)) {
      findings.refuse('unprintable_text', 'A text has a zero character or broken Unicode; remove it.', path);
      return false;
    }
    if (typeof item !== 'object' || item === null) continue;
    if (depth > planLimits.extrasDepthMax) {
      findings.refuse(
        'too_deep',
        `Foreign values may be nested ${planLimits.extrasDepthMax} levels deep.`,
        path,
      );
      return false;
    }
    for (const [key, inner] of Object.entries(item)) {
      if (poison.has(key) || isBroken(key)) {
        findings.refuse('forbidden_key', `Remove the key ${quoted(key)}: it is no part of a plan.`, path);
        return false;
      }
      stack.push([inner, depth + 1]);
    }
  }
  return true;
}

/** A plan of the largest size has about 500,000 objects; more than this would only fill the memory. */
const bracketsMax = 4_000_000;

/**
 * Looks at the brackets before the text is parsed: absurd nesting and masses of objects are refused before any become real.
 * Answers false after refusing.
 */
export function structureIsFine(text: string, findings: Findings): boolean {
  let depth = 0;
  let opened = 0;
  let inText = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (inText) {
      if (c === 0x5c) i += 1;
      else if (c === 0x22) inText = false;
    } else if (c === 0x22) inText = true;
    else if (c === 0x7b || c === 0x5b) {
      depth += 1;
      opened += 1;
      if (opened > bracketsMax) {
        findings.refuse('too_many', 'The file has far more objects than a plan of the largest size.', '$');
        return false;
      }
      if (depth > planLimits.jsonDepthMax) {
        const line = text.slice(0, i).split('\n').length;
        findings.refuse(
          'too_deep',
          `The file nests deeper than ${planLimits.jsonDepthMax} levels; no plan does.`,
          `line ${line}`,
        );
        return false;
      }
    } else if (c === 0x7d || c === 0x5d) depth -= 1;
  }
  return true;
}
