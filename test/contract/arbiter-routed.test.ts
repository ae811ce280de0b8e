import { after } from 'node:test';
import { createEvents } from '../../src/catalogue/events.ts';
import { createRoutedArbiter } from '../../src/inventory/routed.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { testDatabase } from '../support/postgres.ts';
import { postgresWorld, testDb } from './arbiter-postgres-world.ts';
import { arbiterSuite } from './arbiter-suite.ts';

const database = await testDatabase();
const db = testDb(database, 6);
after(() => db.close());
const events = createEvents({ db, clock: systemClock });

/** Mode readings are as old as allowed, unless the router asks for a newer one. */
arbiterSuite('routed', async () => {
  const world = await postgresWorld(database, db);
  const arbiter = createRoutedArbiter({
    postgres: world.arbiter,
    redis: () => null,
    modes: { read: (event, notBefore) => events.modesRead(event, notBefore) },
    report: async () => ({ kind: 'noted' }),
    granted: async () => {},
    reporter: 'test',
    clock: systemClock,
    log: silentLogger,
  });
  return {
    ...world,
    arbiter,
    hidesEpoch: true,
    setMode: async (mode) => {
      const epoch = await world.setMode(mode);
      events.forgetModes(world.event);
      return epoch;
    },
    lose: async (graceMs) => {
      const epoch = await world.lose!(graceMs);
      events.forgetModes(world.event);
      return epoch;
    },
  };
});
