/**
 * The test cards: Stripe's published numbers and their `pm_card_…` names, and what the issuing bank of each says.
 * Numbers and behaviour as in Stripe's testing guide (https://docs.stripe.com/testing).
 */
export interface TestCard {
  /** The part after `pm_card_`. */
  name: string;
  number: string;
  brand: 'visa' | 'mastercard' | 'amex' | 'discover';
  bank: BankBehaviour;
  /** The number of a variant: a further card of this kind, with a fingerprint of its own. */
  variant?: number;
  /** Shown in the page's list of cards to choose; absent for those that only programs use. */
  label?: string;
}

export interface BankBehaviour {
  /** Asks the buyer to authenticate before anything else is decided. */
  authenticate?: true;
  decline?: Decline;
  /** How refunds of this card go; at once where it is not said. */
  refund?: RefundManner;
}

export type RefundManner =
  | 'at_once'
  | 'pending'
  | 'waits_for_balance'
  | 'pending_fails'
  | 'fails_later'
  | 'fails';

export interface Decline {
  code: string;
  declineCode: string | null;
  message: string;
}

const DECLINED = 'Your card was declined.';

function declined(declineCode: string, message = DECLINED, code = 'card_declined'): Decline {
  return { code, declineCode, message };
}

const INSUFFICIENT = declined('insufficient_funds', 'Your card has insufficient funds.');

export const TEST_CARDS: readonly TestCard[] = [
  { name: 'visa', number: '4242424242424242', brand: 'visa', bank: {}, label: 'Visa, succeeds' },
  { name: 'visa_debit', number: '4000056655665556', brand: 'visa', bank: {} },
  {
    name: 'mastercard',
    number: '5555555555554444',
    brand: 'mastercard',
    bank: {},
    label: 'Mastercard, succeeds',
  },
  { name: 'mastercard_debit', number: '5200828282828210', brand: 'mastercard', bank: {} },
  { name: 'amex', number: '378282246310005', brand: 'amex', bank: {} },
  { name: 'discover', number: '6011111111111117', brand: 'discover', bank: {} },
  {
    name: 'authenticationRequired',
    number: '4000002500003155',
    brand: 'visa',
    bank: { authenticate: true },
    label: 'Asks for authentication',
  },
  {
    name: 'authenticationRequiredOnSetup',
    number: '4000002760003184',
    brand: 'visa',
    bank: { authenticate: true },
  },
  {
    name: 'threeDSecure2Required',
    number: '4000000000003220',
    brand: 'visa',
    bank: { authenticate: true },
    label: '3-D Secure required',
  },
  { name: 'threeDSecureRequired', number: '4000000000003063', brand: 'visa', bank: { authenticate: true } },
  { name: 'threeDSecureOptional', number: '4000000000003055', brand: 'visa', bank: {} },
  {
    name: 'authenticationRequiredChargeDeclinedInsufficientFunds',
    number: '4000008260003178',
    brand: 'visa',
    bank: { authenticate: true, decline: INSUFFICIENT },
  },
  {
    name: 'threeDSecureRequiredChargeDeclined',
    number: '4000008400001629',
    brand: 'visa',
    bank: { authenticate: true, decline: declined('generic_decline') },
  },
  {
    name: 'chargeDeclined',
    number: '4000000000000002',
    brand: 'visa',
    bank: { decline: declined('generic_decline') },
    label: 'Declined',
  },
  {
    name: 'chargeDeclinedInsufficientFunds',
    number: '4000000000009995',
    brand: 'visa',
    bank: { decline: INSUFFICIENT },
    label: 'Insufficient funds',
  },
  {
    name: 'chargeDeclinedLostCard',
    number: '4000000000009987',
    brand: 'visa',
    bank: { decline: declined('lost_card') },
  },
  {
    name: 'chargeDeclinedStolenCard',
    number: '4000000000009979',
    brand: 'visa',
    bank: { decline: declined('stolen_card') },
  },
  {
    name: 'chargeDeclinedExpiredCard',
    number: '4000000000000069',
    brand: 'visa',
    bank: { decline: declined('expired_card', 'Your card has expired.', 'expired_card') },
    label: 'Expired card',
  },
  {
    name: 'chargeDeclinedIncorrectCvc',
    number: '4000000000000127',
    brand: 'visa',
    bank: { decline: declined('incorrect_cvc', "Your card's security code is incorrect.", 'incorrect_cvc') },
    label: 'Wrong security code',
  },
  {
    name: 'chargeDeclinedProcessingError',
    number: '4000000000000119',
    brand: 'visa',
    bank: {
      decline: declined(
        'processing_error',
        'An error occurred while processing your card. Try again in a little bit.',
        'processing_error',
      ),
    },
  },
  {
    name: 'chargeDeclinedVelocityLimitExceeded',
    number: '4000000000006975',
    brand: 'visa',
    bank: { decline: declined('card_velocity_exceeded') },
  },
  {
    name: 'chargeDeclinedFraudulent',
    number: '4100000000000019',
    brand: 'visa',
    bank: { decline: declined('fraudulent') },
  },
  {
    name: 'radarBlock',
    number: '4000000000004954',
    brand: 'visa',
    bank: { decline: declined('fraudulent') },
  },
  {
    name: 'chargeCustomerFail',
    number: '4000000000000341',
    brand: 'visa',
    bank: { decline: declined('generic_decline') },
  },
  { name: 'createDispute', number: '4000000000000259', brand: 'visa', bank: {} },
  { name: 'pendingRefund', number: '4000000000007726', brand: 'visa', bank: { refund: 'pending' } },
  { name: 'refundFail', number: '4000000000005126', brand: 'visa', bank: { refund: 'fails_later' } },
];

const byName = new Map(TEST_CARDS.map((card) => [card.name, card]));
const byNumber = new Map(TEST_CARDS.map((card) => [card.number, card]));

/**
 * `visa_17` is another card than `visa` and `visa_18`: it has its own fingerprint and behaves the same. For crowds, where one
 * number for all buyers would be one card to the limits. Stripe has no such names.
 */
export function cardByName(name: string): TestCard | undefined {
  const known = byName.get(name);
  if (known) return known;
  const [, kind = '', variant] = /^(.+)_([1-9]\d{0,8})$/.exec(name) ?? [];
  const base = byName.get(kind);
  return base && { ...base, name, variant: Number(variant) };
}

/** The name without the number of a variant. */
export function kindOfCard(name: string): string {
  return byName.has(name) ? name : name.replace(/_[1-9]\d{0,8}$/, '');
}

export function cardByNumber(number: string): TestCard | undefined {
  return byNumber.get(number);
}

/** True when the digits pass the Luhn check that every card number carries. */
export function passesLuhn(number: string): boolean {
  if (!/^\d{12,19}$/.test(number)) return false;
  let sum = 0;
  for (let i = 0; i < number.length; i++) {
    const digit = Number(number[number.length - 1 - i]);
    const doubled = i % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}
