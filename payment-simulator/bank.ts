import type { Clock } from '../src/runtime/clock.ts';
import type { Random } from '../src/runtime/random.ts';
import type { Manner } from './fault-kinds.ts';
import type { ChargeRow, IntentRow, MethodRow, Rows } from './rows.ts';
import type { State, Table } from './state.ts';

/** The tools of every operation. Operations are synchronous: one request's changes are one line of the journal. */
export interface Bank {
  readonly state: State;
  readonly publicUrl: string;
  /** How the bank takes the operation under way, where a fault says so. */
  manner(): Manner;
  /** Epoch seconds. */
  now(): number;
  /** A new id such as `pi_3fT…`. */
  id(prefix: string): string;
  /** Records an event about `object`; it is delivered once the journal has it. */
  emit(type: string, intent: string | null, object: unknown): void;
}

/** Facts about the request being executed: the names in its events, and the effects of its faults. */
export interface RequestMark {
  requestId: string | null;
  key: string | null;
  manner: Manner;
}

const ID_ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export function createBank(deps: {
  state: State;
  clock: Clock;
  random: Random;
  publicUrl: string;
  mark: RequestMark;
  /** Whether events of a type are delivered; the others are only kept for reading. */
  subscribed(type: string): boolean;
}): Bank {
  const { state, clock, random, mark } = deps;
  const now = (): number => Math.floor(clock.now() / 1000);
  const id = (prefix: string): string => {
    let text = '';
    for (let i = 0; i < 24; i++) text += ID_ALPHABET[random.int(ID_ALPHABET.length)];
    return `${prefix}_${text}`;
  };
  return {
    state,
    publicUrl: deps.publicUrl,
    manner: () => mark.manner,
    now,
    id,
    emit: (type, intent, object) =>
      state.put('events', {
        id: id('evt'),
        created: now(),
        type,
        intent,
        object,
        requestId: mark.requestId,
        key: mark.key,
        delivered: !deps.subscribed(type),
      }),
  };
}

export function find<T extends Table>(bank: Bank, table: T, id: string): Rows[T] | undefined {
  return (bank.state.tables[table] as Map<string, Rows[T]>).get(id);
}

/** Stores a new version of a row and returns it. */
export function change<T extends Table>(
  bank: Bank,
  table: T,
  row: Rows[T],
  fields: Partial<Rows[T]>,
): Rows[T] {
  const next = { ...row, ...fields };
  bank.state.put(table, next);
  return next;
}

export function chargeOf(bank: Bank, intent: IntentRow): ChargeRow | undefined {
  return intent.latestCharge ? find(bank, 'charges', intent.latestCharge) : undefined;
}

export function methodOf(bank: Bank, id: string): MethodRow {
  const method = find(bank, 'methods', id);
  if (!method) throw new Error(`the ledger refers to ${id}, which it does not hold`);
  return method;
}
