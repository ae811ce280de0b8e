import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { persist } from '../shared/api.ts';
import { Shell } from '../shared/shell.tsx';
import { eventTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { inOrder, type Listed, wayTo } from './listed.ts';

/** `/`: what is on sale, and what was. */
function Events() {
  const [events, setEvents] = useState<Listed[] | null>(null);
  const [trouble, setTrouble] = useState(false);
  useEffect(() => {
    document.title = `${texts.events.title} · ${texts.brand}`;
    void persist<{ events: Listed[] }>(
      '/api/events',
      {},
      { onTrouble: (tries) => setTrouble(tries > 1) },
    ).then((answer) => setEvents(answer.kind === 'ok' ? answer.body.events : []));
  }, []);
  return (
    <Shell>
      <div class="stack-l">
        <h1>{texts.events.title}</h1>
        {events === null && <p class="pulse">{trouble ? texts.over.failed : texts.loading}</p>}
        {events?.length === 0 && <p>{texts.events.none}</p>}
        {events && events.length > 0 && (
          <ul class={events.length === 1 ? 'event-list one' : 'event-list'}>
            {inOrder(events).map((event) => (
              <ListedEvent key={event.id} event={event} />
            ))}
          </ul>
        )}
      </div>
    </Shell>
  );
}

function ListedEvent({ event }: { event: Listed }) {
  const { label, primary } = wayTo(event);
  return (
    <li class="card stack">
      <p class="muted">{texts.phases[event.phase]}</p>
      <h2>{event.name}</h2>
      {event.performanceAt && <p>{eventTime(event.performanceAt, event.timeZone)}</p>}
      {event.venue && <p class="muted">{event.venue}</p>}
      {event.phase === 'scheduled' && event.opensAt && (
        <p>
          {texts.event.opens}: {eventTime(event.opensAt, event.timeZone)}
        </p>
      )}
      <p>
        <a class={primary ? 'button primary' : 'button'} href={`/events/${encodeURIComponent(event.id)}`}>
          {label}
        </a>
      </p>
    </li>
  );
}

render(<Events />, document.getElementById('app')!);
