import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOperatorDesk, type OperatorDesk } from '../../src/checkout/operator-desk.ts';
import type { Order } from '../../src/orders/record.ts';
import { reversalsOfOrder } from '../../src/orders/reversals.ts';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { systemRandom } from '../../src/runtime/random.ts';
import { installationOf } from './acts.ts';
import { until } from './app.ts';
import { type TestDatabase, testDatabase } from './postgres.ts';
import { type RefundDesk, refundDesk } from './refund-desk.ts';
import { startTestSimulator, type TestSimulator } from './simulator.ts';

/** A desk that refunds and cancels, with a provider whose webhooks arrive: signed, parsed by the adapter, stored. */
export interface ReversalDesk {
  database: TestDatabase;
  simulator: TestSimulator;
  provider: PaymentProvider;
  desk: RefundDesk;
  operator: OperatorDesk;
  listed(order: Order): Promise<Awaited<ReturnType<OperatorDesk['list']>>['entries']>;
  kindsOf(order: Order): Promise<string[]>;
  validTickets(order: Order): Promise<number>;
  /** What a refund of all would give back, minor units, or why there is none. */
  left(order: Order): Promise<number | string>;
  act(order: Order, action: 'cancel_tickets' | 'dismiss', kind: string): ReturnType<OperatorDesk['act']>;
  /** Until the webhook has come and the inbox has looked. */
  told(order: Order, state: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startReversalDesk(): Promise<ReversalDesk> {
  const database = await testDatabase();
  const simulator = await startTestSimulator({ timeoutMs: 2_000 });
  const installation = await installationOf(database);
  const provider = simulator.providerWith({ installation, timeoutMs: 2_000 });
  const desk = refundDesk(database.url, provider);
  const operator = createOperatorDesk({ db: desk.db, refunds: desk.refunds, random: systemRandom });
  const receiver = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    const take = async (): Promise<void> => {
      const event = provider.parseWebhook(Buffer.concat(chunks), String(req.headers['stripe-signature']));
      if (event) await desk.checkout.providerEvent({ ...event, foreign: event.madeBy === 'others' });
      res.writeHead(event ? 200 : 400).end();
    };
    req.on('end', () => void take());
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  await simulator.webhooksTo(`http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`);

  const listed = async (order: Order) =>
    (await operator.list({ event: order.eventNo, after: null, limit: 20 })).entries;
  return {
    database,
    simulator,
    provider,
    desk,
    operator,
    listed,
    kindsOf: async (order) => (await listed(order)).map(({ kind }) => kind),
    validTickets: async (order) =>
      (await desk.refundRecord.paidTickets(order.eventNo, order.order)).filter(({ valid }) => valid).length,
    left: async (order) => {
      const would = await desk.refunds.preview(order.order, {
        tickets: 'all',
        fees: 'returned',
        goodwill: 0,
      });
      return would.kind === 'refund' ? would.amount : would.kind;
    },
    act: async (order, action, kind) => {
      const { entry } = (await listed(order)).find((one) => one.kind === kind)!;
      return operator.act({ entry, action, actor: 'organiser', note: 'agreed by phone' });
    },
    told: async (order, state) => {
      await until(async () => {
        await desk.inbox.runOnce();
        return (await reversalsOfOrder(desk.db, order.order)).some((one) => one.state === state);
      }, `the record to know a reversal that is ${state}`);
    },
    stop: async () => {
      receiver.closeAllConnections();
      receiver.close();
      await desk.close();
      await simulator.stop();
    },
  };
}
