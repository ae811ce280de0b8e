import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Events } from '../catalogue/events.ts';
import { problem } from '../core/problems.ts';
import { type AddressRule, judgeEntered } from '../fulfilment/webhook-addresses.ts';
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
import { uuidPattern } from '../operate/operation.ts';
import type { Db } from '../postgres/db.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Random } from '../runtime/random.ts';
import { iso } from './answers.ts';

export interface OrganiserWebhooksDeps {
  db: Db;
  events: Pick<Events, 'find'>;
  random: Random;
  clock: Clock;
  addresses: AddressRule;
}

const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const security = [{ organiser: [] }];
const tags = ['organiser'];
const Uuid = Type.String({ pattern: uuidPattern });
const EndpointParams = Type.Object({ endpoint: Uuid });
const DeliveryParams = Type.Object({ delivery: Uuid });
const Url = Type.String({ minLength: 1, maxLength: webhookBounds.urlLengthMax });
const Note = nullable(Type.String({ maxLength: webhookBounds.noteLengthMax }));
const Happenings = Type.Array(Type.Union(happenings.map((one) => Type.Literal(one))), {
  minItems: 1,
  maxItems: happenings.length,
  uniqueItems: true,
});
const State = Type.Union(
  (['due', 'delivered', 'failed', 'dropped'] as const).map((state) => Type.Literal(state)),
);
const pageMax = 200;

const EndpointBody = Type.Object(
  {
    url: Url,
    event: Type.Optional(Type.String({ maxLength: 40, description: 'Every event when absent.' })),
    happenings: Type.Optional(Happenings),
    note: Type.Optional(Note),
  },
  { additionalProperties: false },
);
const ChangeBody = Type.Object(
  {
    url: Type.Optional(Url),
    happenings: Type.Optional(Happenings),
    note: Type.Optional(Note),
    state: Type.Optional(
      Type.Union([Type.Literal('active'), Type.Literal('disabled')], {
        description:
          'A disabled endpoint is sent nothing; what it is owed meanwhile follows when it is active again.',
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
const RotateBody = Type.Object(
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
);

type Require = (request: FastifyRequest) => Promise<string>;

/** Webhook endpoints, their secrets, and the log of deliveries. */
export function registerOrganiserWebhooks(
  root: FastifyInstance,
  deps: OrganiserWebhooksDeps,
  requireSession: Require,
): void {
  registerEndpoints(root, deps, requireSession);
  registerSecrets(root, deps, requireSession);
  registerDeliveries(root, deps, requireSession);
}

function registerEndpoints(
  root: FastifyInstance,
  deps: OrganiserWebhooksDeps,
  requireSession: Require,
): void {
  const { db, events, random } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/organiser/webhooks',
    {
      schema: {
        tags,
        security,
        summary: 'Webhook endpoints, with those that were disabled and why',
        description: `At most ${webhookBounds.endpointsMax}. \`happenings\` lists what one may ask for.`,
      },
    },
    async (request) => {
      await requireSession(request);
      return { endpoints: (await listEndpoints(db)).map(endpointView), happenings };
    },
  );

  app.post(
    '/api/organiser/webhooks',
    {
      schema: {
        tags,
        security,
        summary: 'Add a webhook endpoint; the answer alone holds its secret',
        description: '`warning`: the endpoint was accepted although its name has no address now.',
        body: EndpointBody,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const { url, event, note = null } = request.body;
      const judged = await judgeUrl(url, deps);
      const found = event === undefined ? null : await events.find(event);
      if (event !== undefined && !found) throw problem('unknown_event', { field: '/event' });
      const secret = newWebhookSecret(random);
      const outcome = await makeEndpoint(db, {
        endpoint: random.uuid(),
        event: found?.eventNo ?? null,
        url,
        happenings: request.body.happenings ?? happenings,
        note,
        secret,
        actor,
      });
      if (outcome.kind === 'too_many') {
        throw problem('invalid_field', {
          field: '/url',
          detail: `There are ${webhookBounds.endpointsMax} endpoints already: remove one first.`,
        });
      }
      return reply.code(201).send({ ...endpointView(outcome.endpoint), ...judged, secret });
    },
  );

  app.patch(
    '/api/organiser/webhooks/:endpoint',
    {
      schema: {
        tags,
        security,
        summary: 'Change, switch off or on an endpoint',
        params: EndpointParams,
        body: ChangeBody,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const { url } = request.body;
      const judged = url === undefined ? {} : await judgeUrl(url, deps);
      const outcome = await changeEndpoint(db, request.params.endpoint, request.body, actor);
      if (outcome.kind === 'unknown') throw problem('unknown_endpoint');
      return { ...endpointView(outcome.endpoint), ...judged };
    },
  );

  app.delete(
    '/api/organiser/webhooks/:endpoint',
    {
      schema: {
        tags,
        security,
        summary: 'Remove an endpoint for good; what it is still owed is dropped',
        params: EndpointParams,
      },
    },
    async (request) => {
      const actor = await requireSession(request);
      const { endpoint } = request.params;
      const outcome = await changeEndpoint(db, endpoint, { state: 'removed' }, actor);
      if (outcome.kind === 'unknown') throw problem('unknown_endpoint');
      return { endpoint, state: 'removed' };
    },
  );
}

function registerSecrets(
  root: FastifyInstance,
  { db, random }: OrganiserWebhooksDeps,
  requireSession: Require,
): void {
  const app = root.withTypeProvider<TypeBoxTypeProvider>();
  app.post(
    '/api/organiser/webhooks/:endpoint/secrets',
    {
      schema: {
        tags,
        security,
        summary:
          'A new secret; those before it count on for a while, and each delivery is signed with all of them',
        params: EndpointParams,
        body: RotateBody,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const secret = newWebhookSecret(random);
      const { endpoint } = request.params;
      const keepMs = request.body.keepMs ?? webhookBounds.keepMs;
      const outcome = await addSecret(db, { endpoint, secret, keepMs, actor });
      if (outcome.kind === 'unknown') throw problem('unknown_endpoint');
      if (outcome.kind === 'too_many') {
        throw problem('invalid_field', {
          field: '/keepMs',
          detail: `${webhookBounds.secretsMax} secrets count at once, at most. With keepMs 0 the new one replaces them all.`,
        });
      }
      return reply.code(201).send({ ...endpointView(outcome.endpoint), secret });
    },
  );
}

function registerDeliveries(
  root: FastifyInstance,
  { db, random }: OrganiserWebhooksDeps,
  requireSession: Require,
): void {
  const app = root.withTypeProvider<TypeBoxTypeProvider>();

  app.post(
    '/api/organiser/webhooks/:endpoint/trial',
    {
      schema: {
        tags,
        security,
        summary: 'Send a delivery that says only that it is a trial',
        params: EndpointParams,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const delivery = random.uuid();
      const { endpoint } = request.params;
      if (!(await oweTrial(db, endpoint, delivery, actor))) {
        throw problem((await findEndpoint(db, endpoint)) ? 'endpoint_disabled' : 'unknown_endpoint');
      }
      return reply.code(202).send({ delivery, state: 'due' });
    },
  );

  app.get(
    '/api/organiser/webhooks/:endpoint/deliveries',
    {
      schema: {
        tags,
        security,
        summary: 'What was sent to an endpoint, or is owed, newest first',
        description: `Up to ${pageMax}; \`before\` takes the id of the last one of the page before.`,
        params: EndpointParams,
        querystring: Type.Object({ state: Type.Optional(State), before: Type.Optional(Uuid) }),
      },
    },
    async (request) => {
      await requireSession(request);
      const { endpoint } = request.params;
      if (!(await findEndpoint(db, endpoint))) throw problem('unknown_endpoint');
      const found = await listDeliveries(db, endpoint, { ...request.query, limit: pageMax });
      return { deliveries: found.map(deliveryView) };
    },
  );

  app.get(
    '/api/organiser/webhook-deliveries/:delivery',
    {
      schema: {
        tags,
        security,
        summary: 'One delivery with its body and every attempt',
        params: DeliveryParams,
      },
    },
    async (request) => {
      await requireSession(request);
      const found = await findDelivery(db, request.params.delivery);
      if (!found) throw problem('unknown_delivery');
      return { ...deliveryView(found), log: found.log.map((one) => ({ ...one, at: iso(one.at) })) };
    },
  );

  app.post(
    '/api/organiser/webhook-deliveries/:delivery/again',
    {
      schema: {
        tags,
        security,
        summary: 'Send a delivery again, under the same id',
        params: DeliveryParams,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      const { delivery } = request.params;
      const outcome = await deliverAgain(db, delivery, actor);
      if (outcome === 'unknown') throw problem('unknown_delivery');
      return reply.code(202).send({ delivery, state: 'due', outcome });
    },
  );
}

/** Refuses an address that deliveries would not go to. Returns what the organiser should know of one that is accepted. */
async function judgeUrl(
  url: string,
  { addresses, clock }: OrganiserWebhooksDeps,
): Promise<{ warning?: string }> {
  const { fault, warning } = await judgeEntered(url, addresses, clock);
  if (fault) throw problem('invalid_field', { field: '/url', detail: fault });
  return warning === null ? {} : { warning };
}

const isoOrNull = (at: number | null): string | null => (at === null ? null : iso(at));

function endpointView(one: WebhookEndpoint) {
  const { disabledAt, failingSince, restsUntil, createdAt, secrets, ...rest } = one;
  return {
    ...rest,
    disabledAt: isoOrNull(disabledAt),
    failingSince: isoOrNull(failingSince),
    restsUntil: isoOrNull(restsUntil),
    createdAt: iso(createdAt),
    secrets: secrets.map((secret) => ({ createdAt: iso(secret.createdAt), until: isoOrNull(secret.until) })),
  };
}

function deliveryView<One extends WebhookDelivery>(one: One) {
  const { dueAt, createdAt, updatedAt, ...rest } = one;
  return { ...rest, dueAt: isoOrNull(dueAt), createdAt: iso(createdAt), updatedAt: iso(updatedAt) };
}
