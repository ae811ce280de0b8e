import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { projectDir } from '../../src/runtime/project-dir.ts';

const program = path.join(projectDir, 'bin/onsale.mjs');

/** Runs one of our command lines with the given environment only. Returns its output and exit code. */
export async function onsale(
  argv: readonly string[],
  env: Record<string, string>,
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [program, ...argv], {
    env: { PATH: process.env.PATH, HOME: os.tmpdir(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, out, err };
}

/** One that goes on, such as `start`. */
export function spawnOnsale(
  t: { after(run: () => void): void },
  argv: readonly string[],
  env: Record<string, string>,
): { says(what: RegExp): Promise<string>; end(signal: NodeJS.Signals): Promise<number | null> } {
  const child = spawn(process.execPath, [program, ...argv], {
    env: { PATH: process.env.PATH, HOME: os.tmpdir(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => void child.kill('SIGKILL'));
  let said = '';
  const closed = new Promise<number | null>((resolve) => child.on('close', resolve));
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      said += chunk;
      for (const listener of listeners) listener();
    });
  }
  return {
    /** Everything so far, once it matches. */
    says: (what) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!what.test(said)) return;
          listeners.delete(look);
          resolve(said);
        };
        listeners.add(look);
        look();
        void closed.then((code) => reject(new Error(`it ended with ${code}:\n${said}`)));
      }),
    end: (signal) => {
      child.kill(signal);
      return closed;
    },
  };
}
