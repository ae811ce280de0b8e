import { useEffect, useRef, useState } from 'preact/hooks';
import type { OutputOf } from '../../src/operate/operation.ts';
import type { decideOpenPayment } from '../../src/operate/payments.ts';
import { call } from '../shared/api.ts';
import { Confirm, Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { money, shortDateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Field, focusOnce, refusal, type Said, SaidView } from './fields.tsx';
import { go, hashOf, placeOfEvent } from './place.ts';
import { Fact } from './report.tsx';
import type { OpenPayment, OpenPaymentList, OrganiserEvent } from './shapes.ts';
import { submitHandler } from './use-request.ts';

const words = consoleTexts.payments;
/** The worker has looked by then. */
const afterLookMs = 3_000;

/** The operator's list, of one event or of all. */
export function OpenPayments({ event, events }: { event: string | null; events: OrganiserEvent[] }) {
  const [page, setPage] = useState<OpenPaymentList | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const title = useRef<HTMLHeadingElement>(null);

  const load = async (after: string | null = null) => {
    const query = new URLSearchParams();
    if (event !== null) query.set('event', event);
    if (after !== null) query.set('after', after);
    const answer = await call<OpenPaymentList>(`/api/organiser/attention?${query}`);
    if (answer.kind !== 'ok') return setSaid(refusal(answer));
    const more = answer.body;
    setPage((now) => (after && now ? { ...more, entries: [...now.entries, ...more.entries] } : more));
  };
  useEffect(() => {
    setPage(null);
    setSaid(null);
    void load();
  }, [event]);

  const act = async (entry: OpenPayment, action: OpenPayment['actions'][number], note: string) => {
    const path = `/api/organiser/attention/${encodeURIComponent(entry.entry)}/${action.action}`;
    const answer = await call<OutputOf<typeof decideOpenPayment>>(path, {
      method: 'POST',
      body: action.note ? { note } : undefined,
    });
    if (answer.kind !== 'ok') setSaid(refusal(answer));
    else if (answer.body.repeated) setSaid({ tone: 'warn', text: words.repeated });
    else setSaid({ tone: 'good', text: action.action === 'look' ? words.looked : words.done(action.label) });
    if (action.action === 'look') window.setTimeout(() => void load(), afterLookMs);
    else await load();
    // The button that was pressed is gone with its entry.
    if (answer.kind === 'ok') title.current?.focus();
  };

  return (
    <section class="card stack">
      <h2 tabIndex={-1} ref={title}>
        {words.title}
      </h2>
      <p class="muted">{words.help}</p>
      <div class="row ends">
        <div class="field">
          <label for="payments-event">{words.ofEvent}</label>
          <select
            id="payments-event"
            value={event ?? ''}
            onChange={(change) => go(hashOf({ tab: 'payments', event: change.currentTarget.value || null }))}
          >
            <option value="">{words.all}</option>
            {events
              .filter(({ phase }) => phase !== 'draft')
              .map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
          </select>
        </div>
        <button type="button" class="button small" onClick={() => void load()}>
          {words.reload}
        </button>
      </div>
      <SaidView said={said} />
      {!page && !said && <p class="pulse">{texts.loading}</p>}
      {page && <p>{page.total === 0 ? words.none : words.total(page.total, page.entries.length)}</p>}
      {page && page.entries.length > 0 && (
        <ul class="plain stack">
          {page.entries.map((entry) => (
            <Entry key={entry.entry} entry={entry} onAct={(action, note) => act(entry, action, note)} />
          ))}
        </ul>
      )}
      {page?.next && (
        <div>
          <button type="button" class="button" onClick={() => void load(page.next)}>
            {words.more}
          </button>
        </div>
      )}
    </section>
  );
}

type Action = OpenPayment['actions'][number];

function Entry(props: { entry: OpenPayment; onAct: (action: Action, note: string) => Promise<void> }) {
  const { entry } = props;
  const { operation, currency } = entry;
  const [asked, setAsked] = useState<Action | null>(null);
  const [busy, setBusy] = useState(false);
  const sum = (minor: number | null) =>
    minor === null || currency === null ? words.notKnown : money(minor, currency);
  const heading = `payment-${entry.entry}`;
  const act = async (note: string) => {
    if (!asked || busy) return;
    setBusy(true);
    await props.onAct(asked, note);
    setBusy(false);
    setAsked(null);
  };
  return (
    <li class="card stack" aria-labelledby={heading}>
      <h3 id={heading}>{entry.title}</h3>
      <p>{entry.means}</p>
      <p>
        <strong>{words.charged}:</strong> {entry.charged}
      </p>
      <dl class="facts">
        <Fact term={words.since} value={shortDateTime(entry.since)} more={words.age(entry.ageMs)} />
        {operation && (
          <Fact
            term={words.operation}
            value={words.kinds[operation.kind] ?? operation.kind}
            more={words.states[operation.state] ?? operation.state}
          />
        )}
        {entry.amount !== null && <Fact term={words.amount} value={sum(entry.amount)} />}
        {operation && <Fact term={words.captured} value={sum(entry.captured)} />}
        {operation && <Fact term={words.refunded} value={sum(entry.refunded)} />}
      </dl>
      {entry.seatNames.length > 0 && (
        <p>
          {words.seats}: {entry.seatNames.join(' · ')}
        </p>
      )}
      {entry.says && (
        <p class="who">
          {words.reported}: {entry.says}
        </p>
      )}
      {entry.object && (
        <p class="muted small who">
          {words.object}: {entry.object}
        </p>
      )}
      {entry.order && entry.event && (
        <p class="small who">
          {words.order}: {entry.order} (
          {consoleTexts.refunds.states[entry.orderState ?? ''] ?? entry.orderState}){' '}
          <a href={placeOfEvent(entry.event, 'orders', entry.order)}>{words.toOrder}</a>
        </p>
      )}
      {asked === null ? (
        <div class="row">
          {entry.actions.map((action) => (
            <button
              key={action.action}
              type="button"
              class="button small"
              aria-label={words.of(action.label, entry.title)}
              onClick={() => setAsked(action)}
            >
              {action.label}
            </button>
          ))}
        </div>
      ) : asked.note ? (
        <Noted entry={entry.entry} action={asked} busy={busy} onYes={act} onNo={() => setAsked(null)} />
      ) : (
        <Confirm
          ask={asked.does}
          yes={asked.label}
          no={words.cancel}
          busy={busy}
          onYes={() => void act('')}
          onNo={() => setAsked(null)}
        />
      )}
    </li>
  );
}

/** Asks for the note with the confirmation. */
function Noted(props: {
  entry: string;
  action: Action;
  busy: boolean;
  onYes: (note: string) => Promise<void>;
  onNo: () => void;
}) {
  const [note, setNote] = useState('');
  const [missing, setMissing] = useState(false);
  return (
    <Notice tone="warn">
      <p tabIndex={-1} ref={focusOnce}>
        {props.action.does}
      </p>
      <form
        class="stack"
        onSubmit={submitHandler(() => (note.trim() === '' ? setMissing(true) : props.onYes(note.trim())))}
      >
        <Field
          id={`note-${props.entry}`}
          label={words.note}
          value={note}
          onValue={setNote}
          hint={words.noteHint}
        />
        <div role="alert">{missing && note.trim() === '' && <p>{words.noteMissing}</p>}</div>
        <div class="row">
          <button type="submit" class="button danger" disabled={props.busy}>
            {props.action.label}
          </button>
          <button type="button" class="button" onClick={props.onNo}>
            {words.cancel}
          </button>
        </div>
      </form>
    </Notice>
  );
}
