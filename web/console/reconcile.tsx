import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { dateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { refusal, type Said, SaidView } from './fields.tsx';

const words = consoleTexts.reconcile;

interface Answer {
  ambiguous: number;
  findings: unknown[];
  lastRun: { finishedAt: string | null; counts: Record<string, number> } | null;
}

/** When the provider's payments were last compared with the record, and what is under way. */
export function Reconcile() {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [said, setSaid] = useState<Said>(null);
  useEffect(() => {
    void call<Answer>('/api/organiser/reconcile').then((loaded) => {
      if (loaded.kind === 'ok') setAnswer(loaded.body);
      else setSaid(refusal(loaded));
    });
  }, []);
  const last = answer?.lastRun;
  return (
    <section class="card stack">
      <h2>{words.title}</h2>
      <p class="muted">{words.help}</p>
      <SaidView said={said} />
      {!answer && !said && <p class="pulse">{texts.loading}</p>}
      {answer && (
        <p>
          {last?.finishedAt ? words.last(dateTime(last.finishedAt), last.counts.payments ?? 0) : words.notYet}{' '}
          {answer.findings.length === 0 && last && words.none} {words.ambiguous(answer.ambiguous)}
        </p>
      )}
    </section>
  );
}
