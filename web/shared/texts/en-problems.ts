import { counted } from '../../../src/core/counted.ts';

/** “At most 4 seats with one e-mail address; 2 are bought already.” */
function limitText(by: string): (limit: { max: number; used: number }) => string {
  return ({ max, used }) => {
    const bought = used === 0 ? '' : ` You have ${counted(used, 'seat')} already.`;
    return `You can buy at most ${counted(max, 'seat')} for this event with ${by}.${bought} Nothing was charged, and the seats in your basket stay held until their time is over. Remove some of them, or give them back.`;
  };
}

/** What a person can do, by the API's code. Codes that are not listed show the API's own sentence. */
export const problemTexts = {
  title: 'That did not work',
  unexpected: 'Something went wrong on our side. Nothing was charged. Try again in a moment.',
  retry: 'Try again',
  appeal: 'If this is a mistake, tell the organiser this reference; the limit can be lifted for you:',
  cooldown: {
    title: 'A short wait before you hold seats again',
    why: 'Seats that you held were given back or lapsed without payment, and other people are waiting for them. Nothing was charged, and nothing is lost.',
    left: 'You can hold seats again in',
    meanwhile: 'Seats that you hold now stay yours until their time is over, and can be paid.',
    appeal: 'If this is a mistake, tell the organiser this reference; the wait can be lifted:',
    overTitle: 'The wait is over',
    over: 'You can hold seats again.',
  },
  byCode: {
    cookie_required:
      'This browser did not keep our cookie. Allow cookies for this page and try again; without them we cannot keep your place.',
    not_open: 'The sale is not open just now. Your place is kept.',
    paused: 'The sale is paused for the moment. Your place is kept. Nothing was charged.',
    sold_out: 'Everything is sold. Nothing was charged.',
    sale_closed: 'The sale has ended. Nothing was charged.',
    event_cancelled: 'The event was cancelled. Nothing was charged.',
    ticket_refused:
      'Your number is not valid in this browser any more. Join the line again. Nothing was charged.',
    pass_refused:
      'Your turn could not be confirmed in this browser. Join the line again. Nothing was charged.',
    account_required:
      'Seats of this event are held by account. Sign in on the page that you came from and open the sale from there again; your place in the line is kept. Nothing was charged.',
    pass_expired:
      'Your time for choosing seats is over. Nothing was charged. Seats that you hold can still be paid.',
    hold_gone: 'The time for these seats is over and they went back on sale. Nothing was charged.',
    unknown_hold: 'These seats are not held in this browser any more. Nothing was charged.',
    hold_quota: 'You may not hold more seats at once. Choose fewer.',
    address_limit:
      'Many seats are held from your internet connection at the moment, and one connection may hold only so many at once. Nothing was held for you and nothing was charged. Try again in half a minute, or use another connection, such as your phone’s own.',
    too_many_claims:
      'You asked for seats, or tried to pay, very often within a minute. Wait a few seconds, then try again. Nothing was charged, and seats that you hold stay yours.',
    too_many_joins:
      'Many people on your internet connection are joining the line at the moment. We will try again for you in a few seconds. Joining is free.',
    cooldown:
      'Seats that you held were not paid. You can hold seats again in a short while. Nothing was charged.',
    hold_ordered: 'Payment has started for these seats. Cancel the order if you want others.',
    across_partitions:
      'These seats are sold in separate parts of the venue. Choose seats of one part. Nothing was charged.',
    sold_as_unit: 'This box is sold only as a whole. Choose all of its seats.',
    unknown_seat: 'One of these seats is not on sale. Choose others.',
    order_open: 'You have an order for this event that is not paid yet. Pay or cancel it first.',
    code_unknown:
      'This event has no such access code. Check it: capitals, spaces and dashes do not matter. Nothing was charged.',
    code_ended:
      'This access code is not valid any more. Ask the person who gave it to you. Nothing was charged.',
    code_used_up:
      'This access code was used as often as it may be. An order that ends unpaid gives its use back: try again later, or use another code. Nothing was charged.',
    price_differs: 'The price is another one than you saw. Look at your seats again. Nothing was charged.',
    order_ended: 'This order has ended. Nothing was charged. You can choose seats again.',
    payment_unavailable:
      'Paying is not possible at this moment. Your card was not tried and nothing was charged. Try again in a moment.',
    order_bought: 'This order is already paid.',
    unknown_order: 'This order is not known in this browser.',
    busy: 'Very many people are buying at the moment. Try again in a moment; your place is kept.',
    too_many_requests: 'That was too often. Wait a moment and try again.',
    unavailable: 'This is not possible just now. Nothing was charged. Try again in a moment.',
  } as Record<string, string>,
  limits: {
    account_limit: limitText('one e-mail address'),
    visitor_limit: limitText('one browser'),
  } as Record<string, (limit: { max: number; used: number }) => string>,
};
