import { useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import type { OrganiserEvent } from './shapes.ts';

const words = consoleTexts.exports;
const kinds = ['orders', 'tickets', 'refunds'] as const;
const formats = ['csv', 'json'] as const;

/** What was sold, as files: plain links, so that the browser's own download does the rest. */
export function Exports({ event }: { event: OrganiserEvent }) {
  const base = `/api/organiser/events/${encodeURIComponent(event.id)}/exports`;
  return (
    <section class="card stack">
      <h3>{words.title}</h3>
      <p class="muted">{words.help}</p>
      <ul class="plain stack">
        {kinds.map((what) => (
          <li key={what} class="row">
            {formats.map((format) => (
              <a key={format} class="button quiet small" href={`${base}/${what}.${format}`} download>
                {words.as(words.what[what], format.toUpperCase())}
              </a>
            ))}
          </li>
        ))}
      </ul>
      <Forget />
    </section>
  );
}

interface Report {
  orders: string[];
  kept: { validTickets: number; payments: string[] };
}
interface Asked extends Report {
  body: object;
  confirmation: string;
}

/** What would happen, a code to be typed, then what was done. */
function Forget() {
  const [buyer, setBuyer] = useState('');
  const [nameless, setNameless] = useState(false);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [typed, setTyped] = useState('');
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<Said>(null);
  const { forget } = words;

  const send = async (body: object) => {
    setBusy(true);
    const answer = await call<Omit<Asked, 'body'>>('/api/organiser/buyers/forget', { method: 'POST', body });
    setBusy(false);
    setSaid(answer.kind === 'ok' ? null : refusedWith(answer));
    return answer.kind === 'ok' ? answer.body : null;
  };
  const act = async () => {
    if (asked === null) {
      const body = { buyer: buyer.trim(), nameless };
      const would = await send(body);
      setTyped('');
      if (would) setAsked({ ...would, body });
      return;
    }
    const done = await send({ ...asked.body, confirmation: typed });
    if (!done) return;
    setAsked(null);
    setBuyer('');
    setSaid({ tone: 'good', text: sayDone(done) });
  };
  return (
    <details>
      <summary>{forget.title}</summary>
      <form
        class="stack"
        onSubmit={(submit) => {
          submit.preventDefault();
          if (!busy && (asked ? typed : buyer).trim() !== '') void act();
        }}
      >
        <p class="muted">{forget.help}</p>
        <SaidView said={said} />
        {asked ? (
          <Notice tone="warn">
            <p>{forget.would(asked.orders.length, asked.kept.validTickets)}</p>
            <Field
              id="forget-code"
              label={forget.type(asked.confirmation)}
              value={typed}
              onValue={setTyped}
            />
            <div class="row">
              <button type="submit" class="button danger" aria-disabled={busy || typed.trim() === ''}>
                {busy ? consoleTexts.busy : forget.yes}
              </button>
              <button type="button" class="button" onClick={() => setAsked(null)}>
                {forget.no}
              </button>
            </div>
          </Notice>
        ) : (
          <>
            <Field id="forget-buyer" label={forget.buyer} value={buyer} onValue={setBuyer} />
            <label>
              <input type="checkbox" checked={nameless} onChange={() => setNameless(!nameless)} />{' '}
              {forget.nameless}
            </label>
            <div>
              <button type="submit" class="button" aria-disabled={busy || buyer.trim() === ''}>
                {busy ? consoleTexts.busy : forget.ask}
              </button>
            </div>
          </>
        )}
      </form>
    </details>
  );
}

function sayDone({ orders, kept }: Report): string {
  const done = words.forget.done(orders.length);
  return kept.payments.length > 0 ? `${done} ${words.forget.payments(kept.payments.join(', '))}` : done;
}

/** Each order that keeps him from being forgotten, with why. */
function refusedWith(answer: Parameters<typeof refusal>[0]): Said {
  const said = refusal(answer);
  if (said === null || answer.kind !== 'problem') return said;
  const { orders } = answer.problem as { orders?: { order: string; why: string }[] };
  if (!orders) return said;
  const { forget } = words;
  return {
    ...said,
    more: (
      <ul>
        {orders.map(({ order, why }) => (
          <li key={order}>{forget.refused(order, forget.whys[why] ?? why)}</li>
        ))}
      </ul>
    ),
  };
}
