import { type Gap, knownNumbers } from './watermark.ts';

/**
 * How far the order of calling was from the order of arrival, measured after a sale: of each shard's numbers, the second in
 * which they arrived and the instant at which they were called, as recorded.
 */
export interface CalledCell {
  shard: number;
  /** Unix time of the issuing store's clock. */
  arrivedSecond: number;
  /** Epoch ms, Postgres's clock. */
  calledAt: number;
  /** People of that shard who arrived in that second and were called at that instant. */
  count: number;
}

export interface OrderReport {
  people: number;
  /**
   * Kendall's tau over the pairs that differ in both the second of arrival and the instant of calling: 1 when all were
   * called as they came, -1 when all were called the other way round; null when there is no such pair.
   */
  tau: number | null;
  pairs: { inOrder: number; inverted: number };
  /**
   * No visitor was called before another one who had arrived this many seconds earlier, by the recorded seconds. An inversion
   * that seconds cannot show is counted as one that happened. 0 means that none is possible.
   */
  worstInversionSeconds: number;
}

export function reportOrder(cells: readonly CalledCell[]): OrderReport {
  const seconds = [...new Set(cells.map((cell) => cell.arrivedSecond))].toSorted((a, b) => a - b);
  const rankOf = new Map(seconds.map((second, rank) => [second, rank]));
  const tree = createCounts(seconds.length);
  const called = groupByCall(cells);
  const pairs = { inOrder: 0, inverted: 0 };
  let people = 0;
  let worst = 0;
  // The latest arrival among those called so far, and the latest arrival in any other shard.
  let latest: { shard: number; second: number }[] = [];
  for (const together of called) {
    for (const cell of together) {
      const rank = rankOf.get(cell.arrivedSecond)!;
      pairs.inOrder += cell.count * tree.below(rank);
      pairs.inverted += cell.count * (people - tree.below(rank + 1));
      const other = latest.find((one) => one.shard !== cell.shard);
      if (other && other.second >= cell.arrivedSecond) {
        worst = Math.max(worst, other.second - cell.arrivedSecond + 1);
      }
    }
    for (const cell of together) {
      tree.add(rankOf.get(cell.arrivedSecond)!, cell.count);
      people += cell.count;
      latest = latestOfTwo(latest, { shard: cell.shard, second: cell.arrivedSecond });
    }
  }
  const compared = pairs.inOrder + pairs.inverted;
  const tau = compared === 0 ? null : (pairs.inOrder - pairs.inverted) / compared;
  return { people, tau, pairs, worstInversionSeconds: worst };
}

function groupByCall(cells: readonly CalledCell[]): CalledCell[][] {
  const groups = new Map<number, CalledCell[]>();
  for (const cell of cells) {
    const group = groups.get(cell.calledAt);
    if (group) group.push(cell);
    else groups.set(cell.calledAt, [cell]);
  }
  return [...groups].toSorted(([a], [b]) => a - b).map(([, group]) => group);
}

/** The latest arrivals of two different shards, later first. */
function latestOfTwo(
  known: { shard: number; second: number }[],
  one: { shard: number; second: number },
): { shard: number; second: number }[] {
  const same = known.find((other) => other.shard === one.shard);
  const rest = known.filter((other) => other.shard !== one.shard);
  const kept = same && same.second > one.second ? same : one;
  return [...rest, kept].toSorted((a, b) => b.second - a.second).slice(0, 2);
}

/** Sums of counts by rank, each step in the logarithm of their number (a Fenwick tree). */
function createCounts(size: number) {
  const sums = new Float64Array(size + 1);
  return {
    add(rank: number, count: number): void {
      for (let at = rank + 1; at <= size; at += at & -at) sums[at]! += count;
    },
    /** Counts all ranks lower than this one. */
    below(rank: number): number {
      let sum = 0;
      for (let at = rank; at > 0; at -= at & -at) sum += sums[at]!;
      return sum;
    },
  };
}

/** A shard's record: what arrived by second, and each move of its frontier; both ascending. */
export interface ShardRecord {
  shard: number;
  arrivals: readonly { second: number; last: number }[];
  moves: readonly { at: number; frontier: number }[];
  /** Ranges of numbers that may or may not have been issued. They are left out. */
  gaps: readonly Gap[];
}

/** Cuts a shard's numbers where the second of arrival or the call changes. Numbers that were never called are left out. */
export function cellsOf(record: ShardRecord): CalledCell[] {
  const cells: CalledCell[] = [];
  let from = 0;
  let move = 0;
  for (const { second, last } of record.arrivals) {
    while (from < last && move < record.moves.length) {
      const { at, frontier } = record.moves[move]!;
      const to = Math.min(last, frontier);
      const count = to > from ? knownNumbers(from, to, record.gaps) : 0;
      if (count > 0) cells.push({ shard: record.shard, arrivedSecond: second, calledAt: at, count });
      from = Math.max(from, to);
      if (from >= frontier) move += 1;
    }
  }
  return cells;
}
