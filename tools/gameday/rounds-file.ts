import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { RoundResult } from './results.ts';

/** Rounds collected over several sittings: one line of JSON each, all of the same program. */
export interface RoundsFile {
  kept: readonly RoundResult[];
  /**
   * Throws OtherProgram if the program was changed since the file was opened, because the round ran partly on
   * each version.
   */
  append(result: RoundResult): void;
}

export class OtherProgram extends Error {
  override readonly name = 'OtherProgram';
}

interface Line extends RoundResult {
  /** `programTree` of the program that was run. */
  program: string;
}

/** Opens or begins the file (null: rounds are only remembered); throws OtherProgram when its rounds are of another one. */
export function openRounds(file: string | null, programNow: () => string): RoundsFile {
  const program = programNow();
  const text = file !== null && fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
  const kept = text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);
  const other = kept.find((line) => line.program !== program);
  if (other) {
    throw new OtherProgram(
      `${file} has rounds of another program (src ${other.program.slice(0, 12)}, this one is ${program.slice(0, 12)}): they do not add up. Begin another file.`,
    );
  }
  return {
    kept,
    append(result) {
      if (file !== null && programNow() !== program)
        throw new OtherProgram('src was changed while a round was played on it: the round is not counted.');
      const line = { program, ...result };
      kept.push(line);
      if (file !== null) fs.appendFileSync(file, `${JSON.stringify(line)}\n`);
    },
  };
}

/**
 * The hash that Git gives this folder's tree as it lies on the disk: `git rev-parse HEAD:src` says the same of an unchanged one.
 */
export function programTree(folder: string): string {
  return treeHash(folder).toString('hex');
}

function treeHash(folder: string): Buffer {
  const entries = fs
    .readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() || entry.isFile())
    .map((entry) => {
      const file = path.join(folder, entry.name);
      const isFolder = entry.isDirectory();
      const executable = !isFolder && (fs.statSync(file).mode & 0o100) !== 0;
      const mode = isFolder ? '40000' : executable ? '100755' : '100644';
      const hash = isFolder ? treeHash(file) : objectHash('blob', fs.readFileSync(file));
      // Git sorts folders as if their names ended in a slash.
      return {
        sort: isFolder ? `${entry.name}/` : entry.name,
        bytes: Buffer.concat([Buffer.from(`${mode} ${entry.name}\0`), hash]),
      };
    })
    .sort((a, b) => Buffer.compare(Buffer.from(a.sort), Buffer.from(b.sort)));
  return objectHash('tree', Buffer.concat(entries.map(({ bytes }) => bytes)));
}

function objectHash(kind: 'blob' | 'tree', content: Buffer): Buffer {
  return createHash('sha1').update(`${kind} ${content.length}\0`).update(content).digest();
}
