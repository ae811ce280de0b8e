import type { EventObject } from '../../src/http/api-types.ts';
import type { Drawing } from '../seat-map/drawing.ts';
import type { Part } from '../seat-map/parts.ts';
import { offerOf } from '../seat-map/pricing.ts';
import { money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { AcrossChoice } from './across.tsx';
import { totalOf } from './session.ts';

const words = texts.map.selection;

/** The current selection: next to the map on wide screens, at the lower edge on narrow ones. */
export function SelectionPanel(props: {
  event: EventObject;
  drawing: Drawing | null;
  selected: ReadonlySet<number>;
  busy: boolean;
  /** The choice by the parts of the venue that are sold apart. */
  parts: Part[];
  /** True if the selection is in another partition than the held seats that it would replace. */
  away: boolean;
  onPart: (part: Part) => void;
  onRemove: (seat: number) => void;
  onClear: () => void;
  onHold: () => void;
}) {
  const { event, drawing, selected, busy } = props;
  const across = props.parts.length > 1;
  const offers = drawing ? [...selected].map((seat) => offerOf(drawing, event, seat)) : [];
  const total = totalOf(offers, offers.length > 0 ? event.orderFee : 0);
  return (
    <aside class={`selection card ${across ? 'across' : ''}`} aria-label={words.title}>
      <div class="selection-head">
        <h3>{selected.size === 0 ? words.none : words.count(selected.size)}</h3>
        {selected.size > 0 && <span class="num total">{money(total, event.currency)}</span>}
      </div>
      {across && <AcrossChoice parts={props.parts} label={texts.map.parts.keep} onPart={props.onPart} />}
      {offers.length > 0 && (
        <ul class="chosen">
          {offers.map((offer) => (
            <li key={offer.seat}>
              <span>
                <strong>{texts.map.sectionName(offer.section)}</strong>
                <br /> {offer.where}
                {offer.attributes.length > 0 && (
                  <span class="muted small"> ({offer.attributes.join(', ')})</span>
                )}
              </span>
              <span class="num nowrap">{money(offer.price, event.currency)}</span>
              <button
                type="button"
                class="remove"
                aria-label={words.remove(`${offer.section}, ${offer.where}`)}
                onClick={() => props.onRemove(offer.seat)}
              >
                <span aria-hidden="true">×</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {!across && (
        <p class="muted small selection-note">
          {selected.size === 0 ? words.max(event.limits.holdSeatsMax) : words.note(event.limits.holdMinutes)}
        </p>
      )}
      {props.away && <p class="small">{texts.map.parts.away}</p>}
      {selected.size > 0 && !across && (
        <div class="selection-actions">
          <button
            type="button"
            class="button primary"
            aria-disabled={busy}
            onClick={() => !busy && props.onHold()}
          >
            {busy ? words.holding : props.away ? texts.map.parts.move : words.hold(selected.size)}
          </button>
          <button type="button" class="button quiet" onClick={props.onClear}>
            {words.clear}
          </button>
        </div>
      )}
    </aside>
  );
}
