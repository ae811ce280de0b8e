import { once } from 'node:events';
import net from 'node:net';
import PostalMime, { type Email } from 'postal-mime';

/** A mail server with scripted responses that keeps the mails it accepts. */
export interface TestSmtp {
  url: string;
  /** As they came, the newest last. */
  mails: (Email & { recipient: string })[];
  /**
   * Response to the next conversations: to RCPT TO, to the mail itself, or the mail is accepted and the connection
   * cut before the response. Null accepts everything.
   */
  behave(as: { rcpt?: string; data?: string; cutAfterData?: boolean } | null): void;
  /** Answers of this kind wait until `release`: to RCPT TO, or to a mail that was taken. Returns how many wait. */
  hold(moment: 'addressed' | 'taken'): { waiting(): number; release(): void };
  /** Refuses connections until `open`. */
  close(): Promise<void>;
  open(): Promise<void>;
}

/** On a port of its own for its whole life (RFC 5321, as much of it as a sending program needs). */
export async function startTestSmtp(t: { after(run: () => Promise<void>): void }): Promise<TestSmtp> {
  const mails: TestSmtp['mails'] = [];
  const sockets = new Set<net.Socket>();
  let behaviour: Parameters<TestSmtp['behave']>[0] = null;
  let held: { moment: 'addressed' | 'taken'; answers: (() => void)[] } | null = null;
  const answer = (moment: 'addressed' | 'taken', say: () => void): void => {
    if (held?.moment === moment) held.answers.push(say);
    else say();
  };
  let port = 0;
  let server: net.Server | null = null;

  function converse(socket: net.Socket): void {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    socket.setEncoding('latin1');
    let buffered = '';
    let recipient = '';
    let inData = false;
    const say = (line: string): void => void socket.write(`${line}\r\n`);
    say('220 test ESMTP');
    socket.on('data', (chunk: string) => {
      buffered += chunk;
      for (;;) {
        const end = buffered.indexOf(inData ? '\r\n.\r\n' : '\r\n');
        if (end < 0) return;
        const text = buffered.slice(0, end);
        buffered = buffered.slice(end + (inData ? 5 : 2));
        if (inData) {
          inData = false;
          void take(text, recipient, socket, say);
          continue;
        }
        const verb = text.slice(0, 4).toUpperCase();
        if (verb === 'EHLO' || verb === 'HELO') say('250 test');
        else if (verb === 'RCPT') {
          recipient = /<([^>]*)>/.exec(text)?.[1] ?? '';
          answer('addressed', () => say(behaviour?.rcpt ?? '250 ok'));
        } else if (verb === 'DATA') {
          inData = true;
          say('354 go on');
        } else if (verb === 'QUIT') {
          say('221 bye');
          socket.end();
        } else say('250 ok');
      }
    });
  }

  async function take(
    text: string,
    recipient: string,
    socket: net.Socket,
    say: (line: string) => void,
  ): Promise<void> {
    const refusal = behaviour?.data;
    const cut = behaviour?.cutAfterData;
    if (refusal) return say(refusal);
    const mail = await PostalMime.parse(Buffer.from(text.replace(/^\.\./gm, '.'), 'latin1'));
    mails.push({ ...mail, recipient });
    if (cut) socket.destroy();
    else answer('taken', () => say('250 taken'));
  }

  async function open(): Promise<void> {
    server = net.createServer(converse).listen(port, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as net.AddressInfo);
  }

  async function close(): Promise<void> {
    const closing = server;
    server = null;
    if (!closing) return;
    closing.close();
    for (const socket of sockets) socket.destroy();
    await once(closing, 'close');
  }

  await open();
  t.after(close);
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails,
    behave: (as) => {
      behaviour = as;
    },
    hold(moment) {
      const holding = { moment, answers: [] as (() => void)[] };
      held = holding;
      return {
        waiting: () => holding.answers.length,
        release() {
          held = null;
          for (const say of holding.answers.splice(0)) say();
        },
      };
    },
    close,
    open,
  };
}
