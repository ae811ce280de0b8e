import { useState } from 'preact/hooks';
import type { OrderAnswer, TicketsAnswer } from '../../src/http/api-types.ts';
import { announce } from '../shared/live.tsx';
import { money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';

const words = texts.order;

/** One card a ticket; one ticket a block on paper. */
export function Tickets(props: { tickets: TicketsAnswer['tickets']; order: OrderAnswer }) {
  const { tickets, order } = props;
  return (
    <section class="stack" aria-labelledby="tickets-title">
      <div class="tickets-head">
        <h2 id="tickets-title">
          {words.tickets} <span class="muted small">{words.ticketCount(tickets.length)}</span>
        </h2>
        <div class="row no-print">
          <CopyLink />
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
                <h3>{texts.map.sectionName(ticket.seat.sectionName)}</h3>
                <p class="ticket-seat">{where}</p>
                <p class="muted">
                  {ticket.seat.category} · <span class="num">{money(ticket.seat.price, order.currency)}</span>
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
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class="button"
      onClick={() => {
        navigator.clipboard?.writeText(location.href).then(
          () => {
            setCopied(true);
            announce(words.copied);
          },
          () => setCopied(false),
        );
      }}
    >
      {copied ? words.copied : words.copy}
    </button>
  );
}
