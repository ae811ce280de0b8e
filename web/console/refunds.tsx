import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { Confirm } from '../shared/shell.tsx';
import { newKey } from '../shared/storage.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { money, shortDateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Field, focusOnce, minorOf, refusal, type Said, SaidView } from './fields.tsx';
import { OrderMails } from './mails.tsx';
import { go, placeOfEvent } from './place.ts';
import type { OrganiserEvent, OrganiserOrder, OrganiserRefund } from './shapes.ts';
import { submitHandler, useAnswer, useRequest } from './use-request.ts';

const words = consoleTexts.refunds;
const isOrderId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

/** Orders of a buyer, one order's refunds, and those of the event that failed. */
export function Refunds(props: { event: OrganiserEvent; order: string | null; shown: boolean }) {
  const { event } = props;
  const [sought, setSought] = useState('');
  const [found, setFound] = useState<OrganiserOrder[] | null>(null);
  // The address names the one that is shown; in another view it names none, and this one stays.
  const [chosen, setChosen] = useState(props.order);
  useEffect(() => {
    if (props.shown) setChosen(props.order);
  }, [props.shown, props.order]);
  const show = (order: string | null) => go(placeOfEvent(event.id, 'orders', order));
  const [said, setSaid] = useState<Said>(null);
  const base = `/api/organiser/events/${encodeURIComponent(event.id)}`;

  const find = async () => {
    const text = sought.trim();
    if (text === '') return;
    setSaid(null);
    setFound(null);
    if (isOrderId(text)) return show(text);
    show(null);
    const path = `${base}/orders?email=${encodeURIComponent(text)}`;
    const answer = await call<{ orders: OrganiserOrder[] }>(path);
    if (answer.kind !== 'ok') return setSaid(refusal(answer));
    setFound(answer.body.orders);
    if (answer.body.orders.length === 0) setSaid({ tone: 'warn', text: words.none });
  };

  return (
    <>
      <section class="card stack">
        <h3>{words.title}</h3>
        <p class="muted">{words.help}</p>
        <form class="stack" onSubmit={submitHandler(find)}>
          <Field id="refund-find" label={words.find} value={sought} onValue={setSought} />
          <div>
            <button type="submit" class="button">
              {words.go}
            </button>
          </div>
        </form>
        <SaidView said={said} />
        {found && found.length > 0 && (
          <ul class="plain stack">
            {found.map((order) => (
              <li key={order.order} class="event-row">
                <span>{`${shortDateTime(order.createdAt)} · ${money(order.amount, order.currency)} · ${words.states[order.state] ?? order.state}`}</span>
                <a
                  class="button small"
                  href={placeOfEvent(event.id, 'orders', order.order)}
                  aria-current={order.order === chosen ? 'true' : undefined}
                >
                  {words.open}
                  <span class="visually-hidden"> {order.order}</span>
                </a>
              </li>
            ))}
          </ul>
        )}
        <FailedRefunds base={base} shown={props.shown} />
      </section>
      {chosen && <OneOrder key={chosen} id={chosen} event={event} />}
    </>
  );
}

function OneOrder({ id, event }: { id: string; event: OrganiserEvent }) {
  const path = `/api/organiser/orders/${id}`;
  const { answer: order, said, setSaid, load } = useAnswer<OrganiserOrder>(path);
  return (
    <section class="card stack">
      <SaidView said={said} />
      {!order && !said && <p class="pulse">{texts.loading}</p>}
      {order && (
        <>
          <h3 class="who" tabIndex={-1} key={`${order.state} ${order.refunds?.length}`} ref={focusOnce}>
            {`${words.orderOf(order.buyer.name)} · ${words.states[order.state] ?? order.state}`}
          </h3>
          <p class="muted who">{words.orderId(order.order)}</p>
          {order.event !== event.id && <p>{words.otherEvent(order.event)}</p>}
          {order.state === 'paid' && <RefundForm order={order} onSaid={setSaid} onMade={() => void load()} />}
          {(order.refunds ?? []).length > 0 && (
            <>
              <h4>{words.list}</h4>
              <ul class="plain">
                {order.refunds?.map((refund) => (
                  <li key={refund.refund}>{sayRefund(refund)}</li>
                ))}
              </ul>
            </>
          )}
          {(order.reversals ?? []).length > 0 && (
            <>
              <h4>{words.reversalsTitle}</h4>
              <ul class="plain">
                {order.reversals?.map(({ reversal, kind, amount, currency, state, createdAt }) => (
                  <li key={reversal}>
                    {words.reversal[kind](
                      money(amount, currency),
                      words.reversalStates[state] ?? state,
                      shortDateTime(createdAt),
                    )}
                  </li>
                ))}
              </ul>
            </>
          )}
          {(order.returned ?? []).length > 0 && (
            <>
              <h4>{words.returnedTitle}</h4>
              <ul class="plain">
                {order.returned?.map(({ amount, at, object }) => (
                  <li key={object} class="who">
                    {words.returned(money(amount, order.currency), shortDateTime(at), object)}
                  </li>
                ))}
              </ul>
            </>
          )}
          <OrderMails key={order.refunds?.length} order={order.order} to={order.buyer.email} />
        </>
      )}
    </section>
  );
}

function sayRefund({ amount, currency, state, detail, createdAt }: OrganiserRefund): string {
  const says = `${shortDateTime(createdAt)} · ${money(amount, currency)} · ${words.refundStates[state] ?? state}`;
  return detail ? `${says} (${detail})` : says;
}

function RefundForm(props: { order: OrganiserOrder; onSaid: (said: Said) => void; onMade: () => void }) {
  const { order, onSaid } = props;
  const valid = (order.tickets ?? []).filter((ticket) => ticket.refundable);
  const [tickets, setTickets] = useState<ReadonlySet<string>>(new Set(valid.map(({ ticket }) => ticket)));
  const [fees, setFees] = useState(true);
  const [block, setBlock] = useState(false);
  const [unpaid, setUnpaid] = useState(false);
  const [goodwill, setGoodwill] = useState('');
  const [reason, setReason] = useState('');
  const [asked, setAsked] = useState<{ body: object; amount: number; key: string } | null>(null);
  const { busy, request } = useRequest();
  const path = `/api/organiser/orders/${order.order}/refunds`;

  const send = async (body: object, key?: string) => {
    const answer = await request<{ amount: number }>(path, { method: 'POST', body, key });
    if (answer.kind !== 'ok') onSaid(refusal(answer));
    return answer.kind === 'ok' ? answer.body : null;
  };
  const preview = async () => {
    onSaid(null);
    const sum = goodwill.trim() === '' ? 0 : minorOf(goodwill, order.currency);
    if (reason.trim() === '') return onSaid({ tone: 'bad', text: words.reasonMissing });
    if (sum === null) return onSaid({ tone: 'bad', text: words.amountWrong });
    const body = {
      tickets: [...tickets],
      fees: fees ? 'returned' : 'kept',
      seats: block ? 'block' : 'release',
      goodwill: unpaid ? 0 : sum,
      ...(unpaid ? { pays: false } : {}),
      reason: reason.trim(),
    };
    const would = await send({ ...body, preview: true });
    // The key is made when the question is asked, so that answering it twice by an impatient click makes only
    // one refund.
    if (would) setAsked({ body, amount: would.amount, key: newKey() });
  };
  const make = async () => {
    if (!asked || busy) return;
    const made = await send(asked.body, asked.key);
    if (!made) return;
    setAsked(null);
    onSaid({ tone: 'good', text: words.made(money(made.amount, order.currency)) });
    props.onMade();
  };

  if (asked) {
    return (
      <Confirm
        ask={words.sure(tickets.size, money(asked.amount, order.currency))}
        yes={words.yes}
        no={words.no}
        busy={busy}
        onYes={() => void make()}
        onNo={() => setAsked(null)}
      />
    );
  }
  return (
    <form class="stack" onSubmit={submitHandler(() => !busy && preview())}>
      <fieldset class="stack">
        <legend class="label">{words.tickets}</legend>
        {order.tickets?.map(({ ticket, refundable, place, seat, price, fee }) => (
          <label key={ticket}>
            <input
              type="checkbox"
              disabled={!refundable}
              checked={tickets.has(ticket)}
              onChange={() => {
                const next = new Set(tickets);
                if (!next.delete(ticket)) next.add(ticket);
                setTickets(next);
              }}
            />{' '}
            {`${words.seat(place, seat)} · ${money(price + fee, order.currency)}${refundable ? '' : ` · ${words.refunded}`}`}
          </label>
        ))}
      </fieldset>
      <label>
        <input type="checkbox" checked={fees} onChange={() => setFees(!fees)} /> {words.fees}
      </label>
      <label>
        <input type="checkbox" checked={block} onChange={() => setBlock(!block)} /> {words.block}
      </label>
      {(order.reversals ?? []).length > 0 && (
        <label>
          <input type="checkbox" checked={unpaid} onChange={() => setUnpaid(!unpaid)} /> {words.unpaid}
        </label>
      )}
      <div class="columns">
        <Field
          id="refund-goodwill"
          label={words.goodwill}
          value={goodwill}
          inputMode="decimal"
          onValue={setGoodwill}
          hint={words.goodwillHint}
        />
        <Field id="refund-reason" label={words.reason} value={reason} onValue={setReason} />
      </div>
      <div>
        <button type="submit" class="button primary" aria-disabled={busy}>
          {busy ? consoleTexts.busy : words.preview}
        </button>
      </div>
    </form>
  );
}

/** Failed refunds, which the organiser must notice. */
function FailedRefunds({ base, shown }: { base: string; shown: boolean }) {
  const path = shown ? `${base}/refunds?state=failed` : null;
  const { answer, said, setSaid, load } = useAnswer<{ refunds: OrganiserRefund[] }>(path);
  const failed = answer?.refunds ?? [];
  const [note, setNote] = useState('');
  const [noting, setNoting] = useState<string | null>(null);
  const act = async (refund: string, what: 'retry' | 'elsewhere') => {
    const body = what === 'elsewhere' ? { note: note.trim() } : undefined;
    const answer = await call(`/api/organiser/refunds/${refund}/${what}`, { method: 'POST', body });
    setNoting(null);
    setNote('');
    setSaid(
      answer.kind === 'ok'
        ? { tone: 'good', text: what === 'retry' ? words.retried : words.settled }
        : refusal(answer),
    );
    await load();
  };
  return (
    <>
      <SaidView said={said} />
      {failed.length > 0 && (
        <div class="stack">
          <h4>{words.failedTitle}</h4>
          <p class="muted">{words.failedHelp}</p>
          <ul class="plain stack">
            {failed.map((refund) => (
              <li key={refund.refund} class="stack">
                <span>{sayRefund(refund)}</span>
                <div class="row">
                  <button type="button" class="button small" onClick={() => void act(refund.refund, 'retry')}>
                    {words.retry}
                  </button>
                  <button type="button" class="button small" onClick={() => setNoting(refund.refund)}>
                    {words.elsewhere}
                  </button>
                </div>
                {noting === refund.refund && (
                  <form
                    class="stack"
                    onSubmit={submitHandler(() => note.trim() && act(refund.refund, 'elsewhere'))}
                  >
                    <Field id="refund-note" label={words.elsewhereNote} value={note} onValue={setNote} />
                    <div>
                      <button type="submit" class="button small">
                        {words.elsewhere}
                      </button>
                    </div>
                  </form>
                )}
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}
