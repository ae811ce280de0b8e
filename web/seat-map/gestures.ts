import type { Direction } from './neighbours.ts';

/** Gestures on the map by touch, mouse, wheel and keyboard. Positions are in CSS pixels within the element. */
export interface Gestures {
  tap(x: number, y: number): void;
  hover(x: number, y: number): void;
  unhover(): void;
  pan(dx: number, dy: number): void;
  zoom(factor: number, x: number, y: number): void;
  arrow(direction: Direction): void;
  choose(): void;
  /** One level out; false when there is none, so that Escape goes on to the page. */
  back(): boolean;
  keyZoom(factor: number): void;
  focus(focused: boolean): void;
}

/** A press that moves less is a tap. */
const tapSlopPx = 7;

const arrows: Record<string, Direction> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down',
};

export function trackGestures(host: HTMLElement, on: Gestures): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let travelled = 0;
  let pinched = false;
  const at = (event: { clientX: number; clientY: number }) => {
    const box = host.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  const down = (event: PointerEvent) => {
    if (event.pointerType === 'mouse' && event.button !== 0) return;
    on.focus(false);
    if (pointers.size === 0) {
      travelled = 0;
      pinched = false;
    }
    pointers.set(event.pointerId, at(event));
    if (pointers.size > 1) pinched = true;
  };

  const moved = (event: PointerEvent) => {
    const now = at(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === 'mouse') on.hover(now.x, now.y);
      return;
    }
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)![1];
      const distance = Math.hypot(before.x - other.x, before.y - other.y);
      const factor = distance > 0 ? Math.hypot(now.x - other.x, now.y - other.y) / distance : 1;
      on.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
      on.zoom(factor, (now.x + other.x) / 2, (now.y + other.y) / 2);
    } else if (pointers.size === 1) {
      travelled += Math.hypot(now.x - before.x, now.y - before.y);
      if (travelled > tapSlopPx) {
        // Captured only once it is a drag: a tap keeps its own target.
        if (!host.hasPointerCapture(event.pointerId)) host.setPointerCapture(event.pointerId);
        on.unhover();
        on.pan(now.x - before.x, now.y - before.y);
      }
    }
    pointers.set(event.pointerId, now);
  };

  const up = (event: PointerEvent) => {
    const had = pointers.delete(event.pointerId);
    if (!had || event.type !== 'pointerup' || pinched || travelled > tapSlopPx) return;
    const { x, y } = at(event);
    on.tap(x, y);
  };

  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 18 : 1;
    const { x, y } = at(event);
    on.zoom(Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 120 : 420)), x, y);
  };

  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    on.focus(true);
    const direction = arrows[event.key];
    if (direction) on.arrow(direction);
    else if (event.key === 'Enter' || event.key === ' ') on.choose();
    else if (event.key === '+' || event.key === '=') on.keyZoom(1.5);
    else if (event.key === '-') on.keyZoom(1 / 1.5);
    else if (event.key === 'Escape') {
      if (!on.back()) return;
    } else return;
    event.preventDefault();
  };

  const leave = (event: PointerEvent) => {
    if (event.pointerType === 'mouse') on.unhover();
  };
  // The keyboard's place is shown to who uses the keyboard, not on a click.
  const focus = () => on.focus(host.matches(':focus-visible'));
  const blur = () => on.focus(false);
  host.addEventListener('pointerdown', down);
  host.addEventListener('pointermove', moved);
  host.addEventListener('pointerup', up);
  host.addEventListener('pointercancel', up);
  host.addEventListener('pointerleave', leave);
  host.addEventListener('wheel', wheel, { passive: false });
  host.addEventListener('keydown', key);
  host.addEventListener('focus', focus);
  host.addEventListener('blur', blur);
  return () => {
    host.removeEventListener('pointerdown', down);
    host.removeEventListener('pointermove', moved);
    host.removeEventListener('pointerup', up);
    host.removeEventListener('pointercancel', up);
    host.removeEventListener('pointerleave', leave);
    host.removeEventListener('wheel', wheel);
    host.removeEventListener('keydown', key);
    host.removeEventListener('focus', focus);
    host.removeEventListener('blur', blur);
  };
}
