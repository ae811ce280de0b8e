import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Clock } from '../src/runtime/clock.ts';
import type { Logger } from '../src/runtime/log.ts';

export interface SimulatorChild {
  readonly url: string;
  /** Where its events go from now on, restarts included. */
  webhooksTo(url: string): Promise<void>;
  stop(): Promise<void>;
}

export interface SimulatorChildOptions {
  /** Its ledger and the port of its last run: an address that a bank's page was opened under stays right. */
  dataDir: string;
  host: string;
  secretKey: string;
  publishableKey: string;
  webhookSecret: string;
  clock: Clock;
  log: Logger;
}

const restartDelayMs = 500;
const restartDelayMaxMs = 10_000;
const stopPatienceMs = 5_000;

/**
 * The payment simulator as a process of its own, so that what fails and restarts is as apart from us as a real provider
 * is. It ends with us however we die (its standard input closes) and is started again when it dies.
 */
export async function startSimulatorChild(options: SimulatorChildOptions): Promise<SimulatorChild> {
  const { dataDir, clock, log } = options;
  const portFile = path.join(dataDir, 'port');
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const stored = fs.existsSync(portFile) ? Number(fs.readFileSync(portFile, 'utf8')) || 0 : 0;
  const stopping = new AbortController();
  let webhookUrl: string | undefined;
  // Another program may have taken the port since.
  let running = await launch(options, stored).catch((error: unknown) => {
    if (stored === 0) throw error;
    log.info({ port: stored }, 'the payment simulator did not start on its last port; it takes another');
    return launch(options, 0);
  });
  fs.writeFileSync(portFile, `${running.port}\n`);
  const { port, url } = running;

  const tell = (target: string): Promise<unknown> =>
    fetch(`${url}/_sim/webhooks/target`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ url: target }),
    }).then((response) => response.arrayBuffer());

  const supervise = async (): Promise<void> => {
    let delayMs = restartDelayMs;
    for (;;) {
      await running.exited;
      while (!stopping.signal.aborted) {
        log.error({ port }, 'the payment simulator ended; starting it again');
        try {
          await clock.sleep(delayMs, stopping.signal);
          running = await launch(options, port);
          if (webhookUrl) await tell(webhookUrl);
          delayMs = restartDelayMs;
          break;
        } catch (error) {
          if (!stopping.signal.aborted) log.warn({ err: error }, 'the payment simulator did not start');
          delayMs = Math.min(delayMs * 2, restartDelayMaxMs);
        }
      }
      if (stopping.signal.aborted) return;
    }
  };
  const supervised = supervise();

  return {
    url,
    async webhooksTo(target) {
      webhookUrl = target;
      await tell(target);
    },
    async stop() {
      stopping.abort(new Error('stopping'));
      const patience = clock.after(stopPatienceMs, () => running.child.kill('SIGKILL'));
      running.child.kill('SIGTERM');
      await running.exited;
      await supervised;
      // A restart may have been under way when the stop came.
      running.child.kill('SIGTERM');
      await running.exited;
      patience();
    },
  };
}

interface Running {
  child: ChildProcess;
  port: number;
  url: string;
  exited: Promise<void>;
}

async function launch(options: SimulatorChildOptions, port: number): Promise<Running> {
  const settings = {
    'data-dir': options.dataDir,
    port: String(port),
    host: options.host,
    'secret-key': options.secretKey,
    'publishable-key': options.publishableKey,
    'webhook-secret': options.webhookSecret,
  };
  // Compiled, or as it is written.
  const language = path.extname(import.meta.filename);
  const loader = language === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
  const main = path.join(import.meta.dirname, `main${language}`);
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  // Detached: Ctrl-C in a terminal signals the whole group, and payments under way are still to be finished.
  const child = spawn(process.execPath, [...loader, main, ...flags], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  child.stdin.on('error', () => {});
  const ready = await firstLine(child);
  if (!ready) throw new Error('the payment simulator ended before it was ready');
  return { child, exited, ...ready };
}

async function firstLine(child: ChildProcess): Promise<{ port: number; url: string } | null> {
  const lines = createInterface({ input: child.stdout! });
  for await (const line of lines) {
    child.stdout!.resume();
    return JSON.parse(line) as { port: number; url: string };
  }
  return null;
}
