import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { EventObject } from '../../src/http/api-types.ts';
import { persist } from '../shared/api.ts';
import { Shell } from '../shared/shell.tsx';
import { dateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';

type Listed = Pick<EventObject, 'id' | 'name' | 'phase'> & {
  performanceAt?: string | null;
  opensAt?: string | null;
};

/** `/`: what is on sale. */
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
            {events.map((event) => (
              <li key={event.id} class="card stack">
                <p class="muted">{texts.phases[event.phase]}</p>
                <h2>{event.name}</h2>
                {event.performanceAt && <p>{dateTime(event.performanceAt)}</p>}
                <p>
                  <a class="button primary" href={`/events/${encodeURIComponent(event.id)}`}>
                    {texts.events.open(event.name)}
                  </a>
                </p>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Shell>
  );
}

render(<Events />, document.getElementById('app')!);
