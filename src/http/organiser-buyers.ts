import { createHash } from 'node:crypto';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { codeLivesMs, hashOfCode, newConfirmationCode } from '../checkout/cancel-event.ts';
import { impossible } from '../core/outcome.ts';
import { problem } from '../core/problems.ts';
import { uuidPattern } from '../operate/operation.ts';
import type { Db } from '../postgres/db.ts';
import {
  askToForget,
  type BuyerNamed,
  buyerNamed,
  type ForgetOutcome,
  type ForgetReport,
  forgetBuyer,
} from '../retention/forgetting.ts';
import type { Random } from '../runtime/random.ts';

export interface OrganiserBuyersDeps {
  db: Db;
  random: Random;
}

const ForgetBody = Type.Object(
  {
    buyer: Type.Optional(
      Type.String({
        minLength: 3,
        maxLength: 254,
        description: 'E-mail address, or `sub:` and the name of your platform’s account.',
      }),
    ),
    order: Type.Optional(Type.String({ pattern: uuidPattern, description: 'Instead: any order of his.' })),
    nameless: Type.Optional(
      Type.Boolean({
        description: 'true: also where his tickets are still to be used. They stay valid and bear no name.',
      }),
    ),
    confirmation: Type.Optional(
      Type.String({
        maxLength: 20,
        description:
          'The code that the same request without it was answered with. Without it nothing happens.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** Deleting a buyer's personal data: said first, then confirmed, because it cannot be undone. */
export function registerOrganiserBuyers(
  root: FastifyInstance,
  deps: OrganiserBuyersDeps,
  requireSession: (request: FastifyRequest) => Promise<string>,
): void {
  const { db, random } = deps;
  root.withTypeProvider<TypeBoxTypeProvider>().post(
    '/api/organiser/buyers/forget',
    {
      schema: {
        tags: ['organiser'],
        security: [{ organiser: [] }],
        summary: 'Delete a buyer’s personal data; asks for a confirmation first',
        description:
          '`erased` and `kept` say what becomes of what; docs/operating/exports-and-deletion.md why.',
        body: ForgetBody,
      },
    },
    async (request, reply) => {
      const actor = await requireSession(request);
      reply.header('cache-control', 'no-store');
      const { confirmation, nameless = false } = request.body;
      const buyer = buyerIn(request.body);
      if (confirmation === undefined) {
        const would = reportOf(await forgetBuyer(db, { buyer, nameless, actor, dryRun: true }));
        const code = newConfirmationCode(random);
        const asked = { codeHash: hashOfCode(code), request: wishHash(code, buyer, nameless) };
        await askToForget(db, { actor, ...asked, ttlMs: codeLivesMs });
        return reply.code(202).send({ ...would, confirmation: code, confirmWithinMs: codeLivesMs });
      }
      const confirmed = {
        codeHash: hashOfCode(confirmation),
        request: wishHash(confirmation, buyer, nameless),
      };
      return reportOf(await forgetBuyer(db, { buyer, nameless, actor, dryRun: false, confirmed }));
    },
  );
}

function buyerIn({ buyer, order }: { buyer?: string; order?: string }): BuyerNamed {
  if (order !== undefined && buyer === undefined) return { order };
  const named = buyer === undefined || order !== undefined ? null : buyerNamed(buyer);
  if (named) return named;
  throw problem('invalid_field', {
    field: '/buyer',
    detail: 'Name the buyer by an e-mail address, by sub: and an account, or by one of his orders.',
  });
}

/** The hash includes the code, so that addresses cannot be tested against the stored hashes. */
function wishHash(code: string, buyer: BuyerNamed, nameless: boolean): string {
  const text = JSON.stringify([code.toUpperCase().replace(/[^0-9A-Z]/g, ''), buyer, nameless]);
  return createHash('sha256').update(text).digest('base64url');
}

function reportOf(outcome: ForgetOutcome): ForgetReport {
  switch (outcome.kind) {
    case 'forgotten': {
      const { kind: _kind, ...report } = outcome;
      return report;
    }
    case 'refused':
      throw problem('buyer_needed', { extra: { orders: outcome.orders } });
    case 'nothing':
      throw problem('unknown_buyer');
    case 'unknown_order':
      throw problem('unknown_order', { detail: 'There is no order under this id.' });
    case 'not_confirmed':
      throw problem('not_confirmed', {
        detail:
          'The confirmation is wrong, used, older than ten minutes, or was for another wish. Ask again without it; nothing was changed.',
      });
    default:
      return impossible(outcome, 'forgetting outcome');
  }
}
