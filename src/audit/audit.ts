import { counted } from '../core/counted.ts';
import type { EventId, EventNo } from '../core/hold.ts';
import type { Db } from '../postgres/db.ts';
import {
  type AuditedEvent,
  type AuditedPromise,
  type AuditSources,
  audited,
  type Comparison,
  type Looked,
  type Violation,
} from './audit-sources.ts';
import { findContradictions, type RecordCheck } from './check.ts';
import { type AuditFacts, auditableEvents, readFacts, seatNames } from './facts.ts';
import { compareHeld } from './held.ts';
import { compareMoney } from './money.ts';
import { compareNumbers } from './numbers.ts';
import { amountChecks, limitChecks, purchaseChecks } from './orders.ts';
import { lineChecks } from './queue.ts';
import { leaseChecks, ownerChecks, stateChecks } from './seats.ts';

export interface PromiseFinding {
  promise: AuditedPromise;
  /** `partly`: kept as far as could be looked. */
  state: 'kept' | 'partly' | 'broken' | 'not_checked';
  /** The things that were compared, with counts. */
  evidence: string[];
  /** The things that could not be compared, and why. */
  unchecked: string[];
  /** The first `violationsListedMax`. */
  violations: Violation[];
  violationCount: number;
}

export interface AuditReport {
  event: EventId;
  facts: AuditFacts;
  /** Nothing is under way; see `facts.transit`. */
  atRest: boolean;
  promises: PromiseFinding[];
  violations: number;
  /** Stores that had to be read and could not be, and why: nothing is proved about what is in them. */
  unread: string[];
}

export const violationsListedMax = 20;
/** S8: what one store decided reaches the other within this long. Milliseconds. */
const settleMs = 5_000;
const lookAgainMs = 1_000;
/** A store that comes and goes is not waited for longer than that many times `settleMs`. */
const rewaitsMax = 4;

const recordChecks: readonly RecordCheck[] = [
  ...ownerChecks,
  ...leaseChecks,
  ...stateChecks,
  ...purchaseChecks,
  ...limitChecks,
  ...amountChecks,
  ...lineChecks,
];

/** All published events, or the one named. */
export async function eventsToAudit(db: Db, only: EventId | null): Promise<AuditedEvent[]> {
  return (await auditableEvents(db)).filter(({ id }) => only === null || id === only);
}

export async function auditEvent(
  sources: AuditSources,
  event: AuditedEvent,
  onProgress: (line: string) => void = () => {},
): Promise<AuditReport> {
  const facts = await readFacts(sources.db, event.event);
  const tally = createFindings();
  onProgress(`${event.id}: the record, ${recordChecks.length} questions …`);
  for (const check of recordChecks) {
    const found = await findContradictions(sources.db, check, event.event, violationsListedMax);
    tally.looked({ promise: promiseOf(check), evidence: check.looks });
    const violations = found.rows.map((row): Violation => {
      const key = `${check.name} ${row.seat ?? row.order ?? row.hold ?? row.says}`;
      return { promise: promiseOf(check), key, remedy: check.remedy, ...row };
    });
    tally.violated(violations, found.total - found.rows.length);
  }
  onProgress(`${event.id}: the arbiter beside the record, ${facts.seats} seats …`);
  const held = await twice(sources, () => compareHeld(sources, event));
  tally.compared(held);
  const numbers = await twice(sources, () => compareNumbers(sources, event));
  tally.compared(numbers);
  onProgress(`${event.id}: the payment provider beside the record, ${facts.orders} orders …`);
  tally.compared(await twice(sources, () => compareMoney(sources, event)));
  tally.looked({ promise: 'W6', unchecked: 'there is no public log yet' });
  const promises = tally.findings(facts);
  await nameSeats(sources.db, event.event, promises);
  return {
    event: event.id,
    facts,
    atRest: isAtRest(facts),
    promises,
    violations: promises.reduce((sum, { violationCount }) => sum + violationCount, 0),
    unread: [...held.unread, ...numbers.unread],
  };
}

/** Whether nothing is half done. Live holds and unpaid orders wait for people, not for us. */
export function isAtRest({ transit }: AuditFacts): boolean {
  return transit.halfway + transit.operations + transit.partitions + transit.overdue === 0;
}

/** Until the event is at rest, or `waitMs` are over. */
export async function waitForRest(sources: AuditSources, event: EventNo, waitMs: number): Promise<void> {
  const { db, clock } = sources;
  const end = clock.monotonic() + waitMs;
  while (!isAtRest(await readFacts(db, event)) && clock.monotonic() < end) await clock.sleep(250);
}

/**
 * Compares again while something does not fit or does not respond: a difference that moves on was in transit, one that stays is
 * a contradiction. A store that begins to respond has been read only once, so the wait starts again.
 */
async function twice(sources: AuditSources, compare: () => Promise<Comparison>): Promise<Comparison> {
  const { clock, redisHolds, numbers } = sources;
  // Without a connection to Redis it is useless to wait for its answer.
  const mayAnswer = redisHolds !== null && numbers !== null;
  const isOpen = ({ violations, unread }: Comparison): boolean =>
    violations.length > 0 || (mayAnswer && unread.length > 0);
  let found = await compare();
  const last = clock.monotonic() + settleMs * rewaitsMax;
  let end = clock.monotonic() + settleMs;
  while (isOpen(found) && clock.monotonic() < Math.min(end, last)) {
    await clock.sleep(lookAgainMs);
    const again = await compare();
    if (again.unread.length < found.unread.length) {
      found = again;
      end = clock.monotonic() + settleMs;
      continue;
    }
    const before = new Set(found.violations.map(({ promise, key }) => promise + key));
    found = {
      ...again,
      violations: again.violations.filter(({ promise, key }) => before.has(promise + key)),
    };
  }
  return found;
}

function promiseOf(check: RecordCheck): AuditedPromise {
  return check.promise as AuditedPromise;
}

interface Findings {
  looked(what: Looked): void;
  /** `more`: of the same kind, that are not listed. */
  violated(violations: readonly Violation[], more?: number): void;
  compared(comparison: Comparison): void;
  findings(facts: AuditFacts): PromiseFinding[];
}

function createFindings(): Findings {
  const byPromise = new Map(
    audited.map((promise): [AuditedPromise, PromiseFinding] => [
      promise,
      { promise, state: 'kept', evidence: [], unchecked: [], violations: [], violationCount: 0 },
    ]),
  );
  const looked = ({ promise, evidence, unchecked }: Looked): void => {
    const finding = byPromise.get(promise)!;
    if (evidence !== undefined) finding.evidence.push(evidence);
    if (unchecked !== undefined) finding.unchecked.push(unchecked);
  };
  const violated = (violations: readonly Violation[], more = 0): void => {
    for (const violation of violations) {
      const finding = byPromise.get(violation.promise)!;
      finding.violationCount += 1;
      if (finding.violations.length < violationsListedMax) finding.violations.push(violation);
    }
    if (violations[0]) byPromise.get(violations[0].promise)!.violationCount += more;
  };
  return {
    looked,
    violated,
    compared: (comparison) => {
      comparison.looked.forEach(looked);
      violated(comparison.violations);
    },
    findings: (facts) =>
      [...byPromise.values()].map((finding) => {
        const counts = countsOf(finding.promise, facts);
        if (finding.evidence.length > 0) finding.evidence.unshift(counts);
        return { ...finding, state: stateOf(finding) };
      }),
  };
}

function stateOf({ violationCount, evidence, unchecked }: PromiseFinding): PromiseFinding['state'] {
  if (violationCount > 0) return 'broken';
  if (evidence.length === 0) return 'not_checked';
  return unchecked.length > 0 ? 'partly' : 'kept';
}

/** Returns the counts that the promise was checked on. */
function countsOf(promise: AuditedPromise, facts: AuditFacts): string {
  if (promise.startsWith('W'))
    return `${counted(facts.numbers, 'number')}, ${counted(facts.passes, 'pass', 'passes')}`;
  if (promise === 'P7') return `${counted(facts.accounts, 'account')}, ${counted(facts.orders, 'order')}`;
  if (promise.startsWith('P')) {
    return `${counted(facts.orders, 'order')}, ${counted(facts.paid, 'of them paid', 'of them paid')}, ${counted(facts.operations, 'money operation')}`;
  }
  return `${counted(facts.seats, 'seat')}, ${counted(facts.tickets, 'ticket')}, ${counted(facts.liveHolds, 'live hold')} in Postgres`;
}

async function nameSeats(db: Db, event: EventNo, promises: readonly PromiseFinding[]): Promise<void> {
  const all = promises.flatMap(({ violations }) => violations);
  const seats = [...new Set(all.flatMap(({ seat }) => (seat === null ? [] : [seat])))];
  if (seats.length === 0) return;
  const names = await seatNames(db, event, seats);
  for (const violation of all) {
    const name = violation.seat === null ? undefined : names.get(violation.seat);
    if (name) violation.says = `${name}: ${violation.says}`;
  }
}
