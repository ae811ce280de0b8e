import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';

const words = consoleTexts.background;
const lookEveryMs = 15_000;

interface Degraded {
  code: string;
  part: string;
  detail: string;
  remedy: string;
}

/** Background work that fails or is late, on every page of the console; nothing while all goes on. */
export function Background() {
  const [degraded, setDegraded] = useState<Degraded[]>([]);
  useEffect(() => {
    const load = async () => {
      if (document.hidden) return;
      const answer = await call<{ degraded: Degraded[] }>('/api/organiser/background');
      // Without a response the last one stays. Other parts of the page report that the server does not respond.
      if (answer.kind === 'ok') setDegraded(answer.body.degraded);
    };
    void load();
    const timer = window.setInterval(() => void load(), lookEveryMs);
    return () => window.clearInterval(timer);
  }, []);
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
