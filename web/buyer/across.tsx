import { useEffect } from 'preact/hooks';
import type { Part } from '../seat-map/parts.ts';
import { announce } from '../shared/live.tsx';
import { Notice } from '../shared/shell.tsx';
import { listed } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';

const words = texts.map.parts;

export function partInWords(part: Part): string {
  return listed(part.sections.map(texts.map.sectionName));
}

/** A choice that no hold can take as it is, with each part of it that one can. */
export function AcrossChoice(props: {
  parts: Part[];
  label: (where: string, seats: number) => string;
  onPart: (part: Part) => void;
}) {
  const { parts, label } = props;
  useEffect(() => announce(words.text), []);
  return (
    <Notice tone="warn" title={words.title}>
      <p>{words.text}</p>
      <div class="part-choice">
        {parts.map((part) => (
          <button key={part.partition} type="button" class="button small" onClick={() => props.onPart(part)}>
            {label(partInWords(part), part.seats.length)}
          </button>
        ))}
      </div>
    </Notice>
  );
}
