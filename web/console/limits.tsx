import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { shortDateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Field, instantOf, refusal, type Said, SaidView } from './fields.tsx';
import type { OrganiserEvent } from './shapes.ts';
import { TableScroll } from './table-scroll.tsx';

const words = consoleTexts.limits;

interface CooldownRule {
  afterUnpaid: number;
  firstMs: number;
  maxMs: number;
  forgetMs: number;
}
interface EventLimits {
  accountSeatsMax: number | null;
  instrumentSeatsMax: number | null;
  cooldown: CooldownRule | null;
}
interface Allowance {
  allowance: string;
  account: string | null;
  visitor: string | null;
  order: string | null;
  reason: string;
  actor: string;
  createdAt: string;
  until: string | null;
  endedAt: string | null;
  inForce: boolean;
}
interface LimitsAnswer {
  limits: EventLimits;
  allowances: Allowance[];
  coolingCount: number;
}

/** The same as the command line's, so that both mean one thing by "on". */
const cooldownOn: CooldownRule = {
  afterUnpaid: 3,
  firstMs: 60_000,
  maxMs: 15 * 60_000,
  forgetMs: 60 * 60_000,
};
const minutes = (ms: number) => Math.max(1, Math.round(ms / 60_000));

/** What one buyer may buy, and who is excepted. */
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

function LimitsForm({ api, limits, onSaid, onChanged }: Part & { limits: EventLimits }) {
  const [account, setAccount] = useState(String(limits.accountSeatsMax ?? ''));
  const [instrument, setInstrument] = useState(String(limits.instrumentSeatsMax ?? ''));
  const [cooldown, setCooldown] = useState(limits.cooldown !== null);
  const [busy, setBusy] = useState(false);
  const rule = limits.cooldown ?? cooldownOn;

  const save = async () => {
    const accountSeatsMax = seatsOf(account);
    const instrumentSeatsMax = seatsOf(instrument);
    if (busy) return;
    if (accountSeatsMax === undefined || instrumentSeatsMax === undefined) {
      return onSaid({ tone: 'bad', text: words.wrong });
    }
    setBusy(true);
    const body = { replaces: limits, accountSeatsMax, instrumentSeatsMax, cooldown: cooldown ? rule : null };
    const answer = await call<{ limits: EventLimits }>(api, { method: 'PATCH', body });
    setBusy(false);
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
        <Field
          id="limit-account"
          label={words.account}
          value={account}
          inputMode="numeric"
          hint={words.weak}
          onValue={setAccount}
        />
        <Field
          id="limit-instrument"
          label={words.instrument}
          value={instrument}
          inputMode="numeric"
          hint={words.none}
          onValue={setInstrument}
        />
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

/** Null: no limit; undefined: not a limit at all. */
function seatsOf(text: string): number | null | undefined {
  if (text.trim() === '') return null;
  const seats = Number(text);
  return Number.isInteger(seats) && seats >= 1 && seats <= 1_000 ? seats : undefined;
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
  const [busy, setBusy] = useState(false);

  const except = async () => {
    if (busy) return;
    if (who.trim() === '' || reason.trim() === '') return onSaid({ tone: 'bad', text: words.missing });
    setBusy(true);
    const body = { [by]: who.trim(), reason: reason.trim(), until: instantOf(until) };
    const answer = await call<Allowance>(`${api}/allowances`, { method: 'POST', body });
    setBusy(false);
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
