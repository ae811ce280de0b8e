import type { EventNo } from '../core/hold.ts';
import { entryBounds, type OfflineScan, type ScanStanding } from './entry.ts';
import type { TicketCodeRead } from './ticket-code.ts';

/** As a gate without a network wrote it down: the code as it was read. */
export interface WrittenScan {
  code: string;
  scan: string;
  gate: string | null;
  /** Epoch ms by the gate's clock. */
  at: number;
}

export type ScanOutcome = ScanStanding | StrangeScan;

/** A code that is not ours, or of another event. The gate should not have accepted it. */
export interface StrangeScan {
  scan: string;
  kind: 'forged' | 'other_event';
  at: number;
  gate: string | null;
}

/** Scans of one event: the codes are verified here, what they name is taken in by `take`. One outcome a scan, in their order. */
export async function takeScans(
  parts: { verify(code: string): Promise<TicketCodeRead>; event: EventNo },
  written: readonly WrittenScan[],
  take: (scans: OfflineScan[]) => Promise<ScanStanding[]>,
): Promise<ScanOutcome[]> {
  const ours: OfflineScan[] = [];
  const judged: (number | StrangeScan)[] = [];
  for (const { code, scan, gate, at } of written) {
    const read = await parts.verify(code);
    if (read.kind !== 'valid') judged.push({ scan, kind: 'forged', at, gate });
    else if (read.code.event !== parts.event) judged.push({ scan, kind: 'other_event', at, gate });
    else judged.push(ours.push({ ticket: read.code.ticket, scan, gate, at }) - 1);
  }
  const standings = ours.length > 0 ? await take(ours) : [];
  return judged.map((one) => (typeof one === 'number' ? standings[one]! : one));
}

/** Parses a file of scans, times as ISO 8601. Returns null if it is no such file. */
export function readWrittenScans(text: string): WrittenScan[] | null {
  try {
    const list = JSON.parse(text) as unknown;
    return Array.isArray(list) ? list.map(writtenScan) : null;
  } catch {
    return null;
  }
}

function writtenScan(one: unknown): WrittenScan {
  const { code, scan, gate, at } = (one ?? {}) as Record<string, unknown>;
  const time = typeof at === 'string' ? Date.parse(at) : Number.NaN;
  const named = gate === undefined || gate === null || isText(gate, entryBounds.gateLengthMax);
  if (typeof code !== 'string' || !isText(scan, entryBounds.scanLengthMax) || !named || Number.isNaN(time)) {
    throw new SyntaxError('no scan');
  }
  return { code, scan, gate: (gate as string | undefined) ?? null, at: time };
}

/** Characters that the record cannot store. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is what it looks for
const unstorable = /[\u0000\p{Surrogate}]/u;
const isText = (value: unknown, lengthMax: number): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= lengthMax && !unstorable.test(value);
