/**
 * Types of the buyers' requests and responses as JSON, for pages and other clients: importing types loads no schema. Times are
 * ISO 8601 unless a name ends in Ms.
 */

import type { Static } from 'typebox';
import type {
  CodeSchema,
  HoldBody,
  HoldSchema,
  OrderSchema,
  PassSchema,
  ProblemSchema,
  QueueTicketSchema,
  SeatInfoSchema,
  TicketsSchema,
} from './schemas.ts';

export type { CountsObject, EventObject, StatusObject } from '../read-path/published.ts';

/** application/problem+json (RFC 9457), with fields of its code: taken → seats; hold_exists → hold; not_open → phase, opensAt … */
export type Problem = Static<typeof ProblemSchema> & { [extra: string]: unknown };
export type QueueTicketAnswer = Static<typeof QueueTicketSchema>;
export type PassAnswer = Static<typeof PassSchema>;
export type HoldRequest = Static<typeof HoldBody>;
export type SeatInfo = Static<typeof SeatInfoSchema>;
export type CodeAnswer = Static<typeof CodeSchema>;
export type HoldAnswer = Static<typeof HoldSchema>;
export type OrderAnswer = Static<typeof OrderSchema>;
export type TicketsAnswer = Static<typeof TicketsSchema>;
