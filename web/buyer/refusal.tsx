import { useEffect } from 'preact/hooks';
import { type Drawing, wordsOf } from '../seat-map/drawing.ts';
import { partsOf } from '../seat-map/parts.ts';
import { announce } from '../shared/live.tsx';
import { Notice } from '../shared/shell.tsx';
import { listed } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { AcrossChoice } from './across.tsx';
import { holdSeats, moveHold, recallHold } from './basket-acts.ts';
import type { Buyer, BuyerState, Refusal } from './session.ts';

const titles: Record<Refusal['kind'], string> = {
  taken: texts.map.taken.title,
  hold_exists: texts.map.exists.title,
  across: texts.map.parts.title,
};

/** A refused hold, said where it happened, with what can be done instead. */
export function RefusalView(props: {
  buyer: Buyer;
  state: BuyerState;
  drawing: Drawing | null;
  replaces: string | null;
  onTake: (seats: ReadonlySet<number>) => void;
}) {
  const { buyer, state, drawing } = props;
  const { refusal } = state;
  const words = texts.map.taken;
  useEffect(() => {
    if (refusal) announce(titles[refusal.kind]);
  }, [refusal]);
  if (!refusal) return null;
  if (refusal.kind === 'across') return <AcrossView {...props} refusal={refusal} />;
  if (refusal.kind === 'hold_exists') {
    return (
      <Notice tone="warn" title={texts.map.exists.title} insight>
        <p>{texts.map.exists.text}</p>
        <div class="row">
          <button
            type="button"
            class="button primary"
            onClick={() => void holdSeats(buyer, refusal.wish, refusal.hold)}
          >
            {texts.map.exists.swap}
          </button>
          <button type="button" class="button" onClick={() => void recallHold(buyer, refusal.hold)}>
            {texts.map.exists.keep}
          </button>
        </div>
      </Notice>
    );
  }
  const best = 'best' in refusal.wish;
  return (
    <Notice tone="warn" title={words.title} insight>
      <p>
        {best
          ? words.bestNone
          : refusal.seats.length > 0
            ? words.text(inWords(drawing, refusal.seats))
            : words.textAny}
      </p>
      {refusal.nearest.length > 0 ? (
        <>
          <p>{`${words.nearest} ${inWords(drawing, refusal.nearest)}`}</p>
          <div>
            <button
              type="button"
              class="button primary"
              onClick={() => {
                props.onTake(new Set(refusal.nearest));
                void holdSeats(buyer, { seats: refusal.nearest.map((seat) => ({ seat })) }, props.replaces);
              }}
            >
              {words.take}
            </button>
          </div>
        </>
      ) : (
        !best && <p>{words.none}</p>
      )}
      {best && props.replaces && (state.event?.partitions?.length ?? 0) > 1 && (
        <>
          <p>{texts.map.parts.bestHere}</p>
          <div>
            <button type="button" class="button" onClick={() => void moveHold(buyer, refusal.wish)}>
              {texts.map.parts.bestAnywhere}
            </button>
          </div>
        </>
      )}
    </Notice>
  );
}

/**
 * The page's own map usually says this before anything is requested. This is for a case that the map did not
 * foresee.
 */
function AcrossView(props: {
  buyer: Buyer;
  state: BuyerState;
  drawing: Drawing | null;
  onTake: (seats: ReadonlySet<number>) => void;
  refusal: Extract<Refusal, { kind: 'across' }>;
}) {
  const { buyer, state, drawing, refusal } = props;
  const words = texts.map.parts;
  if (refusal.parts.length > 1) {
    const parts = refusal.parts.map(({ partition, seats }) => ({
      partition,
      seats,
      sections: drawing && state.event ? (partsOf(state.event, drawing, seats)[0]?.sections ?? []) : [],
    }));
    return (
      <AcrossChoice
        parts={parts}
        label={words.keep}
        onPart={({ seats }) => {
          props.onTake(new Set(seats));
          buyer.store.set({ refusal: null });
        }}
      />
    );
  }
  return (
    <Notice tone="warn" title={words.title} insight>
      <p>{words.away}</p>
      <div class="row">
        <button type="button" class="button primary" onClick={() => void moveHold(buyer, refusal.wish)}>
          {words.move}
        </button>
        <button
          type="button"
          class="button"
          onClick={() => buyer.store.set({ changing: false, refusal: null })}
        >
          {texts.map.keepOld}
        </button>
      </div>
    </Notice>
  );
}

/** Seats in words, those of one row together. */
export function inWords(drawing: Drawing | null, seats: readonly number[]): string {
  if (!drawing) return listed(seats.map(String));
  const rows = new Map<string, { section: string; row: string; numbers: string[] }>();
  for (const seat of seats) {
    const words = wordsOf(drawing, seat);
    const key = `${words.section}|${words.row}`;
    const group = rows.get(key) ?? { section: words.section, row: words.row, numbers: [] };
    group.numbers.push(words.number);
    rows.set(key, group);
  }
  return listed(
    [...rows.values()].map(
      ({ section, row, numbers }) =>
        `${texts.map.sectionName(section)}, ${texts.map.seatsInRow(row, numbers)}`,
    ),
  );
}
