import { useState } from 'preact/hooks';
import { type Phase, phasesByHand } from '../../src/core/phase.ts';
import { call } from '../shared/api.ts';
import { Confirm, Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import type { Controls, OrganiserEvent } from './shapes.ts';
import { useRequest } from './use-request.ts';

const words = consoleTexts.control;

/**
 * Phase, message and admission rate. A change names the version that this screen was opened with. If another operator has
 * changed it meanwhile, nothing is saved and both states are shown next to each other.
 */
export function SaleControls(props: { event: OrganiserEvent; onChanged: () => void }) {
  const { event } = props;
  const [seen, setSeen] = useState<Controls>(event);
  const [message, setMessage] = useState(event.message ?? '');
  const [rate, setRate] = useState(event.rateCeiling === null ? '' : String(event.rateCeiling));
  const [asking, setAsking] = useState<Phase | null>(null);
  const [conflict, setConflict] = useState<{ was: Controls; now: Controls } | null>(null);
  const { busy, request } = useRequest();
  const [said, setSaid] = useState<Said>(null);
  const base = `/api/organiser/events/${encodeURIComponent(event.id)}`;

  const change = async (patch: Partial<Controls>) => {
    if (busy) return;
    setSaid(null);
    setConflict(null);
    setAsking(null);
    const body = { expectedVersion: seen.version, ...patch };
    const answer = await request<Controls>(`${base}/on-sale`, { method: 'PATCH', body });
    if (answer.kind === 'ok') {
      setSeen(answer.body);
      setSaid({ tone: 'good', text: words.saved });
    } else if (answer.kind === 'problem' && answer.problem.code === 'version_conflict') {
      const now = answer.problem.now as Controls;
      setConflict({ was: seen, now });
      setSeen(now);
    } else setSaid(refusal(answer));
    props.onChanged();
  };

  const publish = async () => {
    if (busy) return;
    const answer = await request<{ phase: Phase; seats: number }>(`${base}/publish`, {
      method: 'POST',
      body: {},
      timeoutMs: 120_000,
    });
    if (answer.kind === 'ok') {
      setSaid({ tone: 'good', text: words.published(answer.body.seats) });
      const fresh = await call<OrganiserEvent>(base);
      if (fresh.kind === 'ok') setSeen(fresh.body);
    } else setSaid(refusal(answer));
    props.onChanged();
  };

  const stale = event.version !== seen.version && !conflict;
  return (
    <section class="card stack">
      <h3>
        {words.title}: {words.phases[seen.phase]}
      </h3>
      <SaidView said={said} />
      {conflict && <Conflict {...conflict} />}
      {stale && !said && <Conflict was={seen} now={event} onTake={() => setSeen(event)} />}
      {seen.phase === 'draft' && (
        <div class="stack">
          <p class="muted">{words.publishHint}</p>
          <div>
            <button type="button" class="button primary" aria-disabled={busy} onClick={() => void publish()}>
              {busy ? consoleTexts.busy : words.publish}
            </button>
          </div>
        </div>
      )}
      {asking ? (
        <Confirm
          ask={words.sure[asking] ?? ''}
          yes={words.yes}
          no={words.no}
          onYes={() => void change({ phase: asking })}
          onNo={() => setAsking(null)}
        />
      ) : (
        <div class="row">
          {phasesByHand(seen.phase)
            .filter((phase) => phase !== 'scheduled')
            .map((phase) => (
              <button
                key={phase}
                type="button"
                class={
                  phase === 'open' ? 'button primary' : phase === 'cancelled' ? 'button danger' : 'button'
                }
                aria-disabled={busy}
                onClick={() => (words.sure[phase] ? setAsking(phase) : void change({ phase }))}
              >
                {words.to[phase]}
              </button>
            ))}
        </div>
      )}
      {seen.phase !== 'draft' && (
        <form
          class="stack"
          onSubmit={(submit) => {
            submit.preventDefault();
            void change({
              message: message.trim() || null,
              rateCeiling: rate.trim() === '' ? null : Number(rate),
            });
          }}
        >
          <div class="columns">
            <div class="field">
              <label for="sale-message">{words.message}</label>
              <textarea
                id="sale-message"
                rows={2}
                maxLength={500}
                value={message}
                aria-describedby="sale-message-hint"
                onInput={(event) => setMessage(event.currentTarget.value)}
              />
              <span id="sale-message-hint" class="hint">
                {words.messageHint}
              </span>
            </div>
            <Field
              id="sale-rate"
              label={words.rate}
              type="number"
              value={rate}
              onValue={setRate}
              hint={words.rateHint}
            />
          </div>
          <div>
            <button type="submit" class="button" aria-disabled={busy}>
              {words.save}
            </button>
          </div>
        </form>
      )}
    </section>
  );
}

function Conflict(props: { was: Controls; now: Controls; onTake?: () => void }) {
  const { was, now } = props;
  const rows: [string, string, string][] = [
    [words.phase, words.phases[was.phase], words.phases[now.phase]],
    [words.message, was.message ?? words.none, now.message ?? words.none],
    [words.rate, String(was.rateCeiling ?? words.none), String(now.rateCeiling ?? words.none)],
  ];
  return (
    <Notice tone="warn" title={words.conflictTitle}>
      <p>{words.conflict}</p>
      <table>
        <thead>
          <tr>
            <th scope="col">{words.what}</th>
            <th scope="col">{words.was}</th>
            <th scope="col">{words.now}</th>
          </tr>
        </thead>
        <tbody>
          {rows
            .filter(([, before, after]) => before !== after)
            .map(([what, before, after]) => (
              <tr key={what}>
                <th scope="row">{what}</th>
                <td>{before}</td>
                <td>{after}</td>
              </tr>
            ))}
        </tbody>
      </table>
      {props.onTake && (
        <div>
          <button type="button" class="button small" onClick={props.onTake}>
            {consoleTexts.events.reload}
          </button>
        </div>
      )}
    </Notice>
  );
}
