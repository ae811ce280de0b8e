/** Languages that have a catalogue in `texts/`. To add one: write its catalogue and name it here and in texts.ts. */
const languages = ['en'] as const;
export type Language = (typeof languages)[number];

const wished = typeof navigator === 'undefined' ? [] : (navigator.languages ?? []);
export const language: Language =
  languages.find((one) => wished.some((w) => w.toLowerCase().startsWith(one))) ?? 'en';
