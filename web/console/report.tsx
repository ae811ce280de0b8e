import { consoleTexts } from '../shared/texts/console-texts.ts';
import { count } from '../shared/texts/format.ts';
import type { PlanProblem, PlanReport } from './shapes.ts';

const words = consoleTexts.report;

/** A plan in figures, with what is odd about it. */
export function ReportView({ report, dry = false }: { report: PlanReport; dry?: boolean }) {
  const { accessible, companion, restrictedView } = report.attributes;
  return (
    <section class="stack report" aria-label={words.title}>
      {dry && (
        <h3>
          {words.title}: {report.name} <span class="muted small">{words.dry}</span>
        </h3>
      )}
      <dl class="facts">
        <Fact
          term={words.seats}
          value={`${count(report.seats)}`}
          more={`${count(report.numberedSeats)} ${words.numbered}, ${count(report.gaUnits)} ${words.ga}`}
        />
        <Fact term={words.sections} value={count(report.sections)} />
        <Fact term={words.rows} value={count(report.rows)} />
        <Fact term={words.special} value={[accessible, companion, restrictedView].map(count).join(' · ')} />
      </dl>
      <p>
        <strong>{words.categories}:</strong>{' '}
        {report.categories.map((one) => `${one.name} (${count(one.seats)})`).join(', ')}
      </p>
      {report.warnings.length === 0 ? (
        <p class="muted">{words.noWarnings}</p>
      ) : (
        <details open={report.warnings.length < 6}>
          <summary>{words.warnings(report.warnings.length)}</summary>
          <ul class="warnings">
            {report.warnings.map((warning) => (
              <li key={warning.code}>
                {warning.sentence} <span class="muted small">{words.places(warning.count)}</span>
                {warning.beforeSale && <strong> {words.beforeSale}</strong>}
                {warning.places.length > 0 && (
                  <div class="muted small places">{warning.places.join(', ')}</div>
                )}
              </li>
            ))}
          </ul>
        </details>
      )}
      <details>
        <summary>{words.perSection}</summary>
        <div class="scroll">
          <table>
            <tbody>
              {report.perSection.map((section) => (
                <tr key={section.id}>
                  <th scope="row">{section.group ? `${section.group} · ${section.name}` : section.name}</th>
                  <td class="amount">{`${count(section.rows)} ${words.rows.toLowerCase()}`}</td>
                  <td class="amount">{`${count(section.seats)} ${words.seats.toLowerCase()}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}

export function Fact(props: { term: string; value: string; more?: string }) {
  return (
    <div>
      <dt>{props.term}</dt>
      <dd class="num">
        {props.value}
        {props.more && <div class="muted small">{props.more}</div>}
      </dd>
    </div>
  );
}

/** Why a file was refused, place by place. */
export function ProblemList({ problems, total }: { problems: PlanProblem[]; total: number }) {
  return (
    <section class="stack">
      <h3>{words.problems(total)}</h3>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">{words.place}</th>
              <th scope="col">{words.problem}</th>
            </tr>
          </thead>
          <tbody>
            {problems.map((problem) => (
              <tr key={`${problem.place}${problem.code}`}>
                <td class="places">{problem.place}</td>
                <td>{problem.sentence}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
