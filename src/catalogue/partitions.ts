import type { EventNo, PartitionNo } from '../core/hold.ts';
import type { SeatFacts, SeatNo } from '../core/seat-map.ts';
import type { Db } from '../postgres/db.ts';

/** Each partition is polled by the leader and has a state of its own in its store. Partition 0 included. */
export const partitionsMax = 32;

/** The organiser's setting. Sections that no entry names form partition 0. */
export interface PartitionSetting {
  sections: string[];
  /** Name of a configured server (ONSALE_REDIS_SERVERS). Undefined for the default one. Never an address. */
  redis?: string;
}

/** A group of whole sections whose holds one arbiter state decides. */
export interface EventPartition {
  partition: PartitionNo;
  /** Ids of its sections, including those that a later plan left out. Null means all that no other partition names. */
  sections: string[] | null;
  /** The configured Redis that it is pinned to. Null is the default one. */
  store: string | null;
}

/** One partition, and it is everything: what an event has that asked for none. */
export const wholeVenue: EventPartition[] = [{ partition: 0, sections: null, store: null }];

export type PartitionsRead =
  | { kind: 'partitions'; partitions: EventPartition[] }
  /** `place`: a path below the list, such as `/0/sections/2`. Empty for the list itself. */
  | { kind: 'refused'; place: string; sentence: string };

/** Numbers the partitions, from 1 where sections are left over for partition 0, which otherwise is the first one named. */
export function readPartitions(
  settings: readonly PartitionSetting[],
  plan: { sections: readonly { id: string }[] },
  /** Names of the configured servers. Null if this process does not know them. */
  servers: readonly string[] | null,
): PartitionsRead {
  if (settings.length === 0) return { kind: 'partitions', partitions: wholeVenue };
  const known = new Set(plan.sections.map(({ id }) => id));
  const named = new Set<string>();
  for (const [i, { sections, redis }] of settings.entries()) {
    if (sections.length === 0) return refuse(`/${i}/sections`, 'Each partition names one section at least.');
    for (const [j, section] of sections.entries()) {
      const place = `/${i}/sections/${j}`;
      if (!known.has(section)) return refuse(place, `The plan has no section ${section}.`);
      if (named.has(section)) return refuse(place, `Section ${section} is named twice.`);
      named.add(section);
    }
    if (redis !== undefined && servers !== null && !servers.includes(redis)) {
      const offer =
        servers.length > 0 ? `the configured ones are ${servers.join(', ')}` : 'none is configured';
      return refuse(`/${i}/redis`, `There is no Redis server named ${redis}: ${offer}.`);
    }
  }
  const left = named.size < known.size ? 1 : 0;
  if (settings.length + left > partitionsMax) {
    return refuse('', `At most ${partitionsMax} partitions, the one of all other sections included.`);
  }
  return {
    kind: 'partitions',
    partitions: [
      ...wholeVenue.slice(0, left),
      ...settings.map(({ sections, redis }, i) => ({
        partition: i + left,
        sections: [...sections],
        store: redis ?? null,
      })),
    ],
  };
}

function refuse(place: string, sentence: string): PartitionsRead {
  return { kind: 'refused', place, sentence };
}

/** Which partition a section belongs to: the one that names it, else partition 0. */
export function partitionOfSection(partitions: readonly EventPartition[]): (section: string) => PartitionNo {
  const named = new Map<string, PartitionNo>();
  for (const { partition, sections } of partitions) {
    for (const section of sections ?? []) named.set(section, partition);
  }
  return (section) => named.get(section) ?? 0;
}

export async function eventPartitions(db: Db, event: EventNo): Promise<EventPartition[]> {
  return await db.query<EventPartition>(
    'event_partitions',
    'SELECT partition, sections, store FROM event_partitions WHERE event_no = $1 ORDER BY partition',
    [event],
  );
}

export type RegroupOutcome =
  | { kind: 'regrouped'; partitions: EventPartition[] }
  /** Seats that would leave their partition: a hold may cover them, and lives in one store. */
  | { kind: 'would_move'; seats: SeatFacts[] };

/**
 * The partitions under another version of the plan. A section keeps its partition. A new section that is only
 * a renamed one (all of its kept seats come from one partition) stays in that partition. Any other new
 * section goes to partition 0.
 */
export function regroup(
  partitions: readonly EventPartition[],
  before: readonly SeatFacts[],
  planned: readonly SeatFacts[],
): RegroupOutcome {
  const partitionOf = partitionOfSection(partitions);
  const known = new Set(before.map(({ sectionId }) => sectionId));
  for (const { sections } of partitions) for (const section of sections ?? []) known.add(section);
  const added = new Map<string, Set<PartitionNo>>();
  const oldPartition = (seat: SeatNo): PartitionNo | null => {
    const was = before[seat];
    return was ? partitionOf(was.sectionId) : null;
  };
  for (const { seatNo, sectionId } of planned) {
    if (known.has(sectionId)) continue;
    const from = added.get(sectionId) ?? new Set();
    added.set(sectionId, from);
    const old = oldPartition(seatNo);
    if (old !== null) from.add(old);
  }
  const grown = partitions.map((each) => ({ ...each, sections: each.sections && [...each.sections] }));
  for (const [section, from] of added) {
    const [only = 0] = from.size === 1 ? from : [];
    grown.find(({ partition }) => partition === only)?.sections?.push(section);
  }
  const present = partitionOfSection(grown);
  const moved = planned.filter(({ seatNo, sectionId }) => {
    const old = oldPartition(seatNo);
    return old !== null && old !== present(sectionId);
  });
  return moved.length > 0
    ? { kind: 'would_move', seats: moved.map(({ seatNo }) => before[seatNo]!) }
    : { kind: 'regrouped', partitions: grown };
}
