import type { ChildProcess } from 'node:child_process';

/**
 * Reports when a child process has ended, also one that could not be started. Attach it at once: the end is reported only once.
 */
export function exitOf(child: ChildProcess): { exited: Promise<void>; isGone(): boolean } {
  let gone = false;
  const exited = new Promise<void>((resolve) => {
    const done = (): void => {
      gone = true;
      resolve();
    };
    child.once('exit', done);
    child.once('error', done);
  });
  return { exited, isGone: () => gone };
}
