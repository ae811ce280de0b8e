import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createLoops, type Loops } from '../../src/runtime/loops.ts';
import { systemRandom } from '../../src/runtime/random.ts';

/** Loops for parts that a test starts by themselves. */
export const testLoops = (): Loops =>
  createLoops({ clock: systemClock, random: systemRandom, log: silentLogger });
