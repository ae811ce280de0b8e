import type { Clock } from '../runtime/clock.ts';
import type { PaymentProvider } from './provider.ts';

/** Calls to the provider over a process's last seconds. */
export interface ProviderCalls {
  calls: number;
  /** Calls among them that were rejected because there were too many. */
  refused: number;
}

export interface ProviderMeter {
  /** Null if no call was made. */
  window(): ProviderCalls | null;
}

const windowMs = 5_000;
const counted = new Set<keyof PaymentProvider>([
  ...(['open', 'authorise', 'capture', 'void', 'refund'] as const),
  ...(['refunds', 'disputes', 'lookup', 'list', 'listRefunds', 'listDisputes'] as const),
]);

/** The same provider, whose calls are counted. */
export function metered(
  provider: PaymentProvider,
  clock: Pick<Clock, 'monotonic'>,
): { provider: PaymentProvider; meter: ProviderMeter } {
  let seconds: { at: number; calls: number; refused: number }[] = [];

  function count(isRefused: boolean): void {
    const at = Math.floor(clock.monotonic() / 1_000);
    const last = seconds.at(-1);
    const now = last?.at === at ? last : { at, calls: 0, refused: 0 };
    if (now !== last) seconds.push(now);
    now.calls += 1;
    if (isRefused) now.refused += 1;
  }

  function window(): ProviderCalls | null {
    const since = Math.floor((clock.monotonic() - windowMs) / 1_000);
    seconds = seconds.filter(({ at }) => at > since);
    if (seconds.length === 0) return null;
    const sum = (what: 'calls' | 'refused') => seconds.reduce((all, one) => all + one[what], 0);
    return { calls: sum('calls'), refused: sum('refused') };
  }

  const counting = new Proxy(provider, {
    get(target, name: keyof PaymentProvider) {
      const value = target[name];
      if (typeof value !== 'function' || !counted.has(name)) return value;
      return async (...values: unknown[]) => {
        const answer = await (value as (...given: unknown[]) => Promise<Answer>).apply(target, values);
        count(isTooMany(answer));
        return answer;
      };
    },
  });
  return { provider: counting, meter: { window } };
}

type Answer = { kind: string; reason?: string; detail?: string };

/** A lock on one object has the same status and says nothing about the account's limit. */
function isTooMany({ kind, reason, detail }: Answer): boolean {
  return kind === 'unknown' && reason === 'rate_limited' && !detail?.includes('lock_timeout');
}
