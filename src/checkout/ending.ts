import type { OrderEnd } from '../core/order.ts';
import { assert } from '../core/outcome.ts';
import type { SalesRecord } from '../orders/record.ts';
import type { PaymentProvider, PaymentView } from '../payments/provider.ts';
import type { Logger } from '../runtime/log.ts';
import { answerOf, believed, type Standing, type Steps } from './steps.ts';

/** Ending: the operation's own row, with a second key. Only the provider's final word ends it. */
export interface Ending {
  /** From now on the operation is ended (for `reason`), and its object voided. */
  end(standing: Standing, reason: OrderEnd): Promise<Standing>;
  /** Cancels the object of an operation that is `ending`; what was taken of it is given back. */
  voidObject(standing: Standing): Promise<Standing>;
  /** Finds out how the ending stands, then carries on. */
  drive(standing: Standing): Promise<Standing>;
}

export interface EndingOptions {
  record: SalesRecord;
  provider: PaymentProvider;
  steps: Steps;
  log: Logger;
  /** Handles an object that is authorised although its order ended at the deadline. Null if the order cannot go on. */
  cameLate(standing: Standing, view: PaymentView): Promise<Standing | null>;
}

/** A conflict of keys ends within these tries; a payment that still stands after them is not being released. */
const refusalsMax = 3;

export function createEnding(options: EndingOptions): Ending {
  const { record, provider, steps, log, cameLate } = options;
  const { taken, park } = steps;

  async function end({ order, operation }: Standing, reason: OrderEnd): Promise<Standing> {
    const endKey = steps.newEndKey(order.order);
    const step = await taken(() => record.end(operation.operation, reason, endKey, steps.claimOf));
    return step.kind === 'ending' ? voidObject(step) : step;
  }

  async function voidObject({ order, operation }: Standing): Promise<Standing> {
    assert(operation.state === 'ending' && operation.endKey, 'only what is ending is voided');
    // The response to this opening never arrived, so no client knows the object and nothing can be authorised on it. If the
    // provider reports it later, it is a stray and is cancelled as one.
    if (!operation.providerObject) return taken(() => record.voided(operation.operation, {}));
    const answer = await provider.void({ key: operation.endKey, object: operation.providerObject });
    if (answer.kind === 'unknown') {
      // Not cancelled each time although nothing was in the way: a person should know.
      const refuses = answer.reason === 'conflict' && operation.attempts > refusalsMax;
      return park(operation, 'unknown', answer, refuses ? { attention: 'void_refused' } : undefined);
    }
    const { view } = answer;
    if (view && view.object === operation.providerObject) {
      if (view.status === 'cancelled') return taken(() => record.voided(operation.operation, { view }));
      if (view.status === 'captured') return giveBack({ order, operation }, view);
    }
    if (answer.kind === 'pending') return park(operation, 'unknown', answer);
    log.error({ order: order.order, status: view?.status }, 'a payment could not be voided');
    return park(operation, 'unknown', answer, {
      attention: 'void_refused',
      newKey: steps.newEndKey(order.order),
    });
  }

  /** Money that was taken of what should have been voided: all of it goes back, and then the operation has ended. */
  async function giveBack({ order, operation }: Standing, view: PaymentView): Promise<Standing> {
    const owed = view.captured - view.refunded;
    if (owed <= 0) return taken(() => record.voided(operation.operation, { view }));
    log.error({ order: order.order, object: view.object, owed }, 'money was taken for an order that ended');
    // Money with another reference belongs to another order and must not be sent back from here.
    if (view.reference !== order.order && operation.decision?.action !== 'give_back')
      return park(operation, 'unknown', { kind: 'pending', view }, { attention: 'payment_mismatch' });
    const answer = await provider.refund({
      key: `${operation.endKey}:refund`,
      object: view.object,
      amount: owed,
      reference: operation.operation,
    });
    switch (answer.kind) {
      case 'done':
        return taken(() =>
          record.voided(operation.operation, { view: { ...view, refunded: view.refunded + owed } }),
        );
      case 'pending':
        return park(operation, 'unknown', { kind: 'pending', view });
      case 'unknown':
        return park(operation, 'unknown', answer);
      case 'refused':
        return park(
          operation,
          'unknown',
          { kind: 'refused', decline: 'declined', detail: answer.detail, view },
          { attention: 'refund_refused', newKey: steps.newEndKey(order.order) },
        );
    }
  }

  async function drive(standing: Standing): Promise<Standing> {
    const { order, operation } = standing;
    if (!operation.providerObject) return voidObject(standing);
    // A void's key may replay an error for ever although the work was done: the object itself tells.
    const answer = await provider.lookup(operation.providerObject);
    const view = 'view' in answer ? answer.view : null;
    if (!view) return park(operation, 'unknown', answer);
    if (view.object === operation.providerObject) {
      if (view.status === 'cancelled') return taken(() => record.voided(operation.operation, { view }));
      if (view.status === 'captured' && view.refunded >= view.captured)
        return taken(() => record.voided(operation.operation, answerOf(answer)));
    }
    // If only the deadline ended the order, money reserved after it still buys the seats, unless another buyer has taken them.
    const isMoney = view.status === 'authorised' || view.status === 'captured';
    if (operation.endReason === 'not_paid_in_time' && isMoney && believed(view, order)) {
      const carriedOn = await cameLate(standing, view);
      if (carriedOn) return carriedOn;
    }
    if (steps.isSpent(operation)) return steps.renew(standing);
    return voidObject(standing);
  }

  return { end, voidObject, drive };
}
