import type { SeatingPlan } from '../core/seat-map.ts';
import type { Findings } from './findings.ts';
export type ManifestMapping = Partial<
  Record<
    'section' | 'row' | 'seat' | 'x' | 'y' | 'category' | 'group' | 'id' | 'attributes' | 'capacity',
    string
  >
>;
export function readManifest(
  _text: string,
  _findings: Findings,
  _options: { mapping?: ManifestMapping; name?: string },
): SeatingPlan | null {
  throw new Error('not yet');
}
