import { useEffect, useState } from 'preact/hooks';
import type { CodeAnswer, CountsObject, EventObject, StatusObject } from '../../src/http/api-types.ts';
import { call } from '../shared/api.ts';

type Range = StatusObject['priceRange'];

/**
 * From the cheapest to the most expensive category that this buyer may buy. The shared status holds it for buyers without an
 * access code; only the browser knows what its code opens. `left`: free seats by category, null if not known yet.
 */
export function rangeFor(
  event: Pick<EventObject, 'prices' | 'kinds' | 'currency'>,
  shared: Range,
  code: Pick<CodeAnswer, 'categories' | 'kinds'> | null,
  left: Readonly<Record<string, number>> | null,
): Range {
  if (!code || !left) return shared;
  const offered = (event.kinds ?? []).filter(({ id, locked }) => !locked || code.kinds.includes(id));
  const prices = event.prices
    .filter(({ category, locked }) => (left[category] ?? 0) > 0 && isOpen(category, locked, code.categories))
    .flatMap(({ price, fee, kinds }) =>
      [price, ...offered.flatMap(({ id }) => kinds?.[id] ?? [])].map((one) => one + fee),
    );
  if (prices.length === 0) return shared;
  return { min: Math.min(...prices), max: Math.max(...prices), currency: event.currency };
}

export function isOpen(name: string, locked: true | undefined, opened: readonly string[] = []): boolean {
  return !locked || opened.includes(name);
}

/** Seats left by category, of the shared counts: read where a code opens something, and again when seats go or come back. */
export function useLeftByCategory(
  eventId: string,
  status: StatusObject,
  code: CodeAnswer | null,
): Record<string, number> | null {
  const wanted = code !== null && code.categories.length + code.kinds.length > 0;
  const [left, setLeft] = useState<Record<string, number> | null>(null);
  useEffect(() => {
    if (!wanted) return;
    const stop = new AbortController();
    const path = `/api/events/${encodeURIComponent(eventId)}/counts`;
    void call<CountsObject>(path, { signal: stop.signal }).then((answer) => {
      if (answer.kind === 'ok') setLeft(answer.body.categories);
    });
    return () => stop.abort();
  }, [wanted, eventId, status.seats.left]);
  return left;
}
