import { useEffect } from 'preact/hooks';
import type { Problem } from '../../src/http/api-types.ts';
import { useServerNow } from '../shared/clock.ts';
import { announce } from '../shared/live.tsx';
import { Notice } from '../shared/shell.tsx';
import { clockFace } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';

const words = texts.problems.cooldown;

/** The wait before the next hold: how long, that nothing is lost, and whom to ask. */
export function CooldownView(props: { problem: Problem; onClose: () => void }) {
  const { until, reference } = props.problem;
  const end = typeof until === 'string' ? Date.parse(until) : Number.NaN;
  const left = end - useServerNow();
  const isOver = !(left > 0);
  useEffect(() => {
    if (isOver) announce(words.over);
  }, [isOver]);
  if (isOver) {
    return (
      <Notice tone="good" title={words.overTitle} onClose={props.onClose}>
        <p>{words.over}</p>
      </Notice>
    );
  }
  return (
    <Notice tone="warn" title={words.title} onClose={props.onClose} insight>
      <p>{words.why}</p>
      <p>
        {words.left}{' '}
        <strong role="timer" aria-live="off">
          {clockFace(left)}
        </strong>
      </p>
      <p>{words.meanwhile}</p>
      {typeof reference === 'string' && (
        <p>
          {words.appeal} <code>{reference}</code>
        </p>
      )}
    </Notice>
  );
}
