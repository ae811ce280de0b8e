import type { Box } from './drawing.ts';

/** The visible part of the drawing: `x`, `y` is its top left corner in drawing units, `scale` is in CSS pixels per unit. */
export interface Viewport {
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

/** The box whole and centred, with a margin in CSS pixels; never larger than `scaleMax`. */
export function fit(box: Box, size: Size, margin: number, scaleMax = Number.POSITIVE_INFINITY): Viewport {
  const width = Math.max(1, box.right - box.left);
  const height = Math.max(1, box.bottom - box.top);
  const scale = Math.min(
    scaleMax,
    Math.max(1, size.width - 2 * margin) / width,
    Math.max(1, size.height - 2 * margin) / height,
  );
  return centred((box.left + box.right) / 2, (box.top + box.bottom) / 2, scale, size);
}

export function centred(x: number, y: number, scale: number, size: Size): Viewport {
  return { x: x - size.width / 2 / scale, y: y - size.height / 2 / scale, scale };
}

/** Zooms so that the drawing's point under (`px`, `py`) stays there. */
export function zoomAt(
  view: Viewport,
  factor: number,
  px: number,
  py: number,
  limits: { min: number; max: number },
): Viewport {
  const scale = Math.min(Math.max(view.scale * factor, limits.min), limits.max);
  return { x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale, scale };
}

export function panBy(view: Viewport, px: number, py: number): Viewport {
  return { ...view, x: view.x - px / view.scale, y: view.y - py / view.scale };
}

/** Keeps the centre of the screen over the drawing, so that panning never shows only empty space. */
export function clampTo(view: Viewport, drawing: Size, size: Size): Viewport {
  const halfWidth = size.width / 2 / view.scale;
  const halfHeight = size.height / 2 / view.scale;
  const middleX = Math.min(Math.max(view.x + halfWidth, 0), drawing.width);
  const middleY = Math.min(Math.max(view.y + halfHeight, 0), drawing.height);
  return { ...view, x: middleX - halfWidth, y: middleY - halfHeight };
}

export const toScreen = (view: Viewport, x: number, y: number): [number, number] => [
  (x - view.x) * view.scale,
  (y - view.y) * view.scale,
];

export const toDrawing = (view: Viewport, px: number, py: number): [number, number] => [
  view.x + px / view.scale,
  view.y + py / view.scale,
];

/** A step of an eased move, `t` from 0 to 1; scale moves geometrically, which is how zooming feels even. */
export function between(a: Viewport, b: Viewport, t: number, size: Size): Viewport {
  const eased = 1 - (1 - t) ** 3;
  const scale = a.scale * (b.scale / a.scale) ** eased;
  const middle = (v: Viewport) => [v.x + size.width / 2 / v.scale, v.y + size.height / 2 / v.scale] as const;
  const [ax, ay] = middle(a);
  const [bx, by] = middle(b);
  return centred(ax + (bx - ax) * eased, ay + (by - ay) * eased, scale, size);
}
