import type { EventNo, PartitionNo } from '../../core/hold.ts';
import { assert } from '../../core/outcome.ts';
import type { RedisArg, RedisStore } from '../../redis/store.ts';
import type { Clock } from '../../runtime/clock.ts';
import { StoreFault } from '../../runtime/store-fault.ts';
import type {
  ArbiterStore,
  DecidedPhase,
  ExtendCommand,
  HoldCommand,
  LoadCommand,
  ProjectCommand,
  ReleaseCommand,
  SeatChange,
  Snapshot,
  Stale,
  UnderEpoch,
} from '../arbiter.ts';
import { ascending, type CheckedClaim, checkedClaim } from '../claims.ts';
import type { PartitionEpoch, RebuildableArbiter, StoredHold } from '../modes.ts';
import {
  batchOf,
  doneOf,
  extendOutcomeOf,
  foundOf,
  holdOutcomeOf,
  probeOf,
  projectedOf,
  recoverOutcomeOf,
  releaseOutcomeOf,
  snapshotOf,
  sweptOf,
} from './answers.ts';
import { type Batcher, createBatcher } from './batcher.ts';
import { claimKinds, heldStates, phaseNo, stateNo } from './codes.ts';
import { createFloors } from './floors.ts';
import { partitionKeys, partitionTag, probeKey, readScripts, type ScriptName } from './scripts.ts';

export interface RedisArbiterOptions {
  store: RedisStore;
  /** Prefix of all keys, because several engines may share a Redis. */
  prefix: string;
  clock: Pick<Clock, 'after'>;
  /** Claims in one call at most; 1 sends each alone. */
  claimsPerCall?: number;
}

/** So that a call of each kind is over within a few milliseconds: Redis does nothing else meanwhile. */
const seatsPerLoad = 2_000;
const changesPerProject = 1_000;
const holdsPerProject = 200;
const holdsPerRemember = 100;
const sweptPerCall = 200;
const lapsedPerSnapshot = 1_000;
const sweptPerTry = 10_000;
const snapshotTries = 20;
/** Seat numbers of a partition; each takes a byte and a bit, whether it is the partition's or not. */
const seatNoMax = 1_000_000;
/** Where a claim may look: what no text of digits could carry never gets into a call. */
const claimedNoMax = 2 ** 31;
/** Seats of a hold, as calls of extends and releases are weighed. */
const weightOfHold = 8;
/** A not-after that no clock reaches. */
const never = Number.MAX_SAFE_INTEGER;

/**
 * The arbiter in Redis: one script of lua/ an operation, each one atomic step on the node that serves the partition's hash
 * tag. Claims, extends and releases that are asked together share calls. Not an outcome but a StoreFault where an operation
 * without an epoch finds a partition that does not answer.
 */
export function createRedisArbiter(options: RedisArbiterOptions): RebuildableArbiter {
  const { store, prefix, clock, claimsPerCall } = options;
  const scripts = readScripts();
  const floors = createFloors();

  const run: Run = (name, at, args) => {
    const tag = partitionTag(prefix, at.event, at.partition);
    const keys = partitionKeys(tag);
    if (name === 'probe' || name === 'begin') keys.push(probeKey(tag));
    return store.call(tag, scripts[name], keys, [...floors.of(at), ...args]);
  };

  /** The receipt proves a number that was granted under its epoch: a store that has granted fewer is an older copy. */
  function raiseFloor({
    receipt,
    ...at
  }: PartitionEpoch & { receipt?: { epoch: number; grant: number } }): void {
    if (receipt?.epoch === at.epoch) floors.raise(at, receipt.grant);
  }

  /** Requests to one partition under one epoch go together. */
  function batched<Request>(
    name: ScriptName,
    placeOf: (request: Request) => PartitionEpoch,
    pushFields: (request: Request, into: RedisArg[]) => void,
    weightOf: (request: Request) => number,
  ): (request: Request) => Promise<unknown> {
    const batcher: Batcher<Request, unknown> = createBatcher({
      clock,
      weightOf,
      requestsMax: claimsPerCall,
      send: async (requests) => {
        const { event, partition, epoch } = placeOf(requests[0]!);
        const at = { event, partition, epoch };
        const args: RedisArg[] = [];
        for (const request of requests) pushFields(request, args);
        const outcome = batchOf(await run(name, at, args), requests.length);
        if (isStale(outcome)) return requests.map(() => outcome);
        floors.raise(at, outcome.grant);
        return outcome.answers;
      },
    });
    return (request) => {
      const { event, partition, epoch } = placeOf(request);
      return batcher.ask(`${event}:${partition}:${epoch}`, request);
    };
  }

  const askHold = batched<AskedClaim>('hold', ({ command }) => command, claimFields, weightOfClaim);
  const askExtend = batched<UnderEpoch<ExtendCommand>>(
    'extend',
    (command) => command,
    ({ hold, visitor, order }, into) => void into.push(hold, visitor, order),
    () => weightOfHold,
  );
  const askRelease = batched<UnderEpoch<ReleaseCommand>>(
    'release',
    (command) => command,
    ({ hold, visitor, force }, into) => void into.push(hold, visitor, force ?? ''),
    () => weightOfHold,
  );

  async function snapshot(event: EventNo, partition: PartitionNo): Promise<Snapshot> {
    for (let i = 0; i < snapshotTries; i++) {
      const taken = snapshotOf(await run('snapshot', { event, partition }, [lapsedPerSnapshot]));
      if (!taken) throw notAnswering(event, partition);
      if (!taken.unswept) return taken.snapshot;
      await sweep(event, partition, sweptPerTry);
    }
    throw new StoreFault('store_busy', `partition ${partition} of event ${event} waits for its sweep`);
  }

  async function sweep(event: EventNo, partition: PartitionNo, limit: number): Promise<number> {
    let swept = 0;
    while (swept < limit) {
      const most = Math.min(sweptPerCall, limit - swept);
      const { count, more } = sweptOf(await run('sweep', { event, partition }, [most]));
      assert(count <= most, `at most ${most} swept`);
      swept += count;
      if (!more && count < most) break;
    }
    return swept;
  }

  return {
    hold: async (command) => {
      const claim = checkedClaim(checkedIds(command, [command.hold, command.replaces]));
      checkedFields(command, claim);
      const answer = await askHold({ command, claim });
      return isStale(answer) ? answer : holdOutcomeOf(answer, command, claim.quantity);
    },
    extend: async (command) => {
      raiseFloor(command);
      const answer = await askExtend(checkedIds(command, [command.hold, command.order]));
      return isStale(answer) ? answer : extendOutcomeOf(answer, command);
    },
    release: async (command) => {
      raiseFloor(command);
      const answer = await askRelease(checkedIds(command, [command.hold, command.force ?? null]));
      return isStale(answer) ? answer : releaseOutcomeOf(answer);
    },
    recover: async ({ receipt, ...at }) => {
      checkedIds(at, [receipt.hold]);
      raiseFloor({ ...at, receipt });
      const answer = await run('recover', at, [receipt.hold, receipt.visitor]);
      return recoverOutcomeOf(answer, { ...at, visitor: receipt.visitor });
    },
    find: async (event, partition, hold) => {
      const at = { event, partition };
      const found = foundOf(await run('find', at, [hold]), at);
      if (found.epoch === 0) throw notAnswering(event, partition);
      return found.hold;
    },
    load: (command) => load(run, command),
    project: async (command) => {
      const at = { event: command.event, partition: command.partition };
      const projected = await project(run, command);
      if (!projected) throw notAnswering(at.event, at.partition);
      floors.raise({ ...at, epoch: projected.epoch }, projected.grant);
      return true;
    },
    sweep,
    snapshot,
    begin: async (at) => doneOf(await run('begin', checkedEpoch(at), [])) ?? { kind: 'begun' },
    remember: (command) => remember(run, command),
    open: async ({ phase, lastGrant, ...at }) => {
      const args = [...phaseFields(phase), lastGrant];
      return doneOf(await run('open', checkedEpoch(at), args)) ?? { kind: 'opened' };
    },
    probe: async (event, partition) => {
      const projected = probeOf(await run('probe', { event, partition }, []));
      floors.raise({ event, partition, epoch: projected.epoch }, projected.grant);
      return projected;
    },
    floor: (at, atLeast) => floors.raise(at, atLeast),
  };
}

/** Without `epoch`: under whichever epoch the store has. */
type Place = { event: EventNo; partition: PartitionNo; epoch?: number };
type Run = (name: ScriptName, at: Place, args: readonly RedisArg[]) => Promise<unknown>;
interface AskedClaim {
  command: UnderEpoch<HoldCommand>;
  claim: CheckedClaim;
}

const load = async (run: Run, command: UnderEpoch<LoadCommand>): ReturnType<ArbiterStore['load']> => {
  const { seats, phase, ...at } = checkedEpoch(command);
  const lists = chunksOf(changeFields(seats), seatsPerLoad * 3);
  for (const list of lists.length > 0 ? lists : [[]]) {
    const stale = doneOf(await run('load', at, [...phaseFields(phase), list.join(' ')]));
    if (stale) return stale;
  }
  return { kind: 'loaded', seats: seats.length };
};

/** In one step unless it is very large: then the holds' part goes first. */
const project = async (
  run: Run,
  { event, partition, changes, ordered, ended, phase }: ProjectCommand,
): Promise<ReturnType<typeof projectedOf>> => {
  const fields = changeFields(changes);
  const holds = [
    ...ordered.map((hold) => ({ hold, ordered: true })),
    ...ended.map((hold) => ({ hold, ordered: false })),
  ];
  const holdLists = chunksOf(holds, holdsPerProject);
  const changeLists = chunksOf(fields, changesPerProject * 3);
  const calls = Math.max(holdLists.length, changeLists.length, 1);
  let projected: ReturnType<typeof projectedOf> = null;
  for (let i = 0; i < calls; i++) {
    const list = holdLists[i] ?? [];
    const args = [
      ...phaseFields(phase),
      (changeLists[i] ?? []).join(' '),
      list.filter((one) => one.ordered).length,
    ];
    projected = projectedOf(
      await run('project', { event, partition }, [...args, ...list.map((one) => one.hold)]),
    );
    if (!projected) break;
  }
  return projected;
};

const remember = async (
  run: Run,
  command: PartitionEpoch & { holds: StoredHold[] },
): ReturnType<RebuildableArbiter['remember']> => {
  const { holds, ...at } = checkedEpoch(command);
  const lists = chunksOf(holds, holdsPerRemember);
  for (const list of lists.length > 0 ? lists : [[]]) {
    const stale = doneOf(await run('remember', at, list.flatMap(storedFields)));
    if (stale) return stale;
  }
  return { kind: 'remembered' };
};

/** See lua/hold.lua. */
function claimFields({ command, claim }: AskedClaim, into: RedisArg[]): void {
  const { groups, units, quantity } = claim;
  const seats = units ? `${units.first} ${units.count} ${units.start}` : seatsText(groups);
  const notAfter = command.notAfter === null ? never : Math.max(0, Math.floor(command.notAfter));
  const kind = claimKinds.indexOf(claim.kind) + 1;
  into.push(
    command.hold,
    command.visitor,
    command.holder,
    command.request,
    command.replaces ?? '',
    command.address?.id ?? '',
    `${kind} ${quantity} ${command.ttlMs} ${command.seatsMax} ${notAfter} ${command.address?.seatsMax ?? 0} ${seats}`,
  );
}

const seatsText = (groups: readonly number[][]): string =>
  groups.length === 1 ? groups[0]!.join(' ') : groups.map((group) => group.join(' ')).join(' ');

/** Seats that have to be looked at when the claim is refused; of units bytes of the bitmap. */
function weightOfClaim({ claim: { groups, units, quantity } }: AskedClaim): number {
  return units ? quantity + Math.ceil(units.count / 64) : groups.length * quantity;
}

/** See lua/remember.lua. */
function storedFields(stored: StoredHold): RedisArg[] {
  const { hold, visitor, holder, request, state, grantedAt, deadline, grant, order, address } = stored;
  const no = heldStates.indexOf(state) + 1;
  assert(no > 0 && idForm.test(hold) && visitor !== '', `hold ${hold} in a known state, not ${state}`);
  assert(
    [grantedAt, deadline, grant].every((value) => Number.isSafeInteger(value) && value >= 0),
    `hold ${hold} with whole times`,
  );
  const seats = seatNos(ascending(stored.seats)).join(' ');
  return [hold, visitor, holder, request, no, grantedAt, deadline, grant, order ?? '', address ?? '', seats];
}

/** Seat, version, code; seat, version, code … No seat twice. */
function changeFields(changes: readonly SeatChange[]): number[] {
  seatNos(ascending(changes.map((change) => change.seat)));
  return changes.flatMap(({ seat, version, state }) => {
    assert(Number.isSafeInteger(version) && version >= 0 && stateNo(state) >= 0, `a decision about ${seat}`);
    return [seat, version, stateNo(state)];
  });
}

function phaseFields(phase: DecidedPhase | undefined): RedisArg[] {
  if (!phase) return ['', ''];
  assert(
    phaseNo(phase.phase) >= 0 && Number.isSafeInteger(phase.version),
    'a known phase and a version of it',
  );
  return [phaseNo(phase.phase), phase.version];
}

function seatNos(seats: readonly number[]): readonly number[] {
  assert((seats.at(-1) ?? 0) <= seatNoMax, `seat ${seats.at(-1)} within ${seatNoMax}`);
  return seats;
}

function checkedEpoch<At extends { epoch: number }>(at: At): At {
  assert(Number.isSafeInteger(at.epoch) && at.epoch > 0, `epoch ${at.epoch}`);
  return at;
}

const idForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Runs before requests are batched, because one that cannot be sent must not fail the others of its batch. */
function checkedIds<Command extends { epoch: number }>(
  command: Command,
  ids: readonly (string | null)[],
): Command {
  assert(Number.isSafeInteger(command.epoch), `epoch ${command.epoch}`);
  for (const id of ids) assert(id === null || idForm.test(id), `id ${id} in its form`);
  return command;
}

function checkedFields(
  { visitor, holder, notAfter, seatsMax }: UnderEpoch<HoldCommand>,
  { groups, units }: CheckedClaim,
): void {
  assert(visitor !== '' && holder !== '', 'a claim of somebody');
  assert(notAfter === null || (Number.isFinite(notAfter) && notAfter < never), `not after ${notAfter}`);
  assert(seatsMax <= never, `seatsMax ${seatsMax}`);
  const last = units ? units.first + units.count : Math.max(...groups.map((group) => group.at(-1)!));
  assert(last <= claimedNoMax, `seats within ${claimedNoMax}`);
}

function isStale(answer: unknown): answer is Stale {
  return typeof answer === 'object' && answer !== null && 'kind' in answer && answer.kind === 'stale';
}

function chunksOf<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}

function notAnswering(event: EventNo, partition: PartitionNo): StoreFault {
  return new StoreFault('store_unavailable', `partition ${partition} of event ${event} is not open in Redis`);
}
