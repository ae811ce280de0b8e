import type { Command } from 'commander';
import { counted } from '../core/counted.ts';
import { happenings, type WebhookHappening, webhookBounds } from '../fulfilment/webhook-endpoints.ts';
import type { InputOf, OutputOf } from '../operate/operation.ts';
import {
  addWebhook,
  changeWebhook,
  listWebhookDeliveries,
  listWebhooks,
  removeWebhook,
  repeatWebhookDelivery,
  rotateWebhookSecret,
  tryWebhook,
} from '../operate/webhooks.ts';
import { call } from './call.ts';
import { type CliContext, numeric } from './context.ts';

type Endpoint = OutputOf<typeof listWebhooks>['endpoints'][number];
type Delivery = OutputOf<typeof listWebhookDeliveries>['deliveries'][number];

interface AddFlags {
  event?: string;
  on?: WebhookHappening[];
  note?: string;
  json?: boolean;
}

const onHelp = `event types that it is told of: ${happenings.join(', ')}; all when absent`;
const hourMs = 3_600_000;

/** `onsale webhooks`: the operations of operate/webhooks.ts. The workers of `onsale start` send the deliveries. */
export function registerWebhookCommands(program: Command, context: CliContext): void {
  const webhooks = program
    .command('webhooks')
    .description(
      'Endpoints of other systems that are told what happens; a running "onsale start" sends the deliveries.',
    );
  webhooks
    .command('list')
    .description('The endpoints, what they are owed, and which were disabled and why.')
    .option('--json', 'print JSON')
    .action(async (flags: { json?: boolean }) => {
      const { endpoints } = (await call(context, listWebhooks, {})) ?? { endpoints: [] };
      if (flags.json) context.print(JSON.stringify(endpoints));
      else if (endpoints.length === 0) context.print('None.');
      else for (const one of endpoints) context.print(endpointLine(one));
    });
  webhooks
    .command('add')
    .description('Add an endpoint; prints its secret, which is shown this once.')
    .argument('<url>', 'https://…')
    .option('--event <event>', 'of this event alone')
    .option('--on <type...>', onHelp)
    .option('--note <text>', 'for people')
    .option('--json', 'print JSON')
    .action((url: string, flags: AddFlags) => addCommand(context, url, flags));
  webhooks
    .command('change')
    .description('Change the address, what it is told of, or the note.')
    .argument('<endpoint>', 'id of the endpoint')
    .option('--url <url>', 'https://…')
    .option('--on <type...>', onHelp)
    .option('--note <text>', 'for people')
    .action((endpoint: string, { url, on, note }: AddFlags & { url?: string }) =>
      changeCommand(context, { endpoint, url, happenings: on, note }, 'changed'),
    );
  for (const [name, state, text] of [
    ['enable', 'active', 'Send to an endpoint again, what it is owed first.'],
    ['disable', 'disabled', 'Send nothing to an endpoint; what it is owed meanwhile waits.'],
  ] as const) {
    webhooks
      .command(name)
      .description(text)
      .argument('<endpoint>', 'id of the endpoint')
      .action((endpoint: string) => changeCommand(context, { endpoint, state }, state));
  }
  webhooks
    .command('remove')
    .description('Remove an endpoint for good; what it is still owed is dropped.')
    .argument('<endpoint>', 'id of the endpoint')
    .action(async (endpoint: string) => {
      if (await call(context, removeWebhook, { endpoint })) context.print(`Endpoint ${endpoint} is removed.`);
    });
  webhooks
    .command('rotate')
    .description('A new secret, printed this once. Those before it count on for a while.')
    .argument('<endpoint>', 'id of the endpoint')
    .option('--keep-hours <hours>', 'how long the old ones count on', String(webhookBounds.keepMs / hourMs))
    .action((endpoint: string, flags: { keepHours: string }) => rotateCommand(context, endpoint, flags));
  registerDeliveryCommands(webhooks, context);
}

function registerDeliveryCommands(webhooks: Command, context: CliContext): void {
  webhooks
    .command('trial')
    .description('Send a delivery that says only that it is a trial.')
    .argument('<endpoint>', 'id of the endpoint')
    .action(async (endpoint: string) => {
      const due = await call(context, tryWebhook, { endpoint });
      if (due) context.print(`Delivery ${due.delivery} is due.`);
    });
  webhooks
    .command('deliveries')
    .description('The newest deliveries of an endpoint, with their last attempt.')
    .argument('<endpoint>', 'id of the endpoint')
    .option('--state <state>', 'due, delivered, failed or dropped')
    .option('--json', 'print JSON')
    .action(async (endpoint: string, flags: { state?: Delivery['state']; json?: boolean }) => {
      const found = await call(context, listWebhookDeliveries, { endpoint, state: flags.state });
      if (!found) return;
      if (flags.json) context.print(JSON.stringify(found.deliveries));
      else if (found.deliveries.length === 0) context.print('None.');
      else for (const one of found.deliveries) context.print(deliveryLine(one));
    });
  webhooks
    .command('again')
    .description('Send a delivery again, under the same id.')
    .argument('<delivery>', 'id of the delivery')
    .action(async (delivery: string) => {
      const due = await call(context, repeatWebhookDelivery, { delivery });
      if (due?.outcome === 'under_way') context.print('It is being sent just now.');
      else if (due?.outcome === 'disabled')
        context.print('It is due, and sent when its endpoint is enabled.');
      else if (due) context.print(`Delivery ${delivery} is due.`);
    });
}

async function addCommand(context: CliContext, url: string, flags: AddFlags): Promise<void> {
  const { event, on, note } = flags;
  const added = await call(context, addWebhook, { url, event, happenings: on, note });
  if (!added) return;
  if (added.warning) context.progress(added.warning);
  if (flags.json) context.print(JSON.stringify(added));
  else context.print(`${endpointLine(added)}\nSecret, shown this once: ${added.secret}`);
}

async function changeCommand(
  context: CliContext,
  changes: InputOf<typeof changeWebhook>,
  done: string,
): Promise<void> {
  const changed = await call(context, changeWebhook, changes);
  if (!changed) return;
  if (changed.warning) context.progress(changed.warning);
  context.print(`Endpoint ${changes.endpoint} is ${done}.`);
}

async function rotateCommand(
  context: CliContext,
  endpoint: string,
  flags: { keepHours: string },
): Promise<void> {
  const hours: unknown = numeric(flags.keepHours);
  const keepMs = typeof hours === 'number' ? Math.round(hours * hourMs) : (hours as number);
  const rotated = await call(context, rotateWebhookSecret, { endpoint, keepMs });
  if (rotated) context.print(`Secret, shown this once: ${rotated.secret}`);
}

function endpointLine(one: Endpoint): string {
  const of = one.event ? `event ${one.event}` : 'every event';
  const parts = [one.endpoint, one.state, one.url, of, `${one.due} due`];
  if (one.disabledWhy) parts.push(one.disabledWhy);
  else if (one.failures > 0) parts.push(counted(one.failures, 'failed attempt'));
  return parts.join('  ');
}

function deliveryLine(one: Delivery): string {
  const last = one.error ?? (one.status === null ? '' : `answered ${one.status} in ${one.durationMs} ms`);
  return `${one.delivery}  ${one.createdAt}  ${one.what}  ${one.state}  attempt ${one.attempts}  ${last}`.trimEnd();
}
