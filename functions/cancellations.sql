-- Cancelling an event: one row, and a run over its orders that any worker may continue. Lock order as in refunds.sql.

CREATE OR REPLACE FUNCTION cancellation_json(c event_cancellations) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'eventNo', c.event_no, 'actor', c.actor, 'reason', c.reason, 'fees', c.fees, 'seats', c.seats, 'perSecond', c.per_second,
    'state', c.state, 'startedAt', epoch_ms(c.started_at), 'finishedAt', epoch_ms(c.finished_at),
    'currency', (SELECT currency FROM events WHERE event_no = c.event_no)) || cancellation_counts(c.event_no)
$$;

-- Returns the progress: orders and minor units by outcome.
CREATE OR REPLACE FUNCTION cancellation_counts(p_event integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'refunds', (SELECT coalesce(jsonb_object_agg(state, jsonb_build_object('refunds', n, 'amount', amount)), '{}')
                FROM (SELECT state, count(*) AS n, sum(amount) AS amount FROM refunds
                      WHERE event_no = p_event AND cancellation GROUP BY state) r),
    'earlier', (SELECT coalesce(jsonb_object_agg(state, jsonb_build_object('refunds', n, 'amount', amount)), '{}')
                FROM (SELECT state, count(*) AS n, sum(amount) AS amount FROM refunds
                      WHERE event_no = p_event AND NOT cancellation GROUP BY state) r),
    'closed', (SELECT count(*) FROM orders WHERE event_no = p_event AND state = 'closed' AND reason = 'event_cancelled'),
    'left', (SELECT count(*) FROM orders WHERE event_no = p_event AND state IN ('paid','confirmed')),
    'ending', (SELECT count(*) FROM orders WHERE event_no = p_event AND state IN ('reserved','authorised','voiding')))
$$;

-- Returns what cancelling would do now, limited to what is left of each order's money.
CREATE OR REPLACE FUNCTION cancellation_preview(p_event integer, p_fees text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'orders', count(*) FILTER (WHERE o.state IN ('confirmed','paid')),
    'tickets', coalesce(sum(t.n) FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'amount', coalesce(sum(least(order_left(o),
                t.prices + CASE WHEN p_fees = 'returned' THEN t.fees + o.order_fee - coalesce(f.given, 0) ELSE 0 END))
              FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'unpaidOrders', count(*) FILTER (WHERE o.state IN ('reserved','authorised','voiding')),
    'currency', (SELECT currency FROM events WHERE event_no = p_event))
  FROM orders o
    LEFT JOIN (SELECT order_id, count(*) AS n, sum(price) AS prices, sum(fee) AS fees FROM tickets
               WHERE event_no = p_event AND status = 'sold' GROUP BY order_id) t USING (order_id)
    LEFT JOIN (SELECT order_id, sum(order_fee) AS given FROM refunds
               WHERE event_no = p_event GROUP BY order_id) f USING (order_id)
  WHERE o.event_no = p_event AND o.state IN ('reserved','authorised','voiding','confirmed','paid')
$$;

-- Claims the run and returns the next orders, at most as many as the rate allows over all workers: paid ones, unpaid ones with
-- nothing under way or waiting for the buyer or provider, and refunds to be tried again. Orders with a call in flight come when it
-- has ended. The run is done when nothing is left and nothing is under way.
CREATE OR REPLACE FUNCTION cancellation_next(p_event integer, p_owner text, p_lease_ms integer, p_most integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c event_cancellations;
  v_now timestamptz := clock_timestamp();
  v_most integer;
  v_orders uuid[]; v_retries uuid[] := '{}';
BEGIN
  SELECT * INTO c FROM event_cancellations
  WHERE event_no = p_event AND state = 'running' AND (claimed_by = p_owner OR claimed_until IS NULL OR claimed_until <= v_now)
  FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN '{"kind":"not_mine"}'; END IF;
  -- Saves up at most what one second allows, and at least one order.
  c.tokens := least(greatest(c.per_second, 1), c.tokens + c.per_second * extract(epoch FROM v_now - c.refilled_at));
  v_most := least(p_most, floor(c.tokens)::integer);
  v_orders := ARRAY(SELECT order_id FROM orders o WHERE event_no = p_event AND (state = 'paid' OR (state = 'reserved'
      AND NOT EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.state IN ('open','ending'))))
    ORDER BY created_at LIMIT v_most);
  v_retries := ARRAY(SELECT refund_id FROM refunds WHERE event_no = p_event AND state = 'failed' AND retry_asked IS NOT NULL
    ORDER BY retry_asked LIMIT v_most - cardinality(v_orders));
  IF v_most > 0 AND cardinality(v_orders) + cardinality(v_retries) = 0
     AND NOT EXISTS (SELECT 1 FROM orders WHERE event_no = p_event AND state NOT IN ('closed','cancelled'))
     AND NOT EXISTS (SELECT 1 FROM refunds WHERE event_no = p_event AND state IN ('open','unknown'))
     AND NOT EXISTS (SELECT 1 FROM money_operations m JOIN orders o USING (order_id)
                     WHERE o.event_no = p_event AND m.state IN ('open','waiting','unknown','ending') AND m.kind <> 'refund') THEN
    UPDATE event_cancellations SET state = 'done', finished_at = v_now, claimed_until = NULL WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (c.actor, 'cancel_event_done', p_event, cancellation_counts(p_event));
    RETURN '{"kind":"done"}';
  END IF;
  UPDATE event_cancellations
  SET tokens = c.tokens - cardinality(v_orders) - cardinality(v_retries), refilled_at = v_now, claimed_by = p_owner,
      claimed_until = v_now + p_lease_ms * interval '1 millisecond'
  WHERE event_no = p_event;
  RETURN jsonb_build_object('kind', 'next', 'orders', v_orders, 'retries', v_retries,
                            'currency', (SELECT currency FROM events WHERE event_no = p_event));
END $$;

-- Handles one order of a cancelled event: a paid order is refunded, an unpaid one closed. An order whose payment waits or is unknown
-- is being ended, and the reconciler asks the provider for the final state. 'left' means that a call is in flight or nothing is left
-- to do.
CREATE OR REPLACE FUNCTION cancellation_order(p_order uuid, p_refund uuid, p_operation uuid, p_key text, p_end_key text, p_step integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; c event_cancellations; m money_operations;
  v_seats jsonb;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  SELECT * INTO c FROM event_cancellations WHERE event_no = o.event_no;
  IF c.event_no IS NULL THEN RETURN '{"kind":"left"}'; END IF;
  IF o.state = 'paid' THEN
    RETURN refund_make(p_refund, p_order, p_operation, p_key, NULL, NULL, c.actor, c.reason, NULL, c.fees, 0, c.seats, p_step,
                       true, NULL, 0);
  END IF;
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF o.state <> 'reserved' THEN RETURN '{"kind":"left"}'; END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending') AND kind <> 'refund' FOR UPDATE;
  IF m.operation_id IS NULL THEN
    v_seats := order_end(o, 'close', 'closed', 'event_cancelled', p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF m.state NOT IN ('waiting','unknown') OR m.claimed_until > clock_timestamp() THEN RETURN '{"kind":"left"}'; END IF;
  UPDATE money_operations
  SET state = 'ending', end_key = p_end_key, end_reason = 'event_cancelled', due_at = clock_timestamp(), claimed_until = NULL,
      attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
  WHERE operation_id = m.operation_id;
  PERFORM order_note(p_order, m.kind || '_ending', o.state, o.state,
                     jsonb_build_object('operation', m.operation_id, 'reason', 'event_cancelled'));
  RETURN '{"kind":"ending"}';
END $$;

-- Schedules all failed refunds of the event for another attempt, at the run's rate. Returns how many, or null if the event was not
-- cancelled.
CREATE OR REPLACE FUNCTION cancellation_retry(p_event integer, p_actor text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_count integer;
BEGIN
  PERFORM 1 FROM event_cancellations WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE refunds SET retry_asked = clock_timestamp() WHERE event_no = p_event AND state = 'failed' AND retry_asked IS NULL;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count > 0 THEN
    UPDATE event_cancellations SET state = 'running', finished_at = NULL WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (p_actor, 'cancel_event_retry', p_event, jsonb_build_object('refunds', v_count));
  END IF;
  RETURN v_count;
END $$;

-- Returns what keeps the run from ending, oldest first: payments and refunds that go on although the run has passed them.
CREATE OR REPLACE FUNCTION cancellation_waits(p_event integer, p_limit integer)
RETURNS TABLE ("order" uuid, operation uuid, kind text, state text, attention text, since timestamptz, total bigint)
LANGUAGE sql STABLE AS $$
  SELECT o.order_id, m.operation_id, m.kind, m.state, m.attention, m.created_at, count(*) OVER ()
  FROM orders o JOIN money_operations m USING (order_id)
  WHERE o.event_no = p_event AND m.due_at IS NOT NULL AND NOT (m.kind = 'refund' AND m.state = 'waiting')
    AND (m.attention IS NOT NULL OR (m.state IN ('unknown','ending') AND m.attempts > 2))
  ORDER BY m.created_at, m.operation_id LIMIT p_limit
$$;

-- Closes the sale for good and begins the run, if the confirmation code was issued for this request. Locks the event alone, so that
-- nothing granted under the old phase commits afterwards. Holds end; where Redis has them, the run ends them there.
CREATE OR REPLACE FUNCTION event_cancel(p_event integer, p_actor text, p_code_hash text, p_request text, p_reason text, p_fees text,
  p_seats text, p_per_second double precision) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  e events%ROWTYPE;
  v_holds uuid[];
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT * INTO e FROM events WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND OR e.published_at IS NULL AND e.phase = 'draft' THEN RETURN '{"kind":"not_published"}'; END IF;
  IF EXISTS (SELECT 1 FROM event_cancellations WHERE event_no = p_event) THEN RETURN '{"kind":"already"}'; END IF;
  UPDATE confirmations SET used_at = clock_timestamp()
  WHERE code_hash = p_code_hash AND act = 'cancel_event' AND event_no = p_event AND request = p_request AND actor = p_actor
    AND used_at IS NULL AND expires_at > clock_timestamp();
  IF NOT FOUND THEN RETURN '{"kind":"not_confirmed"}'; END IF;
  INSERT INTO event_cancellations (event_no, actor, reason, fees, seats, per_second)
  VALUES (p_event, p_actor, p_reason, p_fees, p_seats, p_per_second);
  IF e.phase <> 'cancelled' THEN
    UPDATE events SET phase = 'cancelled', version = version + 1 WHERE event_no = p_event;
  END IF;
  v_holds := ARRAY(SELECT hold_id FROM holds WHERE event_no = p_event AND state = 'live' ORDER BY hold_id FOR UPDATE);
  UPDATE holds SET state = 'released', deadline = least(deadline, clock_timestamp())
  WHERE event_no = p_event AND hold_id = ANY (v_holds);
  PERFORM 1 FROM seats WHERE event_no = p_event AND hold_id = ANY (v_holds) ORDER BY seat_no FOR UPDATE;
  UPDATE seats SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL WHERE event_no = p_event AND hold_id = ANY (v_holds);
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'cancel_event', p_event, jsonb_build_object(
    'from', e.phase, 'reason', p_reason, 'fees', p_fees, 'seats', p_seats, 'perSecond', p_per_second,
    'shown', (SELECT shown FROM confirmations WHERE code_hash = p_code_hash)));
  RETURN jsonb_build_object('kind', 'started', 'holds', cardinality(v_holds));
END $$;
