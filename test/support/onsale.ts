import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { projectDir } from '../../src/runtime/project-dir.ts';

const program = path.join(projectDir, 'bin/onsale.mjs');

/** Runs one command line of ours with nothing of our own environment but what is given; answers what it said and its exit code. */
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
