import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { Confirm } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { shortDateTime } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import type { OrganiserEvent } from './shapes.ts';
import { TableScroll } from './table-scroll.tsx';
import { useRequest } from './use-request.ts';

const words = consoleTexts.webhooks;
const base = '/api/organiser/webhooks';

interface Endpoint {
  endpoint: string;
  url: string;
  event: string | null;
  happenings: string[];
  note: string | null;
  state: 'active' | 'disabled';
  disabledWhy: string | null;
  failures: number;
  due: number;
}
interface Delivery {
  delivery: string;
  what: string;
  state: string;
  attempts: number;
  createdAt: string;
  status: number | null;
  error: string | null;
  durationMs: number | null;
}

/** Webhook endpoints, including those that were switched off and why. */
export function Webhooks({ events }: { events: OrganiserEvent[] }) {
  const [all, setAll] = useState<{ endpoints: Endpoint[]; happenings: string[] } | null>(null);
  const [said, setSaid] = useState<Said>(null);
  const load = async () => {
    const answer = await call<{ endpoints: Endpoint[]; happenings: string[] }>(base);
    if (answer.kind === 'ok') setAll(answer.body);
    else setSaid(refusal(answer));
  };
  useEffect(() => void load(), []);
  const off = all?.endpoints.filter(({ disabledWhy }) => disabledWhy !== null).length ?? 0;
  const parts = { onSaid: setSaid, onChanged: () => void load() };
  return (
    <section class="card stack">
      <h2>{words.title}</h2>
      <p class="muted">{`${words.help} ${words.signed}`}</p>
      <SaidView said={said} />
      {!all && <p class="pulse">{texts.loading}</p>}
      {off > 0 && <p>{words.attention(off)}</p>}
      {all?.endpoints.length === 0 && <p class="muted">{words.none}</p>}
      {all && all.endpoints.length > 0 && (
        <ul class="plain stack">
          {all.endpoints.map((one) => (
            <EndpointRow key={one.endpoint} one={one} {...parts} />
          ))}
        </ul>
      )}
      {all && <AddForm events={events} happenings={all.happenings} {...parts} />}
    </section>
  );
}

interface Part {
  onSaid: (said: Said) => void;
  onChanged: () => void;
}

function EndpointRow({ one, onSaid, onChanged }: Part & { one: Endpoint }) {
  const [log, setLog] = useState(false);
  const [sure, setSure] = useState(false);
  const path = `${base}/${one.endpoint}`;
  const act = async <T,>(
    method: 'POST' | 'PATCH' | 'DELETE',
    to: string,
    body: object | undefined,
    good: (answer: T) => string,
  ) => {
    const answer = await call<T>(to, { method, body });
    onSaid(answer.kind === 'ok' ? { tone: 'good', text: good(answer.body) } : refusal(answer));
    onChanged();
  };
  const turn = one.state === 'active' ? ('disabled' as const) : ('active' as const);
  const name = <span class="visually-hidden"> {one.url}</span>;
  return (
    <li class="card stack">
      <p>
        <strong class="who">{one.url}</strong>
        {` · ${words[one.state]} · ${one.event ?? words.every}${one.due > 0 ? ` · ${words.due(one.due)}` : ''}`}
        {one.state === 'active' && one.failures > 0 && ` · ${words.failing(one.failures)}`}
      </p>
      {one.disabledWhy && <p>{one.disabledWhy}</p>}
      <p class="muted small">{[one.happenings.join(', '), one.note].filter(Boolean).join(' · ')}</p>
      <div class="row">
        <button
          type="button"
          class="button small"
          onClick={() => void act('PATCH', path, { state: turn }, () => words[turn])}
        >
          {one.state === 'active' ? words.disable : words.enable}
          {name}
        </button>
        {one.state === 'active' && (
          <button
            type="button"
            class="button small"
            onClick={() => void act('POST', `${path}/trial`, undefined, () => words.tried)}
          >
            {words.trial}
            {name}
          </button>
        )}
        <button
          type="button"
          class="button small"
          onClick={() =>
            void act<{ secret: string }>('POST', `${path}/secrets`, {}, ({ secret }) => words.rotated(secret))
          }
        >
          {words.rotate}
          {name}
        </button>
        <button type="button" class="button small" aria-expanded={log} onClick={() => setLog(!log)}>
          {words.log}
          {name}
        </button>
        <button type="button" class="button small" aria-expanded={sure} onClick={() => setSure(true)}>
          {words.remove}
          {name}
        </button>
      </div>
      {sure && (
        <Confirm
          ask={words.removeSure(one.url)}
          yes={words.removeYes}
          no={words.removeNo}
          onYes={() => void act('DELETE', path, undefined, () => words.removed)}
          onNo={() => setSure(false)}
        />
      )}
      {log && <Log one={one} onSaid={onSaid} />}
    </li>
  );
}

function Log({ one, onSaid }: { one: Endpoint; onSaid: (said: Said) => void }) {
  const [deliveries, setDeliveries] = useState<Delivery[] | null>(null);
  const load = async () => {
    const answer = await call<{ deliveries: Delivery[] }>(`${base}/${one.endpoint}/deliveries`);
    if (answer.kind === 'ok') setDeliveries(answer.body.deliveries);
    else onSaid(refusal(answer));
  };
  useEffect(() => void load(), [one.endpoint]);
  const again = async (delivery: string) => {
    const answer = await call(`/api/organiser/webhook-deliveries/${delivery}/again`, { method: 'POST' });
    onSaid(answer.kind === 'ok' ? { tone: 'good', text: words.owed } : refusal(answer));
    void load();
  };
  if (!deliveries) return <p class="pulse">{texts.loading}</p>;
  return (
    <div class="stack">
      <div>
        <button type="button" class="button small" onClick={() => void load()}>
          {words.reload}
        </button>
      </div>
      {deliveries.length === 0 && <p class="muted">{words.logNone}</p>}
      {deliveries.length > 0 && (
        <TableScroll label={words.logOf(one.url)}>
          <table>
            <caption>{words.logOf(one.url)}</caption>
            <thead>
              <tr>
                <th scope="col">{words.at}</th>
                <th scope="col">{words.what}</th>
                <th scope="col">{words.state}</th>
                <th scope="col">{words.attempt}</th>
                <th scope="col">{words.answer}</th>
                <th scope="col">
                  <span class="visually-hidden">{words.again}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {deliveries.map((row) => (
                <tr key={row.delivery}>
                  <td class="nowrap">{shortDateTime(row.createdAt)}</td>
                  <td>{row.what}</td>
                  <td>{words.states[row.state]}</td>
                  <td>{row.attempts}</td>
                  <td>
                    {row.error ?? (row.status === null ? '' : words.took(row.status, row.durationMs ?? 0))}
                  </td>
                  <td>
                    <button type="button" class="button small" onClick={() => void again(row.delivery)}>
                      {words.again}
                      <span class="visually-hidden"> {row.delivery}</span>
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableScroll>
      )}
    </div>
  );
}

function AddForm(props: Part & { events: OrganiserEvent[]; happenings: string[] }) {
  const { onSaid, happenings } = props;
  const [url, setUrl] = useState('');
  const [event, setEvent] = useState('');
  const [note, setNote] = useState('');
  const [wanted, setWanted] = useState<ReadonlySet<string>>(new Set(happenings));
  const { busy, request } = useRequest();

  const add = async () => {
    if (busy) return;
    if (url.trim() === '' || wanted.size === 0) return onSaid({ tone: 'bad', text: words.missing });
    const body = {
      url: url.trim(),
      happenings: happenings.filter((one) => wanted.has(one)),
      event: event === '' ? undefined : event,
      note: note.trim() === '' ? null : note.trim(),
    };
    const answer = await request<{ secret: string; warning?: string }>(base, { method: 'POST', body });
    if (answer.kind !== 'ok') return onSaid(refusal(answer));
    setUrl('');
    setNote('');
    const { secret, warning = '' } = answer.body;
    onSaid({ tone: 'good', text: `${words.secret(secret)} ${warning}`.trim() });
    props.onChanged();
  };

  return (
    <form
      class="stack"
      onSubmit={(submit) => {
        submit.preventDefault();
        void add();
      }}
    >
      <h3>{words.add}</h3>
      <div class="columns">
        <Field id="webhook-url" label={words.url} value={url} hint={words.urlHint} onValue={setUrl} />
        <div class="field">
          <label for="webhook-event">{words.event}</label>
          <select
            id="webhook-event"
            value={event}
            onChange={(change) => setEvent(change.currentTarget.value)}
          >
            <option value="">{words.every}</option>
            {props.events.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <Field id="webhook-note" label={words.note} value={note} hint={words.noteHint} onValue={setNote} />
      </div>
      <fieldset>
        <legend class="label">{words.what}</legend>
        <div class="row-boxes">
          {happenings.map((one) => (
            <label key={one}>
              <input
                type="checkbox"
                checked={wanted.has(one)}
                onChange={({ currentTarget: { checked } }) =>
                  setWanted(
                    (now) =>
                      new Set([...[...now].filter((other) => other !== one), ...(checked ? [one] : [])]),
                  )
                }
              />{' '}
              {one}
            </label>
          ))}
        </div>
      </fieldset>
      <div>
        <button type="submit" class="button" aria-disabled={busy}>
          {busy ? consoleTexts.busy : words.add}
        </button>
      </div>
    </form>
  );
}
