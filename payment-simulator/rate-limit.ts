import type { Clock } from '../src/runtime/clock.ts';
import { ApiError } from './api-error.ts';

/**
 * As many calls a second as an account may make, reads and writes together. What is beyond is refused before its key is looked
 * at. Source: https://docs.stripe.com/rate-limits.
 */
export function createRateLimit(clock: Pick<Clock, 'monotonic'>, initial: number | null) {
  let perSecond = initial;
  let tokens = initial ?? 0;
  let filledAt = clock.monotonic();
  return {
    /** Null means no limit. */
    set(next: number | null): void {
      perSecond = next;
      tokens = next ?? 0;
      filledAt = clock.monotonic();
    },
    /** Throws the answer of a call that is one too many. */
    take(): void {
      if (perSecond === null) return;
      const now = clock.monotonic();
      tokens = Math.min(perSecond, tokens + ((now - filledAt) / 1000) * perSecond);
      filledAt = now;
      if (tokens < 1) throw tooMany();
      tokens -= 1;
    },
  };
}

export type RateLimit = ReturnType<typeof createRateLimit>;

function tooMany(): ApiError {
  return new ApiError(
    429,
    {
      type: 'invalid_request_error',
      code: 'rate_limit',
      message:
        'Request rate limit exceeded. You can learn more about rate limits here https://docs.stripe.com/rate-limits.',
    },
    { headers: { 'stripe-rate-limited-reason': 'global-rate' } },
  );
}
