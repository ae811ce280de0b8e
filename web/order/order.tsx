import { useEffect, useMemo } from 'preact/hooks';
import type { OrderAnswer } from '../../src/http/api-types.ts';
import { announce } from '../shared/live.tsx';
import { SeatTable } from '../shared/seat-table.tsx';
import { Notice, Shell } from '../shared/shell.tsx';
import { createStore, useStore } from '../shared/store.ts';
import { eventTime, money, shortEventTime, timeOfDay } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { followOrder, type OrderPageState } from './follow-order.ts';
import { Tickets } from './tickets.tsx';

const words = texts.order;

/** The order page: each state in words, and the tickets after payment. */
export function OrderPage(props: { orderId: string; secret: string | null }) {
  const store = useMemo(
    () => createStore<OrderPageState>({ load: 'loading', order: null, tickets: null, trouble: false }),
    [],
  );
  const state = useStore(store);
  const { order } = state;
  useEffect(() => {
    const stop = new AbortController();
    void followOrder(props.orderId, props.secret, store, stop.signal);
    return () => stop.abort();
  }, [props.orderId]);
  useEffect(() => {
    if (order) document.title = `${words.for(order.eventName)} · ${texts.brand}`;
  }, [order?.eventName]);

  return (
    <Shell>
      <div class="stack-l">
        {state.trouble && (
          <Notice tone="warn">
            <p>{words.failed}</p>
          </Notice>
        )}
        {state.load === 'loading' && (
          <section class="card order-skeleton" aria-busy="true">
            <p class="pulse">{texts.loading}</p>
          </section>
        )}
        {state.load === 'not_found' && (
          <section class="card stack narrow">
            <h1>{words.notFoundTitle}</h1>
            <p>{words.notFound}</p>
            <p>
              <a href="/">{texts.events.all}</a>
            </p>
          </section>
        )}
        {order && state.load === 'ready' && (
          <>
            <div class="order-title">
              <h1>{words.for(order.eventName)}</h1>
              <WhenAndWhere order={order} />
            </div>
            <StateCard order={order} refundedSeats={refundedIn(order, state.tickets)} />
            {order.state === 'paid' &&
              !order.eventCancelled &&
              (state.tickets ? (
                <Tickets tickets={state.tickets} order={order} secret={order.secret ?? props.secret} />
              ) : (
                <p class="pulse">{words.ticketsSoon}</p>
              ))}
            <Details order={order} refundedSeats={refundedIn(order, state.tickets)} />
          </>
        )}
      </div>
    </Shell>
  );
}

function WhenAndWhere({ order }: { order: OrderAnswer }) {
  return (
    <>
      {order.performanceAt && <p>{eventTime(order.performanceAt, order.timeZone)}</p>}
      {order.venue && <p class="muted">{order.venue}</p>}
    </>
  );
}

/** Seats of a paid order whose tickets are not valid any more; known once its tickets are. */
function refundedIn(order: OrderAnswer, tickets: OrderPageState['tickets']): readonly number[] {
  if (order.state !== 'paid' || !tickets) return [];
  const valid = new Set(tickets.map(({ seat }) => seat.seat));
  return order.seats.map(({ seat }) => seat).filter((seat) => !valid.has(seat));
}

interface Said {
  title: string;
  text: string[];
  tone: 'good' | 'warn' | 'bad';
  link?: { href: string; label: string };
}

function StateCard({ order, refundedSeats }: { order: OrderAnswer; refundedSeats: readonly number[] }) {
  const view = sayState(order);
  const { refunds = [], returned = [] } = order;
  useEffect(() => announce(view.title), [view.title]);
  return (
    <section class={`card stack state-card ${view.tone}`}>
      <h2>{view.title}</h2>
      {view.text.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
      {refundedSeats.length > 0 && <p>{words.refundedSeats(refundedSeats.length)}</p>}
      {refunds.length > 0 && (
        <ul class="refunds">
          {refunds.map(({ amount, state, createdAt }) => (
            <li key={createdAt}>
              {words.refund[state](money(amount, order.currency), shortEventTime(createdAt, order.timeZone))}
            </li>
          ))}
        </ul>
      )}
      {returned.length > 0 && (
        <ul class="refunds">
          {returned.map(({ amount, at }) => (
            <li key={at}>
              {words.returned(money(amount, order.currency), shortEventTime(at, order.timeZone))}
            </li>
          ))}
        </ul>
      )}
      {refunds.length + returned.length > 0 && <p>{words.cancelledBank}</p>}
      {order.near && order.near.length > 0 && (
        <div>
          <p>{words.near}</p>
          <ul class="near-seats">
            {order.near.map((seat) => (
              <li key={seat.seat}>
                {texts.map.sectionName(seat.sectionName)}, {texts.map.seat(seat)} ·{' '}
                <span class="num">{money(seat.price + seat.fee, order.currency)}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
      {view.link && (
        <p>
          <a class="button primary" href={view.link.href}>
            {view.link.label}
          </a>
        </p>
      )}
    </section>
  );
}

/** Every state that an order can be in, in words. */
function sayState(order: OrderAnswer): Said {
  const eventPage = `/events/${encodeURIComponent(order.event)}`;
  const again = { href: eventPage, label: words.chooseAgain };
  const ended = order.reason ? (words.ends[order.reason] ?? words.endedOtherwise) : words.endedOtherwise;
  // The sentences about how orders end say that nothing was charged.
  const reason = order.returned ? words.endedWithMoney : ended;
  switch (order.state) {
    case 'reserved':
      return sayReserved(order, eventPage);
    case 'authorised':
      return { title: words.authorisedTitle, text: [words.authorised], tone: 'good' };
    case 'confirmed':
      return { title: words.confirmedTitle, text: [words.confirmed], tone: 'good' };
    case 'paid':
      if (order.eventCancelled) {
        const text = [words.ticketsOver, words.cancelledMoney];
        return { title: words.eventCancelledTitle, text, tone: 'warn' };
      }
      return { title: words.paidTitle, text: [words.sent(order.buyer.email), words.keep], tone: 'good' };
    case 'voiding':
      return order.reason === 'closed_by_buyer'
        ? { title: words.cancelledByYouTitle, text: [words.cancelledByYou], tone: 'warn', link: again }
        : { title: words.voidingTitle, text: [words.voiding], tone: 'bad', link: again };
    case 'closed':
      // An event that was cancelled has no seats to choose again.
      return order.reason === 'event_cancelled'
        ? {
            title: words.eventCancelledTitle,
            text: [order.returned ? words.endedWithMoney : words.endedOtherwise],
            tone: 'warn',
          }
        : { title: words.closedTitle, text: [reason], tone: 'warn', link: again };
    case 'cancelled':
      return sayCancelled(order, reason, again);
  }
}

function sayCancelled(order: OrderAnswer, reason: string, again: Said['link']): Said {
  // Refunds are listed one by one once they are made.
  const money = order.refunds ? [] : [words.cancelledMoney];
  switch (order.reason) {
    case 'capture_refused':
      return { title: words.cancelledTitle, text: [reason], tone: 'bad', link: again };
    case 'event_cancelled':
      return { title: words.eventCancelledTitle, text: [words.ticketsOver, ...money], tone: 'warn' };
    case 'refunded':
      // Its tickets were cancelled without paying: the money is elsewhere, such as in a dispute of the buyer's bank.
      return order.refunds?.length === 0
        ? { title: words.cancelledTitle, text: [words.cancelledUnpaid], tone: 'warn' }
        : { title: words.refundedTitle, text: [reason, ...money], tone: 'warn' };
    case null:
    default:
      return { title: words.cancelledTitle, text: money, tone: 'warn' };
  }
}

function sayReserved(order: OrderAnswer, eventPage: string): Said {
  const toPayment = { href: eventPage, label: words.toPayment };
  const { payment } = order;
  if (payment.state === 'waiting' && payment.action) {
    return {
      title: words.actionTitle,
      text: [words.action],
      tone: 'warn',
      link: { href: payment.action.url, label: words.toBank },
    };
  }
  if (payment.state === 'declined') {
    const why = texts.payment.declines[payment.decline ?? ''] ?? texts.payment.declines.declined!;
    return {
      title: words.declinedTitle,
      text: [why, words.reserved(timeOfDay(order.paymentDeadline))],
      tone: 'bad',
      link: toPayment,
    };
  }
  if (payment.state === 'none') {
    return {
      title: words.reservedTitle,
      text: [words.reserved(timeOfDay(order.paymentDeadline))],
      tone: 'warn',
      link: toPayment,
    };
  }
  return { title: words.checkingTitle, text: [words.checking], tone: 'good' };
}

function Details({ order, refundedSeats }: { order: OrderAnswer; refundedSeats: readonly number[] }) {
  const { instrument } = order.payment;
  return (
    <section class="card stack details">
      <h2>{words.title}</h2>
      <dl class="facts">
        <div>
          <dt>{words.number}</dt>
          <dd class="order-number">{order.order}</dd>
        </div>
        <div>
          <dt>{words.buyer}</dt>
          <dd>
            {order.buyer.name}
            <div class="muted small">{order.buyer.email}</div>
          </dd>
        </div>
        <div>
          <dt>{words.amount}</dt>
          <dd class="num">{money(order.amount, order.currency)}</dd>
        </div>
        {instrument && (
          <div>
            <dt>{words.card}</dt>
            <dd>{words.cardEnding(instrument.brand, instrument.last4)}</dd>
          </div>
        )}
      </dl>
      <SeatTable
        seats={order.seats}
        currency={order.currency}
        orderFee={order.orderFee}
        total={order.amount}
        noteOf={(seat) => (refundedSeats.includes(seat) ? words.refundedSeat : null)}
      />
    </section>
  );
}
