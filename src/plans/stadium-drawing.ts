import type { PretixArea, PretixZone } from './pretix-format.ts';
import type { StadiumCurve } from './stadium-curve.ts';

/** Metres around the outermost row for the concourse and the edge of the drawing. */
export const stadiumMargin = 8;

type Units = (metres: number) => number;

/** Draws the parts that are not sold: the concourse around the bowl, the pitch with its markings, the stage. */
export function stadiumDrawing(
  curve: StadiumCurve,
  depth: number,
  scale: number,
  unitsX: Units,
  unitsY: Units,
): PretixZone {
  const length = 105 * scale;
  const width = 68 * scale;
  const line = '#ffffff';
  const base = { rotation: 0, position: { x: 0, y: 0 } };

  const ring = (at: number, color: string, border: string, label: string): PretixArea => ({
    ...base,
    shape: 'polygon',
    color,
    border_color: border,
    label,
    polygon: { points: curve.line(at, 0, 1, 120).map(([x, y]) => ({ x: unitsX(x), y: unitsY(y) })) },
  });
  const box = (
    cx: number,
    cy: number,
    w: number,
    h: number,
    color: string,
    border: string,
    label = '',
  ): PretixArea => ({
    ...base,
    shape: 'rectangle',
    color,
    border_color: border,
    label,
    position: { x: unitsX(cx - w / 2), y: unitsY(cy - h / 2) },
    rectangle: { width: Math.round(unitsX(w) - unitsX(0)), height: Math.round(unitsY(h) - unitsY(0)) },
  });
  const circle = (cx: number, cy: number, radius: number, color: string): PretixArea => ({
    ...base,
    shape: 'circle',
    color,
    border_color: line,
    position: { x: unitsX(cx), y: unitsY(cy) },
    circle: { radius: Math.round(unitsX(radius) - unitsX(0)) },
  });
  const words = (cx: number, cy: number, size: number, text: string, color: string): PretixArea => ({
    ...base,
    shape: 'text',
    position: { x: unitsX(cx), y: unitsY(cy) },
    text: { text, size, color, position: { x: 0, y: 0 } },
  });

  const stageAt = length / 2 - 6 * scale;
  const areas = [
    ring(depth + 3, '#e6e8eb', '#c3c7cc', 'Concourse'),
    ring(-2, '#d9dde1', '', ''),
    box(0, 0, length + 4, width + 4, '#3f8f4f', ''),
    box(0, 0, length, width, '#4a9c5a', line, 'Pitch'),
    box(0, 0, 0.2, width, line, line),
    circle(0, 0, 9.15 * scale, ''),
    circle(0, 0, 0.4, line),
    box(-(length / 2) + 8.25 * scale, 0, 16.5 * scale, 40.3 * scale, '', line),
    box(length / 2 - 8.25 * scale, 0, 16.5 * scale, 40.3 * scale, '', line),
    box(-(length / 2) + 2.75 * scale, 0, 5.5 * scale, 18.3 * scale, '', line),
    box(length / 2 - 2.75 * scale, 0, 5.5 * scale, 18.3 * scale, '', line),
    box(stageAt, 0, 14 * scale, 30 * scale, '#2b2f36', '#14161a', 'Stage'),
    words(stageAt, 0, 150, 'Stage', line),
  ];
  return { name: '', zone_id: 'drawing', drawing_only: true, position: { x: 0, y: 0 }, rows: [], areas };
}
