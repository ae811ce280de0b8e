import { decimalOf } from '../src/core/money.ts';
import { FAULT_KINDS, type Kind } from './fault-kinds.ts';
import type { FaultOn } from './faults.ts';
import type { Ledger } from './ledger.ts';
import { card } from './render.ts';
import type { IntentRow, MethodRow } from './rows.ts';

/** The simulator's own pages: plain HTML that works without script. Everything that came from outside is escaped. */

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8886; white-space: nowrap; }
td.words { white-space: normal; min-width: 20rem; }
td.amount { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: .9em; overflow-wrap: anywhere; }
li { overflow-wrap: anywhere; margin-bottom: .5rem; }
fieldset { border: 1px solid #8886; margin: 0 0 1rem; padding: .5rem 1rem; display: flex; flex-wrap: wrap; gap: .5rem 1rem; }
label { display: block; }
input, select { font: inherit; display: block; min-height: 44px; padding: .2rem .5rem; max-width: 100%; box-sizing: border-box; }
form.inline { display: inline; }
button { font: inherit; padding: .6rem 1.2rem; min-height: 44px; margin: 0 .5rem .5rem 0; }
.note { border-left: 4px solid #b60; padding: .2rem .8rem; }
`;

export function escapeHtml(value: string): string {
  const entities: Record<string, string> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return value.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

function layout(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`;
}

const ROWS_SHOWN = 200;

/** The switched-on faults, and their effects. */
export interface Switches {
  faults: FaultOn[];
  struck: Partial<Record<string, number>>;
  webhooksWaiting: number;
}

export function ledgerPage(ledger: Ledger, switches: Switches): string {
  const totals = Object.entries(ledger.totals).map(([currency, total]) => [
    currency,
    amount(total.authorised, currency),
    amount(total.captured, currency),
    amount(total.refunded, currency),
    amount(total.net, currency),
  ]);
  const intents = newest(ledger.intents).map((intent) => [
    time(intent.created),
    intent.id,
    intent.reference ?? '',
    intent.status + (intent.decline ? ` (${intent.decline})` : ''),
    amount(intent.amount, intent.currency),
    amount(intent.authorised, intent.currency),
    amount(intent.captured, intent.currency),
    amount(intent.refunded, intent.currency),
    amount(intent.voided, intent.currency),
  ]);
  const charges = newest(ledger.charges).map((charge) => [
    time(charge.created),
    charge.id,
    charge.reference ?? '',
    charge.status,
    amount(charge.amount, charge.currency),
    `${charge.card} …${charge.last4}`,
  ]);
  const refunds = newest(ledger.refunds).map((refund) => [
    time(refund.created),
    refund.id,
    refund.charge,
    refund.status,
    amount(refund.amount, refund.currency),
  ]);
  const disputes = newest(ledger.disputes).map((dispute) => [
    time(dispute.created),
    dispute.id,
    dispute.intent,
    dispute.status,
    amount(dispute.amount, dispute.currency),
    amount(dispute.withdrawn, dispute.currency),
    amount(dispute.fee, dispute.currency),
  ]);
  return layout(
    'Payment simulator: ledger',
    `<h1>Payment simulator: ledger</h1>
<p class="note">No real money. This process stands in for Stripe; what it says here is what was charged.</p>
${table('Totals', ['Currency', 'Reserved', 'Captured', 'Refunded', 'Net'], totals)}
${table('Payment intents', ['Time (UTC)', 'Intent', 'Order', 'Status', 'Amount', 'Reserved', 'Captured', 'Refunded', 'Released'], intents)}
${table('Charges', ['Time (UTC)', 'Charge', 'Order', 'Status', 'Amount', 'Card'], charges)}
${table('Refunds', ['Time (UTC)', 'Refund', 'Charge', 'Status', 'Amount'], refunds)}
${table('Disputes', ['Time (UTC)', 'Dispute', 'Intent', 'Status', 'Amount', 'Withdrawn', 'Fee'], disputes)}
${byHandForms(ledger)}
${faultSwitches(switches)}
<p>As JSON: <a href="/_sim/ledger">/_sim/ledger</a></p>`,
  );
}

/** Actions of an organiser on Stripe's own pages, and of a buyer's bank. */
function byHandForms(ledger: Ledger): string {
  const open = ledger.disputes.filter(({ status }) => !['won', 'lost', 'warning_closed'].includes(status));
  const options = open.map(({ id }) => `<option>${escapeHtml(id)}</option>`).join('');
  const payment =
    '<label>Payment intent <input name="intent" placeholder="pi_…" required autocomplete="off"></label>';
  const part =
    '<label>Amount, minor units <input name="amount" inputmode="numeric" placeholder="all" autocomplete="off"></label>';
  const decide =
    open.length === 0
      ? '<p>No dispute is open.</p>'
      : `<form method="post" action="/_sim/disputes/decide">
<fieldset><legend>Decide a dispute</legend>
<label>Dispute <select name="dispute">${options}</select></label></fieldset>
<button name="outcome" value="won">The shop wins</button>
<button name="outcome" value="lost">The shop loses</button>
<button name="outcome" value="under_review">Evidence is under review</button>
</form>`;
  return `<h2 id="by-hand">By hand</h2>
<p>What an organiser does on the provider’s own pages, and what the buyer’s bank does. The shop hears of it by webhooks.</p>
<form method="post" action="/_sim/refunds">
<fieldset><legend>Refund a payment</legend>${payment}${part}</fieldset>
<button type="submit">Refund</button>
</form>
<form method="post" action="/_sim/disputes">
<fieldset><legend>Dispute a payment</legend>${payment}${part}
<label>Reason <input name="reason" placeholder="fraudulent" autocomplete="off"></label>
<label><input type="checkbox" name="inquiry"> Only an inquiry: no money is withdrawn</label></fieldset>
<button type="submit">Open a dispute</button>
</form>
${decide}`;
}

/** Each is a plain form, so that the switches work without script. */
function faultSwitches(switches: Switches): string {
  const kinds = Object.entries(FAULT_KINDS as Record<string, Kind>);
  const options = kinds.map(([name]) => `<option>${name}</option>`).join('');
  const rows = switches.faults.map(
    (fault) => `<li><form class="inline" method="post" action="/_sim/faults/off">
<input type="hidden" name="id" value="${fault.id}">${withCode(inWords(fault))}
<button type="submit">Switch off</button></form></li>`,
  );
  const says = kinds.map(([name, kind]) => [name, kind.says, String(switches.struck[name] ?? 0)]);
  return `<h2 id="faults">Faults</h2>
${rows.length === 0 ? '<p>None is switched on.</p>' : `<ul>${rows.join('\n')}</ul>`}
<form method="post" action="/_sim/faults">
<fieldset><legend>Switch a fault on</legend>
<label>Fault <select name="fault">${options}</select></label>
${FAULT_FIELDS.map(([name, label, hint]) => `<label>${label} <input name="${name}" placeholder="${hint}" autocomplete="off"></label>`).join('\n')}
</fieldset>
<button type="submit">Switch on</button>
</form>
${button('/_sim/faults/off', 'Switch all off')}
${button('/_sim/webhooks/release', `Release webhooks that wait (${switches.webhooksWaiting})`)}
${button('/_sim/refunds/settle', 'Let refunds arrive or fail')}
${table('What each fault does', ['Fault', 'What it does', 'Struck so far'], says)}`;
}

function inWords(fault: FaultOn): string {
  const { says } = FAULT_KINDS[fault.fault];
  const facts = [
    ...Object.entries(fault.match).map(([name, value]) => `${name} ${value}`),
    ...(fault.times === null ? [] : [`${fault.times} more times`]),
    ...(fault.rate < 1 ? [`at a chance of ${fault.rate}`] : []),
    ...(says.includes('`delayMs`') ? [`${fault.delayMs} ms`] : []),
    ...(says.includes('`copies`') ? [`${fault.copies} copies`] : []),
    ...(fault.until === null ? [] : [`until ${time(fault.until / 1000)}`]),
  ];
  return [`\`${fault.fault}\``, ...facts].join(', ');
}

function withCode(text: string): string {
  return escapeHtml(text).replace(/`([^`]*)`/g, '<code>$1</code>');
}

/** Fields of the form: name, label and allowed values. All may be left empty. */
const FAULT_FIELDS = [
  ['route', 'Route', 'confirm, capture, cancel, create …'],
  ['card', 'Test card', 'visa'],
  ['reference', 'Order', 'any'],
  ['intent', 'Payment intent', 'pi_…'],
  ['key', 'Idempotency key', 'any'],
  ['event', 'Event (webhooks)', 'payment_intent.succeeded'],
  ['times', 'How often', 'always'],
  ['rate', 'Chance, 0 to 1', '1'],
  ['delayMs', 'Delay, ms', '1000'],
  ['copies', 'Copies (webhooks)', '2'],
  ['forMs', 'Stays on for, ms', 'until switched off'],
] as const;

function button(action: string, label: string): string {
  return `<form class="inline" method="post" action="${action}"><button type="submit">${escapeHtml(label)}</button></form>`;
}

function newest<R>(rows: R[]): R[] {
  return rows.slice(-ROWS_SHOWN).reverse();
}

/** A cell that holds an amount is right-aligned. */
interface Amount {
  amount: string;
}

function amount(minor: number, currency: string): Amount {
  return { amount: `${decimalOf(minor, currency)} ${currency}` };
}

function time(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ');
}

function table(caption: string, heads: string[], rows: (string | Amount)[][]): string {
  const head = heads.map((name) => `<th scope="col">${escapeHtml(name)}</th>`).join('');
  const body = rows.map((cells) => `<tr>${cells.map(cell).join('')}</tr>`).join('\n');
  const empty = rows.length === 0 ? `<tr><td colspan="${heads.length}">Nothing yet.</td></tr>` : '';
  const name = escapeHtml(caption);
  return `<div class="scroll" role="region" aria-label="${name}" tabindex="0"><table><caption>${name}</caption>
<thead><tr>${head}</tr></thead>
<tbody>${body}${empty}</tbody></table></div>`;
}

/** Longer texts are sentences, which may break. */
const WORDS_FROM = 50;

function cell(value: string | Amount): string {
  if (typeof value === 'string') {
    return `<td${value.length > WORDS_FROM ? ' class="words"' : ''}>${withCode(value)}</td>`;
  }
  return `<td class="amount">${escapeHtml(value.amount)}</td>`;
}

export function authenticationPage(intent: IntentRow, method: MethodRow): string {
  const test = card(method.card);
  const sum = amount(intent.amount, intent.currency.toUpperCase()).amount;
  return layout(
    'Your bank asks: authorise this payment?',
    `<h1>Authorise this payment?</h1>
<p class="note">This page stands in for your bank. No real money moves.</p>
<p>Payment of <strong>${escapeHtml(sum)}</strong> with the card ending in <strong>${test.number.slice(-4)}</strong>
${intent.description ? `for ${escapeHtml(intent.description)}` : ''}</p>
<form method="post" action="/authenticate/${encodeURIComponent(intent.id)}">
<input type="hidden" name="client_secret" value="${escapeHtml(intent.clientSecret)}">
<button type="submit" name="answer" value="authorise">Authorise</button>
<button type="submit" name="answer" value="refuse">Refuse</button>
</form>`,
  );
}

export function messagePage(title: string, message: string): string {
  return layout(title, `<h1>${escapeHtml(title)}</h1>\n<p>${escapeHtml(message)}</p>`);
}
