import type pg from 'pg';
import { claimLeaseMs, fits } from '../../src/checkout/steps.ts';
import { createPostgresArbiter } from '../../src/inventory/postgres.ts';
import type { PaymentProvider, PaymentView, ProviderAnswer } from '../../src/payments/provider.ts';
import type { Db } from '../../src/postgres/db.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { checkSale, openSaleEvent, purchaseOf, type SalePurchase } from '../sale-event.ts';
import type { Seller, StepTimes } from '../sale-steps.ts';
import { confirm } from './same-steps-confirm.ts';
import { authorised, begin, captured, opened } from './same-steps-money.ts';
import { extend, hold, reserve } from './same-steps-seats.ts';
import { inStep, must } from './same-steps-statements.ts';

/** Settings of the sessions that sell. */
export const sameStepsSettings = {
  // The settings of our sessions…
  statement_timeout: 60_000,
  lock_timeout: 1_000,
  idle_in_transaction_session_timeout: 2_000,
  // …and of our functions (SET in functions/orders.sql): plans made on empty tables still look their rows up.
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
};

const owner = 'bench';
const leaseMs = claimLeaseMs;
const returnUrl = 'https://example.org/back';
const instrument = { paymentMethod: 'pm_card_visa' };

interface Known {
  event_id: string;
  provider_object: string | null;
  amount: number;
  currency: string;
  lines: unknown[];
  buyer: { email: string };
}

/**
 * A purchase with every rule that ours keeps (quotas, repeats by key, deadlines, epochs, phases, limits of account and card,
 * history, mail and jobs owed), on our own tables and indexes, as a program writes it that sends its statements itself: one
 * transaction a step, in it one statement a row, each prepared, and the locks held while answers travel. The seats' holds are
 * rows too. What our functions test, lock and write in a purchase that goes well is here once; nothing else is.
 *
 * Left out in its favour: a second look at a row that this client has locked, written or tested already (our functions read
 * order and operation again for their answer; reserve locks the hold first, so that one look for a repeat is enough), the look
 * at the seats before any lock (it only refuses a crowd sooner), and telling the arbiter (it and the record are one store).
 *
 * `pool` sells; `db` opens the event and audits it afterwards.
 */
export async function openSameStepsSale(
  pool: pg.Pool,
  { db, venue, provider, money }: { db: Db; venue: number; provider: PaymentProvider; money: string },
): Promise<Seller> {
  const arbiter = createPostgresArbiter({ db });
  const at = await openSaleEvent(db, arbiter, venue);

  /** As checkout.ts reads it before it reserves and before it opens an object. */
  async function findOrder(order: string): Promise<Known | null> {
    const { rows } = await pool.query({
      name: 'same_find',
      text: `SELECT e.event_id, o.provider_object, o.amount, o.currency, o.lines, o.buyer
             FROM orders o JOIN events e USING (event_no) WHERE o.order_id = $1`,
      values: [order],
    });
    return (rows[0] as Known | undefined) ?? null;
  }

  async function reserveOnce(purchase: SalePurchase): Promise<void> {
    must((await findOrder(purchase.order)) === null, 'the order is new');
    await inStep(pool, (step) => extend(step, at, purchase));
    await inStep(pool, (step) => reserve(step, at, purchase));
  }

  async function openObject({ order }: SalePurchase): Promise<string> {
    const known = await findOrder(order);
    if (!known || known.provider_object) throw new Error('an order without an object');
    const ids = newIds(order, 'open');
    const asked = { ...ids, order, kind: 'open', clientKey: `open:${order}`, instrument: null } as const;
    await inStep(pool, (step) => begin(step, { ...asked, request: 'bench', owner, leaseMs }));
    const view = seen(
      await provider.open({
        key: ids.key,
        reference: order,
        eventId: known.event_id,
        amount: known.amount,
        currency: known.currency,
        description: `${known.event_id}: ${known.lines.length} seats`,
        email: known.buyer.email,
      }),
      { order, ...known },
    );
    const { object } = view;
    await inStep(pool, (step) => opened(step, { ...ids, order }, { object, answer: { view } }));
    return object;
  }

  async function authorise({ order }: SalePurchase): Promise<{ operation: string; view: PaymentView }> {
    const ids = newIds(order, 'authorise');
    const asked = { ...ids, order, kind: 'authorise', clientKey: order, request: 'bench' } as const;
    const known = await inStep(pool, (step) =>
      begin(step, { ...asked, instrument: { ...instrument, returnUrl }, owner, leaseMs }),
    );
    const object = known.provider_object!;
    const view = seen(await provider.authorise({ key: ids.key, object, instrument, returnUrl }), {
      order,
      ...known,
    });
    must(view.status === 'authorised' && view.object === object, 'the money is reserved');
    const { captureBefore } = view;
    await inStep(pool, (step) =>
      authorised(
        step,
        { ...ids, order },
        { event: at.event, answer: { view }, instrument: view.instrument, captureBefore, owner, leaseMs },
      ),
    );
    return { operation: ids.operation, view };
  }

  async function takeMoney(
    { order }: SalePurchase,
    { operation, key }: { operation: string; key: string },
    before: PaymentView,
  ): Promise<void> {
    const { object, amount, currency } = before;
    const view = seen(await provider.capture({ key, object, amount }), { order, amount, currency });
    must(view.status === 'captured' && view.captured === amount, 'the money is taken');
    await inStep(pool, (step) => captured(step, { operation, order }, { event: at.event, answer: { view } }));
  }

  async function buy(wanted: { buyer: number; seats: number[] }, times: StepTimes): Promise<void> {
    const purchase = purchaseOf(at, wanted);
    await times.time('hold', () => inStep(pool, (step) => hold(step, at, purchase)));
    await times.time('reserve', () => reserveOnce(purchase));
    await times.time('open', () => openObject(purchase));
    const { operation, view } = await times.time('authorise', () => authorise(purchase));
    const capture = newIds(purchase.order, 'capture');
    const { fingerprint } = view.instrument!;
    await times.time('confirm', () =>
      inStep(pool, (step) =>
        confirm(step, at, { purchase, fingerprint, operation, capture, owner, leaseMs }),
      ),
    );
    await times.time('capture', () => takeMoney(purchase, capture, view));
  }

  return {
    buy,
    check: (bought) => checkSale({ db, arbiter, money }, at.event, bought),
    close: async () => {},
  };
}

function newIds(order: string, kind: string): { operation: string; key: string } {
  const operation = systemRandom.uuid();
  return { operation, key: `${order}:${kind}:${operation}` };
}

/** P6: believed only if it is about this order's money. */
function seen(
  answer: ProviderAnswer,
  order: { order: string; amount: number; currency: string },
): PaymentView {
  if (answer.kind !== 'done') throw new Error(`the provider answers ${answer.kind}`);
  must(fits(answer.view, order), 'the payment is of this order');
  return answer.view;
}
