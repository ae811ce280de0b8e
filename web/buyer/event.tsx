import { useEffect } from 'preact/hooks';
import { allows } from '../../src/core/phase.ts';
import type { CodeAnswer, EventObject, StatusObject } from '../../src/http/api-types.ts';
import { useServerNow } from '../shared/clock.ts';
import { announce } from '../shared/live.tsx';
import { Notice, ViewHeading } from '../shared/shell.tsx';
import { clockFace, count, eventTime, money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { AccessCode, hasCodes, isPresale } from './access-code.tsx';
import { waitingIn } from './line.ts';
import { join } from './line-acts.ts';
import { isOpen, rangeFor, useLeftByCategory } from './price-range.ts';
import type { Buyer, BuyerState, View } from './session.ts';

/** Name and the facts that stay in sight on every step; shorter once seats are being chosen. */
export function EventHeader(props: {
  state: Pick<BuyerState, 'code'>;
  event: EventObject;
  status: StatusObject;
  view: View;
}) {
  const { event, status } = props;
  const presale = isPresale(event, status, useServerNow(event.presaleAt !== undefined));
  const short = ['choose', 'basket', 'pay', 'look'].includes(props.view);
  return (
    <div class={short ? 'event-header short' : 'event-header'}>
      <div class="event-title">
        {!short && (
          <p class={`phase phase-${status.phase}`}>
            {presale ? texts.access.phase : texts.phases[status.phase]}
          </p>
        )}
        <h1 tabIndex={-1}>{event.name}</h1>
        {event.performanceAt && <p class="when">{eventTime(event.performanceAt, event.timeZone)}</p>}
        {!short && event.venue && <p class="muted">{event.venue}</p>}
      </div>
      {!short && status.phase !== 'cancelled' && (
        <Facts event={event} status={status} presale={presale} code={props.state.code} />
      )}
    </div>
  );
}

function Facts(props: {
  event: EventObject;
  status: StatusObject;
  presale: boolean;
  code: CodeAnswer | null;
}) {
  const { event, status, presale, code } = props;
  const range = rangeFor(event, status.priceRange, code, useLeftByCategory(event.id, status, code));
  return (
    <dl class="facts">
      <div>
        <dt>{texts.event.prices}</dt>
        <dd class="num">
          {range ? texts.event.range(range.min, range.max, range.currency) : texts.event.noPrice}
        </dd>
      </div>
      <div>
        <dt>{texts.event.left}</dt>
        <dd class="num">{texts.event.leftOf(status.seats.left, status.seats.total)}</dd>
      </div>
      {status.phase !== 'open' && event.presaleAt && (
        <div>
          <dt>{texts.access.presaleFrom}</dt>
          <dd>{eventTime(event.presaleAt, event.timeZone)}</dd>
        </div>
      )}
      {(status.phase !== 'open' || presale) && event.opensAt && (
        <div>
          <dt>{texts.event.opens}</dt>
          <dd>{eventTime(event.opensAt, event.timeZone)}</dd>
        </div>
      )}
      {event.closesAt && (
        <div>
          <dt>{texts.event.closes}</dt>
          <dd>{eventTime(event.closesAt, event.timeZone)}</dd>
        </div>
      )}
      <div>
        <dt>{texts.event.limit}</dt>
        <dd>{texts.event.upTo(event.limits.accountSeatsMax ?? event.limits.holdSeatsMax)}</dd>
        {event.limits.instrumentSeatsMax !== undefined && (
          <dd>{texts.event.upToCard(event.limits.instrumentSeatsMax)}</dd>
        )}
      </div>
    </dl>
  );
}

/** Before the line: countdown or the button that joins. */
export function EventView({ buyer, state }: { buyer: Buyer; state: BuyerState }) {
  const event = state.event!;
  const status = state.status!;
  const presale = isPresale(event, status, useServerNow(event.presaleAt !== undefined));
  return (
    <div class="two-columns">
      <section class="card stack-l">
        <Opening buyer={buyer} state={state} status={status} />
        {state.bought && (
          <Notice>
            <p>
              <a
                href={`/orders/${encodeURIComponent(state.bought.order)}${state.bought.secret ? `#${state.bought.secret}` : ''}`}
              >
                {texts.order.tickets}
              </a>
            </p>
          </Notice>
        )}
      </section>
      <section class="card stack">
        <h2>{texts.event.priceTable}</h2>
        <PriceTable event={event} code={state.code} />
        {event.orderFee > 0 && (
          <p class="muted small">{texts.event.orderFee(money(event.orderFee, event.currency))}</p>
        )}
        {hasCodes(event) && (
          <>
            <p class="muted small">{texts.access.help}</p>
            {!presale && <AccessCode buyer={buyer} state={state} />}
          </>
        )}
      </section>
    </div>
  );
}

function Opening({ buyer, state, status }: { buyer: Buyer; state: BuyerState; status: StatusObject }) {
  const { presaleAt } = state.event!;
  const now = useServerNow(status.phase === 'scheduled' || presaleAt !== undefined);
  const left = status.opensAt === null ? null : status.opensAt - now;
  const minutes = left === null ? null : Math.ceil(left / 60_000);
  useEffect(() => {
    // Spoken rarely: at ten, five and one minute, not each second.
    if (status.phase === 'scheduled' && minutes !== null && [10, 5, 1].includes(minutes)) {
      announce(`${texts.event.opensIn} ${clockFace(minutes * 60_000)}`);
    }
  }, [minutes, status.phase]);

  if (status.phase === 'closed') {
    return (
      <div class="stack">
        <ViewHeading>{texts.over.closedTitle}</ViewHeading>
        <p>{texts.over.closed}</p>
      </div>
    );
  }
  if (!allows(status.phase, 'join')) {
    return (
      <div class="stack">
        <ViewHeading>
          {left === null ? texts.phases.scheduled : left > 0 ? texts.event.opensIn : texts.event.opensSoon}
        </ViewHeading>
        <p class="countdown num" role="timer">
          {left === null ? '–' : <Countdown ms={left} />}
        </p>
        <p class="muted">{left === null ? texts.event.opensAtUnknown : texts.event.keepOpen}</p>
        <JoinButton buyer={buyer} state={state} enabled={false} />
        <LookButton buyer={buyer} />
      </div>
    );
  }
  if (isPresale(state.event!, status, now)) {
    return <PresaleOpening buyer={buyer} state={state} status={status} left={left ?? 0} />;
  }
  return (
    <div class="stack">
      <ViewHeading>{headingOf(status)}</ViewHeading>
      <p>
        {status.soldOut || status.phase === 'sold_out'
          ? `${texts.soldOut.text} ${texts.soldOut.mayReturn}`
          : status.phase === 'paused'
            ? texts.waiting.paused
            : status.phase === 'pre_queue'
              ? texts.event.preQueue
              : texts.event.joinHelp}
      </p>
      <LineLength status={status} />
      <JoinButton buyer={buyer} state={state} enabled />
      <LookButton buyer={buyer} />
      <p class="muted small">{texts.event.cookies}</p>
    </div>
  );
}

/** Open to those with a code; the others see when it is their turn. `left`: ms until then. */
function PresaleOpening(props: { buyer: Buyer; state: BuyerState; status: StatusObject; left: number }) {
  const { buyer, state, status, left } = props;
  const opened = state.code?.presale === true;
  return (
    <div class="stack">
      <ViewHeading>{texts.access.presaleTitle}</ViewHeading>
      <p>{opened ? texts.access.presaleUnlocked : texts.access.presaleHelp}</p>
      <AccessCode buyer={buyer} state={state} />
      <LineLength status={status} />
      <JoinButton buyer={buyer} state={state} enabled={opened} />
      <p class="muted">
        {texts.access.publicIn}{' '}
        <span class="num" role="timer">
          <Countdown ms={left} />
        </span>
      </p>
      <LookButton buyer={buyer} />
      <p class="muted small">{texts.event.cookies}</p>
    </div>
  );
}

function headingOf(status: StatusObject): string {
  return status.soldOut ? texts.phases.sold_out : texts.phases[status.phase];
}

function LineLength({ status }: { status: StatusObject }) {
  const waiting = waitingIn(status);
  if (waiting === 0) return null;
  return <p class="muted num">{`${texts.waiting.ahead}: ${count(waiting)}`}</p>;
}

function JoinButton({ buyer, state, enabled }: { buyer: Buyer; state: BuyerState; enabled: boolean }) {
  const busy = state.busy === 'join';
  return (
    <button
      type="button"
      class="button primary wide"
      aria-disabled={!enabled || busy}
      onClick={() => enabled && !busy && void join(buyer)}
    >
      {busy ? texts.event.joining : texts.event.join}
    </button>
  );
}

export function LookButton({ buyer, label = texts.event.look }: { buyer: Buyer; label?: string }) {
  return (
    <button type="button" class="button wide" onClick={() => buyer.store.set({ looking: true })}>
      {label}
    </button>
  );
}

function Countdown({ ms }: { ms: number }) {
  const days = Math.floor(ms / 86_400_000);
  return (
    <>
      {days > 0 && <span>{texts.event.days(days)} </span>}
      {clockFace(days > 0 ? ms % 86_400_000 : ms)}
    </>
  );
}

function PriceTable({ event, code }: { event: EventObject; code: CodeAnswer | null }) {
  return (
    <table class="price-table">
      <thead>
        <tr>
          <th scope="col">{texts.event.category}</th>
          <th scope="col" class="amount">
            {texts.event.price}
          </th>
        </tr>
      </thead>
      {event.prices.map((one) => (
        <tbody key={one.category}>
          <tr>
            <th scope="rowgroup">
              <Swatch color={one.color} /> {one.category}
              <Lock name={one.category} locked={one.locked} opened={code?.categories} />
              {one.fee > 0 && (
                <div class="muted small">{texts.event.fee(money(one.fee, event.currency))}</div>
              )}
            </th>
            <td class="amount">{money(one.price, event.currency)}</td>
          </tr>
          {(event.kinds ?? []).map(({ id, name, conditions, locked }) => {
            const price = one.kinds?.[id];
            if (price === undefined) return null;
            return (
              <tr key={id} class="of-kind">
                <th scope="row">
                  {name}
                  {conditions !== '' && <div class="muted small">{conditions}</div>}
                  <Lock name={id} locked={locked} opened={code?.kinds} />
                </th>
                <td class="amount">{money(price, event.currency)}</td>
              </tr>
            );
          })}
        </tbody>
      ))}
    </table>
  );
}

function Lock(props: { name: string; locked?: true; opened?: readonly string[] }) {
  const { name, locked, opened } = props;
  if (!locked) return null;
  return (
    <div class="muted small">
      {isOpen(name, locked, opened) ? texts.access.unlocked : texts.access.locked}
    </div>
  );
}

/** Set through the CSSOM: the pages' policy forbids style attributes in markup, not this. */
export function Swatch({ color }: { color: string }) {
  return (
    <span
      class="swatch"
      aria-hidden="true"
      ref={(node) => {
        node?.style.setProperty('background-color', color);
      }}
    />
  );
}
