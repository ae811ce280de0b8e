import { en } from './en.ts';
import { type Language, language } from './language.ts';

/** A catalogue in another language is an object of this type: the compiler names what is missing. */
export type Texts = typeof en;

const catalogues: Record<Language, Texts> = { en };

/** All that the buyer's pages say. */
export const texts: Texts = catalogues[language];
