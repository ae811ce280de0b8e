import type { PlanDecoration } from '../../src/core/seat-map.ts';
import { type Drawing, type DrawnSection, middleOf } from './drawing.ts';
import { isFree } from './feed.ts';
import { inkOn, type Look, type Palette, type Sprites } from './sprites.ts';
import { type Size, toScreen, type Viewport } from './viewport.ts';

/** Everything that one picture of the venue depends on. */
export interface Scene {
  drawing: Drawing;
  view: Viewport;
  size: Size;
  ratio: number;
  palette: Palette;
  sprites: Sprites;
  /** Free seats per section id; null while not known. */
  counts: Record<string, number> | null;
  /** The section whose seats are drawn. */
  active: DrawnSection | null;
  bits: Uint8Array | null;
  /** Seats of the buyer's own hold: free to himself. */
  mine: ReadonlySet<number>;
  selected: ReadonlySet<number>;
  onlyCategory: number | null;
  leftText: (left: number) => string;
}

export interface Pointing {
  hoverSection: DrawnSection | null;
  hoverPlace: number;
  /** Keyboard's place: in the active section a seat, else a section. */
  cursorSection: DrawnSection | null;
  cursorPlace: number;
  focused: boolean;
}

/** CSS pixels between neighbours from which on single seats are drawn. */
export const seatPitchMin = 7;

export function showsSeats(section: DrawnSection | null, view: Viewport): section is DrawnSection {
  return section !== null && section.kind === 'seated' && section.pitch * view.scale >= seatPitchMin;
}

/** Base layer: decorations, sections, the active section's seats. Redrawn when the view or the data changes. */
export function paintBase(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { size, ratio, palette, drawing, view } = scene;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = palette.ground;
  ctx.fillRect(0, 0, size.width, size.height);
  for (const decoration of drawing.decorations) paintDecoration(ctx, scene, decoration);
  for (const section of drawing.sections) {
    if (!inView(section, scene)) continue;
    if (section === scene.active && showsSeats(section, view)) {
      paintOpenSection(ctx, scene, section);
      paintSeats(ctx, scene, section);
    } else paintClosedSection(ctx, scene, section);
  }
}

function inView(section: DrawnSection, { view, size }: Scene): boolean {
  const [left, top] = toScreen(view, section.box.left, section.box.top);
  const [right, bottom] = toScreen(view, section.box.right, section.box.bottom);
  return right >= 0 && bottom >= 0 && left <= size.width && top <= size.height;
}

function tracePath(ctx: CanvasRenderingContext2D, points: readonly [number, number][], view: Viewport): void {
  ctx.beginPath();
  points.forEach(([x, y], i) => {
    const [px, py] = toScreen(view, x, y);
    if (i === 0) ctx.moveTo(px, py);
    else ctx.lineTo(px, py);
  });
  ctx.closePath();
}

function paintOpenSection(
  ctx: CanvasRenderingContext2D,
  { palette, view }: Scene,
  section: DrawnSection,
): void {
  tracePath(ctx, section.outline, view);
  ctx.fillStyle = palette.surface;
  ctx.fill();
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = palette.line;
  ctx.stroke();
}

/** A section seen from afar: the fuller the colour the more is left; nothing left is hatched. */
function paintClosedSection(ctx: CanvasRenderingContext2D, scene: Scene, section: DrawnSection): void {
  const { palette, view, drawing, counts, onlyCategory } = scene;
  const left = counts?.[section.id] ?? null;
  const dim = onlyCategory !== null && !section.category.includes(onlyCategory);
  const color = drawing.categories[onlyCategory ?? section.mainCategory]?.color ?? palette.taken;
  tracePath(ctx, section.outline, view);
  ctx.fillStyle = palette.surface;
  ctx.fill();
  if (left !== 0) {
    const share = left === null ? 0.5 : left / Math.max(1, section.seatNos.length);
    ctx.globalAlpha = dim ? 0.08 : 0.22 + 0.5 * Math.sqrt(share);
    ctx.fillStyle = color;
    ctx.fill();
    ctx.globalAlpha = 1;
  } else hatch(ctx, scene, section);
  ctx.lineWidth = 1;
  ctx.strokeStyle = left === 0 || dim ? palette.line : color;
  tracePath(ctx, section.outline, view);
  ctx.stroke();
  paintLabel(ctx, scene, section, left);
}

function hatch(ctx: CanvasRenderingContext2D, { palette, view }: Scene, section: DrawnSection): void {
  const [left, top] = toScreen(view, section.box.left, section.box.top);
  const [right, bottom] = toScreen(view, section.box.right, section.box.bottom);
  ctx.save();
  ctx.clip();
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  const height = bottom - top;
  for (let x = left - height; x < right; x += 7) {
    ctx.moveTo(x, bottom);
    ctx.lineTo(x + height, top);
  }
  ctx.stroke();
  ctx.restore();
}

function paintLabel(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  section: DrawnSection,
  left: number | null,
): void {
  const { view, palette } = scene;
  const room = section.room * view.scale;
  const fontSize = Math.min(15, Math.max(9.5, room * 0.75));
  ctx.font = `600 ${fontSize}px system-ui, sans-serif`;
  // A label may reach a little over a slanted edge, not into the neighbour.
  if (room < 6 || ctx.measureText(section.name).width > room * 3) return;
  const [x, y] = toScreen(view, section.center[0], section.center[1]);
  const second = left !== null && room > fontSize * 1.5 ? scene.leftText(left) : null;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.lineJoin = 'round';
  ctx.strokeStyle = palette.surface;
  ctx.lineWidth = 3;
  ctx.fillStyle = palette.ink;
  const write = (text: string, at: number) => {
    ctx.strokeText(text, x, at);
    ctx.fillText(text, x, at);
  };
  if (!second) {
    write(section.name, y);
    return;
  }
  write(section.name, y - fontSize * 0.6);
  ctx.font = `${fontSize * 0.85}px system-ui, sans-serif`;
  if (ctx.measureText(second).width <= room * 2.4) write(second, y + fontSize * 0.6);
}

/** The diameter of a seat on screen. */
export function seatSize(section: DrawnSection, view: Viewport): number {
  return Math.min(34, Math.max(4, section.pitch * view.scale * 0.86));
}

/** Seats that are at least this wide bear their number. */
const numberedFromPx = 24;

function paintSeats(ctx: CanvasRenderingContext2D, scene: Scene, section: DrawnSection): void {
  const { view, size, drawing, sprites, bits, mine, onlyCategory, palette } = scene;
  const diameter = seatSize(section, view);
  const half = diameter / 2;
  const numbered = diameter >= numberedFromPx;
  ctx.font = `600 ${diameter * 0.4}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  for (let i = 0; i < section.x.length; i++) {
    const x = (section.x[i]! - view.x) * view.scale;
    const y = (section.y[i]! - view.y) * view.scale;
    if (x < -half || y < -half || x > size.width + half || y > size.height + half) continue;
    const free = mine.has(section.seatNos[i]!) ? true : isFree(bits, i);
    const off = onlyCategory !== null && section.category[i] !== onlyCategory;
    const look: Look = free === null ? 'unknown' : !free ? 'taken' : off ? 'dim' : 'free';
    const color = drawing.categories[section.category[i]!]?.color ?? palette.ink2;
    ctx.drawImage(sprites(look, color, section.flags[i]!, diameter), x - half, y - half, diameter, diameter);
    if (look === 'free' && numbered && section.flags[i] === 0) {
      ctx.fillStyle = inkOn(color);
      ctx.fillText(section.labels[i]!, x, y);
    }
  }
  if (diameter >= 16) paintRowLabels(ctx, scene, section, diameter);
}

function paintRowLabels(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  section: DrawnSection,
  diameter: number,
): void {
  const { view, palette } = scene;
  ctx.font = `600 ${Math.min(13, diameter * 0.55)}px system-ui, sans-serif`;
  ctx.fillStyle = palette.ink2;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'center';
  for (const row of section.rows) {
    const last = row.first + row.count - 1;
    for (const [at, beside] of [
      [row.first, row.first + 1],
      [last, last - 1],
    ] as const) {
      const next = row.count > 1 ? beside : at;
      let dx = section.x[at]! - section.x[next]!;
      let dy = section.y[at]! - section.y[next]!;
      const length = Math.hypot(dx, dy);
      [dx, dy] = length > 0 ? [dx / length, dy / length] : [at === last ? 1 : -1, 0];
      const [x, y] = toScreen(view, section.x[at]!, section.y[at]!);
      ctx.fillText(row.label, x + dx * diameter * 1.15, y + dy * diameter * 1.15);
    }
  }
}

function paintDecoration(ctx: CanvasRenderingContext2D, scene: Scene, decoration: PlanDecoration): void {
  const { view, palette } = scene;
  const { shape } = decoration;
  ctx.fillStyle = decoration.color || palette.line;
  ctx.strokeStyle = decoration.borderColor || palette.line;
  ctx.lineWidth = 1;
  ctx.globalAlpha = palette.dark ? 0.35 : 0.8;
  if (shape.kind === 'polygon') {
    tracePath(ctx, shape.points, view);
    ctx.fill();
    ctx.stroke();
  } else if (shape.kind === 'ellipse') {
    const [x, y] = toScreen(view, shape.cx, shape.cy);
    ctx.beginPath();
    ctx.ellipse(
      x,
      y,
      shape.rx * view.scale,
      shape.ry * view.scale,
      (shape.rotation * Math.PI) / 180,
      0,
      Math.PI * 2,
    );
    ctx.fill();
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
  const text = shape.kind === 'text' ? shape.text : decoration.label;
  if (shape.kind !== 'text' && !scene.drawing.labelled.has(decoration)) return;
  const at = shape.kind === 'text' ? ([shape.x, shape.y] as const) : middleOf(decoration);
  if (!text || !at) return;
  const fontSize = Math.min(22, shape.kind === 'text' ? shape.size * view.scale : 14);
  if (fontSize < 7) return;
  const [x, y] = toScreen(view, at[0], at[1]);
  ctx.font = `600 ${fontSize}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.lineWidth = 3;
  ctx.strokeStyle = palette.ground;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = palette.ink;
  ctx.fillText(text, x, y);
}

/** Live layer: selection, hover and the keyboard's place. Cheap, so that moving the pointer never redraws the venue. */
export function paintLive(ctx: CanvasRenderingContext2D, scene: Scene, pointing: Pointing): void {
  const { size, ratio, palette, view, drawing, selected, sprites } = scene;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, size.width, size.height);
  const { hoverSection, cursorSection, focused } = pointing;
  const detail = showsSeats(scene.active, view);
  if (hoverSection && !(detail && hoverSection === scene.active)) {
    tracePath(ctx, hoverSection.outline, view);
    ctx.lineWidth = 2.5;
    ctx.strokeStyle = palette.ink;
    ctx.stroke();
  }
  for (const seat of selected) {
    const section = drawing.sections[drawing.sectionOf[seat] ?? -1];
    if (section?.kind !== 'seated') continue;
    const place = drawing.placeOf[seat]!;
    const [x, y] = toScreen(view, section.x[place]!, section.y[place]!);
    const diameter = Math.max(10, seatSize(section, view) * 1.12);
    ctx.drawImage(
      sprites('selected', palette.ink, section.flags[place]!, diameter),
      x - diameter / 2,
      y - diameter / 2,
      diameter,
      diameter,
    );
  }
  if (detail && pointing.hoverPlace >= 0) ring(ctx, scene, scene.active!, pointing.hoverPlace, palette.ink);
  if (!focused || !cursorSection) return;
  if (detail && pointing.cursorPlace >= 0 && cursorSection === scene.active) {
    ring(ctx, scene, cursorSection, pointing.cursorPlace, palette.focus);
  } else {
    tracePath(ctx, cursorSection.outline, view);
    ctx.lineWidth = 6;
    ctx.strokeStyle = palette.surface;
    ctx.stroke();
    ctx.lineWidth = 3;
    ctx.strokeStyle = palette.focus;
    ctx.stroke();
  }
}

function ring(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  section: DrawnSection,
  place: number,
  color: string,
): void {
  const [x, y] = toScreen(scene.view, section.x[place]!, section.y[place]!);
  const radius = seatSize(section, scene.view) / 2 + 3;
  for (const [width, stroke] of [
    [5, scene.palette.surface],
    [2.5, color],
  ] as const) {
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, Math.PI * 2);
    ctx.lineWidth = width;
    ctx.strokeStyle = stroke;
    ctx.stroke();
  }
}
