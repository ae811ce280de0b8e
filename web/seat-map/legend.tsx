import { useEffect, useRef } from 'preact/hooks';
import type { EventObject } from '../../src/http/api-types.ts';
import { money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { flagOf } from './drawing.ts';
import { type Look, paintSeat, readPalette } from './sprites.ts';

/** Categories with prices, each a toggle that shows it alone (so that no buyer depends on colours), and the symbols. */
export function Legend(props: {
  categories: { name: string; color: string }[];
  event: EventObject;
  counts: Record<string, number> | null;
  only: number | null;
  onOnly: (category: number | null) => void;
}) {
  const { categories, event, only } = props;
  const words = texts.map.legend;
  return (
    <div class="legend">
      <fieldset>
        <legend class="label small">{words.filter}</legend>
        <div class="chips">
          {categories.map((category, i) => {
            const price = event.prices.find((one) => one.category === category.name);
            if (!price) return null;
            return (
              <button
                key={category.name}
                type="button"
                class="chip"
                aria-pressed={only === i}
                onClick={() => props.onOnly(only === i ? null : i)}
              >
                <Sample look="free" color={category.color} />
                <span>{category.name}</span>
                <span class="num muted">{money(price.price, event.currency)}</span>
              </button>
            );
          })}
        </div>
      </fieldset>
      <ul class="signs small" aria-label={words.title}>
        <li>
          <Sample look="free" color={categories[0]?.color ?? '#888888'} />
          {words.free}
        </li>
        <li>
          <Sample look="taken" color="" />
          {words.taken}
        </li>
        <li>
          <Sample look="selected" color="" />
          {words.selected}
        </li>
        <li>
          <Sample look="free" color="#d8d8d8" flags={flagOf.accessible} />
          {words.accessible}
        </li>
        <li>
          <Sample look="free" color="#d8d8d8" flags={flagOf.companion} />
          {words.companion}
        </li>
        <li>
          <Sample look="free" color="#d8d8d8" flags={flagOf['restricted-view']} />
          {words.restricted}
        </li>
      </ul>
    </div>
  );
}

const samplePx = 20;

/** The very picture that the map stamps. */
function Sample(props: { look: Look; color: string; flags?: number }) {
  const ref = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const canvas = ref.current!;
    const ctx = canvas.getContext('2d');
    if (!ctx) return;
    const size = samplePx * 2;
    canvas.width = size;
    canvas.height = size;
    paintSeat(ctx, size, props.look, props.color, props.flags ?? 0, readPalette(canvas));
  }, [props.look, props.color, props.flags]);
  return <canvas class="sample" ref={ref} />;
}
