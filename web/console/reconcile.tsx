import type { OutputOf } from '../../src/operate/operation.ts';
import type { listFindings } from '../../src/operate/payments.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { dateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { SaidView } from './fields.tsx';
import { useAnswer } from './use-request.ts';

const words = consoleTexts.reconcile;

/** When the provider's payments were last compared with the record, and what is under way. */
export function Reconcile() {
  const { answer, said } = useAnswer<OutputOf<typeof listFindings>>('/api/organiser/reconcile');
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
