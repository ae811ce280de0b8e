import { visit } from 'jsonc-parser';

/**
 * Returns the line, from 1, on which a text stops being JSON. The parser of Node 20 does not say where it stopped; this reads
 * the text again, only after it has failed.
 */
export function lineOfJsonFault(text: string): number {
  let fault = text.length;
  const onError = (_code: number, offset: number): void => {
    fault = Math.min(fault, offset);
  };
  visit(text, { onError }, { disallowComments: true });
  return text.slice(0, fault).split('\n').length;
}
