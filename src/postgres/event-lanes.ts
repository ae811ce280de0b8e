import type { EventNo } from '../core/hold.ts';
import type { Clock } from '../runtime/clock.ts';
import { StoreFault } from '../runtime/store-fault.ts';

/** A call that waits longer than this for its event's turn fails with `store_busy`. */
const turnWaitMs = 5_000;
/** Each event may use this many times the number of free connections: a single event gets three quarters of them. */
const shareOfFree = 3;

export interface EventLanes {
  /** Runs the call as soon as its event may use another connection. Without an event it runs at once. */
  run<Value>(event: EventNo | undefined, call: () => Promise<Value>): Promise<Value>;
}

interface Lane {
  running: number;
  /** Callbacks that start the waiting calls, in order of arrival. */
  waiting: (() => void)[];
}

/**
 * Keeps one event from using all connections of a pool. Calls of an event beyond its share wait here, in order, so that a
 * connection is left for the next event. The share depends on the free connections, so that two busy events leave each other room.
 */
export function createEventLanes(options: { connections: number; clock: Pick<Clock, 'after'> }): EventLanes {
  const { connections, clock } = options;
  const spare = connections > 2 ? 1 : 0;
  const lanes = new Map<EventNo, Lane>();
  let running = 0;

  function mayRun({ running: own }: Lane): boolean {
    const free = connections - running;
    return own === 0 || (free > spare && own < shareOfFree * free);
  }

  function begin(lane: Lane): void {
    lane.running += 1;
    running += 1;
  }

  function end(event: EventNo | undefined, lane: Lane): void {
    lane.running -= 1;
    running -= 1;
    if (event !== undefined && lane.running === 0 && lane.waiting.length === 0) lanes.delete(event);
    for (const each of lanes.values()) {
      while (each.waiting.length > 0 && mayRun(each)) {
        begin(each);
        each.waiting.shift()!();
      }
    }
  }

  function turn(event: EventNo, lane: Lane): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        cancel();
        resolve();
      };
      const cancel = clock.after(turnWaitMs, () => {
        lane.waiting.splice(lane.waiting.indexOf(start), 1);
        reject(new StoreFault('store_busy', `calls of event ${event} wait for each other`));
      });
      lane.waiting.push(start);
    });
  }

  return {
    async run(event, call) {
      const known = event === undefined ? undefined : lanes.get(event);
      const lane: Lane = known ?? { running: 0, waiting: [] };
      if (event !== undefined) lanes.set(event, lane);
      if (event !== undefined && (lane.waiting.length > 0 || !mayRun(lane))) await turn(event, lane);
      else begin(lane);
      try {
        return await call();
      } finally {
        end(event, lane);
      }
    },
  };
}
