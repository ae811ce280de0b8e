import { areNone, type Rights, rightsMissing } from '../core/prices.ts';
import { type Problem, problem } from '../core/problems.ts';
import type { CodeLook } from '../orders/access-codes.ts';
import type { CodeRefusal, EventRecord } from '../orders/record.ts';

/** The rights of this request's access code. `refused` is the reason why its code opens nothing. */
export interface Opened {
  rights: Rights;
  code: CodeLook | null;
  refused: CodeRefusal | null;
}

/** Refuses what is needed and not opened. */
export function demandRights({ rights, code, refused }: Opened, event: EventRecord, needed: Rights): void {
  const missing = rightsMissing(needed, rights);
  if (areNone(missing)) return;
  if (refused) throw problemOfCode(refused);
  const needs = {
    needs: missing,
    opensAt: event.onSaleAt === null ? null : new Date(event.onSaleAt).toISOString(),
  };
  throw problem(code ? 'code_not_for_this' : 'code_required', {
    field: '/code',
    detail: `${sentenceOf(event, missing)} ${code ? 'Your code opens other things.' : 'Enter it first.'}`,
    extra: needs,
  });
}

function sentenceOf(event: EventRecord, { categories, kinds, presale }: Rights): string {
  if (presale)
    return 'Until the sale opens to everybody, it is for those with an access code for the presale.';
  const names = kinds.map((id) => event.settings.kinds?.find((kind) => kind.id === id)?.name ?? id);
  return `${[...categories, ...names].join(', ')}: only with an access code.`;
}

/** The problem that the buyer sees if a code cannot be used. */
export function problemOfCode(why: CodeRefusal, seatsMax?: number | null): Problem {
  const field = '/code';
  switch (why) {
    case 'unknown':
      return problem('code_unknown', { field });
    case 'ended':
      return problem('code_ended', { field });
    case 'used_up':
      return problem('code_used_up', { field });
    case 'seats':
      return problem('code_seats', {
        field,
        detail: `With this access code an order may have at most ${seatsMax ?? 0} seats. Nothing was reserved.`,
        extra: { max: seatsMax ?? null },
      });
  }
}
