import { fullKind } from '../../src/core/prices.ts';
import type { EventObject, SeatInfo } from '../../src/http/api-types.ts';
import { announce } from '../shared/live.tsx';
import { money } from '../shared/texts/format.ts';
import { texts } from '../shared/texts/texts.ts';
import { type Buyer, type BuyerState, chooseKind, pricedSeats, totalOf } from './session.ts';

const words = texts.access.kinds;

interface Offer {
  kind: string;
  name: string;
  price: number;
}

/** The kinds that a seat's category is sold to, as far as they are open to this buyer; full first. */
export function offersFor(event: EventObject, category: string, opened: readonly string[]): Offer[] {
  const listed = event.prices.find((one) => one.category === category);
  const full = { kind: fullKind, name: words.full, price: listed?.price ?? 0 };
  const others = (event.kinds ?? []).flatMap(({ id, name, locked }) => {
    const price = listed?.kinds?.[id];
    return price === undefined || (locked && !opened.includes(id)) ? [] : [{ kind: id, name, price }];
  });
  return [full, ...others];
}

/** The kind of ticket for one seat. The select is as wide as its longest offer, so nothing moves when it changes. */
export function KindChooser(props: { buyer: Buyer; state: BuyerState; seat: SeatInfo; where: string }) {
  const { buyer, state, seat } = props;
  const event = state.event!;
  const offers = offersFor(event, seat.category, state.code?.kinds ?? []);
  if (offers.length < 2) return null;
  const choose = (kind: string) => {
    chooseKind(buyer, seat.seat, kind);
    const total = totalOf(pricedSeats(buyer.store.get()), state.hold!.orderFee);
    announce(words.total(money(total, event.currency)));
  };
  return (
    <select
      class="kind"
      aria-label={words.label(props.where)}
      value={seat.kind}
      disabled={state.busy !== null}
      onChange={(change) => choose(change.currentTarget.value)}
    >
      {offers.map(({ kind, name, price }) => (
        <option key={kind} value={kind}>
          {words.option(name, money(price, event.currency))}
        </option>
      ))}
    </select>
  );
}

/** The proofs that the gate asks for, for the ticket types on offer for these seats. */
export function KindConditions({ state, seats }: { state: BuyerState; seats: readonly SeatInfo[] }) {
  const event = state.event!;
  const offered = new Set(
    seats.flatMap(({ category }) =>
      offersFor(event, category, state.code?.kinds ?? []).map(({ kind }) => kind),
    ),
  );
  const some = (event.kinds ?? []).filter(({ id, conditions }) => offered.has(id) && conditions !== '');
  if (some.length === 0) return null;
  return (
    <ul class="plain muted small kind-conditions" aria-label={words.title}>
      {some.map(({ id, name, conditions }) => (
        <li key={id}>{words.conditions(name, conditions)}</li>
      ))}
    </ul>
  );
}
