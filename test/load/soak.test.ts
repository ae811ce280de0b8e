import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { findRedis } from '../../src/redis/program.ts';
import { shortFaults } from '../soak/faults.ts';
import { findNginx } from '../soak/nginx.ts';
import { playSoak } from '../soak/play.ts';
import { startStack } from '../soak/stack.ts';
import { testScope } from '../support/app.ts';
import { withoutRedis } from '../support/redis.ts';

const withoutNginx = findNginx() ? false : 'there is no nginx here';

/** `npm run soak` plays all faults for an hour. */
test('D4 P8: three processes behind nginx come through faults of their database, job worker and Redis: all mails are sent, the audit is clean', {
  skip: withoutRedis || withoutNginx,
}, async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-soak-test-'));
  const scope = testScope();
  t.after(async () => {
    await scope.close();
    fs.rmSync(folder, { recursive: true, force: true });
  });
  const stack = await startStack(scope, {
    folder,
    redisBinary: process.env.ONSALE_TEST_REDIS || findRedis()!,
    seats: 1_000,
  });
  const result = await playSoak(stack, {
    faults: shortFaults,
    everyMs: 5_000,
    overMs: 5_000 * (shortFaults.length + 1),
    buyers: 60,
    // An unknown payment ends two minutes later (P4), after the claim of a process that lost its database has expired.
    restWithinMs: 150_000,
    say: (line) => t.diagnostic(line),
  });
  t.diagnostic(JSON.stringify(result));
  assert.deepEqual(result.problems, []);
  assert.equal(result.faults.length, shortFaults.length);
  assert.ok(result.mails.sent >= result.orders && result.orders > 20, JSON.stringify(result));
});
