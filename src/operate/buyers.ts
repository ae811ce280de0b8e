import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { codeLivesMs, hashOfCode, newConfirmationCode } from '../checkout/cancel-event.ts';
import { impossible } from '../core/outcome.ts';
import { problem } from '../core/problems.ts';
import {
  askToForget,
  type BuyerNamed,
  buyerNamed,
  type ForgetOutcome,
  type ForgetReport,
  forgetBuyer,
} from '../retention/forgetting.ts';
import type { OperateDeps } from './deps.ts';
import { nullable, operation, uuidPattern } from './operation.ts';

// Deleting the personal data of a buyer: shown first, then confirmed, because it cannot be undone.

const Count = Type.Integer();
const report = {
  orders: Type.Array(Type.String()),
  events: Type.Array(Type.String()),
  erased: Type.Object({
    buyers: Count,
    browsers: Count,
    cards: Count,
    letters: Count,
    mailsOwed: Count,
    exceptions: Count,
    words: Count,
    counts: Count,
  }),
  kept: Type.Object({
    orders: Count,
    amounts: Type.Array(
      Type.Object({
        currency: Type.String(),
        paid: nullable(Type.Integer({ description: 'Minor units.' })),
        refunded: Type.Integer(),
      }),
    ),
    tickets: Count,
    validTickets: Count,
    refunds: Count,
    entries: Count,
    auditEntries: Count,
    payments: Type.Array(Type.String()),
  }),
};

export const forgetBuyerData = operation({
  id: 'forgetBuyer',
  method: 'POST',
  path: '/buyers/forget',
  summary: 'Delete a buyer’s personal data; asks for a confirmation first',
  description:
    '`erased` and `kept` say what is deleted and what stays; docs/operating/exports-and-deletion.md says why. 202: without a confirmation, nothing was changed.',
  body: Type.Object(
    {
      buyer: Type.Optional(
        Type.String({
          minLength: 3,
          maxLength: 254,
          description: 'E-mail address, or `sub:` and the name of your platform’s account.',
        }),
      ),
      order: Type.Optional(
        Type.String({ pattern: uuidPattern, description: 'Instead: any order of the buyer.' }),
      ),
      nameless: Type.Optional(
        Type.Boolean({
          description:
            'true: also where tickets of the buyer are still to be used. They stay valid and bear no name.',
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
  ),
  output: Type.Object({
    ...report,
    confirmation: Type.Optional(Type.String()),
    confirmWithinMs: Type.Optional(Type.Integer()),
  }),
  statuses: [202, 200],
  problems: ['invalid_field', 'unknown_buyer', 'unknown_order', 'buyer_needed', 'not_confirmed'],
  async run({ db, random }: OperateDeps, { confirmation, nameless = false, ...named }, { actor, status }) {
    const buyer = buyerIn(named);
    if (confirmation === undefined) {
      const would = reportOf(await forgetBuyer(db, { buyer, nameless, actor, dryRun: true }));
      const code = newConfirmationCode(random);
      const asked = { codeHash: hashOfCode(code), request: requestHash(code, buyer, nameless) };
      await askToForget(db, { actor, ...asked, ttlMs: codeLivesMs });
      status(202);
      return { ...would, confirmation: code, confirmWithinMs: codeLivesMs };
    }
    const confirmed = {
      codeHash: hashOfCode(confirmation),
      request: requestHash(confirmation, buyer, nameless),
    };
    return reportOf(await forgetBuyer(db, { buyer, nameless, actor, dryRun: false, confirmed }));
  },
});

function buyerIn({ buyer, order }: { buyer?: string; order?: string }): BuyerNamed {
  if (order !== undefined && buyer === undefined) return { order };
  const named = buyer === undefined || order !== undefined ? null : buyerNamed(buyer);
  if (named) return named;
  throw problem('invalid_field', {
    field: '/buyer',
    detail: 'Name the buyer by an e-mail address, by sub: and an account, or by one of their orders.',
  });
}

/** The hash includes the code, so that addresses cannot be tested against the stored hashes. */
function requestHash(code: string, buyer: BuyerNamed, nameless: boolean): string {
  const text = JSON.stringify([code.toUpperCase().replace(/[^0-9A-Z]/g, ''), buyer, nameless]);
  return createHash('sha256').update(text).digest('base64url');
}

function reportOf(outcome: ForgetOutcome): ForgetReport {
  switch (outcome.kind) {
    case 'forgotten': {
      const { kind: _kind, ...forgotten } = outcome;
      return forgotten;
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
          'The confirmation is wrong, used, older than ten minutes, or was for another request. Ask again without it; nothing was changed.',
      });
    default:
      return impossible(outcome, 'forgetting outcome');
  }
}

export const buyerOperations = [forgetBuyerData];
