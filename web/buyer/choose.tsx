import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Phase } from '../../src/core/phase.ts';
import { type Drawing, type DrawnSection, wordsOf } from '../seat-map/drawing.ts';
import { type Feed, startFeed } from '../seat-map/feed.ts';
import { MapView } from '../seat-map/map-view.tsx';
import { partsOf } from '../seat-map/parts.ts';
import { SeatList } from '../seat-map/seat-list.tsx';
import { lostSeats, toggle } from '../seat-map/selection.ts';
import { useServerNow } from '../shared/clock.ts';
import { announce } from '../shared/live.tsx';
import { Notice, ViewHeading } from '../shared/shell.tsx';
import { useStore } from '../shared/store.ts';
import { clockFace, timeOfDay } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { AccessCode, hasCodes } from './access-code.tsx';
import { holdSeats, moveHold } from './basket-acts.ts';
import { BestForm } from './best.tsx';
import { GaForm } from './ga.tsx';
import { endSession } from './line-acts.ts';
import { inWords, RefusalView } from './refusal.tsx';
import { SelectionPanel } from './selection-panel.tsx';
import { type Buyer, type BuyerState, passLeftMs } from './session.ts';

type Way = 'best' | 'map' | 'list';
const noSeats: ReadonlySet<number> = new Set();

/** Choosing seats: best available first, then the map or the list. The selection stays visible next to them. */
export function ChooseView({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const event = state.event!;
  const feed = useFeed(buyer.eventId, event.layout);
  const { drawing } = useStore(feed.store);
  const mine = useMemo(() => new Set(state.hold?.seats.map((seat) => seat.seat)), [state.hold]);
  const [way, setWay] = useState<Way>(state.hold ? 'map' : 'best');
  const [selected, setSelected] = useState<ReadonlySet<number>>(mine.size > 0 ? mine : noSeats);
  const [ga, setGa] = useState<DrawnSection | null>(null);
  const replaces = state.hold?.hold ?? null;
  const max = event.limits.holdSeatsMax;
  useLosses(feed, drawing, selected, mine, setSelected);
  useRefusedSeats(state, setSelected, setWay);

  const onSeat = (section: DrawnSection, place: number) => {
    const result = toggle(section, place, selected, { bits: feed.store.get().bits, mine, max });
    if (result.kind === 'taken') return announce(texts.map.state.taken);
    if (result.kind === 'too_many') return announce(texts.map.selection.max(max));
    setSelected(result.selected);
    const where = drawing ? texts.map.seat(wordsOf(drawing, section.seatNos[place]!)) : '';
    const say = result.kind === 'added' ? texts.map.selection.added : texts.map.selection.removed;
    announce(say(where, result.selected.size));
    if (state.refusal) buyer.store.set({ refusal: null });
  };

  const parts = drawing ? partsOf(event, drawing, selected) : [];
  const heldPart = drawing && state.hold ? (partsOf(event, drawing, mine)[0]?.partition ?? null) : null;
  const away = heldPart !== null && parts.length === 1 && parts[0]!.partition !== heldPart;
  const hold = () => {
    const wish = { seats: [...selected].sort((a, b) => a - b).map((seat) => ({ seat })) };
    void (away ? moveHold(buyer, wish) : holdSeats(buyer, wish, replaces));
  };
  const panel = (
    <SelectionPanel
      event={event}
      drawing={drawing}
      selected={selected}
      busy={state.busy === 'hold'}
      onRemove={(seat) => setSelected(new Set([...selected].filter((one) => one !== seat)))}
      onClear={() => setSelected(noSeats)}
      parts={parts}
      away={away}
      onPart={(part) => setSelected(new Set(part.seats))}
      onHold={hold}
    />
  );
  const shared = { feed, event, selected, mine, onSeat, onGa: setGa };
  return (
    <section class="choose stack">
      <div class="choose-head">
        <ViewHeading>{state.hold ? texts.map.changeTitle : texts.map.title}</ViewHeading>
        <SessionEnd buyer={buyer} state={state} />
      </div>
      {state.hold && <ChangeNote buyer={buyer} />}
      <NotNow phase={state.status!.phase} />
      <RefusalView buyer={buyer} state={state} drawing={drawing} onTake={setSelected} replaces={replaces} />
      {hasCodes(event) && <CodeWhileChoosing buyer={buyer} state={state} />}
      <Ways way={way} onWay={setWay} />
      <div class={way === 'best' ? 'choose-grid narrow-grid' : 'choose-grid'}>
        <div class="choose-main card">
          {way === 'best' && <BestForm buyer={buyer} state={state} feed={feed} replaces={replaces} />}
          {way !== 'best' && !drawing && <p class="pulse map-loading">{texts.loading}</p>}
          {way === 'map' && drawing && <MapView {...shared} drawing={drawing} />}
          {way === 'list' && drawing && <SeatList {...shared} drawing={drawing} />}
          {way !== 'best' && ga && (
            <GaForm buyer={buyer} state={state} feed={feed} section={ga} replaces={replaces} />
          )}
        </div>
        {(way !== 'best' || selected.size > 0) && panel}
      </div>
    </section>
  );
}

/** Few have a code, and the seats are what the page is for: closed until it is wanted, or until one is in use. */
function CodeWhileChoosing({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const code = <AccessCode buyer={buyer} state={state} />;
  if (state.code) return <div class="card">{code}</div>;
  return (
    <details
      class="card access-code-closed"
      open={state.problem?.field === '/code' || state.codeOver !== null}
    >
      <summary>{texts.access.have}</summary>
      <div class="stack">
        <p class="muted">{texts.access.help}</p>
        {code}
      </div>
    </details>
  );
}

/** The map without a pass: to look at while waiting or before the sale. */
export function LookView({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const event = state.event!;
  const feed = useFeed(buyer.eventId, event.layout);
  const { drawing } = useStore(feed.store);
  const [way, setWay] = useState<Way>('map');
  const shared = { feed, event, selected: noSeats, mine: noSeats };
  return (
    <section class="choose stack">
      <div class="choose-head">
        <ViewHeading>{texts.map.canvas.label}</ViewHeading>
        <button type="button" class="button" onClick={() => buyer.store.set({ looking: false })}>
          {state.place ? texts.waiting.title : texts.event.backFromLook}
        </button>
      </div>
      <Notice>
        <p>{texts.event.lookOnly}</p>
      </Notice>
      <Ways way={way} onWay={setWay} without="best" />
      <div class="card">
        {!drawing && <p class="pulse map-loading">{texts.loading}</p>}
        {way === 'map' && drawing && <MapView {...shared} drawing={drawing} />}
        {way === 'list' && drawing && <SeatList {...shared} drawing={drawing} />}
      </div>
    </section>
  );
}

/** Seats can be looked at in any phase, and held only while the sale is open. */
function NotNow({ phase }: { phase: Phase }) {
  const codes: Partial<Record<Phase, string>> = {
    paused: 'paused',
    sold_out: 'sold_out',
    closed: 'sale_closed',
  };
  const text = texts.problems.byCode[codes[phase] ?? ''];
  useEffect(() => {
    if (text) announce(text);
  }, [text]);
  if (!text) return null;
  return (
    <Notice tone="warn" title={texts.phases[phase]}>
      <p>{text}</p>
    </Notice>
  );
}

function Ways(props: { way: Way; onWay: (way: Way) => void; without?: Way }) {
  return (
    <fieldset class="ways">
      <legend class="visually-hidden">{texts.map.ways.label}</legend>
      {(['best', 'map', 'list'] as const)
        .filter((way) => way !== props.without)
        .map((way) => (
          <label key={way} class={props.way === way ? 'on' : ''}>
            <input type="radio" name="way" checked={props.way === way} onChange={() => props.onWay(way)} />
            {texts.map.ways[way]}
          </label>
        ))}
    </fieldset>
  );
}

function SessionEnd({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const now = useServerNow();
  const left = state.pass ? state.pass.expiresAt - now : 0;
  const minutes = Math.ceil(left / 60_000);
  useEffect(() => {
    if ([5, 2, 1].includes(minutes)) announce(texts.session.warn(minutes));
  }, [minutes]);
  useEffect(() => {
    if (state.pass && passLeftMs(state.pass) <= 0) endSession(buyer);
  }, [left <= 0]);
  if (!state.pass) return null;
  return (
    <p class={minutes <= 2 ? 'session-end soon' : 'session-end'}>
      {texts.session.ends(timeOfDay(state.pass.expiresAt))}{' '}
      <span class="num nowrap">{texts.session.left(clockFace(left))}</span>
    </p>
  );
}

function ChangeNote({ buyer }: { buyer: Buyer }) {
  return (
    <Notice>
      <p>{texts.map.changeHelp}</p>
      <div>
        <button
          type="button"
          class="button small"
          onClick={() => buyer.store.set({ changing: false, refusal: null })}
        >
          {texts.map.keepOld}
        </button>
      </div>
    </Notice>
  );
}

/** Seats that a refusal named leave the choice, and the map is shown so that others can be picked. */
function useRefusedSeats(
  state: BuyerState,
  setSelected: (update: (old: ReadonlySet<number>) => ReadonlySet<number>) => void,
  setWay: (update: (old: Way) => Way) => void,
): void {
  const { refusal } = state;
  useEffect(() => {
    if (refusal?.kind !== 'taken' || 'best' in refusal.wish) return;
    setSelected((old) => new Set([...old].filter((seat) => !refusal.seats.includes(seat))));
    setWay((old) => (old === 'best' ? 'map' : old));
  }, [refusal]);
}

/** Chosen seats that others took meanwhile leave the choice, and it is said. */
function useLosses(
  feed: Feed,
  drawing: Drawing | null,
  selected: ReadonlySet<number>,
  mine: ReadonlySet<number>,
  setSelected: (seats: ReadonlySet<number>) => void,
): void {
  const venue = useStore(feed.store);
  const before = useRef<Uint8Array | null>(null);
  useEffect(() => {
    if (!drawing || !venue.bits || venue.bits === before.current) return;
    before.current = venue.bits;
    const section = drawing.sections.find((one) => one.id === venue.section);
    if (!section) return;
    const lost = lostSeats(drawing, section, venue.bits, selected, mine);
    if (lost.length === 0) return;
    setSelected(new Set([...selected].filter((seat) => !lost.includes(seat))));
    announce(texts.map.selection.lost(inWords(drawing, lost)));
  }, [venue.bits, drawing]);
}

function useFeed(eventId: string, layout: string): Feed {
  const feed = useMemo(() => startFeed(eventId, layout), [eventId, layout]);
  useEffect(() => () => feed.stop(), [feed]);
  return feed;
}
