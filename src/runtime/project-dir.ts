import fs from 'node:fs';
import path from 'node:path';

/** The folder that everything of ours lies in: migrations, pages, sources. The compiled program lies deeper than the sources. */
export const projectDir = folderOf(import.meta.dirname);

function folderOf(start: string): string {
  for (let folder = start; ; folder = path.dirname(folder)) {
    if (fs.existsSync(path.join(folder, 'package.json'))) return folder;
    if (folder === path.dirname(folder)) throw new Error(`no package.json above ${start}`);
  }
}

/** The program's version, from package.json. */
export function packageVersion(): string {
  const file = path.join(projectDir, 'package.json');
  return (JSON.parse(fs.readFileSync(file, 'utf8')) as { version: string }).version;
}
