import { type Static, Type } from 'typebox';
import { impossible } from '../core/outcome.ts';
import { problem } from '../core/problems.ts';
import { type MailSheet, mailSheet, mailsOfOrder, mailTroubles, resendMail } from '../fulfilment/mails.ts';
import type { OperateDeps } from './deps.ts';
import { Instant, iso, nullable, operation, uuidPattern } from './operation.ts';

// Mails that could not be sent, what became of any mail, and the way to send one again.

const listedMax = 500;
const Uuid = Type.String({ pattern: uuidPattern });
const MailParams = Type.Object({ mail: Uuid });

const MailView = Type.Object({
  mail: Type.String(),
  order: Type.String(),
  event: Type.String(),
  what: Type.String(),
  state: Type.Enum(['due', 'sent', 'refused', 'not_needed']),
  attempts: Type.Integer(),
  error: nullable(Type.String()),
  createdAt: Instant,
  updatedAt: Instant,
  copyOf: nullable(Type.String()),
  nextAt: nullable({ ...Instant, description: 'The next attempt; null if there is no automatic one.' }),
});

export const listMails = operation({
  id: 'listMails',
  method: 'GET',
  path: '/mails',
  summary: 'Mails that were refused or not taken yet; with `order`, all of that order',
  description: `The newest ${listedMax}; \`count\` is of all. \`refused\`: for good, until it is sent again. \`due\`: tried again automatically at \`nextAt\`, or given up where that is null.`,
  query: Type.Object({ order: Type.Optional(Uuid) }),
  output: Type.Object({ count: Type.Integer(), mails: Type.Array(MailView) }),
  problems: [],
  async run({ db }: OperateDeps, { order }) {
    if (order !== undefined) {
      const mails = (await mailsOfOrder(db, order)).map(mailView);
      return { count: mails.length, mails };
    }
    const { count, mails } = await mailTroubles(db, listedMax);
    return { count, mails: mails.map(mailView) };
  },
});

export const getMail = operation({
  id: 'getMail',
  method: 'GET',
  path: '/mails/:mail',
  summary: 'What became of a mail',
  params: MailParams,
  output: MailView,
  problems: ['unknown_mail'],
  async run({ db }: OperateDeps, { mail }) {
    const found = await mailSheet(db, mail);
    if (!found) throw problem('unknown_mail');
    return mailView(found);
  },
});

export const sendMailAgain = operation({
  id: 'sendMailAgain',
  method: 'POST',
  path: '/mails/:mail/again',
  summary: 'Send a mail again, now',
  description:
    'One that failed is sent itself, under its own Message-ID. One that was sent is sent again only with `copy`, as a separate mail with its own id and Message-ID, one copy at a time.',
  params: MailParams,
  body: Type.Object({ copy: Type.Optional(Type.Boolean()) }, { additionalProperties: false }),
  bodyOptional: true,
  output: Type.Object({ mail: Type.String(), state: Type.Literal('due') }),
  problems: ['unknown_mail', 'mail_sent', 'mail_not_needed'],
  async run({ db }: OperateDeps, { mail, copy = false }, { actor }) {
    const outcome = await resendMail(db, mail, { copy, actor });
    switch (outcome.kind) {
      case 'again':
      case 'copied':
        return { mail: outcome.mail, state: 'due' as const };
      case 'under_way':
        return { mail: outcome.mail ?? mail, state: 'due' as const };
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
});

function mailView({ createdAt, updatedAt, nextAt, ...rest }: MailSheet): Static<typeof MailView> {
  return { ...rest, createdAt: iso(createdAt), updatedAt: iso(updatedAt), nextAt: iso(nextAt) };
}

export const mailOperations = [listMails, getMail, sendMailAgain];
