import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { LiveRegion } from './live.tsx';
import { texts } from './texts/texts.ts';

/** Header, test-mode banner, main and live region: the same on every page. */
export function Shell(props: { test?: boolean; nav?: ComponentChildren; children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main">
        {texts.skip}
      </a>
      <header>
        {props.test && <p class="test-banner">{texts.testMode}</p>}
        <div class="bar">
          <a class="brand" href="/">
            <Mark />
            {texts.brand}
          </a>
          {props.nav}
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {props.children}
      </main>
      <LiveRegion />
    </>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#14594a" />
      <path d="M7 11h18v3a2 2 0 0 0 0 4v3H7v-3a2 2 0 0 0 0-4z" fill="#fff" />
      <path d="M19 11v10" stroke="#14594a" stroke-width="1.6" stroke-dasharray="2 1.6" />
    </svg>
  );
}

/**
 * A view's heading. When the view replaced another one in the same page the focus goes there, so that keyboard and screen
 * reader start at the new view's top; not on the first load.
 */
export function ViewHeading(props: { children: ComponentChildren; level?: 1 | 2 }) {
  const ref = useRef<HTMLHeadingElement>(null);
  // Runs before the view is painted, so that a late focus does not take quick key presses from a field.
  useLayoutEffect(() => {
    if (viewsShown++ > 0) ref.current?.focus({ preventScroll: false });
  }, []);
  const Tag = props.level === 1 ? 'h1' : 'h2';
  return (
    <Tag ref={ref} tabIndex={-1}>
      {props.children}
    </Tag>
  );
}

let viewsShown = 0;

export function Notice(props: {
  tone?: 'good' | 'warn' | 'bad';
  title?: string;
  children: ComponentChildren;
  onClose?: () => void;
  /** Comes into sight when it appears: what it explains happened out of sight of its place. */
  insight?: boolean;
}) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (props.insight) ref.current?.scrollIntoView({ block: 'nearest' });
  }, []);
  return (
    <div ref={ref} class={`notice ${props.tone === 'good' ? '' : (props.tone ?? '')}`}>
      {props.title && <strong>{props.title}</strong>}
      <div class="stack">{props.children}</div>
      {props.onClose && (
        <div>
          <button type="button" class="button quiet small" onClick={props.onClose}>
            {texts.close}
          </button>
        </div>
      )}
    </div>
  );
}

/** A step that cannot be undone asks once, in place. */
export function Confirm(props: {
  ask: string;
  yes: string;
  no: string;
  busy?: boolean;
  onYes: () => void;
  onNo: () => void;
}) {
  const ref = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <Notice tone="warn">
      <p>{props.ask}</p>
      <div class="row">
        <button type="button" class="button danger" disabled={props.busy} onClick={props.onYes}>
          {props.yes}
        </button>
        <button type="button" class="button" ref={ref} onClick={props.onNo}>
          {props.no}
        </button>
      </div>
    </Notice>
  );
}
