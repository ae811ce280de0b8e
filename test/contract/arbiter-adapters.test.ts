import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { projectDir } from '../../src/runtime/project-dir.ts';

const inventory = path.join(projectDir, 'src/inventory');

test('every arbiter adapter is held to the contract suite', () => {
  const adapters = fs
    .readdirSync(inventory)
    .filter((file) => file.endsWith('.ts'))
    .filter((file) =>
      /export function create\w+Arbiter\(/.test(fs.readFileSync(path.join(inventory, file), 'utf8')),
    )
    .map((file) => path.basename(file, '.ts'));
  for (const known of ['in-process', 'postgres', 'redis']) {
    assert.ok(adapters.includes(known), `${known} among ${adapters}`);
  }
  for (const adapter of adapters) {
    const file = path.join(projectDir, 'test/contract', `arbiter-${adapter}.test.ts`);
    assert.ok(fs.existsSync(file), `${adapter} has ${path.basename(file)}`);
    assert.match(fs.readFileSync(file, 'utf8'), new RegExp(`^arbiterSuite\\('${adapter}'`, 'm'));
  }
});
