import { plural } from './format.ts';

/** English: exports, and forgetting a buyer, on the organiser's page. */
export const enExports = {
  title: 'Exports',
  allTitle: 'Exports of all events',
  help: 'Each file shows one moment. It holds names and addresses of buyers: keep it safe.',
  what: { orders: 'Orders', tickets: 'Tickets', refunds: 'Refunds' },
  as: (what: string) => `${what} as`,
  elsewhere: 'Files over all events, and forgetting a buyer:',
  toBuyers: 'Buyers’ data',
  forget: {
    title: 'Forget a buyer',
    help: 'Deletes name, address and card of all orders of this buyer, in all events. Sums and seats stay. It cannot be undone.',
    buyer: 'E-mail address',
    buyerHint: 'Or sub: and the account that your platform knows the buyer by.',
    nameless: 'Also if tickets are still to be used. They stay valid and bear no name.',
    ask: 'What would happen?',
    would: (orders: number, tickets: number) =>
      `Orders that would lose their names: ${orders}. Valid tickets among them: ${tickets}.`,
    type: (code: string) => `To delete the data for good, type ${code}`,
    yes: 'Delete for good',
    no: 'Leave it as it is',
    done: (n: number) =>
      `Done: the names were deleted from ${plural(n, { one: '# order', other: '# orders' })}.`,
    payments: (ids: string) => `The payment provider keeps data of its own about: ${ids}`,
    notYet:
      'Nothing was deleted. Settle what is listed, then ask again. Where only tickets are still to be used, you may tick the box instead.',
    whys: {
      under_way: 'its payment is under way',
      refund_under_way: 'a refund is under way',
      refund_failed: 'a refund failed, the money is owed',
      on_the_list: 'something about its money does not fit',
      mail_under_way: 'a mail is just being sent, try again',
      event_not_over: 'its tickets are still to be used',
    } as Record<string, string>,
    refused: (order: string, why: string) => `Order ${order}: ${why}.`,
  },
};
