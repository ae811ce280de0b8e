import { type Point, rounded } from '../core/plan-geometry.ts';
import type { AreaShape, PlanDecoration, PlanExtras } from '../core/seat-map.ts';
import { planLimits } from '../core/seat-map.ts';
import { drawingColor } from './colors.ts';
import type { Findings } from './findings.ts';
import type { JsonObject, JsonReader } from './json-reader.ts';

/** A GA area as the file has it; the caller gives it its place among the sections. */
export interface GaArea {
  capacity: number;
  category: string;
  label: string;
  outline: Point[];
  extras: PlanExtras | undefined;
}

const understood = new Set([
  'shape',
  'color',
  'border_color',
  'rotation',
  'position',
  'polygon',
  'rectangle',
  'ellipse',
  'circle',
  'text',
  'capacity',
  'category',
  'label',
  'width',
  'height',
]);
const known = new Set(['uuid']);

/**
 * Reads one area: a decoration (a shape, its text, or both) or, with our key `capacity`, general admission.
 * Rotation is in degrees clockwise about the area's position; a rectangle's position is its upper left corner.
 */
export function readArea(
  area: JsonObject,
  origin: { x: number; y: number },
  path: string,
  reader: JsonReader,
  findings: Findings,
): { decorations: PlanDecoration[]; ga: GaArea | null } {
  const at =
    area.position === undefined ? { x: 0, y: 0 } : reader.position(area.position, `${path}.position`);
  if (!at) return { decorations: [], ga: null };
  const x = origin.x + at.x;
  const y = origin.y + at.y;
  const degrees =
    area.rotation === undefined || area.rotation === null ? 0 : reader.number(area, 'rotation', path);
  const turn = turnAbout(x, y, degrees);
  const shape = readShape(area, { x, y, degrees, turn }, path, reader, findings);
  const extras = reader.extras(area, understood, known, path);
  const label = reader.optionalText(area, 'label', path) ?? '';
  const words = readText(area, { x, y, turn }, path, reader, findings);

  if (area.capacity !== undefined && area.capacity !== null) {
    const capacity = reader.number(area, 'capacity', path);
    if (!Number.isInteger(capacity) || capacity < 1 || capacity > planLimits.seatsMax) {
      findings.refuse(
        'bad_capacity',
        `A capacity is a whole number from 1 to ${planLimits.seatsMax}.`,
        `${path}.capacity`,
      );
    }
    const outline = shape ? outlineOf(shape) : [];
    if (outline.length < 3) {
      findings.refuse(
        'no_outline',
        'A general-admission area needs a polygon, rectangle, ellipse or circle.',
        path,
      );
    }
    const category = reader.text(area, 'category', path);
    const name = label || (words?.shape.kind === 'text' ? words.shape.text : '');
    return { decorations: [], ga: { capacity, category, label: name, outline, extras } };
  }

  const decorations: PlanDecoration[] = [];
  if (shape) {
    decorations.push({
      shape,
      color: drawingColor(reader.optionalText(area, 'color', path), `${path}.color`, findings),
      borderColor: drawingColor(
        reader.optionalText(area, 'border_color', path),
        `${path}.border_color`,
        findings,
      ),
      label,
      ...(extras ? { extras } : {}),
    });
  }
  if (words) decorations.push(shape || !extras ? words : { ...words, extras });
  return { decorations, ga: null };
}

interface Frame {
  x: number;
  y: number;
  turn: (px: number, py: number) => Point;
}

function turnAbout(x: number, y: number, degrees: number): (px: number, py: number) => Point {
  if (degrees === 0) return (px, py) => [rounded(px), rounded(py)];
  const angle = (degrees * Math.PI) / 180;
  const cos = Math.cos(angle);
  const sin = Math.sin(angle);
  return (px, py) => [
    rounded(x + (px - x) * cos - (py - y) * sin),
    rounded(y + (px - x) * sin + (py - y) * cos),
  ];
}

function readShape(
  area: JsonObject,
  frame: Frame & { degrees: number },
  path: string,
  reader: JsonReader,
  findings: Findings,
): AreaShape | null {
  // The older form has no `shape`: a flat width and height mean a rectangle.
  const shape = area.shape === undefined ? 'rectangle' : area.shape;
  const { x, y, turn, degrees } = frame;
  if (shape === 'text') return null;
  if (shape === 'rectangle') {
    const at = area.rectangle === undefined ? path : `${path}.rectangle`;
    const size = area.rectangle === undefined ? area : reader.object(area.rectangle, at);
    if (!size) return null;
    const w = reader.number(size, 'width', at);
    const h = reader.number(size, 'height', at);
    return { kind: 'polygon', points: [turn(x, y), turn(x + w, y), turn(x + w, y + h), turn(x, y + h)] };
  }
  if (shape === 'polygon') {
    const polygon = reader.object(area.polygon, `${path}.polygon`);
    const points = polygon
      ? reader.list(polygon.points, `${path}.polygon.points`, planLimits.pointsPerShapeMax)
      : [];
    return {
      kind: 'polygon',
      points: points.flatMap((value, i): Point[] => {
        const point = reader.position(value, `${path}.polygon.points[${i}]`);
        return point ? [turn(x + point.x, y + point.y)] : [];
      }),
    };
  }
  const centre = { kind: 'ellipse' as const, cx: rounded(x), cy: rounded(y) };
  if (shape === 'circle') {
    const circle = reader.object(area.circle, `${path}.circle`);
    const radius = circle ? Math.abs(reader.number(circle, 'radius', `${path}.circle`)) : 0;
    return { ...centre, rx: radius, ry: radius, rotation: 0 };
  }
  if (shape === 'ellipse') {
    const ellipse = reader.object(area.ellipse, `${path}.ellipse`);
    const radius = ellipse ? reader.position(ellipse.radius, `${path}.ellipse.radius`) : null;
    return { ...centre, rx: Math.abs(radius?.x ?? 0), ry: Math.abs(radius?.y ?? 0), rotation: degrees };
  }
  findings.refuse(
    'unknown_shape',
    'A shape is polygon, rectangle, ellipse, circle or text.',
    `${path}.shape`,
  );
  return null;
}

function readText(
  area: JsonObject,
  { x, y, turn }: Frame,
  path: string,
  reader: JsonReader,
  findings: Findings,
): PlanDecoration | null {
  if (area.text === undefined || area.text === null) return null;
  if (typeof area.text === 'string') {
    const text = reader.text(area, 'text', path);
    if (text === '') return null;
    const w = typeof area.width === 'number' ? area.width : 0;
    const h = typeof area.height === 'number' ? area.height : 0;
    const [tx, ty] = turn(x + w / 2, y + h / 2);
    return { shape: { kind: 'text', x: tx, y: ty, size: 16, text }, color: '', borderColor: '', label: '' };
  }
  const at = `${path}.text`;
  const words = reader.object(area.text, at);
  if (!words) return null;
  const text = reader.text(words, 'text', at);
  if (text === '') return null;
  const offset =
    words.position === undefined ? { x: 0, y: 0 } : reader.position(words.position, `${at}.position`);
  const [tx, ty] = turn(x + (offset?.x ?? 0), y + (offset?.y ?? 0));
  const size = words.size === undefined ? 16 : reader.number(words, 'size', at);
  return {
    shape: { kind: 'text', x: tx, y: ty, size: Math.max(1, size), text },
    color: drawingColor(reader.optionalText(words, 'color', at), `${at}.color`, findings),
    borderColor: '',
    label: '',
  };
}

/** The corners to draw; an ellipse becomes 48 of them. */
function outlineOf(shape: AreaShape): Point[] {
  if (shape.kind === 'polygon') return shape.points;
  if (shape.kind === 'text') return [];
  const turned = turnAbout(shape.cx, shape.cy, shape.rotation);
  return Array.from({ length: 48 }, (_, i) => {
    const angle = (i / 48) * 2 * Math.PI;
    return turned(shape.cx + shape.rx * Math.cos(angle), shape.cy + shape.ry * Math.sin(angle));
  });
}
