import type { ComponentChildren } from 'preact';

/** A table that may be wider than the window: it scrolls by itself, by keyboard too, and the page never does. */
export function TableScroll(props: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached without a pointer.
    <section class="table-scroll" aria-label={props.label} tabIndex={0}>
      {props.children}
    </section>
  );
}
