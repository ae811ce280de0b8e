import { readFileSync } from 'node:fs';

const everyMs = 500;

/**
 * Calls `onGone` once if npm started this process and is gone. npm passes SIGTERM and SIGINT on, but dies without a word by
 * SIGHUP and SIGKILL; under npx the signal reaches only the shell between npm and us. Without npm nothing is watched: who starts
 * a server in the background of a shell and leaves the shell wants it to go on. Returns a function that ends the watch.
 */
export function watchNpm(onGone: () => void, env: NodeJS.ProcessEnv = process.env): () => void {
  if (env.npm_lifecycle_event === undefined) return () => {};
  const before = ancestors();
  const timer = setInterval(() => {
    if (ancestors() === before) return;
    clearInterval(timer);
    onGone();
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}

/** Our parent and, if that is the shell in which npm runs a command, the shell's parent. It changes when one of them ends. */
function ancestors(): string {
  const parent = process.ppid;
  const status = statusOf(parent);
  return status && /^(ba|da|z|k)?sh$/.test(status.name) ? `${parent} ${status.parent}` : `${parent}`;
}

/** Linux only; elsewhere only the direct parent is watched. */
function statusOf(pid: number): { name: string; parent: string } | null {
  try {
    const [, name = '', parent = ''] =
      /^\d+ \((.*)\) \S (\d+) /s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
    return { name, parent };
  } catch {
    return null;
  }
}
