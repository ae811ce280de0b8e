import path from 'node:path';

const top = path.resolve(import.meta.dirname, '../..');
const isCompiled = path.extname(import.meta.filename) === '.js';

/** Node's arguments that run a program of the project, such as `payment-simulator/main.ts`: compiled, if the tests are. */
export function programArguments(file: string): string[] {
  return isCompiled
    ? [path.join(top, file.replace(/\.ts$/, '.js'))]
    : ['--import', 'tsx', path.join(top, file)];
}
