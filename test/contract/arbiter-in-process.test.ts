import { inProcessWorld } from './arbiter-in-process-world.ts';
import { arbiterSuite } from './arbiter-suite.ts';

arbiterSuite('in-process', inProcessWorld);
