import { consoleTexts } from '../shared/texts/console-texts.ts';
import { hashOf } from './place.ts';
import type { OrganiserEvent } from './shapes.ts';

const words = consoleTexts.exports;
const kinds = ['orders', 'tickets', 'refunds'] as const;
const formats = ['csv', 'json'] as const;

export function Exports({ event }: { event: OrganiserEvent }) {
  return (
    <section class="card stack">
      <h3>{words.title}</h3>
      <p class="muted">{words.help}</p>
      <ExportLinks base={`/api/organiser/events/${encodeURIComponent(event.id)}/exports`} />
      <p>
        {words.elsewhere} <a href={hashOf({ tab: 'buyers' })}>{words.toBuyers}</a>
      </p>
    </section>
  );
}

/** Plain links, so that the browser's own download does the rest. */
export function ExportLinks({ base }: { base: string }) {
  return (
    <ul class="plain downloads">
      {kinds.map((what) => (
        <li key={what}>
          <span class="label">{words.what[what]}</span>
          {formats.map((format) => (
            <a key={format} class="button small" href={`${base}/${what}.${format}`} download>
              <span class="visually-hidden">{words.as(words.what[what])} </span>
              {format.toUpperCase()}
            </a>
          ))}
        </li>
      ))}
    </ul>
  );
}
