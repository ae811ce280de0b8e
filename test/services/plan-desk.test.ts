import assert from 'node:assert/strict';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { before, describe, test } from 'node:test';
import { loadPlan, savePlan } from '../../src/catalogue/plans.ts';
import { prepareReplan, type ReplanDeps, replanEvent } from '../../src/catalogue/replan.ts';
import { reportPlan } from '../../src/core/plan-report.ts';
import type { SeatingPlan } from '../../src/core/seat-map.ts';
import { createPlanDesk, type PlanRequest } from '../../src/http/plan-desk.ts';
import type { Arbiter } from '../../src/inventory/arbiter.ts';
import { generateStadium } from '../../src/plans/generate.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { createThread, ThreadBusy, ThreadEnded } from '../../src/runtime/thread.ts';
import { startTestApp, type TestApp, testScope, until } from '../support/app.ts';

describe('whole seating plans', () => {
  const scope = testScope();
  let app: TestApp;
  let token: string;
  before(async () => {
    app = await startTestApp(scope, { seats: 3_000 });
    const signedIn = await app
      .buyer()
      .request('POST', '/api/organiser/sessions', { body: app.app.organiser });
    token = signedIn.body.token;
  });
  test.after(() => scope.close());

  const send = (body: string, accept: string, query = ''): Promise<Response> =>
    fetch(`${app.url}/api/organiser/plans${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, accept, 'content-type': 'application/octet-stream' },
      body,
    });

  test('a plan of 200,000 seats is imported while buyers are answered, with its steps as lines', async () => {
    const file = JSON.stringify(generateStadium({ seats: 200_000, name: 'Large Ground' }));
    const delays = monitorEventLoopDelay({ resolution: 5 });
    delays.enable();
    const since = performance.now();
    const response = await send(file, 'application/x-ndjson');
    const text = await response.text();
    delays.disable();
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      lines.slice(0, -1).map(({ step }) => step),
      ['reading', 'checking', 'storing'],
    );
    assert.equal(lines.at(-1).status, 201);
    assert.equal(lines.at(-1).body.report.seats, 200_000);
    // In the process itself it is one piece of work after the other, each most of a second.
    const share = delays.max / 1e6 / (performance.now() - since);
    assert.ok(
      share < 0.25,
      `the process stood still for ${Math.round(share * 100)} % of the import at a stretch`,
    );
  });

  test('a refused file is one plain answer, or the last of the lines', async () => {
    const plain = await send('{"name": "x"', 'application/json');
    assert.equal(plain.status, 422);
    const { status, body } = JSON.parse(
      await (await send('{"name": "x"', 'application/x-ndjson'))
        .text()
        .then((text) => text.trimEnd().split('\n').at(-1)!),
    );
    assert.deepEqual({ status, body }, { status: 422, body: await plain.json() });
  });

  test('more imports than may wait are refused before their file is read, and the others end', async () => {
    const file = JSON.stringify(generateStadium({ seats: 20_000, name: 'Busy Ground' }));
    const statuses = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const response = await send(file, 'application/json', '?dryRun=true');
        return { status: response.status, code: (await response.json()).code };
      }),
    );
    assert.ok(statuses.filter(({ status }) => status === 200).length >= 4, JSON.stringify(statuses));
    for (const { status, code } of statuses) assert.ok(status === 200 || code === 'busy');
    assert.equal((await send(file, 'application/json', '?dryRun=true')).status, 200);
  });

  test('a request that takes too long ends the thread: it is refused, the others may ask again, the next one runs', async () => {
    const thread = createThread<PlanRequest, unknown>({
      file: path.join(import.meta.dirname, '../../src/http/plan-worker'),
      workerData: { databaseUrl: app.database.url, logLevel: 'silent' },
      waitingMax: 4,
      answerMaxMs: 20,
      clock: systemClock,
    });
    const request = {
      task: 'import',
      command: { bytes: Buffer.from('section,row,seat\nA,1,1\n'), options: {}, dryRun: true },
    } as const;
    const [first, second] = await Promise.allSettled([thread.ask(request), thread.ask(request)]);
    assert.ok(first.status === 'rejected' && first.reason instanceof ThreadEnded);
    assert.ok(second.status === 'rejected' && second.reason instanceof ThreadBusy);
    await thread.close();
    const desk = createPlanDesk({ databaseUrl: app.database.url, logLevel: 'silent', clock: systemClock });
    assert.equal((await desk.importPlan(request.command, () => {})).kind, 'checked');
    await desk.close();
  });

  /** The event's plan with two rows renamed and one seat more. */
  async function otherPlan(): Promise<string> {
    const event = (await app.app.events.findByNo(app.eventNo))!;
    const plan = (await loadPlan(app.app.db, event.planId)) as SeatingPlan;
    const rows = plan.sections.flatMap((section) => section.rows);
    for (const row of rows.slice(0, 2)) row.label = `${row.label}*`;
    const model = rows[0]!.seats[0]!;
    rows[0]!.seats.push({ ...model, seatGuid: `new ${event.planId}`, label: '999', x: model.x - 40 });
    return (await savePlan(app.app.db, plan, reportPlan(plan, []))).plan.plan;
  }

  test('another plan is written before the event’s lock is taken alone; a refusal undoes it', async () => {
    const { db, events } = app.app;
    const plan = await otherPlan();
    const event = (await events.findByNo(app.eventNo))!;
    const facts = () =>
      app.database.query('SELECT * FROM event_seats WHERE event_no = $1 ORDER BY seat_no', [app.eventNo]);
    const before = await facts();
    const deps: ReplanDeps = {
      db,
      events,
      arbiter: {} as Arbiter,
      clock: systemClock,
      random: systemRandom,
      prepareReplan: (...asked) => prepareReplan(db, ...asked),
    };
    const replan = () => replanEvent(deps, { event, plan, actor: 'o', dryRun: false });
    // Claims of the sale share this lock. While this transaction has it, it sets another plan, unseen by checks before.
    const [claim, looker] = await Promise.all([
      app.database.pool(1).connect(),
      app.database.pool(1).connect(),
    ]);
    await claim.query('BEGIN');
    await claim.query('SELECT event_lock_shared($1)', [app.eventNo]);
    await claim.query('UPDATE events SET layout_hash = $2 WHERE event_no = $1', [app.eventNo, 'other']);
    const replanning = replan();
    await until(async () => {
      const waiting = await looker.query(
        `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted`,
        [app.eventNo],
      );
      return waiting.rowCount === 1;
    }, 'the replan to wait for the event');
    // The long part is done while the event is not locked yet: the rows that change are.
    await assert.rejects(
      looker.query(`SELECT FROM event_seats WHERE event_no = $1 AND seat_no < 5 FOR UPDATE NOWAIT`, [
        app.eventNo,
      ]),
      { code: '55P03' },
    );
    await claim.query('COMMIT');
    claim.release();
    looker.release();
    assert.equal((await replanning).kind, 'conflict');
    assert.deepEqual(await facts(), before);
    await app.database.query('UPDATE events SET layout_hash = $2 WHERE event_no = $1', [
      app.eventNo,
      event.layoutHash,
    ]);
    assert.equal((await replan()).kind, 'replanned');
    const changed = (await facts()).filter((row, i) => JSON.stringify(row) !== JSON.stringify(before[i]));
    assert.ok(changed.length > 1 && changed.length < before.length / 10, `${changed.length} seats changed`);
  });
});
