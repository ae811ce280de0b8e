import { createApp } from '../src/app/app.ts';
import { systemClock } from '../src/runtime/clock.ts';
import { readConfig } from '../src/runtime/config.ts';
import { createLogger } from '../src/runtime/log.ts';
import { systemRandom } from '../src/runtime/random.ts';
import { serving } from './child.ts';

// Started by bench/child.ts: the whole application with all its roles in one process, as `npm start` has it, set by its
// environment.

const read = readConfig(process.env);
if (read.kind !== 'ok') throw new Error(JSON.stringify(read.problems));
const app = await createApp(read.config, {
  clock: systemClock,
  random: systemRandom,
  log: createLogger('error'),
});
if (app.url === null) throw new Error('it serves');
serving(app.url, () => app.stop());
