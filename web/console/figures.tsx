import { waitingIn } from '../buyer/line.ts';
import { useServerNow } from '../shared/clock.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count } from '../shared/texts/format.ts';
import { Fact } from './report.tsx';
import type { OrganiserEvent } from './shapes.ts';

const words = consoleTexts.figures;

/** The figures that the leader published last, with their age. */
export function Figures({ event }: { event: OrganiserEvent }) {
  const now = useServerNow();
  const { counts, status } = event;
  if (!counts || !status) {
    return (
      <section class="card">
        <h3>{words.title}</h3>
        <p class="muted">{words.notYet}</p>
      </section>
    );
  }
  const waiting = waitingIn(status);
  const age = Math.max(0, Math.round((now - status.serverTime) / 1000));
  return (
    <section class="card stack">
      <h3>
        {words.title} <span class="muted small num">{words.age(age)}</span>
      </h3>
      <dl class="facts">
        <Fact
          term={words.available}
          value={`${count(counts.total.available)} / ${count(counts.total.seats)}`}
        />
        <Fact term={words.inBaskets} value={count(status.seats.inBaskets)} />
        <Fact term={words.waiting} value={count(waiting)} />
        <Fact term={words.frontier} value={status.frontier.map(count).join(', ')} />
        <Fact term={words.last} value={status.last.map(count).join(', ')} />
        <Fact
          term={words.rate}
          value={`${count(round(status.rate.measured))} (${count(round(status.rate.target))})`}
        />
        <Fact term={words.noShow} value={`${count(Math.round(status.noShow * 100))} %`} />
      </dl>
      <details>
        <summary>{words.sections}</summary>
        <dl class="section-counts">
          {Object.entries(counts.sections).map(([section, left]) => (
            <div key={section}>
              <dt>{section}</dt>
              <dd class="num">{count(left)}</dd>
            </div>
          ))}
        </dl>
      </details>
    </section>
  );
}

const round = (n: number) => Math.round(n * 10) / 10;
