import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { newKey } from '../shared/storage.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { shortDateTime } from '../shared/texts/format.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import type { OrganiserEvent } from './shapes.ts';

const words = consoleTexts.entry;
/** Whoever stands at the door reads this first. */
const turnedAway = { tone: 'bad' as const, title: words.notIn };

type Answer =
  | { result: 'valid'; seat: { section: string; row: string; number: string } | null }
  | { result: 'used'; at: string; gate: string | null }
  | { result: 'undone' }
  | { result: 'revoked'; why: string }
  | { result: 'other_event'; eventName: string | null }
  | { result: 'forged' };

/** Who came in, and the door by hand: a scanner that types like a keyboard is enough. */
export function Entry({ event }: { event: OrganiserEvent }) {
  const [came, setCame] = useState<{ entered: number; tickets: number } | null>(null);
  const [gate, setGate] = useState('');
  const [code, setCode] = useState('');
  const [said, setSaid] = useState<Said>(null);
  const base = `/api/organiser/events/${encodeURIComponent(event.id)}`;
  const load = async () => {
    const answer = await call<{ entered: number; tickets: number }>(`${base}/entries`);
    if (answer.kind === 'ok') setCame(answer.body);
  };
  useEffect(() => void load(), [event.id]);

  const check = async () => {
    const text = code.trim();
    if (text === '') return;
    setCode('');
    const place = gate.trim() === '' ? undefined : gate.trim();
    const body = { code: text, event: event.id, gate: place, scan: newKey() };
    const answer = await call<Answer>('/api/organiser/checkin', { method: 'POST', body });
    setSaid(answer.kind === 'ok' ? sayEntry(answer.body) : refusal(answer));
    void load();
  };

  return (
    <section class="card stack">
      <h3>{words.title}</h3>
      <p class="muted">{words.help}</p>
      {came && <p>{words.came(came.entered, came.tickets)}</p>}
      <form
        class="columns"
        onSubmit={(submit) => {
          submit.preventDefault();
          void check();
        }}
      >
        <Field id="entry-gate" label={words.gate} value={gate} onValue={setGate} />
        <Field id="entry-code" label={words.code} value={code} onValue={setCode} />
        <div class="beside">
          <button type="submit" class="button">
            {words.check}
          </button>
        </div>
      </form>
      <SaidView said={said} />
      <p>
        <a href={`${base}/gate-list`} download={`gate-list-${event.id}.json`}>
          {words.list}
        </a>{' '}
        <span class="muted small">{words.listHelp}</span>
      </p>
    </section>
  );
}

function sayEntry(answer: Answer): Said {
  const { results } = words;
  switch (answer.result) {
    case 'valid': {
      const { seat } = answer;
      const place = seat ? words.place(seat.section, seat.row, seat.number) : '';
      return { tone: 'good', text: results.valid(place) };
    }
    case 'used':
      return { ...turnedAway, text: results.used(shortDateTime(answer.at), answer.gate) };
    case 'undone':
      return { ...turnedAway, text: results.undone };
    case 'revoked':
      return { ...turnedAway, text: results.revoked[answer.why] ?? results.forged };
    case 'other_event':
      return { ...turnedAway, text: results.other(answer.eventName ?? '') };
    case 'forged':
      return { ...turnedAway, text: results.forged };
  }
}
