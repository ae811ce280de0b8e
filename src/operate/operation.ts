import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { isEventTime } from '../catalogue/events.ts';
import { linePattern } from '../core/line.ts';
import { type ProblemCode, problem } from '../core/problems.ts';

/**
 * One thing that an organiser can do or see. It is defined once: HTTP registers its route from it, the command line runs the
 * same definition in process, and the console takes its types from the schemas.
 *
 * `params`, `query` and `body` become one input; their names must differ. `run` returns what `output` describes, or throws a
 * Problem with one of `problems`.
 */
export interface Operation<
  Deps = never,
  Params extends TObject = TObject,
  Query extends TObject = TObject,
  Body extends TObject = TObject,
  Output extends TSchema = TSchema,
> {
  /** Unique and stable: clients are generated from it. */
  id: string;
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  /** Below `/api/organiser`, with `:name` for each of `params`. */
  path: string;
  summary: string;
  description?: string;
  params?: Params;
  query?: Query;
  body?: Body;
  /** A request may come without a body. */
  bodyOptional?: true;
  /** The body is a file, whatever its type says (`caller.file`). The request may ask for lines that name each step. */
  upload?: true;
  /** Throws if the request would have to be refused now: called before a large body is read. */
  admit?(deps: Deps): void;
  /** Bytes; 16 KiB unless named. */
  bodyLimit?: number;
  output: Output;
  /** The answer is text of this content type, offered as a file of that name. */
  file?: { type: string; name(input: Static<Params> & Static<Query>): string };
  /** HTTP status of a success; 200 unless named, or set by `caller.status`, which sets one of `statuses`. */
  status?: SuccessStatus;
  statuses?: readonly SuccessStatus[];
  /** A request names an Idempotency-Key: `required`, or required by some inputs (`caller.requestKey` checks). */
  requestKey?: 'required' | 'optional';
  problems: readonly ProblemCode[];
  run(
    deps: Deps,
    input: Static<Params> & Static<Query> & Static<Body>,
    caller: Caller,
  ): Promise<Static<Output>>;
}

export type SuccessStatus = 200 | 201 | 202 | 204;

export interface Caller {
  /** The name in the action log. */
  actor: string;
  /** The Idempotency-Key; throws `idempotency_key_required` without one. */
  requestKey(): string;
  /** Sets the HTTP status of the answer. */
  status(status: SuccessStatus): void;
  /** The uploaded file. Empty if there is none. */
  file: Uint8Array;
  /** Names the step that an upload has reached. */
  progress(step: string): void;
}

type Nothing = TObject<Record<never, TSchema>>;

/** Defines an operation; absent parts take nothing. */
export function operation<
  Deps,
  Output extends TSchema,
  Params extends TObject = Nothing,
  Query extends TObject = Nothing,
  Body extends TObject = Nothing,
>(definition: Operation<Deps, Params, Query, Body, Output>): Operation<Deps, Params, Query, Body, Output> {
  return definition;
}

/** Input of a call. */
export type InputOf<One> =
  One extends Operation<never, infer Params, infer Query, infer Body>
    ? Static<Params> & Static<Query> & Static<Body>
    : never;
/** Result of a successful call, as JSON. */
export type OutputOf<One extends { output: TSchema }> = Static<One['output']>;

// Schemas that several features share.

export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
export const Instant = Type.String({ format: 'date-time', maxLength: 40 });
/** One line that a person can read: no line ends or other control characters, not only blanks. Counts characters. */
export const oneLine = (maxLength: number, options: { description?: string } = {}) =>
  Type.String({ minLength: 1, maxLength, pattern: linePattern, ...options });
export const uuidPattern = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$';
export const currencyPattern = '^[A-Z]{3}$';
export const eventPattern = '^[a-z0-9][a-z0-9-]{0,39}$';
export const EventParams = Type.Object({ event: Type.String({ maxLength: 40 }) });

/** `?flag`, `?flag=true`: values of a query are text. */
export const QueryFlag = Type.Optional(
  Type.Union([Type.Literal('true'), Type.Literal('false'), Type.Literal('')]),
);
export const isSet = (flag: string | undefined): boolean => flag === 'true' || flag === '';

/** Epoch ms. Leap seconds, for one, have a well-formed text and are no instant: refused with the field. */
export function timeOf(field: string, text: string): number {
  const at = Date.parse(text);
  if (isEventTime(at)) return at;
  throw problem('invalid_field', { field, detail: 'This is no time between the years 2000 and 2200.' });
}

/** Epoch ms as ISO 8601. */
export function iso(at: number): string;
export function iso(at: number | null): string | null;
export function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
