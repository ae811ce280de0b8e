import { useEffect, useState } from 'preact/hooks';
import type { EventObject } from '../../src/http/api-types.ts';
import { ViewHeading } from '../shared/shell.tsx';
import { useStore } from '../shared/store.ts';
import { texts } from '../shared/texts/texts.ts';
import type { Drawing, DrawnSection } from './drawing.ts';
import { type Feed, isFree } from './feed.ts';
import { offerLine, offerOf } from './pricing.ts';

const words = texts.map.list;

/** The same venue as text: sections, then rows with a box for each free seat. */
export function SeatList(props: {
  feed: Feed;
  drawing: Drawing;
  event: EventObject;
  selected: ReadonlySet<number>;
  mine: ReadonlySet<number>;
  onSeat?: (section: DrawnSection, place: number) => void;
  onGa?: (section: DrawnSection | null) => void;
}) {
  const { feed, drawing } = props;
  const [section, setSection] = useState<DrawnSection | null>(null);
  const venue = useStore(feed.store);
  useEffect(() => {
    feed.watch(section?.kind === 'seated' ? section.id : null);
    props.onGa?.(section?.kind === 'ga' ? section : null);
    return () => feed.watch(null);
  }, [section, feed]);

  if (!section) {
    const counts = venue.counts?.sections;
    return (
      <div class="stack">
        <h3>{words.title}</h3>
        <p class="muted">{words.choose}</p>
        {groupsOf(drawing).map(([group, sections]) => (
          <div key={group} class="stack list-group">
            {group && <h4>{group}</h4>}
            <ul class="section-list">
              {sections.map((one) => {
                const left = counts?.[one.id] ?? 0;
                return (
                  <li key={one.id}>
                    <button
                      type="button"
                      class="button small"
                      aria-disabled={counts !== undefined && left === 0}
                      onClick={() => (counts === undefined || left > 0) && setSection(one)}
                    >
                      {words.section(one.name, left)}
                    </button>
                  </li>
                );
              })}
            </ul>
          </div>
        ))}
      </div>
    );
  }
  return (
    <div class="stack">
      <div class="row">
        <button type="button" class="button small" onClick={() => setSection(null)}>
          ← {words.back}
        </button>
      </div>
      <ViewHeading>{words.stepsHeading(section.name)}</ViewHeading>
      {section.sellAsUnit && <p>{texts.map.unit}</p>}
      {section.kind === 'seated' &&
        (venue.bits === null ? (
          <p class="pulse">{words.loading}</p>
        ) : (
          <Rows {...props} section={section} bits={venue.bits} />
        ))}
    </div>
  );
}

function Rows(props: {
  drawing: Drawing;
  event: EventObject;
  selected: ReadonlySet<number>;
  mine: ReadonlySet<number>;
  section: DrawnSection;
  bits: Uint8Array;
  onSeat?: (section: DrawnSection, place: number) => void;
}) {
  const { section, bits, mine, selected, drawing, event } = props;
  return (
    <div class="rows">
      {section.rows.map((row) => {
        const places = Array.from({ length: row.count }, (_, i) => row.first + i);
        const shown = places.filter((place) => {
          const seat = section.seatNos[place]!;
          return mine.has(seat) || selected.has(seat) || isFree(bits, place) === true;
        });
        const taken = row.count - shown.length;
        return (
          <fieldset key={row.first} class="list-row">
            <legend>
              <strong>{words.row(row.label)}</strong>{' '}
              <span class="muted small">{shown.length === 0 ? words.rowNone : words.rowTaken(taken)}</span>
            </legend>
            <div class="list-seats">
              {shown.map((place) => {
                const seat = section.seatNos[place]!;
                const offer = offerOf(drawing, event, seat);
                return (
                  <label key={seat} class="list-seat" title={offerLine(offer, event.currency)}>
                    <input
                      type="checkbox"
                      checked={selected.has(seat)}
                      disabled={!props.onSeat}
                      aria-label={offerLine(offer, event.currency)}
                      onChange={(change) => {
                        // The selection decides, not the box: it may be full, or the seat just taken.
                        change.currentTarget.checked = selected.has(seat);
                        props.onSeat?.(section, place);
                      }}
                    />
                    <span class="num">{section.labels[place] || '–'}</span>
                    {offer.attributes.length > 0 && (
                      <span class="small muted">{offer.attributes.join(', ')}</span>
                    )}
                  </label>
                );
              })}
            </div>
          </fieldset>
        );
      })}
    </div>
  );
}

function groupsOf(drawing: Drawing): [string, DrawnSection[]][] {
  const groups = new Map<string, DrawnSection[]>();
  for (const section of drawing.sections) {
    const list = groups.get(section.group) ?? [];
    list.push(section);
    groups.set(section.group, list);
  }
  return [...groups];
}
