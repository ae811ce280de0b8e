import type { Events } from '../catalogue/events.ts';
import type { CheckoutParts } from '../checkout/checkout.ts';
import type { Arbiter } from '../inventory/arbiter.ts';
import type { SalesRecord } from '../orders/record.ts';
import type { Db } from '../postgres/db.ts';
import type { Config } from '../runtime/config.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Shutdown } from '../runtime/shutdown.ts';
import type { Payments } from './payments.ts';
import type { openRefunds } from './refunds.ts';
import type { Organiser, Runtime } from './runtime.ts';
import type { RedisStores } from './stores.ts';

/** What the roles of this process share. */
export interface Services extends Runtime {
  config: Config;
  shutdown: Shutdown;
  loops: Loops;
  databaseUrl: string;
  /** Connections of the purchase path. */
  db: Db;
  /** Opens further connections, under a name of their own at the server. */
  pool(name: string, size: number, statementTimeoutMs?: number): Db;
  redis: RedisStores;
  /** Names of the configured Redis servers. */
  redisServers: readonly string[];
  events: Events;
  arbiter: Arbiter;
  record: SalesRecord;
  checkout: CheckoutParts;
  payments: Payments;
  refundServices: ReturnType<typeof openRefunds>;
  organiser: Organiser;
  /** New with each start of a process. */
  owner: string;
}
