import { useEffect, useRef } from 'preact/hooks';
import type { StatusObject } from '../../src/http/api-types.ts';
import { announce } from '../shared/live.tsx';
import { Notice, ViewHeading } from '../shared/shell.tsx';
import { count } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { LookButton } from './event.tsx';
import { bandOf, minutesOf, type Wait, waitOf } from './line.ts';
import type { Buyer, BuyerState } from './session.ts';

/** The waiting room. All figures come from the shared status object and the ticket's number. */
export function WaitingView({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const status = state.status!;
  const place = state.place!;
  const wait = waitOf(status, place);
  const soldOut = status.soldOut || status.phase === 'sold_out';
  const ahead = aheadText(wait);
  const estimate = waitText(wait);
  useSpoken(soldOut ? texts.soldOut.title : headline(status, wait, ahead, estimate));

  return (
    <div class="two-columns">
      <section class="card stack-l waiting">
        <div class="stack">
          <ViewHeading>
            {soldOut ? texts.soldOut.title : wait.called ? texts.waiting.called : texts.waiting.title}
          </ViewHeading>
          <StateLine
            status={status}
            wait={wait}
            soldOut={soldOut}
            number={place.number}
            atTheDoor={state.atTheDoor}
          />
        </div>
        {!soldOut && (
          <dl class="figures">
            <div class="figure main">
              <dt>{texts.waiting.ahead}</dt>
              <dd class="num">{wait.called ? count(0) : ahead}</dd>
            </div>
            <div class="figure">
              <dt>{texts.waiting.wait}</dt>
              <dd class="num">{estimate}</dd>
            </div>
          </dl>
        )}
        <Progress number={place.number} wait={wait} />
        <dl class="facts">
          <div>
            <dt>{texts.waiting.number}</dt>
            <dd class="num">{count(place.number)}</dd>
          </div>
          <div>
            <dt>{texts.waiting.behind}</dt>
            <dd class="num">{count(wait.behind)}</dd>
          </div>
        </dl>
        <p class={state.stale ? 'stale' : 'muted small num'}>
          {state.stale ? texts.waiting.stale : texts.waiting.updated(status.serverTime)}
        </p>
      </section>
      <section class="stack-l">
        <div class="card stack">
          <h2>{texts.waiting.howTitle}</h2>
          <ul class="ticks">
            {texts.waiting.how.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </div>
        <LookButton buyer={buyer} label={texts.event.lookMeanwhile} />
      </section>
    </div>
  );
}

function StateLine(props: {
  status: StatusObject;
  wait: Wait;
  soldOut: boolean;
  number: number;
  atTheDoor: boolean;
}) {
  const { status, wait, soldOut } = props;
  if (soldOut) {
    return (
      <>
        <p>{texts.soldOut.text}</p>
        {status.seats.inBaskets > 0 && <p>{texts.waiting.inBaskets(status.seats.inBaskets)}</p>}
        <p>{texts.soldOut.mayReturn}</p>
        <p>{texts.soldOut.numberKept(props.number)}</p>
      </>
    );
  }
  if (status.phase === 'paused') {
    return (
      <Notice tone="warn" title={texts.phases.paused}>
        <p>{texts.waiting.paused}</p>
      </Notice>
    );
  }
  if (status.phase === 'pre_queue') return <p>{texts.waiting.preQueue}</p>;
  if (wait.called) return <p class="pulse">{texts.waiting.calledWait}</p>;
  if (wait.scarce) {
    return (
      <Notice tone="warn">
        <p>{texts.waiting.scarce}</p>
      </Notice>
    );
  }
  return null;
}

/** How far the queue has moved since this place was first shown. The text next to it says the same. */
function Progress({ number, wait }: { number: number; wait: Wait }) {
  const first = useRef(Math.max(wait.ahead, 1));
  useEffect(() => {
    first.current = Math.max(first.current, wait.ahead);
  }, [number, wait.ahead]);
  const share = wait.called ? 1 : 1 - wait.ahead / (first.current + 1);
  return (
    <div class="progress" aria-hidden="true">
      <div
        ref={(node) => {
          node?.style.setProperty('transform', `scaleX(${Math.max(0.02, share)})`);
        }}
      />
    </div>
  );
}

function aheadText(wait: Wait): string {
  const band = bandOf(wait.ahead);
  if (band.kind === 'band') return texts.waiting.between(band.from, band.to);
  return wait.approximate && band.n > 0 ? texts.waiting.about(band.n) : texts.waiting.exactly(band.n);
}

function waitText(wait: Wait): string {
  if (wait.waitMs === null) return texts.waiting.unknownWait;
  if (wait.waitMs < 60_000) return texts.waiting.soon;
  const { from, to } = minutesOf(wait.waitMs);
  return from >= 120
    ? texts.waiting.hours(Math.floor(from / 60), Math.ceil(to / 60))
    : texts.waiting.minutes(from, to);
}

function headline(status: StatusObject, wait: Wait, ahead: string, estimate: string): string {
  if (status.phase === 'paused') return texts.waiting.paused;
  return wait.called ? texts.waiting.called : texts.waiting.announceAhead(ahead, estimate);
}

/** Speaks a changed sentence, at most every 20 s: a screen reader is not to be interrupted by each poll. */
function useSpoken(sentence: string): void {
  const last = useRef({ at: 0, sentence: '' });
  useEffect(() => {
    if (sentence === last.current.sentence) return;
    const wait = Math.max(0, last.current.at + 20_000 - Date.now());
    const timer = window.setTimeout(() => {
      last.current = { at: Date.now(), sentence };
      announce(sentence);
    }, wait);
    return () => window.clearTimeout(timer);
  }, [sentence]);
}
