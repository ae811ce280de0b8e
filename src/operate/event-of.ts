import type { Events } from '../catalogue/events.ts';
import { problem } from '../core/problems.ts';
import type { EventRecord } from '../orders/record.ts';

/** Returns the event; throws `unknown_event`. */
export async function eventOf(events: Pick<Events, 'find'>, id: string): Promise<EventRecord> {
  const event = await events.find(id);
  if (!event) throw problem('unknown_event', { detail: `There is no event ${id}. Check its id.` });
  return event;
}
