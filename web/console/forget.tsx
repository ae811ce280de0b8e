import { useState } from 'preact/hooks';
import { Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import { useRequest } from './use-request.ts';

const words = consoleTexts.exports;

interface Report {
  orders: string[];
  kept: { validTickets: number; payments: string[] };
}
interface Asked extends Report {
  body: object;
  confirmation: string;
}

/** Shows what would be deleted, asks for a code, then shows what was deleted. */
export function Forget() {
  const [buyer, setBuyer] = useState('');
  const [nameless, setNameless] = useState(false);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [typed, setTyped] = useState('');
  const { busy, request } = useRequest();
  const [said, setSaid] = useState<Said>(null);
  /** After the question is answered, the focus moves to the form for keyboard users. */
  const [again, setAgain] = useState(false);
  const { forget } = words;

  const send = async (body: object) => {
    const answer = await request<Omit<Asked, 'body'>>('/api/organiser/buyers/forget', {
      method: 'POST',
      body,
    });
    setSaid(answer.kind === 'ok' ? null : refusedWith(answer));
    return answer.kind === 'ok' ? answer.body : null;
  };
  const leave = () => {
    setAsked(null);
    setAgain(true);
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
    leave();
    setBuyer('');
    setNameless(false);
    setSaid({ tone: 'good', text: sayDone(done) });
  };
  return (
    <section class="card stack">
      <h2>{forget.title}</h2>
      <p class="muted">{forget.help}</p>
      <SaidView said={said} />
      <form
        class="stack"
        onSubmit={(submit) => {
          submit.preventDefault();
          if (!busy && (asked ? typed : buyer).trim() !== '') void act();
        }}
      >
        {asked ? (
          <Notice tone="warn">
            <p>{forget.would(asked.orders.length, asked.kept.validTickets)}</p>
            <Field
              id="forget-code"
              focus
              label={forget.type(asked.confirmation)}
              value={typed}
              onValue={setTyped}
            />
            <div class="row">
              <button type="submit" class="button danger" aria-disabled={busy || typed.trim() === ''}>
                {busy ? consoleTexts.busy : forget.yes}
              </button>
              <button type="button" class="button" onClick={() => leave()}>
                {forget.no}
              </button>
            </div>
          </Notice>
        ) : (
          <>
            <Field
              id="forget-buyer"
              focus={again}
              label={forget.buyer}
              hint={forget.buyerHint}
              value={buyer}
              onValue={setBuyer}
            />
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
    </section>
  );
}

function sayDone({ orders, kept }: Report): string {
  const done = words.forget.done(orders.length);
  return kept.payments.length > 0 ? `${done} ${words.forget.payments(kept.payments.join(', '))}` : done;
}

/** Each order that prevents the deletion, with the reason. */
function refusedWith(answer: Parameters<typeof refusal>[0]): Said {
  const said = refusal(answer);
  if (said === null || answer.kind !== 'problem') return said;
  const { orders } = answer.problem as { orders?: { order: string; why: string }[] };
  if (!orders) return said;
  const { forget } = words;
  return {
    ...said,
    text: forget.notYet,
    more: (
      <ul class="plain">
        {orders.map(({ order, why }) => (
          <li key={order}>{forget.refused(order, forget.whys[why] ?? why)}</li>
        ))}
      </ul>
    ),
  };
}
