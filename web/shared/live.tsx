import { useLayoutEffect } from 'preact/hooks';
import { createStore, type Store, useStore } from './store.ts';

/** So long a sentence stands for whoever reads the page by hand; by then it was spoken, and it may not be true any more. Ms. */
const standsMs = 7_000;

export interface Announcer {
  said: Store<{ text: string }>;
  announce(text: string): void;
  /** What was said is of another view. */
  hush(): void;
}

/** `later` runs something after so many ms and answers what calls it off. */
export function createAnnouncer(later: (run: () => void, ms: number) => () => void): Announcer {
  const said = createStore({ text: '' });
  let callOff = (): void => {};
  const hush = (): void => {
    callOff();
    if (said.get().text !== '') said.set({ text: '' });
  };
  return {
    said,
    announce(text) {
      callOff();
      // The same sentence again has to differ, or nothing is read.
      said.set({ text: text === said.get().text ? `${text}\u00a0` : text });
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

/** What was said in one view does not stand in the next; what the next one says as it appears comes after this. */
export function useHushBetween(view: string): void {
  useLayoutEffect(() => announcer.hush, [view]);
}

/** The live region: stands in the page from the start, since a region that appears with its text is often not read. */
export function LiveRegion() {
  const { text } = useStore(announcer.said);
  return (
    <div class="visually-hidden" role="status" aria-live="polite" aria-atomic="true">
      {text}
    </div>
  );
}
