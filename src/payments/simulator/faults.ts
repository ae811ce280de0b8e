import type { Clock } from '../../runtime/clock.ts';
import type { Random } from '../../runtime/random.ts';

/**
 * Fault switches. One table says what each kind does at the points that a request or a webhook passes; the server asks
 * for the verdict there and knows no kind by name. A fault is switched on for what it matches, a number of times or at
 * a rate, and lives in memory only: a restarted simulator is healthy.
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
  /** Of webhooks: the event's type. */
  event?: string;
}

export interface FaultSwitch {
  match: FaultMatch;
  fault: FaultKind;
  /** For the kinds that wait. */
  delayMs: number;
  /** How often it still strikes; null: always. */
  times: number | null;
  /** Chance of striking, 0 to 1. */
  rate: number;
  /** For `webhook_duplicate`: deliveries in all. */
  copies: number;
}

/** What the request or webhook is about, as far as it is known at that point. */
export type FaultSubject = { [K in keyof FaultMatch]: string | undefined };

interface Kind {
  about: 'request' | 'webhook';
  /** Before anything is done, and before the key is looked at. */
  arrive?: Verdict;
  /** In place of the answer that was worked out; the key remembers the replacement. */
  replace?: 'server_error';
  /** After everything is done and stored, on the way back to the caller. */
  leave?: Verdict;
  deliver?: 'hold' | 'duplicate' | 'delay';
}

export type Verdict = 'wait' | 'drop' | 'server_error' | 'rate_limit';

export const FAULT_KINDS = {
  /** Does the work, answers late; the key stays in use until then. */
  delay: { about: 'request', leave: 'wait' },
  /** Does the work late. */
  delay_before: { about: 'request', arrive: 'wait' },
  /** Does the work and closes the connection without an answer. */
  drop_after: { about: 'request', leave: 'drop' },
  /** Closes the connection without doing anything. */
  drop_before: { about: 'request', arrive: 'drop' },
  /** Does the work, answers 500, and replays the 500 under the same key for ever. */
  error_500_after: { about: 'request', replace: 'server_error' },
  /** Answers 500 without doing or remembering anything. */
  error_500_before: { about: 'request', arrive: 'server_error' },
  /** 429, nothing done, nothing remembered. */
  rate_limit: { about: 'request', arrive: 'rate_limit' },
  /** Keeps webhooks until they are released. */
  webhook_hold: { about: 'webhook', deliver: 'hold' },
  /** Delivers each webhook `copies` times. */
  webhook_duplicate: { about: 'webhook', deliver: 'duplicate' },
  /** Delivers after `delayMs`, so that later ones overtake it. */
  webhook_delay: { about: 'webhook', deliver: 'delay' },
} as const satisfies Record<string, Kind>;

export interface Faults {
  add(fault: FaultSwitch): void;
  clear(): void;
  list(): FaultSwitch[];
  /** Those that strike this request now; each is counted once. */
  strike(about: Kind['about'], subject: FaultSubject): Struck;
}

export interface Struck {
  arrive(): Promise<Verdict | null>;
  leave(): Promise<Verdict | null>;
  replace(): boolean;
  delivery(): { hold: boolean; copies: number; delayMs: number };
}

/** `signal` ends all waiting when the simulator stops. */
export function createFaults(deps: { clock: Clock; random: Random; signal: AbortSignal }): Faults {
  let switches: FaultSwitch[] = [];

  const strikes = (fault: FaultSwitch): boolean => {
    if (fault.rate < 1 && deps.random.int(1_000_000) >= fault.rate * 1_000_000) return false;
    if (fault.times === null) return true;
    fault.times -= 1;
    if (fault.times <= 0) switches = switches.filter((other) => other !== fault);
    return true;
  };

  return {
    add: (fault) => switches.push(fault),
    clear: () => {
      switches = [];
    },
    list: () => [...switches],
    strike: (about, subject) => {
      const struck = switches.filter(
        (fault) =>
          FAULT_KINDS[fault.fault].about === about && matches(fault.match, subject) && strikes(fault),
      );
      return verdicts(struck, (ms) => deps.clock.sleep(ms, deps.signal));
    },
  };
}

function verdicts(struck: FaultSwitch[], sleep: (ms: number) => Promise<void>): Struck {
  const kinds = struck.map((fault) => ({ fault, kind: FAULT_KINDS[fault.fault] as Kind }));
  const at = async (point: 'arrive' | 'leave'): Promise<Verdict | null> => {
    let final: Verdict | null = null;
    for (const { fault, kind } of kinds) {
      const verdict = kind[point];
      if (verdict === 'wait') await sleep(fault.delayMs);
      else if (verdict) final = verdict;
    }
    return final;
  };
  return {
    arrive: () => at('arrive'),
    leave: () => at('leave'),
    replace: () => kinds.some(({ kind }) => kind.replace === 'server_error'),
    delivery: () => ({
      hold: kinds.some(({ kind }) => kind.deliver === 'hold'),
      copies: Math.max(
        1,
        ...kinds.filter(({ kind }) => kind.deliver === 'duplicate').map(({ fault }) => fault.copies),
      ),
      delayMs: kinds
        .filter(({ kind }) => kind.deliver === 'delay')
        .reduce((sum, { fault }) => sum + fault.delayMs, 0),
    }),
  };
}

function matches(match: FaultMatch, subject: FaultSubject): boolean {
  const { route, card, ...exact } = match;
  if (route !== undefined && subject.route !== route && subject.route?.split('.').at(-1) !== route)
    return false;
  if (card !== undefined && subject.card !== card.replace(/^pm_card_/, '')) return false;
  return Object.entries(exact).every(
    ([name, wanted]) => wanted === undefined || subject[name as keyof FaultSubject] === wanted,
  );
}

const MATCH_FIELDS = ['route', 'card', 'key', 'intent', 'reference', 'event'];
const DELAY_MS_MAX = 600_000;

/** A switch from JSON, or the sentence that says what is wrong with it. */
export function parseFault(input: unknown): FaultSwitch | string {
  if (typeof input !== 'object' || input === null) return 'expected an object';
  const given = input as Record<string, unknown>;
  const unknown = Object.keys(given).find(
    (name) => !['match', 'fault', 'delayMs', 'times', 'rate', 'copies'].includes(name),
  );
  if (unknown) return `unknown field ${unknown}`;
  if (typeof given.fault !== 'string' || !Object.hasOwn(FAULT_KINDS, given.fault)) {
    return `fault must be one of ${Object.keys(FAULT_KINDS).join(', ')}`;
  }
  const match = (given.match ?? {}) as Record<string, unknown>;
  for (const [name, value] of Object.entries(match)) {
    if (!MATCH_FIELDS.includes(name) || typeof value !== 'string') {
      return `match takes texts named ${MATCH_FIELDS.join(', ')}`;
    }
  }
  const delayMs = number(given.delayMs, 1000, 0, DELAY_MS_MAX);
  const copies = number(given.copies, 2, 1, 100);
  const rate = number(given.rate, 1, 0, 1);
  const times = given.times === undefined ? null : number(given.times, 1, 1, 1_000_000);
  if (delayMs === null || copies === null || rate === null || (given.times !== undefined && times === null)) {
    return `delayMs is 0 to ${DELAY_MS_MAX}, copies 1 to 100, rate 0 to 1, times from 1`;
  }
  return { match: match as FaultMatch, fault: given.fault as FaultKind, delayMs, copies, rate, times };
}

function number(given: unknown, otherwise: number, least: number, most: number): number | null {
  if (given === undefined) return otherwise;
  return typeof given === 'number' && given >= least && given <= most ? given : null;
}
