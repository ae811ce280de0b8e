import { type Drawing, type DrawnSection, seatAt, sectionAt } from './drawing.ts';
import { trackGestures } from './gestures.ts';
import { type Direction, neighbour } from './neighbours.ts';
import { type Pointing, paintBase, paintLive, type Scene, seatSize, showsSeats } from './paint.ts';
import { createSprites, readPalette } from './sprites.ts';
import {
  between,
  clampTo,
  fit,
  panBy,
  type Size,
  toDrawing,
  toScreen,
  type Viewport,
  zoomAt,
} from './viewport.ts';

/** Events that the canvases report to the page. */
export interface StageEvents {
  /** A seat was chosen by pointer or keyboard. */
  onSeat(section: DrawnSection, place: number): void;
  /** Called when another section comes into view. Null means the whole venue. */
  onSection(section: DrawnSection | null): void;
  /** The keyboard's place has moved. */
  onCursor(section: DrawnSection, place: number | null): void;
  onHover(at: { section: DrawnSection; place: number | null; x: number; y: number } | null): void;
}

export type StageData = Pick<Scene, 'counts' | 'bits' | 'mine' | 'selected' | 'onlyCategory'>;

const marginPx = 14;
/** Seats are opened at least this far apart, so that a finger finds them. */
const openPitchPx = 20;
const tapReachPx = 18;
const seatPitchMaxPx = 60;
const moveMs = 260;

/** Two canvases, their view and their input. Nothing here knows about prices, holds or words. */
export function createStage(
  elements: { host: HTMLElement; base: HTMLCanvasElement; live: HTMLCanvasElement },
  drawing: Drawing,
  data: StageData,
  texts: Pick<Scene, 'leftText'>,
  events: StageEvents,
) {
  const { host, base, live } = elements;
  const baseContext = base.getContext('2d', { alpha: false })!;
  const liveContext = live.getContext('2d')!;
  const palette = readPalette(host);
  const ratio = Math.min(window.devicePixelRatio || 1, 2.5);
  const scene: Scene = {
    drawing,
    view: { x: 0, y: 0, scale: 1 },
    size: { width: 1, height: 1 },
    ratio,
    palette,
    sprites: createSprites(palette, ratio),
    active: null,
    ...data,
    ...texts,
  };
  const pointing: Pointing = {
    hoverSection: null,
    hoverPlace: -1,
    cursorSection: null,
    cursorPlace: -1,
    focused: false,
  };
  const calm = window.matchMedia('(prefers-reduced-motion: reduce)');
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  let dirtyBase = false;
  let dirtyLive = false;
  let frame = 0;
  let move: { from: Viewport; to: Viewport; start: number } | null = null;
  let fitted = false;

  const pitchMin = Math.min(...drawing.sections.map((section) => section.pitch));
  const limits = () => ({
    min: overview().scale * 0.8,
    max: Math.max(seatPitchMaxPx / (Number.isFinite(pitchMin) ? pitchMin : 200), overview().scale * 2),
  });

  function overview(): Viewport {
    return fit(drawing.box, scene.size, marginPx);
  }

  function invalidate(what: 'base' | 'live'): void {
    if (what === 'base') dirtyBase = true;
    dirtyLive = true;
    frame ||= requestAnimationFrame(draw);
  }

  function draw(time: number): void {
    frame = 0;
    if (move) {
      const t = Math.min(1, (time - move.start) / moveMs);
      scene.view = t >= 1 ? move.to : between(move.from, move.to, Math.max(0, t), scene.size);
      if (t >= 1) {
        move = null;
        settle();
      } else dirtyBase = true;
    }
    if (dirtyBase) paintBase(baseContext, scene);
    if (dirtyLive) paintLive(liveContext, scene, pointing);
    dirtyBase = false;
    dirtyLive = false;
    if (move) invalidate('base');
  }

  function setView(view: Viewport, animated = false): void {
    const wanted = clampTo(view, drawing, scene.size);
    if (animated && !calm.matches && document.visibilityState === 'visible') {
      move = { from: scene.view, to: wanted, start: performance.now() };
    } else {
      move = null;
      scene.view = wanted;
      settle();
    }
    invalidate('base');
  }

  /** Which section is in view once the view rests: the one in the middle, if its seats are large enough to be drawn. */
  function settle(): void {
    const [x, y] = toDrawing(scene.view, scene.size.width / 2, scene.size.height / 2);
    const current = scene.active;
    const near = sectionAt(drawing, x, y) ?? current;
    const zoomedIn = scene.view.scale > overview().scale * 1.15;
    setActive(near && zoomedIn && (near === current || showsSeats(near, scene.view)) ? near : null);
    // One finger scrolls the page while the whole venue is shown, and the map once it is zoomed.
    host.style.touchAction = zoomedIn ? 'none' : 'pan-y';
  }

  function setActive(section: DrawnSection | null): void {
    if (section === scene.active) return;
    scene.active = section;
    pointing.cursorPlace = -1;
    if (section) pointing.cursorSection = section;
    events.onSection(section);
    invalidate('base');
  }

  function enter(section: DrawnSection): void {
    pointing.cursorSection = section;
    // After the view has moved, the pointer is over another thing.
    unhover();
    setActive(section);
    const whole = fit(section.box, scene.size, 28);
    const scale =
      section.kind === 'seated' ? Math.max(whole.scale, openPitchPx / section.pitch) : whole.scale;
    const capped = Math.min(scale, limits().max);
    const { box } = section;
    const box2 = capped > whole.scale ? around((box.left + box.right) / 2, (box.top + box.bottom) / 2) : box;
    setView(fit(box2, scene.size, 28, capped), true);
  }

  function showWhole(): void {
    setActive(null);
    setView(overview(), true);
  }

  function hit(px: number, py: number): { section: DrawnSection; place: number | null } | null {
    const [x, y] = toDrawing(scene.view, px, py);
    const { active } = scene;
    if (showsSeats(active, scene.view)) {
      // As far as the middle between two rows: a finger that is a little off means the nearest seat.
      const reach = Math.max(seatSize(active, scene.view) * 0.65, tapReachPx) / scene.view.scale;
      const place = seatAt(active, x, y, reach);
      if (place >= 0) return { section: active, place };
    }
    const section = sectionAt(drawing, x, y);
    return section ? { section, place: null } : null;
  }

  function tap(px: number, py: number): void {
    const found = hit(px, py);
    if (!found) return;
    if (found.place !== null) events.onSeat(found.section, found.place);
    else if (found.section !== scene.active) enter(found.section);
  }

  function hover(px: number, py: number): void {
    const found = hit(px, py);
    const place = found?.place ?? -1;
    if (found?.section === pointing.hoverSection && place === pointing.hoverPlace) return;
    pointing.hoverSection = found?.section ?? null;
    pointing.hoverPlace = place;
    events.onHover(found ? { ...found, x: px, y: py } : null);
    invalidate('live');
  }

  function unhover(): void {
    pointing.hoverSection = null;
    pointing.hoverPlace = -1;
    events.onHover(null);
    invalidate('live');
  }

  function arrow(direction: Direction): void {
    const { active } = scene;
    if (active && showsSeats(active, scene.view)) {
      const from = pointing.cursorPlace;
      const next = from < 0 ? middleSeat(active) : neighbour(active.x, active.y, from, direction);
      if (next < 0) return;
      pointing.cursorPlace = next;
      keepInSight(active.x[next]!, active.y[next]!);
      events.onCursor(active, next);
    } else {
      const centers = drawing.sections.map((section) => section.center);
      const from = pointing.cursorSection?.index ?? -1;
      const xs = centers.map((c) => c[0]);
      const ys = centers.map((c) => c[1]);
      const next = from < 0 ? 0 : neighbour(xs, ys, from, direction);
      const section = drawing.sections[next];
      if (!section) return;
      pointing.cursorSection = section;
      events.onCursor(section, null);
    }
    invalidate('live');
  }

  function keepInSight(x: number, y: number): void {
    const [px, py] = toScreen(scene.view, x, y);
    const margin = 40;
    const dx = Math.max(0, margin - px) - Math.max(0, px - (scene.size.width - margin));
    const dy = Math.max(0, margin - py) - Math.max(0, py - (scene.size.height - margin));
    if (dx !== 0 || dy !== 0) {
      scene.view = clampTo(panBy(scene.view, dx, dy), drawing, scene.size);
      invalidate('base');
    }
  }

  function choose(): void {
    const { active } = scene;
    if (active && showsSeats(active, scene.view)) {
      if (pointing.cursorPlace >= 0) events.onSeat(active, pointing.cursorPlace);
      else arrow('down');
    } else if (pointing.cursorSection) enter(pointing.cursorSection);
  }

  function zoom(
    factor: number,
    px = scene.size.width / 2,
    py = scene.size.height / 2,
    animated = false,
  ): void {
    setView(zoomAt(move?.to ?? scene.view, factor, px, py, limits()), animated);
  }

  const stopGestures = trackGestures(host, {
    tap,
    hover,
    unhover,
    pan: (dx, dy) => setView(panBy(scene.view, dx, dy)),
    zoom: (factor, px, py) => zoom(factor, px, py),
    arrow,
    choose,
    back: () => {
      if (!scene.active && scene.view.scale <= overview().scale * 1.05) return false;
      showWhole();
      return true;
    },
    keyZoom: (factor) => zoom(factor, undefined, undefined, true),
    focus: (focused) => {
      pointing.focused = focused;
      invalidate('live');
    },
  });

  function resize(): void {
    const size: Size = { width: Math.max(1, host.clientWidth), height: Math.max(1, host.clientHeight) };
    const [x, y] = toDrawing(scene.view, scene.size.width / 2, scene.size.height / 2);
    scene.size = size;
    for (const canvas of [base, live]) {
      canvas.width = Math.round(size.width * ratio);
      canvas.height = Math.round(size.height * ratio);
    }
    if (!fitted || !scene.active) scene.view = overview();
    else
      scene.view = {
        ...scene.view,
        x: x - size.width / 2 / scene.view.scale,
        y: y - size.height / 2 / scene.view.scale,
      };
    fitted = true;
    settle();
    invalidate('base');
  }
  const observer = new ResizeObserver(resize);
  observer.observe(host);
  const onScheme = () => {
    scene.palette = readPalette(host);
    scene.sprites = createSprites(scene.palette, ratio);
    invalidate('base');
  };
  dark.addEventListener('change', onScheme);

  return {
    update(patch: Partial<StageData>): void {
      Object.assign(scene, patch);
      const onlySelection = Object.keys(patch).every((key) => key === 'selected');
      invalidate(onlySelection ? 'live' : 'base');
    },
    enter,
    showWhole,
    zoom: (factor: number) => zoom(factor, undefined, undefined, true),
    destroy(): void {
      observer.disconnect();
      dark.removeEventListener('change', onScheme);
      stopGestures();
      cancelAnimationFrame(frame);
    },
  };
}

export type Stage = ReturnType<typeof createStage>;

function around(x: number, y: number) {
  return { left: x - 1, right: x + 1, top: y - 1, bottom: y + 1 };
}

/** Where the keyboard enters a section: the seat nearest to its middle. */
function middleSeat(section: DrawnSection): number {
  return seatAt(section, section.center[0], section.center[1], Number.POSITIVE_INFINITY);
}
