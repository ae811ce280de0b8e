import type { EventNo, PartitionNo } from '../src/core/hold.ts';
import type { Arbiter, ArbiterStore, Retry, Stale, UnderEpoch } from '../src/inventory/arbiter.ts';

/** An arbiter over one store, without the router: for tests and benches whose partitions stay in that store. */
export function overStore(
  store: ArbiterStore,
  epochOf: (event: EventNo, partition: PartitionNo) => number | Promise<number>,
): Arbiter {
  async function under<Command extends { event: EventNo; partition: PartitionNo }, Outcome>(
    command: Command,
    ask: (command: UnderEpoch<Command>) => Promise<Outcome | Stale>,
  ): Promise<Exclude<Outcome, Stale> | Retry> {
    const outcome = await ask({ ...command, epoch: await epochOf(command.event, command.partition) });
    return isStale(outcome) ? { kind: 'retry', afterMs: 250 } : (outcome as Exclude<Outcome, Stale>);
  }
  return {
    find: store.find,
    project: store.project,
    sweep: store.sweep,
    snapshot: store.snapshot,
    load: (command) => under(command, store.load),
    hold: (command) => under(command, store.hold),
    recover: (command) => under(command, store.recover),
    extend: (command) => under(command, store.extend),
    release: (command) => under(command, store.release),
  };
}

function isStale(outcome: unknown): outcome is Stale {
  return (outcome as { kind: string }).kind === 'stale';
}
