import { useEffect, useRef, useState } from 'preact/hooks';
import { announce } from '../shared/live.tsx';
import { SeatTable } from '../shared/seat-table.tsx';
import { Confirm, Notice, ViewHeading } from '../shared/shell.tsx';
import { money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Clock, useDeadline } from './basket.tsx';
import { closeOrder, recallOrder } from './order-acts.ts';
import { payWith, refreshPayment } from './payment-acts.ts';
import { type CardForm, mountCardForm } from './payment-element.ts';
import { type Buyer, type BuyerState, orderUrl } from './session.ts';

const words = texts.payment;

/** An order that is not paid yet: its seats, its deadline, the card. */
export function PayView({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const order = state.order!;
  const [asking, setAsking] = useState(false);
  usePaymentUnderWay(buyer, state);
  const waiting = state.payment === 'asking' || state.payment === 'under_way' || state.payment === 'done';
  const left = useDeadline(Date.parse(order.paymentDeadline), words.deadlineSpoken, () => {
    if (buyer.store.get().busy !== 'pay') void checkOrder(buyer);
  });
  return (
    <div class="two-columns">
      <section class="card stack-l pay">
        <div class="stack">
          <ViewHeading>{words.cardTitle}</ViewHeading>
          <Clock label={words.deadline} ms={left} />
          {left <= 0 && !waiting && <p class="pulse">{words.deadlinePassed}</p>}
        </div>
        <PaymentState state={state} />
        {state.payment === 'action' && state.actionUrl ? (
          <BankAction url={state.actionUrl} />
        ) : (
          <Card buyer={buyer} state={state} waiting={waiting} over={left <= 0} />
        )}
      </section>
      <section class="card stack">
        <h2>{texts.basket.seats}</h2>
        <p class="muted">{words.forBuyer(order.buyer.name, order.buyer.email)}</p>
        <SeatTable
          seats={order.seats}
          currency={order.currency}
          orderFee={order.orderFee}
          total={order.amount}
        />
        {asking ? (
          <Confirm
            ask={words.cancelSure}
            yes={words.cancelYes}
            no={words.cancelNo}
            busy={state.busy !== null}
            onYes={() => {
              setAsking(false);
              void closeOrder(buyer);
            }}
            onNo={() => setAsking(false)}
          />
        ) : (
          <div>
            <button type="button" class="button quiet" disabled={waiting} onClick={() => setAsking(true)}>
              {words.cancel}
            </button>
          </div>
        )}
      </section>
    </div>
  );
}

/** A reload in the middle of a payment, or the way back from the bank: the payment is looked up until it has an end. */
function usePaymentUnderWay(buyer: Buyer, state: BuyerState): void {
  const order = state.order!;
  useEffect(() => {
    const stop = new AbortController();
    if (['waiting', 'under_way', 'authorised'].includes(order.payment.state)) {
      if (state.payment === 'idle') {
        buyer.store.set({ payment: 'asking' });
        void refreshPayment(buyer, stop.signal);
      }
    } else if (order.payment.state === 'declined' && state.payment === 'idle') {
      buyer.store.set({ payment: 'declined', decline: order.payment.decline ?? 'declined' });
    }
    return () => stop.abort();
  }, [order.order]);
}

function PaymentState({ state }: { state: BuyerState }) {
  const text =
    state.payment === 'asking'
      ? words.asking
      : state.payment === 'under_way'
        ? words.underWay
        : state.payment === 'done'
          ? words.done
          : state.payment === 'declined'
            ? `${words.declinedTitle}. ${words.declines[state.decline ?? ''] ?? words.declines.declined} ${words.tryAnother}`
            : state.payment === 'unavailable'
              ? `${words.unavailableTitle}. ${words.unavailable}`
              : state.payment === 'action'
                ? words.action
                : '';
  useEffect(() => {
    if (text) announce(text);
  }, [text]);
  if (state.payment === 'declined') {
    return (
      <Notice tone="bad" title={words.declinedTitle}>
        <p>{words.declines[state.decline ?? ''] ?? words.declines.declined}</p>
        <p>{words.tryAnother}</p>
      </Notice>
    );
  }
  if (state.payment === 'unavailable') {
    return (
      <Notice tone="warn" title={words.unavailableTitle}>
        <p>{words.unavailable}</p>
      </Notice>
    );
  }
  if (state.payment === 'idle') return null;
  return (
    <Notice>
      <p>{text}</p>
    </Notice>
  );
}

function BankAction({ url }: { url: string }) {
  useEffect(() => {
    // A moment to read why the page changes.
    const timer = window.setTimeout(() => location.assign(url), 1200);
    return () => window.clearTimeout(timer);
  }, [url]);
  return (
    <div class="stack">
      <p>{words.actionHelp}</p>
      <a class="button primary" href={url}>
        {words.actionAgain}
      </a>
    </div>
  );
}

function Card(props: { buyer: Buyer; state: BuyerState; waiting: boolean; over: boolean }) {
  const { buyer, state, waiting, over } = props;
  const order = state.order!;
  const payment = state.event!.payment;
  const target = useRef<HTMLDivElement>(null);
  const [form, setForm] = useState<CardForm | null>(null);
  const [failed, setFailed] = useState(false);
  const [round, setRound] = useState(0);
  const [message, setMessage] = useState<string | null>(null);
  const [making, setMaking] = useState(false);

  useEffect(() => {
    let gone = false;
    let mounted: CardForm | null = null;
    setFailed(false);
    mountCardForm(target.current!, {
      script: payment.script,
      publishableKey: payment.publishableKey,
      amount: order.amount,
      currency: order.currency,
      name: order.buyer.name,
      email: order.buyer.email,
    }).then(
      (made) => {
        if (gone) return made.remove();
        mounted = made;
        setForm(made);
      },
      () => !gone && setFailed(true),
    );
    return () => {
      gone = true;
      mounted?.remove();
      setForm(null);
    };
  }, [order.order, payment.script, round]);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!form || making || waiting || over) return;
    setMessage(null);
    setMaking(true);
    const made = await form.token();
    setMaking(false);
    if (made.kind === 'incomplete') {
      setMessage(made.message);
      if (made.message) announce(made.message);
    } else await payWith(buyer, { confirmationToken: made.id });
  };
  const busy = making || waiting;
  return (
    <form class="stack" noValidate onSubmit={(event) => void submit(event)}>
      <div class="card-form">
        {!form && !failed && <p class="pulse">{words.loadingCard}</p>}
        <div ref={target} />
        {failed && (
          <Notice tone="warn">
            <p>{words.cardFailed}</p>
            <div>
              <button type="button" class="button small" onClick={() => setRound(round + 1)}>
                {words.cardAgain}
              </button>
            </div>
          </Notice>
        )}
      </div>
      {message && <p class="field-error">{message}</p>}
      <button type="submit" class="button primary wide" aria-disabled={busy || over || !form}>
        {busy ? words.paying : words.pay(money(order.amount, order.currency))}
      </button>
      <p class="muted small">{words.payNote}</p>
    </form>
  );
}

/** The deadline has passed: the order is closed by the server unless a payment is still under way. */
async function checkOrder(buyer: Buyer): Promise<void> {
  const before = buyer.store.get().order;
  if (!before) return;
  const url = orderUrl(buyer, before.order);
  await recallOrder(buyer, before.order);
  if (!buyer.store.get().order) location.assign(url);
}
