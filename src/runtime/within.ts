import type { Clock } from './clock.ts';

/** Waits for the promise, but no longer than `ms`. Rejects as the promise does. */
export async function within<Result>(
  clock: Pick<Clock, 'after'>,
  ms: number,
  promise: Promise<Result>,
): Promise<Result | 'late'> {
  let cancel = (): void => {};
  const late = new Promise<'late'>((resolve) => {
    cancel = clock.after(ms, () => resolve('late'));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    cancel();
  }
}
