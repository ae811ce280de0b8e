import type { EventNo } from '../core/hold.ts';
import type { OrderState } from '../core/order.ts';
import type { Db } from '../postgres/db.ts';

/** The sales of an event and the state of its money, as they were at one moment. Amounts are minor units. */
export interface SalesFigures {
  /** Epoch ms by Postgres's clock. */
  at: number;
  orders: Partial<Record<OrderState, number>>;
  /** Tickets that are sold and valid, by category and kind of buyer. */
  sold: { category: string; kind: string; tickets: number; prices: number; fees: number }[];
  /** Captured so far, refunded or not. */
  taken: number;
  /** Given back, by the provider or elsewhere. */
  refunded: number;
  /** Decided to be given back, and not there yet. */
  owed: number;
}

/** Older figures are counted again when they are read: an event in which nothing happens owes no job. Seconds. */
const freshSeconds = 30;

interface FiguresRow {
  at: number;
  figures: Omit<SalesFigures, 'at'>;
}

const figuresOf = (row: FiguresRow | undefined): SalesFigures | null =>
  row ? { at: row.at, ...row.figures } : null;

/** Counts again. A large event costs tens of milliseconds: for jobs, and for figures that are older than half a minute. */
export async function refreshFigures(db: Db, event: EventNo): Promise<SalesFigures> {
  const [row] = await db.query<FiguresRow>(
    'figures_refresh',
    'SELECT epoch_ms(f.at)::float8 AS at, f.figures FROM sales_figures_refresh($1) f',
    [event],
  );
  return figuresOf(row)!;
}

/** Half a minute old at most. */
export async function readFigures(db: Db, event: EventNo): Promise<SalesFigures> {
  const [row] = await db.query<FiguresRow>(
    'figures_read',
    `SELECT epoch_ms(at)::float8 AS at, figures FROM sales_figures
     WHERE event_no = $1 AND at > clock_timestamp() - make_interval(secs => $2)`,
    [event, freshSeconds],
  );
  return figuresOf(row) ?? (await refreshFigures(db, event));
}
