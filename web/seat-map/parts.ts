import type { EventObject } from '../../src/http/api-types.ts';
import type { Drawing } from './drawing.ts';

/** Seats of a choice that one hold can take together. */
export interface Part {
  partition: number;
  seats: number[];
  /** Names of the sections that they are in. */
  sections: string[];
}

/** The choice by the parts of the venue that are sold apart, in their order; one part where the venue is one. */
export function partsOf(
  event: Pick<EventObject, 'partitions'>,
  drawing: Pick<Drawing, 'sections' | 'sectionOf'>,
  seats: Iterable<number>,
): Part[] {
  const parts = new Map<number, Part>();
  for (const seat of seats) {
    const section = drawing.sections[drawing.sectionOf[seat] ?? -1];
    const partition = section ? partOfSection(event, section.id) : 0;
    const part = parts.get(partition) ?? { partition, seats: [], sections: [] };
    part.seats.push(seat);
    if (section && !part.sections.includes(section.name)) part.sections.push(section.name);
    parts.set(partition, part);
  }
  return [...parts.values()].sort((a, b) => a.partition - b.partition);
}

export function partOfSection({ partitions = [] }: Pick<EventObject, 'partitions'>, section: string): number {
  return partitions.find(({ sections }) => sections?.includes(section))?.partition ?? 0;
}
