import type { ComponentChildren } from 'preact';
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
}) {
  const { seats, currency } = props;
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
          return (
            <tr key={seat.seat}>
              <td>
                <strong>{texts.map.sectionName(seat.sectionName)}</strong>
                <div>{where}</div>
                <div class="muted small">
                  {seat.category}
                  {!props.kindOf && seat.kindName && ` · ${seat.kindName}`}
                </div>
                {props.kindOf?.(seat, `${texts.map.sectionName(seat.sectionName)}, ${where}`)}
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
