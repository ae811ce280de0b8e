import { createHmac } from 'node:crypto';
import type { Random } from '../runtime/random.ts';

/**
 * `Onsale-Signature: t=1700000000,v1=9f86…,v1=60303a…`: HMAC-SHA256, as hex, over `t`, a dot and the body's exact bytes, once
 * for each secret that counts. The same scheme as Stripe's, so that its verifiers fit; `id` in the body is signed with it.
 */
export const signatureHeader = 'onsale-signature';
/** The delivery's id, the same in every attempt; also `id` in the body. */
export const deliveryHeader = 'onsale-delivery';
/** From 1 on. */
export const attemptHeader = 'onsale-attempt';

export function signatureOf(secrets: readonly string[], atSeconds: number, body: string): string {
  const signed = `${atSeconds}.${body}`;
  const signatures = secrets.map(
    (secret) => `v1=${createHmac('sha256', secret).update(signed).digest('hex')}`,
  );
  return [`t=${atSeconds}`, ...signatures].join(',');
}

/** 256 bits of chance. The text as a whole is the key. */
export function newWebhookSecret(random: Random): string {
  return `whsec_${Buffer.from(random.bytes(32)).toString('base64url')}`;
}
