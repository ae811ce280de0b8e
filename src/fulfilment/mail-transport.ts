import { createTransport } from 'nodemailer';

/** A mail ready to be sent. Addresses and texts are as the buyer and the organiser wrote them. */
export interface Mail {
  /** Without angle brackets. A repeat has the same one, so that receivers drop it. */
  messageId: string;
  from: { name: string; address: string };
  to: { name: string; address: string };
  subject: string;
  text: string;
  html: string;
  attachments: Attachment[];
}

export interface Attachment {
  filename: string;
  mimeType: string;
  bytes: Uint8Array;
}

export type SendOutcome =
  | { kind: 'taken' }
  /** The mail server refuses this mail or its address for good: a further try would be refused too. */
  | { kind: 'refused'; error: string }
  /** Not now, or unknown: the server is unreachable, busy, or rejects us rather than the mail. It may have been accepted. */
  | { kind: 'not_now'; error: string };

export interface MailTransport {
  send(mail: Mail): Promise<SendOutcome>;
  close(): void;
}

const connectionsMax = 4;
const timeoutsMs = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 60_000 };

/** Over SMTP. `url` is smtp:// or smtps://; with a password, smtp:// insists on STARTTLS. */
export function createSmtpTransport({ url }: { url: string }): MailTransport {
  const { protocol, hostname, port, username, password } = new URL(url);
  const secure = protocol === 'smtps:';
  const sender = createTransport({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port ? Number(port) : secure ? 465 : 587,
    secure,
    requireTLS: !secure && password !== '',
    ...(username && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    pool: true,
    maxConnections: connectionsMax,
    // Nothing that a mail names is fetched from a disk or from elsewhere.
    disableFileAccess: true,
    disableUrlAccess: true,
    ...timeoutsMs,
  });
  return {
    async send(mail) {
      try {
        await sender.sendMail({
          messageId: `<${mail.messageId}>`,
          // Copied, because the mail library changes the objects that it is given.
          from: { ...mail.from },
          to: { ...mail.to },
          subject: mail.subject,
          text: mail.text,
          html: mail.html,
          // No answering machine shall answer.
          headers: { 'Auto-Submitted': 'auto-generated' },
          attachments: mail.attachments.map(({ filename, mimeType, bytes }) => ({
            filename,
            contentType: mimeType,
            content: Buffer.from(bytes),
          })),
        });
        return { kind: 'taken' };
      } catch (error) {
        return outcomeOf(error as SmtpError, mail.to.address);
      }
    },
    close: () => sender.close(),
  };
}

interface SmtpError extends Error {
  code?: string;
  command?: string;
  response?: string;
  responseCode?: number;
}

/** Replies to the commands that name the recipient or carry the mail are about this mail; all other replies are about us. */
const aboutTheMail = /^(RCPT TO|DATA|BDAT)/;

function outcomeOf(error: SmtpError, recipient: string): SendOutcome {
  const { code, command = '', response, responseCode = 0 } = error;
  const reply = `${code ?? 'error'}: ${response ?? error.message}`
    .replaceAll(recipient, '(the address)')
    .slice(0, 500);
  const isFinal = responseCode >= 500 && responseCode !== 503;
  // An address that cannot be written in an envelope never reaches the server.
  const isUnsendable = command === 'API' && /^(Invalid recipient|No recipients)/.test(error.message);
  return isUnsendable || (isFinal && aboutTheMail.test(command))
    ? { kind: 'refused', error: reply }
    : { kind: 'not_now', error: reply };
}
