import { useEffect, useRef, useState } from 'preact/hooks';
import type { cancelEvent } from '../../src/operate/cancellation.ts';
import type { OutputOf } from '../../src/operate/operation.ts';
import { call } from '../shared/api.ts';
import { announce } from '../shared/live.tsx';
import { Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { money, shortDateTime } from '../shared/texts/format.ts';
import { Field, focusOnce, refusal, type Said, SaidView } from './fields.tsx';
import { hashOf, placeOfEvent } from './place.ts';
import type { CancellationProgress, OrganiserEvent } from './shapes.ts';
import { submitHandler, useAnswer, useRequest } from './use-request.ts';

const words = consoleTexts.refunds;
const refreshMs = 2_000;

type Preview = Extract<OutputOf<typeof cancelEvent>, { confirmation: string }>;

/** Cancelling an event: what would happen, a code to be typed, then how far it has come. */
export function CancelEvent(props: { event: OrganiserEvent; onChanged: () => void }) {
  const { event } = props;
  const path = `/api/organiser/events/${encodeURIComponent(event.id)}/cancellation`;
  const isCancelled = event.phase === 'cancelled';
  const { answer, said, setSaid, load } = useAnswer<CancellationProgress>(
    isCancelled ? path : null,
    isCancelled ? refreshMs : null,
  );
  const [started, setStarted] = useState<CancellationProgress | null>(null);
  const progress = answer ?? started;

  const retry = async () => {
    const answer = await call(`${path}/retry`, { method: 'POST' });
    setSaid(answer.kind === 'ok' ? { tone: 'good', text: words.retried } : refusal(answer));
    await load();
  };
  return (
    <section class="card stack">
      <h3>{words.cancel.title}</h3>
      <SaidView said={said} />
      {progress ? (
        <Progress
          event={event.id}
          progress={progress}
          moved={started !== null}
          onRetry={() => void retry()}
        />
      ) : (
        <AskForm
          path={path}
          onSaid={setSaid}
          onStarted={(now) => {
            setStarted(now);
            props.onChanged();
          }}
        />
      )}
    </section>
  );
}

function AskForm(props: {
  path: string;
  onSaid: (said: Said) => void;
  onStarted: (progress: CancellationProgress) => void;
}) {
  const [reason, setReason] = useState('');
  const [fees, setFees] = useState(true);
  const [pace, setPace] = useState('');
  const [asked, setAsked] = useState<(Preview & { body: object }) | null>(null);
  const [typed, setTyped] = useState('');
  const { busy, request } = useRequest();

  const send = async <T,>(body: object) => {
    const answer = await request<T>(props.path, { method: 'POST', body });
    const mistyped = answer.kind === 'problem' && answer.problem.code === 'not_confirmed';
    if (mistyped) props.onSaid({ tone: 'bad', text: words.cancel.mistyped });
    else props.onSaid(answer.kind === 'ok' ? null : refusal(answer));
    return answer.kind === 'ok' ? answer.body : null;
  };
  const ask = async () => {
    if (reason.trim() === '') return props.onSaid({ tone: 'bad', text: words.reasonMissing });
    const perSecond = pace.trim() === '' ? undefined : Number(pace);
    if (perSecond !== undefined && !(perSecond >= 1 && perSecond <= 1_000)) {
      return props.onSaid({ tone: 'bad', text: words.cancel.paceWrong });
    }
    const body = { reason: reason.trim(), fees: fees ? 'returned' : 'kept', perSecond };
    const answer = await send<Preview>(body);
    if (answer) setAsked({ ...answer, body });
  };
  const confirm = async () => {
    if (!asked) return;
    const started = await send<CancellationProgress>({ ...asked.body, confirmation: typed });
    if (started) props.onStarted(started);
  };
  return (
    <form class="stack" onSubmit={submitHandler(() => !busy && (asked ? confirm() : ask()))}>
      {asked ? (
        <Notice tone="warn">
          <p>{words.cancel.would(asked.orders, asked.tickets, money(asked.amount, asked.currency))}</p>
          {asked.unpaidOrders > 0 && <p>{words.cancel.unpaid(asked.unpaidOrders)}</p>}
          <Field
            id="cancel-code"
            focus
            label={words.cancel.type(asked.confirmation)}
            value={typed}
            onValue={setTyped}
          />
          <div class="row">
            <button type="submit" class="button danger" aria-disabled={busy || typed.trim() === ''}>
              {busy ? consoleTexts.busy : words.cancel.yes}
            </button>
            <button type="button" class="button" onClick={() => setAsked(null)}>
              {words.cancel.no}
            </button>
          </div>
        </Notice>
      ) : (
        <>
          <p class="muted">{words.cancel.help}</p>
          <div class="columns">
            <Field id="cancel-reason" label={words.reason} value={reason} onValue={setReason} />
            <Field
              id="cancel-pace"
              label={words.cancel.pace}
              value={pace}
              inputMode="numeric"
              hint={words.cancel.paceHint}
              onValue={setPace}
            />
          </div>
          <label>
            <input type="checkbox" checked={fees} onChange={() => setFees(!fees)} /> {words.fees}
          </label>
          <div>
            <button type="submit" class="button" aria-disabled={busy}>
              {busy ? consoleTexts.busy : words.cancel.ask}
            </button>
          </div>
        </>
      )}
    </form>
  );
}

function Progress(props: {
  event: string;
  progress: CancellationProgress;
  /** It follows the form that asked for it. */
  moved: boolean;
  onRetry: () => void;
}) {
  const { event, progress, moved, onRetry } = props;
  const { refunds, closed, left, ending, currency } = progress;
  const isDone = progress.state === 'done';
  const wasDone = useRef(isDone);
  useEffect(() => {
    if (isDone && !wasDone.current) announce(words.cancel.done);
    wasDone.current = isDone;
  }, [isDone]);
  const decided = Object.values(refunds).reduce((sum, one) => sum + one.refunds, closed);
  const failed = refunds.failed?.refunds ?? 0;
  return (
    <div class="stack">
      <p tabIndex={-1} ref={moved ? focusOnce : undefined}>
        <strong>{progress.state === 'done' ? words.cancel.done : words.cancel.running}</strong>
        {` · ${progress.reason}${isDone ? '' : ` · ${words.cancel.paceIs(progress.perSecond)}`}`}
      </p>
      <label>
        {words.cancel.progress} <progress max={decided + left + ending} value={decided} />
      </label>
      <ul class="plain">
        {Object.entries(refunds).map(([state, one]) => (
          <li key={state}>
            {`${words.cancel.refunds(one.refunds, money(one.amount, currency))}: ${words.refundStates[state] ?? state}`}
          </li>
        ))}
        {closed > 0 && <li>{words.cancel.closed(closed)}</li>}
        {left > 0 && <li>{words.cancel.left(left)}</li>}
        {ending > 0 && <li>{words.cancel.ending(ending)}</li>}
      </ul>
      {progress.waiting > 0 && (
        <div class="stack">
          <p>{words.cancel.waits(progress.waiting)}</p>
          <ul class="plain">
            {progress.waitsFor.map(({ entry, order, why, since }) => (
              <li key={entry} class="who">
                {`${words.cancel.waitsFor(order, why, shortDateTime(since))} `}
                <a href={placeOfEvent(event, 'orders', order)}>{words.cancel.toOrder}</a>
              </li>
            ))}
          </ul>
          <p>
            <a href={hashOf({ tab: 'payments', event })}>{words.cancel.toPayments}</a>
          </p>
        </div>
      )}
      {failed > 0 && (
        <div>
          <button type="button" class="button" onClick={onRetry}>
            {words.cancel.retry(failed)}
          </button>
        </div>
      )}
    </div>
  );
}
