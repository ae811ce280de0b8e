import type { OutputOf } from '../../src/operate/operation.ts';
import type { listDegraded } from '../../src/operate/work.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { useAnswer } from './use-request.ts';

const words = consoleTexts.background;
const lookEveryMs = 15_000;

/** Background work that fails or is late, on every page of the console; nothing while all goes on. */
export function Background() {
  // Without a response the last one stays. Other parts of the page report that the server does not respond.
  const { answer } = useAnswer<OutputOf<typeof listDegraded>>('/api/organiser/background', lookEveryMs);
  const degraded = answer?.degraded ?? [];
  return (
    <div role="status">
      {degraded.length > 0 && (
        <section class="card stack" aria-label={words.title}>
          <h2>{words.title}</h2>
          <p>{words.lead}</p>
          <ul class="plain stack">
            {degraded.map(({ code, part, detail, remedy }) => (
              <li key={`${code}/${part}/${detail}`}>
                {detail} <span class="muted">{remedy}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
