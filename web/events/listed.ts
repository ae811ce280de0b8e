import type { Phase } from '../../src/core/phase.ts';
import type { EventObject } from '../../src/http/api-types.ts';
import { texts } from '../shared/texts/texts.ts';

export type Listed = Pick<
  EventObject,
  'id' | 'name' | 'phase' | 'performanceAt' | 'timeZone' | 'venue' | 'opensAt'
>;

const words = texts.events.links;

/** `tickets`: they can be had there, or will be; `again`: perhaps; `over`: no more. */
const ways: Record<Phase, { leads: 'tickets' | 'again' | 'over'; label: (name: string) => string }> = {
  draft: { leads: 'over', label: words.over },
  scheduled: { leads: 'tickets', label: words.wait },
  pre_queue: { leads: 'tickets', label: words.buy },
  open: { leads: 'tickets', label: words.buy },
  paused: { leads: 'tickets', label: words.buy },
  sold_out: { leads: 'again', label: words.soldOut },
  closed: { leads: 'over', label: words.over },
  cancelled: { leads: 'over', label: words.cancelled },
};

/** Label and style of the link to an event. Only links that lead to tickets look like a button. */
export function wayTo({ phase, name }: Pick<Listed, 'phase' | 'name'>): { label: string; primary: boolean } {
  const { leads, label } = ways[phase];
  return { label: label(name), primary: leads === 'tickets' };
}

/** As they came, those that are over behind the others. */
export function inOrder<E extends Pick<Listed, 'phase'>>(events: readonly E[]): E[] {
  const isOver = ({ phase }: E): boolean => ways[phase].leads === 'over';
  return [...events.filter((event) => !isOver(event)), ...events.filter(isOver)];
}
