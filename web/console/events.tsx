import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Blocks } from './blocks.tsx';
import { CancelEvent } from './cancellation.tsx';
import { Codes } from './codes.tsx';
import { Entry } from './entry.tsx';
import { Exports } from './exports.tsx';
import { focusOnce, refusal, type Said, SaidView } from './fields.tsx';
import { Figures } from './figures.tsx';
import { Limits } from './limits.tsx';
import { Money } from './money.tsx';
import { Refunds } from './refunds.tsx';
import { SaleControls } from './sale-controls.tsx';
import type { OrganiserEvent } from './shapes.ts';

const words = consoleTexts.events;

export function EventList(props: { events: OrganiserEvent[] | null; onChoose: (id: string) => void }) {
  const { events } = props;
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
            <button type="button" class="button" onClick={() => props.onChoose(event.id)}>
              {words.choose}
              <span class="visually-hidden"> {event.name}</span>
            </button>
          </div>
        </li>
      ))}
    </ul>
  );
}

const refreshMs = 3000;

/** One event: figures, controls, blocks. The figures refresh by themselves; the controls only after an own change. */
export function EventPanel(props: { id: string; onBack: () => void }) {
  const [event, setEvent] = useState<OrganiserEvent | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const load = async () => {
    const answer = await call<OrganiserEvent>(`/api/organiser/events/${encodeURIComponent(props.id)}`);
    if (answer.kind === 'ok') setEvent(answer.body);
    return answer;
  };
  useEffect(() => {
    void load().then((answer) => answer.kind !== 'ok' && setSaid(refusal(answer)));
    const timer = window.setInterval(() => {
      if (document.visibilityState === 'visible') void load();
    }, refreshMs);
    return () => window.clearInterval(timer);
  }, [props.id]);
  return (
    <div class="stack-l">
      <div>
        <button type="button" class="button small" onClick={props.onBack}>
          ← {consoleTexts.nav.events}
        </button>
      </div>
      <SaidView said={said} />
      {event && (
        <>
          <div class="event-row">
            <h2 tabIndex={-1} ref={focusOnce}>
              {event.name}
            </h2>
            {event.phase !== 'draft' && (
              <a class="button" href={`/events/${encodeURIComponent(event.id)}`}>
                {words.page}
              </a>
            )}
          </div>
          <Figures event={event} />
          {event.phase !== 'draft' && <Money event={event} />}
          <SaleControls
            // What cancelling the event changed is no change by somebody else.
            key={String(event.phase === 'cancelled')}
            event={event}
            onChanged={() => void load()}
          />
          <Limits event={event} />
          <Codes event={event} />
          {event.layoutHash && <Blocks event={event} />}
          {event.phase !== 'draft' && <Refunds event={event} />}
          {event.phase !== 'draft' && <Entry event={event} />}
          {event.phase !== 'draft' && <Exports event={event} />}
          {event.phase !== 'draft' && <CancelEvent event={event} onChanged={() => void load()} />}
        </>
      )}
    </div>
  );
}
