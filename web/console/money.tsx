import type { getFigures } from '../../src/operate/events.ts';
import type { OutputOf } from '../../src/operate/operation.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count, money, timeOfDay } from '../shared/texts/format.ts';
import { SaidView } from './fields.tsx';
import { Fact } from './report.tsx';
import type { OrganiserEvent } from './shapes.ts';
import { TableScroll } from './table-scroll.tsx';
import { useAnswer } from './use-request.ts';

const words = consoleTexts.money;
/** The figures are counted five seconds after a sale. */
const lookEveryMs = 10_000;

/** Sales and the state of the money. */
export function Money({ event }: { event: OrganiserEvent }) {
  const path = `/api/organiser/events/${encodeURIComponent(event.id)}/figures`;
  const { answer: figures, said } = useAnswer<OutputOf<typeof getFigures>>(path, lookEveryMs);
  const amount = (minor: number) => money(minor, figures?.currency ?? event.currency);
  const kindName = (id: string) =>
    id === 'full' ? words.full : (event.settings.kinds?.find((kind) => kind.id === id)?.name ?? id);
  const tickets = figures?.sold.reduce((sum, line) => sum + line.tickets, 0) ?? 0;
  return (
    <section class="card stack">
      <h3>
        {words.title} {figures && <span class="muted small num">{words.asOf(timeOfDay(figures.at))}</span>}
      </h3>
      <SaidView said={said} />
      <dl class="facts">
        <Fact term={words.tickets} value={figures ? count(tickets) : '–'} />
        <Fact term={words.taken} value={figures ? amount(figures.taken) : '–'} />
        <Fact term={words.refunded} value={figures ? amount(figures.refunded) : '–'} />
        <Fact term={words.owed} value={figures ? amount(figures.owed) : '–'} />
      </dl>
      {figures && figures.sold.length > 0 && (
        <details>
          <summary>{words.byCategory}</summary>
          <TableScroll label={words.byCategory}>
            <table>
              <thead>
                <tr>
                  <th scope="col">{words.category}</th>
                  <th scope="col">{words.kind}</th>
                  <th scope="col" class="amount">
                    {words.tickets}
                  </th>
                  <th scope="col" class="amount">
                    {words.prices}
                  </th>
                  <th scope="col" class="amount">
                    {words.fees}
                  </th>
                </tr>
              </thead>
              <tbody>
                {figures.sold.map((line) => (
                  <tr key={`${line.category}/${line.kind}`}>
                    <td>{line.category}</td>
                    <td>{kindName(line.kind)}</td>
                    <td class="amount">{count(line.tickets)}</td>
                    <td class="amount">{amount(line.prices)}</td>
                    <td class="amount">{amount(line.fees)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableScroll>
        </details>
      )}
    </section>
  );
}
