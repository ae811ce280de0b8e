import { counted } from '../core/counted.ts';
import { decimalOf } from '../core/money.ts';
import { dueSum } from '../core/money-due.ts';
import { installationOf } from '../postgres/installation.ts';
import type {
  AuditedEvent,
  AuditedPromise,
  AuditSources,
  Comparison,
  MoneySource,
  PaymentSeen,
  Violation,
} from './audit-sources.ts';
import { type AuditedOrder, auditedOrders, knownOrders } from './facts.ts';

const pageSize = 5_000;
const besideProvider: readonly AuditedPromise[] = ['P1', 'P2', 'P3', 'P4', 'P5', 'P6', 'P8'];

/** Compares the record with the provider, order by order (P1 to P6, P8). */
export async function compareMoney(sources: AuditSources, event: AuditedEvent): Promise<Comparison> {
  const { money, db } = sources;
  if (money.kind === 'none') {
    const unchecked = `the provider's side: ${money.why}`;
    return { looked: besideProvider.map((promise) => ({ promise, unchecked })), violations: [], unread: [] };
  }
  // Before the orders: a payment of an order made meanwhile is not looked for.
  const installation = await installationOf(db);
  const read = money.kind === 'ledger' ? (await money.read()).filter((seen) => isOf(seen, event)) : [];
  const all = read.filter((seen) => !isOfOthers(seen, installation));
  const byOrder = new Map<string, PaymentSeen[]>();
  const byObject = new Map(all.map((seen) => [seen.object, seen]));
  const claimed = new Set<string>();
  for (const seen of all) {
    const reference = seen.reference ?? '';
    const others = byOrder.get(reference);
    if (others) others.push(seen);
    else byOrder.set(reference, [seen]);
  }
  const violations: Violation[] = [];
  const sums = { settled: 0, due: 0, owed: 0, standing: 0, looked: 0, orders: 0 };
  for (let after: string | null = null; ; ) {
    const page = await auditedOrders(db, event.event, after, pageSize);
    for (const order of page) {
      sums.orders += 1;
      const seen = await seenOf(money, order, byOrder, sums.looked);
      if (seen === null) continue;
      // Payments of ours whose reference was changed at the provider.
      for (const object of order.objects) {
        claimed.add(object);
        const renamed = byObject.get(object);
        if (renamed && !seen.includes(renamed)) seen.push(renamed);
      }
      sums.looked += 1;
      violations.push(...judge(order, seen));
      sums.standing += seen.reduce((sum, { captured, refunded }) => sum + captured - refunded, 0);
      if (!isSettled(order)) continue;
      sums.settled += 1;
      sums.due += dueOf(order);
      sums.owed += order.notGivenBack + order.accepted;
    }
    if (page.length < pageSize) break;
    after = page.at(-1)!.order;
  }
  violations.push(...(await strangers(sources, byOrder, claimed)));
  const others = read.length - all.length;
  const foreign = others > 0 ? `; ${counted(others, 'payment')} of others ignored` : '';
  const evidence = `${counted(sums.looked, 'order')} beside ${money.name}; ${sums.settled} settled, ${decimalOf(sums.due, event.currency)} ${event.currency} due, ${decimalOf(sums.standing, event.currency)} captured and kept, ${decimalOf(sums.owed, event.currency)} of refunds that failed or were made by other means${foreign}`;
  const unseen = sums.orders - sums.looked;
  return {
    violations,
    unread: [],
    looked: besideProvider.flatMap((promise) => [
      { promise, evidence },
      ...(unseen > 0
        ? [
            {
              promise,
              unchecked: `${unseen} of ${sums.orders} orders: their payments were not looked up at ${money.name}`,
            },
          ]
        : []),
      ...(money.kind === 'lookups' && promise === 'P5'
        ? [{ promise, unchecked: `payments that the record does not know: ${money.name} was not listed` }]
        : []),
    ]),
  };
}

function isOf(seen: PaymentSeen, event: AuditedEvent): boolean {
  return seen.event === null || seen.event === event.id;
}

/** A payment of another program or installation on the same account. */
function isOfOthers({ reference, installation: mark }: PaymentSeen, installation: string): boolean {
  return mark ? mark !== installation : !reference;
}

/** Returns the order's payments. Null means that they were not looked up. */
async function seenOf(
  money: Exclude<MoneySource, { kind: 'none' }>,
  order: AuditedOrder,
  byOrder: Map<string, PaymentSeen[]>,
  looked: number,
): Promise<PaymentSeen[] | null> {
  if (money.kind === 'ledger') return [...(byOrder.get(order.order) ?? [])];
  if (looked >= money.most) return null;
  const seen = await Promise.all(order.objects.map((object) => money.look(object)));
  return seen.some((each) => each === null) ? null : (seen as PaymentSeen[]);
}

function isSettled({ state, underWay }: AuditedOrder): boolean {
  return ['paid', 'closed', 'cancelled'].includes(state) && !underWay;
}

/**
 * Returns how much of a settled order's money is kept. An order that ended before it was sold keeps nothing, whatever was
 * taken.
 */
function dueOf(order: AuditedOrder): number {
  return order.state === 'paid' || (order.state === 'cancelled' && order.refunds > 0) ? dueSum(order) : 0;
}

function judge(order: AuditedOrder, seen: readonly PaymentSeen[]): Violation[] {
  const violations: Violation[] = [];
  const violate = (promise: AuditedPromise, says: string, remedy: string): void => {
    const key = `${order.order} ${promise}`;
    violations.push({ promise, key, seat: null, order: order.order, hold: null, says, remedy });
  };
  const sum = (what: 'captured' | 'refunded' | 'authorised'): number =>
    seen.reduce((total, each) => total + each[what], 0);
  // A payment that was given back completely no longer counts.
  const standing = seen.filter((each) => each.authorised > 0 || each.captured > each.refunded);
  const kept = sum('captured') - sum('refunded');
  const names = standing.map(({ object }) => object).join(', ');

  if (standing.filter(({ object }) => !order.settled.includes(object)).length > 1)
    violate('P1', `${standing.length} payments stand: ${names}`, 'Void or refund all but one.');
  if (sum('captured') > 0 && ['reserved', 'authorised'].includes(order.state)) {
    violate(
      'P2',
      `the order is ${order.state} with ${order.soldTickets} tickets sold, ${names} is captured`,
      'Refund it.',
    );
  }
  if (['closed', 'voiding'].includes(order.state) && kept > Math.max(order.accepted, 0)) {
    violate('P3', `the order is ${order.state}, yet ${kept} were taken (${names})`, 'Refund it.');
  }
  if (isSettled(order) && sum('authorised') > 0) {
    violate('P3', `the order is ${order.state}, yet an authorisation stands (${names})`, 'Void it.');
  }
  if (order.lingering && seen.some(({ status }) => isFinal(order.kind, status))) {
    violate(
      'P4',
      `${order.kind} is under way in the record, the provider has long answered: ${seen.map(({ object, status }) => `${object} ${status}`).join(', ')}`,
      "Look at the worker's log for this order.",
    );
  }
  const ours = seen.filter(({ object }) => !order.strays.includes(object));
  const tries = ours.reduce((total, each) => total + (each.tries ?? 0), 0);
  if (tries > order.tries) {
    violate('P5', `a card was tried ${tries} times, the record knows of ${order.tries}`, 'Report the fault.');
  }
  for (const each of standing) {
    if (
      each.amount !== order.amount ||
      each.currency !== order.currency ||
      !order.objects.includes(each.object) ||
      (each.reference !== order.order && !order.decided)
    ) {
      violate(
        'P6',
        `${each.object} over ${each.amount} ${each.currency} was accepted; the order is over ${order.amount} ${order.currency} and knows ${order.objects.join(', ') || 'no payment'}${each.reference === order.order ? '' : `; it names ${each.reference || 'no order'}`}`,
        'Void or refund the payment and report the fault.',
      );
    }
  }
  // A refund that failed is still here, and so is what was given back by other means.
  if (isSettled(order) && kept !== dueOf(order) + order.notGivenBack + order.accepted) {
    const refunds = order.notGivenBack > 0 ? ` and ${order.notGivenBack} of failed refunds` : '';
    const beside =
      order.accepted === 0 ? refunds : `${refunds}, ${order.accepted} were accepted by an operator`;
    violate(
      'P8',
      `the order is ${order.state}: ${dueOf(order)} are due${beside}, captured − refunded is ${kept}`,
      'Refund or collect the difference.',
    );
  }
  return violations;
}

/** Whether the provider has said its last word about what is under way. */
function isFinal(kind: string | null, status: PaymentSeen['status']): boolean {
  if (kind === 'ending') return status === 'cancelled';
  if (kind === 'capture') return status === 'captured' || status === 'cancelled';
  return kind === 'authorise' && status !== 'open';
}

/** Payments for orders that the record does not have: it was not there before the provider was called (P5). */
async function strangers(
  { db }: AuditSources,
  byOrder: Map<string, PaymentSeen[]>,
  claimed: ReadonlySet<string>,
): Promise<Violation[]> {
  const references = [...byOrder.keys()];
  const violations: Violation[] = [];
  for (let from = 0; from < references.length; from += pageSize) {
    const some = references.slice(from, from + pageSize);
    const known = await knownOrders(db, some);
    for (const reference of some.filter((each) => !known.has(each))) {
      for (const seen of byOrder.get(reference) ?? []) {
        if (claimed.has(seen.object)) continue;
        violations.push({
          promise: 'P5',
          key: seen.object,
          seat: null,
          order: null,
          hold: null,
          says: `${seen.object} over ${seen.amount} ${seen.currency} (${seen.status}) names order ${reference || 'none'}, which the record does not have`,
          remedy: 'Void or refund it; look for a lost database.',
        });
      }
    }
  }
  return violations;
}
