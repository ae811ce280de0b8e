import type { Layout } from '../../src/core/seat-map.ts';
import type { CountsObject } from '../../src/http/api-types.ts';
import { bits, call, isNewer } from '../shared/api.ts';
import { pause } from '../shared/clock.ts';
import { createStore, type Store } from '../shared/store.ts';
import { type Drawing, unpack } from './drawing.ts';

/** The map's data: the drawing once, counts every 5 s, and availability bits every 2 s for the one section in view. */
export interface Venue {
  drawing: Drawing | null;
  failed: boolean;
  counts: CountsObject | null;
  /** Section whose bits are kept fresh. */
  section: string | null;
  bits: Uint8Array | null;
}

export interface Feed {
  store: Store<Venue>;
  /** Sets the section in view. Null if there is none; then no bits are read. */
  watch(section: string | null): void;
  stop(): void;
}

const countsEveryMs = 5000;
const bitsEveryMs = 2000;

export function startFeed(eventId: string, layoutUrl: string): Feed {
  const api = `/api/events/${encodeURIComponent(eventId)}`;
  const store = createStore<Venue>({ drawing: null, failed: false, counts: null, section: null, bits: null });
  const stop = new AbortController();
  let bitsVersion: [number, number] | null = null;
  let watching = new AbortController();

  const visible = () => document.visibilityState === 'visible';

  void (async () => {
    while (!stop.signal.aborted) {
      const answer = await call<Layout>(layoutUrl, { signal: stop.signal });
      if (answer.kind === 'ok') {
        store.set({ drawing: unpack(answer.body), failed: false });
        return;
      }
      store.set({ failed: true });
      await pause(3000, stop.signal);
    }
  })();

  void (async () => {
    while (!stop.signal.aborted) {
      if (visible()) {
        const answer = await call<CountsObject>(`${api}/counts`, { signal: stop.signal });
        const { counts } = store.get();
        if (answer.kind === 'ok' && isNewer(answer.body.v, counts?.v ?? null))
          store.set({ counts: answer.body });
      }
      await pause(countsEveryMs * (0.9 + Math.random() * 0.2), stop.signal);
    }
  })();

  async function follow(section: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (visible()) {
        const got = await bits(`${api}/availability/${encodeURIComponent(section)}`, signal);
        if (got && !signal.aborted && isNewer(got.version, bitsVersion)) {
          bitsVersion = got.version;
          store.set({ bits: got.bytes });
        }
      }
      await pause(bitsEveryMs * (0.9 + Math.random() * 0.2), signal);
    }
  }

  return {
    store,
    watch(section) {
      if (section === store.get().section) return;
      watching.abort();
      watching = new AbortController();
      bitsVersion = null;
      store.set({ section, bits: null });
      if (section !== null) void follow(section, watching.signal);
    },
    stop() {
      stop.abort();
      watching.abort();
    },
  };
}

/** Whether the seat at `place` of the watched section is free; null while not known. */
export function isFree(bytes: Uint8Array | null, place: number): boolean | null {
  const byte = bytes?.[place >> 3];
  return byte === undefined ? null : ((byte >> (place & 7)) & 1) === 1;
}
