import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { openPaymentsReference } from '../../scripts/open-payments-reference.ts';
import { problemOfHold, problemOfPhase } from '../../src/booking/refusals.ts';
import { phases } from '../../src/core/phase.ts';
import { problem, problemCodes } from '../../src/core/problems.ts';
import { answerOf, problemDocument } from '../../src/http/errors.ts';
import { errorsReference } from '../../src/http/errors-page.ts';
import { projectDir } from '../../src/runtime/project-dir.ts';
import { StoreFault } from '../../src/runtime/store-fault.ts';

test('docs/reference/errors.md lists each code as the table has it', () => {
  const file = path.join(projectDir, 'docs/reference/errors.md');
  assert.equal(
    fs.readFileSync(file, 'utf8'),
    errorsReference(),
    'run: node --import tsx scripts/write-reference.ts',
  );
});

test('docs/reference/open-payments.md lists each kind of entry as the table has it', () => {
  const file = path.join(projectDir, 'docs/reference/open-payments.md');
  assert.equal(
    fs.readFileSync(file, 'utf8'),
    openPaymentsReference(),
    'run: node --import tsx scripts/write-reference.ts',
  );
});

test('each code has a status for errors, a title and a sentence that says what to do', () => {
  for (const [code, { status, title, advice }] of Object.entries(problemCodes)) {
    assert.match(code, /^[a-z][a-z_]+$/);
    assert.ok(status >= 400 && status < 600, code);
    assert.ok(title.length > 0);
    assert.match(advice, /^[A-Z].*[.]$/, code);
  }
});

test('the codes that clients rely on have their status', () => {
  const fixed = {
    cookie_required: 428,
    not_yet: 409,
    sold_out: 410,
    idempotency_key_required: 400,
    idempotency_mismatch: 422,
    taken: 409,
    hold_exists: 409,
    hold_gone: 410,
    declined: 402,
  } as const;
  for (const [code, status] of Object.entries(fixed)) {
    assert.equal(problemCodes[code as keyof typeof fixed].status, status, code);
  }
});

test('faults of a store are a 503 that says when to come again; only the unforeseen is a 500', () => {
  for (const code of ['store_unavailable', 'store_busy', 'outcome_unknown'] as const) {
    const answer = answerOf(new StoreFault(code, 'lost'));
    assert.equal(problemCodes[answer.code].status, 503);
    assert.ok((answer.options.retryAfterMs ?? 0) > 0);
  }
  assert.equal(answerOf(new Error('assertion failed: x')).code, 'internal');
  assert.equal(answerOf(problem('taken')).code, 'taken');
});

test('a problem document never tells what the exception said', () => {
  const { code, options } = answerOf(new Error('password=secret'));
  assert.doesNotMatch(JSON.stringify(problemDocument(code, options)), /secret/);
});

test('every phase that refuses has an answer of its own', () => {
  for (const phase of phases) assert.ok(problemOfPhase(phase, null).code in problemCodes, phase);
  assert.equal(problemOfPhase('scheduled', 0).options.extra?.opensAt, '1970-01-01T00:00:00.000Z');
  assert.equal(problemOfHold({ kind: 'not_open', phase: 'sold_out' }, null, 'visitor').code, 'sold_out');
});
