/**
 * The order in which a queue of several shards is called. Each shard numbers its own arrivals in strict order; across shards
 * the order is by time of arrival, which is known by the second. So the next to be called are all who arrived before an
 * instant T, on every shard, and T moves forward.
 *
 * The bound: of two people, the one who is called earlier arrived less than one second after the other, by the clocks of
 * the stores that numbered them; what those clocks differ by comes on top.
 */
export interface ShardLine {
  /** The last number called, and the last one issued. */
  frontier: number;
  last: number;
  /** Until when `last` and `arrivals` tell all: epoch ms by the clock of the shard's store. */
  readAt: number;
  /**
   * The last number that each second had got, ascending; seconds that are called may be left out. Numbers above the last
   * entry came in the second of `readAt`.
   */
  arrivals: readonly { second: number; last: number }[];
  /**
   * Ranges of numbers, ascending, that may or may not have been issued. They are not counted, and are passed in one step when
   * their turn comes.
   */
  gaps: readonly Gap[];
}
export type Gap = readonly [first: number, last: number];

/** The numbers of one shard that came within one second: (from, to]. */
interface Group {
  second: number;
  to: number;
  count: number;
}

/**
 * The frontiers after calling `advance` numbers more, or as many as wait: by watermark T. The second that T falls into is
 * called in part, the same part on every shard. `jump`: gaps that are next are passed too; without it an advance of 0
 * moves nothing.
 */
export function advanceByWatermark(shards: readonly ShardLine[], advance: number, jump: boolean): number[] {
  const frontiers = shards.map((shard) => shard.frontier);
  if (advance <= 0 && !jump) return frontiers;
  // Beyond this second one shard knows arrivals that another may not know yet.
  const horizon = Math.floor(Math.min(...shards.map((shard) => shard.readAt)) / 1000);
  const groups = shards.map((shard) => groupsOf(shard, shards.length === 1 ? Infinity : horizon));
  const next = shards.map(() => 0);
  let left = Math.max(0, Math.floor(advance));
  for (;;) {
    const second = Math.min(...groups.map((list, shard) => list[next[shard]!]?.second ?? Infinity));
    if (second === Infinity) return frontiers;
    const due = groups.map((list, shard) => {
      const group = list[next[shard]!];
      return group?.second === second ? group : null;
    });
    const counts = due.map((group) => group?.count ?? 0);
    const total = counts.reduce((sum, count) => sum + count, 0);
    if (total > left) {
      const parts = shareOut(left, counts, total);
      return frontiers.map((frontier, shard) =>
        parts[shard]! > 0 ? moved(shards[shard]!, frontier, due[shard]!.to, parts[shard]!) : frontier,
      );
    }
    left -= total;
    for (const [shard, group] of due.entries()) {
      if (!group) continue;
      frontiers[shard] = group.to;
      next[shard]! += 1;
    }
  }
}

/** Returns how many of the numbers in (from, to] may have been issued to a known visitor. */
export function knownNumbers(from: number, to: number, gaps: readonly Gap[]): number {
  const unknown = gaps.reduce(
    (sum, [first, last]) => sum + Math.max(0, Math.min(last, to) - Math.max(first, from + 1) + 1),
    0,
  );
  return Math.max(0, to - from - unknown);
}

function groupsOf(shard: ShardLine, horizon: number): Group[] {
  const { arrivals, gaps, last, readAt } = shard;
  const groups: Group[] = [];
  let from = shard.frontier;
  for (const entry of [...arrivals, { second: Math.floor(readAt / 1000), last }]) {
    if (entry.second > horizon) break;
    const to = Math.min(entry.last, last);
    if (to <= from) continue;
    groups.push({ second: entry.second, to, count: knownNumbers(from, to, gaps) });
    from = to;
  }
  return groups;
}

/** `left` of `total`, each shard its part: by largest remainder, so that none is more than one off. */
function shareOut(left: number, counts: number[], total: number): number[] {
  const exact = counts.map((count) => (count * left) / total);
  const parts = exact.map(Math.floor);
  let rest = left - parts.reduce((sum, part) => sum + part, 0);
  const byRemainder = exact
    .map((part, shard) => ({ shard, remainder: part - Math.floor(part) }))
    .toSorted((a, b) => b.remainder - a.remainder);
  for (const { shard } of byRemainder) {
    if (rest <= 0) break;
    parts[shard]! += 1;
    rest -= 1;
  }
  return parts;
}

/** Where `calls` known numbers after `from` end, with the gap right behind them, at most at `to`. */
function moved(shard: ShardLine, from: number, to: number, calls: number): number {
  let at = from;
  let left = calls;
  for (const [first, last] of shard.gaps) {
    if (last <= at || first > to) continue;
    const before = Math.max(0, first - 1 - at);
    if (before > left) break;
    left -= before;
    at = Math.max(at, Math.min(last, to));
  }
  return Math.min(to, at + left);
}
