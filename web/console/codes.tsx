import { useState } from 'preact/hooks';
import type { createAccessCodes, listCodes, revokeCodes } from '../../src/operate/codes.ts';
import type { InputOf, OutputOf } from '../../src/operate/operation.ts';
import { Confirm } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count, listed, shortDateTime } from '../shared/texts/format.ts';
import { Field, instantOf, refusal, type Said, SaidView } from './fields.tsx';
import type { OrganiserEvent } from './shapes.ts';
import { TableScroll } from './table-scroll.tsx';
import { submitHandler, useAnswer, useRequest } from './use-request.ts';

const words = consoleTexts.codes;

type NewCodes = Omit<InputOf<typeof createAccessCodes>, 'event'>;
type CodeList = OutputOf<typeof listCodes>;
type Batch = CodeList['batches'][number];

/** Access codes and the areas that only their holders may buy. */
export function Codes({ event }: { event: OrganiserEvent }) {
  const api = `/api/organiser/events/${encodeURIComponent(event.id)}/codes`;
  const { answer, said, setSaid, load } = useAnswer<CodeList>(api);
  const batches = answer?.batches;
  const openable = openableOf(event);
  return (
    <section class="card stack">
      <h3>{words.title}</h3>
      <p class="muted">{openable.length === 0 ? words.nothing : words.help}</p>
      <SaidView said={said} />
      {openable.length > 0 && (
        <CodesForm api={api} openable={openable} onSaid={setSaid} onMade={() => void load()} />
      )}
      {batches && batches.length > 0 && (
        <Batches api={api} batches={batches} event={event} onSaid={setSaid} onChanged={() => void load()} />
      )}
      {batches?.length === 0 && openable.length > 0 && <p class="muted">{words.none}</p>}
    </section>
  );
}

interface Openable {
  what: 'categories' | 'kinds' | 'presale';
  id: string;
  name: string;
}

function openableOf({ settings }: OrganiserEvent): Openable[] {
  const categories = (settings.lockedCategories ?? []).map((name) => ({ id: name, name }));
  const kinds = (settings.kinds ?? []).filter(({ locked }) => locked);
  return [
    ...categories.map((one) => ({ what: 'categories' as const, ...one })),
    ...kinds.map(({ id, name }) => ({ what: 'kinds' as const, id, name })),
    ...(settings.presaleAt ? [{ what: 'presale' as const, id: 'presale', name: words.presale }] : []),
  ];
}

const empty = { label: '', count: '100', prefix: '', list: '', uses: '1', seatsMax: '', until: '' };

function CodesForm(props: {
  api: string;
  openable: Openable[];
  onSaid: (said: Said) => void;
  onMade: () => void;
}) {
  const [form, setForm] = useState(empty);
  const [own, setOwn] = useState(false);
  const [opens, setOpens] = useState<ReadonlySet<Openable>>(new Set());
  const { busy, request } = useRequest();
  const set = (field: keyof typeof empty) => (value: string) =>
    setForm((now) => ({ ...now, [field]: value }));
  const { openable, onSaid } = props;

  const make = async () => {
    if (busy) return;
    const body = bodyOf(form, own, openable.length === 1 ? openable : [...opens]);
    if (typeof body === 'string') return onSaid({ tone: 'bad', text: body });
    const answer = await request<OutputOf<typeof createAccessCodes>>(props.api, {
      method: 'POST',
      body,
      timeoutMs: 60_000,
    });
    if (answer.kind !== 'ok') return onSaid(refusal(answer));
    setForm(empty);
    onSaid({ tone: 'good', text: words.made(answer.body.codes.length) });
    props.onMade();
  };

  return (
    <form class="stack" onSubmit={submitHandler(make)}>
      <Field id="codes-label" label={words.label} value={form.label} required onValue={set('label')} />
      {openable.length > 1 && (
        <fieldset class="stack">
          <legend class="label">{words.opens}</legend>
          {openable.map((one) => (
            <label key={`${one.what} ${one.id}`}>
              <input
                type="checkbox"
                checked={opens.has(one)}
                onChange={({ currentTarget: { checked } }) =>
                  setOpens(
                    (now) =>
                      new Set([...[...now].filter((other) => other !== one), ...(checked ? [one] : [])]),
                  )
                }
              />{' '}
              {one.name}
            </label>
          ))}
        </fieldset>
      )}
      <fieldset class="stack">
        <legend class="label">{words.how}</legend>
        <label>
          <input type="radio" name="codes-how" checked={!own} onChange={() => setOwn(false)} />{' '}
          {words.generate}
        </label>
        <label>
          <input type="radio" name="codes-how" checked={own} onChange={() => setOwn(true)} /> {words.own}
        </label>
      </fieldset>
      {own ? (
        <div class="field">
          <label for="codes-list">{words.list}</label>
          <textarea
            id="codes-list"
            rows={5}
            value={form.list}
            onInput={(input) => set('list')(input.currentTarget.value)}
          />
        </div>
      ) : (
        <div class="columns">
          <Field
            id="codes-count"
            label={words.count}
            value={form.count}
            inputMode="numeric"
            onValue={set('count')}
          />
          <Field
            id="codes-prefix"
            label={words.prefix}
            value={form.prefix}
            hint={words.prefixHint}
            onValue={set('prefix')}
          />
        </div>
      )}
      <div class="columns">
        <Field
          id="codes-uses"
          label={words.uses}
          value={form.uses}
          inputMode="numeric"
          hint={words.usesHint}
          onValue={set('uses')}
        />
        <Field
          id="codes-seats"
          label={words.seatsMax}
          value={form.seatsMax}
          inputMode="numeric"
          hint={words.seatsHint}
          onValue={set('seatsMax')}
        />
        <Field
          id="codes-until"
          label={words.until}
          type="datetime-local"
          value={form.until}
          hint={words.untilHint}
          onValue={set('until')}
        />
      </div>
      <div>
        <button type="submit" class="button" aria-disabled={busy}>
          {busy ? consoleTexts.busy : words.make}
        </button>
      </div>
    </form>
  );
}

/** The request, or the sentence about what is wrong with the form. */
function bodyOf(form: typeof empty, own: boolean, opens: readonly Openable[]): NewCodes | string {
  if (form.label.trim() === '' || opens.length === 0) return words.wrong;
  const usesMax = wholeOf(form.uses);
  const seatsMax = wholeOf(form.seatsMax);
  if (usesMax === undefined || seatsMax === undefined) return words.wrongNumber;
  const named = (what: Openable['what']) => opens.filter((one) => one.what === what).map(({ id }) => id);
  const common = {
    label: form.label.trim(),
    categories: named('categories'),
    kinds: named('kinds'),
    presale: named('presale').length > 0,
    usesMax,
    seatsMax,
    until: instantOf(form.until),
  };
  if (!own) {
    const many = wholeOf(form.count);
    if (!many) return words.wrongCount;
    return {
      ...common,
      generate: { count: many, ...(form.prefix.trim() ? { prefix: form.prefix.trim() } : {}) },
    };
  }
  const codes: { code: string; usesMax?: number }[] = [];
  for (const line of form.list.split('\n')) {
    const [code = '', uses = ''] = line.split(/[,;\t]/).map((part) => part.trim());
    if (code === '') continue;
    const count = wholeOf(uses);
    if (count === undefined) return words.wrongNumber;
    codes.push({ code, ...(count === null ? {} : { usesMax: count }) });
  }
  return codes.length === 0 ? words.wrongCount : { ...common, codes };
}

/** Null if empty. Undefined if not a whole number of at least 1. */
function wholeOf(text: string): number | null | undefined {
  if (text.trim() === '') return null;
  const number = Number(text);
  return Number.isInteger(number) && number >= 1 ? number : undefined;
}

function Batches(props: {
  api: string;
  batches: Batch[];
  event: OrganiserEvent;
  onSaid: (said: Said) => void;
  onChanged: () => void;
}) {
  const [asking, setAsking] = useState<Batch | null>(null);
  const { busy, request } = useRequest();
  const revoke = async (batch: Batch) => {
    const body = { batch: batch.batch };
    const answer = await request<OutputOf<typeof revokeCodes>>(`${props.api}/revoke`, {
      method: 'POST',
      body,
    });
    setAsking(null);
    props.onSaid(
      answer.kind === 'ok' ? { tone: 'good', text: words.done(answer.body.revoked) } : refusal(answer),
    );
    props.onChanged();
  };
  return (
    <>
      {asking && (
        <Confirm
          ask={words.revokeSure(asking.label)}
          yes={words.revokeYes}
          no={words.revokeNo}
          busy={busy}
          onYes={() => void revoke(asking)}
          onNo={() => setAsking(null)}
        />
      )}
      <TableScroll label={words.listTitle}>
        <table>
          <caption>{words.listTitle}</caption>
          <thead>
            <tr>
              <th scope="col">{words.label}</th>
              <th scope="col">{words.opens}</th>
              <th scope="col" class="amount">
                {words.codes}
              </th>
              <th scope="col" class="amount">
                {words.used}
              </th>
              <th scope="col">{words.until}</th>
              <th scope="col">
                <span class="visually-hidden">{words.revoke}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {props.batches.map((batch) => (
              <tr key={batch.batch}>
                <th scope="row">{batch.label}</th>
                <td>{opensText(props.event, batch)}</td>
                <td class="amount">
                  {count(batch.codes)}
                  {batch.revoked > 0 && <div class="muted small">{words.revoked(batch.revoked)}</div>}
                </td>
                <td class="amount">{words.usedOf(batch.used, batch.usesMax)}</td>
                <td class="nowrap">{batch.until && shortDateTime(batch.until)}</td>
                <td>
                  <div class="row">
                    <a
                      class="button small"
                      href={`${props.api}.csv?batch=${encodeURIComponent(batch.batch)}`}
                      aria-label={words.csvOf(batch.label)}
                      download
                    >
                      {words.csv}
                    </a>
                    {batch.revoked < batch.codes && (
                      <button
                        type="button"
                        class="button small"
                        aria-label={words.revokeOf(batch.label)}
                        onClick={() => setAsking(batch)}
                      >
                        {words.revoke}
                      </button>
                    )}
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableScroll>
    </>
  );
}

function opensText(event: OrganiserEvent, { presale, categories, kinds }: Batch): string {
  const names = kinds.map((id) => event.settings.kinds?.find((kind) => kind.id === id)?.name ?? id);
  return listed([...(presale ? [words.presale] : []), ...categories, ...names]);
}
