import { planLimits } from '../core/seat-map.ts';
import { type Findings, quoted } from './findings.ts';
import { shortHash } from './labels.ts';

/** Hands out seatGuids and refuses one that a manifest gives twice, with both lines. */
export function createGuids(findings: Findings): { take(wanted: string, line: number): string } {
  const lines = new Map<string, number>();
  return {
    take(wanted, line) {
      const max = planLimits.labelLengthMax;
      const guid = wanted.length > max ? `${wanted.slice(0, max - 9)}~${shortHash(wanted)}` : wanted;
      const first = lines.get(guid);
      if (first !== undefined) {
        findings.refuse(
          'duplicate_guid',
          `The id ${quoted(guid)} already stands on line ${first}; give every seat its own.`,
          `line ${line}`,
        );
      }
      lines.set(guid, line);
      return guid;
    },
  };
}
