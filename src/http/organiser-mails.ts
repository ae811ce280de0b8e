import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { mailTroubles, tryMailAgain } from '../fulfilment/mails.ts';
import { iso } from './answers.ts';
import { problem } from './errors.ts';
import type { OrganiserDeps } from './organiser.ts';
import { createOrganiserSessions } from './organiser-sessions.ts';
import { uuidPattern } from './schemas.ts';

const security = [{ organiser: [] }];
const tags = ['organiser'];
const listedMax = 500;

/** The operator's list of mails that could not be sent, and the way to send one again. */
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
        summary: 'Mails that were refused or not taken yet',
        description: `The newest ${listedMax}; \`count\` is of all. \`refused\`: for good, until it is sent again. \`due\`: tried again by itself.`,
      },
    },
    async (request) => {
      await sessions.require(request);
      const { count, mails } = await mailTroubles(db, listedMax);
      return {
        count,
        mails: mails.map((mail) => ({
          ...mail,
          createdAt: iso(mail.createdAt),
          updatedAt: iso(mail.updatedAt),
        })),
      };
    },
  );

  app.post(
    '/api/organiser/mails/:mail/again',
    {
      schema: {
        tags,
        security,
        summary: 'Send a mail of that list again, now',
        params: Type.Object({ mail: Type.String({ pattern: uuidPattern }) }),
      },
    },
    async (request) => {
      const actor = await sessions.require(request);
      if (!(await tryMailAgain(db, request.params.mail, actor))) throw problem('not_found');
      return { mail: request.params.mail, state: 'due' };
    },
  );
}
