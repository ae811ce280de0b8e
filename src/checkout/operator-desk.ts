import { seatNames } from '../audit/facts.ts';
import type { EventNo } from '../core/hold.ts';
import {
  actionsWithNote,
  actionWords,
  type EntryAction,
  entryActions,
  entryWords,
} from '../core/operator-list.ts';
import { operationsUnderWay } from '../core/order.ts';
import { impossible } from '../core/outcome.ts';
import {
  acceptPayment,
  cancelTicketsOfFinding,
  countEntries,
  dismissEvents,
  dismissPayment,
  endOfEntry,
  findEntry,
  giveBack,
  giveUpRefund,
  type ListedEntry,
  type ListPlace,
  listEntries,
  lookAgain,
  type OperatorStep,
  refundOfOperation,
  settlePayment,
} from '../orders/operator-list.ts';
import { settleFinding } from '../orders/reconcile-findings.ts';
import type { Db } from '../postgres/db.ts';
import type { Random } from '../runtime/random.ts';
import type { Refunds } from './refunds.ts';

export interface OperatorDeskOptions {
  db: Db;
  refunds: Pick<Refunds, 'retry' | 'elsewhere' | 'decided'>;
  random: Random;
}

/** An entry as the operator sees it. */
export interface OperatorEntry extends ListedEntry {
  title: string;
  means: string;
  charged: string;
  /** As printed: "Block A · row 3 · seat 12". */
  seatNames: string[];
  actions: { action: EntryAction; label: string; does: string; note: boolean }[];
}

export interface OperatorAct {
  entry: string;
  action: EntryAction;
  actor: string;
  note: string;
}

export type ActOutcome =
  /** `entry` is its current state, or null if it has left the list. */
  | { kind: 'done'; repeated: boolean; entry: OperatorEntry | null }
  | { kind: 'unknown_entry' }
  /** The entry does not have this action, or its state has changed. */
  | { kind: 'not_possible'; actions: EntryAction[] }
  /** A call to the provider is in progress: try again in a few seconds. */
  | { kind: 'busy' }
  | { kind: 'note_missing' };

/**
 * The operator's list: payments that need a decision, and the actions that close them. Each action is one conditional step of the
 * record with a line in the log of actions. The reconciler makes the calls to the provider that follow, by rows with keys (P5).
 */
export interface OperatorDesk {
  /** Lists entries, oldest first. `next` is the start of the next page. */
  list(query: { event: EventNo | null; after: ListPlace | null; limit: number }): Promise<{
    entries: OperatorEntry[];
    total: number;
    next: ListPlace | null;
  }>;
  act(act: OperatorAct): Promise<ActOutcome>;
}

export function createOperatorDesk({ db, refunds, random }: OperatorDeskOptions): OperatorDesk {
  async function shown(rows: ListedEntry[]): Promise<OperatorEntry[]> {
    const byEvent = new Map<EventNo, number[]>();
    for (const { eventNo, seats } of rows) {
      if (eventNo !== null) byEvent.set(eventNo, [...(byEvent.get(eventNo) ?? []), ...seats]);
    }
    const names = new Map<EventNo, Map<number, string>>();
    for (const [event, seats] of byEvent) names.set(event, await seatNames(db, event, seats));
    return rows.map((row) => {
      const named = row.eventNo === null ? undefined : names.get(row.eventNo);
      const { title, means, charged } = entryWords(row.kind);
      return {
        ...row,
        title,
        means,
        charged,
        seatNames: row.seats.map((seat) => named?.get(seat) ?? `seat ${seat}`),
        actions: possibleActions(row).map((action) => ({
          action,
          ...actionWords(row, action)!,
          note: actionsWithNote.includes(action),
        })),
      };
    });
  }

  async function list(query: { event: EventNo | null; after: ListPlace | null; limit: number }) {
    const [rows, total] = await Promise.all([
      listEntries(db, { ...query, limit: query.limit + 1 }),
      countEntries(db, query.event),
    ]);
    const entries = await shown(rows.slice(0, query.limit));
    const last = entries.at(-1);
    const next = rows.length > query.limit && last ? { since: last.since, entry: last.entry } : null;
    return { entries, total, next };
  }

  async function act(command: OperatorAct): Promise<ActOutcome> {
    const row = await findEntry(db, command.entry);
    if (!row) return repeatedOf(command);
    if (!possibleActions(row).includes(command.action)) {
      return { kind: 'not_possible', actions: possibleActions(row) };
    }
    if (actionsWithNote.includes(command.action) && command.note === '') return { kind: 'note_missing' };
    const kind = await take(row, command);
    if (kind === 'busy') return { kind };
    const now = await findEntry(db, command.entry);
    if (kind === 'not_possible') return now ? { kind, actions: possibleActions(now) } : repeatedOf(command);
    return { kind: 'done', repeated: kind === 'repeated', entry: now ? (await shown([now]))[0]! : null };
  }

  /** Handles an entry that has left the list: this action was repeated, or another action closed the entry. */
  async function repeatedOf(command: OperatorAct): Promise<ActOutcome> {
    const { entry, action } = command;
    const ended = entryForm.test(entry) ? await endOfEntry(db, entry) : null;
    if (ended !== action) return ended ? { kind: 'not_possible', actions: [] } : { kind: 'unknown_entry' };
    if (action !== 'retry' || !entry.startsWith('operation-'))
      return { kind: 'done', repeated: true, entry: null };
    // The attempt may have been given up without the next one being made.
    const kind = await onOperation(entry.slice('operation-'.length), command);
    if (kind === 'busy') return { kind };
    if (kind === 'not_possible') return { kind, actions: [] };
    return { kind: 'done', repeated: kind === 'repeated', entry: null };
  }

  function take(row: ListedEntry, command: OperatorAct): Promise<OperatorStep['kind']> {
    const { operation, refund, object, entry } = row;
    if (command.action === 'look') {
      return lookAgain(db, { operation: operation?.operation ?? null, object, actor: command.actor }).then(
        () => 'done',
      );
    }
    if (operation) return onOperation(operation.operation, command);
    if (refund !== null) return onRefund(refund, command);
    if (entry.startsWith('finding-')) return onFinding(row, command);
    return dismissEvents(db, object!, command.actor, command.note);
  }

  async function onOperation(
    operation: string,
    { action, actor, note }: OperatorAct,
  ): Promise<OperatorStep['kind']> {
    switch (action) {
      case 'give_back':
        return decided(await giveBack(db, operation, actor, `${operation}:back:${random.uuid()}`));
      case 'accept':
        return decided(await acceptPayment(db, operation, actor, note));
      case 'settle':
        return decided(await settlePayment(db, operation, actor, note));
      case 'dismiss':
        return decided(await dismissPayment(db, operation, actor, note));
      case 'retry': {
        const refund = await refundOfOperation(db, operation);
        const given = await giveUpRefund(db, operation, actor);
        if (refund === null || (given.kind !== 'done' && given.kind !== 'repeated')) return given.kind;
        if (given.kind === 'repeated') {
          return (await endOfEntry(db, `refund-${refund}`)) === 'settle' ? 'not_possible' : 'repeated';
        }
        return (await refunds.retry(refund, actor)).kind === 'retried' ? 'done' : 'not_possible';
      }
      case 'look':
      case 'cancel_tickets':
        throw new Error(`${action} is no step of the operation`);
      default:
        return impossible(action, 'action');
    }
  }

  async function decided({ kind, order, seats }: OperatorStep): Promise<OperatorStep['kind']> {
    if (kind === 'done') await refunds.decided(order, seats);
    return kind;
  }

  async function onRefund(
    refund: string,
    { action, actor, note }: OperatorAct,
  ): Promise<OperatorStep['kind']> {
    const outcome =
      action === 'retry' ? await refunds.retry(refund, actor) : await refunds.elsewhere(refund, actor, note);
    return outcome.kind === 'retried' || outcome.kind === 'elsewhere' ? 'done' : 'not_possible';
  }

  async function onFinding(
    { entry }: ListedEntry,
    { action, actor, note }: OperatorAct,
  ): Promise<OperatorStep['kind']> {
    const finding = Number(entry.slice('finding-'.length));
    if (action !== 'cancel_tickets') return known(await settleFinding(db, { finding, actor, note }));
    const step = await cancelTicketsOfFinding(db, { finding, refund: random.uuid(), actor, note });
    if (step.kind === 'done') await refunds.decided(step.order, step.seats);
    return known(step.kind);
  }

  const known = (kind: OperatorStep['kind'] | 'unknown') => (kind === 'unknown' ? 'not_possible' : kind);

  return { list, act };
}

/** Returns the kind's actions that the entry's state allows. The step itself checks again. */
export function possibleActions(row: ListedEntry): EntryAction[] {
  return entryActions.filter((action) => entryWords(row.kind).actions[action] && allows(action, row));
}

function allows(action: EntryAction, row: ListedEntry): boolean {
  const { operation, orderState, captured, refunded, amount, kind } = row;
  if (!operation) return action !== 'cancel_tickets' || orderState === 'paid';
  const underWay = operationsUnderWay.includes(operation.state);
  const isSale = operation.kind === 'capture' && underWay && orderState === 'confirmed';
  switch (action) {
    case 'look':
    case 'retry':
      return true;
    case 'give_back':
      return isSale || (kind === 'payment_mismatch' && underWay && operation.kind !== 'capture');
    case 'accept':
      return isSale && captured !== null && captured > 0 && captured <= amount! && refunded === 0;
    case 'settle':
      return operation.kind === 'refund' || operation.state === 'ending';
    case 'dismiss':
      return !underWay;
    case 'cancel_tickets':
      return false;
    default:
      return impossible(action, 'action');
  }
}

/** Operations and refunds have UUIDs, findings have numbers, and events have the id of the provider's object. */
const entryForm =
  /^((operation|refund)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|finding-[1-9]\d{0,14}|event-[!-~]{1,255})$/;
