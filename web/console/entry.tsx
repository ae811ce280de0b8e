import { useState } from 'preact/hooks';
import type { checkIn } from '../../src/operate/entry.ts';
import type { OutputOf } from '../../src/operate/operation.ts';
import { call } from '../shared/api.ts';
import { newKey } from '../shared/storage.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count, shortDateTime } from '../shared/texts/format.ts';
import { Doubles } from './entry-doubles.tsx';
import { sayPlace, TakeBack, type TakenBack } from './entry-take-back.tsx';
import { Field, refusal, type Said, SaidView } from './fields.tsx';
import type { EntrySums, OrganiserEvent } from './shapes.ts';
import { TableScroll } from './table-scroll.tsx';
import { submitHandler, useAnswer } from './use-request.ts';

const words = consoleTexts.entry;
/** Gate staff read this first. */
const turnedAway = { tone: 'bad' as const, title: words.notIn };
const codeField = 'entry-code';

type Answer = OutputOf<typeof checkIn>;

/** Check-in: how many came in, manual check-in (a scanner that types like a keyboard works too), and corrections. */
export function Entry({ event, shown }: { event: OrganiserEvent; shown: boolean }) {
  const [gate, setGate] = useState('');
  const [code, setCode] = useState('');
  /** The use that the last scan made or met: it may be taken back. */
  const [use, setUse] = useState<{ ticket: string; at: string } | null>(null);
  const [asking, setAsking] = useState(false);
  const base = `/api/organiser/events/${encodeURIComponent(event.id)}`;
  const { answer: sums, said, setSaid, load } = useAnswer<EntrySums>(shown ? `${base}/entries` : null);

  const check = async () => {
    const text = code.trim();
    if (text === '') return;
    setCode('');
    setUse(null);
    setAsking(false);
    const place = gate.trim() === '' ? undefined : gate.trim();
    const body = { code: text, event: event.id, gate: place, scan: newKey() };
    const answer = await call<Answer>('/api/organiser/checkin', { method: 'POST', body });
    setSaid(answer.kind === 'ok' ? sayEntry(answer.body) : refusal(answer));
    if (answer.kind === 'ok' && (answer.body.result === 'valid' || answer.body.result === 'used')) {
      setUse({ ticket: answer.body.ticket, at: answer.body.at });
    }
    void load();
  };
  const takenBack = ({ said: text, done }: TakenBack) => {
    setSaid(text);
    setAsking(false);
    if (done) setUse(null);
    // The next scan is what the door is there for.
    document.getElementById(codeField)?.focus();
    void load();
  };

  return (
    <>
      <section class="card stack">
        <h3>{words.title}</h3>
        <p class="muted">{words.help}</p>
        <p>{sums ? words.came(sums.entered, sums.tickets) : words.counting}</p>
        <form class="columns" onSubmit={submitHandler(check)}>
          <Field id="entry-gate" label={words.gate} value={gate} onValue={setGate} />
          <Field id={codeField} label={words.code} value={code} onValue={setCode} />
          <div class="beside">
            <button type="submit" class="button primary">
              {words.check}
            </button>
          </div>
        </form>
        <SaidView said={said} />
        {use && (
          <div>
            <button type="button" class="button small" aria-expanded={asking} onClick={() => setAsking(true)}>
              {words.takeBack.ask}
            </button>
          </div>
        )}
        {use && asking && (
          <TakeBack
            id="entry-scan"
            event={event.id}
            use={use}
            onEnded={(ended) => (ended ? takenBack(ended) : setAsking(false))}
          />
        )}
        {sums && sums.gates.length > 0 && <Gates gates={sums.gates} />}
        <p>
          <a href={`${base}/gate-list`} download={`gate-list-${event.id}.json`}>
            {words.list}
          </a>{' '}
          <span class="muted small">{words.listHelp}</span>
        </p>
      </section>
      {sums && <Doubles event={event.id} sums={sums} onChanged={() => void load()} />}
    </>
  );
}

function Gates({ gates }: Pick<EntrySums, 'gates'>) {
  const { byGate } = words;
  return (
    <details>
      <summary>{byGate.title}</summary>
      <TableScroll label={byGate.title}>
        <table>
          <thead>
            <tr>
              <th scope="col">{words.gate}</th>
              <th scope="col" class="amount">
                {byGate.entered}
              </th>
              <th scope="col">{byGate.last}</th>
            </tr>
          </thead>
          <tbody>
            {gates.map((one) => (
              <tr key={one.gate}>
                <th scope="row" class="who">
                  <bdi>{one.gate ?? byGate.unnamed}</bdi>
                </th>
                <td class="amount">{count(one.entered)}</td>
                <td>{shortDateTime(one.lastAt)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableScroll>
    </details>
  );
}

function sayEntry(answer: Answer): Said {
  const { results } = words;
  switch (answer.result) {
    case 'valid':
      return { tone: 'good', text: results.valid(sayPlace(answer.seat)) };
    case 'used': {
      const text = results.used(shortDateTime(answer.at), answer.gate, sayPlace(answer.seat));
      return { ...turnedAway, text };
    }
    case 'undone':
      return { ...turnedAway, text: results.undone };
    case 'revoked':
      return { ...turnedAway, text: results.revoked[answer.why] ?? results.forged };
    case 'other_event':
      return { ...turnedAway, text: results.other(answer.eventName ?? '') };
    case 'forged':
      return { ...turnedAway, text: results.forged };
  }
}
