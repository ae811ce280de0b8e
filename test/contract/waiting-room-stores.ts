import type { TestContext } from 'node:test';
import { createInProcessWaitingRoom } from '../../models/waiting-room.ts';
import type { Phase } from '../../src/core/phase.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { seededRandom } from '../../src/runtime/random.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { leads, setPhase } from '../support/acts.ts';
import { testDatabase } from '../support/postgres.ts';
import type { RoomUnderTest } from './waiting-room-cases.ts';
import { insertTestEvent } from './waiting-room-event.ts';
import { elapseInPostgres } from './waiting-room-redis.ts';

/** The stores that the contract is run on, each with one event in the given phase. */

export async function inProcessRoom(_t: TestContext, phase: Phase): Promise<RoomUnderTest> {
  let now = 1_900_000_000_000;
  const event = { phase, opensAt: null, term: 0 };
  const room = createInProcessWaitingRoom({
    clock: { now: () => now },
    random: seededRandom(1),
    eventOf: () => event,
  });
  return {
    room,
    event: 1,
    setPhase: async (next) => {
      event.phase = next;
    },
    setTerm: async (term) => {
      event.term = term;
    },
    elapse: async (ms) => {
      now += ms;
    },
    ceiling: async () => room.inspect(1).ceilings[0]!,
  };
}

export async function postgresRoom(t: TestContext, phase: Phase): Promise<RoomUnderTest> {
  const database = await testDatabase(t);
  const event = await insertTestEvent(database, { phase });
  const db = createDb({ url: database.url, poolSize: 20, clock: systemClock, log: silentLogger });
  t.after(() => db.close());
  return {
    room: createPostgresWaitingRoom({ db }),
    event,
    setPhase: (next) => setPhase(database, event, next),
    setTerm: (term) => leads(database, event, term),
    elapse: (ms) => elapseInPostgres(database, event, ms),
    ceiling: async () =>
      Number(
        (await database.query('SELECT ceiling FROM queue_counters WHERE event_no = $1', [event]))[0].ceiling,
      ),
  };
}
