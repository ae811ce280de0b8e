import { consoleTexts } from '../shared/texts/console-texts.ts';
import { ExportLinks } from './exports.tsx';
import { Forget } from './forget.tsx';

const words = consoleTexts.exports;

/** Tasks about buyers of all events: exports and deletion. */
export function Buyers() {
  return (
    <>
      <section class="card stack">
        <h2>{words.allTitle}</h2>
        <p class="muted">{words.help}</p>
        <ExportLinks base="/api/organiser/exports" />
      </section>
      <Forget />
    </>
  );
}
