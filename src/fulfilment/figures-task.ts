import { refreshFigures } from '../catalogue/figures.ts';
import type { Db } from '../postgres/db.ts';
import type { Task } from './job-queue.ts';

/** `figures` {event}: counts the organiser's figures of an event again. Running it twice does no harm. */
export function createFiguresTask({ db }: { db: Db }): Task {
  return async (payload) => {
    const event = (payload as { event?: unknown } | null)?.event;
    if (typeof event !== 'number') throw new Error('a figures job names its event');
    await refreshFigures(db, event);
  };
}
