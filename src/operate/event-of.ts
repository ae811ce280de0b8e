import type { Events } from '../catalogue/events.ts';
import { problem } from '../core/problems.ts';
import type { EventRecord } from '../orders/record.ts';

/** Returns the event; throws `unknown_event`. `field`: where the request named it, if not in its path. */
export async function eventOf(
  events: Pick<Events, 'find'>,
  id: string,
  field?: string,
): Promise<EventRecord> {
  const event = await events.find(id);
  if (!event) throw problem('unknown_event', { field, detail: `There is no event ${id}. Check its id.` });
  return event;
}
