export type Direction = 'left' | 'right' | 'up' | 'down';

const vectors: Record<Direction, readonly [number, number]> = {
  left: [-1, 0],
  right: [1, 0],
  up: [0, -1],
  down: [0, 1],
};

/**
 * The point that an arrow key leads to: the nearest one ahead, where going sideways costs more than going ahead, so that a
 * curved row is followed and a row above is met near the same spot. -1 when nothing lies ahead.
 */
export function neighbour(
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  from: number,
  direction: Direction,
): number {
  const [dx, dy] = vectors[direction];
  let best = -1;
  let bestCost = Number.POSITIVE_INFINITY;
  for (let i = 0; i < x.length; i++) {
    if (i === from) continue;
    const ax = x[i]! - x[from]!;
    const ay = y[i]! - y[from]!;
    const ahead = ax * dx + ay * dy;
    const aside = Math.abs(ax * dy - ay * dx);
    // Considers seats within 63 degrees of the arrow's direction. Seats further aside belong to another arrow.
    if (ahead <= 0 || aside > 2 * ahead) continue;
    const cost = ahead + 2 * aside;
    if (cost < bestCost) {
      bestCost = cost;
      best = i;
    }
  }
  return best;
}
