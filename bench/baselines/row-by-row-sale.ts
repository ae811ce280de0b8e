import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import type { Seller, StepTimes } from '../sale-steps.ts';
import { type Ask, transaction } from './seat-table.ts';

const price = 5_000;
const fee = 250;

/**
 * A purchase as in a plain shop, for information: the same calls to the same provider, separate tables with fewer indexes, and
 * one statement for each row in a transaction that holds its locks in the meantime. These are not our steps: it detects no
 * repeat and no payment under way, has no deadline, epoch, phase or quota, counts an account without a limit and counts no
 * card, stores less of its history and none of the provider's responses, and owes no jobs. A buyer who pays twice, or after the
 * event was cancelled, is charged. Compare with same-steps-sale.ts instead.
 */
export async function openRowByRowSale(
  pool: pg.Pool,
  { seats, provider }: { seats: number; provider: PaymentProvider },
): Promise<Seller> {
  await pool.query(`
    DROP TABLE IF EXISTS plain_seats, plain_orders, plain_lines, plain_tickets, plain_money, plain_history, plain_limits, plain_mails;
    CREATE TABLE plain_seats (event_no integer, seat_no integer, state text NOT NULL DEFAULT 'available', held_by text,
      held_until timestamptz, order_id uuid, PRIMARY KEY (event_no, seat_no)) WITH (fillfactor = 50);
    CREATE TABLE plain_orders (order_id uuid PRIMARY KEY, buyer text NOT NULL, amount bigint NOT NULL, state text NOT NULL,
      provider_object text, created_at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE plain_lines (order_id uuid, seat_no integer, price bigint, fee bigint, PRIMARY KEY (order_id, seat_no));
    CREATE TABLE plain_tickets (ticket_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_no integer, seat_no integer,
      order_id uuid NOT NULL, status text NOT NULL);
    CREATE UNIQUE INDEX plain_tickets_one ON plain_tickets (event_no, seat_no) WHERE status IN ('reserved','sold');
    CREATE INDEX plain_tickets_order ON plain_tickets (order_id);
    CREATE TABLE plain_money (operation_id uuid PRIMARY KEY, order_id uuid NOT NULL, kind text, state text, key text UNIQUE,
      created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz);
    CREATE INDEX plain_money_order ON plain_money (order_id);
    CREATE TABLE plain_history (order_id uuid, at timestamptz DEFAULT now(), change text);
    CREATE TABLE plain_limits (subject text PRIMARY KEY, seats integer NOT NULL);
    CREATE TABLE plain_mails (mail_id uuid PRIMARY KEY, order_id uuid, state text)`);
  await pool.query('INSERT INTO plain_seats SELECT 1, n FROM generate_series(0, $1::int - 1) n', [seats]);
  await pool.query('VACUUM ANALYZE plain_seats');

  const step = <Result>(work: (ask: Ask) => Promise<Result>): Promise<Result> =>
    transaction(pool, async (ask) => ({ commit: true, result: await work(ask) }));
  const note = (ask: Ask, order: string, change: string) =>
    ask('row_note', 'INSERT INTO plain_history (order_id, change) VALUES ($1, $2)', [order, change]);
  const begin = (ask: Ask, order: string, kind: string, operation: string) =>
    ask('row_begin', `INSERT INTO plain_money VALUES ($1, $2, $3, 'open', $4)`, [
      operation,
      order,
      kind,
      `${order}:${kind}`,
    ]);
  const end = (ask: Ask, operation: string) =>
    ask('row_end', `UPDATE plain_money SET state = 'done', updated_at = now() WHERE operation_id = $1`, [
      operation,
    ]);
  const lock = (ask: Ask, order: string) =>
    ask('row_lock', 'SELECT state FROM plain_orders WHERE order_id = $1 FOR UPDATE', [order]);
  const to = (ask: Ask, order: string, state: string) =>
    ask('row_state', 'UPDATE plain_orders SET state = $2 WHERE order_id = $1', [order, state]);

  async function hold(ask: Ask, buyer: string, list: number[]): Promise<void> {
    await ask('row_quota', 'SELECT seats FROM plain_limits WHERE subject = $1', [buyer]);
    for (const seat of list) {
      const { rows } = await ask(
        'row_seat',
        `SELECT state = 'available' AND (held_until IS NULL OR held_until <= now()) AS free
         FROM plain_seats WHERE event_no = 1 AND seat_no = $1 FOR UPDATE`,
        [seat],
      );
      if (!rows[0].free) throw new Error(`seat ${seat} is taken`);
      await ask(
        'row_hold',
        `UPDATE plain_seats SET held_by = $2, held_until = now() + interval '10 minutes' WHERE event_no = 1 AND seat_no = $1`,
        [seat, buyer],
      );
    }
  }

  async function reserve(ask: Ask, order: string, buyer: string, list: number[]): Promise<void> {
    const amount = list.length * (price + fee);
    await ask(
      'row_order',
      `INSERT INTO plain_orders (order_id, buyer, amount, state) VALUES ($1, $2, $3, 'reserved')`,
      [order, buyer, amount],
    );
    for (const seat of list) {
      const { rows } = await ask(
        'row_held',
        `SELECT held_by = $2 AND held_until > now() AS own FROM plain_seats WHERE event_no = 1 AND seat_no = $1 FOR UPDATE`,
        [seat, buyer],
      );
      if (!rows[0].own) throw new Error(`seat ${seat} is not held`);
      await ask(
        'row_reserve',
        `UPDATE plain_seats SET state = 'reserved', order_id = $2 WHERE event_no = 1 AND seat_no = $1`,
        [seat, order],
      );
      await ask('row_line', 'INSERT INTO plain_lines VALUES ($1, $2, $3, $4)', [order, seat, price, fee]);
      await ask(
        'row_ticket',
        `INSERT INTO plain_tickets (event_no, seat_no, order_id, status) VALUES (1, $1, $2, 'reserved')`,
        [seat, order],
      );
    }
    await note(ask, order, 'reserve');
  }

  async function confirm(
    ask: Ask,
    order: string,
    buyer: string,
    list: number[],
    capture: string,
  ): Promise<void> {
    await lock(ask, order);
    await ask(
      'row_limit',
      `INSERT INTO plain_limits VALUES ($1, $2) ON CONFLICT (subject) DO UPDATE SET seats = plain_limits.seats + $2`,
      [buyer, list.length],
    );
    for (const seat of list) {
      await ask(
        'row_own',
        'SELECT order_id FROM plain_seats WHERE event_no = 1 AND seat_no = $1 FOR UPDATE',
        [seat],
      );
      await ask('row_sell', `UPDATE plain_seats SET state = 'sold' WHERE event_no = 1 AND seat_no = $1`, [
        seat,
      ]);
      await ask(
        'row_sold',
        `UPDATE plain_tickets SET status = 'sold' WHERE event_no = 1 AND seat_no = $1 AND order_id = $2`,
        [seat, order],
      );
    }
    await to(ask, order, 'confirmed');
    await begin(ask, order, 'capture', capture);
    await note(ask, order, 'confirm');
  }

  async function buy(
    { buyer, seats: list }: { buyer: number; seats: number[] },
    times: StepTimes,
  ): Promise<void> {
    const who = `buyer-${buyer}`;
    const order = randomUUID();
    const [opening, authorising, capturing] = [randomUUID(), randomUUID(), randomUUID()];
    const amount = list.length * (price + fee);
    await times.time('hold', () => step((ask) => hold(ask, who, list)));
    await times.time('reserve', () => step((ask) => reserve(ask, order, who, list)));
    const object = await times.time('open', async () => {
      await step((ask) => begin(ask, order, 'open', opening));
      const opened = await provider.open({
        key: `${order}:open`,
        reference: order,
        eventId: 'plain',
        amount,
        currency: 'EUR',
        description: `plain: ${list.length} seats`,
        email: `${who}@example.org`,
      });
      if (opened.kind !== 'done') throw new Error(`open: ${opened.kind}`);
      await step(async (ask) => {
        await lock(ask, order);
        await end(ask, opening);
        await ask('row_object', 'UPDATE plain_orders SET provider_object = $2 WHERE order_id = $1', [
          order,
          opened.view.object,
        ]);
      });
      return opened.view.object;
    });
    await times.time('authorise', async () => {
      await step((ask) => begin(ask, order, 'authorise', authorising));
      const answer = await provider.authorise({
        key: `${order}:authorise`,
        object,
        instrument: { paymentMethod: 'pm_card_visa' },
        returnUrl: 'https://example.org/back',
      });
      if (answer.kind !== 'done') throw new Error(`authorise: ${answer.kind}`);
      await step(async (ask) => {
        await lock(ask, order);
        await end(ask, authorising);
        await to(ask, order, 'authorised');
        await note(ask, order, 'authorise');
      });
    });
    await times.time('confirm', () => step((ask) => confirm(ask, order, who, list, capturing)));
    await times.time('capture', async () => {
      const answer = await provider.capture({ key: `${order}:capture`, object, amount });
      if (answer.kind !== 'done') throw new Error(`capture: ${answer.kind}`);
      await step(async (ask) => {
        await lock(ask, order);
        await end(ask, capturing);
        await to(ask, order, 'paid');
        await ask('row_mail', `INSERT INTO plain_mails VALUES ($1, $2, 'due')`, [randomUUID(), order]);
        await note(ask, order, 'capture');
      });
    });
  }

  return {
    buy,
    check: async ({ purchases, seatsEach }) => {
      const { rows } = await pool.query(
        `SELECT count(*)::integer AS sold, count(DISTINCT order_id)::integer AS orders FROM plain_tickets WHERE status = 'sold'`,
      );
      const [{ sold, orders }] = rows;
      if (orders !== purchases || sold !== purchases * seatsEach)
        throw new Error(`${orders} orders of ${sold} seats after ${purchases} purchases of ${seatsEach}`);
    },
    close: async () => {
      await pool.query(
        'DROP TABLE plain_seats, plain_orders, plain_lines, plain_tickets, plain_money, plain_history, plain_limits, plain_mails',
      );
    },
  };
}
