import { enConsole } from './en-console.ts';
import { type Language, language } from './language.ts';

const catalogues: Record<Language, typeof enConsole> = { en: enConsole };

export const consoleTexts = catalogues[language];
