import test from 'node:test';
import { admissionSettingsDefault } from '../../src/core/admission.ts';
import { until } from '../support/app.ts';
import { startRedisApp } from '../support/redis-app.ts';

// The bound: open sessions × share of sessions that hold × seats per hold ≤ free seats.
test('the leader learns from holds in Redis how many seats a session takes', {
  timeout: 60_000,
}, async (t) => {
  const app = await startRedisApp(t, { seats: 100 });
  const holds = 24;
  for (let i = 0; i < holds; i += 1) {
    const buyer = await app.admitted();
    await buyer.mustHold([0, 1, 2, 3].map((seat) => i * 4 + seat));
  }
  const { holdShare, seatsPerHold, weight } = admissionSettingsDefault.priors;
  const learnt = (seatsPerHold * weight + 4 * holds) / (weight + holds);
  // The passes are of the test's own making, so that no session is open: four free seats' worth, let in over two seconds.
  const expected = 4 / (holdShare * learnt) / 2;
  await until(async () => {
    const [row] = await app.database.query<{ rate: number }>(
      'SELECT rate FROM admissions WHERE event_no = $1',
      [app.eventNo],
    );
    return Math.abs(row!.rate - expected) < 0.01;
  }, `a rate of ${expected}`);
});
