import { impossible } from '../core/outcome.ts';
import type { PaymentView, ProviderAnswer } from './provider.ts';
import { unknown } from './stripe-answers.ts';

/**
 * The meaning of an object's state for the call that was made. `answered`: the view is the response of the call itself.
 * Otherwise the call did not fit the state, and the object was looked up afterwards.
 */
export type Judge = (view: PaymentView, answered: boolean) => ProviderAnswer;

export function judgeAuthorise(view: PaymentView, answered: boolean): ProviderAnswer {
  switch (view.status) {
    case 'authorised':
    case 'captured':
      return { kind: 'done', view };
    case 'waiting':
    case 'processing':
      return { kind: 'pending', view };
    case 'cancelled':
      return refused(view, 'the payment was cancelled');
    case 'new':
      // Right after an unexpected state this means that the state moved on meanwhile; nothing of this call stands.
      return refused(view, answered ? 'not authorised' : 'not possible when it was tried');
    default:
      return impossible(view.status, 'status');
  }
}

export function judgeCapture(view: PaymentView, answered: boolean): ProviderAnswer {
  switch (view.status) {
    case 'captured':
      return { kind: 'done', view };
    case 'processing':
      return { kind: 'pending', view };
    case 'authorised':
      // The call succeeded and the object is still reserved, or the call was rejected because of a state that the object now
      // has: the outcome is unknown.
      return unknown('conflict', answered ? 'still reserved after capture' : 'reserved, yet not capturable');
    case 'new':
    case 'waiting':
    case 'cancelled':
      return refused(view, `nothing is reserved: ${view.status}`);
    default:
      return impossible(view.status, 'status');
  }
}

export function judgeVoid(view: PaymentView, answered: boolean): ProviderAnswer {
  switch (view.status) {
    case 'cancelled':
      return { kind: 'done', view };
    case 'captured':
      return refused(view, 'already captured');
    case 'processing':
      return { kind: 'pending', view };
    case 'new':
    case 'waiting':
    case 'authorised':
      return unknown('conflict', answered ? `still ${view.status} after cancelling` : `now ${view.status}`);
    default:
      return impossible(view.status, 'status');
  }
}

function refused(view: PaymentView, detail: string): ProviderAnswer {
  return { kind: 'refused', decline: view.decline ?? 'declined', detail, view };
}
