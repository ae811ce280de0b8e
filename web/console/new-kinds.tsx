import { priceLimits } from '../../src/core/prices.ts';
import type { createEvent } from '../../src/operate/events.ts';
import type { InputOf } from '../../src/operate/operation.ts';
import { consoleTexts } from '../shared/texts/console-texts.ts';
import { Field, minorOf } from './fields.tsx';

const words = consoleTexts.codes.kinds;

/** A kind of ticket while it is being typed. `key` keeps its fields apart from those of the others. */
export interface KindDraft {
  key: number;
  name: string;
  conditions: string;
  locked: boolean;
  /** Category → price in main units. */
  prices: Record<string, string>;
}

const kindsMax = priceLimits.kindsMax;
type TicketTypes = NonNullable<InputOf<typeof createEvent>['kinds']>;

/** Further ticket types besides full price, with a price for each category in which they are sold. */
export function KindFields(props: {
  kinds: KindDraft[];
  categories: string[];
  onKinds: (change: (kinds: KindDraft[]) => KindDraft[]) => void;
}) {
  const { kinds, categories, onKinds } = props;
  const change = (key: number, part: (kind: KindDraft) => Partial<KindDraft>) =>
    onKinds((now) => now.map((kind) => (kind.key === key ? { ...kind, ...part(kind) } : kind)));
  const add = () => {
    const key = Math.max(0, ...kinds.map((kind) => kind.key)) + 1;
    onKinds((now) => [...now, { key, name: '', conditions: '', locked: false, prices: {} }]);
  };
  return (
    <fieldset class="stack">
      <legend class="label">{words.title}</legend>
      <p class="muted small">{words.help}</p>
      {kinds.map((kind, i) => {
        const title = kind.name.trim() || words.nth(i + 1);
        return (
          <fieldset key={kind.key} class="kind-draft stack">
            <legend>{title}</legend>
            <div class="columns">
              <Field
                id={`kind-${kind.key}-name`}
                label={words.name}
                value={kind.name}
                required
                onValue={(name) => change(kind.key, () => ({ name }))}
              />
              <Field
                id={`kind-${kind.key}-conditions`}
                label={words.conditions}
                value={kind.conditions}
                onValue={(conditions) => change(kind.key, () => ({ conditions }))}
              />
            </div>
            <div class="columns">
              {categories.map((category, j) => (
                <Field
                  key={category}
                  id={`kind-${kind.key}-price-${j}`}
                  label={words.price(category, title)}
                  value={kind.prices[category] ?? ''}
                  inputMode="decimal"
                  onValue={(price) =>
                    change(kind.key, ({ prices }) => ({ prices: { ...prices, [category]: price } }))
                  }
                />
              ))}
            </div>
            <label>
              <input
                type="checkbox"
                checked={kind.locked}
                onChange={({ currentTarget: { checked: locked } }) => change(kind.key, () => ({ locked }))}
              />{' '}
              {words.locked}
            </label>
            <div>
              <button
                type="button"
                class="button small"
                onClick={() => onKinds((now) => now.filter((other) => other.key !== kind.key))}
              >
                {words.remove(title)}
              </button>
            </div>
          </fieldset>
        );
      })}
      <div>
        <button type="button" class="button small" disabled={kinds.length >= kindsMax} onClick={add}>
          {words.add}
        </button>
      </div>
    </fieldset>
  );
}

/** For the request, or the sentence about what is wrong. */
export function kindsOf(
  drafts: readonly KindDraft[],
  categories: readonly string[],
  currency: string,
): TicketTypes | string {
  const kinds: TicketTypes = [];
  const ids = new Set(['full']);
  for (const { name, conditions, locked, prices } of drafts) {
    if (name.trim() === '') return words.nameMissing;
    const minor: Record<string, number> = {};
    for (const category of categories) {
      const text = prices[category]?.trim() ?? '';
      if (text === '') continue;
      const price = minorOf(text, currency);
      if (price === null) return consoleTexts.newEvent.priceWrong(words.price(category, name.trim()));
      minor[category] = price;
    }
    if (Object.keys(minor).length === 0) return words.priceMissing(name.trim());
    const id = idOf(name, ids);
    ids.add(id);
    kinds.push({
      id,
      name: name.trim(),
      conditions: conditions.trim(),
      prices: minor,
      ...(locked ? { locked } : {}),
    });
  }
  return kinds;
}

/** `Reduced price` → `reduced-price`; what has no Latin letters is numbered. */
function idOf(name: string, taken: ReadonlySet<string>): string {
  const plain = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 30);
  const base = plain || 'kind';
  let id = base;
  for (let n = 2; taken.has(id); n += 1) id = `${base}-${n}`;
  return id;
}
