-- The steps of a purchase in the record, one function (= one call) each. Lock order everywhere: event lock → limit rows by
-- (kind, subject) → hold row → order → money operations → seats by number; deadlines are tested after all locks are held.
-- Every function answers json in the shape of src/orders/record.ts; times in it are epoch milliseconds.

-- Who is at work on an operation, and until when others keep off. A claim is only a courtesy: keys make repeats harmless.
ALTER TABLE money_operations
  ADD COLUMN claimed_by    text,
  ADD COLUMN claimed_until timestamptz,
  ADD COLUMN end_reason    text,             -- why it is being ended (see OrderEnd)
  ADD COLUMN attention     text;             -- for the operator's list: what does not fit
CREATE INDEX money_order ON money_operations (order_id, created_at);
CREATE INDEX money_attention ON money_operations (updated_at) WHERE attention IS NOT NULL OR state = 'unknown';
CREATE INDEX orders_open_account ON orders (event_no, account) WHERE state IN ('reserved','authorised');

CREATE FUNCTION epoch_ms(p timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
  $$ SELECT floor(extract(epoch FROM p) * 1000)::bigint $$;

CREATE FUNCTION order_json(o orders) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'order', o.order_id, 'eventNo', o.event_no, 'event', (SELECT event_id FROM events WHERE event_no = o.event_no),
    'partition', o.partition, 'hold', o.hold_id, 'visitor', o.visitor, 'holder', o.holder, 'account', o.account,
    'buyer', o.buyer, 'lines', o.lines, 'orderFee', o.order_fee, 'amount', o.amount, 'currency', o.currency,
    'state', o.state, 'reason', o.reason, 'paymentDeadline', epoch_ms(o.payment_deadline),
    'providerObject', o.provider_object, 'instrument', o.instrument, 'createdAt', epoch_ms(o.created_at))
$$;

CREATE FUNCTION operation_json(m money_operations) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'operation', m.operation_id, 'order', m.order_id, 'kind', m.kind, 'state', m.state, 'key', m.key,
    'endKey', m.end_key, 'endReason', m.end_reason, 'clientKey', m.client_key, 'request', m.request,
    'instrument', m.instrument, 'providerObject', m.provider_object, 'amount', m.amount, 'currency', m.currency,
    'attempts', m.attempts, 'firstSentAt', epoch_ms(m.first_sent_at), 'dueAt', epoch_ms(m.due_at),
    'answer', m.answer, 'attention', m.attention)
$$;

CREATE FUNCTION order_note(p_order uuid, p_change text, p_from text, p_to text, p_detail jsonb DEFAULT NULL)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO order_history (order_id, change, from_state, to_state, detail)
  VALUES (p_order, p_change, p_from, p_to, p_detail)
$$;

-- Locks the order's seats by number and says whether all of them are its own in that state. Postgres decides what a
-- sub-select with ORDER BY … FOR UPDATE locks in that order.
CREATE FUNCTION order_seats_are(o orders, p_state text) RETURNS boolean LANGUAGE sql AS $$
  SELECT count(*) FILTER (WHERE s.state = p_state AND s.order_id = o.order_id) = cardinality(o.seats)
  FROM (SELECT state, order_id FROM seats
        WHERE event_no = o.event_no AND seat_no = ANY (o.seats) ORDER BY seat_no FOR UPDATE) s
$$;

-- Takes the order's seats, which are locked already, to a state; only those that are its own (S5). Answers the decided seats.
CREATE FUNCTION order_decide_seats(o orders, p_state text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  decided jsonb;
BEGIN
  WITH changed AS (
    UPDATE seats s
    SET state = p_state, version = s.version + 1,
        order_id = CASE WHEN p_state = 'available' THEN NULL ELSE o.order_id END
    WHERE s.event_no = o.event_no AND s.seat_no = ANY (o.seats) AND s.order_id = o.order_id
    RETURNING s.seat_no, s.version)
  SELECT coalesce(jsonb_agg(jsonb_build_object('seat', seat_no, 'version', version, 'state', p_state) ORDER BY seat_no), '[]')
  INTO decided FROM changed;
  RETURN decided;
END $$;

-- The order lets go of tickets, seats and its hold's quota entry.
CREATE FUNCTION order_free(o orders) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tickets SET status = 'cancelled', changed_at = clock_timestamp()
  WHERE event_no = o.event_no AND order_id = o.order_id AND status IN ('reserved','sold');
  UPDATE holds SET state = 'ended' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state IN ('live','ordered');
  PERFORM order_seats_are(o, 'available');
  RETURN order_decide_seats(o, 'available');
END $$;

CREATE FUNCTION order_event_limit(p_event integer, p_name text) RETURNS integer LANGUAGE sql STABLE AS
  $$ SELECT (settings ->> p_name)::integer FROM events WHERE event_no = p_event $$;

-- Locks the order's limit rows, made when missing, in the order of their key.
CREATE FUNCTION order_lock_limits(p_event integer, p_account text, p_fingerprint text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO limit_counts (event_no, kind, subject, seats)
  SELECT p_event, kind, subject, 0
  FROM (VALUES ('account', p_account), ('instrument', p_fingerprint)) AS wanted (kind, subject)
  WHERE subject IS NOT NULL ORDER BY kind, subject
  ON CONFLICT DO NOTHING;
  PERFORM 1 FROM limit_counts
  WHERE event_no = p_event
    AND ((kind = 'account' AND subject = p_account) OR (kind = 'instrument' AND subject = p_fingerprint))
  ORDER BY kind, subject FOR UPDATE;
END $$;

-- Reserve: a live hold becomes an order. P1 (unique hold, one open order per visitor and event), S5, S6, P7.
CREATE FUNCTION order_reserve(
  p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamptz,
  p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_phase text;
  v_mode event_partitions;
  v_hold holds;
  v_order orders;
  v_seats integer[];
  v_amount bigint;
  v_used integer;
  v_max integer;
  v_deadline timestamptz := p_deadline;
  v_free integer;
  v_decided jsonb;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
  IF FOUND THEN
    RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', true, 'seats', '[]'::jsonb);
  END IF;
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event;
  IF v_phase IS NULL OR v_phase NOT IN ('open','paused','sold_out','closed') THEN
    RETURN jsonb_build_object('kind', 'not_open', 'phase', coalesce(v_phase, 'draft'));
  END IF;
  SELECT * INTO v_mode FROM event_partitions WHERE event_no = p_event AND partition = p_partition;
  IF v_mode.mode = 'moving' THEN RETURN '{"kind":"retry"}'; END IF;
  IF v_mode.epoch IS DISTINCT FROM p_epoch THEN RETURN '{"kind":"stale"}'; END IF;

  SELECT array_agg((line ->> 'seat')::integer ORDER BY (line ->> 'seat')::integer),
         sum((line ->> 'price')::bigint + (line ->> 'fee')::bigint) + p_order_fee
  INTO v_seats, v_amount FROM jsonb_array_elements(p_lines) line;

  v_max := order_event_limit(p_event, 'accountSeatsMax');
  IF v_max IS NOT NULL THEN
    PERFORM order_lock_limits(p_event, p_account, NULL);
    SELECT coalesce(sum(cardinality(seats)), 0)
           + coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = 'account' AND subject = p_account), 0)
    INTO v_used FROM orders WHERE event_no = p_event AND account = p_account AND state IN ('reserved','authorised');
  END IF;

  IF v_mode.mode = 'postgres' THEN
    SELECT * INTO v_hold FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
    -- A repeat that waited here for the first request's end finds its order now.
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
    IF FOUND THEN
      RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', true, 'seats', '[]'::jsonb);
    END IF;
    IF v_hold.hold_id IS NULL OR v_hold.state <> 'live' OR v_hold.epoch <> p_epoch OR v_hold.order_id IS DISTINCT FROM p_order
       OR v_hold.visitor <> p_visitor
       OR v_hold.seats IS DISTINCT FROM v_seats THEN
      RETURN '{"kind":"hold_gone"}';
    END IF;
    v_deadline := least(v_hold.deadline, p_deadline);
  END IF;
  -- Only now, so that a repeat of an order that filled the limit is answered with that order.
  IF v_max IS NOT NULL AND v_used + cardinality(v_seats) > v_max THEN
    RETURN jsonb_build_object('kind', 'limit', 'limit', 'account', 'max', v_max, 'used', v_used);
  END IF;

  INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, order_fee,
                      amount, currency, state, payment_deadline, created_at)
  SELECT p_order, p_event, p_partition, p_hold, p_visitor, p_holder, p_account, p_buyer, v_seats, p_lines, p_order_fee,
         v_amount, p_currency, 'reserved', at + interval '10 minutes', at
  FROM date_trunc('milliseconds', clock_timestamp()) at
  ON CONFLICT DO NOTHING RETURNING * INTO v_order;
  IF v_order.order_id IS NULL THEN
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
    IF FOUND THEN
      RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', true, 'seats', '[]'::jsonb);
    END IF;
    SELECT * INTO v_order FROM orders WHERE event_no = p_event AND visitor = p_visitor AND state IN ('reserved','authorised');
    -- The open order may have ended between the two statements: the caller tries again.
    IF NOT FOUND THEN RETURN '{"kind":"retry"}'; END IF;
    RETURN jsonb_build_object('kind', 'open_order', 'order', v_order.order_id);
  END IF;

  SELECT count(*) FILTER (WHERE s.state = 'available' AND CASE
           WHEN s.hold_until > clock_timestamp() AND s.hold_epoch = p_epoch THEN s.hold_id = p_hold
           ELSE v_mode.mode <> 'postgres' END)
  INTO v_free
  FROM (SELECT * FROM seats WHERE event_no = p_event AND seat_no = ANY (v_seats) ORDER BY seat_no FOR UPDATE) s;
  IF v_free = cardinality(v_seats) AND clock_timestamp() < v_deadline - interval '6 seconds' THEN
    -- S1: whatever was wrong above, the index refuses a second owner; a refused seat is a seat that is gone.
    INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind)
    SELECT p_event, (line ->> 'seat')::integer, p_order, 'reserved', (line ->> 'price')::bigint, (line ->> 'fee')::bigint,
           coalesce(line ->> 'kind', 'full')
    FROM jsonb_array_elements(p_lines) line ORDER BY (line ->> 'seat')::integer
    ON CONFLICT ((CASE WHEN status <> 'cancelled' THEN seat_no END), event_no) DO NOTHING;
    GET DIAGNOSTICS v_free = ROW_COUNT;
  ELSE
    v_free := 0;
  END IF;
  IF v_free < cardinality(v_seats) THEN
    DELETE FROM tickets WHERE event_no = p_event AND order_id = p_order;
    DELETE FROM orders WHERE order_id = p_order;
    RETURN '{"kind":"hold_gone"}';
  END IF;
  WITH changed AS (
    UPDATE seats s
    SET state = 'reserved', version = s.version + 1, order_id = p_order, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
    WHERE s.event_no = p_event AND s.seat_no = ANY (v_seats)
    RETURNING s.seat_no, s.version)
  SELECT jsonb_agg(jsonb_build_object('seat', seat_no, 'version', version, 'state', 'reserved') ORDER BY seat_no)
  INTO v_decided FROM changed;
  UPDATE holds SET state = 'ordered' WHERE event_no = p_event AND hold_id = p_hold AND state = 'live';
  PERFORM order_note(p_order, 'reserve', NULL, 'reserved');
  RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', false, 'seats', v_decided);
END $$;

-- Writes a closed order for a hold that was bound to one but never reserved, so that a reserve on its way loses (S5).
CREATE FUNCTION order_abandon(
  p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_visitor text, p_holder text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_order orders;
BEGIN
  INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, amount, currency,
                      state, reason, payment_deadline)
  SELECT p_order, p_event, p_partition, p_hold, p_visitor, p_holder, '', '{"name":"","email":""}', '{}', '[]', 0, currency,
         'closed', 'closed_by_buyer', clock_timestamp()
  FROM events WHERE event_no = p_event
  ON CONFLICT DO NOTHING RETURNING * INTO v_order;
  IF v_order.order_id IS NOT NULL THEN
    PERFORM order_note(p_order, 'abandon', NULL, 'closed');
    RETURN '{"kind":"abandoned"}';
  END IF;
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
  IF v_order.seats = '{}' THEN RETURN '{"kind":"abandoned"}'; END IF;
  RETURN jsonb_build_object('kind', 'ordered', 'order', order_json(v_order));
END $$;

-- Close an unpaid order. Loses to a money operation under way. 'not_paid_in_time' only after the deadline.
CREATE FUNCTION order_close(p_order uuid, p_reason text, p_end_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_order orders;
  v_seats jsonb;
BEGIN
  SELECT * INTO v_order FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  IF v_order.state IN ('closed','cancelled') THEN
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(v_order), 'seats', '[]'::jsonb);
  END IF;
  IF v_order.state <> 'reserved' THEN RETURN jsonb_build_object('kind', 'decided', 'order', order_json(v_order)); END IF;
  IF EXISTS (SELECT 1 FROM money_operations
             WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending'))
     OR (p_reason = 'not_paid_in_time' AND clock_timestamp() < v_order.payment_deadline) THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(v_order));
  END IF;
  v_seats := order_end(v_order, 'close', 'closed', p_reason, p_end_key);
  SELECT * INTO v_order FROM orders WHERE order_id = p_order;
  RETURN jsonb_build_object('kind', 'closed', 'order', order_json(v_order), 'seats', v_seats);
END $$;

-- The common part of all ends: seats freed, state and reason written, and the provider's object (if one stands open) is to
-- be cancelled too, so that nothing can ever be authorised on it.
CREATE FUNCTION order_end(o orders, p_change text, p_to text, p_reason text, p_end_key text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_seats jsonb := order_free(o);
BEGIN
  UPDATE orders SET state = p_to, reason = coalesce(p_reason, reason), updated_at = clock_timestamp()
  WHERE order_id = o.order_id;
  IF p_end_key IS NOT NULL THEN
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = p_reason, due_at = clock_timestamp(), claimed_until = NULL,
        attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
  END IF;
  PERFORM order_note(o.order_id, p_change, o.state, p_to, jsonb_build_object('reason', p_reason));
  RETURN v_seats;
END $$;
