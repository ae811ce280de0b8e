import { type Static, Type } from 'typebox';
import { problem } from '../core/problems.ts';
import { judgeEntered } from '../fulfilment/webhook-addresses.ts';
import {
  addSecret,
  changeEndpoint,
  deliverAgain,
  findDelivery,
  findEndpoint,
  happenings,
  listDeliveries,
  listEndpoints,
  makeEndpoint,
  oweTrial,
  type WebhookDelivery,
  type WebhookEndpoint,
  webhookBounds,
} from '../fulfilment/webhook-endpoints.ts';
import { newWebhookSecret } from '../fulfilment/webhook-signature.ts';
import type { OperateDeps } from './deps.ts';
import { eventOf } from './event-of.ts';
import { Instant, iso, nullable, operation, uuidPattern } from './operation.ts';

// Webhook endpoints, their secrets, and the log of deliveries. Workers send the deliveries.

const Uuid = Type.String({ pattern: uuidPattern });
const EndpointParams = Type.Object({ endpoint: Uuid });
const DeliveryParams = Type.Object({ delivery: Uuid });
const Url = Type.String({ minLength: 1, maxLength: webhookBounds.urlLengthMax });
const Note = nullable(Type.String({ maxLength: webhookBounds.noteLengthMax }));
const EventTypes = Type.Array(Type.Enum([...happenings]), {
  minItems: 1,
  maxItems: happenings.length,
  uniqueItems: true,
  description: 'The event types that it is told of.',
});
const State = Type.Enum(['due', 'delivered', 'failed', 'dropped']);
const pageMax = 200;

const EndpointView = Type.Object({
  endpoint: Type.String(),
  url: Type.String(),
  event: nullable(Type.String({ description: 'Null: every event.' })),
  happenings: Type.Array(Type.Enum([...happenings])),
  note: nullable(Type.String()),
  state: Type.Enum(['active', 'disabled', 'removed']),
  disabledWhy: nullable(Type.String()),
  disabledAt: nullable(Instant),
  failures: Type.Integer({ description: 'Since the last success.' }),
  failingSince: nullable(Instant),
  restsUntil: nullable(Instant),
  createdBy: Type.String(),
  createdAt: Instant,
  due: Type.Integer({ description: 'Deliveries that it has not taken yet.' }),
  secrets: Type.Array(Type.Object({ createdAt: Instant, until: nullable(Instant) })),
});
const Warning = Type.Optional(
  Type.String({ description: 'The address was accepted although its name has no address now.' }),
);
const Secret = Type.String({ description: 'Shown this once.' });

const DeliveryView = Type.Object({
  delivery: Type.String(),
  endpoint: Type.String(),
  event: nullable(Type.String()),
  what: Type.String(),
  state: State,
  attempts: Type.Integer(),
  dueAt: nullable(Instant),
  createdAt: Instant,
  updatedAt: Instant,
  status: nullable(Type.Integer({ description: 'HTTP status of the last attempt.' })),
  error: nullable(Type.String()),
  durationMs: nullable(Type.Number()),
});

export const listWebhooks = operation({
  id: 'listWebhooks',
  method: 'GET',
  path: '/webhooks',
  summary: 'Webhook endpoints, with those that were disabled and why',
  description: `At most ${webhookBounds.endpointsMax}. \`happenings\` lists what one may ask for.`,
  output: Type.Object({
    endpoints: Type.Array(EndpointView),
    happenings: Type.Array(Type.Enum([...happenings])),
  }),
  problems: [],
  async run({ db }: OperateDeps) {
    return { endpoints: (await listEndpoints(db)).map(endpointView), happenings: [...happenings] };
  },
});

export const addWebhook = operation({
  id: 'addWebhook',
  method: 'POST',
  path: '/webhooks',
  summary: 'Add a webhook endpoint; the answer alone holds its secret',
  body: Type.Object(
    {
      url: Url,
      event: Type.Optional(Type.String({ maxLength: 40, description: 'Every event when absent.' })),
      happenings: Type.Optional(EventTypes),
      note: Type.Optional(Note),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ ...EndpointView.properties, warning: Warning, secret: Secret }),
  status: 201,
  problems: ['unknown_event', 'invalid_field'],
  async run(deps: OperateDeps, { url, event, happenings: wanted, note = null }, { actor }) {
    const { db, events, random } = deps;
    const judged = await judgeUrl(url, deps);
    const found = event === undefined ? null : await eventOf(events, event, '/event');
    const secret = newWebhookSecret(random);
    const outcome = await makeEndpoint(db, {
      endpoint: random.uuid(),
      event: found?.eventNo ?? null,
      url,
      happenings: wanted ?? happenings,
      note,
      secret,
      actor,
    });
    if (outcome.kind === 'too_many')
      throw problem('invalid_field', {
        field: '/url',
        detail: `There are ${webhookBounds.endpointsMax} endpoints already: remove one first.`,
      });
    return { ...endpointView(outcome.endpoint), ...judged, secret };
  },
});

export const changeWebhook = operation({
  id: 'changeWebhook',
  method: 'PATCH',
  path: '/webhooks/:endpoint',
  summary: 'Change the address, the event types or the note, or switch an endpoint off or on',
  params: EndpointParams,
  body: Type.Object(
    {
      url: Type.Optional(Url),
      happenings: Type.Optional(EventTypes),
      note: Type.Optional(Note),
      state: Type.Optional(
        Type.Enum(['active', 'disabled'], {
          description:
            'A disabled endpoint is sent nothing; what it is owed meanwhile follows when it is active again.',
        }),
      ),
    },
    { additionalProperties: false, minProperties: 1 },
  ),
  output: Type.Object({ ...EndpointView.properties, warning: Warning }),
  problems: ['unknown_endpoint', 'invalid_field'],
  async run(deps: OperateDeps, { endpoint, ...changes }, { actor }) {
    const judged = changes.url === undefined ? {} : await judgeUrl(changes.url, deps);
    const outcome = await changeEndpoint(deps.db, endpoint, changes, actor);
    if (outcome.kind === 'unknown') throw problem('unknown_endpoint');
    return { ...endpointView(outcome.endpoint), ...judged };
  },
});

export const removeWebhook = operation({
  id: 'removeWebhook',
  method: 'DELETE',
  path: '/webhooks/:endpoint',
  summary: 'Remove an endpoint for good; what it is still owed is dropped',
  params: EndpointParams,
  output: Type.Object({ endpoint: Type.String(), state: Type.Literal('removed') }),
  problems: ['unknown_endpoint'],
  async run({ db }: OperateDeps, { endpoint }, { actor }) {
    const outcome = await changeEndpoint(db, endpoint, { state: 'removed' }, actor);
    if (outcome.kind === 'unknown') throw problem('unknown_endpoint');
    return { endpoint, state: 'removed' as const };
  },
});

export const rotateWebhookSecret = operation({
  id: 'rotateWebhookSecret',
  method: 'POST',
  path: '/webhooks/:endpoint/secrets',
  summary: 'A new secret; those before it count on for a while, and each delivery is signed with all of them',
  params: EndpointParams,
  body: Type.Object(
    {
      keepMs: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: webhookBounds.keepMsMax,
          description: `How long the secrets before it count on; ${webhookBounds.keepMs} (a day) when absent.`,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ ...EndpointView.properties, secret: Secret }),
  status: 201,
  problems: ['unknown_endpoint', 'invalid_field'],
  async run({ db, random }: OperateDeps, { endpoint, keepMs = webhookBounds.keepMs }, { actor }) {
    const secret = newWebhookSecret(random);
    const outcome = await addSecret(db, { endpoint, secret, keepMs, actor });
    if (outcome.kind === 'unknown') throw problem('unknown_endpoint');
    if (outcome.kind === 'too_many')
      throw problem('invalid_field', {
        field: '/keepMs',
        detail: `${webhookBounds.secretsMax} secrets count at once, at most. With keepMs 0 the new one replaces them all.`,
      });
    return { ...endpointView(outcome.endpoint), secret };
  },
});

const Due = Type.Object({ delivery: Type.String(), state: Type.Literal('due') });

export const tryWebhook = operation({
  id: 'tryWebhook',
  method: 'POST',
  path: '/webhooks/:endpoint/trial',
  summary: 'Send a delivery that says only that it is a trial',
  params: EndpointParams,
  output: Due,
  status: 202,
  problems: ['unknown_endpoint', 'endpoint_disabled'],
  async run({ db, random }: OperateDeps, { endpoint }, { actor }) {
    const delivery = random.uuid();
    if (!(await oweTrial(db, endpoint, delivery, actor)))
      throw problem((await findEndpoint(db, endpoint)) ? 'endpoint_disabled' : 'unknown_endpoint');
    return { delivery, state: 'due' as const };
  },
});

export const listWebhookDeliveries = operation({
  id: 'listWebhookDeliveries',
  method: 'GET',
  path: '/webhooks/:endpoint/deliveries',
  summary: 'What was sent to an endpoint, or is owed, newest first',
  description: `Up to ${pageMax}; \`before\` takes the id of the last one of the page before.`,
  params: EndpointParams,
  query: Type.Object({ state: Type.Optional(State), before: Type.Optional(Uuid) }),
  output: Type.Object({ deliveries: Type.Array(DeliveryView) }),
  problems: ['unknown_endpoint'],
  async run({ db }: OperateDeps, { endpoint, ...filter }) {
    if (!(await findEndpoint(db, endpoint))) throw problem('unknown_endpoint');
    const found = await listDeliveries(db, endpoint, { ...filter, limit: pageMax });
    return { deliveries: found.map(deliveryView) };
  },
});

export const getWebhookDelivery = operation({
  id: 'getWebhookDelivery',
  method: 'GET',
  path: '/webhook-deliveries/:delivery',
  summary: 'One delivery with its body and every attempt',
  params: DeliveryParams,
  output: Type.Object({
    ...DeliveryView.properties,
    body: Type.String(),
    log: Type.Array(
      Type.Object({
        attempt: Type.Integer(),
        at: Instant,
        status: nullable(Type.Integer()),
        error: nullable(Type.String()),
        durationMs: nullable(Type.Number()),
      }),
    ),
  }),
  problems: ['unknown_delivery'],
  async run({ db }: OperateDeps, { delivery }) {
    const found = await findDelivery(db, delivery);
    if (!found) throw problem('unknown_delivery');
    return { ...deliveryView(found), log: found.log.map((one) => ({ ...one, at: iso(one.at) })) };
  },
});

export const repeatWebhookDelivery = operation({
  id: 'repeatWebhookDelivery',
  method: 'POST',
  path: '/webhook-deliveries/:delivery/again',
  summary: 'Send a delivery again, under the same id',
  params: DeliveryParams,
  output: Type.Object({
    ...Due.properties,
    outcome: Type.Enum(['owed', 'under_way', 'disabled']),
  }),
  status: 202,
  problems: ['unknown_delivery'],
  async run({ db }: OperateDeps, { delivery }, { actor }) {
    const outcome = await deliverAgain(db, delivery, actor);
    if (outcome === 'unknown') throw problem('unknown_delivery');
    return { delivery, state: 'due' as const, outcome };
  },
});

/** Refuses an address that deliveries would not go to. Returns what the organiser should know of one that is accepted. */
async function judgeUrl(
  url: string,
  { webhookAddresses, clock }: OperateDeps,
): Promise<{ warning?: string }> {
  const { fault, warning } = await judgeEntered(url, webhookAddresses, clock);
  if (fault) throw problem('invalid_field', { field: '/url', detail: fault });
  return warning === null ? {} : { warning };
}

function endpointView(one: WebhookEndpoint): Static<typeof EndpointView> {
  const { disabledAt, failingSince, restsUntil, createdAt, secrets, ...rest } = one;
  return {
    ...rest,
    disabledAt: iso(disabledAt),
    failingSince: iso(failingSince),
    restsUntil: iso(restsUntil),
    createdAt: iso(createdAt),
    secrets: secrets.map((secret) => ({ createdAt: iso(secret.createdAt), until: iso(secret.until) })),
  };
}

function deliveryView<One extends WebhookDelivery>(one: One) {
  const { dueAt, createdAt, updatedAt, ...rest } = one;
  return { ...rest, dueAt: iso(dueAt), createdAt: iso(createdAt), updatedAt: iso(updatedAt) };
}

export const webhookOperations = [
  ...[listWebhooks, addWebhook, changeWebhook, removeWebhook, rotateWebhookSecret, tryWebhook],
  ...[listWebhookDeliveries, getWebhookDelivery, repeatWebhookDelivery],
];
