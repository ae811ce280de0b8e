import { after } from 'node:test';
import type { PaymentProvider } from '../../src/payments/provider.ts';
import { type TestDatabase, testDatabase } from './postgres.ts';
import { startTestSimulator, type TestSimulator } from './simulator.ts';
import { type Till, till } from './stage.ts';

/** What the tests of one file share: a database, a payment simulator and a process's checkout on them. */
export interface CheckoutDesk {
  database: TestDatabase;
  simulator: TestSimulator;
  desk: Till;
  /** A further process on the same database, such as one with a provider that gives wrong answers. */
  deskWith(provider: PaymentProvider, options?: Parameters<typeof till>[2]): Till;
}

/** Everything is closed when the file's tests are done. `timeoutMs` is how long the desk waits for the provider. */
export async function checkoutDesk(
  options: { timeoutMs?: number; poolSize?: number } = {},
): Promise<CheckoutDesk> {
  const { timeoutMs, poolSize } = options;
  const [database, simulator] = await Promise.all([testDatabase(), startTestSimulator({ timeoutMs })]);
  const desks: Till[] = [];
  const deskWith: CheckoutDesk['deskWith'] = (provider, more) => {
    const made = till(database.url, provider, more);
    desks.push(made);
    return made;
  };
  after(async () => {
    await Promise.all(desks.map((made) => made.close()));
    await simulator.stop();
  });
  return { database, simulator, desk: deskWith(simulator.provider, { poolSize }), deskWith };
}
