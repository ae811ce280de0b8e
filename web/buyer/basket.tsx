import { useEffect, useState } from 'preact/hooks';
import { useServerNow } from '../shared/clock.ts';
import { announce } from '../shared/live.tsx';
import { SeatTable } from '../shared/seat-table.tsx';
import { Confirm, Notice, ViewHeading } from '../shared/shell.tsx';
import { clockFace, money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { AccessCode } from './access-code.tsx';
import { checkHold, release, removeSeat } from './basket-acts.ts';
import { KindChooser, KindConditions } from './basket-kinds.tsx';
import { BuyerForm } from './buyer-form.tsx';
import { type Buyer, type BuyerState, pricedSeats, totalOf } from './session.ts';

const words = texts.basket;

/** A live hold: its seats, its countdown, and the three ways on: pay, change, give back. */
export function BasketView({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const hold = state.hold!;
  const [paying, setPaying] = useState(false);
  const [asking, setAsking] = useState(false);
  const busy = state.busy !== null;
  const seats = pricedSeats(state);
  const total = totalOf(seats, hold.orderFee);
  const hasKinds = (state.event?.kinds ?? []).length > 0;
  useEffect(() => {
    if (state.recovering) announce(words.recovering);
  }, [state.recovering]);
  const left = useDeadline(Date.parse(hold.expiresAt), words.expiresSpoken, () => void checkHold(buyer));
  return (
    <div class="two-columns">
      <section class="card stack-l">
        <div class="stack">
          <ViewHeading>{words.title}</ViewHeading>
          <Clock label={words.expires} ms={left} />
          <p class="muted">{words.help}</p>
        </div>
        {state.recovering && (
          <Notice>
            <p>{words.recovering}</p>
          </Notice>
        )}
        <SeatTable
          seats={seats}
          currency={hold.currency}
          orderFee={hold.orderFee}
          total={total}
          kindOf={
            hasKinds
              ? (seat, where) => <KindChooser buyer={buyer} state={state} seat={seat} where={where} />
              : undefined
          }
          onRemove={busy ? undefined : (seat) => void removeSeat(buyer, seat)}
        />
        {hasKinds && <KindConditions state={state} seats={seats} />}
        {state.problem?.field === '/code' && <AccessCode buyer={buyer} state={state} />}
        {asking ? (
          <Confirm
            ask={words.releaseSure}
            yes={words.releaseYes}
            no={words.releaseNo}
            busy={busy}
            onYes={() => void release(buyer)}
            onNo={() => setAsking(false)}
          />
        ) : (
          <div class="row">
            {state.pass && (
              <button
                type="button"
                class="button"
                onClick={() => buyer.store.set({ changing: true, notice: null, problem: null })}
              >
                {words.change}
              </button>
            )}
            <button type="button" class="button quiet" onClick={() => setAsking(true)}>
              {words.release}
            </button>
          </div>
        )}
        <p class="muted small">{words.survives}</p>
      </section>
      <section class="card stack">
        {paying ? (
          <BuyerForm buyer={buyer} state={state} />
        ) : (
          <>
            <p class="big-total num">{money(total, hold.currency)}</p>
            <button type="button" class="button primary wide" onClick={() => setPaying(true)}>
              {words.pay}
            </button>
            <p class="muted small">{texts.payment.payNote}</p>
          </>
        )}
      </section>
    </div>
  );
}

/** A countdown that is looked at each second and spoken at five, two and one minute; `onEnd` once when it is over. */
export function useDeadline(deadline: number, speak: (minutes: number) => string, onEnd: () => void): number {
  const left = deadline - useServerNow();
  const minutes = Math.ceil(left / 60_000);
  useEffect(() => {
    if ([5, 2, 1].includes(minutes)) announce(speak(minutes));
  }, [minutes]);
  const over = left <= 0;
  useEffect(() => {
    if (!over) return;
    onEnd();
    // The server alone decides when it is over; its clock may be a moment behind ours.
    const timer = window.setInterval(onEnd, 3000);
    return () => window.clearInterval(timer);
  }, [over]);
  return left;
}

export function Clock(props: { label: string; ms: number }) {
  const soon = props.ms < 120_000;
  return (
    <p class={soon ? 'clock soon' : 'clock'} role="timer" aria-live="off">
      <span>{props.label}</span> <strong class="num">{clockFace(props.ms)}</strong>
    </p>
  );
}
