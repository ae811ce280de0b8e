import { flagOf } from './drawing.ts';

/** How a seat looks. Shape and sign tell the state; colour only adds the category. */
export type Look = 'free' | 'taken' | 'unknown' | 'selected' | 'dim';

export interface Palette {
  ground: string;
  surface: string;
  ink: string;
  ink2: string;
  line: string;
  taken: string;
  accent: string;
  accentInk: string;
  focus: string;
  dark: boolean;
}

export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    ground: of('--map-ground'),
    surface: of('--surface'),
    ink: of('--ink'),
    ink2: of('--ink-2'),
    line: of('--line'),
    taken: of('--seat-taken'),
    accent: of('--accent'),
    accentInk: of('--accent-ink'),
    focus: of('--focus'),
    dark: window.matchMedia('(prefers-color-scheme: dark)').matches,
  };
}

/** Seats are drawn once each look and stamped: a thousand stamps cost less than a hundred paths. */
export function createSprites(palette: Palette, ratio: number) {
  const cache = new Map<string, HTMLCanvasElement>();
  return (look: Look, color: string, flags: number, size: number): HTMLCanvasElement => {
    const pixels = Math.max(2, Math.round(size * ratio));
    const key = `${look}|${color}|${flags}|${pixels}`;
    let sprite = cache.get(key);
    if (!sprite) {
      sprite = document.createElement('canvas');
      sprite.width = pixels;
      sprite.height = pixels;
      const ctx = sprite.getContext('2d');
      if (ctx) paintSeat(ctx, pixels, look, color, flags, palette);
      if (cache.size > 600) cache.clear();
      cache.set(key, sprite);
    }
    return sprite;
  };
}

export type Sprites = ReturnType<typeof createSprites>;

export function paintSeat(
  ctx: CanvasRenderingContext2D,
  size: number,
  look: Look,
  color: string,
  flags: number,
  palette: Palette,
): void {
  const middle = size / 2;
  const radius = size * 0.44;
  const special = (flags & (flagOf.accessible | flagOf.companion)) !== 0;
  const outline = () => {
    ctx.beginPath();
    if (special) ctx.roundRect(middle - radius, middle - radius, radius * 2, radius * 2, radius * 0.35);
    else ctx.arc(middle, middle, radius, 0, Math.PI * 2);
  };
  if (look === 'taken' || look === 'unknown') {
    paintTaken(ctx, size, look, palette, outline);
    return;
  }

  outline();
  ctx.fillStyle = look === 'selected' ? palette.ink : color;
  ctx.globalAlpha = look === 'dim' ? 0.18 : 1;
  ctx.fill();
  ctx.lineWidth = Math.max(1, size * 0.06);
  ctx.strokeStyle = palette.dark ? 'rgb(255 255 255 / 55%)' : 'rgb(0 0 0 / 45%)';
  ctx.stroke();
  const mark = look === 'selected' ? palette.surface : inkOn(color);
  if (look === 'selected') paintCheck(ctx, size, mark);
  else if (flags !== 0 && size >= 11) paintSign(ctx, size, flags, mark);
  ctx.globalAlpha = 1;
}

/** Draws taken seats hollow and crossed, so that they differ from free ones without colour. */
function paintTaken(
  ctx: CanvasRenderingContext2D,
  size: number,
  look: Look,
  palette: Palette,
  outline: () => void,
): void {
  ctx.strokeStyle = palette.taken;
  ctx.lineWidth = Math.max(1, size * 0.07);
  outline();
  ctx.stroke();
  if (look === 'unknown') return;
  const arm = size * 0.2;
  const middle = size / 2;
  ctx.beginPath();
  ctx.moveTo(middle - arm, middle - arm);
  ctx.lineTo(middle + arm, middle + arm);
  ctx.moveTo(middle + arm, middle - arm);
  ctx.lineTo(middle - arm, middle + arm);
  ctx.stroke();
}

function paintCheck(ctx: CanvasRenderingContext2D, size: number, color: string): void {
  ctx.strokeStyle = color;
  ctx.lineWidth = Math.max(1.5, size * 0.12);
  ctx.lineCap = 'round';
  ctx.lineJoin = 'round';
  ctx.beginPath();
  ctx.moveTo(size * 0.28, size * 0.52);
  ctx.lineTo(size * 0.44, size * 0.67);
  ctx.lineTo(size * 0.73, size * 0.34);
  ctx.stroke();
}

/** Wheelchair space, companion seat, restricted view: a letter-like sign each. */
function paintSign(ctx: CanvasRenderingContext2D, size: number, flags: number, color: string): void {
  ctx.fillStyle = color;
  ctx.strokeStyle = color;
  if (flags & flagOf['restricted-view']) {
    ctx.lineWidth = size * 0.12;
    ctx.beginPath();
    ctx.moveTo(size * 0.24, size * 0.5);
    ctx.lineTo(size * 0.76, size * 0.5);
    ctx.stroke();
    return;
  }
  if (flags & flagOf.accessible) {
    paintWheelchair(ctx, size);
    return;
  }
  ctx.font = `700 ${size * 0.56}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillText('C', size / 2, size * 0.54);
}

/** Drawn, since not every device has a font with the sign. */
function paintWheelchair(ctx: CanvasRenderingContext2D, size: number): void {
  ctx.lineWidth = Math.max(1, size * 0.08);
  ctx.beginPath();
  ctx.arc(size * 0.45, size * 0.25, size * 0.075, 0, Math.PI * 2);
  ctx.fill();
  ctx.beginPath();
  ctx.moveTo(size * 0.45, size * 0.37);
  ctx.lineTo(size * 0.45, size * 0.56);
  ctx.lineTo(size * 0.63, size * 0.56);
  ctx.lineTo(size * 0.71, size * 0.74);
  ctx.stroke();
  ctx.beginPath();
  ctx.arc(size * 0.45, size * 0.62, size * 0.19, Math.PI * 0.15, Math.PI * 1.3);
  ctx.stroke();
}

/** Black or white, whichever reads better on the colour. */
export function inkOn(color: string): string {
  const hex = /^#([0-9a-f]{6})$/i.exec(color)?.[1];
  if (!hex) return '#000000';
  const channel = (at: number) => {
    const c = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  const light = 0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4);
  return light > 0.18 ? '#000000' : '#ffffff';
}
