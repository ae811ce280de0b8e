import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify from 'fastify';
import {
  EventParams,
  HoldBody,
  HoldSchema,
  IdempotencyHeaders,
  problemResponses,
  QueueTicketSchema,
} from '../../src/http/schemas.ts';
import { serving } from '../child.ts';

// Started by bench/child.ts. What fastify itself costs: the same schemas, an answer that never changes, nothing behind it.

const ajv = { customOptions: { coerceTypes: false, removeAdditional: false, allErrors: false } } as const;
const app = fastify({ ajv }).withTypeProvider<TypeBoxTypeProvider>();

const seat = {
  guid: '0123456789abcdef',
  section: 'A',
  sectionName: 'Section A',
  row: '12',
  number: '7',
  category: 'Category 1',
  kind: 'standard',
  price: 14_900,
  fee: 150,
};
const hold = {
  hold: '01234567-89ab-4cde-8f01-23456789abcd',
  event: 'show',
  seats: [
    { ...seat, seat: 1 },
    { ...seat, seat: 2 },
  ],
  total: 30_100,
  orderFee: 0,
  currency: 'EUR',
  expiresAt: '2026-01-01T00:10:00.000Z',
  serverTime: '2026-01-01T00:00:00.000Z',
  receipt: 'r'.repeat(180),
  order: null,
};
const ticket = {
  ticket: 't'.repeat(86),
  number: 123_456,
  shard: 0,
  issuedAt: '2026-01-01T00:00:00.000Z',
  repeated: false,
};

app.post(
  '/api/events/:event/holds',
  {
    schema: {
      params: EventParams,
      headers: IdempotencyHeaders,
      body: HoldBody,
      response: { 200: HoldSchema, 201: HoldSchema, ...problemResponses },
    },
  },
  async (_request, reply) => reply.code(201).send(hold),
);
app.post(
  '/api/events/:event/queue',
  { schema: { params: EventParams, response: { 200: QueueTicketSchema, ...problemResponses } } },
  async () => ticket,
);
serving(await app.listen({ port: 0, host: '127.0.0.1' }), () => app.close());
