import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditReport } from '../../src/audit/audit.ts';
import { partitionKeys, partitionTag } from '../../src/inventory/redis/scripts.ts';
import { startTestApp, type TestApp, until } from '../support/app.ts';
import { onsale as runOnsale } from '../support/onsale.ts';
import { testRedis, withoutRedis } from '../support/redis.ts';
import { redisPrefix } from '../support/redis-app.ts';

async function onsaleAudit(app: TestApp, flags: string[] = []) {
  return await runOnsale(['audit', ...flags], app.env);
}

function found(out: string): string[] {
  const { reports } = JSON.parse(out) as { reports: AuditReport[] };
  return reports.flatMap(({ promises }) =>
    promises.flatMap(({ violations }) => violations.map(({ promise, says }) => `${promise} ${says}`)),
  );
}

test('S8 P8: onsale audit says what it looked at, ends with 1 on a contradiction and with 2 on a wrong flag', async (t) => {
  const app = await startTestApp(t, { seats: 100 });
  const buyer = await app.admitted();
  const { order } = await buyer.mustBuy([0, 1]);
  const holder = await app.admitted();
  await holder.mustHold([5]);

  const well = await onsaleAudit(app, ['--wait', '10s']);
  assert.equal(well.code, 0, well.out + well.err);
  assert.match(well.out, /show: at rest/);
  assert.match(well.out, /kept +S1 +100 seats, 2 tickets, 1 live hold in Postgres/);
  assert.match(well.out, /1 order beside the simulator's ledger; 1 settled/);
  assert.match(well.out, /unknown +W6/);
  assert.match(well.out, /No contradiction/);
  const checked = well.out.split(/^(?=\w)/m).map((part) => part.match(/checked: .*/g) ?? []);
  for (const lines of checked)
    assert.equal(new Set(lines).size, lines.length, 'each line says something else');
  assert.match(well.out, /money_operations \(order_id\) of authorisations exists/);
  assert.match(well.out, /money_operations \(order_id\) of operations under way exists/);

  await app.database.query(`UPDATE orders SET state = 'closed' WHERE order_id = $1`, [order]);
  const broken = await onsaleAudit(app, ['--event', app.event]);
  assert.equal(broken.code, 1);
  assert.match(broken.out, /BROKEN +P3/);
  assert.match(broken.out, /the order is closed, yet \d+ were taken/);
  assert.match(broken.out, /→ Refund it\./);
  assert.match(broken.err, /contradictions? found/);

  assert.equal((await onsaleAudit(app, ['--wait', 'soon'])).code, 2);
  const stranger = await onsaleAudit(app, ['--event', 'nothing']);
  assert.equal(stranger.code, 1);
  assert.match(stranger.err, /no published event "nothing"/);
});

test('S2 S3 S4 S6 S7 S8: onsale audit reads the holds of Redis, and finds what was changed there', {
  skip: withoutRedis,
}, async (t) => {
  const redis = await testRedis(t);
  const app = await startTestApp(t, { seats: 100, env: { REDIS_URL: redis.url } });
  await until(async () => {
    const [row] = await app.database.query('SELECT mode FROM event_partitions WHERE event_no = $1', [
      app.eventNo,
    ]);
    return row.mode === 'redis';
  }, 'the event to be in Redis');
  const buyer = await app.admitted();
  await buyer.mustBuy([0, 1]);
  const holders = await Promise.all([app.admitted(), app.admitted()]);
  const [first, second] = await Promise.all([holders[0]!.mustHold([4, 5]), holders[1]!.mustHold([7])]);

  const well = await onsaleAudit(app, ['--json', '--wait', '10s']);
  assert.equal(well.code, 0, well.out + well.err);
  assert.deepEqual(found(well.out), []);
  const { reports } = JSON.parse(well.out) as { reports: AuditReport[] };
  for (const { promise, state, evidence } of reports[0]!.promises) {
    assert.equal(state, promise === 'W6' ? 'not_checked' : 'kept', promise);
    if (promise === 'S3') assert.match(evidence.join(), /in Redis: 2 live holds/);
    if (promise === 'S5') assert.match(evidence.join(), /in Redis: 1 of 1 order beside the records/);
    if (promise === 'W1') assert.match(evidence.join(), /shard 0 in Redis: issued to \d+/);
  }

  const [, bits, codes, state] = partitionKeys(partitionTag(await redisPrefix(app), app.eventNo, 0)) as [
    string,
    string,
    string,
    string,
  ];
  const client = redis.client();
  // One seat of the first hold is free; one is held without a hold; a sold one is reported as free; the second hold also has a
  // seat of the first.
  await client.setbit(bits, 5, 0);
  await client.setbit(bits, 20, 1);
  await client.setrange(codes, 1, '0');
  const record = await client.hgetBuffer(state, `h${second.hold}`);
  assert.ok(record);
  const seats = record.lastIndexOf(Buffer.from([0x91, 7]));
  assert.ok(seats > 0, 'the record ends in its one seat');
  record[seats + 1] = 4;
  await client.hset(state, `h${second.hold}`, record);

  const broken = await onsaleAudit(app, ['--json']);
  assert.equal(broken.code, 1);
  const says = found(broken.out);
  for (const expected of [
    /^S2 holds 4,5, but 5 are free/,
    /^S3 .*under live holds/,
    /^S4 .*held by no live hold/,
    /^S8 .*the record says sold, the arbiter/,
  ]) {
    assert.ok(
      says.some((line) => expected.test(line)),
      `${expected} in\n${says.join('\n')}`,
    );
  }
  assert.ok(first.hold !== second.hold);
});
