import assert from 'node:assert/strict';
import test from 'node:test';
import type { MoneyOperation, Order } from '../../src/orders/record.ts';
import { linesOf, orderIdOf, uuidOf } from '../support/stage.ts';
import { claim, inPostgres, inProcess, reserveHold, type Stage, viewOf } from './record-world.ts';

// The contract itself, by hand, on each.

for (const [name, make] of [
  ['in Postgres', inPostgres],
  ['in process', inProcess],
] as const) {
  /** An order whose money is reserved. */
  async function authorised(stage: Stage, n: number): Promise<{ order: Order; operation: MoneyOperation }> {
    const reserved = await reserveHold(stage, n);
    assert.ok(reserved.kind === 'reserved', reserved.kind);
    const { order } = reserved.order;
    const ids = (what: string) => ({ operation: uuidOf(`${what} ${order}`), key: `${what} ${order}`, order });
    const open = { ...ids('open'), kind: 'open' as const, clientKey: null, request: null, instrument: null };
    assert.equal((await stage.record.begin(open, claim)).kind, 'begun');
    await stage.record.opened(open.operation, `pi ${order}`, {});
    const authorise = { ...open, ...ids('authorise'), kind: 'authorise' as const };
    const begun = await stage.record.begin(authorise, claim);
    assert.ok(begun.kind === 'begun', begun.kind);
    const step = await stage.record.authorised(
      authorise.operation,
      viewOf(begun.operation, 'authorised'),
      `end ${order}`,
      claim,
    );
    assert.equal(step.kind, 'authorised');
    return step;
  }
  const idsOf = (order: string) => ({
    capture: uuidOf(`c ${order}`),
    captureKey: `c ${order}`,
    endKey: `e ${order}`,
  });

  test(`${name}: P1: reserve repeated returns the same order, with nothing decided again`, async () => {
    const stage = await make();
    const first = await reserveHold(stage, 1);
    const second = await reserveHold(stage, 1);
    assert.ok(first.kind === 'reserved' && second.kind === 'reserved');
    assert.deepEqual(
      first.seats.map(({ seat, state }) => [seat, state]),
      [
        [0, 'reserved'],
        [1, 'reserved'],
      ],
    );
    assert.deepEqual([second.repeated, second.seats, second.order.order], [true, [], first.order.order]);
    assert.equal(first.order.amount, 2 * 5250 + 10);
    assert.equal(first.order.paymentDeadline - first.order.createdAt, 600_000);
  });

  test(`${name}: P2: only confirm writes a capture, and only from authorised`, async () => {
    const stage = await make();
    const reserved = await reserveHold(stage, 2);
    assert.ok(reserved.kind === 'reserved');
    const { order } = reserved.order;
    assert.equal((await stage.record.confirm(order, idsOf(order), claim)).kind, 'decided');
    assert.equal((await stage.record.operationsOf(order)).length, 0);
    const next = await authorised(stage, 6);
    const confirmed = await stage.record.confirm(next.order.order, idsOf(next.order.order), claim);
    assert.ok(confirmed.kind === 'confirmed');
    assert.deepEqual(
      confirmed.seats.map(({ state }) => state),
      ['sold'],
    );
    assert.equal(confirmed.operation.kind, 'capture');
    assert.equal((await stage.record.confirm(next.order.order, idsOf('again'), claim)).kind, 'decided');
    const captured = await stage.record.captured(
      confirmed.operation.operation,
      viewOf(confirmed.operation, 'captured'),
    );
    assert.equal(captured.order.state, 'paid');
  });

  test(`${name}: P3: confirm impossible frees the seats and ends the authorisation in one step`, async () => {
    const stage = await make();
    const { order, operation } = await authorised(stage, 7);
    await stage.setPhase('cancelled');
    const outcome = await stage.record.confirm(order.order, idsOf(order.order), claim);
    assert.ok(outcome.kind === 'impossible');
    assert.deepEqual(
      outcome.seats.map(({ state }) => state),
      ['available', 'available'],
    );
    assert.deepEqual(
      [outcome.order.state, outcome.order.reason, outcome.operation.state, outcome.operation.operation],
      ['voiding', 'event_cancelled', 'ending', operation.operation],
    );
    const voided = await stage.record.voided(operation.operation, {});
    assert.equal(voided.order.state, 'closed');
  });

  test(`${name}: P4: an unknown payment keeps the order from being closed, also after the deadline`, async () => {
    const stage = await make();
    const reserved = await reserveHold(stage, 2);
    assert.ok(reserved.kind === 'reserved');
    const { order } = reserved.order;
    const command = {
      operation: uuidOf(`o ${order}`),
      order,
      key: `o ${order}`,
      clientKey: null,
      request: null,
      instrument: null,
    };
    const open = { ...command, operation: uuidOf(`p ${order}`), key: `p ${order}`, kind: 'open' as const };
    await stage.record.begin(open, claim);
    await stage.record.opened(open.operation, `pi ${order}`, {});
    await stage.record.begin({ ...command, kind: 'authorise' }, claim);
    await stage.record.park({ operation: command.operation, state: 'unknown', dueMs: 1_000 });
    await stage.later(601_000);
    for (const reason of ['not_paid_in_time', 'closed_by_buyer'] as const) {
      assert.equal((await stage.record.close(order, reason, `end ${order}`, claim)).kind, 'under_way');
    }
    assert.deepEqual(await stage.record.overdue(10), []);
    const due = await stage.record.claim({ ...claim, limit: 10 });
    assert.deepEqual(
      due.map(({ operation }) => operation),
      [command.operation],
    );
    assert.deepEqual(await stage.record.claim({ ...claim, owner: 'other', limit: 10 }), []);
    const named = { owner: 'other', leaseMs: 30_000, limit: 1, operation: command.operation };
    assert.deepEqual(await stage.record.claim(named), []);
    await stage.later(31_000);
    assert.equal((await stage.record.claim({ ...claim, owner: 'other', limit: 10 })).length, 1);
  });

  test(`${name}: P5: closing an order ends its object at the provider, also next to an opening that never got one`, async () => {
    const stage = await make();
    const reserved = await reserveHold(stage, 2);
    assert.ok(reserved.kind === 'reserved');
    const { order } = reserved.order;
    const begin = (n: number) =>
      stage.record.begin(
        {
          operation: uuidOf(`open ${n} ${order}`),
          order,
          kind: 'open',
          key: `open ${n} ${order}`,
          clientKey: null,
          request: null,
          instrument: null,
        },
        claim,
      );
    await begin(1);
    await stage.record.voided(uuidOf(`open 1 ${order}`), {});
    await begin(2);
    await stage.record.opened(uuidOf(`open 2 ${order}`), `pi ${order}`, {});
    await stage.record.end(uuidOf(`open 1 ${order}`), 'payment_mismatch', `end 1 ${order}`, claim);
    assert.equal((await stage.record.close(order, 'closed_by_buyer', `end ${order}`, claim)).kind, 'closed');
    const [first, second] = await stage.record.operationsOf(order);
    assert.equal(first!.state, 'voided');
    assert.deepEqual([second!.state, second!.endReason], ['ending', 'closed_by_buyer']);
  });

  test(`${name}: P5: a stray object is adopted only by an opening that can take it`, async () => {
    const stage = await make();
    const reserved = await reserveHold(stage, 2);
    assert.ok(reserved.kind === 'reserved');
    const { order } = reserved.order;
    const operation = uuidOf(`open ${order}`);
    const opening = {
      operation,
      order,
      kind: 'open' as const,
      key: operation,
      clientKey: null,
      request: null,
    };
    await stage.record.begin({ ...opening, instrument: null }, claim);
    const stray = {
      order,
      object: `stray ${order}`,
      fits: true,
      operation: uuidOf(order),
      key: 'k',
      endKey: 'e',
    };
    await stage.record.park({ operation, state: 'waiting', dueMs: 1_000 });
    assert.equal((await stage.record.stray(stray, claim)).kind, 'under_way');
    await stage.record.park({ operation, state: 'unknown', dueMs: 1_000 });
    const adopted = await stage.record.stray(stray, claim);
    assert.ok(adopted.kind === 'adopted');
    assert.equal(adopted.order.providerObject, stray.object);
  });

  test(`${name}: P7: what a refused capture gives back can be bought again`, async () => {
    const stage = await make();
    const { order } = await authorised(stage, 4);
    const confirmed = await stage.record.confirm(order.order, idsOf(order.order), claim);
    assert.ok(confirmed.kind === 'confirmed');
    const refusedByLimit = await reserveHold(stage, 1);
    assert.deepEqual(refusedByLimit, { kind: 'limit', limit: 'account', max: 3, used: 3 });
    const refused = await stage.record.refused(confirmed.operation.operation, { decline: 'declined' });
    assert.equal(refused.order.state, 'cancelled');
    assert.equal(refused.seats.length, 3);
    assert.equal((await reserveHold(stage, 1)).kind, 'reserved');
  });

  test(`${name}: S6: fewer than 6 s of hold left are too few; the payment deadline closes, never earlier`, async () => {
    const stage = await make();
    const hold = uuidOf(`short ${stage.event}`);
    const command = {
      order: orderIdOf(hold),
      hold,
      event: stage.event,
      partition: 0,
      epoch: stage.epoch,
      visitor: 'v',
      holder: 'v',
      account: 'a',
      buyer: { name: 'n', email: 'e' },
      lines: linesOf([9]),
      orderFee: 0,
      currency: 'EUR',
    };
    assert.equal(
      (await stage.record.reserve({ ...command, deadline: stage.now() + 5_000 })).kind,
      'hold_gone',
    );
    assert.equal(
      (await stage.record.reserve({ ...command, deadline: stage.now() + 9_000 })).kind,
      'reserved',
    );
    assert.equal((await stage.record.close(command.order, 'not_paid_in_time', 'k', claim)).kind, 'under_way');
    await stage.later(601_000);
    assert.deepEqual(await stage.record.overdue(10), [command.order]);
    const closed = await stage.record.close(command.order, 'not_paid_in_time', 'k', claim);
    assert.ok(closed.kind === 'closed');
    assert.equal(closed.seats.length, 1);
  });

  /** Authorised at the provider, refused as far as we know, and closed at its deadline. */
  async function closedUnpaid(stage: Stage, n: number): Promise<{ order: Order; operation: MoneyOperation }> {
    const reserved = await reserveHold(stage, n);
    assert.ok(reserved.kind === 'reserved', reserved.kind);
    const { order } = reserved.order;
    const ids = (what: string) => ({ operation: uuidOf(`${what} ${order}`), key: `${what} ${order}`, order });
    const open = { ...ids('open'), kind: 'open' as const, clientKey: null, request: null, instrument: null };
    await stage.record.begin(open, claim);
    await stage.record.opened(open.operation, `pi ${order}`, {});
    const authorise = { ...open, ...ids('authorise'), kind: 'authorise' as const };
    await stage.record.begin(authorise, claim);
    await stage.record.refused(authorise.operation, { decline: 'declined' });
    await stage.later(601_000);
    const closed = await stage.record.close(order, 'not_paid_in_time', `end ${order}`, claim);
    assert.equal(closed.kind, 'closed');
    const operations = await stage.record.operationsOf(order);
    return { order: (await stage.record.findOrder(order))!, operation: operations.at(-1)! };
  }

  test(`${name}: P3: a late success changes nothing until its seats are known; held they are its own again, gone it is reported`, async () => {
    const stage = await make();
    const { record } = stage;
    for (const late of ['held', 'gone'] as const) {
      const { order, operation } = await closedUnpaid(stage, late === 'held' ? 1 : 8);
      const view = { ...viewOf(operation, 'authorised'), captureBefore: stage.now() + 3_600_000 };
      const end = `late end ${order.order}`;
      const first = await record.authorised(operation.operation, view, end, claim);
      assert.equal(first.kind, 'late');
      const hold = uuidOf(`late ${order.order}`);
      const old = { kind: 'held' as const, hold, epoch: stage.epoch + 1, deadline: stage.now() + 300_000 };
      assert.equal((await record.authorised(operation.operation, view, end, claim, old)).kind, 'late');
      assert.deepEqual([first.order.state, first.operation.state], ['closed', 'refused']);
      const seats = late === 'gone' ? { kind: late } : { ...old, epoch: stage.epoch };
      const step = await record.authorised(operation.operation, view, end, claim, seats);
      const open = (await record.operationsOf(order.order))[0]!;
      if (late === 'held') {
        assert.equal(step.kind, 'authorised');
        assert.deepEqual([step.order.hold, step.order.captureBefore], [hold, view.captureBefore]);
        assert.equal(open.state, 'done');
        assert.equal(await record.captureWindow(order.order), 'ending');
        await stage.later(3_600_001);
        assert.equal(await record.captureWindow(order.order), 'over');
      } else {
        assert.deepEqual([step.order.state, step.order.reason], ['closed', 'late_payment']);
        assert.deepEqual([open.state, open.endReason], ['ending', 'late_payment']);
      }
    }
  });

  test(`${name}: P2 P3: while a stray object is being cancelled nothing is confirmed; afterwards it is`, async () => {
    const stage = await make();
    const { record } = stage;
    const { order, operation } = await closedUnpaid(stage, 1);
    const [open] = await record.operationsOf(order.order);
    await record.voided(open!.operation, { detail: 'voided' });
    const ids = { operation: uuidOf('stray'), key: 'stray', endKey: 'stray end' };
    const stray = await record.stray({ ...ids, order: order.order, object: 'stray 1', fits: true }, claim);
    assert.equal(stray.kind, 'ending');
    const seats = {
      ...{ kind: 'held' as const, hold: uuidOf(`late ${order.order}`) },
      ...{ epoch: stage.epoch, deadline: stage.now() + 300_000 },
    };
    const view = viewOf(operation, 'authorised');
    assert.equal((await record.authorised(operation.operation, view, 'e', claim, seats)).kind, 'authorised');
    const confirm = () =>
      record.confirm(
        order.order,
        { capture: uuidOf('capture'), captureKey: 'capture', endKey: 'capture end' },
        claim,
      );
    const other = await closedUnpaid(stage, 2);
    const twice = { operation: uuidOf('other'), key: 'other', endKey: 'other end', object: 'stray 1' };
    const known = await record.stray({ ...twice, order: other.order.order, fits: true }, claim);
    assert.equal(known.kind, 'known', 'one object is not two orders’ to cancel');
    const early = await confirm();
    assert.ok(early.kind === 'decided' && early.order.state === 'authorised', JSON.stringify(early));
    await record.voided(ids.operation, { detail: 'voided' });
    assert.equal((await confirm()).kind, 'confirmed');
  });

  test(`${name}: P3: an order that its buyer closed has no way back`, async () => {
    const stage = await make();
    const { order, operation } = await authorisedThenClosed(stage);
    const held = {
      kind: 'held' as const,
      hold: uuidOf('h'),
      epoch: stage.epoch,
      deadline: stage.now() + 300_000,
    };
    const step = await stage.record.authorised(
      operation.operation,
      viewOf(operation, 'authorised'),
      'e',
      claim,
      held,
    );
    assert.notEqual(step.kind, 'authorised');
    assert.deepEqual(
      [step.order.state, step.order.reason, step.order.hold],
      ['closed', 'closed_by_buyer', order.hold],
    );
  });

  async function authorisedThenClosed(stage: Stage): Promise<{ order: Order; operation: MoneyOperation }> {
    const reserved = await reserveHold(stage, 2);
    assert.ok(reserved.kind === 'reserved');
    const { order } = reserved.order;
    const open = {
      operation: uuidOf(`o ${order}`),
      key: `o ${order}`,
      order,
      clientKey: null,
      request: null,
      instrument: null,
    };
    await stage.record.begin({ ...open, kind: 'open' }, claim);
    await stage.record.opened(open.operation, `pi ${order}`, {});
    await stage.record.begin(
      { ...open, operation: uuidOf(`a ${order}`), key: `a ${order}`, kind: 'authorise' },
      claim,
    );
    const refused = await stage.record.refused(uuidOf(`a ${order}`), {});
    await stage.record.close(order, 'closed_by_buyer', `end ${order}`, claim);
    return { order: reserved.order, operation: refused.operation };
  }

  test(`${name}: P6: an event is stored once, claimed by its object with all others of it, and looked at until it is processed`, async () => {
    const stage = await make();
    const { record } = stage;
    const tell = (id: string, object: string | null) =>
      record.providerEvent({ id: `${stage.event} ${id}`, type: 't', object });
    assert.deepEqual(await tell('1', 'pi_1'), { repeated: false });
    assert.deepEqual(await tell('1', 'pi_1'), { repeated: true });
    await tell('2', 'pi_1');
    await tell('3', 'pi_2');
    await tell('4', null);
    const claimed = await record.claimEvents({ ...claim, limit: 10 });
    assert.deepEqual(
      claimed.map(({ object, order, events, attempts }) => [object, order, events.length, attempts]).sort(),
      [
        ['pi_1', null, 2, 1],
        ['pi_2', null, 1, 1],
      ],
    );
    assert.deepEqual(await record.claimEvents({ ...claim, owner: 'other', limit: 10 }), []);
    const [one, two] = claimed.toSorted((a, b) => a.object.localeCompare(b.object));
    await record.eventsProcessed(one!.events, null);
    await record.eventsAgain(two!.events, 60_000);
    await stage.later(59_000);
    assert.deepEqual(await record.claimEvents({ ...claim, limit: 10 }), []);
    await stage.later(2_000);
    const again = await record.claimEvents({ ...claim, limit: 10 });
    assert.deepEqual(
      again.map(({ object, attempts }) => [object, attempts]),
      [['pi_2', 2]],
    );
    assert.ok(again[0]!.ageMs >= 61_000);
  });
}
