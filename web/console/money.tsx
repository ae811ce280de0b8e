import { useEffect, useState } from 'preact/hooks';
import { call } from '../shared/api.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count, money, timeOfDay } from '../shared/texts/format.ts';
import { refusal, type Said, SaidView } from './fields.tsx';
import { Fact } from './report.tsx';
import type { OrganiserEvent } from './shapes.ts';
import { TableScroll } from './table-scroll.tsx';

const words = consoleTexts.money;
/** The figures are counted five seconds after a sale. */
const lookEveryMs = 10_000;

interface Sold {
  category: string;
  kind: string;
  tickets: number;
  prices: number;
  fees: number;
}
interface Figures {
  currency: string;
  at: string;
  sold: Sold[];
  taken: number;
  refunded: number;
  owed: number;
}

/** Sales and the state of the money. */
export function Money({ event }: { event: OrganiserEvent }) {
  const [figures, setFigures] = useState<Figures | null>(null);
  const [said, setSaid] = useState<Said>(null);
  useEffect(() => {
    const load = async () => {
      if (document.hidden) return;
      const answer = await call<Figures>(`/api/organiser/events/${encodeURIComponent(event.id)}/figures`);
      setSaid(answer.kind === 'ok' ? null : refusal(answer));
      if (answer.kind === 'ok') setFigures(answer.body);
    };
    void load();
    const timer = setInterval(() => void load(), lookEveryMs);
    return () => clearInterval(timer);
  }, [event.id]);
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
