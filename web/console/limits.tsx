import { useEffect, useState } from 'preact/hooks';
import {
  type CountedLimit,
  cooldownDefault,
  countedLimits,
  type EventLimits,
  limitMost as mostOf,
  noLimits,
} from '../../src/core/limits.ts';
import type { endAllowance, getLimits } from '../../src/operate/limits.ts';
import type { OutputOf } from '../../src/operate/operation.ts';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { shortDateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Field, instantOf, refusal, type Said, SaidView } from './fields.tsx';
import type { OrganiserEvent } from './shapes.ts';
import { TableScroll } from './table-scroll.tsx';
import { useRequest } from './use-request.ts';

const words = consoleTexts.limits;

type LimitsAnswer = OutputOf<typeof getLimits>;
type Allowance = OutputOf<typeof endAllowance>;

const minutes = (ms: number) => Math.max(1, Math.round(ms / 60_000));

/** Limits per buyer, and the buyers who are exempt. */
export function Limits({ event }: { event: OrganiserEvent }) {
  const [answer, setAnswer] = useState<LimitsAnswer | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const api = `/api/organiser/events/${encodeURIComponent(event.id)}/limits`;
  const load = async () => {
    const loaded = await call<LimitsAnswer>(api);
    if (loaded.kind === 'ok') setAnswer(loaded.body);
    else setSaid(refusal(loaded));
  };
  useEffect(() => void load(), [event.id]);
  return (
    // While it loads it fills the window, so that nothing below it jumps.
    <section class={answer ? 'card stack' : 'card stack tall'}>
      <h3>{words.title}</h3>
      <SaidView said={said} />
      {!answer && <p class="pulse">{texts.loading}</p>}
      {answer && (
        <>
          <LimitsForm
            // A form for each state of the limits, so that what was changed elsewhere is what it starts from.
            key={JSON.stringify(answer.limits)}
            api={api}
            limits={answer.limits}
            defaults={answer.defaults}
            onSaid={setSaid}
            onChanged={() => void load()}
          />
          {answer.limits.cooldown && <p class="muted">{words.cooling(answer.coolingCount)}</p>}
          <ExceptForm api={api} onSaid={setSaid} onChanged={() => void load()} />
          <Exceptions api={api} all={answer.allowances} onSaid={setSaid} onChanged={() => void load()} />
        </>
      )}
    </section>
  );
}

interface Part {
  api: string;
  onSaid: (said: Said) => void;
  onChanged: () => void;
}

function LimitsForm({
  api,
  limits,
  defaults,
  onSaid,
  onChanged,
}: Part & { limits: EventLimits; defaults: EventLimits }) {
  const [fields, setFields] = useState<Record<CountedLimit, string>>(() => textsOf(limits));
  const [cooldown, setCooldown] = useState(limits.cooldown !== null);
  const { busy, request } = useRequest();
  const rule = limits.cooldown ?? defaults.cooldown ?? cooldownDefault;

  const save = async () => {
    if (busy) return;
    const values = { ...noLimits };
    for (const name of countedLimits) {
      const value = limitIn(name, fields[name]);
      if (value === undefined) return onSaid({ tone: 'bad', text: words.wrong(mostOf(name)) });
      values[name] = value;
    }
    const body = { replaces: limits, ...values, cooldown: cooldown ? rule : null };
    const answer = await request<{ limits: EventLimits }>(api, { method: 'PATCH', body });
    if (answer.kind === 'ok') onSaid({ tone: 'good', text: words.saved });
    else if (answer.kind === 'problem' && answer.problem.code === 'version_conflict') {
      onSaid({ tone: 'warn', text: words.conflict });
    } else onSaid(refusal(answer));
    onChanged();
  };

  return (
    <form
      class="stack"
      onSubmit={(submit) => {
        submit.preventDefault();
        void save();
      }}
    >
      <div class="columns">
        {countedLimits.map((name) => (
          <Field
            key={name}
            id={`limit-${name}`}
            label={words.names[name]}
            value={fields[name]}
            inputMode="numeric"
            hint={`${words.hints[name]} ${words.usual(defaults[name])}`}
            onValue={(value) => setFields((before) => ({ ...before, [name]: value }))}
          />
        ))}
      </div>
      <div>
        <label>
          <input
            type="checkbox"
            checked={cooldown}
            aria-describedby="limit-cooldown-hint"
            onChange={(change) => setCooldown(change.currentTarget.checked)}
          />{' '}
          {words.cooldown}
        </label>
        <p id="limit-cooldown-hint" class="hint">
          {words.cooldownHint(rule.afterUnpaid, minutes(rule.firstMs), minutes(rule.maxMs))}
        </p>
      </div>
      <div>
        <button type="submit" class="button" aria-disabled={busy}>
          {busy ? consoleTexts.busy : words.save}
        </button>
      </div>
    </form>
  );
}

function textsOf(limits: EventLimits): Record<CountedLimit, string> {
  const texts = {} as Record<CountedLimit, string>;
  for (const name of countedLimits) texts[name] = String(limits[name] ?? '');
  return texts;
}

/** Null means no limit. Undefined if the text is not a valid limit. */
function limitIn(name: CountedLimit, text: string): number | null | undefined {
  if (text.trim() === '') return null;
  const value = Number(text);
  return Number.isInteger(value) && value >= 1 && value <= mostOf(name) ? value : undefined;
}

type Naming = 'account' | 'visitor' | 'order';
const namings: [Naming, string][] = [
  ['account', words.byAccount],
  ['visitor', words.byVisitor],
  ['order', words.byOrder],
];

function ExceptForm({ api, onSaid, onChanged }: Part) {
  const [by, setBy] = useState<Naming>('account');
  const [who, setWho] = useState('');
  const [reason, setReason] = useState('');
  const [until, setUntil] = useState('');
  const { busy, request } = useRequest();

  const except = async () => {
    if (busy) return;
    if (who.trim() === '' || reason.trim() === '') return onSaid({ tone: 'bad', text: words.missing });
    const body = { [by]: who.trim(), reason: reason.trim(), until: instantOf(until) };
    const answer = await request<Allowance>(`${api}/allowances`, { method: 'POST', body });
    if (answer.kind !== 'ok') return onSaid(refusal(answer));
    setWho('');
    setReason('');
    setUntil('');
    onSaid({ tone: 'good', text: words.excepted });
    onChanged();
  };

  return (
    <form
      class="stack"
      onSubmit={(submit) => {
        submit.preventDefault();
        void except();
      }}
    >
      <h4>{words.exceptTitle}</h4>
      <p class="muted">{words.exceptHelp}</p>
      <div class="columns">
        <div class="field">
          <label for="except-by">{words.by}</label>
          <select
            id="except-by"
            value={by}
            onChange={(change) => setBy(change.currentTarget.value as Naming)}
          >
            {namings.map(([naming, name]) => (
              <option key={naming} value={naming}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <Field id="except-who" label={words.who} value={who} onValue={setWho} />
        <Field id="except-reason" label={words.reason} value={reason} onValue={setReason} />
        <Field
          id="except-until"
          label={words.until}
          type="datetime-local"
          value={until}
          hint={words.untilHint}
          onValue={setUntil}
        />
      </div>
      <div>
        <button type="submit" class="button" aria-disabled={busy}>
          {busy ? consoleTexts.busy : words.except}
        </button>
      </div>
    </form>
  );
}

function Exceptions({ api, all, onSaid, onChanged }: Part & { all: Allowance[] }) {
  const end = async (allowance: string) => {
    const answer = await call<Allowance>(`${api}/allowances/${encodeURIComponent(allowance)}`, {
      method: 'DELETE',
    });
    onSaid(answer.kind === 'ok' ? { tone: 'good', text: words.ended } : refusal(answer));
    onChanged();
  };
  if (all.length === 0) return <p class="muted">{words.listNone}</p>;
  return (
    <TableScroll label={words.listTitle}>
      <table>
        <caption>{words.listTitle}</caption>
        <thead>
          <tr>
            <th scope="col">{words.who}</th>
            <th scope="col">{words.reason}</th>
            <th scope="col">{words.added}</th>
            <th scope="col">{words.until}</th>
            <th scope="col">
              <span class="visually-hidden">{words.end}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {all.map((one) => (
            <tr key={one.allowance}>
              <th scope="row">{whoIs(one)}</th>
              <td>{one.reason}</td>
              <td>{`${shortDateTime(one.createdAt)}, ${one.actor}`}</td>
              <td class="nowrap">
                {one.endedAt ? words.over : one.until ? shortDateTime(one.until) : words.always}
              </td>
              <td>
                {!one.endedAt && (
                  <button
                    type="button"
                    class="button small"
                    aria-label={words.endOf(whoIs(one))}
                    onClick={() => void end(one.allowance)}
                  >
                    {words.end}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  );
}

function whoIs({ account, visitor }: Allowance): string {
  return account ?? words.browser(visitor ?? '');
}
