import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { impossible } from '../core/outcome.ts';
import { problem } from '../core/problems.ts';
import { type MailSheet, mailSheet, mailsOfOrder, mailTroubles, resendMail } from '../fulfilment/mails.ts';
import { uuidPattern } from '../operate/operation.ts';
import { iso } from './answers.ts';
import type { OrganiserDeps } from './organiser.ts';
import { createOrganiserSessions } from './organiser-sessions.ts';

const security = [{ organiser: [] }];
const tags = ['organiser'];
const listedMax = 500;
const MailParams = Type.Object({ mail: Type.String({ pattern: uuidPattern }) });

/** The operator's list of mails that could not be sent, what became of any mail, and the way to send one again. */
export function registerOrganiserMails(root: FastifyInstance, deps: OrganiserDeps): void {
  const { db } = deps;
  const app = root.withTypeProvider<TypeBoxTypeProvider>();
  const sessions = createOrganiserSessions(deps);

  app.get(
    '/api/organiser/mails',
    {
      schema: {
        tags,
        security,
        summary: 'Mails that were refused or not taken yet; with `order`, all of that order',
        description: `The newest ${listedMax}; \`count\` is of all. \`refused\`: for good, until it is sent again. \`due\`: tried again by itself at \`nextAt\`, or given up where that is null.`,
        querystring: Type.Object({ order: Type.Optional(Type.String({ pattern: uuidPattern })) }),
      },
    },
    async (request) => {
      await sessions.require(request);
      const { order } = request.query;
      if (order !== undefined) {
        const mails = (await mailsOfOrder(db, order)).map(mailView);
        return { count: mails.length, mails };
      }
      const { count, mails } = await mailTroubles(db, listedMax);
      return { count, mails: mails.map(mailView) };
    },
  );

  app.get(
    '/api/organiser/mails/:mail',
    { schema: { tags, security, summary: 'What became of a mail', params: MailParams } },
    async (request) => {
      await sessions.require(request);
      const found = await mailSheet(db, request.params.mail);
      if (!found) throw problem('unknown_mail');
      return mailView(found);
    },
  );

  app.post(
    '/api/organiser/mails/:mail/again',
    {
      schema: {
        tags,
        security,
        summary: 'Send a mail again, now',
        description:
          'One that failed is sent itself, under its own Message-ID. One that was sent is sent again only with `copy`, as a separate mail with its own id and Message-ID, one copy at a time.',
        params: MailParams,
        body: Type.Optional(
          Type.Union([
            Type.Object({ copy: Type.Optional(Type.Boolean()) }, { additionalProperties: false }),
            Type.Null(),
          ]),
        ),
      },
    },
    async (request) => {
      const actor = await sessions.require(request);
      const outcome = await resendMail(db, request.params.mail, {
        copy: request.body?.copy ?? false,
        actor,
      });
      switch (outcome.kind) {
        case 'again':
        case 'copied':
          return { mail: outcome.mail, state: 'due' };
        case 'under_way':
          return { mail: outcome.mail ?? request.params.mail, state: 'due' };
        case 'sent':
          throw problem('mail_sent');
        case 'not_needed':
          throw problem('mail_not_needed');
        case 'unknown':
          throw problem('unknown_mail');
        default:
          return impossible(outcome, 'resend');
      }
    },
  );
}

function mailView({ createdAt, updatedAt, nextAt, ...rest }: MailSheet) {
  return {
    ...rest,
    createdAt: iso(createdAt),
    updatedAt: iso(updatedAt),
    nextAt: nextAt === null ? null : iso(nextAt),
  };
}
