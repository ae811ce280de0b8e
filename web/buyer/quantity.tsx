import { texts } from '../shared/texts/texts.ts';

/** A number with two large buttons; the field itself takes arrow keys and typing. */
export function Quantity(props: {
  id: string;
  label: string;
  value: number;
  max: number;
  onValue: (n: number) => void;
}) {
  const { value, max } = props;
  const set = (n: number) => props.onValue(Math.min(Math.max(Math.round(n) || 1, 1), max));
  return (
    <div class="field">
      <label for={props.id}>{props.label}</label>
      <div class="quantity">
        <button
          type="button"
          class="button"
          aria-label={texts.map.best.fewer}
          aria-disabled={value <= 1}
          onClick={() => set(value - 1)}
        >
          <span aria-hidden="true">−</span>
        </button>
        <input
          id={props.id}
          class="num"
          type="number"
          inputMode="numeric"
          min={1}
          max={max}
          value={value}
          onChange={(change) => set(Number(change.currentTarget.value))}
        />
        <button
          type="button"
          class="button"
          aria-label={texts.map.best.more}
          aria-disabled={value >= max}
          onClick={() => set(value + 1)}
        >
          <span aria-hidden="true">+</span>
        </button>
      </div>
    </div>
  );
}
