import { createHash } from 'node:crypto';
import fs from 'node:fs';
import type { EventNo, PartitionNo } from '../../core/hold.ts';
import type { LuaScript } from '../../redis/store.ts';
import { luaTables } from './codes.ts';

/** Which files of lua/ make a script, in their order, behind the tables and partition.lua. */
const parts = {
  load: ['decisions', 'load'],
  hold: ['choose', 'units', 'grant', 'hold'],
  recover: ['recover'],
  find: ['find'],
  extend: ['extend'],
  release: ['release'],
  project: ['decisions', 'project'],
  sweep: ['sweep'],
  snapshot: ['snapshot'],
  begin: ['begin'],
  remember: ['remember'],
  open: ['decisions', 'open'],
  probe: ['probe'],
} as const;
export type ScriptName = keyof typeof parts;
export type PartitionScripts = Readonly<Record<ScriptName, LuaScript>>;

export function readScripts(): PartitionScripts {
  const read = (file: string): string =>
    fs.readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), 'utf8');
  const shared = luaTables() + read('partition');
  const scripts = Object.entries(parts).map(([name, files]): [string, LuaScript] => {
    const text = [shared, ...files.map(read)].join('\n');
    const script: LuaScript = {
      name: `arbiter_${name}`,
      text,
      sha: createHash('sha1').update(text).digest('hex'),
    };
    // Its bits are no text.
    return [name, name === 'snapshot' ? { ...script, buffers: true } : script];
  });
  return Object.fromEntries(scripts) as PartitionScripts;
}

/** The hash tag of a partition: all its keys lie in one slot of a cluster, and trust is given by it. */
export function partitionTag(prefix: string, event: EventNo, partition: PartitionNo): string {
  return `${prefix}:${event}:${partition}`;
}

/** In the order of KEYS in lua/partition.lua; `begin` and `probe` have one more. */
const keyNames = ['meta', 'bits', 'codes', 'state', 'due'] as const;

export function partitionKeys(tag: string): string[] {
  return keyNames.map((name) => `{${tag}}:${name}`);
}

export function probeKey(tag: string): string {
  return `{${tag}}:probe`;
}
