import { useRef, useState } from 'preact/hooks';
import type { OutputOf } from '../../src/operate/operation.ts';
import type { importPlan } from '../../src/operate/plans.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { type UploadProgress, upload } from '../shared/upload.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import { ProblemList, ReportView } from './report.tsx';
import type { PlanProblem, PlanReport, PlanSummary } from './shapes.ts';

const words = consoleTexts.plans;

/** Import with a dry run first: what the file holds is seen before anything is stored. */
export function Plans(props: { plans: PlanSummary[] | null; onImported: () => void }) {
  const file = useRef<HTMLInputElement>(null);
  const [name, setName] = useState('');
  const [map, setMap] = useState('');
  const [progress, setProgress] = useState<UploadProgress | null>(null);
  const busy = progress !== null;
  const [said, setSaid] = useState<Said>(null);
  const [report, setReport] = useState<PlanReport | null>(null);
  const [problems, setProblems] = useState<{ list: PlanProblem[]; count: number } | null>(null);

  /** Clears the dry run, because it was read with the old columns. */
  const setMapAnew = (value: string) => {
    setMap(value);
    setReport(null);
  };

  const send = async (dryRun: boolean) => {
    const chosen = file.current?.files?.[0];
    if (busy) return;
    if (!chosen) return setSaid({ tone: 'bad', text: words.noFile });
    setProgress({ step: 'uploading', percent: 0 });
    setSaid(null);
    setProblems(null);
    const query = new URLSearchParams({
      dryRun: String(dryRun),
      ...(name ? { name } : {}),
      ...(map ? { map } : {}),
    });
    const path = `/api/organiser/plans?${query}`;
    const answer = await upload<OutputOf<typeof importPlan>>(path, chosen, setProgress);
    setProgress(null);
    if (answer.kind !== 'ok') {
      setReport(null);
      setSaid(refusal(answer));
      if (answer.kind === 'problem' && answer.problem.code === 'plan_refused') {
        setProblems({
          list: (answer.problem.problems as PlanProblem[]) ?? [],
          count: Number(answer.problem.problemCount ?? 0),
        });
      }
      return;
    }
    if ('dryRun' in answer.body) return setReport(answer.body.report);
    setReport(null);
    setSaid({ tone: 'good', text: (answer.body.known ? words.known : words.imported)(answer.body.name) });
    props.onImported();
  };

  return (
    <div class="stack-l">
      <form
        class="card stack"
        onSubmit={(event) => {
          event.preventDefault();
          void send(true);
        }}
      >
        <h2>{words.title}</h2>
        <div class="field">
          <label for="plan-file">{words.file}</label>
          <input
            id="plan-file"
            ref={file}
            type="file"
            accept=".json,.csv,application/json,text/csv"
            aria-describedby="plan-file-hint"
            onChange={() => setReport(null)}
          />
          <span id="plan-file-hint" class="hint">
            {words.fileHint}
          </span>
        </div>
        <div class="columns">
          <Field id="plan-name" label={words.name} value={name} onValue={setName} hint={words.nameHint} />
          <Field id="plan-map" label={words.map} value={map} onValue={setMapAnew} hint={words.mapHint} />
        </div>
        <UploadView progress={progress} />
        <SaidView said={said} />
        {problems && <ProblemList problems={problems.list} total={problems.count} />}
        {report && <ReportView report={report} dry />}
        <div class="row">
          <button type="submit" class={report ? 'button' : 'button primary'} aria-disabled={busy}>
            {busy ? consoleTexts.busy : words.check}
          </button>
          {report && (
            <button
              type="button"
              class="button primary"
              aria-disabled={busy}
              onClick={() => void send(false)}
            >
              {report.warnings.length > 0 ? words.importAnyway : words.import}
            </button>
          )}
        </div>
      </form>
      <section class="card stack">
        <h2>{words.listTitle}</h2>
        {props.plans === null && <p class="pulse">{texts.loading}</p>}
        {props.plans?.length === 0 && <p>{words.none}</p>}
        {props.plans?.map((plan) => (
          <details key={plan.plan} class="plan">
            <summary>
              <strong>{plan.name}</strong> <span class="muted">{words.version(plan.version)}</span>{' '}
              <span class="num">{`${count(plan.report.seats)} ${consoleTexts.report.seats.toLowerCase()}`}</span>
            </summary>
            <ReportView report={plan.report} />
          </details>
        ))}
      </section>
    </div>
  );
}

/**
 * The bar moves while the file is sent; after that the server names its step, and how long it takes is not known. A screen
 * reader announces the steps, not each percent.
 */
function UploadView({ progress }: { progress: UploadProgress | null }) {
  return (
    <>
      <p role="status" id="plan-step">
        {progress && words.steps[progress.step]}
      </p>
      {progress && (
        <progress
          aria-labelledby="plan-step"
          max={100}
          value={progress.step === 'uploading' ? progress.percent : undefined}
        />
      )}
    </>
  );
}
