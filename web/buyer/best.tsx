import { useState } from 'preact/hooks';
import type { Feed } from '../seat-map/feed.ts';
import { useStore } from '../shared/store.ts';
import { money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { holdSeats } from './basket-acts.ts';
import { isOpen } from './price-range.ts';
import { Quantity } from './quantity.tsx';
import type { Buyer, BuyerState } from './session.ts';

const words = texts.map.best;

/** The default way to buy: how many, what price, and the system picks. */
export function BestForm(props: { buyer: Buyer; state: BuyerState; feed: Feed; replaces: string | null }) {
  const { buyer, state } = props;
  const event = state.event!;
  const { counts, drawing } = useStore(props.feed.store);
  const max = event.limits.holdSeatsMax;
  const [quantity, setQuantity] = useState(Math.min(2, max));
  const [category, setCategory] = useState('');
  const [section, setSection] = useState('');
  const busy = state.busy === 'hold';
  const sections = (drawing?.sections ?? []).filter((one) => {
    const fits =
      category === '' || one.category.includes(drawing!.categories.findIndex((c) => c.name === category));
    return fits && (counts?.sections[one.id] ?? 1) > 0;
  });
  return (
    <form
      class="stack"
      onSubmit={(submit) => {
        submit.preventDefault();
        if (busy) return;
        const best = { quantity, ...(category ? { category } : {}), ...(section ? { section } : {}) };
        void holdSeats(buyer, { best }, props.replaces);
      }}
    >
      <h3>{words.title}</h3>
      <p class="muted">{words.help}</p>
      <div class="best-fields">
        <Quantity
          id="best-quantity"
          label={words.quantity}
          value={quantity}
          max={max}
          onValue={setQuantity}
        />
        <div class="field">
          <label for="best-category">{words.category}</label>
          <select
            id="best-category"
            value={category}
            onChange={(change) => {
              setCategory(change.currentTarget.value);
              setSection('');
            }}
          >
            <option value="">{words.any}</option>
            {event.prices.map((one) => {
              const left = counts?.categories[one.category] ?? 0;
              const closed = !isOpen(one.category, one.locked, state.code?.categories);
              const name = closed ? `${one.category} (${texts.access.locked})` : one.category;
              return (
                <option
                  key={one.category}
                  value={one.category}
                  disabled={closed || (counts !== null && left === 0)}
                >
                  {words.categoryOption(name, money(one.price, event.currency), left)}
                </option>
              );
            })}
          </select>
        </div>
        <div class="field">
          <label for="best-section">{words.section}</label>
          <select
            id="best-section"
            value={section}
            onChange={(change) => setSection(change.currentTarget.value)}
          >
            <option value="">{words.anySection}</option>
            {sections.map((one) => (
              <option key={one.id} value={one.id}>
                {words.sectionOption(
                  one.group ? `${one.group} · ${one.name}` : one.name,
                  counts?.sections[one.id] ?? 0,
                )}
              </option>
            ))}
          </select>
        </div>
      </div>
      <button type="submit" class="button primary wide" aria-disabled={busy}>
        {busy ? words.finding : words.find(quantity)}
      </button>
      <p class="muted small">{texts.map.selection.note(event.limits.holdMinutes)}</p>
    </form>
  );
}
