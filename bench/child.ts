import { spawn } from 'node:child_process';
import path from 'node:path';
import { cpuMsOf } from './cpu-time.ts';

/** A server in a process of its own, so that it has a core while the generator has the other. */
export interface ServedChild {
  url: string;
  pid: number;
  cpuMs(): number;
  /** Bytes that it has in use after a full collection. */
  heapUsed(): Promise<number>;
  stop(): Promise<void>;
}

/** For looking closer: BENCH_NODE_FLAGS="--cpu-prof --cpu-prof-dir=DIR". */
const flags = process.env.BENCH_NODE_FLAGS?.split(' ') ?? [];

interface ChildMessage {
  url?: string;
  heapUsed?: number;
}

/** Runs a file of this folder that sends `{url}` when it serves, and `{heapUsed}` when it is asked for. */
export async function serveIn(file: string, env: Record<string, string>): Promise<ServedChild> {
  const child = spawn(
    process.execPath,
    ['--expose-gc', ...flags, '--import', 'tsx', path.join(import.meta.dirname, file)],
    {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, ...env },
    },
  );
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const told = (what: keyof ChildMessage): Promise<ChildMessage> =>
    new Promise((resolve, reject) => {
      const onMessage = (message: ChildMessage): void => {
        if (message[what] === undefined) return;
        child.off('message', onMessage);
        resolve(message);
      };
      child.on('message', onMessage);
      void exited.then(() => reject(new Error(`${file} ended with ${child.exitCode}`)));
    });
  const { url } = await told('url');
  return {
    url: url!,
    pid: child.pid!,
    cpuMs: () => cpuMsOf(child.pid!),
    async heapUsed() {
      const answer = told('heapUsed');
      child.send('heap');
      return (await answer).heapUsed!;
    },
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** The child's side. */
export function serving(url: string, stop: () => Promise<void>): void {
  process.send!({ url });
  process.on('message', () => {
    globalThis.gc?.();
    process.send!({ heapUsed: process.memoryUsage().heapUsed });
  });
  const end = (): void => void stop().finally(() => process.exit(0));
  process.once('SIGTERM', end);
  // The bench is gone.
  process.once('disconnect', end);
}
