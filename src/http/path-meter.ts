import type { PathWindow } from '../controller/path-signals.ts';
import type { Clock } from '../runtime/clock.ts';
import type { App } from './routes.ts';

/** Steps whose speed is ours alone; paying waits for the provider and is left out. */
const measuredRoutes = new Set(['/api/events/:event/holds', '/api/holds/:hold/order']);
const windowMs = 10_000;
const samplesMax = 5_000;

export interface PathMeter {
  /** Measures the purchase path's answers of this server. */
  watch(app: App): void;
  /** The last ten seconds; null when nothing was asked. */
  window(): PathWindow | null;
}

export function createPathMeter({ clock }: { clock: Clock }): PathMeter {
  let samples: { at: number; tookMs: number; failed: boolean }[] = [];
  return {
    watch(app) {
      app.addHook('onResponse', (request, reply, done) => {
        done();
        if (request.method !== 'POST' || !measuredRoutes.has(request.routeOptions.url ?? '')) return;
        if (samples.length >= samplesMax) samples = samples.slice(samplesMax / 2);
        samples.push({ at: clock.monotonic(), tookMs: reply.elapsedTime, failed: reply.statusCode >= 500 });
      });
    },
    window() {
      const since = clock.monotonic() - windowMs;
      samples = samples.filter(({ at }) => at >= since);
      if (samples.length === 0) return null;
      const took = samples.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
      return {
        requests: samples.length,
        latencyP95Ms: took[Math.floor(0.95 * (took.length - 1))] ?? 0,
        errorShare: samples.filter(({ failed }) => failed).length / samples.length,
      };
    },
  };
}
