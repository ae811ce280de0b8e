import type { Db } from '../postgres/db.ts';
import {
  askForOperation,
  authorisedOperation,
  beginOperation,
  capturedOperation,
  captureWindow,
  claimOperations,
  endOperation,
  lateSeatsMax,
  openedOperation,
  operationsOf,
  parkOperation,
  refusedOperation,
  releaseClaims,
  strayObject,
  voidedOperation,
} from './money-operations.ts';
import {
  abandonHold,
  closeOrder,
  confirmOrder,
  findOpenOrder,
  findOrder,
  isOverdue,
  overdueOrders,
  reserveOrder,
} from './orders.ts';
import {
  claimProviderEvents,
  providerEventsAgain,
  providerEventsProcessed,
  storeProviderEvent,
} from './provider-events.ts';
import type { SalesRecord } from './record.ts';

/** The record of sales in Postgres. */
export function createSalesRecord({ db }: { db: Db }): SalesRecord {
  return {
    reserve: (command) => reserveOrder(db, command),
    abandon: (hold, order) => abandonHold(db, hold, order),
    findOrder: (order) => findOrder(db, order),
    isOverdue: (order) => isOverdue(db, order),
    findOpenOrder: (event, visitor) => findOpenOrder(db, event, visitor),
    operationsOf: (order) => operationsOf(db, order),
    begin: (command, claim) => beginOperation(db, command, claim),
    claim: (claim) => claimOperations(db, claim),
    ask: (claim) => askForOperation(db, claim),
    releaseClaims: (owner) => releaseClaims(db, owner),
    opened: (operation, object, answer) => openedOperation(db, operation, object, answer),
    park: (command) => parkOperation(db, command),
    authorised: (operation, view, endKey, claim, late) =>
      authorisedOperation(db, operation, view, endKey, claim, late),
    lateSeatsMax: (order) => lateSeatsMax(db, order),
    captureWindow: (order) => captureWindow(db, order),
    stray: (command, claim) => strayObject(db, command, claim),
    refused: (operation, answer) => refusedOperation(db, operation, answer),
    end: (operation, reason, endKey, claim) => endOperation(db, operation, reason, endKey, claim),
    voided: (operation, answer) => voidedOperation(db, operation, answer),
    confirm: (order, ids, claim) => confirmOrder(db, order, ids, claim),
    captured: (operation, view) => capturedOperation(db, operation, view),
    close: (order, reason, endKey, claim) => closeOrder(db, order, reason, endKey, claim),
    overdue: (limit) => overdueOrders(db, limit),
    providerEvent: (event) => storeProviderEvent(db, event),
    claimEvents: (claim) => claimProviderEvents(db, claim),
    eventsProcessed: (ids, note) => providerEventsProcessed(db, ids, note),
    eventsAgain: (ids, dueMs) => providerEventsAgain(db, ids, dueMs),
  };
}
