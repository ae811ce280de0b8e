import { useState } from 'preact/hooks';
import type { OrderAnswer, TicketsAnswer } from '../../src/http/api-types.ts';
import { announce } from '../shared/live.tsx';
import { eventTime, money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';

const words = texts.order;

/** One card a ticket; one ticket a block on paper. */
export function Tickets(props: {
  tickets: TicketsAnswer['tickets'];
  order: OrderAnswer;
  secret: string | null;
}) {
  const { tickets, order } = props;
  return (
    <section class="stack" aria-labelledby="tickets-title">
      <div class="tickets-head">
        <h2 id="tickets-title">
          {words.tickets} <span class="muted small">{words.ticketCount(tickets.length)}</span>
        </h2>
        <div class="row no-print">
          <CopyLink />
          <Download order={order.order} secret={props.secret} />
          <button type="button" class="button" onClick={() => window.print()}>
            {words.print}
          </button>
        </div>
      </div>
      <ul class="tickets">
        {tickets.map((ticket) => {
          const where = texts.map.seat(ticket.seat);
          return (
            <li key={ticket.ticket} class="ticket">
              <div class="ticket-text">
                <p class="ticket-event">{order.eventName}</p>
                {order.performanceAt && (
                  <p class="ticket-when">{eventTime(order.performanceAt, order.timeZone)}</p>
                )}
                {order.venue && <p class="muted">{order.venue}</p>}
                <h3>{texts.map.sectionName(ticket.seat.sectionName)}</h3>
                <p class="ticket-seat">{where}</p>
                <p class="muted">
                  {ticket.seat.category}
                  {ticket.seat.kindName && ` · ${ticket.seat.kindName}`} ·{' '}
                  <span class="num">{priceInWords(ticket.seat, order.currency)}</span>
                </p>
                <p class="muted small">{order.buyer.name}</p>
                <details class="no-print small">
                  <summary>{words.code}</summary>
                  <code>{ticket.code}</code>
                </details>
              </div>
              <div
                class="qr"
                role="img"
                aria-label={words.qrLabel(`${ticket.seat.sectionName}, ${where}`)}
                ref={(node) => {
                  if (node && node.childElementCount === 0) node.replaceChildren(...svgOf(ticket.qr));
                }}
              />
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** The seat's price and its fee. Their sum is the price in the mail and the ticket document. */
function priceInWords({ price, fee }: TicketsAnswer['tickets'][number]['seat'], currency: string): string {
  return fee > 0 ? words.priceAndFee(money(price, currency), money(fee, currency)) : money(price, currency);
}

/** Parsed as an image document and stripped of anything that is not drawing: markup from the network is never run. */
function svgOf(markup: string): Element[] {
  const document = new DOMParser().parseFromString(markup, 'image/svg+xml');
  const root = document.documentElement;
  if (root.nodeName !== 'svg') return [];
  for (const node of root.querySelectorAll('script, foreignObject, a, use, image')) node.remove();
  for (const node of [root, ...root.querySelectorAll('*')]) {
    for (const { name } of [...node.attributes])
      if (/^(on|style|href|xlink)/i.test(name)) node.removeAttribute(name);
  }
  root.setAttribute('aria-hidden', 'true');
  return [root];
}

function CopyLink() {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  const labels = { idle: words.copy, copied: words.copied, failed: words.copyFailed };
  const say = (next: 'copied' | 'failed') => {
    setState(next);
    announce(labels[next]);
  };
  return (
    <button
      type="button"
      class="button"
      onClick={() => {
        // Browsers have no clipboard for pages that came without https.
        if (!navigator.clipboard) return say('failed');
        navigator.clipboard.writeText(location.href).then(
          () => say('copied'),
          () => say('failed'),
        );
      }}
    >
      {labels[state]}
    </button>
  );
}

/** Wider than this, a page of paper is of more use than one as wide as a phone. CSS pixels. */
const phoneWidthMax = 600;

/**
 * The ticket document. A plain link would do in the browser that bought; from a mail opened elsewhere the secret has to go
 * with the request, and never into an address.
 */
function Download(props: { order: string; secret: string | null }) {
  const [state, setState] = useState<'idle' | 'busy' | 'failed'>('idle');
  const labels = { idle: words.download, busy: texts.basket.working, failed: words.downloadFailed };
  const download = async () => {
    if (state === 'busy') return;
    setState('busy');
    const size = window.innerWidth <= phoneWidthMax ? 'phone' : 'a4';
    const headers = props.secret ? { authorization: `Bearer ${props.secret}` } : undefined;
    const path = `/api/orders/${encodeURIComponent(props.order)}/tickets.pdf?size=${size}`;
    try {
      const answer = await fetch(path, { headers, credentials: 'same-origin' });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      save(await answer.blob(), 'tickets.pdf');
      setState('idle');
    } catch {
      setState('failed');
      announce(words.downloadFailed);
    }
  };
  return (
    <button type="button" class="button" aria-disabled={state === 'busy'} onClick={() => void download()}>
      {labels[state]}
    </button>
  );
}

function save(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  // The browser has taken the file by then, also on a slow telephone.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
