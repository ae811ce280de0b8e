/** A process that does what a controller does, for `leadership.test.ts`: arguments are the database, its owner's name, the event. */
import { randomUUID } from 'node:crypto';
import { createController, type LeaderTask } from '../../src/controller/controller.ts';
import { createDb } from '../../src/postgres/db.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/log.ts';
import { createPostgresWaitingRoom } from '../../src/waiting-room/postgres.ts';
import { testLoops } from '../support/loops.ts';
import { pause } from '../support/wait.ts';

const [url = '', name = '', eventText = ''] = process.argv.slice(2);
const event = Number(eventText);
const db = createDb({ url, poolSize: 4, clock: systemClock, log: silentLogger });
const room = createPostgresWaitingRoom({ db });
const say = (what: object): void => {
  process.stdout.write(`${JSON.stringify({ name, ...what })}\n`);
};

/** Half of its time between deciding and publishing, so that a stop at any moment is likely to fall in there. */
const slowPublish: LeaderTask = {
  name: 'publish',
  async run({ term, tick }) {
    say({ did: 'decided', term, tick });
    await pause(400, 'so that a stop is likely to fall between deciding and publishing');
    const ruled = await room.publish(event, term, {
      frontier: [term * 1_000 + tick + 1],
      rate: term,
      burst: 1,
    });
    say({ did: ruled ? 'published' : 'refused', term, tick });
  },
};

let asked = 0;
const controller = createController({
  db,
  owner: `${name}/${process.pid}/${randomUUID()}`,
  clock: systemClock,
  log: silentLogger,
  eventsToLead: async () => {
    asked += 1;
    // The second time: the first answer about the lease is here.
    if (asked === 2) say({ did: 'runs' });
    return [event];
  },
  tasks: [slowPublish],
});
controller.start(testLoops());
process.on('SIGTERM', () => void stop());

async function stop(): Promise<void> {
  await controller.stop();
  await db.close();
  say({ did: 'stopped' });
  process.exit(0);
}
// Without its parent it must not go on.
process.stdin.resume().on('end', () => process.exit(1));
