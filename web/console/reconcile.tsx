import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { dateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';

const words = consoleTexts.reconcile;

interface Finding {
  finding: number;
  says: string;
  firstSeenAt: string;
}
interface Answer {
  ambiguous: number;
  findings: Finding[];
  lastRun: { finishedAt: string | null; counts: Record<string, number> } | null;
}

/** The operator's list of payments that do not fit the record. */
export function Reconcile() {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const load = async () => {
    const loaded = await call<Answer>('/api/organiser/reconcile');
    if (loaded.kind === 'ok') setAnswer(loaded.body);
    else setSaid(refusal(loaded));
  };
  useEffect(() => void load(), []);
  const last = answer?.lastRun;
  return (
    <section class="card stack">
      <h2>{words.title}</h2>
      <p class="muted">{words.help}</p>
      <SaidView said={said} />
      {!answer && <p class="pulse">{texts.loading}</p>}
      {answer && (
        <p>
          {last?.finishedAt ? words.last(dateTime(last.finishedAt), last.counts.payments ?? 0) : words.notYet}{' '}
          {answer.findings.length === 0 && last && words.none} {words.ambiguous(answer.ambiguous)}
        </p>
      )}
      {answer && answer.findings.length > 0 && (
        <ul class="plain stack">
          {answer.findings.map((one) => (
            <FindingRow key={one.finding} finding={one} onSaid={setSaid} onSettled={() => void load()} />
          ))}
        </ul>
      )}
    </section>
  );
}

function FindingRow(props: { finding: Finding; onSaid: (said: Said) => void; onSettled: () => void }) {
  const { finding, says, firstSeenAt } = props.finding;
  const [note, setNote] = useState('');
  const settle = async () => {
    if (note.trim() === '') return props.onSaid({ tone: 'bad', text: words.noteMissing });
    const answer = await call<{ settled: boolean }>(`/api/organiser/reconcile/${finding}/settle`, {
      method: 'POST',
      body: { note: note.trim() },
    });
    props.onSaid(answer.kind === 'ok' ? { tone: 'good', text: words.settled } : refusal(answer));
    props.onSettled();
  };
  return (
    <li class="card stack">
      <p>{says}</p>
      <p class="muted small">{`${words.since} ${dateTime(firstSeenAt)}`}</p>
      <form
        class="columns"
        onSubmit={(submit) => {
          submit.preventDefault();
          void settle();
        }}
      >
        <Field id={`note-${finding}`} label={words.note} value={note} onValue={setNote} />
        <div class="beside">
          <button type="submit" class="button" aria-label={words.settleOf(finding)}>
            {words.settle}
          </button>
        </div>
      </form>
    </li>
  );
}
