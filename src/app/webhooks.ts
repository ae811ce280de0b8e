import { createWebhookDeliverer } from '../fulfilment/webhook-deliverer.ts';
import { createWebhookSender } from '../fulfilment/webhook-sender.ts';
import type { Db } from '../postgres/db.ts';
import type { Config } from '../runtime/config.ts';
import type { Loops } from '../runtime/loops.ts';
import type { Shutdown } from '../runtime/shutdown.ts';
import type { Runtime } from './runtime.ts';

/** The worker role's part: tells the organiser's receivers what happened. */
export function startWebhooks(
  config: Config,
  parts: Runtime & { db: Db; shutdown: Shutdown; loops: Loops },
): void {
  const send = createWebhookSender({ ...config.webhooks, clock: parts.clock });
  const deliverer = createWebhookDeliverer({ ...parts, send });
  parts.shutdown.add('webhooks', () => deliverer.stop());
  deliverer.start(parts.loops);
}
