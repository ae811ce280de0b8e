import { useEffect, useState } from 'preact/hooks';

/** The places of the organiser's page, first to last as its navigation names them. */
export const tabs = ['events', 'newEvent', 'plans', 'payments', 'mails', 'buyers', 'webhooks'] as const;
export type Tab = (typeof tabs)[number];

/** Views of one event. */
export const views = ['overview', 'seats', 'limits', 'orders', 'entry', 'exports', 'cancel'] as const;
export type View = (typeof views)[number];

export interface Place {
  tab: Tab;
  /** Used by the tabs `events` and `payments`. Null means all events. */
  event: string | null;
  view: View;
  /** Used by the view `orders`: the order shown. */
  order: string | null;
}

const slugs: Record<Tab, string> = {
  events: 'events',
  newEvent: 'new-event',
  plans: 'plans',
  payments: 'payments',
  mails: 'mails',
  buyers: 'buyers',
  webhooks: 'webhooks',
};

/** The URL fragment of a place, such as `#events/my-show/orders`. */
export function hashOf(to: Partial<Place> & { tab: Tab }): string {
  const { tab, event = null, view = 'overview', order = null } = to;
  const parts: string[] = [slugs[tab]];
  if (tab === 'payments' && event !== null) parts.push(encodeURIComponent(event));
  if (tab === 'events' && event !== null) {
    parts.push(encodeURIComponent(event));
    if (view !== 'overview') parts.push(view);
    if (view === 'orders' && order !== null) parts.push(encodeURIComponent(order));
  }
  return `#${parts.join('/')}`;
}

export const placeOfEvent = (event: string, view: View, order: string | null = null): string =>
  hashOf({ tab: 'events', event, view, order });

/** Null if the fragment is no place of this page, such as the skip link's `#main`. */
export function placeOf(hash: string): Place | null {
  const [slug = '', ...rest] = hash.replace(/^#/, '').split('/');
  const tab = slug === '' ? 'events' : tabs.find((one) => slugs[one] === slug);
  if (!tab) return null;
  if (tab === 'payments') {
    return { tab, event: rest[0] ? decoded(rest[0]) : null, view: 'overview', order: null };
  }
  const [event = null, named, order = null] = tab === 'events' ? rest.map(decoded) : [];
  if (event === null || event === '') return { tab, event: null, view: 'overview', order: null };
  const view = views.find((one) => one === named) ?? 'overview';
  return { tab, event, view, order: view === 'orders' && order ? order : null };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function go(hash: string): void {
  window.location.hash = hash;
}

/** Where the address says we are: so that links, a reload and the browser's way back lead there. */
export function usePlace(): Place {
  const [place, setPlace] = useState<Place>(() => placeOf(window.location.hash) ?? start);
  useEffect(() => {
    const moved = () => {
      const to = placeOf(window.location.hash);
      if (to) return setPlace(to);
      // The address goes on naming the place, so that a reload stays there.
      setPlace((now) => {
        window.history.replaceState(null, '', hashOf(now));
        return now;
      });
    };
    window.addEventListener('hashchange', moved);
    return () => window.removeEventListener('hashchange', moved);
  }, []);
  return place;
}

const start: Place = { tab: 'events', event: null, view: 'overview', order: null };
