import type { ComponentChildren } from 'preact';
import { minorOf as exactMinorOf } from '../../src/core/money.ts';
import type { Problem } from '../../src/http/api-types.ts';
import { Notice } from '../shared/shell.tsx';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { texts } from '../shared/texts/texts.ts';

/** A labelled text input with its hint. */
export function Field(props: {
  id: string;
  label: string;
  value: string;
  onValue: (value: string) => void;
  hint?: string;
  type?: 'text' | 'number' | 'datetime-local';
  required?: boolean;
  inputMode?: 'decimal' | 'numeric';
  list?: string;
  /** Takes the focus when it appears. */
  focus?: boolean;
}) {
  return (
    <div class="field">
      <label for={props.id}>{props.label}</label>
      <input
        id={props.id}
        type={props.type ?? 'text'}
        value={props.value}
        required={props.required}
        inputMode={props.inputMode}
        list={props.list}
        ref={props.focus ? focusOnce : undefined}
        aria-describedby={props.hint ? `${props.id}-hint` : undefined}
        onInput={(event) => props.onValue(event.currentTarget.value)}
      />
      {props.hint && (
        <span id={`${props.id}-hint`} class="hint">
          {props.hint}
        </span>
      )}
    </div>
  );
}

/** A `ref` that focuses the node when it appears, so that keyboard users continue there. */
export function focusOnce(node: HTMLElement | null): void {
  if (node && !node.dataset.shown) {
    node.dataset.shown = 'yes';
    node.focus();
  }
}

/** The result of a request, shown where it was made, in a live region that exists beforehand. */
export type Said = {
  tone: 'good' | 'bad' | 'warn';
  /** Title of an error. Defaults to “That did not work”. */
  title?: string;
  text: string;
  more?: ComponentChildren;
} | null;

export function SaidView({ said }: { said: Said }) {
  return (
    <div role="status" aria-live="polite">
      {said && (
        <Notice
          tone={said.tone}
          title={said.title ?? (said.tone === 'bad' ? consoleTexts.failed : undefined)}
        >
          <p>{said.text}</p>
          {said.more}
        </Notice>
      )}
    </div>
  );
}

export function refusal(answer: { kind: 'lost' } | { kind: 'problem'; problem: Problem }): Said {
  return {
    tone: 'bad',
    text: answer.kind === 'lost' ? consoleTexts.noAnswer : answer.problem.detail,
  };
}

/** `49`, `49.5`, `49,50` in major units to minor ones; null when it is no amount. */
export function minorOf(text: string, currency: string): number | null {
  const plain = text.trim().replace(',', '.');
  return /^\d{1,9}(\.\d{1,3})?$/.test(plain) ? exactMinorOf(plain, currency) : null;
}

/** A `datetime-local` value is in the browser's time zone. */
export function instantOf(local: string): string | null {
  return local === '' ? null : new Date(local).toISOString();
}

/** The window's title, the nearest first. */
export function titleOf(...places: string[]): string {
  return [...places, consoleTexts.title, texts.brand].join(' · ');
}
