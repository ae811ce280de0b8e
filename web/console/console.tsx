import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { Shell } from '../shared/shell.tsx';
import { consoleTexts as words } from '../shared/texts/console-texts.ts';
import { texts } from '../shared/texts/texts.ts';
import { Background } from './background.tsx';
import { Buyers } from './buyers.tsx';
import { EventPanel } from './event-panel.tsx';
import { EventList } from './events.tsx';
import { focusOnce, titleOf } from './fields.tsx';
import { Mails } from './mails.tsx';
import { NewEvent } from './new-event.tsx';
import { OpenPayments } from './open-payments.tsx';
import { go, hashOf, placeOfEvent, tabs, usePlace } from './place.ts';
import { Plans } from './plans.tsx';
import { Reconcile } from './reconcile.tsx';
import type { OrganiserEvent, PlanSummary } from './shapes.ts';
import { SignIn } from './sign-in.tsx';
import { Webhooks } from './webhooks.tsx';

/** `/organiser`: sign in, plans, events, the sale's controls. */
export function Console() {
  const [email, setEmail] = useState<string | null | undefined>(undefined);
  useEffect(() => {
    document.title = titleOf();
    void call<{ email: string }>('/api/organiser/sessions').then((answer) =>
      setEmail(answer.kind === 'ok' ? answer.body.email : null),
    );
  }, []);
  const out = async () => {
    await call('/api/organiser/sessions', { method: 'DELETE' });
    setEmail(null);
  };
  return (
    <Shell
      nav={
        email && (
          <div class="row">
            <span class="muted small who">{email}</span>
            <button type="button" class="button small" onClick={() => void out()}>
              {words.signIn.out}
            </button>
          </div>
        )
      }
    >
      <div class="stack-l">
        {/* Another element for each, so that the focus moves to it after the sign-in. */}
        {email ? (
          <h1 key="in" tabIndex={-1} ref={focusOnce}>
            {words.title}
          </h1>
        ) : (
          <h1 key="out">{words.title}</h1>
        )}
        {email === undefined && <p class="pulse">{texts.loading}</p>}
        {email === null && <SignIn onIn={setEmail} />}
        {email && <Desk onOut={() => setEmail(null)} />}
      </div>
    </Shell>
  );
}

function Desk({ onOut }: { onOut: () => void }) {
  const { tab, event, view, order } = usePlace();
  /** An event's own pages. */
  const inEvent = tab === 'events' && event !== null;
  const [events, setEvents] = useState<OrganiserEvent[] | null>(null);
  const [plans, setPlans] = useState<PlanSummary[] | null>(null);

  const load = async () => {
    const [eventsAnswer, plansAnswer] = await Promise.all([
      call<{ events: OrganiserEvent[] }>('/api/organiser/events'),
      call<{ plans: PlanSummary[] }>('/api/organiser/plans'),
    ]);
    if (eventsAnswer.kind === 'problem' && eventsAnswer.problem.status === 401) return onOut();
    if (eventsAnswer.kind === 'ok') setEvents(eventsAnswer.body.events);
    if (plansAnswer.kind === 'ok') setPlans(plansAnswer.body.plans);
  };
  useEffect(() => void load(), [tab, event]);
  useEffect(() => {
    if (!inEvent) document.title = titleOf(words.nav[tab]);
  }, [tab, inEvent]);

  return (
    <div class="stack-l">
      <nav class={inEvent ? 'tabs inside' : 'tabs'} aria-label={words.title}>
        {tabs.map((one) => (
          <a
            key={one}
            class="tab"
            href={hashOf({ tab: one })}
            aria-current={tab === one ? (inEvent ? 'true' : 'page') : undefined}
          >
            {words.nav[one]}
          </a>
        ))}
      </nav>
      <Background />
      {tab === 'events' && event === null && <EventList events={events} />}
      {tab === 'events' && event !== null && <EventPanel key={event} id={event} view={view} order={order} />}
      {tab === 'newEvent' && (
        <NewEvent plans={plans ?? []} onCreated={(id) => go(placeOfEvent(id, 'overview'))} />
      )}
      {tab === 'payments' && (
        <>
          <OpenPayments event={event} events={events ?? []} />
          <Reconcile />
        </>
      )}
      {tab === 'mails' && <Mails events={events ?? []} />}
      {tab === 'buyers' && <Buyers />}
      {tab === 'webhooks' && <Webhooks events={events ?? []} />}
      {tab === 'plans' && <Plans plans={plans} onImported={() => void load()} />}
    </div>
  );
}
