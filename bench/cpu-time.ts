import fs from 'node:fs';

/** Length of a tick in Linux's /proc; the same on every machine that we know. */
const msPerTick = 10;

/**
 * Returns the milliseconds of CPU time that a process and its children (also those that ended) have used; 0 if there is no
 * /proc. It varies less than operations a second on a machine with other load.
 */
export function cpuMsOf(pid: number): number {
  const root = statOf(String(pid));
  if (!root) return 0;
  let ticks = root.own + root.ended;
  for (const name of fs.readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(name) : null;
    if (stat?.parent === pid) ticks += stat.own;
  }
  return ticks * msPerTick;
}

export function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

function statOf(pid: string): { parent: number; own: number; ended: number } | null {
  try {
    // After the name in brackets: state, parent …; utime, stime, cutime, cstime are the 12th to 15th of these.
    const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ').map(Number);
    return { parent: fields[1]!, own: fields[11]! + fields[12]!, ended: fields[13]! + fields[14]! };
  } catch {
    return null;
  }
}
