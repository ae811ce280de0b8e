import type { Findings } from './findings.ts';

/** Told apart also by people who cannot tell red from green (after Okabe and Ito, 2008). */
const palette = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b2a100', '#666666'];

export function paletteColor(index: number): string {
  return palette[index % palette.length]!;
}

/** A category's colour as `#rrggbb`; anything else than a hex colour is replaced from the palette, with a warning. */
export function categoryColor(text: string | null, index: number, path: string, findings: Findings): string {
  if (text !== null && /^#[0-9a-f]{6}$/i.test(text)) return text;
  if (text !== null && /^#[0-9a-f]{3}$/i.test(text))
    return `#${[...text.slice(1)].map((c) => c + c).join('')}`;
  if (text !== null && text !== '') {
    findings.warn('unknown_color', 'Colours that are not written as #rrggbb are replaced.', path);
  }
  return paletteColor(index);
}

/** Colours end up in pages, so that only plain CSS colours pass; empty means: not drawn. */
export function drawingColor(text: string | null, path: string, findings: Findings): string {
  if (text === null || text === '') return '';
  if (/^(#[0-9a-f]{3,8}|[a-z]{3,24}|rgba?\([\d., %]{5,40}\))$/i.test(text)) return text;
  findings.warn('unknown_color', 'Colours that are not written as #rrggbb are replaced.', path);
  return '';
}
