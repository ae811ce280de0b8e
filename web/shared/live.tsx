import { useLayoutEffect } from 'preact/hooks';
import { createStore, type Store, useStore } from './store.ts';

/**
 * How long a sentence stays for people who read the page by hand, in ms. By then it was spoken, and may not be true any more.
 */
const standsMs = 7_000;

export interface Announcer {
  spoken: Store<{ text: string }>;
  announce(text: string): void;
  /** Clears the sentence of the previous view. */
  hush(): void;
}

/** `later` runs a function after the given ms and returns a function that cancels it. */
export function createAnnouncer(later: (run: () => void, ms: number) => () => void): Announcer {
  const spoken = createStore({ text: '' });
  let callOff = (): void => {};
  const hush = (): void => {
    callOff();
    if (spoken.get().text !== '') spoken.set({ text: '' });
  };
  return {
    spoken,
    announce(text) {
      callOff();
      // A repeated sentence has to differ from the last one, or the screen reader does not read it.
      spoken.set({ text: text === spoken.get().text ? `${text}\u00a0` : text });
      callOff = later(hush, standsMs);
    },
    hush,
  };
}

const announcer = createAnnouncer((run, ms) => {
  const timer = window.setTimeout(run, ms);
  return () => window.clearTimeout(timer);
});

/** Says a sentence to screen readers, politely: after what they are reading now. */
export const announce = announcer.announce;

/** Clears a view's sentence when the next view appears. Sentences of the new view come after this. */
export function useHushBetween(view: string): void {
  useLayoutEffect(() => announcer.hush, [view]);
}

/** The live region. It is in the page from the start, since many screen readers skip a region that appears with its text. */
export function LiveRegion() {
  const { text } = useStore(announcer.spoken);
  return (
    <div class="visually-hidden" role="status" aria-live="polite" aria-atomic="true">
      {text}
    </div>
  );
}
