import { useState } from 'preact/hooks';
import { newEventLimits } from '../../src/core/limits.ts';
import type { createEvent } from '../../src/operate/events.ts';
import type { InputOf, OutputOf } from '../../src/operate/operation.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { Field, instantOf, minorOf, refusal, type Said, SaidView } from './fields.tsx';
import { type KindDraft, KindFields, kindsOf } from './new-kinds.tsx';
import type { PlanSummary } from './shapes.ts';
import { useRequest } from './use-request.ts';

const words = consoleTexts.newEvent;
const kindWords = consoleTexts.codes.kinds;
const labels = { ...words, presaleAt: kindWords.presaleAt };
const empty = {
  name: '',
  id: '',
  plan: '',
  currency: 'EUR',
  seatFee: '0',
  orderFee: '0',
  performanceAt: '',
  onSaleAt: '',
  presaleAt: '',
  saleEndsAt: '',
  holdMinutes: '10',
  holdSeatsMax: '6',
  accountSeatsMax: '',
  instrumentSeatsMax: '',
};

type Form = typeof empty;
type NewEventBody = InputOf<typeof createEvent>;

/** A draft: name, plan, prices, times, limits. */
export function NewEvent(props: { plans: PlanSummary[]; onCreated: (id: string) => void }) {
  const [form, setForm] = useState<Form>(empty);
  const defaults = newEventLimits(Number(form.holdSeatsMax) || 6);
  const [prices, setPrices] = useState<Record<string, string>>({});
  const [kinds, setKinds] = useState<KindDraft[]>([]);
  const [locked, setLocked] = useState<readonly string[]>([]);
  const { busy, request } = useRequest();
  const [said, setSaid] = useState<Said>(null);
  const plan = props.plans.find((one) => one.plan === form.plan);
  const set = (field: keyof Form) => (value: string) => setForm((now) => ({ ...now, [field]: value }));

  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy || !plan) return;
    const body = bodyOf(form, plan, { prices, kinds, locked });
    if (typeof body === 'string') return setSaid({ tone: 'bad', text: body });
    const answer = await request<OutputOf<typeof createEvent>>('/api/organiser/events', {
      method: 'POST',
      body,
    });
    if (answer.kind === 'ok') props.onCreated(answer.body.id);
    else setSaid(refusal(answer));
  };

  const input = (
    field: keyof Form,
    more: { type?: 'number' | 'datetime-local'; hint?: string; required?: boolean } = {},
  ) => (
    <Field id={`event-${field}`} label={labels[field]} value={form[field]} onValue={set(field)} {...more} />
  );
  return (
    <form class="card stack-l" onSubmit={(event) => void submit(event)}>
      <h2>{words.title}</h2>
      <div class="columns">
        {input('name', { required: true })}
        {input('id', { hint: words.idHint })}
        <div class="field">
          <label for="event-plan">{words.plan}</label>
          <select
            id="event-plan"
            required
            value={form.plan}
            onChange={(event) => set('plan')(event.currentTarget.value)}
          >
            <option value="">{words.noPlan}</option>
            {props.plans.map((one) => (
              <option key={one.plan} value={one.plan}>
                {`${one.name} (${consoleTexts.plans.version(one.version)})`}
              </option>
            ))}
          </select>
        </div>
        {input('currency', { required: true })}
      </div>
      {plan && (
        <fieldset class="stack">
          <legend class="label">{words.prices}</legend>
          <div class="columns">
            {plan.report.categories.map((category, i) => (
              <Field
                key={category.name}
                id={`price-${i}`}
                label={words.price(category.name, category.seats)}
                value={prices[category.name] ?? ''}
                inputMode="decimal"
                required
                onValue={(value) => setPrices((now) => ({ ...now, [category.name]: value }))}
              />
            ))}
          </div>
        </fieldset>
      )}
      {plan && (
        <KindFields
          kinds={kinds}
          categories={plan.report.categories.map(({ name }) => name)}
          onKinds={setKinds}
        />
      )}
      {plan && (
        <fieldset class="stack">
          <legend class="label">{kindWords.lockedTitle}</legend>
          {plan.report.categories.map(({ name }) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={locked.includes(name)}
                onChange={({ currentTarget: { checked } }) =>
                  setLocked((now) => [...now.filter((other) => other !== name), ...(checked ? [name] : [])])
                }
              />{' '}
              {kindWords.lockedCategory(name)}
            </label>
          ))}
        </fieldset>
      )}
      <div class="columns">
        {input('seatFee')}
        {input('orderFee')}
      </div>
      <div class="columns">
        {input('performanceAt', { type: 'datetime-local', hint: words.local })}
        {input('onSaleAt', { type: 'datetime-local', hint: words.local })}
        {input('presaleAt', { type: 'datetime-local', hint: words.local })}
        {input('saleEndsAt', { type: 'datetime-local', hint: words.local })}
      </div>
      <div class="columns">
        {input('holdMinutes', { type: 'number' })}
        {input('holdSeatsMax', { type: 'number' })}
        {input('accountSeatsMax', { type: 'number', hint: words.limitDefault(defaults.accountSeatsMax) })}
        {input('instrumentSeatsMax', {
          type: 'number',
          hint: words.limitDefault(defaults.instrumentSeatsMax),
        })}
      </div>
      <SaidView said={said} />
      <div>
        <button type="submit" class="button primary" aria-disabled={busy}>
          {busy ? consoleTexts.busy : words.create}
        </button>
      </div>
    </form>
  );
}

/** The request, or the sentence about what is wrong with the form. */
function bodyOf(
  form: Form,
  plan: PlanSummary,
  priced: { prices: Record<string, string>; kinds: KindDraft[]; locked: readonly string[] },
): NewEventBody | string {
  const { prices } = priced;
  const currency = form.currency.trim().toUpperCase();
  if (!/^[A-Z]{3}$/.test(currency)) return words.currencyWrong;
  const minor: Record<string, number> = {};
  for (const { name } of plan.report.categories) {
    const price = minorOf(prices[name] ?? '', currency);
    if (price === null) return words.priceWrong(name);
    minor[name] = price;
  }
  const names = plan.report.categories.map(({ name }) => name);
  const kinds = kindsOf(priced.kinds, names, currency);
  if (typeof kinds === 'string') return kinds;
  const lockedCategories = priced.locked.filter((name) => names.includes(name));
  const seatFee = minorOf(form.seatFee || '0', currency);
  const orderFee = minorOf(form.orderFee || '0', currency);
  if (seatFee === null) return words.priceWrong(words.seatFee);
  if (orderFee === null) return words.priceWrong(words.orderFee);
  return {
    ...(form.id.trim() ? { id: form.id.trim() } : {}),
    name: form.name.trim(),
    plan: plan.plan,
    currency,
    prices: minor,
    ...(kinds.length > 0 ? { kinds } : {}),
    ...(lockedCategories.length > 0 ? { lockedCategories } : {}),
    seatFee,
    orderFee,
    performanceAt: instantOf(form.performanceAt),
    onSaleAt: instantOf(form.onSaleAt),
    presaleAt: instantOf(form.presaleAt),
    saleEndsAt: instantOf(form.saleEndsAt),
    holdMinutes: Number(form.holdMinutes) || 10,
    holdSeatsMax: Number(form.holdSeatsMax) || 6,
    // Empty fields start with the default. The event's page can lift the limit.
    ...(form.accountSeatsMax ? { accountSeatsMax: Number(form.accountSeatsMax) } : {}),
    ...(form.instrumentSeatsMax ? { instrumentSeatsMax: Number(form.instrumentSeatsMax) } : {}),
  };
}
