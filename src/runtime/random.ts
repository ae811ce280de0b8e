import { randomBytes, randomInt, randomUUID } from 'node:crypto';

/** Chance as an argument: nothing outside `runtime/` draws a random value of its own. */
export interface Random {
  bytes(length: number): Uint8Array;
  /** A whole number in [0, max). */
  int(max: number): number;
  uuid(): string;
}

/** Cryptographically strong; use for secrets too. */
export const systemRandom: Random = {
  bytes: (length) => randomBytes(length),
  int: (max) => randomInt(max),
  uuid: () => randomUUID(),
};

/** Repeatable chance for tests and simulation (xorshift32); never for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed | 0 || 0x9e3779b9;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  const bytes = (length: number): Uint8Array => Uint8Array.from({ length }, () => next() & 0xff);
  return {
    bytes,
    int: (max) => next() % max,
    uuid: () => {
      const hex = Buffer.from(bytes(16)).toString('hex');
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
    },
  };
}
