import { useEffect, useState } from 'preact/hooks';
import type { Layout } from '../../src/core/seat-map.ts';
import { type Drawing, type DrawnSection, unpack, wordsOf } from '../seat-map/drawing.ts';
import { call } from '../shared/api.ts';
import { pause } from '../shared/clock.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { texts } from '../shared/texts/texts.ts';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import type { OrganiserEvent } from './shapes.ts';
import { useRequest } from './use-request.ts';

const words = consoleTexts.blocks;
const listedMax = 30;

/** Blocks and unblocks whole rows, parts of one row, or units of a standing area. */
export function Blocks({ event }: { event: OrganiserEvent }) {
  const [drawing, setDrawing] = useState<Drawing | null>(null);
  const [sectionId, setSectionId] = useState('');
  const [rows, setRows] = useState<ReadonlySet<number>>(new Set());
  const [range, setRange] = useState({ from: '', to: '' });
  const [units, setUnits] = useState('1');
  const [reason, setReason] = useState('');
  const { busy, request } = useRequest();
  const [said, setSaid] = useState<Said>(null);
  const api = `/api/organiser/events/${encodeURIComponent(event.id)}`;

  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      const path = `/api/events/${encodeURIComponent(event.id)}/layout-${event.layoutHash}.json`;
      while (!stop.signal.aborted) {
        const answer = await call<Layout>(path, { signal: stop.signal });
        if (answer.kind === 'ok') return setDrawing(unpack(answer.body));
        // Just published: the drawing follows in a moment.
        await pause(2000, stop.signal);
      }
    })();
    return () => stop.abort();
  }, [event.id, event.layoutHash]);

  const section = drawing?.sections.find((one) => one.id === sectionId) ?? null;
  const seats = section ? seatsOf(section, rows, range, Number(units)) : [];

  const send = async (method: 'POST' | 'DELETE') => {
    if (busy || seats.length === 0) return;
    if (method === 'POST' && reason.trim() === '') return setSaid({ tone: 'bad', text: words.reasonMissing });
    const body = { seats, ...(reason.trim() ? { reason: reason.trim() } : {}) };
    const answer = await request<{
      blocked?: number[];
      refused?: { seat: number; state: string }[];
      unanswered?: number[];
      unblocked?: number[];
    }>(`${api}/blocks`, { method, body });
    if (answer.kind !== 'ok') return setSaid(refusal(answer));
    const { blocked, refused = [], unanswered = [], unblocked } = answer.body;
    setSaid({
      tone: refused.length + unanswered.length > 0 ? 'warn' : 'good',
      text: [
        blocked ? words.blocked(blocked.length) : words.unblocked(unblocked?.length ?? 0),
        ...(unanswered.length > 0 ? [words.unanswered(unanswered.length)] : []),
      ].join(' '),
      more: drawing && refused.length > 0 && <Refused drawing={drawing} refused={refused} />,
    });
  };

  return (
    <section class="card stack">
      <h3>{words.title}</h3>
      <p class="muted">{words.help}</p>
      {!drawing && <p class="pulse">{texts.loading}</p>}
      {drawing && (
        <form
          class="stack"
          onSubmit={(submit) => {
            submit.preventDefault();
            void send('POST');
          }}
        >
          <div class="columns">
            <div class="field">
              <label for="block-section">{words.section}</label>
              <select
                id="block-section"
                value={sectionId}
                onChange={(change) => {
                  setSectionId(change.currentTarget.value);
                  setRows(new Set());
                }}
              >
                <option value="">{words.choose}</option>
                {drawing.sections.map((one) => (
                  <option key={one.id} value={one.id}>
                    {one.group ? `${one.group} · ${one.name}` : one.name}
                  </option>
                ))}
              </select>
            </div>
            <Field id="block-reason" label={words.reason} value={reason} onValue={setReason} />
          </div>
          {section?.kind === 'ga' && (
            <Field id="block-units" label={words.units} type="number" value={units} onValue={setUnits} />
          )}
          {section?.kind === 'seated' && (
            <RowChoice section={section} rows={rows} range={range} onRows={setRows} onRange={setRange} />
          )}
          <SaidView said={said} />
          <div class="row">
            <button type="submit" class="button primary" aria-disabled={busy || seats.length === 0}>
              {words.block(seats.length)}
            </button>
            <button
              type="button"
              class="button"
              aria-disabled={busy || seats.length === 0}
              onClick={() => void send('DELETE')}
            >
              {words.unblock(seats.length)}
            </button>
          </div>
        </form>
      )}
    </section>
  );
}

interface Range {
  from: string;
  to: string;
}

function RowChoice(props: {
  section: DrawnSection;
  rows: ReadonlySet<number>;
  range: Range;
  onRows: (rows: ReadonlySet<number>) => void;
  onRange: (range: Range) => void;
}) {
  const { section, rows, range } = props;
  const all = rows.size === section.rows.length;
  return (
    <fieldset class="stack">
      <legend class="label">{words.rows}</legend>
      <div class="row-boxes">
        <label>
          <input
            type="checkbox"
            checked={all}
            onChange={() => props.onRows(all ? new Set() : new Set(section.rows.keys()))}
          />
          {words.allRows}
        </label>
        {section.rows.map((row, i) => (
          <label key={row.first}>
            <input
              type="checkbox"
              checked={rows.has(i)}
              onChange={() => {
                const next = new Set(rows);
                if (!next.delete(i)) next.add(i);
                props.onRows(next);
              }}
            />
            {texts.map.list.row(row.label)}
          </label>
        ))}
      </div>
      {rows.size === 1 && (
        <div class="columns">
          <Field
            id="block-from"
            label={words.from}
            value={range.from}
            onValue={(from) => props.onRange({ ...range, from })}
            hint={words.range}
          />
          <Field
            id="block-to"
            label={words.to}
            value={range.to}
            onValue={(to) => props.onRange({ ...range, to })}
          />
        </div>
      )}
    </fieldset>
  );
}

/** Seat numbers of the choice. A range goes by the printed labels, in the row's own order, whichever end is named first. */
function seatsOf(section: DrawnSection, rows: ReadonlySet<number>, range: Range, units: number): number[] {
  if (section.kind === 'ga') return [...section.seatNos].slice(0, Math.max(0, Math.floor(units) || 0));
  return [...rows].flatMap((index) => {
    const row = section.rows[index]!;
    const labels = section.labels.slice(row.first, row.first + row.count);
    let from = 0;
    let to = row.count - 1;
    if (rows.size === 1) {
      if (range.from.trim()) from = labels.indexOf(range.from.trim());
      if (range.to.trim()) to = labels.indexOf(range.to.trim());
      if (from < 0 || to < 0) return [];
      if (from > to) [from, to] = [to, from];
    }
    return [...section.seatNos].slice(row.first + from, row.first + to + 1);
  });
}

function Refused({ drawing, refused }: { drawing: Drawing; refused: { seat: number; state: string }[] }) {
  return (
    <div>
      <p>{words.refused(refused.length)}</p>
      <ul>
        {refused.slice(0, listedMax).map(({ seat, state }) => {
          const where = wordsOf(drawing, seat);
          return (
            <li
              key={seat}
            >{`${texts.map.sectionName(where.section)}, ${texts.map.seat(where)}: ${state}`}</li>
          );
        })}
        {refused.length > listedMax && <li>…</li>}
      </ul>
    </div>
  );
}
