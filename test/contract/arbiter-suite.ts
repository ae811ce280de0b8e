import test, { type TestContext } from 'node:test';
import { doors, orders, pictures, projecting } from './arbiter-deciding.ts';
import { grace } from './arbiter-grace.ts';
import { claims, owners, quotas, replacing, time } from './arbiter-holding.ts';
import type { ArbiterWorld } from './arbiter-world.ts';

/**
 * The contract of every adapter, clause by clause. `makeWorld` makes a new event without seats, open, under a first epoch.
 * `skip`: the reason why the adapter's store is not available here. `without` leaves out the clauses for a store that takes
 * over from a lost one.
 */
export function arbiterSuite(
  adapter: string,
  makeWorld: (t: TestContext) => Promise<ArbiterWorld>,
  { skip = false, without = [] }: { skip?: string | false; without?: readonly 'grace'[] } = {},
): void {
  const clause: Clause = (title, run) => {
    void test(`${adapter}: ${title}`, { skip }, async (t) => run(await makeWorld(t), t));
  };

  claims(clause);
  time(clause);
  owners(clause);
  quotas(clause);
  replacing(clause);
  orders(clause);
  projecting(clause);
  doors(clause);
  pictures(clause);
  if (!without.includes('grace')) grace(clause);
}

export type Clause = (title: string, run: (world: ArbiterWorld, t: TestContext) => Promise<void>) => void;
