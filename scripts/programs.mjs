import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { runTelling, say } from './prepare.mjs';

// Programs of the system that the demo and the tests use: found on the PATH, or installed with apt as root on Debian.

export const redis = {
  what: 'redis-server or valkey-server',
  package: 'redis-server',
  variable: 'ONSALE_TEST_REDIS',
  skipped: 'THE TESTS OF REDIS ARE',
  names: ['redis-server', 'valkey-server'],
  elsewhere: ['/usr/bin/redis-server', '/usr/local/bin/redis-server', '/opt/homebrew/bin/redis-server'],
};
export const chromium = {
  what: 'Chromium',
  package: 'chromium',
  variable: 'ONSALE_TEST_CHROMIUM',
  skipped: 'THE BROWSER TESTS ARE',
  names: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
  elsewhere: ['/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'],
};
export const nginx = {
  what: 'nginx',
  package: 'nginx-light',
  variable: 'ONSALE_TEST_NGINX',
  skipped: 'THE SOAK TEST IS',
  names: ['nginx'],
  elsewhere: ['/usr/sbin/nginx'],
};

/** Returns the program's path, or an empty text if it is not here and cannot be installed. */
export async function findOrInstall(program) {
  const found = find(program);
  if (found) return found;
  const canInstall = process.getuid?.() === 0 && spawnSync('apt-get', ['--version']).status === 0;
  if (!canInstall) return '';
  say(`Installing ${program.package} (once) …`);
  await installPackage(program.package);
  return find(program);
}

function find({ variable, names, elsewhere }) {
  if (process.env[variable]) return process.env[variable];
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const candidates = folders.flatMap((folder) => names.map((name) => path.join(folder, name)));
  return [...candidates, ...elsewhere].find((file) => fs.existsSync(file)) ?? '';
}

/**
 * Only the program is wanted: Debian's package would otherwise start a server. Its scripts ask policy-rc.d whether they may; a
 * machine that has a policy of its own keeps it.
 */
async function installPackage(name) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const policy = '/usr/sbin/policy-rc.d';
  const isOurs = !fs.existsSync(policy);
  if (isOurs) fs.writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    await runTelling('updating the package lists', 'apt-get', ['-qq', 'update'], env);
    const keepSettings = ['-o', 'Dpkg::Options::=--force-confold'];
    const install = ['-qq', '-y', '--no-install-recommends', ...keepSettings, 'install', name];
    await runTelling('installing', 'apt-get', install, env);
  } finally {
    if (isOurs) fs.rmSync(policy, { force: true });
  }
}
