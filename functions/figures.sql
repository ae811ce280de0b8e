-- Figures of an event's sale: what was sold and what became of the money. A job counts them after each confirmed order, cancelled
-- order and refund (at most one waits per event), so that readers cost nothing.

-- Counts an event in one snapshot and stores the result unless a later one is stored. Amounts are minor units. Includes money that
-- went back without us.
CREATE OR REPLACE FUNCTION sales_figures_refresh(p_event integer) RETURNS sales_figures LANGUAGE sql AS $$
  WITH sold AS (
    SELECT s.category, t.kind, count(*) AS tickets, sum(t.price) AS prices, sum(t.fee) AS fees
    FROM tickets t JOIN event_seats s ON s.event_no = t.event_no AND s.seat_no = t.seat_no
    WHERE t.event_no = p_event AND t.status = 'sold' GROUP BY 1, 2),
  placed AS (SELECT state, count(*) AS n FROM orders WHERE event_no = p_event GROUP BY 1),
  moved AS (
    SELECT coalesce(sum(m.amount) FILTER (WHERE m.kind = 'capture'), 0) AS taken,
           coalesce(sum(m.amount) FILTER (WHERE m.kind = 'refund'), 0) AS given
    FROM money_operations m JOIN orders o USING (order_id)
    WHERE o.event_no = p_event AND m.state = 'done' AND m.kind IN ('capture','refund')),
  back AS (
    SELECT coalesce(sum(amount) FILTER (WHERE state = 'elsewhere'), 0) AS elsewhere,
           coalesce(sum(amount) FILTER (WHERE state NOT IN ('done','elsewhere')), 0) AS owed
    FROM refunds WHERE event_no = p_event),
  reversed AS (
    SELECT coalesce(sum(v.taken), 0) AS taken FROM reversals v JOIN orders o USING (order_id) WHERE o.event_no = p_event),
  -- Paid once, known twice: at the provider, and as a refund that an operator settled.
  twice AS (
    SELECT coalesce(sum(order_settled_there(order_id)), 0) AS taken
    FROM (SELECT DISTINCT order_id FROM refunds WHERE event_no = p_event AND state = 'elsewhere') s),
  counted AS (
    SELECT jsonb_build_object(
      'orders', (SELECT coalesce(jsonb_object_agg(state, n), '{}') FROM placed),
      'sold', (SELECT coalesce(jsonb_agg(jsonb_build_object('category', category, 'kind', kind, 'tickets', tickets,
                 'prices', prices, 'fees', fees) ORDER BY category, kind), '[]') FROM sold),
      'taken', moved.taken, 'refunded', moved.given + back.elsewhere + reversed.taken - twice.taken, 'owed', back.owed) AS figures
    FROM moved, back, reversed, twice)
  INSERT INTO sales_figures AS f (event_no, at, figures)
  SELECT p_event, statement_timestamp(), figures FROM counted
  ON CONFLICT (event_no) DO UPDATE SET
    figures = CASE WHEN excluded.at > f.at THEN excluded.figures ELSE f.figures END,
    at = greatest(excluded.at, f.at)
  RETURNING f.*
$$;
