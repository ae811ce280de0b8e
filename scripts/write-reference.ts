import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { errorsReference } from '../src/http/errors-page.ts';
import { configReference } from '../src/runtime/config.ts';
import { openPaymentsReference } from './open-payments-reference.ts';

/** Writes the pages of docs/reference that are made from the sources; tests compare them. */
const folder = path.resolve(import.meta.dirname, '../docs/reference');
mkdirSync(folder, { recursive: true });
writeFileSync(path.join(folder, 'configuration.md'), configReference());
writeFileSync(path.join(folder, 'errors.md'), errorsReference());
writeFileSync(path.join(folder, 'open-payments.md'), openPaymentsReference());
