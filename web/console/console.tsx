import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { Shell } from '../shared/shell.tsx';
import { consoleTexts as words } from '../shared/texts/console-texts.ts';
import { texts } from '../shared/texts/texts.ts';
import { EventList, EventPanel } from './events.tsx';
import { focusOnce } from './fields.tsx';
import { NewEvent } from './new-event.tsx';
import { Plans } from './plans.tsx';
import { Reconcile } from './reconcile.tsx';
import type { OrganiserEvent, PlanSummary } from './shapes.ts';
import { SignIn } from './sign-in.tsx';
import { Webhooks } from './webhooks.tsx';

type Tab = 'events' | 'newEvent' | 'plans' | 'payments' | 'webhooks';

/** `/organiser`: sign in, plans, events, the sale's controls. */
export function Console() {
  const [email, setEmail] = useState<string | null | undefined>(undefined);
  useEffect(() => {
    document.title = `${words.title} · ${texts.brand}`;
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
        {/* Another element for each, so that the focus moves to it when somebody has signed in. */}
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
  const [tab, setTab] = useState<Tab>('events');
  const [events, setEvents] = useState<OrganiserEvent[] | null>(null);
  const [plans, setPlans] = useState<PlanSummary[] | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);

  const load = async () => {
    const [eventsAnswer, plansAnswer] = await Promise.all([
      call<{ events: OrganiserEvent[] }>('/api/organiser/events'),
      call<{ plans: PlanSummary[] }>('/api/organiser/plans'),
    ]);
    if (eventsAnswer.kind === 'problem' && eventsAnswer.problem.status === 401) return onOut();
    if (eventsAnswer.kind === 'ok') setEvents(eventsAnswer.body.events);
    if (plansAnswer.kind === 'ok') setPlans(plansAnswer.body.plans);
  };
  useEffect(() => void load(), []);

  return (
    <div class="stack-l">
      <nav class="tabs" aria-label={words.title}>
        {(['events', 'newEvent', 'plans', 'payments', 'webhooks'] as const).map((one) => (
          <button
            key={one}
            type="button"
            class="tab"
            aria-current={tab === one ? 'page' : undefined}
            onClick={() => {
              setTab(one);
              setChosen(null);
              void load();
            }}
          >
            {words.nav[one]}
          </button>
        ))}
      </nav>
      {tab === 'events' && !chosen && <EventList events={events} onChoose={setChosen} />}
      {tab === 'events' && chosen && <EventPanel key={chosen} id={chosen} onBack={() => setChosen(null)} />}
      {tab === 'newEvent' && (
        <NewEvent
          plans={plans ?? []}
          onCreated={(id) => {
            void load();
            setTab('events');
            setChosen(id);
          }}
        />
      )}
      {tab === 'payments' && <Reconcile />}
      {tab === 'webhooks' && <Webhooks events={events ?? []} />}
      {tab === 'plans' && <Plans plans={plans} onImported={() => void load()} />}
    </div>
  );
}
