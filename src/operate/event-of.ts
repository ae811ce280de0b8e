import type { Events } from '../catalogue/events.ts';
import { type Problem, problem } from '../core/problems.ts';
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

export function unknownPlan(plan: string, field?: string): Problem {
  return problem('unknown_plan', {
    field,
    detail: `There is no plan ${plan}. Import it first, or look for its id.`,
  });
}
