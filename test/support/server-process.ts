import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { until } from './wait.ts';

/** The server as the process that it is, on one port for its whole life of kills and restarts. */
export interface ServerProcess {
  url: string;
  pid(): number;
  /** kill -9. */
  kill(): Promise<void>;
  /** Starts it (again) and waits until it answers. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export async function serverProcess(
  env: Record<string, string>,
  args: string[] = [],
): Promise<ServerProcess> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child: ChildProcess | null = null;
  let output = '';

  async function start(): Promise<void> {
    const started = spawn(process.execPath, ['bin/onsale.mjs', 'start', '--no-demo', ...args], {
      cwd: projectDir,
      env: { ...process.env, ...env, PORT: String(port), ONSALE_LOG_LEVEL: 'warn' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    const keep = (chunk: Buffer): void => {
      output = (output + String(chunk)).slice(-4_000);
    };
    started.stdout?.on('data', keep);
    started.stderr?.on('data', keep);
    await until(
      async () => {
        if (started.exitCode !== null)
          throw new Error(`the server ended with ${started.exitCode}:\n${output}`);
        return await fetch(`${url}/healthz`).then(
          (answer) => answer.ok,
          () => false,
        );
      },
      () => `the server to answer:\n${output}`,
    );
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }

  return {
    url,
    pid: () => child?.pid ?? 0,
    start,
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
  };
}

/**
 * A free port on 127.0.0.1, below those of outgoing connections (32768 and up on Linux), so that no connection of another test
 * takes it while its server restarts. The bus of a Redis Cluster, 10,000 above, is below them as well.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    const server = net.createServer().listen(randomInt(12_000, 22_000), '127.0.0.1');
    try {
      await once(server, 'listening');
      const { port } = server.address() as net.AddressInfo;
      server.close();
      await once(server, 'close');
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || attempt === 20) throw error;
    }
  }
}
