import { type ComponentChildren, Fragment } from 'preact';
import type { SeatInfo } from '../../src/http/api-types.ts';
import { money } from './texts/format.ts';
import { texts } from './texts/texts.ts';

const words = texts.basket;

/** Seats with prices, fees and the sum, as in basket, payment and order. */
export function SeatTable(props: {
  seats: SeatInfo[];
  currency: string;
  orderFee: number;
  total: number;
  onRemove?: (seat: number) => void;
  /** Where the kind of each ticket can be chosen: the control for one seat, in place of the kind's name. */
  kindOf?: (seat: SeatInfo, where: string) => ComponentChildren;
  /** A note about the state of the seat's ticket. */
  noteOf?: (seat: number) => string | null;
}) {
  const { seats, currency } = props;
  const columns = props.onRemove ? 3 : 2;
  return (
    <table class="seat-table">
      <thead>
        <tr>
          <th scope="col">{words.seat}</th>
          <th scope="col" class="amount">
            {words.price}
          </th>
          {props.onRemove && (
            <th scope="col">
              <span class="visually-hidden">{words.remove}</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {seats.map((seat) => {
          const where = texts.map.seat(seat);
          const chooser = props.kindOf?.(seat, `${texts.map.sectionName(seat.sectionName)}, ${where}`);
          const note = props.noteOf?.(seat.seat);
          const row = (
            <tr key={seat.seat} class={chooser ? 'has-kind' : undefined}>
              <td>
                <strong>{texts.map.sectionName(seat.sectionName)}</strong>
                <div>{where}</div>
                <div class="muted small">
                  {seat.category}
                  {!props.kindOf && seat.kindName && ` · ${seat.kindName}`}
                </div>
                {note && <div class="small">{note}</div>}
              </td>
              <td class="amount">
                {money(seat.price, currency)}
                {seat.fee > 0 && (
                  <div class="muted small">{texts.event.feeOne(money(seat.fee, currency))}</div>
                )}
              </td>
              {props.onRemove && (
                <td class="amount">
                  <button
                    type="button"
                    class="remove"
                    aria-label={words.removeWhich(`${texts.map.sectionName(seat.sectionName)}, ${where}`)}
                    onClick={() => props.onRemove?.(seat.seat)}
                  >
                    <span aria-hidden="true">×</span>
                  </button>
                </td>
              )}
            </tr>
          );
          if (!chooser) return row;
          return (
            <Fragment key={seat.seat}>
              {row}
              <tr class="kind-row">
                <td colSpan={columns}>{chooser}</td>
              </tr>
            </Fragment>
          );
        })}
      </tbody>
      <tfoot>
        {props.orderFee > 0 && (
          <tr>
            <th scope="row">{words.orderFee}</th>
            <td class="amount">{money(props.orderFee, currency)}</td>
            {props.onRemove && <td />}
          </tr>
        )}
        <tr class="sum">
          <th scope="row">{words.total}</th>
          <td class="amount">{money(props.total, currency)}</td>
          {props.onRemove && <td />}
        </tr>
      </tfoot>
    </table>
  );
}
