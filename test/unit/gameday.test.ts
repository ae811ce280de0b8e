import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { systemClock } from '../../src/runtime/clock.ts';
import { createFates } from '../../tools/gameday/fates.ts';
import { firstGrantAfter, longestQuiet, longestRefusal, type Probe } from '../../tools/gameday/observers.ts';
import {
  brokenOff,
  judged,
  type RoundFigures,
  type RoundResult,
  summaryTable,
} from '../../tools/gameday/results.ts';
import { OtherProgram, openRounds, programTree } from '../../tools/gameday/rounds-file.ts';

function folderFor(t: { after(run: () => void): void }): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onsale-rounds-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('the program of a round is named by the hash that Git gives its tree', (t) => {
  const folder = folderFor(t);
  for (const name of ['b', 'b.d']) fs.mkdirSync(path.join(folder, name));
  fs.writeFileSync(path.join(folder, 'a.ts'), 'a\n');
  fs.writeFileSync(path.join(folder, 'b/c.ts'), 'b\n');
  fs.writeFileSync(path.join(folder, 'b.d/run'), 'x', { mode: 0o755 });
  // `git add -A && git write-tree` of that folder.
  assert.equal(programTree(folder), 'b330e2ccca61a4f25902b390cd20e23343c8eaab');
  fs.appendFileSync(path.join(folder, 'b/c.ts'), '\n');
  assert.notEqual(programTree(folder), 'b330e2ccca61a4f25902b390cd20e23343c8eaab');
});

test('rounds continue in a file, and never mix with those of another program', (t) => {
  const file = path.join(folderFor(t), 'rounds.jsonl');
  openRounds(file, () => 'one').append(judged(figures({ round: 1 })));
  const again = openRounds(file, () => 'one');
  assert.deepEqual(
    again.kept.map(({ round }) => round),
    [1],
  );
  again.append(judged(figures({ round: 2 })));
  assert.equal(again.kept.length, 2);
  assert.equal(openRounds(file, () => 'one').kept.length, 2);
  assert.throws(() => openRounds(file, () => 'two'), OtherProgram);

  let program = 'one';
  const changing = openRounds(file, () => program);
  program = 'two';
  assert.throws(() => changing.append(judged(figures({ round: 3 }))), OtherProgram, 'changed while it ran');
  assert.equal(openRounds(file, () => 'one').kept.length, 2);
});

const probe = (sentAt: number, answer: Probe['answer'], answeredAt = sentAt + 10): Probe => ({
  sentAt,
  answeredAt,
  answer,
  code: '',
});

test('the longest refusal is counted from the first refused question to the first answer that grants', () => {
  const probes = [
    probe(0, 'granted'),
    probe(100, 'refused'),
    probe(150, 'passed'),
    probe(200, 'failed'),
    probe(250, 'granted', 270),
    probe(300, 'refused'),
    probe(350, 'granted', 360),
  ];
  assert.equal(longestRefusal(probes, 0), 170);
  assert.equal(longestRefusal(probes, 260), 60, 'only from then on');
  assert.equal(longestRefusal(probes.slice(0, 2), 0), 10, 'one that never ends counts as far as it was seen');
  assert.equal(longestRefusal([probe(0, 'granted')], 0), 0);
  assert.equal(longestQuiet(probes, 0), 90, 'between two grants, what others took left out');
  assert.equal(longestQuiet([probe(0, 'granted'), probe(60, 'refused'), probe(100, 'granted', 300)], 0), 290);
  assert.equal(firstGrantAfter(probes, 100), 270);
  assert.equal(firstGrantAfter(probes, 400), null);
});

test('of the holds that lived at the blow each is recovered or lost; who left or was elsewhere counts as neither', () => {
  const fates = createFates((seat) => seat < 100, systemClock);
  // biome-ignore lint/suspicious/noExplicitAny: only what is read.
  const hold = (id: string, seat: number): any => ({ hold: id, seats: [{ seat }] });
  for (const [id, seat] of [
    ['kept', 1],
    ['back', 2],
    ['lost', 3],
    ['left', 4],
    ['elsewhere', 200],
    ['before', 5],
  ] as const)
    fates.note({ kind: 'granted', hold: hold(id, seat) });
  fates.note({ kind: 'ordered', hold: 'before', order: 'o' });
  fates.blow();
  fates.note({ kind: 'granted', hold: hold('later', 6) });
  fates.note({ kind: 'ordered', hold: 'kept', order: 'o' });
  fates.note({ kind: 'recovered', hold: hold('back', 2) });
  fates.note({ kind: 'answered', hold: 'lost', to: 'receipt', says: '410 hold_gone' });
  fates.note({ kind: 'lost', hold: 'lost', why: 'hold_gone' });
  fates.note({ kind: 'left', hold: 'left' });
  fates.note({ kind: 'lost', hold: 'elsewhere', why: 'taken' });
  const { lostTrails, ...summary } = fates.summary();
  assert.deepEqual(summary, {
    live: 3,
    recovered: 2,
    lost: 1,
    lostOthers: 1,
    why: { hold_gone: 1, taken: 1 },
  });
  assert.match(lostTrails[0] ?? '', /granted, .* receipt 410 hold_gone, .* lost/);
});

function figures(given: Partial<RoundFigures>): RoundFigures {
  return {
    round: 1,
    scenario: 'kill',
    seed: 1,
    buyers: 10,
    seats: 100,
    live: 200,
    recovered: 200,
    lost: 0,
    lostOthers: 0,
    why: {},
    lostTrails: [],
    reason: 'unreachable',
    degradeMs: 900,
    holdAgainMs: 10_900,
    restoreMs: 3_000,
    refusedMs: 200,
    quietMs: 250,
    movingMs: 50,
    othersRefusedMs: null,
    probes: 100,
    probeFaults: [],
    moves: [],
    ends: {},
    requests: 1_000,
    busy: 10,
    retried: 10,
    refusedTaken: 1,
    errors: 0,
    faults: [],
    bought: 100,
    lostSales: 0,
    doubleSales: 0,
    chargesWithoutTickets: 0,
    violations: [],
    problems: [],
    tookMs: 30_000,
    ...given,
  };
}

test('D1: a round that sold twice, lost a sale, charged for nothing, erred or contradicts itself is no good', () => {
  assert.deepEqual(judged(figures({})).problems, []);
  assert.deepEqual(judged(figures({})).missed, []);
  for (const wrong of [
    { doubleSales: 1 },
    { lostSales: 1 },
    { chargesWithoutTickets: 1 },
    { errors: 1 },
    { faults: ['join: 500'] },
    { probeFaults: ['no answer'] },
    { violations: [{ promise: 'S1', says: 'two tickets' }] },
    { problems: ['the server ended'] },
  ]) {
    assert.equal(judged(figures(wrong)).problems.length, 1, JSON.stringify(wrong));
  }
  for (const late of [
    { recovered: 197, lost: 3 },
    { degradeMs: 2_001 },
    { refusedMs: 1_000 },
    { othersRefusedMs: 1_000 },
  ]) {
    assert.equal(judged(figures(late)).missed.length, 1, JSON.stringify(late));
  }
});

test('a round that was broken off is a round with a problem', () => {
  const { problems, round } = brokenOff(figures({ round: 7 }), 'no pass');
  assert.deepEqual([round, problems], [7, ['broken off: no pass']]);
});

test('the table has medians and the worst of each scenario', () => {
  const rounds: RoundResult[] = [
    judged(figures({ degradeMs: 100 })),
    judged(figures({ degradeMs: 300, recovered: 198, lost: 2 })),
    judged(figures({ degradeMs: 200 })),
    judged(figures({ scenario: 'flush', degradeMs: null })),
  ];
  const lines = summaryTable(rounds).split('\n');
  assert.match(lines[1] ?? '', /^kill +3 +600 +99\.67 % +200 \(300\)/);
  assert.match(lines[2] ?? '', /^flush +1 +200 +100\.00 % +never/);
});
