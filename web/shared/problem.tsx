import type { Problem } from '../../src/http/api-types.ts';
import { Notice } from './shell.tsx';
import { texts } from './texts/texts.ts';

/** A refusal in words: our own sentence for the code where we have one, else what the API said. */
export function problemText(problem: Problem): string {
  const { max, used } = problem;
  const limit = texts.problems.limits[problem.code];
  if (limit && typeof max === 'number' && typeof used === 'number') return limit({ max, used });
  return texts.problems.byCode[problem.code] ?? (problem.detail || texts.problems.unexpected);
}

/** The one view of an error. */
export function ProblemView(props: { problem: Problem; onClose?: () => void }) {
  const { reference } = props.problem;
  return (
    <Notice tone="bad" title={texts.problems.title} onClose={props.onClose} insight>
      <p>{problemText(props.problem)}</p>
      {typeof reference === 'string' && (
        <p>
          {texts.problems.appeal} <code>{reference}</code>
        </p>
      )}
    </Notice>
  );
}
