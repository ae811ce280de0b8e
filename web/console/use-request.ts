import { useState } from 'preact/hooks';
import { type Answer, type Call, call } from '../shared/api.ts';

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
