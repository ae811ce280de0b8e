import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type EventPartition,
  partitionOfSection,
  partitionsMax,
  readPartitions,
  regroup,
} from '../../src/catalogue/partitions.ts';
import type { SeatFacts, SeatingPlan } from '../../src/core/seat-map.ts';
import { mergeSnapshots } from '../../src/read-path/availability.ts';

const planOf = (...ids: string[]) =>
  ({ sections: ids.map((id) => ({ id })) }) as unknown as Pick<SeatingPlan, 'sections'>;
const factsOf = (...sections: string[]): SeatFacts[] =>
  sections.map((sectionId, seatNo) => ({ seatNo, sectionId }) as SeatFacts);

test('sections that nothing names are partition 0; where none is left over, the first one named is', () => {
  const some = readPartitions(
    [{ sections: ['b'], redis: 'north' }, { sections: ['c', 'd'] }],
    planOf('a', 'b', 'c', 'd'),
    null,
  );
  assert.deepEqual(some, {
    kind: 'partitions',
    partitions: [
      { partition: 0, sections: null, store: null },
      { partition: 1, sections: ['b'], store: 'north' },
      { partition: 2, sections: ['c', 'd'], store: null },
    ],
  });
  const all = readPartitions([{ sections: ['b'] }, { sections: ['a'] }], planOf('a', 'b'), []);
  assert.ok(all.kind === 'partitions');
  assert.deepEqual(
    all.partitions.map(({ partition, sections }) => [partition, sections]),
    [
      [0, ['b']],
      [1, ['a']],
    ],
  );
  const one = readPartitions([], planOf('a'), []);
  assert.deepEqual(one, { kind: 'partitions', partitions: [{ partition: 0, sections: null, store: null }] });
});

test('what cannot be: unknown, repeated and missing sections, unknown servers, too many; each is named', () => {
  const plan = planOf('a', 'b');
  const many = Array.from({ length: partitionsMax }, (_, i) => `s${i}`);
  const cases: [settings: Parameters<typeof readPartitions>[0], place: string, says: RegExp][] = [
    [[{ sections: ['a', 'x'] }], '/0/sections/1', /no section x/],
    [[{ sections: ['a'] }, { sections: ['a'] }], '/1/sections/0', /a is named twice/],
    [[{ sections: ['a', 'a'] }], '/0/sections/1', /named twice/],
    [[{ sections: [] }], '/0/sections', /one section at least/],
    [[{ sections: ['a'], redis: 'south' }], '/0/redis', /named south.*east, west/],
  ];
  for (const [settings, place, says] of cases) {
    const read = readPartitions(settings, plan, ['east', 'west']);
    assert.ok(read.kind === 'refused', JSON.stringify(settings));
    assert.equal(read.place, place);
    assert.match(read.sentence, says);
  }
  const none = readPartitions([{ sections: ['a'], redis: 'south' }], plan, []);
  assert.ok(none.kind === 'refused' && /none is configured/.test(none.sentence));
  const each = many.map((id) => ({ sections: [id] }));
  assert.equal(readPartitions(each, planOf(...many), null).kind, 'partitions');
  assert.equal(readPartitions(each, planOf(...many, 'rest'), null).kind, 'refused');
});

const three: EventPartition[] = [
  { partition: 0, sections: null, store: null },
  { partition: 1, sections: ['b'], store: 'north' },
  { partition: 2, sections: ['c'], store: null },
];

test('another plan: each section keeps its partition, a renamed one goes along, a new one joins partition 0', () => {
  const before = factsOf('a', 'b', 'b', 'c');
  const planned = factsOf('a', 'b-renamed', 'b-renamed', 'c', 'new');
  const outcome = regroup(three, before, planned);
  assert.ok(outcome.kind === 'regrouped');
  const partitionOf = partitionOfSection(outcome.partitions);
  assert.deepEqual(['a', 'b', 'b-renamed', 'c', 'new'].map(partitionOf), [0, 1, 1, 2, 0]);
  assert.equal(outcome.partitions[1]!.store, 'north');
  assert.deepEqual(three[1]!.sections, ['b'], 'what was given is left as it was');
});

test('another plan that would move seats between partitions is refused with the seats', () => {
  const moved = regroup(three, factsOf('a', 'b', 'c'), factsOf('a', 'c', 'c'));
  assert.ok(moved.kind === 'would_move');
  assert.deepEqual(
    moved.seats.map(({ seatNo, sectionId }) => [seatNo, sectionId]),
    [[1, 'b']],
  );
  const joined = regroup(three, factsOf('a', 'b', 'c'), factsOf('a', 'both', 'both'));
  assert.ok(joined.kind === 'would_move');
  assert.deepEqual(
    joined.seats.map(({ seatNo }) => seatNo),
    [1, 2],
  );
});

test('the whole venue from the snapshots of its partitions: each seat as its own says, as old as the oldest', () => {
  const x = 255;
  const parts = [
    { at: 30, epoch: 4, codes: Uint8Array.from([0, 1, x, x, 3]) },
    { at: 20, epoch: 9, codes: Uint8Array.from([x, x, 2]) },
  ];
  assert.deepEqual(mergeSnapshots(parts), { at: 20, epoch: 9, codes: Uint8Array.from([0, 1, 2, x, 3]) });
  assert.equal(mergeSnapshots(parts.slice(0, 1)), parts[0]);
  assert.throws(() => mergeSnapshots([...parts, parts[1]!]), /seat 2 belongs to one partition/);
});
