import { plural } from './format.ts';

/** As the payment provider names them. */
const brands: Record<string, string> = {
  amex: 'American Express',
  cartes_bancaires: 'Cartes Bancaires',
  diners: 'Diners Club',
  discover: 'Discover',
  eftpos_au: 'eftpos',
  jcb: 'JCB',
  mastercard: 'Mastercard',
  unionpay: 'UnionPay',
  visa: 'Visa',
};

export const orderTexts = {
  title: 'Your order',
  for: (event: string) => `Your order for ${event}`,
  number: 'Order',
  buyer: 'Buyer',
  amount: 'Amount',
  card: 'Card',
  cardEnding: (brand: string, last4: string) => `${brands[brand] ?? brand} ending in ${last4}`,
  seats: 'Seats',
  tickets: 'Your tickets',
  ticketCount: (n: number) => plural(n, { one: '# ticket', other: '# tickets' }),
  priceAndFee: (price: string, fee: string) => `${price} + ${fee} fee`,
  print: 'Print this page',
  download: 'Download as PDF',
  downloadFailed: 'That did not work. Try again.',
  qrLabel: (where: string) => `Ticket code for ${where}`,
  code: 'Code as text',
  sent: (email: string) => `The tickets are sent to ${email} too.`,
  keep: 'Keep the link to this page. Anyone who has it can see the tickets. Each code lets one person in, once.',
  copy: 'Copy the link',
  copied: 'The link was copied.',
  copyFailed: 'Copy it from the address bar.',
  ticketsSoon: 'Your tickets are being made. They appear here in a moment.',
  paidTitle: 'Paid. The seats are yours.',
  confirmedTitle: 'The seats are yours.',
  confirmed:
    'The money is being taken from your card just now. Your tickets appear here in a moment; you need not do anything.',
  reservedTitle: 'Not paid yet',
  reserved: (until: string) => `The seats are reserved for you until ${until}. Nothing was charged.`,
  toPayment: 'Go to the payment',
  checkingTitle: 'We are asking your bank',
  checking:
    'We do not know yet whether the payment went through. Your seats stay reserved and you will not be charged twice. This page updates automatically.',
  actionTitle: 'Your bank wants a confirmation',
  action: 'Please confirm the payment on your bank’s page. Nothing was charged yet.',
  toBank: 'Go to the bank’s page',
  authorisedTitle: 'The bank has agreed',
  authorised: 'We are putting the seats in your name. Nothing was charged yet.',
  declinedTitle: 'The payment did not go through',
  cancelledByYouTitle: 'You cancelled this order',
  cancelledByYou:
    'The seats were given back. Nothing was charged, and nothing will be. We are lifting the reservation on your card; your bank may show it for some days.',
  voidingTitle: 'The seats could not be given to you',
  voiding:
    'Nothing was charged. The reservation on your card is being lifted; some banks show it for a few days.',
  closedTitle: 'This order has ended',
  cancelledTitle: 'This order is cancelled',
  eventCancelledTitle: 'The event is cancelled',
  refundedTitle: 'This order was refunded',
  ticketsOver: 'It will not take place, and its tickets are not valid any more.',
  refundedSeats: (n: number) =>
    plural(n, {
      one: '# ticket of this order was refunded and is not valid any more. The others stay valid.',
      other: '# tickets of this order were refunded and are not valid any more. The others stay valid.',
    }),
  refundedSeat: 'refunded, not valid any more',
  refund: {
    under_way: (amount: string, at: string) => `Refund of ${amount}, begun ${at}: on its way to your card.`,
    done: (amount: string, at: string) => `Refund of ${amount}, begun ${at}: given back.`,
    failed: (amount: string, at: string) =>
      `Refund of ${amount}, started ${at}: it did not reach your card. We still owe you this amount; the organiser sends it again or pays you in another way.`,
  },
  endedWithMoney: 'This order has ended without tickets. Money that was taken for it was given back.',
  returned: (amount: string, at: string) => `${amount} was taken and given back to the same card on ${at}.`,
  cancelledBank: 'Banks take a few days to show what was given back.',
  cancelledMoney: 'What you paid goes back to the same card. Banks take a few days to show it.',
  cancelledUnpaid:
    'Its tickets are no longer valid. The organiser does not refund them now. If this is a mistake, write to the organiser with the number of this order.',
  ends: {
    not_paid_in_time: 'It was not paid in time, and the seats went back on sale. Nothing was charged.',
    late_payment:
      'Your payment came only after the time for it was over, and by then your seats were released. Nothing was charged: the reservation on your card is being lifted; some banks show it for a few days.',
    closed_by_buyer: 'You cancelled it, and the seats were given back. Nothing was charged.',
    seats_lost:
      'The seats could not be kept. Nothing was charged; if your bank shows a reservation, it lapses automatically.',
    limit:
      'No more tickets for this event can be bought with this e-mail address. Nothing was charged; a reservation on your card lapses automatically. If this is a mistake, tell the organiser the order number on this page; the limit can be lifted for you.',
    card_limit:
      'No more tickets for this event can be bought with this card. Nothing was charged; a reservation on it lapses automatically. You can choose seats again and pay with another card. If this is a mistake, tell the organiser the order number on this page; the limit can be lifted for you.',
    event_cancelled: 'The event was cancelled.',
    capture_refused:
      'Your bank first agreed and then refused to pay. The seats were released. Nothing was charged.',
    refunded: 'Its tickets were refunded and are not valid any more.',
    payment_mismatch:
      'The payment did not match the order. Nothing was taken; a reservation on your card lapses automatically.',
  } as Record<string, string>,
  endedOtherwise: 'Nothing was charged.',
  near: 'These seats are free near yours just now:',
  chooseAgain: 'Choose seats again',
  notFoundTitle: 'This order cannot be shown here',
  notFound:
    'Open it in the browser in which you bought, or with the full link of the order, including the part after the #.',
  failed: 'We cannot reach the sale just now and keep trying. Your order is safe.',
};
