import { useEffect, useState } from 'preact/hooks';
import { type Answer, type Call, call } from '../shared/api.ts';
import { refusal, type Said } from './fields.tsx';

/** The request of a form. `busy` while one is under way, so that the form can refuse a second one. */
export function useRequest(): {
  busy: boolean;
  request<T>(path: string, options: Call): Promise<Answer<T>>;
} {
  const [busy, setBusy] = useState(false);
  const request = async <T>(path: string, options: Call): Promise<Answer<T>> => {
    setBusy(true);
    try {
      return await call<T>(path, options);
    } finally {
      setBusy(false);
    }
  };
  return { busy, request };
}

/**
 * The answer of a GET, loaded when the path changes (null: not yet) and repeatedly while the page is visible if `everyMs` is
 * given. `said` is the failure of the last load, or else what the caller set.
 */
export function useAnswer<T>(path: string | null, everyMs: number | null = null) {
  const [answer, setAnswer] = useState<T | null>(null);
  const [failure, setFailure] = useState<Said>(null);
  const [said, setSaid] = useState<Said>(null);
  const load = async (): Promise<void> => {
    if (path === null) return;
    const loaded = await call<T>(path);
    if (loaded.kind === 'ok') setAnswer(loaded.body);
    setFailure(loaded.kind === 'ok' ? null : refusal(loaded));
  };
  useEffect(() => void load(), [path]);
  useEffect(() => {
    if (everyMs === null) return;
    const timer = window.setInterval(() => {
      if (!document.hidden) void load();
    }, everyMs);
    return () => window.clearInterval(timer);
  }, [path, everyMs]);
  return { answer, said: failure ?? said, setSaid, load };
}

/** The `onSubmit` of a form. */
export function submitHandler(act: () => unknown): (submit: Event) => void {
  return (submit) => {
    submit.preventDefault();
    void act();
  };
}
