-- Refunds of an order or of some of its tickets. A refund is decided once, in one step with the tickets that it cancels. Each attempt
-- to give the money back is a money operation with a key of its own (P5). Lock order: event → limit rows → order → money operations →
-- seats by number. Times in JSON are epoch milliseconds.

CREATE OR REPLACE FUNCTION refund_json(r refunds) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'refund', r.refund_id, 'order', r.order_id, 'eventNo', r.event_no, 'cancellation', r.cancellation, 'actor', r.actor,
    'reason', r.reason, 'feesKept', r.fees_kept, 'orderFee', r.order_fee, 'goodwill', r.goodwill, 'amount', r.amount,
    'currency', r.currency, 'state', r.state, 'detail', r.detail,
    'tickets', (SELECT coalesce(jsonb_agg(t.ticket_id ORDER BY t.ticket_id), '[]') FROM refund_tickets t WHERE t.refund_id = r.refund_id),
    'attempts', (SELECT count(*) FROM money_operations m WHERE m.refund_id = r.refund_id),
    'createdAt', epoch_ms(r.created_at), 'updatedAt', epoch_ms(r.updated_at))
$$;

-- Takes seats off the order: free for the next buyer, or blocked with a reason. Returns the decided seats.
CREATE OR REPLACE FUNCTION refund_seats(o orders, p_seats integer[], p_state text, p_actor text, p_reason text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_decided jsonb;
BEGIN
  PERFORM 1 FROM seats WHERE event_no = o.event_no AND seat_no = ANY (p_seats) ORDER BY seat_no FOR UPDATE;
  WITH changed AS (
    UPDATE seats s SET state = p_state, version = s.version + 1, order_id = NULL
    WHERE s.event_no = o.event_no AND s.seat_no = ANY (p_seats) AND s.order_id = o.order_id
    RETURNING s.seat_no, s.version
  ), noted AS (
    INSERT INTO blocks (event_no, seat_no, reason, actor)
    SELECT o.event_no, c.seat_no, p_reason, p_actor FROM changed c WHERE p_state = 'blocked')
  SELECT coalesce(jsonb_agg(jsonb_build_object('seat', seat_no, 'version', version, 'state', p_state) ORDER BY seat_no), '[]')
  INTO v_decided FROM changed;
  RETURN v_decided;
END $$;

-- Writes the attempt's row before its call (P5). p_owner null means that it is due at once, for any worker.
CREATE OR REPLACE FUNCTION refund_attempt(r refunds, o orders, p_operation uuid, p_key text, p_owner text, p_lease_ms integer)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, attempts,
                                first_sent_at, due_at, claimed_by, claimed_until, created_at, refund_id)
  SELECT p_operation, o.order_id, 'refund', 'open', p_key, o.provider_object, r.amount, r.currency,
         CASE WHEN p_owner IS NULL THEN 0 ELSE 1 END, CASE WHEN p_owner IS NOT NULL THEN now_ END,
         CASE WHEN p_owner IS NULL THEN now_ ELSE until END, p_owner, CASE WHEN p_owner IS NOT NULL THEN until END, now_, r.refund_id
  FROM (SELECT clock_timestamp() AS now_, clock_timestamp() + p_lease_ms * interval '1 millisecond' AS until) at
$$;

-- Decides a refund: which tickets are cancelled and what is given back. The same step revokes the tickets' codes, gives limits back,
-- frees or blocks the seats, and writes the first attempt. Only for a paid order, so never during a capture. Never more than what is
-- left of the order's money (order_left).
--   p_tickets   null means all valid tickets, '{}' none (a sum of goodwill alone)
--   p_fees      'returned' includes the tickets' fees, and the order's fee when no ticket stays valid; 'kept' includes neither
--   p_goodwill  more than is left is refused. Without goodwill at most what is left is given back; earlier goodwill reduces it
--   p_step      amounts are given back only in multiples of it (minor units); rounding up counts as goodwill
--   p_pays      false cancels the tickets without paying, because the money is already back with the buyer
CREATE OR REPLACE FUNCTION refund_make(
  p_refund uuid, p_order uuid, p_operation uuid, p_key text, p_request_key text, p_request text, p_actor text, p_reason text,
  p_tickets uuid[], p_fees text, p_goodwill bigint, p_seats text, p_step integer, p_cancellation boolean, p_owner text,
  p_lease_ms integer, p_pays boolean DEFAULT true)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; r refunds; v_named orders;
  v_wanted uuid[]; v_seat_nos integer[]; v_unknown uuid[];
  v_prices bigint; v_fees bigint; v_valid integer; v_left bigint; v_fee_given bigint;
  v_all boolean;
  v_seats jsonb := '[]';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  v_named := o;
  PERFORM order_lock_limits(o.event_no, o.account, o.instrument ->> 'fingerprint');
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF v_named.account <> o.account THEN
    PERFORM order_unname_limits(v_named.account, v_named.instrument ->> 'fingerprint', o);
  END IF;
  SELECT * INTO r FROM refunds WHERE order_id = p_order AND request_key = p_request_key;
  IF FOUND THEN
    IF r.request IS DISTINCT FROM p_request THEN RETURN '{"kind":"mismatch"}'; END IF;
    RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(o), 'refund', refund_json(r), 'seats', v_seats);
  END IF;
  -- If all tickets of an order were refunded, fees that were kept may still be given back as goodwill.
  IF o.state <> 'paid' AND NOT (o.state = 'cancelled' AND coalesce(p_tickets = '{}', false) AND EXISTS (
       SELECT 1 FROM refunds WHERE order_id = p_order)) THEN
    RETURN jsonb_build_object('kind', 'not_paid', 'order', order_json(o));
  END IF;

  SELECT array_agg(t.ticket_id ORDER BY t.seat_no), array_agg(t.seat_no ORDER BY t.seat_no),
         coalesce(sum(t.price), 0), coalesce(sum(t.fee), 0)
  INTO v_wanted, v_seat_nos, v_prices, v_fees
  FROM tickets t
  WHERE t.event_no = o.event_no AND t.order_id = p_order AND t.status = 'sold'
    AND (p_tickets IS NULL OR t.ticket_id = ANY (p_tickets));
  v_wanted := coalesce(v_wanted, '{}');
  v_unknown := ARRAY(SELECT u FROM unnest(p_tickets) u WHERE NOT u = ANY (v_wanted));
  IF v_unknown <> '{}' THEN RETURN jsonb_build_object('kind', 'not_valid', 'tickets', v_unknown); END IF;
  SELECT count(*) INTO v_valid FROM tickets WHERE event_no = o.event_no AND order_id = p_order AND status = 'sold';
  v_all := v_wanted <> '{}' AND cardinality(v_wanted) = v_valid;
  SELECT order_left(o), coalesce(sum(order_fee), 0) INTO v_left, v_fee_given
  FROM refunds WHERE order_id = p_order;

  r.refund_id := p_refund; r.order_id := p_order; r.event_no := o.event_no; r.cancellation := p_cancellation;
  r.request_key := p_request_key; r.request := p_request; r.actor := p_actor; r.reason := p_reason; r.currency := o.currency;
  r.fees_kept := CASE WHEN p_fees = 'kept' THEN v_fees ELSE 0 END;
  r.order_fee := CASE WHEN p_fees = 'returned' AND v_all THEN o.order_fee - v_fee_given ELSE 0 END;
  r.amount := v_prices + v_fees - r.fees_kept + r.order_fee + p_goodwill;
  r.amount := r.amount + (p_step - r.amount % p_step) % p_step;
  IF p_goodwill = 0 THEN r.amount := least(r.amount, v_left); END IF;
  IF NOT p_pays THEN r.amount := 0; END IF;
  r.goodwill := r.amount - (v_prices + v_fees - r.fees_kept + r.order_fee);
  IF r.amount > v_left THEN RETURN jsonb_build_object('kind', 'too_much', 'amount', r.amount, 'most', v_left); END IF;
  IF r.amount = 0 AND v_wanted = '{}' THEN RETURN '{"kind":"nothing"}'; END IF;
  r.state := CASE WHEN r.amount = 0 THEN 'done' ELSE 'open' END;
  r.created_at := clock_timestamp(); r.updated_at := r.created_at; r.checks := 0;

  INSERT INTO refunds SELECT r.*;
  INSERT INTO refund_tickets (event_no, ticket_id, refund_id) SELECT o.event_no, u, p_refund FROM unnest(v_wanted) u;
  IF r.amount > 0 THEN PERFORM refund_attempt(r, o, p_operation, p_key, p_owner, p_lease_ms); END IF;
  IF v_wanted <> '{}' THEN
    UPDATE tickets SET status = 'cancelled', revoked_at = r.created_at, changed_at = r.created_at
    WHERE event_no = o.event_no AND ticket_id = ANY (v_wanted);
    PERFORM order_count_limits(o, -cardinality(v_wanted));
    IF v_all THEN
      UPDATE orders SET state = 'cancelled', reason = CASE WHEN p_cancellation THEN 'event_cancelled' ELSE 'refunded' END,
                        updated_at = r.created_at
      WHERE order_id = p_order;
    END IF;
    v_seats := refund_seats(o, v_seat_nos, CASE WHEN p_seats = 'block' THEN 'blocked' ELSE 'available' END, p_actor, p_reason);
  END IF;
  PERFORM order_note(p_order, CASE WHEN v_all THEN 'cancel' ELSE 'refund' END, o.state,
                     CASE WHEN v_all THEN 'cancelled' ELSE o.state END,
                     jsonb_build_object('refund', p_refund, 'tickets', v_wanted, 'amount', r.amount));
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF v_all THEN
    PERFORM order_happened(o, 'order.cancelled', jsonb_build_object('refund', p_refund, 'amount', r.amount, 'reason', o.reason));
  END IF;
  PERFORM order_happened(o, 'refund.created', jsonb_build_object('refund', p_refund, 'amount', r.amount, 'tickets', v_wanted));
  IF r.state = 'done' THEN
    PERFORM order_happened(o, 'refund.succeeded', jsonb_build_object('refund', p_refund, 'amount', 0, 'tickets', v_wanted));
  END IF;
  -- Cancelling the event has one entry of the action log for all of its orders.
  IF NOT p_cancellation THEN
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'refund', o.event_no, jsonb_build_object(
      'order', p_order, 'refund', p_refund, 'tickets', cardinality(v_wanted), 'amount', r.amount, 'goodwill', r.goodwill,
      'fees', p_fees, 'seats', p_seats, 'pays', p_pays, 'reason', p_reason));
  END IF;
  RETURN jsonb_build_object('kind', 'made', 'order', order_json(o), 'refund', refund_json(r), 'seats', v_seats,
    'operation', (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = p_operation));
END $$;

-- Makes another attempt for a refund that failed, with a key of its own. What went back at the provider since (refund_gone_back) is
-- taken off its amount, because it would be paid twice. Returns 'gone_back' if nothing is left; the operator settles it then.
CREATE OR REPLACE FUNCTION refund_retry(p_refund uuid, p_operation uuid, p_key text, p_actor text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; r refunds; v_amount bigint;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM refunds WHERE refund_id = p_refund) FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_refund"}'; END IF;
  SELECT * INTO r FROM refunds WHERE refund_id = p_refund;
  IF r.state <> 'failed' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  v_amount := r.amount - refund_gone_back(r);
  IF v_amount = 0 THEN
    -- The run over a cancelled event does not try it again by itself.
    UPDATE refunds SET retry_asked = NULL WHERE refund_id = p_refund;
    RETURN jsonb_build_object('kind', 'gone_back', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  UPDATE refunds SET amount = v_amount, goodwill = goodwill - (amount - v_amount), state = 'open', detail = NULL, retry_asked = NULL,
                     updated_at = clock_timestamp()
  WHERE refund_id = p_refund RETURNING * INTO r;
  PERFORM refund_attempt(r, o, p_operation, p_key, p_owner, p_lease_ms);
  PERFORM order_note(o.order_id, 'refund_retry', o.state, o.state, jsonb_build_object('refund', p_refund, 'operation', p_operation));
  IF p_actor IS NOT NULL THEN
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (p_actor, 'refund_retry', o.event_no, jsonb_build_object('order', o.order_id, 'refund', p_refund, 'amount', r.amount));
  END IF;
  RETURN jsonb_build_object('kind', 'retried', 'order', order_json(o), 'refund', refund_json(r),
    'operation', (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = p_operation));
END $$;

-- A failed refund was paid by other means (cash, a bank transfer): nothing more is owed or tried.
CREATE OR REPLACE FUNCTION refund_elsewhere(p_refund uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; r refunds;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM refunds WHERE refund_id = p_refund) FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_refund"}'; END IF;
  UPDATE refunds SET state = 'elsewhere', detail = p_note, retry_asked = NULL, updated_at = clock_timestamp()
  WHERE refund_id = p_refund AND state = 'failed' RETURNING * INTO r;
  IF NOT FOUND THEN
    SELECT * INTO r FROM refunds WHERE refund_id = p_refund;
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  PERFORM order_note(o.order_id, 'refund_elsewhere', o.state, o.state, jsonb_build_object('refund', p_refund, 'note', p_note));
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'refund_elsewhere', o.event_no,
    jsonb_build_object('order', o.order_id, 'refund', p_refund, 'amount', r.amount, 'note', p_note));
  RETURN jsonb_build_object('kind', 'elsewhere', 'order', order_json(o), 'refund', refund_json(r));
END $$;

-- Returns the time of the n-th check after a success (1, 3, 7, 15 and 30 days), or null if there is none. A refund that succeeded may
-- still fail at the bank days later.
CREATE OR REPLACE FUNCTION refund_check_after(p_checks integer, p_done timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT p_done + (ARRAY[1, 3, 7, 15, 30])[p_checks + 1] * interval '1 day'
$$;

-- Claims orders whose refunds, or whose money that went back when an operation was ended, are to be checked again; an order that could not be checked comes again after an hour.
CREATE OR REPLACE FUNCTION refund_checks_claim(p_limit integer) RETURNS SETOF uuid LANGUAGE sql AS $$
  WITH due AS (
    SELECT refund_id FROM refunds WHERE check_at <= clock_timestamp() ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
  claimed AS (
    UPDATE refunds r SET check_at = clock_timestamp() + interval '1 hour' FROM due WHERE r.refund_id = due.refund_id
    RETURNING r.order_id),
  due_ended AS (
    SELECT operation_id FROM money_operations WHERE check_at <= clock_timestamp() ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
  ended AS (
    UPDATE money_operations m SET check_at = clock_timestamp() + interval '1 hour' FROM due_ended d
    WHERE m.operation_id = d.operation_id RETURNING m.order_id)
  SELECT order_id FROM claimed UNION SELECT order_id FROM ended
$$;

-- The order's refunds that refund_checks_claim claimed were checked. Later ones, and money that went back again just now, have
-- their own checks.
CREATE OR REPLACE FUNCTION refund_checked(p_order uuid) RETURNS void LANGUAGE sql AS $$
  UPDATE refunds SET checks = checks + 1, check_at = refund_check_after(checks + 1, updated_at)
  WHERE order_id = p_order AND check_at <= clock_timestamp() + interval '1 hour';
  UPDATE money_operations SET checks = checks + 1, check_at = refund_check_after(checks + 1, updated_at)
  WHERE order_id = p_order AND check_at <= clock_timestamp() + interval '1 hour'
$$;

-- Records the outcome of an attempt. A refund that succeeded is checked again later (refund_check_after).
CREATE OR REPLACE FUNCTION refund_settle(p_operation uuid, p_state text, p_due_ms integer, p_answer jsonb, p_detail text, p_attention text,
  p_new_key text) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; m money_operations; r refunds;
  v_state text;
  v_rival boolean;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  SELECT * INTO r FROM refunds WHERE refund_id = m.refund_id;
  v_rival := EXISTS (SELECT 1 FROM money_operations other WHERE other.refund_id = m.refund_id
                     AND other.operation_id <> m.operation_id AND other.state <> 'refused');
  IF m.state = 'refused' AND p_state IN ('done','waiting') AND (v_rival OR r.state = 'elsewhere') THEN
    UPDATE money_operations SET attention = 'refunded_twice', answer = coalesce(p_answer, answer), updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
  ELSIF m.state IN ('open','waiting','unknown') OR (m.state = 'done' AND p_state = 'refused')
     OR (m.state = 'refused' AND p_state IN ('done','waiting')) THEN
    UPDATE money_operations
    SET state = p_state, answer = coalesce(p_answer, answer), attention = p_attention, claimed_until = NULL,
        due_at = CASE WHEN p_state IN ('unknown','waiting') THEN clock_timestamp() + p_due_ms * interval '1 millisecond' END,
        key = coalesce(p_new_key, key), first_sent_at = CASE WHEN p_new_key IS NULL THEN first_sent_at END,
        updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    v_state := CASE p_state WHEN 'waiting' THEN 'pending' WHEN 'refused' THEN 'failed' ELSE p_state END;
    UPDATE refunds
    SET state = v_state, detail = CASE WHEN v_state <> 'done' THEN p_detail END, updated_at = clock_timestamp(), retry_asked = NULL,
        checks = CASE WHEN v_state = 'done' THEN checks ELSE 0 END,
        check_at = CASE WHEN v_state = 'done' THEN refund_check_after(0, clock_timestamp()) END
    WHERE refund_id = m.refund_id;
    IF m.state <> p_state THEN
      PERFORM order_note(o.order_id, 'refund_' || v_state, o.state, o.state,
                         jsonb_build_object('refund', r.refund_id, 'operation', p_operation, 'detail', p_detail));
      IF v_state IN ('done','failed') THEN
        PERFORM order_happened(o, CASE v_state WHEN 'done' THEN 'refund.succeeded' ELSE 'refund.failed' END,
          jsonb_build_object('refund', r.refund_id, 'amount', r.amount, 'detail', p_detail));
      END IF;
    END IF;
  END IF;
  SELECT * INTO r FROM refunds WHERE refund_id = m.refund_id;
  RETURN jsonb_build_object('order', order_json(o), 'refund', refund_json(r),
    'operation', (SELECT operation_json(one) FROM money_operations one WHERE one.operation_id = p_operation));
END $$;

-- Returns the tickets whose codes are no longer valid; for a cancelled event all of them, whether or not its run has reached them.
CREATE OR REPLACE FUNCTION revoked_tickets(p_event integer) RETURNS TABLE (ticket uuid, revoked_at timestamptz) LANGUAGE sql STABLE AS $$
  SELECT t.ticket_id, coalesce(t.revoked_at, t.changed_at)
  FROM tickets t JOIN events e USING (event_no)
  WHERE t.event_no = p_event AND (t.revoked_at IS NOT NULL OR (t.status = 'sold' AND e.phase = 'cancelled'))
  ORDER BY 2, 1
$$;
