import {
  actionsWithNote,
  type EntryKind,
  entryActions,
  entryWords,
  operatorEntries,
} from '../src/core/operator-list.ts';

/** docs/reference/open-payments.md, made from the table. */
export function openPaymentsReference(): string {
  const kinds = Object.keys(operatorEntries) as EntryKind[];
  const sections = kinds.map((kind) => {
    const { title, means, charged, actions } = entryWords(kind);
    const rows = entryActions.flatMap((action) => {
      const words = actions[action];
      const note = actionsWithNote.includes(action) ? ' (with a note)' : '';
      return words ? [`| \`${action}\`${note} | ${words.label} | ${words.does} |`] : [];
    });
    return [
      `## \`${kind}\``,
      '',
      `**${title}.** ${means}`,
      '',
      `Charged: ${charged}`,
      '',
      '| action | label | what it does |',
      '|---|---|---|',
      ...rows,
    ].join('\n');
  });
  return `${[
    '# Payments that need a decision',
    'Every kind of entry of the operator’s list. How to work with it: [operating/payments.md](../operating/payments.md). Made from the\ntable in `src/core/operator-list.ts` by `node --import tsx scripts/write-reference.ts`.',
    ...sections,
  ].join('\n\n')}\n`;
}
