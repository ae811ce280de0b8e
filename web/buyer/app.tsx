import { useEffect } from 'preact/hooks';
import { pause } from '../shared/clock.ts';
import { announce, useHushBetween } from '../shared/live.tsx';
import { ProblemView, problemText } from '../shared/problem.tsx';
import { Notice, Shell, ViewHeading } from '../shared/shell.tsx';
import { useStore } from '../shared/store.ts';
import { texts } from '../shared/texts/texts.ts';
import { checkCode } from './access-code.tsx';
import { BasketView } from './basket.tsx';
import { followOtherTabs, recallAll } from './basket-acts.ts';
import { ChooseView, LookView } from './choose.tsx';
import { CooldownView } from './cooldown.tsx';
import { EventHeader, EventView } from './event.tsx';
import { fetchCookieEarly, join, loadEvent, look, startPolling, tryPass } from './line-acts.ts';
import { PayView } from './pay.tsx';
import { type Buyer, type BuyerState, type View, viewOf } from './session.ts';
import { WaitingView } from './waiting.tsx';

/** The buyer's way through one event: event → line → seats → basket → payment, in one page that survives reloads. */
export function App({ buyer }: { buyer: Buyer }) {
  const state = useStore(buyer.store);
  useEffect(() => start(buyer), [buyer]);
  const view = viewOf(state);
  const { event } = state;
  useHushBetween(view);

  useEffect(() => {
    if (event) document.title = `${event.name} · ${texts.brand}`;
  }, [event?.name]);
  useEffect(() => {
    if (state.trouble > 1) announce(texts.keepTrying);
  }, [state.trouble > 1]);
  const notice = noticeText(state);
  useEffect(() => {
    if (notice) announce(notice);
  }, [notice]);
  useEffect(() => {
    if (state.problem) announce(problemText(state.problem));
  }, [state.problem]);

  return (
    <Shell test={event?.payment.test} nav={<Steps view={view} />}>
      <div class="stack-l">
        {event && state.status && (
          <EventHeader state={state} event={event} status={state.status} view={view} />
        )}
        <div class="messages">
          {state.trouble > 1 && (
            <Notice tone="warn">
              <p>{texts.keepTrying}</p>
            </Notice>
          )}
          {state.status?.message && (
            <Notice tone="warn" title={texts.event.message}>
              <p class="organiser-message">{state.status.message}</p>
            </Notice>
          )}
          {notice && (
            <Notice
              tone={state.notice === 'hold_gone' || state.notice === 'hold_lost' ? 'warn' : 'good'}
              onClose={() => buyer.store.set({ notice: null })}
            >
              <p>{notice}</p>
            </Notice>
          )}
          {state.problem?.code === 'cooldown' && (
            <CooldownView problem={state.problem} onClose={() => buyer.store.set({ problem: null })} />
          )}
          {state.problem && state.problem.code !== 'cooldown' && (
            <ProblemView problem={state.problem} onClose={() => buyer.store.set({ problem: null })} />
          )}
        </div>
        <Current key={view} view={view} buyer={buyer} state={state} />
      </div>
    </Shell>
  );
}

function Current({ view, buyer, state }: { view: View; buyer: Buyer; state: BuyerState }) {
  switch (view) {
    case 'loading':
      return <Loading failing={state.stale} />;
    case 'not_found':
      return <End title={texts.over.notFoundTitle} text={texts.over.notFound} />;
    case 'cancelled':
      return <End title={texts.over.cancelledTitle} text={texts.over.cancelled} />;
    case 'event':
      return <EventView buyer={buyer} state={state} />;
    case 'waiting':
      return <WaitingView buyer={buyer} state={state} />;
    case 'choose':
      return <ChooseView buyer={buyer} state={state} />;
    case 'look':
      return <LookView buyer={buyer} state={state} />;
    case 'basket':
      return <BasketView buyer={buyer} state={state} />;
    case 'pay':
      return <PayView buyer={buyer} state={state} />;
    case 'session_over':
      return (
        <section class="card stack narrow">
          <ViewHeading>{texts.session.endedTitle}</ViewHeading>
          <p>{texts.session.ended}</p>
          <div class="row">
            <button
              type="button"
              class="button primary"
              disabled={state.busy !== null}
              onClick={() => void join(buyer)}
            >
              {texts.session.again}
            </button>
          </div>
        </section>
      );
  }
}

function Loading({ failing }: { failing: boolean }) {
  return (
    <section class="card skeleton" aria-busy="true">
      <p class="pulse">{failing ? texts.over.failed : texts.loading}</p>
    </section>
  );
}

function End(props: { title: string; text: string }) {
  return (
    <section class="card stack narrow">
      <ViewHeading level={props.title === texts.over.notFoundTitle ? 1 : 2}>{props.title}</ViewHeading>
      <p>{props.text}</p>
      <p>
        <a href="/">{texts.events.all}</a>
      </p>
    </section>
  );
}

const stepViews = { line: ['waiting'], seats: ['choose'], basket: ['basket'], payment: ['pay'] } as const;

function Steps({ view }: { view: View }) {
  const names = Object.keys(stepViews) as (keyof typeof stepViews)[];
  const at = names.findIndex((name) => (stepViews[name] as readonly string[]).includes(view));
  if (at < 0) return null;
  return (
    <ol class="steps" aria-label={texts.steps.label}>
      {names.map((name, i) => (
        <li
          key={name}
          class={i < at ? 'done' : i === at ? 'now' : ''}
          aria-current={i === at ? 'step' : undefined}
        >
          <span>{texts.steps[name]}</span>
        </li>
      ))}
    </ol>
  );
}

function noticeText(state: BuyerState): string | null {
  switch (state.notice) {
    case 'released':
      return texts.basket.released;
    case 'hold_gone':
      return texts.basket.gone;
    case 'hold_lost':
      return texts.basket.lost;
    case 'order_cancelled':
      return texts.payment.cancelled;
    case 'order_cancelling':
      return texts.payment.cancelling;
    case 'swapped':
      return texts.basket.swapped;
    case 'not_as_asked':
      return texts.map.best.notAsAsked;
    case null:
      return null;
  }
}

/** Loads what the page needs, asking again until it is there, then keeps it fresh. */
function start(buyer: Buyer): () => void {
  const stops: (() => void)[] = [];
  let stopped = false;
  void (async () => {
    for (let tries = 1; !stopped; tries++) {
      const [found] = await Promise.all([loadEvent(buyer), look(buyer)]);
      if (found === 'not_found') {
        // It may have been published just now, so the page does not give up: it asks again, ever less often.
        buyer.store.set({ load: 'not_found' });
        await pause(Math.min(30_000, 2_000 * tries));
        continue;
      }
      if (found === 'ready' && buyer.store.get().status) break;
      buyer.store.set({ stale: true });
      await pause(3000);
    }
    await recallAll(buyer);
    if (stopped) return;
    buyer.store.set({ load: 'ready', stale: false });
    stops.push(startPolling(buyer), followOtherTabs(buyer));
    void checkCode(buyer);
    await fetchCookieEarly(buyer);
    await tryPass(buyer);
  })();
  return () => {
    stopped = true;
    for (const stop of stops) stop();
  };
}
