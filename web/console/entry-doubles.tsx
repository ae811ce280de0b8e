import { useRef, useState } from 'preact/hooks';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { shortDateTime } from '../shared/texts/format.ts';
import { sayPlace, TakeBack } from './entry-take-back.tsx';
import { type Said, SaidView } from './fields.tsx';
import { LongList } from './long-list.tsx';
import type { EntrySums } from './shapes.ts';

const words = consoleTexts.entry;
const { doubles } = words;

type Double = EntrySums['doubleUses'][number];

/**
 * Tickets with which more than one person came in. This is known after gates without a network have handed
 * over their scans.
 */
export function Doubles(props: { event: string; sums: EntrySums; onChanged: () => void }) {
  const { event, sums } = props;
  const [said, setSaid] = useState<Said>(null);
  /** The use that is asked about. */
  const [asking, setAsking] = useState<string | null>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  return (
    <section class="card stack">
      <h3 tabIndex={-1} ref={heading}>
        {doubles.title}
      </h3>
      {sums.doubleUses.length === 0 && <p class="muted">{doubles.none}</p>}
      {sums.doubleUses.length > 0 && <p class="muted">{doubles.help}</p>}
      {sums.revoked > 0 && <p>{doubles.revoked(sums.revoked)}</p>}
      <SaidView said={said} />
      <LongList
        items={sums.doubleUses}
        keyOf={({ ticket }) => ticket}
        row={(one) => (
          <OneDouble
            event={event}
            one={one}
            asking={asking}
            onAsk={setAsking}
            onEnded={(text) => {
              setAsking(null);
              if (!text) return;
              setSaid(text);
              // Its row may be gone: what came of it is said here.
              heading.current?.focus();
              props.onChanged();
            }}
          />
        )}
      />
    </section>
  );
}

function OneDouble(props: {
  event: string;
  one: Double;
  asking: string | null;
  onAsk: (use: string) => void;
  onEnded: (said: Said) => void;
}) {
  const { event, one, asking } = props;
  const place = sayPlace(one.seat) || doubles.ticket(one.ticket);
  return (
    <div class="stack">
      <h4>{place}</h4>
      <ol class="plain lines">
        {one.uses.map(({ at, gate, actor }) => {
          const id = `${one.ticket}-${at}`;
          return (
            <li key={id} class="stack">
              <div class="event-row">
                <span class="who">{doubles.use(shortDateTime(at), gate)}</span>
                <button
                  type="button"
                  class="button small"
                  aria-expanded={asking === id}
                  onClick={() => props.onAsk(id)}
                >
                  {doubles.takeBack}
                  <span class="visually-hidden"> {doubles.of(place, shortDateTime(at), gate)}</span>
                </button>
                <span class="muted small who by">{doubles.by(actor)}</span>
              </div>
              {asking === id && (
                <TakeBack
                  id={`double-${id}`}
                  event={event}
                  use={{ ticket: one.ticket, at }}
                  onEnded={(ended) => props.onEnded(ended?.said ?? null)}
                />
              )}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
