import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { projectDir } from '../../src/runtime/project-dir.ts';

/** `InProcess` to `in-process`. */
const dashed = (name: string): string => name.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase();

test('every arbiter adapter is held to the contract suite', () => {
  const adapters = ['src/inventory', 'models'].flatMap((folder) =>
    fs
      .readdirSync(path.join(projectDir, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => fs.readFileSync(path.join(projectDir, folder, file), 'utf8'))
      .flatMap((text) => [...text.matchAll(/export function create(\w+)Arbiter\(/g)])
      .map((match) => dashed(match[1]!)),
  );
  for (const known of ['in-process', 'postgres', 'redis']) {
    assert.ok(adapters.includes(known), `${known} among ${adapters}`);
  }
  for (const adapter of adapters) {
    const file = path.join(projectDir, 'test/contract', `arbiter-${adapter}.test.ts`);
    assert.ok(fs.existsSync(file), `${adapter} has ${path.basename(file)}`);
    assert.match(fs.readFileSync(file, 'utf8'), new RegExp(`^arbiterSuite\\('${adapter}'`, 'm'));
  }
});
