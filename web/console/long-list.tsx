import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { consoleTexts } from '../shared/texts/console-texts.ts';

const atOnce = 20;

/** A list that may be hundreds long: some at once, and more when they are asked for. */
export function LongList<T>(props: {
  items: readonly T[];
  keyOf: (item: T) => string;
  row: (item: T) => ComponentChildren;
}) {
  const { items, keyOf, row } = props;
  const [most, setMost] = useState(atOnce);
  const first = useRef<HTMLLIElement>(null);
  // Moves the focus to the first new entry for keyboard users.
  useEffect(() => {
    if (most > atOnce) first.current?.focus();
  }, [most]);
  if (items.length === 0) return null;
  const left = items.length - most;
  return (
    <div class="stack">
      <ul class="plain lines">
        {items.slice(0, most).map((item, i) => (
          <li key={keyOf(item)} tabIndex={-1} ref={i === most - atOnce ? first : undefined}>
            {row(item)}
          </li>
        ))}
      </ul>
      {left > 0 && (
        <div>
          <button type="button" class="button small" onClick={() => setMost(most + atOnce)}>
            {consoleTexts.more(Math.min(atOnce, left), left)}
          </button>
        </div>
      )}
    </div>
  );
}
