import http from 'node:http';
import https from 'node:https';
import type { LookupFunction } from 'node:net';
import type { Clock } from '../runtime/clock.ts';
import { AddressRefused, type AddressRule, allowedTarget, type Resolve } from './webhook-addresses.ts';
import type { TakenDelivery } from './webhook-endpoints.ts';
import { attemptHeader, deliveryHeader, signatureHeader, signatureOf } from './webhook-signature.ts';

/**
 * The result of one attempt: accepted (2xx), or why not, in our words. It contains nothing that the receiver wrote except its
 * status.
 */
export interface SendOutcome {
  status: number | null;
  /** Null if it was accepted. */
  error: string | null;
  durationMs: number;
}

export interface WebhookSenderOptions extends AddressRule {
  clock: Clock;
  /** Replaces the resolvers, for tests. */
  resolve?: Resolve;
  /** From the look-up of the name to the answer's head; 10 s by default. */
  timeoutMs?: number;
}

export type SendWebhook = (delivery: TakenDelivery, signal?: AbortSignal) => Promise<SendOutcome>;

export const webhookTimeoutMs = 10_000;
/** Bytes of a response's body that are read so that the receiver sees an orderly end; then the connection is cut. */
const answerBytesMax = 64 * 1024;
const headBytesMax = 16 * 1024;

const errorWords: Record<string, string> = {
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection was cut before an answer.',
  EPIPE: 'The connection was cut before an answer.',
  ENOTFOUND: 'The name is not known.',
  EAI_AGAIN: 'The name servers did not answer.',
  ETIMEDOUT: 'No connection was made in time.',
  EHOSTUNREACH: 'The address cannot be reached.',
  ENETUNREACH: 'The address cannot be reached.',
  CERT_HAS_EXPIRED: 'The certificate has expired.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'The certificate is self-signed.',
  SELF_SIGNED_CERT_IN_CHAIN: 'The certificate is self-signed.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'The certificate’s issuer is not known.',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'The certificate’s issuer is not known.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate is for another name.',
  HPE_HEADER_OVERFLOW: 'The answer’s head is too large.',
};

/** Sends one delivery once. Never rejects: whatever goes wrong is an outcome. */
export function createWebhookSender(options: WebhookSenderOptions): SendWebhook {
  const { clock, timeoutMs = webhookTimeoutMs } = options;

  return async (delivery, stop) => {
    const began = clock.monotonic();
    const ended = (status: number | null, error: string | null): SendOutcome => ({
      status,
      error,
      durationMs: Math.round(clock.monotonic() - began),
    });
    const giveUp = new AbortController();
    const cancelTimer = clock.after(timeoutMs, () => giveUp.abort());
    const onStop = (): void => giveUp.abort();
    stop?.addEventListener('abort', onStop, { once: true });
    if (stop?.aborted) giveUp.abort();
    try {
      const { url, addresses } = await unlessAborted(
        giveUp.signal,
        allowedTarget(delivery.url, options, giveUp.signal),
      );
      const status = await post(url, delivery, { addresses, signal: giveUp.signal, now: clock.now() });
      return ended(status, answerFault(status));
    } catch (error) {
      if (stop?.aborted) return ended(null, 'We stopped before an answer came.');
      if (giveUp.signal.aborted) return ended(null, `No answer within ${timeoutMs / 1000} s.`);
      return ended(null, wordsOf(error));
    } finally {
      cancelTimer();
      stop?.removeEventListener('abort', onStop);
    }
  };
}

function answerFault(status: number): string | null {
  if (status >= 200 && status <= 299) return null;
  if (status >= 300 && status <= 399) return `Answered ${status}: redirects are not followed.`;
  return `Answered ${status}.`;
}

function wordsOf(error: unknown): string {
  if (error instanceof AddressRefused) return error.message;
  const { code = '', errors } = error as { code?: string; errors?: unknown[] };
  // Several addresses were tried.
  if (code === '' && errors?.length) return wordsOf(errors[0]);
  return errorWords[code] ?? 'The delivery could not be made.';
}

/** A look-up that cannot be cancelled is left behind. */
function unlessAborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** It ended without an answer and without a fault of its own. */
class ConnectionCut extends Error {
  override readonly name = 'ConnectionCut';
  readonly code = 'ECONNRESET';
}

interface PostParts {
  addresses: { address: string; family: 4 | 6 }[];
  signal: AbortSignal;
  /** Epoch ms, signed: receivers refuse what is old. */
  now: number;
}

/** Resolves with the answer's status once its body was read away, or cut at the bound or the time limit. */
function post(url: URL, delivery: TakenDelivery, parts: PostParts): Promise<number> {
  const { addresses, signal, now } = parts;
  const body = Buffer.from(delivery.body);
  // Whatever the connection asks, the answer is what was looked at.
  const lookup: LookupFunction = (_host, wish, callback) => {
    if (wish.all) callback(null, addresses);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  };
  const { request } = url.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    /** Said by the answer's head: how its body ends, or that it does not, changes nothing. */
    let status: number | undefined;
    const ended = (error: Error): void => (status === undefined ? reject(error) : resolve(status));
    const sent = request(
      url,
      {
        method: 'POST',
        // A new connection each time: a connection that was kept could lead to an address that the name no
        // longer has.
        agent: false,
        lookup,
        signal,
        maxHeaderSize: headBytesMax,
        headers: {
          'content-type': 'application/json',
          'content-length': body.length,
          'user-agent': 'Onsale-Webhooks/1',
          connection: 'close',
          [deliveryHeader]: delivery.delivery,
          [attemptHeader]: delivery.attempt,
          [signatureHeader]: signatureOf(delivery.secrets, Math.floor(now / 1000), delivery.body),
        },
      },
      (answer) => {
        status = answer.statusCode;
        let read = 0;
        answer.on('data', (chunk: Buffer) => {
          read += chunk.length;
          if (read > answerBytesMax) answer.destroy();
        });
        answer.on('error', ended);
      },
    );
    // A receiver that wants to speak something else on the connection has answered too.
    sent.on('upgrade', (answer, socket) => {
      status = answer.statusCode;
      socket.destroy();
    });
    sent.on('error', ended);
    // Called for every end, because some ends are reported in no other way.
    sent.on('close', () => ended(new ConnectionCut()));
    sent.end(body);
  });
}
