import { type Logger, pino } from 'pino';

export type { Logger };

/** Structured logs on stderr, one JSON line each. Ids of orders, holds and events only: no names, mails or secrets. */
export function createLogger(level: string): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination(2));
}

export const silentLogger: Logger = pino({ level: 'silent' });
