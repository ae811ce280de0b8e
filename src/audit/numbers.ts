import type { AuditedEvent, AuditSources, Comparison, Looked, Violation } from './audit-sources.ts';
import { queueShards } from './queue.ts';

/** Compares W1 with the stores that issue numbers: how far each has come, what is known about it and where it must stop. */
export async function compareNumbers(sources: AuditSources, event: AuditedEvent): Promise<Comparison> {
  const looked: Looked[] = [];
  const violations: Violation[] = [];
  const unread: string[] = [];
  const violate = (shard: number, says: string): void => {
    const remedy =
      'Stop the Redis that issues the numbers: they then come from Postgres, above the ceiling. Report the fault.';
    const key = `${shard} ${says.replace(/\d+/g, '')}`;
    violations.push({ promise: 'W1', key, seat: null, order: null, hold: null, says, remedy });
  };
  const before = await queueShards(sources.db, event.event);
  for (const { shard, store, epoch, runIds, last, passed } of before.filter(({ mode }) => mode === 'redis')) {
    const unreadable = (why: string): void => {
      const says = `the numbers of shard ${shard} could not be read: ${why}`;
      looked.push({ promise: 'W1', unchecked: says });
      unread.push(says);
    };
    if (!sources.numbers) {
      unreadable('there is no way to their Redis from here');
      continue;
    }
    try {
      const seen = await sources.numbers(event.event, { shard, store, epoch, runIds });
      if (seen.kind === 'stale') {
        unreadable(`Redis knows epoch ${seen.epoch}, the record names ${epoch}`);
        continue;
      }
      // The record's ceiling rises before Redis's does: what is read of it afterwards is above all that Redis may issue.
      const ceiling = (await queueShards(sources.db, event.event)).find(
        (row) => row.shard === shard,
      )?.ceiling;
      const known = Math.max(last, passed);
      if (seen.last < known) {
        violate(
          shard,
          `Redis has issued shard ${shard}'s numbers to ${seen.last}, the record knows of ${known}`,
        );
      }
      if (ceiling !== undefined && Math.max(seen.last + 1, seen.ceiling) > ceiling) {
        violate(
          shard,
          `Redis has issued shard ${shard}'s numbers to ${seen.last} and stops below ${seen.ceiling}, the record says below ${ceiling}`,
        );
      }
      looked.push({
        promise: 'W1',
        evidence: `shard ${shard} in Redis: issued to ${seen.last}, the record knows of ${known} and stops it below ${ceiling}`,
      });
    } catch (error) {
      unreadable((error as Error).message);
    }
  }
  return { looked, violations, unread };
}
