import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { systemClock } from '../../src/runtime/clock.ts';
import { freePort } from '../support/server-process.ts';

/** nginx's program; an empty text when there is none. scripts/test.mjs installs it or sets ONSALE_TEST_NGINX. */
export function findNginx(): string {
  if (process.env.ONSALE_TEST_NGINX !== undefined) return process.env.ONSALE_TEST_NGINX;
  const folders = [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin'];
  return folders.map((folder) => path.join(folder, 'nginx')).find((file) => fs.existsSync(file)) ?? '';
}

export interface Nginx {
  url: string;
  stop(): Promise<void>;
}

/** A reverse proxy in front of the web processes on these ports. Buyers who reach a stopped process are asked to retry. */
export async function startNginx(options: {
  binary: string;
  folder: string;
  ports: readonly number[];
}): Promise<Nginx> {
  const dir = path.join(options.folder, 'nginx');
  fs.mkdirSync(dir);
  const port = await freePort();
  const file = path.join(dir, 'nginx.conf');
  fs.writeFileSync(file, configuration({ ...options, dir, port }));
  const { status, stderr } = spawnSync(options.binary, ['-t', '-q', '-c', file], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`nginx refuses its configuration: ${stderr}`);
  const child = spawn(options.binary, ['-c', file], { stdio: ['ignore', 'ignore', 'inherit'] });
  const url = `http://127.0.0.1:${port}`;
  const end = systemClock.monotonic() + 20_000;
  while (!(await fetch(`${url}/healthz`).catch(() => null))) {
    if (child.exitCode !== null || systemClock.monotonic() > end) throw new Error('nginx did not start');
    await systemClock.sleep(50);
  }
  return {
    url,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}

function configuration(at: { dir: string; port: number; ports: readonly number[] }): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `  ${name}_temp_path ${at.dir}/${name};`,
  );
  const away = JSON.stringify({ code: 'unavailable', detail: 'Try again in a moment.', retryAfterMs: 1_000 });
  return `daemon off;
worker_processes 1;
pid ${at.dir}/nginx.pid;
error_log ${at.dir}/error.log warn;
events { worker_connections 2048; }
http {
  access_log off;
${temporary.join('\n')}
  upstream web {
${at.ports.map((port) => `    server 127.0.0.1:${port} max_fails=2 fail_timeout=3s;`).join('\n')}
    keepalive 64;
  }
  server {
    listen 127.0.0.1:${at.port};
    location / {
      proxy_pass http://web;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_connect_timeout 1s;
      proxy_read_timeout 10s;
      proxy_next_upstream error timeout;
      proxy_next_upstream_timeout 12s;
      error_page 502 504 = @away;
    }
    location @away {
      internal;
      default_type application/problem+json;
      add_header Retry-After 1 always;
      return 503 '${away}';
    }
  }
}
`;
}
