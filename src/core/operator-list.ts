import type { OrderState } from './order.ts';

/**
 * The only table of payments that need a decision: each kind of entry with its meaning and its possible actions. The API, the
 * console and the command line all show these texts. An operation's `attention` (and the CHECK on its column), the kinds of
 * findings and the list itself take their names from here.
 */
export const entryActions = [
  'look',
  'give_back',
  'accept',
  'retry',
  'settle',
  'cancel_tickets',
  'dismiss',
] as const;
export type EntryAction = (typeof entryActions)[number];

export interface ActionWords {
  label: string;
  /** Effect of the action, in a sentence that is shown before the operator confirms it. */
  does: string;
}

export interface EntryWords {
  title: string;
  /** Describes what happened. */
  means: string;
  /** Says what was charged and what was not. */
  charged: string;
  actions: Partial<Record<EntryAction, ActionWords>>;
}

/** Actions that require a note. The note is kept in the action log. */
export const actionsWithNote: readonly EntryAction[] = ['accept', 'settle', 'cancel_tickets', 'dismiss'];

const lookAgain: ActionWords = {
  label: 'Look again now',
  does: 'The worker asks the provider about this payment now and acts on the result.',
};
const dismissed: ActionWords = {
  label: 'Take off the list',
  does: 'The entry leaves the list with your note. Neither order nor payment changes.',
};
const retryRefund: ActionWords = {
  label: 'Try the refund again',
  does: 'The worker asks the provider for the refund again, with a new key.',
};
const paidOtherwise: ActionWords = {
  label: 'Record as paid by other means',
  does: 'The refund counts as given back by other means, such as a bank transfer. The provider is not asked again. Say how it was paid.',
};
const giveAllBack: ActionWords = {
  label: 'Give all back and end the order',
  does: 'The order is cancelled, its seats are free again and its tickets are void. A reservation is released, and the captured amount is refunded to the card.',
};

/** Possible values of a money operation's `attention`. */
export const attentionEntries = {
  payment_mismatch: {
    title: 'The payment does not match its order',
    means:
      'The provider shows another order, amount or currency on this payment than our record. It was changed at the provider, or it belongs to another order.',
    charged:
      'Nothing more is charged. Money that was reserved or captured on this payment stays there until you decide.',
    actions: {
      look: lookAgain,
      give_back: {
        label: 'Give all back and end the order',
        does: 'You confirm that this payment is ours. The order ends, its seats are free again, a reservation is released, and the captured amount is refunded to the card.',
      },
      accept: {
        label: 'Accept as this order’s payment',
        does: 'The captured amount counts as this order’s payment. The order is paid and its tickets are issued. Nothing more is charged.',
      },
      dismiss: dismissed,
    },
  },
  captured_amount: {
    title: 'The captured amount differs from the order’s amount',
    means:
      'A part of the reserved amount was captured at the provider. A card reservation can be captured only once: the rest was released and can no longer be charged.',
    charged:
      'The buyer was charged the captured amount only. The seats are kept for the order, without tickets.',
    actions: {
      look: lookAgain,
      give_back: giveAllBack,
      accept: {
        label: 'Accept the captured amount',
        does: 'The order is paid with the captured amount, and its tickets are issued. The rest is not charged. Say in the note whether the rest was paid by other means.',
      },
    },
  },
  capture_window: {
    title: 'The reservation ends soon and is not captured',
    means:
      'Less than a day is left to capture the money of this sale, and the provider has not confirmed a capture. When the reservation ends, the sale is cancelled and the buyer is notified.',
    charged: 'As far as we know, nothing was charged yet. The order keeps its seats meanwhile.',
    actions: {
      look: {
        label: 'Try to capture now',
        does: 'The worker asks the provider now and captures the reserved amount if it can still be captured.',
      },
      give_back: giveAllBack,
    },
  },
  void_refused: {
    title: 'The provider refuses to release a reservation',
    means:
      'The order has ended, and the provider refuses to cancel its payment. The worker tries again with a new key. Reservations end automatically after some days.',
    charged: 'Nothing was captured. The buyer’s bank may still show the reservation.',
    actions: {
      look: {
        label: 'Try to release now',
        does: 'The worker asks the provider now to cancel the payment.',
      },
      settle: {
        label: 'Record as released by hand',
        does: 'You confirm that the payment was cancelled at the provider. We do not ask for it again.',
      },
    },
  },
  refund_refused: {
    title: 'Money of an ended order cannot be given back',
    means:
      'Money was captured for an order that ended without a sale, and the provider refuses the refund. Often the balance is too low. The worker tries again.',
    charged: 'The buyer was charged and has neither tickets nor the money.',
    actions: {
      look: { label: 'Try to refund now', does: 'The worker asks the provider for the refund now.' },
      settle: paidOtherwise,
    },
  },
  captured_after_refusal: {
    title: 'Money arrived after its order was cancelled',
    means:
      'The capture was refused and the sale was cancelled, then the provider captured the money after all. It is refunded automatically; the entry leaves the list when that is done.',
    charged: 'The buyer was charged. The refund is pending or done.',
    actions: { look: lookAgain, dismiss: dismissed },
  },
  refund_missing: {
    title: 'A pending refund has disappeared at the provider',
    means: 'The provider accepted this refund but no longer lists it.',
    charged: 'We do not know whether the buyer has the money. Look the payment up at the provider first.',
    actions: {
      look: lookAgain,
      retry: {
        label: 'Try the refund again',
        does: 'The lost attempt counts as failed, and the worker asks for the refund again with a new key.',
      },
      settle: paidOtherwise,
    },
  },
  refund_mismatch: {
    title: 'A refund differs from what we asked for',
    means: 'The provider lists a refund under our reference with another amount, currency or payment.',
    charged: 'The buyer received the amount that the provider lists, not the amount we asked for.',
    actions: {
      settle: {
        label: 'Accept as it is',
        does: 'The refund that the provider lists counts as this refund. Nothing more is refunded to the card. Say in the note how the difference was settled.',
      },
    },
  },
  refunded_twice: {
    title: 'The same refund was paid twice',
    means:
      'An attempt that was recorded as failed succeeded, after the money had already been returned by another attempt or by other means.',
    charged: 'The buyer received too much money.',
    actions: {
      settle: {
        label: 'Record as settled',
        does: 'The second payment is accepted as it is. Say in the note whether the buyer paid it back.',
      },
    },
  },
} satisfies Record<string, EntryWords>;
export type Attention = keyof typeof attentionEntries;
export const attentions = Object.keys(attentionEntries) as Attention[];

const finding = (title: string, means: string, charged: string): EntryWords => ({
  title,
  means,
  charged,
  actions: { look: lookAgain, dismiss: dismissed },
});

/** The tickets stay valid until the operator cancels them. Some of them can be cancelled on the order's page. */
const reversal = (title: string, means: string, charged: string): EntryWords => ({
  title,
  means,
  charged,
  actions: {
    look: lookAgain,
    cancel_tickets: {
      label: 'Cancel the tickets, pay nothing more',
      does: 'All valid tickets of the order become void now, and its seats are free again. We do not refund any money. To cancel some of the tickets only, refund them on the order’s page without paying.',
    },
    dismiss: {
      label: 'Keep the tickets valid',
      does: 'The entry leaves the list with your note. The tickets stay valid, the seats stay sold, and no money moves.',
    },
  },
});

/** Instead of "Keep the tickets valid". Money that is yours again can be refunded on the order's page. */
const ticketsStayVoid: ActionWords = {
  label: 'Leave the tickets void',
  does: 'The entry leaves the list with your note. The tickets stay void, and no money moves. If you owe the buyer money, refund it on the order’s page, as goodwill.',
};

/** Money that left a payment without a refund of ours. */
const reversalEntries = {
  foreign_refund: reversal(
    'A refund was made at the provider',
    'This payment was refunded on the provider’s own pages, or by another program. The tickets are still valid unless they were cancelled.',
    'The buyer has the refunded amount back, or gets it back within days. We do not refund it a second time.',
  ),
  dispute_opened: reversal(
    'The buyer’s bank disputes a payment',
    'The buyer told their bank that they did not make or do not accept this payment. Answer at the provider in time, or the dispute is lost. The tickets are still valid unless they were cancelled.',
    'The provider has withdrawn the amount from your account, with a fee. For an inquiry, nothing is withdrawn yet. We do not refund money that was withdrawn.',
  ),
  dispute_won: reversal(
    'A dispute was won',
    'The bank decided for you. Tickets that were cancelled in the meantime stay cancelled; refund the buyer if you owe them the money.',
    'The provider has returned the amount to you. Its fee may be lost.',
  ),
  dispute_lost: reversal(
    'A dispute was lost',
    'The bank decided for the buyer. The tickets are still valid unless they were cancelled.',
    'The buyer has the amount back. The provider’s fee is lost.',
  ),
} satisfies Record<string, EntryWords>;

/** Findings of the comparison with the provider. */
export const findingEntries = {
  unknown_order: finding(
    'A payment for an order that we do not have',
    'The provider has a payment for an order that is not in our record. Check whether a database was lost or restored.',
    'A card was charged, or an amount is reserved.',
  ),
  unknown_payment: finding(
    'A second payment for an order',
    'The payment names one of our orders, but it is not that order’s recorded payment.',
    'An amount is reserved or captured on it. The worker will cancel or refund it when the order allows that.',
  ),
  amount_differs: finding(
    'A payment with another amount or currency',
    'The provider shows another amount or currency than the order.',
    'See the amounts.',
  ),
  captured_differs: finding(
    'The captured amount differs from our record',
    'The provider shows another captured amount than the record.',
    'See the amounts.',
  ),
  refunded_differs: finding(
    'The refunded amount differs from our record',
    'The provider shows another refunded amount than the record.',
    'See the amounts.',
  ),
  reservation_stands: finding(
    'A reservation remains after its order ended',
    'The order has ended or is paid, and money is still reserved.',
    'Nothing was captured on it.',
  ),
  missing_there: finding(
    'A payment is missing at the provider',
    'Our record names a payment that the provider does not have. Check that the API keys belong to the right account.',
    'Not known.',
  ),
  no_payment: finding(
    'Sold without a payment',
    'The order is sold, but no capture was recorded for it.',
    'Nothing was charged.',
  ),
  ...reversalEntries,
} satisfies Record<string, EntryWords>;
export type FindingKind = keyof typeof findingEntries;
/** Created from the provider's refunds and disputes, and closed by an operator. The comparison of payments ignores them. */
export const reversalFindings = Object.keys(reversalEntries) as FindingKind[];

/** All kinds of entries. */
export const operatorEntries = {
  ...attentionEntries,
  ...findingEntries,
  outcome_unknown: {
    title: 'The state of a payment is not known',
    means:
      'A call to the provider got no answer, or a payment did not end after several tries. The worker keeps asking; an order keeps its seats meanwhile.',
    charged: 'Not known yet.',
    actions: {
      look: lookAgain,
      give_back: giveAllBack,
      settle: {
        label: 'Record as settled by hand',
        does: 'You confirm that the payment was released or refunded at the provider. We do not ask again.',
      },
    },
  },
  refund_failed: {
    title: 'A refund failed',
    means:
      'The provider or the bank did not pay out a refund. Its tickets are void, and the money is still owed.',
    charged: 'The buyer was charged and does not have the money back.',
    actions: { retry: retryRefund, settle: paidOtherwise },
  },
  refund_gone_back: {
    title: 'A refund failed, and its money went back at the provider',
    means:
      'The provider or the bank did not pay out a refund. As much money or more went back since by a refund that was made at the provider itself. Its tickets are void. Another attempt would pay twice.',
    charged:
      'The buyer has the money back by the refund that was made at the provider, or gets it back within days.',
    actions: { settle: paidOtherwise },
  },
  unknown_object: {
    title: 'The provider reports a payment that we do not know',
    means: 'Events about this payment were checked for three days, and it belongs to none of our orders.',
    charged: 'None of our orders was charged.',
    actions: { look: lookAgain, dismiss: dismissed },
  },
} satisfies Record<string, EntryWords>;
export type EntryKind = keyof typeof operatorEntries;

export const entryWords = (kind: EntryKind): EntryWords => operatorEntries[kind];

/** An action's words for an entry as it stands: there is nothing to keep valid when the tickets of the order are void already. */
export function actionWords(
  { kind, orderState }: { kind: EntryKind; orderState: OrderState | null },
  action: EntryAction,
): ActionWords | undefined {
  const isVoid = action === 'dismiss' && Object.hasOwn(reversalEntries, kind) && orderState !== 'paid';
  return isVoid ? ticketsStayVoid : entryWords(kind).actions[action];
}
