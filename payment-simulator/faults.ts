import type { Clock } from '../src/runtime/clock.ts';
import type { Random } from '../src/runtime/random.ts';
import { kindOfCard } from './cards.ts';
import { FAULT_KINDS, type Kind, type Manner, type Verdict } from './fault-kinds.ts';

/**
 * Fault switches. The table of `fault-kinds.ts` says what each kind does at the points that a request, a page or a
 * webhook passes; the server asks for the verdict there and knows no kind by name. A fault is switched on for what it
 * matches, a number of times, at a rate or for a while, and lives in memory only: a restarted simulator is healthy.
 */
export type FaultKind = keyof typeof FAULT_KINDS;

export interface FaultMatch {
  /** A route's name, such as `payment_intents.capture`, or its last word. */
  route?: string;
  /** A test card's name, with or without `pm_card_`. */
  card?: string;
  /** The idempotency key. */
  key?: string;
  /** The payment intent's id. */
  intent?: string;
  /** Our reference in its metadata. */
  reference?: string;
  /** For webhooks: the event's type. */
  event?: string;
}

export interface FaultSwitch {
  match: FaultMatch;
  fault: FaultKind;
  /** For the kinds that wait, ms. */
  delayMs: number;
  /** The number of strikes that are left. Null means always. */
  times: number | null;
  /** Chance of striking, 0 to 1. */
  rate: number;
  /** For `webhook_duplicate`: deliveries in all. */
  copies: number;
  /** Time that it stays on, ms. Null means until it is switched off. */
  forMs: number | null;
}

export interface FaultOn extends FaultSwitch {
  id: string;
  /** Epoch ms at which it goes off by itself. */
  until: number | null;
}

/** The subject of the request, page or webhook, as far as it is known at that point. */
export type FaultSubject = { [K in keyof FaultMatch]: string | undefined };

type About = Exclude<Kind['about'], 'all'>;

export interface Faults {
  /** Switches it on and returns its id. */
  add(fault: FaultSwitch): string;
  /** False when there is none of that id any more. */
  remove(id: string): boolean;
  clear(): void;
  list(): FaultOn[];
  /** How often each kind has struck since the start. */
  struck(): Partial<Record<FaultKind, number>>;
  /** Returns the faults that strike this request now; each is counted once. */
  strike(about: About, subject: FaultSubject): Struck;
}

export interface Struck {
  arrive(): Promise<Verdict | null>;
  manner(): Manner;
  replace(): Kind['replace'] | null;
  /** `told` resolves once the webhooks of the request have been tried. */
  leave(sent?: Promise<void>): Promise<Verdict | null>;
  headers(): Record<string, string>;
  delivery(): DeliveryOrder;
}

export interface DeliveryOrder {
  hold: boolean;
  never: boolean;
  copies: number;
  delayMs: number;
  /** Maximum time in ms to wait for another one to overtake it. Null if it does not wait. */
  overtakenWithinMs: number | null;
}

/** Longest wait for webhooks before the answer that they are to precede. */
const TOLD_MS_MAX = 5_000;

/** `signal` ends all waiting when the simulator stops. */
export function createFaults(deps: { clock: Clock; random: Random; signal: AbortSignal }): Faults {
  const { clock, random, signal } = deps;
  const struckOf = new Map<FaultKind, number>();
  let switches: FaultOn[] = [];
  let added = 0;

  const live = (): FaultOn[] => {
    const now = clock.now();
    switches = switches.filter((fault) => fault.until === null || fault.until > now);
    return switches;
  };

  const remove = (id: string): boolean => {
    const before = live().length;
    switches = switches.filter((fault) => fault.id !== id);
    return switches.length < before;
  };

  const strikes = (fault: FaultOn): boolean => {
    if (fault.rate < 1 && random.int(1_000_000) >= fault.rate * 1_000_000) return false;
    struckOf.set(fault.fault, (struckOf.get(fault.fault) ?? 0) + 1);
    if (fault.times === null) return true;
    fault.times -= 1;
    if (fault.times <= 0) remove(fault.id);
    return true;
  };

  return {
    add: (fault) => {
      added += 1;
      const id = `fault_${added}`;
      switches.push({ ...fault, id, until: fault.forMs === null ? null : clock.now() + fault.forMs });
      return id;
    },
    remove,
    clear: () => {
      switches = [];
    },
    list: () => live().map((fault) => ({ ...fault })),
    struck: () => Object.fromEntries(struckOf),
    strike: (about, subject) => {
      const struck = live().filter(
        (fault) =>
          concerns(FAULT_KINDS[fault.fault], about, subject) &&
          matches(fault.match, subject) &&
          strikes(fault),
      );
      return verdicts(struck, clock, signal);
    },
  };
}

function concerns(kind: Kind, about: About, subject: FaultSubject): boolean {
  if (kind.about !== 'all' && kind.about !== about) return false;
  return kind.routes === undefined || kind.routes.includes(subject.route ?? '');
}

function verdicts(struck: FaultOn[], clock: Clock, signal: AbortSignal): Struck {
  const kinds = struck.map((fault) => ({ fault, kind: FAULT_KINDS[fault.fault] as Kind }));
  const at = async (point: 'arrive' | 'leave', sent: Promise<void>): Promise<Verdict | null> => {
    let final: Verdict | null = null;
    for (const { fault, kind } of kinds) {
      const verdict = kind[point];
      if (verdict === 'wait') await clock.sleep(fault.delayMs, signal);
      else if (verdict === 'after_webhooks') await atMost(sent, TOLD_MS_MAX, clock);
      else if (verdict) final = verdict;
    }
    return final;
  };
  return {
    arrive: () => at('arrive', Promise.resolve()),
    manner: () =>
      Object.assign({}, ...kinds.map(({ fault, kind }) => kind.manner?.(fault.delayMs))) as Manner,
    replace: () => kinds.find(({ kind }) => kind.replace)?.kind.replace ?? null,
    leave: (sent) => at('leave', sent ?? Promise.resolve()),
    headers: () => Object.assign({}, ...kinds.map(({ kind }) => kind.headers)) as Record<string, string>,
    delivery: () => deliveryOrder(kinds, clock.now()),
  };
}

function deliveryOrder(kinds: { fault: FaultOn; kind: Kind }[], now: number): DeliveryOrder {
  const order: DeliveryOrder = {
    hold: false,
    never: false,
    copies: 1,
    delayMs: 0,
    overtakenWithinMs: null,
  };
  for (const { fault, kind } of kinds) {
    if (kind.deliver === 'hold') order.hold = true;
    if (kind.deliver === 'never') order.never = true;
    if (kind.deliver === 'duplicate') order.copies = Math.max(order.copies, fault.copies);
    if (kind.deliver === 'delay') order.delayMs += fault.delayMs;
    if (kind.deliver === 'until_over') order.delayMs += Math.max(0, (fault.until ?? now) - now);
    if (kind.deliver === 'overtake') order.overtakenWithinMs = fault.delayMs;
  }
  return order;
}

function atMost(wait: Promise<void>, ms: number, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(ms, resolve);
    void wait.then(() => {
      cancel();
      resolve();
    });
  });
}

function matches(match: FaultMatch, subject: FaultSubject): boolean {
  const { route, card, ...exact } = match;
  if (route !== undefined && subject.route !== route && subject.route?.split('.').at(-1) !== route)
    return false;
  if (card !== undefined) {
    const { card: used = '' } = subject;
    const wanted = card.replace(/^pm_card_/, '');
    if (used !== wanted && kindOfCard(used) !== wanted) return false;
  }
  return Object.entries(exact).every(
    ([name, wanted]) => wanted === undefined || subject[name as keyof FaultSubject] === wanted,
  );
}

export const MATCH_FIELDS = ['route', 'card', 'key', 'intent', 'reference', 'event'] as const;
const FIELDS = ['match', 'fault', 'delayMs', 'times', 'rate', 'copies', 'forMs'];
const MS_MAX = 3_600_000;

/** A switch from JSON, or the sentence that says what is wrong with it. */
export function parseFault(input: unknown): FaultSwitch | string {
  if (typeof input !== 'object' || input === null) return 'expected an object';
  const given = input as Record<string, unknown>;
  const unknown = Object.keys(given).find((name) => !FIELDS.includes(name));
  if (unknown) return `unknown field ${unknown}`;
  if (typeof given.fault !== 'string' || !Object.hasOwn(FAULT_KINDS, given.fault)) {
    return `fault must be one of ${Object.keys(FAULT_KINDS).join(', ')}`;
  }
  const kind: Kind = FAULT_KINDS[given.fault as FaultKind];
  const match = (given.match ?? {}) as Record<string, unknown>;
  for (const [name, value] of Object.entries(match)) {
    if (!(MATCH_FIELDS as readonly string[]).includes(name) || typeof value !== 'string') {
      return `match takes texts named ${MATCH_FIELDS.join(', ')}`;
    }
  }
  const delayMs = number(given.delayMs, kind.delayMs ?? 1000, 0, MS_MAX);
  const copies = number(given.copies, 2, 1, 100);
  const rate = number(given.rate, 1, 0, 1);
  const times = number(given.times, null, 1, 1_000_000);
  const forMs = number(given.forMs, kind.forMs ?? null, 1, MS_MAX);
  if (delayMs === 'wrong' || copies === 'wrong' || rate === 'wrong' || times === 'wrong' || forMs === 'wrong')
    return `delayMs is 0 to ${MS_MAX}, forMs 1 to ${MS_MAX}, copies 1 to 100, rate 0 to 1, times from 1`;
  return {
    match: match as FaultMatch,
    fault: given.fault as FaultKind,
    delayMs,
    copies,
    rate,
    times,
    forMs,
  };
}

function number<O extends number | null>(
  given: unknown,
  otherwise: O,
  least: number,
  most: number,
): number | O | 'wrong' {
  if (given === undefined || given === null) return otherwise;
  return typeof given === 'number' && given >= least && given <= most ? given : 'wrong';
}

/** A switch as the page's form sends it: empty fields are left out. */
export function faultFromForm(form: URLSearchParams): FaultSwitch | string {
  const match: Record<string, string> = {};
  for (const name of MATCH_FIELDS) {
    const value = form.get(name)?.trim();
    if (value) match[name] = value;
  }
  const given: Record<string, unknown> = { fault: form.get('fault'), match };
  for (const name of ['delayMs', 'times', 'rate', 'copies', 'forMs']) {
    const value = form.get(name)?.trim();
    if (value) given[name] = Number(value);
  }
  return parseFault(given);
}
