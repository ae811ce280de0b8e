import { useEffect, useRef, useState } from 'preact/hooks';
import type { EventObject } from '../../src/http/api-types.ts';
import { announce } from '../shared/live.tsx';
import { useStore } from '../shared/store.ts';
import { texts } from '../shared/texts/texts.ts';
import type { Drawing, DrawnSection } from './drawing.ts';
import { type Feed, isFree } from './feed.ts';
import { Legend } from './legend.tsx';
import { offerLine, offerOf } from './pricing.ts';
import { createStage, type Stage } from './stage.ts';

const words = texts.map.canvas;

/** The map: two canvases, zoom buttons, tooltip, legend. Choosing is the caller's (absent: only looking). */
export function MapView(props: {
  feed: Feed;
  drawing: Drawing;
  event: EventObject;
  selected: ReadonlySet<number>;
  mine: ReadonlySet<number>;
  onSeat?: (section: DrawnSection, place: number) => void;
  onGa?: (section: DrawnSection | null) => void;
}) {
  const { feed, drawing, event } = props;
  const venue = useStore(feed.store);
  const host = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const live = useRef<HTMLCanvasElement>(null);
  const stage = useRef<Stage | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [section, setSection] = useState<DrawnSection | null>(null);
  const [hover, setHover] = useState<{ text: string; x: number; y: number } | null>(null);
  const [onlyCategory, setOnlyCategory] = useState<number | null>(null);

  useEffect(() => {
    const left = (one: DrawnSection) => feed.store.get().counts?.sections[one.id] ?? 0;
    const created = createStage(
      { host: host.current!, base: base.current!, live: live.current! },
      drawing,
      {
        counts: feed.store.get().counts?.sections ?? null,
        bits: null,
        mine: latest.current.mine,
        selected: latest.current.selected,
        onlyCategory: null,
      },
      { leftText: words.left },
      {
        onSeat: (one, place) => latest.current.onSeat?.(one, place),
        onSection: (one) => {
          setSection(one);
          // On a phone the seats begin below the fold, under the choice that is pinned to the lower edge.
          if (one && window.innerWidth < 960) host.current?.parentElement?.scrollIntoView({ block: 'start' });
          feed.watch(one?.kind === 'seated' ? one.id : null);
          latest.current.onGa?.(one?.kind === 'ga' ? one : null);
          announce(one ? words.entered(one.name, left(one)) : words.wholeShown);
        },
        onCursor: (one, place) => announce(spoken(one, place)),
        onHover: (at) => setHover(at && { text: spoken(at.section, at.place), x: at.x, y: at.y }),
      },
    );
    function spoken(one: DrawnSection, place: number | null): string {
      if (place === null) return words.section(one.name, left(one));
      const { mine, selected } = latest.current;
      const seat = one.seatNos[place]!;
      const free = isFree(feed.store.get().bits, place);
      const state = selected.has(seat)
        ? texts.map.state.selected
        : mine.has(seat)
          ? texts.map.state.mine
          : free === null
            ? texts.map.state.unknown
            : free
              ? texts.map.state.free
              : texts.map.state.taken;
      return `${offerLine(offerOf(drawing, event, seat), event.currency)}, ${state}`;
    }
    stage.current = created;
    return () => {
      feed.watch(null);
      created.destroy();
    };
  }, [drawing, feed]);

  useEffect(() => stage.current?.update({ counts: venue.counts?.sections ?? null }), [venue.counts]);
  useEffect(() => stage.current?.update({ bits: venue.bits, mine: props.mine }), [venue.bits, props.mine]);
  useEffect(() => stage.current?.update({ selected: props.selected }), [props.selected]);
  useEffect(() => stage.current?.update({ onlyCategory }), [onlyCategory]);

  return (
    <div class="map">
      <div class="map-bar">
        <p class="map-where" aria-hidden="true">
          {section ? `${section.name} · ${words.left(venue.counts?.sections[section.id] ?? 0)}` : words.hint}
        </p>
        <div class="map-buttons">
          {section && (
            <button type="button" class="button small" onClick={() => stage.current?.showWhole()}>
              {words.whole}
            </button>
          )}
          <button
            type="button"
            class="button small icon"
            aria-label={words.zoomOut}
            onClick={() => stage.current?.zoom(1 / 1.6)}
          >
            <span aria-hidden="true">−</span>
          </button>
          <button
            type="button"
            class="button small icon"
            aria-label={words.zoomIn}
            onClick={() => stage.current?.zoom(1.6)}
          >
            <span aria-hidden="true">+</span>
          </button>
        </div>
      </div>
      <div
        class="map-stage"
        ref={host}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application is operated by its own keys, as its description says.
        tabIndex={0}
        role="application"
        aria-label={words.label}
        aria-describedby="map-help"
      >
        <canvas ref={base} />
        <canvas ref={live} />
        {hover && <Tip {...hover} />}
      </div>
      <p id="map-help" class="map-help muted small">
        {words.help}
      </p>
      <Legend
        categories={drawing.categories}
        event={event}
        only={onlyCategory}
        onOnly={setOnlyCategory}
        counts={venue.counts?.categories ?? null}
      />
    </div>
  );
}

function Tip(props: { text: string; x: number; y: number }) {
  return (
    <div
      class="map-tip"
      aria-hidden="true"
      ref={(node) => {
        if (!node) return;
        const half = node.offsetWidth / 2;
        const width = node.parentElement!.clientWidth;
        const x = Math.min(Math.max(props.x, half + 6), width - half - 6);
        const below = props.y < 64;
        node.style.transform = `translate(${x - half}px, ${below ? props.y + 22 : props.y - node.offsetHeight - 14}px)`;
      }}
    >
      {props.text}
    </div>
  );
}
