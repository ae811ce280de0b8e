import type { Command } from 'commander';
import { createEvents } from '../catalogue/events.ts';
import { counted } from '../core/counted.ts';
import { type AddressRule, judgeEntered } from '../fulfilment/webhook-addresses.ts';
import {
  addSecret,
  changeEndpoint,
  deliverAgain,
  type EndpointChanges,
  happenings,
  listDeliveries,
  listEndpoints,
  makeEndpoint,
  oweTrial,
  type WebhookDelivery,
  type WebhookEndpoint,
  type WebhookHappening,
  webhookBounds,
} from '../fulfilment/webhook-endpoints.ts';
import { newWebhookSecret } from '../fulfilment/webhook-signature.ts';
import { type CliContext, cliActor, withDatabase } from './context.ts';

export type WebhookContext = CliContext & { addresses(): AddressRule };

interface AddFlags {
  event?: string;
  on?: string[];
  note?: string;
  json?: boolean;
}

const listedMax = 200;
const onHelp = `what it is told of: ${happenings.join(', ')}; all when absent`;

/** `onsale webhooks …`. Deliveries are sent by the workers of `onsale start`. */
export function registerWebhookCommands(program: Command, context: WebhookContext): void {
  const webhooks = program
    .command('webhooks')
    .description(
      'Endpoints of others that are told what happens; a running "onsale start" sends the deliveries.',
    );
  webhooks
    .command('list')
    .description('The endpoints, what they are owed, and which were disabled and why.')
    .option('--json', 'print JSON')
    .action((flags: { json?: boolean }) =>
      withDatabase(context, async (db) => {
        const all = await listEndpoints(db);
        if (flags.json) context.print(JSON.stringify(all));
        else if (all.length === 0) context.print('None.');
        else for (const one of all) context.print(endpointLine(one));
      }),
    );
  webhooks
    .command('add')
    .description('Add an endpoint; prints its secret, which is shown this once.')
    .argument('<url>', 'https://…')
    .option('--event <event>', 'of this event alone')
    .option('--on <happening...>', onHelp)
    .option('--note <text>', 'for people')
    .option('--json', 'print JSON')
    .action((url: string, flags: AddFlags) => addCommand(context, url, flags));
  webhooks
    .command('change')
    .description('Change the address, what it is told of, or the note.')
    .argument('<endpoint>', 'id of the endpoint')
    .option('--url <url>', 'https://…')
    .option('--on <happening...>', onHelp)
    .option('--note <text>', 'for people')
    .action(async (id: string, flags: { url?: string; on?: string[]; note?: string }) => {
      const wanted = happeningsIn(context, flags.on);
      if (wanted === null) return;
      const { url, note } = flags;
      if (url !== undefined && !(await isAllowed(context, url))) return;
      await changeCommand(context, id, { url, note, happenings: wanted }, 'changed');
    });
  for (const [name, state, text] of [
    ['enable', 'active', 'Send to an endpoint again, what it is owed first.'],
    ['disable', 'disabled', 'Send nothing to an endpoint; what it is owed meanwhile waits.'],
    ['remove', 'removed', 'Remove an endpoint for good; what it is still owed is dropped.'],
  ] as const) {
    webhooks
      .command(name)
      .description(text)
      .argument('<endpoint>', 'id of the endpoint')
      .action((id: string) => changeCommand(context, id, { state }, state));
  }
  webhooks
    .command('rotate')
    .description('A new secret, printed this once. Those before it count on for a while.')
    .argument('<endpoint>', 'id of the endpoint')
    .option(
      '--keep-hours <hours>',
      'how long the old ones count on',
      String(webhookBounds.keepMs / 3_600_000),
    )
    .action((id: string, flags: { keepHours: string }) => rotateCommand(context, id, flags.keepHours));
  registerDeliveryCommands(webhooks, context);
}

function registerDeliveryCommands(webhooks: Command, context: WebhookContext): void {
  webhooks
    .command('trial')
    .description('Send a delivery that says only that it is a trial.')
    .argument('<endpoint>', 'id of the endpoint')
    .action((id: string) =>
      withDatabase(context, async (db) => {
        const delivery = context.random.uuid();
        if (isId(id) && (await oweTrial(db, id, delivery, cliActor)))
          context.print(`Delivery ${delivery} is due.`);
        else context.fail(`There is no endpoint ${id}, or it is disabled.`);
      }),
    );
  webhooks
    .command('deliveries')
    .description(`The newest ${listedMax} deliveries of an endpoint, with their last attempt.`)
    .argument('<endpoint>', 'id of the endpoint')
    .option('--state <state>', 'due, delivered, failed or dropped')
    .option('--json', 'print JSON')
    .action((id: string, flags: { state?: string; json?: boolean }) =>
      withDatabase(context, async (db) => {
        if (!isId(id)) return context.fail(`There is no endpoint ${id}.`);
        const state = flags.state as WebhookDelivery['state'] | undefined;
        const found = await listDeliveries(db, id, { state, limit: listedMax });
        if (flags.json) context.print(JSON.stringify(found));
        else if (found.length === 0) context.print('None.');
        else for (const one of found) context.print(deliveryLine(one));
      }),
    );
  webhooks
    .command('again')
    .description('Send a delivery again, under the same id.')
    .argument('<delivery>', 'id of the delivery')
    .action((id: string) =>
      withDatabase(context, async (db) => {
        const outcome = isId(id) ? await deliverAgain(db, id, cliActor) : 'unknown';
        if (outcome === 'unknown') context.fail(`There is no delivery ${id}.`);
        else if (outcome === 'under_way') context.print('It is being sent just now.');
        else if (outcome === 'disabled') context.print('It is due, and sent when its endpoint is enabled.');
        else context.print(`Delivery ${id} is due.`);
      }),
    );
}

/** Says why not, or what should be known of an address that is accepted. */
async function isAllowed(context: WebhookContext, url: string): Promise<boolean> {
  const { fault, warning } = await judgeEntered(url, context.addresses(), context.clock);
  if (fault) context.fail(fault);
  else if (warning) context.progress(warning);
  return fault === null;
}

async function addCommand(context: WebhookContext, url: string, flags: AddFlags): Promise<void> {
  const wanted = happeningsIn(context, flags.on);
  if (wanted === null) return;
  if (!(await isAllowed(context, url))) return;
  await withDatabase(context, async (db) => {
    const events = createEvents({ db, clock: context.clock });
    const event = flags.event === undefined ? null : await events.find(flags.event);
    if (flags.event !== undefined && !event) return context.fail(`There is no event ${flags.event}.`);
    const secret = newWebhookSecret(context.random);
    const outcome = await makeEndpoint(db, {
      endpoint: context.random.uuid(),
      event: event?.eventNo ?? null,
      url,
      happenings: wanted ?? happenings,
      note: flags.note ?? null,
      secret,
      actor: cliActor,
    });
    if (outcome.kind === 'too_many') {
      return context.fail(`There are ${webhookBounds.endpointsMax} endpoints already: remove one first.`);
    }
    if (flags.json) context.print(JSON.stringify({ ...outcome.endpoint, secret }));
    else context.print(`${endpointLine(outcome.endpoint)}\nSecret, shown this once: ${secret}`);
  });
}

async function changeCommand(
  context: WebhookContext,
  id: string,
  changes: EndpointChanges,
  done: string,
): Promise<void> {
  await withDatabase(context, async (db) => {
    const outcome = isId(id) ? await changeEndpoint(db, id, changes, cliActor) : { kind: 'unknown' as const };
    if (outcome.kind === 'unknown')
      context.fail(`There is no endpoint ${id}; "onsale webhooks list" shows all.`);
    else context.print(`Endpoint ${id} is ${done}.`);
  });
}

async function rotateCommand(context: WebhookContext, id: string, keep: string): Promise<void> {
  const keepMs = Math.round(Number(keep) * 3_600_000);
  if (!(keepMs >= 0 && keepMs <= webhookBounds.keepMsMax)) {
    return context.fail(`--keep-hours takes a number from 0 to ${webhookBounds.keepMsMax / 3_600_000}.`);
  }
  await withDatabase(context, async (db) => {
    const secret = newWebhookSecret(context.random);
    const wish = { endpoint: id, secret, keepMs, actor: cliActor };
    const outcome = isId(id) ? await addSecret(db, wish) : { kind: 'unknown' as const };
    if (outcome.kind === 'unknown') context.fail(`There is no endpoint ${id}.`);
    else if (outcome.kind === 'too_many') {
      context.fail(`${webhookBounds.secretsMax} secrets count already. --keep-hours 0 replaces them all.`);
    } else context.print(`Secret, shown this once: ${secret}`);
  });
}

/** Undefined if no event types were named. Null if one is unknown; the error was printed. */
function happeningsIn(
  context: CliContext,
  named: string[] | undefined,
): WebhookHappening[] | undefined | null {
  if (named === undefined) return undefined;
  const known = happenings.filter((one) => named.includes(one));
  if (known.length === new Set(named).size) return known;
  context.fail(`--on takes any of ${happenings.join(', ')}.`);
  return null;
}

function endpointLine(one: WebhookEndpoint): string {
  const of = one.event ? `event ${one.event}` : 'every event';
  const parts = [one.endpoint, one.state, one.url, of, `${one.due} due`];
  if (one.disabledWhy) parts.push(one.disabledWhy);
  else if (one.failures > 0) parts.push(`${counted(one.failures, 'attempt')} in vain`);
  return parts.join('  ');
}

function deliveryLine(one: WebhookDelivery): string {
  const created = new Date(one.createdAt).toISOString();
  const last = one.error ?? (one.status === null ? '' : `answered ${one.status} in ${one.durationMs} ms`);
  return `${one.delivery}  ${created}  ${one.what}  ${one.state}  attempt ${one.attempts}  ${last}`.trimEnd();
}

function isId(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);
}
