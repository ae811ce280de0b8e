import { useState } from 'preact/hooks';
import type { DrawnSection } from '../seat-map/drawing.ts';
import type { Feed } from '../seat-map/feed.ts';
import { useStore } from '../shared/store.ts';
import { texts } from '../shared/texts/texts.ts';
import { holdSeats } from './basket-acts.ts';
import { Quantity } from './quantity.tsx';
import type { Buyer, BuyerState } from './session.ts';

/** A standing area: only how many; which of its units is the arbiter's choice. */
export function GaForm(props: {
  buyer: Buyer;
  state: BuyerState;
  feed: Feed;
  section: DrawnSection;
  replaces: string | null;
}) {
  const { buyer, state, section } = props;
  const { counts } = useStore(props.feed.store);
  const left = counts?.sections[section.id] ?? 0;
  const max = Math.max(1, Math.min(state.event!.limits.holdSeatsMax, left));
  const [quantity, setQuantity] = useState(1);
  const busy = state.busy === 'hold';
  const shown = Math.min(quantity, max);
  return (
    <form
      class="ga stack"
      onSubmit={(submit) => {
        submit.preventDefault();
        if (!busy) void holdSeats(buyer, { best: { quantity: shown, section: section.id } }, props.replaces);
      }}
    >
      <h3>{texts.map.ga.title(section.name)}</h3>
      <p class="muted">{texts.map.ga.help(left)}</p>
      <Quantity
        id="ga-quantity"
        label={texts.map.ga.quantity}
        value={shown}
        max={max}
        onValue={setQuantity}
      />
      <button type="submit" class="button primary" aria-disabled={busy || left === 0}>
        {busy ? texts.map.selection.holding : texts.map.ga.take(shown)}
      </button>
    </form>
  );
}
