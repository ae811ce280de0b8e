import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { placeOfEvent } from './place.ts';
import type { OrganiserEvent } from './shapes.ts';

const words = consoleTexts.events;

export function EventList({ events }: { events: OrganiserEvent[] | null }) {
  if (events === null) return <p class="pulse">{texts.loading}</p>;
  if (events.length === 0) return <p>{words.none}</p>;
  return (
    <ul class="plain stack">
      {events.map((event) => (
        <li key={event.id} class="card event-row">
          <div>
            <h2>{event.name}</h2>
            <p class="muted">
              {consoleTexts.control.phases[event.phase]}
              {event.seatCount > 0 && ` · ${count(event.seatCount)} ${words.seats.toLowerCase()}`}
            </p>
          </div>
          <div class="row">
            {event.phase !== 'draft' && (
              <a class="button quiet" href={`/events/${encodeURIComponent(event.id)}`}>
                {words.page}
                <span class="visually-hidden"> {event.name}</span>
              </a>
            )}
            <a class="button" href={placeOfEvent(event.id, 'overview')}>
              {words.choose}
              <span class="visually-hidden"> {event.name}</span>
            </a>
          </div>
        </li>
      ))}
    </ul>
  );
}
