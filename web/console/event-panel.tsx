import { useEffect, useRef, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { Attention } from './attention.tsx';
import { Blocks } from './blocks.tsx';
import { CancelEvent } from './cancellation.tsx';
import { Codes } from './codes.tsx';
import { Entry } from './entry.tsx';
import { Exports } from './exports.tsx';
import { focusOnce, refusal, type Said, SaidView, titleOf } from './fields.tsx';
import { Figures } from './figures.tsx';
import { Limits } from './limits.tsx';
import { Money } from './money.tsx';
import { hashOf, placeOfEvent, type View, views } from './place.ts';
import { Refunds } from './refunds.tsx';
import { SaleControls } from './sale-controls.tsx';
import type { OrganiserEvent } from './shapes.ts';

const words = consoleTexts.events;
const refreshMs = 3000;

/** A draft has no sales yet, so its other views are hidden. */
const ofDrafts: readonly View[] = ['overview', 'limits'];

interface PanelProps {
  id: string;
  view: View;
  order: string | null;
}

/** One event, a view at a time. The figures refresh by themselves; the controls only after an own change. */
export function EventPanel({ id, view, order }: PanelProps) {
  const [event, setEvent] = useState<OrganiserEvent | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const load = async () => {
    const answer = await call<OrganiserEvent>(`/api/organiser/events/${encodeURIComponent(id)}`);
    if (answer.kind === 'ok') setEvent(answer.body);
    return answer;
  };
  useEffect(() => {
    void load().then((answer) => {
      if (answer.kind === 'ok') return;
      const unknown = answer.kind === 'problem' && answer.problem.code === 'unknown_event';
      setSaid(unknown ? { tone: 'warn', text: words.unknown } : refusal(answer));
    });
    const timer = window.setInterval(() => {
      if (document.visibilityState === 'visible') void load();
    }, refreshMs);
    return () => window.clearInterval(timer);
  }, [id]);
  return (
    <div class="stack-l">
      <div class="event-row">
        <a class="button small" href={hashOf({ tab: 'events' })}>
          ← {consoleTexts.nav.events}
        </a>
        {event && event.phase !== 'draft' && (
          <a class="button small" href={`/events/${encodeURIComponent(event.id)}`}>
            {words.page}
          </a>
        )}
      </div>
      <SaidView said={said} />
      {event && (
        <>
          <h2 class="who" tabIndex={-1} ref={focusOnce}>
            {event.name}
          </h2>
          <Views event={event} view={view} order={order} onChanged={() => void load()} />
        </>
      )}
    </div>
  );
}

/**
 * A view that was once opened is kept, so that what was typed or found in it is still there when the user
 * comes back.
 */
function Views(props: Omit<PanelProps, 'id'> & { event: OrganiserEvent; onChanged: () => void }) {
  const { event, order } = props;
  const offered = views.filter((one) => event.phase !== 'draft' || ofDrafts.includes(one));
  const view = offered.includes(props.view) ? props.view : 'overview';
  const opened = useRef(new Set<View>());
  opened.current.add(view);
  const section = useRef<HTMLElement>(null);
  const before = useRef(view);
  useEffect(() => {
    document.title = titleOf(words.views[view], event.name);
    if (before.current !== view) section.current?.focus();
    before.current = view;
  }, [view, event.name]);
  return (
    <>
      <nav class="tabs inner" aria-label={words.viewsOf(event.name)}>
        {offered.map((one) => (
          <a
            key={one}
            class="tab"
            href={placeOfEvent(event.id, one)}
            aria-current={one === view ? 'page' : undefined}
          >
            {words.views[one]}
          </a>
        ))}
      </nav>
      {offered
        .filter((one) => opened.current.has(one))
        .map((one) => (
          <section
            key={one}
            class="stack-l"
            aria-label={words.views[one]}
            hidden={one !== view}
            tabIndex={-1}
            ref={one === view ? section : undefined}
          >
            <OneView
              view={one}
              event={event}
              shown={one === view}
              order={order}
              onChanged={props.onChanged}
            />
          </section>
        ))}
    </>
  );
}

function OneView(props: {
  view: View;
  event: OrganiserEvent;
  /** True while the view is visible. Lists reload when the organiser returns to them. */
  shown: boolean;
  order: string | null;
  onChanged: () => void;
}) {
  const { view, event, shown, onChanged } = props;
  switch (view) {
    case 'overview':
      return (
        <>
          {event.phase !== 'draft' && <Attention event={event} shown={shown} />}
          <SaleControls
            // Remounts after the event was cancelled, so that this change is not reported as another operator's.
            key={String(event.phase === 'cancelled')}
            event={event}
            onChanged={onChanged}
          />
          <Figures event={event} />
          {event.phase !== 'draft' && <Money event={event} />}
        </>
      );
    case 'seats':
      return event.layoutHash ? <Blocks event={event} /> : null;
    case 'limits':
      return (
        <>
          <Limits event={event} />
          <Codes event={event} />
        </>
      );
    case 'orders':
      return <Refunds event={event} order={props.order} shown={shown} />;
    case 'entry':
      return <Entry event={event} shown={shown} />;
    case 'exports':
      return <Exports event={event} />;
    case 'cancel':
      return <CancelEvent event={event} onChanged={onChanged} />;
  }
}
