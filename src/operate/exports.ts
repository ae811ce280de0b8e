import { Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { type ExportFormat, exportFormats } from '../fulfilment/export-forms.ts';
import { type ExportKind, type ExportWish, exportKinds } from '../fulfilment/exports.ts';
import { logAction } from '../orders/action-log.ts';
import type { EventRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import { eventOf } from './event-of.ts';
import { type Caller, EventParams } from './operation.ts';

// Orders, tickets and refunds as files. HTTP and the command line write the file, each in its own way.

const flag = [Type.Literal('true'), Type.Literal('false')] as const;
const file = Type.String({
  pattern: `^(${exportKinds.join('|')})\\.(${exportFormats.join('|')})$`,
  maxLength: 40,
  description: 'orders.csv, tickets.json …',
});

export const exportQuery = Type.Object({
  bom: Type.Optional(
    Type.Union([...flag], {
      description: 'CSV: begin with the byte order mark that Excel needs. true when absent.',
    }),
  ),
  codes: Type.Optional(Type.Union([...flag])),
});

export const exportRoutes = [
  {
    id: 'exportEvent',
    path: '/events/:event/exports/:file',
    summary: 'Orders, tickets or refunds of an event as CSV or JSON',
    params: Type.Object({ ...EventParams.properties, file }),
    problems: ['unknown_event', 'invalid_field', 'busy'],
  },
  {
    id: 'exportAll',
    path: '/exports/:file',
    summary: 'Orders, tickets or refunds of all events as CSV or JSON',
    params: Type.Object({ file }),
    problems: ['invalid_field', 'busy'],
  },
] as const;

export interface ExportRequest {
  /** Undefined means all events. */
  event?: string;
  file: string;
  bom?: string;
  codes?: string;
}

/** Returns what the file holds, and logs the action, because the file holds names and addresses of buyers. */
export async function beginExport(
  { db, events }: { db: Db; events: Pick<Events, 'find'> },
  { event: id, file, bom, codes }: ExportRequest,
  { actor }: Pick<Caller, 'actor'>,
): Promise<{ event: EventRecord | null; wish: ExportWish }> {
  const event = id === undefined ? null : await eventOf(events, id);
  const [what, format] = file.split('.') as [ExportKind, ExportFormat];
  const detail = { what, format, codes: codes === 'true' && what === 'tickets' };
  await logAction(db, { actor, action: 'export', ...(event && { event: event.eventNo }), detail });
  return { event, wish: { ...detail, event: event?.eventNo ?? null, byteOrderMark: bom !== 'false' } };
}
