import { type EventId, type EventNo, holdLimits, type OrderId, type PartitionNo } from '../src/core/hold.ts';
import {
  type OrderChange,
  type OrderEnd,
  operationsUnderWay,
  orderTransitions,
  settledStates,
} from '../src/core/order.ts';
import { assert } from '../src/core/outcome.ts';
import { allows, type Phase } from '../src/core/phase.ts';
import type {
  BeginCommand,
  BeginOutcome,
  CaptureWindow,
  Claim,
  ConfirmOutcome,
  DecidedSeat,
  EventSettings,
  LateSeats,
  MoneyOperation,
  OperationStep,
  Order,
  RecordCloseOutcome,
  ReserveCommand,
  ReserveOutcome,
  SalesRecord,
  StrayCommand,
  StrayOutcome,
} from '../src/orders/record.ts';
import type { Clock } from '../src/runtime/clock.ts';
import { createInProcessInbox } from './record-inbox.ts';
import { boundReached, newOrder } from './record-order.ts';
import { createInProcessSeats } from './record-seats.ts';

/** The model's data of an event. The caller may change it between steps. */
export interface InProcessEvent {
  event: EventId;
  phase: Phase;
  currency: string;
  seatCount: number;
  settings: EventSettings;
  /** Its arbiter is elsewhere, so no hold rows are asked for: as Postgres does in Redis mode. */
  partitions: ReadonlyMap<PartitionNo, { mode: 'redis' | 'moving'; epoch: number }>;
}

/**
 * The record of sales as a model in memory, held to the same contract suite as Postgres: for the simulation, and as the
 * specification to read. Each step runs to its end before the next.
 */
export function createInProcessRecord(options: {
  clock: Pick<Clock, 'now'>;
  eventOf(event: EventNo): InProcessEvent;
}): SalesRecord {
  const { clock, eventOf } = options;
  interface Row extends MoneyOperation {
    claimedBy: string | null;
    claimedUntil: number | null;
    askedTimes: number;
    askedUntil: number;
  }
  const orders = new Map<OrderId, Order>();
  const operations = new Map<string, Row>();
  const inbox = createInProcessInbox(clock);
  const seats = createInProcessSeats((event) => eventOf(event).seatCount);
  const limits = new Map<string, number>();

  const rowsOf = (order: OrderId) => [...operations.values()].filter((row) => row.order === order);
  const underWay = (order: OrderId, but?: Row) =>
    rowsOf(order).find((row) => row !== but && operationsUnderWay.includes(row.state));
  const openOrderOf = (event: EventNo, visitor: string) =>
    [...orders.values()].find(
      (order) => order.eventNo === event && order.visitor === visitor && isOpen(order),
    );
  const isOpen = (order: Order) => order.state === 'reserved' || order.state === 'authorised';
  const isFree = (row: Row) => row.claimedUntil === null || row.claimedUntil <= clock.now();

  function change(order: Order, what: OrderChange): void {
    const transition = orderTransitions[what];
    assert(transition.from.includes(order.state), `${what} of an order that is ${order.state}`);
    order.state = transition.to;
  }

  // Reserve and close.

  function reserve(command: ReserveCommand): ReserveOutcome {
    // One that has another hold by now is found by its own id.
    const known = [...orders.values()].find(
      (order) => order.hold === command.hold || order.order === command.order,
    );
    if (known) return { kind: 'reserved', order: known, repeated: true, seats: [] };
    const event = eventOf(command.event);
    if (!allows(event.phase, 'reserve')) return { kind: 'not_open', phase: event.phase };
    const partition = event.partitions.get(command.partition);
    if (partition?.mode === 'moving') return { kind: 'retry' };
    if (partition?.epoch !== command.epoch) return { kind: 'stale' };
    const wanted = command.lines.map((line) => line.seat).sort((a, b) => a - b);
    const max = event.settings.accountSeatsMax;
    if (max !== null && max !== undefined) {
      const used = accountSeatsOf(command.event, command.account);
      if (used + wanted.length > max) return { kind: 'limit', limit: 'account', max, used };
    }
    const open = openOrderOf(command.event, command.visitor);
    if (open) return { kind: 'open_order', order: open.order };
    const reached = boundReached([...orders.values()], command, event.settings, wanted.length);
    if (reached) return reached;
    const now = clock.now();
    if (now >= command.deadline - holdLimits.reserveMarginMs || !seats.areFree(command.event, wanted)) {
      return { kind: 'hold_gone' };
    }
    const order = newOrder(command, event.event, now);
    orders.set(order.order, order);
    return { kind: 'reserved', order, repeated: false, seats: seats.reserve(order) };
  }

  function close(id: OrderId, reason: OrderEnd, endKey: string, by: Claim): RecordCloseOutcome {
    const order = orders.get(id);
    if (!order) return { kind: 'unknown_order' };
    if (order.state === 'closed' || order.state === 'cancelled') return { kind: 'closed', order, seats: [] };
    if (order.state !== 'reserved') return { kind: 'decided', order };
    const early = reason === 'not_paid_in_time' && clock.now() < order.paymentDeadline;
    const busy = underWay(id);
    if (busy && reason === 'closed_by_buyer' && !early) {
      const neverOpened = busy.kind === 'open' && busy.providerObject === null;
      if (neverOpened && ['unknown', 'ending'].includes(busy.state)) settle(busy, 'voided', undefined);
      else if (['waiting', 'ending'].includes(busy.state)) return closeLater(order, busy, endKey, by);
    }
    if (underWay(id) || early) return { kind: 'under_way', order };
    const freed = endOrder(order, 'close', reason);
    const object = rowsOf(id).find(isObjectOf(order));
    if (object) toEnding(object, reason, endKey, null);
    return { kind: 'closed', order, seats: freed };
  }

  function closeLater(order: Order, busy: Row, endKey: string, by: Claim): RecordCloseOutcome {
    const owned = busy.state === 'waiting' || isFree(busy);
    if (busy.state === 'waiting') toEnding(busy, 'closed_by_buyer', endKey, by);
    else if (owned) claimRow(busy, by);
    busy.endReason = 'closed_by_buyer';
    const seats = endOrder(order, 'close_pending', 'closed_by_buyer');
    return { kind: 'voiding', order, operation: owned ? busy : null, seats };
  }

  const isObjectOf = (order: Order) => (row: Row) =>
    row.kind === 'open' && row.state === 'done' && row.providerObject === order.providerObject;

  function endOrder(order: Order, what: OrderChange, reason: OrderEnd | null): DecidedSeat[] {
    change(order, what);
    order.reason = reason ?? order.reason;
    return seats.free(order);
  }

  // Money operations.

  function begin(command: BeginCommand, claim: Claim): BeginOutcome {
    const order = orders.get(command.order);
    if (!order) return { kind: 'unknown_order' };
    const before = rowsOf(order.order).find(
      (row) => row.clientKey !== null && row.clientKey === command.clientKey,
    );
    if (before) {
      return before.request === command.request
        ? { kind: 'repeated', order, operation: before }
        : { kind: 'mismatch' };
    }
    if (order.state !== 'reserved') return { kind: 'decided', order };
    const busy = underWay(order.order);
    if (busy) return { kind: 'under_way', order, operation: busy };
    const refused = rowsOf(order.order).filter((row) => row.kind === 'open' && row.state === 'refused');
    const again = (refused.at(-1)?.firstSentAt ?? 0) + Math.min(10_000, 1_000 * 2 ** refused.length);
    if (command.kind === 'open' && refused.length > 0 && clock.now() < again)
      return { kind: 'repeated', order, operation: refused.at(-1)! };
    if (clock.now() >= order.paymentDeadline) return { kind: 'too_late', order, reason: 'not_paid_in_time' };
    if (eventOf(order.eventNo).phase === 'cancelled')
      return { kind: 'too_late', order, reason: 'event_cancelled' };
    if (command.kind === 'open' && order.providerObject !== null) return { kind: 'opened', order };
    const operation = newRow(command, order, claim);
    return { kind: 'begun', order, operation };
  }

  function newRow(
    of: Pick<Row, 'operation' | 'kind' | 'key'> & Partial<Row>,
    order: Order,
    claim: Claim,
  ): Row {
    const until = clock.now() + claim.leaseMs;
    const row: Row = {
      endKey: null,
      endReason: null,
      clientKey: null,
      request: null,
      instrument: null,
      answer: null,
      attention: null,
      decision: null,
      ...of,
      order: order.order,
      state: 'open',
      providerObject: order.providerObject,
      amount: order.amount,
      currency: order.currency,
      attempts: 1,
      firstSentAt: clock.now(),
      dueAt: until,
      claimedBy: claim.owner,
      claimedUntil: until,
      askedTimes: 0,
      askedUntil: 0,
    };
    operations.set(row.operation, row);
    return row;
  }

  function claim(wanted: Claim & { limit: number; operation?: string }): Row[] {
    const now = clock.now();
    const due = [...operations.values()].filter(
      (row) =>
        row.dueAt !== null &&
        isFree(row) &&
        (wanted.operation === undefined ? row.dueAt <= now : row.operation === wanted.operation),
    );
    const claimed = due.sort((a, b) => a.dueAt! - b.dueAt!).slice(0, wanted.limit);
    for (const row of claimed) claimAgain(row, wanted);
    return claimed;
  }

  const ask: SalesRecord['ask'] = async ({ operation, by, ...claim }) => {
    const now = clock.now();
    const row = operations.get(operation);
    if (!row || row.dueAt === null || !isFree(row)) return null;
    const early = row.dueAt > now;
    const mayAsk = (by === 'provider' || row.state === 'waiting') && row.askedUntil <= now;
    if (early && !mayAsk) return null;
    if (early) row.askedUntil = now + Math.min(20_000, 500 * 2 ** row.askedTimes++);
    claimAgain(row, claim);
    return copy(row);
  };

  function claimAgain(row: Row, by: Claim): void {
    claimRow(row, by);
    row.attempts += 1;
    row.firstSentAt ??= clock.now();
  }

  function claimRow(row: Row, by: Claim): void {
    row.claimedBy = by.owner;
    row.claimedUntil = clock.now() + by.leaseMs;
    row.dueAt = row.claimedUntil;
  }

  function releaseClaims(owner: string): number {
    const isOwned = (row: Row) => row.dueAt !== null && row.claimedBy === owner && !isFree(row);
    const owned = [...operations.values()].filter(isOwned);
    for (const row of owned) Object.assign(row, { claimedUntil: null, dueAt: clock.now() });
    return owned.length;
  }

  /** Runs a step on an operation and its order. The step returns null if another process was there first. */
  function step<Kind extends string>(
    id: string,
    work: (row: Row, order: Order) => { kind: Kind; seats?: DecidedSeat[] } | null,
  ): OperationStep<Kind> {
    const row = operations.get(id);
    assert(row, `no money operation ${id}`);
    const order = orders.get(row.order)!;
    const done = work(row, order);
    return { kind: done?.kind ?? 'settled', seats: done?.seats ?? [], order, operation: row };
  }

  function settle(row: Row, state: Row['state'], answer: Row['answer'] | undefined): void {
    Object.assign(row, { state, answer: answer ?? row.answer, dueAt: null, claimedUntil: null });
  }

  function toEnding(row: Row, reason: OrderEnd | null, endKey: string, by: Claim | null): void {
    Object.assign(row, { state: 'ending', endKey, endReason: reason });
    if (by) {
      claimRow(row, by);
      Object.assign(row, { attempts: 1, firstSentAt: clock.now() });
    } else {
      Object.assign(row, { dueAt: clock.now(), claimedUntil: null, attempts: 0, firstSentAt: null });
    }
  }

  const end = (id: string, reason: OrderEnd, endKey: string, by: Claim) =>
    step<'ending'>(id, (row, order) => {
      if (row.state === 'ending') return { kind: 'ending' };
      const settled = row.state === 'refused' || row.state === 'voided';
      if (!['open', 'authorise'].includes(row.kind) || row.state === 'done') return null;
      const standing = rowsOf(order.order).some(
        (one) => one !== row && one.kind === 'authorise' && one.state === 'done',
      );
      if (settled && (standing || underWay(order.order, row))) return null;
      toEnding(row, reason, endKey, by);
      if (reason === 'payment_mismatch') row.attention = reason;
      return { kind: 'ending' };
    });

  const authorised: SalesRecord['authorised'] = async (id, view, endKey, by, late) => {
    const row = operations.get(id);
    assert(row, `no money operation ${id}`);
    const order = orders.get(row.order)!;
    if (row.kind !== 'authorise' || row.state === 'done') return copy(step(id, () => null));
    const rival = rowsOf(order.order).some((other) => {
      if (other === row) return false;
      if (other.kind === 'authorise') return !['refused', 'voided'].includes(other.state);
      const planned = order.state === 'closed' && other.kind === 'open' && other.state === 'ending';
      return operationsUnderWay.includes(other.state) && !planned;
    });
    const ended = row.state === 'ending' && row.endReason !== 'not_paid_in_time';
    if (!['reserved', 'closed'].includes(order.state) || ended || rival) {
      return copy(end(id, row.endReason ?? 'seats_lost', endKey, by));
    }
    let retaken: DecidedSeat[] = [];
    if (order.state === 'closed') {
      if (order.reason !== 'not_paid_in_time') {
        return copy(end(id, (order.reason as OrderEnd | null) ?? 'seats_lost', endKey, by));
      }
      const { epoch, mode } = eventOf(order.eventNo).partitions.get(order.partition) ?? {};
      const stale = late?.kind === 'held' && (mode === 'moving' || epoch !== late.epoch);
      if (!late || stale) return copy(step(id, () => ({ kind: 'late' as const })));
      const object = rowsOf(order.order).find(
        (other) =>
          other.kind === 'open' && other.state === 'ending' && other.providerObject === order.providerObject,
      );
      if (late.kind === 'gone' || !mayRetake(order, late)) {
        order.reason = 'late_payment';
        if (object) Object.assign(object, { endReason: 'late_payment', dueAt: clock.now() });
        return copy(end(id, 'late_payment', endKey, by));
      }
      order.hold = late.hold;
      retaken = seats.reserve(order);
      if (object) Object.assign(object, { state: 'done', dueAt: null, endKey: null, endReason: null });
    }
    change(order, order.state === 'closed' ? 'late_success' : 'authorise');
    const { instrument, captureBefore } = view;
    Object.assign(order, { reason: null, instrument, captureBefore });
    Object.assign(row, { state: 'done', answer: { view }, endKey: null, endReason: null, attention: null });
    claimRow(row, by);
    return copy(step(id, () => ({ kind: 'authorised' as const, seats: retaken })));
  };

  function mayRetake(order: Order, late: LateSeats & { kind: 'held' }): boolean {
    const { phase, settings } = eventOf(order.eventNo);
    const max = settings.accountSeatsMax;
    return (
      order.lines.length > 0 &&
      allows(phase, 'reserve') &&
      !openOrderOf(order.eventNo, order.visitor) &&
      (max == null || accountSeatsOf(order.eventNo, order.account) + order.lines.length <= max) &&
      clock.now() < late.deadline - holdLimits.reserveMarginMs &&
      seats.areFree(
        order.eventNo,
        order.lines.map((line) => line.seat),
      )
    );
  }

  /** Bought, and of orders that are not paid yet. */
  function accountSeatsOf(event: EventNo, account: string): number {
    return [...orders.values()]
      .filter((order) => order.eventNo === event && order.account === account && isOpen(order))
      .reduce((sum, order) => sum + order.lines.length, limitOf(event, 'account', account));
  }

  function stray(command: StrayCommand, by: Claim): StrayOutcome {
    const order = orders.get(command.order);
    if (!order) return { kind: 'unknown_order' };
    const { object } = command;
    if (ownerOf(object)) return { kind: 'known' };
    const busy = underWay(order.order);
    const canOpen = busy?.kind === 'open' && busy.state !== 'waiting' && busy.providerObject === null;
    if (busy && canOpen && order.providerObject === null && command.fits) {
      opened(busy, order, object, null);
      return { kind: 'adopted', order, operation: busy, seats: [] };
    }
    if (busy || !settledStates.includes(order.state)) return { kind: 'under_way' };
    const row = newRow({ operation: command.operation, kind: 'open', key: command.key }, order, by);
    Object.assign(row, { state: 'ending', endKey: command.endKey, providerObject: object });
    return { kind: 'ending', order, operation: row, seats: [] };
  }

  function opened(row: Row, order: Order, object: string, answer: Row['answer']): void {
    if (row.state === 'ending') Object.assign(row, { answer, dueAt: clock.now(), claimedUntil: null });
    else Object.assign(row, { state: 'done', answer, dueAt: null, claimedUntil: null });
    row.providerObject = object;
    order.providerObject = object;
  }

  function confirm(
    id: OrderId,
    ids: { capture: string; captureKey: string; endKey: string },
    by: Claim,
  ): ConfirmOutcome {
    const order = orders.get(id);
    if (!order) return { kind: 'unknown_order' };
    if (order.state !== 'authorised') return { kind: 'decided', order };
    // An object that came from nowhere is still being cancelled: one operation at a time.
    if (rowsOf(id).some((row) => row.kind !== 'refund' && operationsUnderWay.includes(row.state)))
      return { kind: 'decided', order };
    const authorisation = rowsOf(id).find((row) => row.kind === 'authorise' && row.state === 'done')!;
    const reason = whyNot(order);
    if (reason) {
      const freed = endOrder(order, 'confirm_impossible', reason);
      toEnding(authorisation, reason, ids.endKey, by);
      return { kind: 'impossible', order, operation: authorisation, seats: freed };
    }
    change(order, 'confirm');
    countLimits(order, order.lines.length);
    Object.assign(authorisation, { dueAt: null, claimedUntil: null });
    const capture = newRow({ operation: ids.capture, kind: 'capture', key: ids.captureKey }, order, by);
    return { kind: 'confirmed', order, operation: capture, seats: seats.sell(order) };
  }

  function whyNot(order: Order): OrderEnd | null {
    const { phase, settings } = eventOf(order.eventNo);
    if (phase === 'cancelled') return 'event_cancelled';
    const over = (
      kind: 'account' | 'instrument',
      subject: string | undefined,
      max: number | null | undefined,
    ) =>
      subject !== undefined &&
      max != null &&
      limitOf(order.eventNo, kind, subject) + order.lines.length > max;
    if (over('account', order.account, settings.accountSeatsMax)) return 'limit';
    return over('instrument', order.instrument?.fingerprint, settings.instrumentSeatsMax)
      ? 'card_limit'
      : null;
  }

  const limitOf = (event: EventNo, kind: string, subject: string) =>
    limits.get(`${event} ${kind} ${subject}`) ?? 0;

  function countLimits(order: Order, change: number): void {
    const subjects = [
      ['account', order.account] as const,
      ['instrument', order.instrument?.fingerprint] as const,
    ];
    for (const [kind, subject] of subjects) {
      if (subject === undefined) continue;
      limits.set(`${order.eventNo} ${kind} ${subject}`, limitOf(order.eventNo, kind, subject) + change);
    }
  }

  const ownerOf = (object: string): OrderId | null =>
    [...orders.values()].find((one) => one.providerObject === object)?.order ??
    [...operations.values()].find((row) => row.providerObject === object)?.order ??
    null;

  function captureWindow(id: OrderId): CaptureWindow {
    const left = (orders.get(id)?.captureBefore ?? Infinity) - clock.now();
    return left <= 0 ? 'over' : left <= 86_400_000 ? 'ending' : 'open';
  }

  return {
    reserve: async (command) => copy(reserve(command)),
    abandon: async (hold, id) => {
      const known = [...orders.values()].find((order) => order.hold === hold.hold || order.order === id);
      if (known)
        return known.lines.length === 0 ? { kind: 'abandoned' } : { kind: 'ordered', order: copy(known) };
      const { event, currency } = eventOf(hold.event);
      const nothing = { lines: [], orderFee: 0, account: '', buyer: { name: '', email: '' }, currency };
      const order = newOrder({ ...hold, ...nothing, order: id }, event, clock.now());
      orders.set(id, { ...order, state: 'closed', reason: 'closed_by_buyer' });
      return { kind: 'abandoned' };
    },
    findOrder: async (id) => copy(orders.get(id) ?? null),
    isOverdue: async (id) => (orders.get(id)?.paymentDeadline ?? Infinity) <= clock.now(),
    findOpenOrder: async (event, visitor) => copy(openOrderOf(event, visitor) ?? null),
    operationsOf: async (id) => copy(rowsOf(id)),
    begin: async (command, by) => copy(begin(command, by)),
    claim: async (wanted) => copy(claim(wanted)),
    ask,
    releaseClaims: async (owner) => releaseClaims(owner),
    opened: async (id, object, answer) =>
      copy(
        step<'opened'>(id, (row, order) => {
          const may = row.kind === 'open' && ['open', 'unknown', 'ending'].includes(row.state);
          if (may && row.providerObject === null) {
            opened(row, order, object, answer);
          }
          return { kind: 'opened' };
        }),
      ),
    park: async (command) =>
      copy(
        step<'parked'>(command.operation, (row, order) => {
          if (!operationsUnderWay.includes(row.state)) return null;
          const now = clock.now();
          row.dueAt = now + command.dueMs;
          if (row.kind === 'authorise' && row.state !== 'ending' && order.paymentDeadline > now) {
            row.dueAt = Math.min(row.dueAt, order.paymentDeadline);
          }
          if (command.newKey) {
            if (row.state === 'ending') row.endKey = command.newKey;
            else row.key = command.newKey;
            row.firstSentAt = null;
          }
          if (row.state !== 'ending') row.state = command.state;
          row.claimedUntil = null;
          row.answer = command.answer ?? row.answer;
          row.attention = command.attention ?? row.attention;
          return { kind: 'parked' };
        }),
      ),
    authorised,
    lateSeatsMax: async (id) => eventOf(orders.get(id)!.eventNo).settings.holdSeatsMax,
    captureWindow: async (id) => captureWindow(id),
    stray: async (command, by) => copy(stray(command, by)),
    refused: async (id, answer) =>
      copy(
        step<'refused'>(id, (row, order) => {
          if (!['open', 'waiting', 'unknown'].includes(row.state)) return null;
          settle(row, 'refused', answer);
          if (row.kind !== 'capture' || order.state !== 'confirmed') return { kind: 'refused' };
          countLimits(order, -order.lines.length);
          const freed = endOrder(order, 'capture_refused', 'capture_refused');
          const standing = rowsOf(order.order).find(
            (one) => one.kind === 'authorise' && one.state === 'done',
          );
          if (standing) toEnding(standing, 'capture_refused', `${id}:end`, null);
          return { kind: 'refused', seats: freed };
        }),
      ),
    end: async (id, reason, endKey, by) => copy(end(id, reason, endKey, by)),
    voided: async (id, answer) =>
      copy(
        step<'voided'>(id, (row, order) => {
          if (!operationsUnderWay.includes(row.state) || !['open', 'authorise'].includes(row.kind))
            return null;
          const wasEnding = row.state === 'ending';
          settle(row, 'voided', answer);
          if (row.attention === 'void_refused' || row.attention === 'refund_refused') row.attention = null;
          for (const other of rowsOf(order.order)) {
            const isEnded = other.attention === 'captured_after_refusal';
            if (isEnded && isOfObject(other, row.providerObject)) other.attention = null;
          }
          const isStray = row.providerObject !== null && row.providerObject !== order.providerObject;
          if (isStray) return { kind: 'voided' };
          const object = rowsOf(order.order).find(isObjectOf(order));
          if (object) object.state = 'voided';
          if (order.state === 'voiding') change(order, 'voided');
          else if (order.state === 'reserved' && wasEnding) {
            return { kind: 'voided', seats: endOrder(order, 'close', row.endReason) };
          } else if (order.state === 'reserved') order.providerObject = null;
          return { kind: 'voided' };
        }),
      ),
    confirm: async (id, ids, by) => copy(confirm(id, ids, by)),
    captured: async (id, view) =>
      copy(
        step<'captured'>(id, (row, order) => {
          if (row.kind !== 'capture' || row.state === 'done') return null;
          if (row.state === 'refused') {
            const isVoided = rowsOf(order.order).some(
              (other) => other.state === 'voided' && isOfObject(other, row.providerObject),
            );
            Object.assign(row, { attention: isVoided ? null : 'captured_after_refusal', answer: { view } });
            return null;
          }
          settle(row, 'done', { view });
          row.attention = null;
          if (order.state === 'confirmed') change(order, 'capture');
          return { kind: 'captured' };
        }),
      ),
    close: async (id, reason, endKey, by) => copy(close(id, reason, endKey, by)),
    overdue: async (limit) =>
      [...orders.values()]
        .filter(
          (order) =>
            order.state === 'reserved' && order.paymentDeadline <= clock.now() && !underWay(order.order),
        )
        .sort((a, b) => a.paymentDeadline - b.paymentDeadline)
        .slice(0, limit)
        .map((order) => order.order),
    providerEvent: async (event) => inbox.store(event),
    claimEvents: async (claim) => inbox.claim(claim, ownerOf),
    eventsProcessed: async (ids, note) => inbox.processed(ids, note),
    eventsAgain: async (ids, dueMs) => inbox.again(ids, dueMs),
  };
}

/** Callers keep what they were answered: it must not change under their hands. */
function copy<Value>(value: Value): Value {
  return structuredClone(value);
}

function isOfObject(operation: Pick<MoneyOperation, 'providerObject'>, object: string | null): boolean {
  return object !== null && operation.providerObject === object;
}
