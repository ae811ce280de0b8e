import { createStore, useStore } from './store.ts';

const spoken = createStore<{ text: string; turn: number }>({ text: '', turn: 0 });

/** Says a sentence to screen readers, politely: after what they are reading now. */
export function announce(text: string): void {
  const { text: before, turn } = spoken.get();
  // The same sentence again has to differ, or nothing is read.
  spoken.set({ text: text === before ? `${text}\u00a0` : text, turn: turn + 1 });
}

/** The live region: stands in the page from the start, since a region that appears with its text is often not read. */
export function LiveRegion() {
  const { text } = useStore(spoken);
  return (
    <div class="visually-hidden" role="status" aria-live="polite" aria-atomic="true">
      {text}
    </div>
  );
}
