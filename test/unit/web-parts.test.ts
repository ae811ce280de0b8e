import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Drawing } from '../../web/seat-map/drawing.ts';
import { partsOf } from '../../web/seat-map/parts.ts';

const drawing = {
  sections: ['a', 'b', 'c'].map((id) => ({ id, name: `Section ${id}` })),
  sectionOf: Int32Array.from([0, 0, 1, 2, -1]),
} as unknown as Drawing;

test('a choice by the parts of the venue that are sold apart, in their order', () => {
  const partitions = [
    { partition: 0, sections: null },
    { partition: 1, sections: ['a'] },
  ];
  assert.deepEqual(partsOf({ partitions }, drawing, [0, 3, 2, 1]), [
    { partition: 0, seats: [3, 2], sections: ['Section c', 'Section b'] },
    { partition: 1, seats: [0, 1], sections: ['Section a'] },
  ]);
});

test('a venue that is one has one part, whatever is chosen', () => {
  assert.equal(partsOf({}, drawing, [0, 2, 3, 4]).length, 1);
  assert.deepEqual(partsOf({}, drawing, []), []);
});
