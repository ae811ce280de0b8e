-- The steps of a purchase in the record, one function (= one call) each. Lock order everywhere: event lock → limit rows by
-- (kind, subject) → hold row → order → money operations → seats by number; deadlines are tested after all locks are held.
-- Every function answers json in the shape of src/sales/record.ts; times in it are epoch milliseconds.

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

-- Takes the order's seats to a state; only those that are its own (S5). Answers the decided seats.
CREATE FUNCTION order_decide_seats(o orders, p_state text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  decided jsonb;
BEGIN
  PERFORM order_seats_are(o, p_state);
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
    ON CONFLICT (event_no, seat_no) WHERE status IN ('reserved','sold') DO NOTHING;
    GET DIAGNOSTICS v_free = ROW_COUNT;
  ELSE
    v_free := 0;
  END IF;
  IF v_free < cardinality(v_seats) THEN
    DELETE FROM tickets WHERE event_no = p_event AND order_id = p_order;
    DELETE FROM orders WHERE order_id = p_order;
    RETURN '{"kind":"hold_gone"}';
  END IF;
  UPDATE seats SET order_id = p_order, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
  WHERE event_no = p_event AND seat_no = ANY (v_seats);
  v_decided := order_decide_seats(v_order, 'reserved');
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

-- Writes an operation's row before its call (P5), claimed by its writer.
CREATE FUNCTION money_begin(
  p_operation uuid, p_order uuid, p_kind text, p_key text, p_client_key text, p_request text, p_instrument jsonb,
  p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_order orders;
  v_operation money_operations;
  v_until timestamptz;
BEGIN
  SELECT * INTO v_order FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  SELECT * INTO v_operation FROM money_operations WHERE order_id = p_order AND client_key = p_client_key;
  IF FOUND THEN
    IF v_operation.request IS DISTINCT FROM p_request THEN RETURN '{"kind":"mismatch"}'; END IF;
    RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(v_order), 'operation', operation_json(v_operation));
  END IF;
  IF v_order.state <> 'reserved' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(v_order));
  END IF;
  SELECT * INTO v_operation FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending');
  IF FOUND THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(v_order), 'operation', operation_json(v_operation));
  END IF;
  IF clock_timestamp() >= v_order.payment_deadline THEN
    RETURN jsonb_build_object('kind', 'too_late', 'order', order_json(v_order), 'reason', 'not_paid_in_time');
  END IF;
  IF (SELECT phase FROM events WHERE event_no = v_order.event_no) = 'cancelled' THEN
    RETURN jsonb_build_object('kind', 'too_late', 'order', order_json(v_order), 'reason', 'event_cancelled');
  END IF;
  IF p_kind = 'open' AND v_order.provider_object IS NOT NULL THEN
    RETURN jsonb_build_object('kind', 'opened', 'order', order_json(v_order));
  END IF;
  v_until := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, client_key, request, instrument, provider_object,
                                amount, currency, attempts, first_sent_at, due_at, claimed_by, claimed_until, created_at)
  VALUES (p_operation, p_order, p_kind, 'open', p_key, p_client_key, p_request, p_instrument, v_order.provider_object,
          v_order.amount, v_order.currency, 1, clock_timestamp(), v_until, p_owner, v_until, clock_timestamp())
  RETURNING * INTO v_operation;
  PERFORM order_note(p_order, 'begin_' || p_kind, v_order.state, v_order.state, jsonb_build_object('operation', p_operation));
  RETURN jsonb_build_object('kind', 'begun', 'order', order_json(v_order), 'operation', operation_json(v_operation));
END $$;

-- Hands out operations that are due (or the named one, due or not) to one owner until the lease ends.
CREATE FUNCTION money_claim(p_owner text, p_limit integer, p_lease_ms integer, p_operation uuid)
RETURNS SETOF jsonb LANGUAGE sql AS $$
  WITH due AS (
    SELECT operation_id FROM money_operations
    WHERE due_at IS NOT NULL
      AND CASE WHEN p_operation IS NULL THEN due_at <= clock_timestamp() ELSE operation_id = p_operation END
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
    ORDER BY due_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
  UPDATE money_operations m
  SET claimed_by = p_owner, claimed_until = clock_timestamp() + p_lease_ms * interval '1 millisecond',
      due_at = clock_timestamp() + p_lease_ms * interval '1 millisecond',
      attempts = attempts + 1, first_sent_at = coalesce(first_sent_at, clock_timestamp())
  FROM due WHERE m.operation_id = due.operation_id
  RETURNING operation_json(m)
$$;

-- What a dead process of this name had claimed is due at once.
CREATE FUNCTION money_release_claims(p_owner text) RETURNS integer LANGUAGE sql AS $$
  WITH freed AS (
    UPDATE money_operations SET claimed_until = NULL, due_at = clock_timestamp()
    WHERE due_at IS NOT NULL AND claimed_by = p_owner AND claimed_until > clock_timestamp() RETURNING 1)
  SELECT count(*)::integer FROM freed
$$;

-- Locks an operation's order, then the operation.
CREATE FUNCTION money_lock(p_operation uuid) RETURNS money_operations LANGUAGE plpgsql AS $$
DECLARE
  m money_operations;
BEGIN
  PERFORM 1 FROM orders
  WHERE order_id = (SELECT order_id FROM money_operations WHERE operation_id = p_operation) FOR UPDATE;
  SELECT * INTO m FROM money_operations WHERE operation_id = p_operation FOR UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION 'no money operation %', p_operation; END IF;
  RETURN m;
END $$;

CREATE FUNCTION money_result(p_kind text, p_operation uuid, p_seats jsonb DEFAULT '[]') RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_build_object('kind', p_kind, 'operation', operation_json(m), 'order', order_json(o), 'seats', p_seats)
  FROM money_operations m JOIN orders o USING (order_id) WHERE m.operation_id = p_operation
$$;

-- The provider's object is open: its id is stored before anything is authorised on it.
CREATE FUNCTION money_opened(p_operation uuid, p_object text, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind = 'open' AND m.state IN ('open','unknown','ending') AND m.provider_object IS NULL THEN
    UPDATE money_operations
    SET provider_object = p_object, answer = p_answer, claimed_until = NULL, updated_at = clock_timestamp(),
        state = CASE WHEN m.state = 'ending' THEN 'ending' ELSE 'done' END,
        due_at = CASE WHEN m.state = 'ending' THEN clock_timestamp() END
    WHERE operation_id = p_operation;
    UPDATE orders SET provider_object = p_object, updated_at = clock_timestamp() WHERE order_id = o.order_id;
    PERFORM order_note(o.order_id, 'opened', o.state, o.state, jsonb_build_object('object', p_object));
  END IF;
  RETURN money_result('opened', p_operation);
END $$;

-- Nobody knows yet, or the buyer or the provider is asked: look again after `p_due_ms`. `p_new_key` replaces a key that
-- grew too old to be sent again, after a lookup has shown that it did nothing.
CREATE FUNCTION money_park(
  p_operation uuid, p_state text, p_due_ms integer, p_answer jsonb, p_attention text, p_new_key text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_due timestamptz := clock_timestamp() + p_due_ms * interval '1 millisecond';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') THEN RETURN money_result('settled', p_operation); END IF;
  IF m.kind = 'authorise' AND m.state <> 'ending' AND o.payment_deadline > clock_timestamp() THEN
    v_due := least(v_due, o.payment_deadline);
  END IF;
  UPDATE money_operations
  SET state = CASE WHEN m.state = 'ending' THEN 'ending' ELSE p_state END, due_at = v_due, claimed_until = NULL,
      answer = coalesce(p_answer, answer), attention = coalesce(p_attention, attention),
      key = CASE WHEN m.state <> 'ending' THEN coalesce(p_new_key, key) ELSE key END,
      end_key = CASE WHEN m.state = 'ending' THEN coalesce(p_new_key, end_key) ELSE end_key END,
      first_sent_at = CASE WHEN p_new_key IS NULL THEN first_sent_at END, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  IF m.state NOT IN ('ending', p_state) THEN
    PERFORM order_note(o.order_id, m.kind || '_' || p_state, o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('parked', p_operation);
END $$;

-- The provider reserved the money. The order goes on from 'reserved'; a closed one tries once to get the same seats back
-- (late success); otherwise the authorisation is ended.
CREATE FUNCTION money_authorised(
  p_operation uuid, p_answer jsonb, p_instrument jsonb, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_seats jsonb;
BEGIN
  PERFORM event_lock_shared((SELECT event_no FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation));
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'authorise' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  -- A row that was ended for another reason than time, or whose object is being cancelled, does not come back.
  -- Nor does one beside another that is under way, but for the planned cancelling of a closed order's object.
  IF o.state NOT IN ('reserved','closed') OR (m.state = 'ending' AND m.end_reason <> 'not_paid_in_time')
     OR EXISTS (SELECT 1 FROM money_operations other
                WHERE other.order_id = o.order_id AND other.operation_id <> m.operation_id
                  AND CASE WHEN other.kind = 'authorise' THEN other.state NOT IN ('refused','voided')
                      ELSE other.state IN ('open','waiting','unknown','ending')
                           AND NOT (o.state = 'closed' AND other.kind = 'open' AND other.state = 'ending') END) THEN
    RETURN money_end(p_operation, coalesce(m.end_reason, 'seats_lost'), p_end_key, p_owner, p_lease_ms);
  END IF;
  IF o.state = 'closed' THEN
    v_seats := order_retake(o);
    IF v_seats IS NULL THEN RETURN money_end(p_operation, 'seats_lost', p_end_key, p_owner, p_lease_ms); END IF;
    -- The object lives again: its cancelling, if only planned, is called off.
    UPDATE money_operations SET state = 'done', due_at = NULL, end_key = NULL, end_reason = NULL
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'ending' AND provider_object = o.provider_object;
  END IF;
  UPDATE money_operations
  SET state = 'done', answer = p_answer, due_at = v_until, claimed_by = p_owner, claimed_until = v_until,
      end_key = NULL, end_reason = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'authorised', reason = NULL, instrument = p_instrument, updated_at = clock_timestamp()
  WHERE order_id = o.order_id;
  PERFORM order_note(o.order_id, CASE WHEN o.state = 'closed' THEN 'late_success' ELSE 'authorise' END, o.state, 'authorised',
                     jsonb_build_object('operation', p_operation));
  RETURN money_result('authorised', p_operation, coalesce(v_seats, '[]'));
END $$;

-- A closed order's seats once more, all or none; null when one of them is gone, held by somebody, or the visitor has another
-- open order, or the event is cancelled. In Redis mode only Postgres is asked: a hold there loses its seat at its reserve.
CREATE FUNCTION order_retake(o orders) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_free integer;
  v_epoch bigint := (SELECT epoch FROM event_partitions WHERE event_no = o.event_no AND partition = o.partition);
BEGIN
  IF cardinality(o.seats) = 0 OR (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled'
     OR EXISTS (SELECT 1 FROM orders WHERE event_no = o.event_no AND visitor = o.visitor AND state IN ('reserved','authorised'))
  THEN RETURN NULL; END IF;
  SELECT count(*) FILTER (WHERE s.state = 'available'
           AND NOT (s.hold_id IS NOT NULL AND s.hold_until > clock_timestamp() AND s.hold_epoch = v_epoch))
  INTO v_free
  FROM (SELECT * FROM seats WHERE event_no = o.event_no AND seat_no = ANY (o.seats) ORDER BY seat_no FOR UPDATE) s;
  IF v_free < cardinality(o.seats) THEN RETURN NULL; END IF;
  INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind)
  SELECT o.event_no, (line ->> 'seat')::integer, o.order_id, 'reserved', (line ->> 'price')::bigint, (line ->> 'fee')::bigint,
         coalesce(line ->> 'kind', 'full')
  FROM jsonb_array_elements(o.lines) line ORDER BY (line ->> 'seat')::integer
  ON CONFLICT (event_no, seat_no) WHERE status IN ('reserved','sold') DO NOTHING;
  GET DIAGNOSTICS v_free = ROW_COUNT;
  IF v_free < cardinality(o.seats) THEN
    DELETE FROM tickets WHERE event_no = o.event_no AND order_id = o.order_id AND status = 'reserved';
    RETURN NULL;
  END IF;
  UPDATE seats SET order_id = o.order_id, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
  WHERE event_no = o.event_no AND seat_no = ANY (o.seats);
  UPDATE holds SET state = 'ordered' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state = 'ended';
  RETURN order_decide_seats(o, 'reserved');
END $$;

-- Confirm: the order's seats are sold to it, all or nothing, only from 'authorised', limits counted (P7), and only this
-- writes the capture (P2). Impossible → seats freed and the authorisation's row goes to 'ending' (P3), in the same call.
CREATE FUNCTION order_confirm(
  p_order uuid, p_capture uuid, p_capture_key text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders;
  v_authorise money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_fingerprint text;
  v_reason text;
  v_seats jsonb;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  PERFORM event_lock_shared(o.event_no);
  v_fingerprint := o.instrument ->> 'fingerprint';
  PERFORM order_lock_limits(o.event_no, o.account, v_fingerprint);
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF o.state <> 'authorised' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o));
  END IF;
  SELECT * INTO v_authorise FROM money_operations
  WHERE order_id = p_order AND kind = 'authorise' AND state = 'done' FOR UPDATE;
  v_reason := CASE
    WHEN (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled' THEN 'event_cancelled'
    WHEN NOT order_seats_are(o, 'reserved')
      OR (SELECT count(*) FROM tickets WHERE event_no = o.event_no AND order_id = p_order AND status = 'reserved')
         <> cardinality(o.seats) THEN 'seats_lost'
    WHEN order_over_limit(o.event_no, 'account', o.account, cardinality(o.seats), 'accountSeatsMax')
      OR order_over_limit(o.event_no, 'instrument', v_fingerprint, cardinality(o.seats), 'instrumentSeatsMax') THEN 'limit'
  END;
  IF v_reason IS NOT NULL THEN
    v_seats := order_end(o, 'confirm_impossible', 'voiding', v_reason, NULL);
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = v_reason, due_at = v_until, claimed_by = p_owner,
        claimed_until = v_until, attempts = 1, first_sent_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE operation_id = v_authorise.operation_id;
    RETURN money_result('impossible', v_authorise.operation_id, v_seats);
  END IF;
  UPDATE tickets SET status = 'sold', changed_at = clock_timestamp()
  WHERE event_no = o.event_no AND order_id = p_order AND status = 'reserved';
  v_seats := order_decide_seats(o, 'sold');
  PERFORM order_count_limits(o, cardinality(o.seats));
  UPDATE holds SET state = 'ended' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state IN ('live','ordered');
  UPDATE money_operations SET due_at = NULL, claimed_until = NULL WHERE operation_id = v_authorise.operation_id;
  UPDATE orders SET state = 'confirmed', updated_at = clock_timestamp() WHERE order_id = p_order;
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, attempts,
                                first_sent_at, due_at, claimed_by, claimed_until, created_at)
  VALUES (p_capture, p_order, 'capture', 'open', p_capture_key, o.provider_object, o.amount, o.currency, 1,
          clock_timestamp(), v_until, p_owner, v_until, clock_timestamp());
  PERFORM order_note(p_order, 'confirm', 'authorised', 'confirmed');
  RETURN money_result('confirmed', p_capture, v_seats);
END $$;

CREATE FUNCTION order_over_limit(p_event integer, p_kind text, p_subject text, p_seats integer, p_setting text)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = p_kind AND subject = p_subject), 0)
         + p_seats > order_event_limit(p_event, p_setting) AND p_subject IS NOT NULL
$$;

CREATE FUNCTION order_count_limits(o orders, p_seats integer) RETURNS void LANGUAGE sql AS $$
  UPDATE limit_counts SET seats = seats + p_seats
  WHERE event_no = o.event_no
    AND ((kind = 'account' AND subject = o.account) OR (kind = 'instrument' AND subject = o.instrument ->> 'fingerprint'))
$$;

-- Captured: the order is paid.
CREATE FUNCTION money_captured(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'capture' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  IF m.state = 'refused' THEN
    -- Money that came after its order was cancelled: for the operator's list.
    UPDATE money_operations SET attention = 'captured_after_refusal', answer = p_answer, updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations SET state = 'done', answer = p_answer, due_at = NULL, claimed_until = NULL,
                              attention = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'paid', updated_at = clock_timestamp() WHERE order_id = o.order_id AND state = 'confirmed';
  PERFORM order_note(o.order_id, 'capture', o.state, 'paid', jsonb_build_object('operation', p_operation));
  RETURN money_result('captured', p_operation);
END $$;

-- Finally refused. An authorisation: another card may be tried. A capture: the sale is undone in the same call.
CREATE FUNCTION money_refused(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
BEGIN
  IF (SELECT kind FROM money_operations WHERE operation_id = p_operation) = 'capture' THEN
    PERFORM order_lock_limits(order_row.event_no, order_row.account, order_row.instrument ->> 'fingerprint')
    FROM (SELECT orders.* FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation) order_row;
  END IF;
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown') THEN RETURN money_result('settled', p_operation); END IF;
  UPDATE money_operations SET state = 'refused', answer = p_answer, due_at = NULL, claimed_until = NULL,
                              updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  IF m.kind = 'capture' AND o.state = 'confirmed' THEN
    PERFORM order_count_limits(o, -cardinality(o.seats));
    v_seats := order_end(o, 'capture_refused', 'cancelled', 'capture_refused', NULL);
    -- Nothing was taken, yet the reservation may stand: it is ended too.
    UPDATE money_operations SET state = 'ending', end_key = p_operation || ':end', end_reason = 'capture_refused',
           due_at = clock_timestamp(), claimed_until = NULL, attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'authorise' AND state = 'done';
  ELSE
    PERFORM order_note(o.order_id, m.kind || '_refused', o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('refused', p_operation, v_seats);
END $$;

-- From now on this operation is being ended (its object voided) with a key of its own.
CREATE FUNCTION money_end(p_operation uuid, p_reason text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  -- A standing authorisation is ended by confirm alone. A settled one may come back here, but never beside another that is
  -- under way or stands: it is the same object, whose cancelling would take the other's money away.
  IF m.kind NOT IN ('open','authorise') OR m.state IN ('ending','done')
     OR (m.state IN ('refused','voided') AND EXISTS (SELECT 1 FROM money_operations other WHERE other.order_id = o.order_id
         AND other.operation_id <> m.operation_id AND (other.state IN ('open','waiting','unknown','ending')
           OR (other.kind = 'authorise' AND other.state = 'done'))))
  THEN RETURN money_result(CASE WHEN m.state = 'ending' THEN 'ending' ELSE 'settled' END, p_operation); END IF;
  UPDATE money_operations
  SET state = 'ending', end_key = p_end_key, end_reason = p_reason, due_at = v_until, claimed_by = p_owner,
      claimed_until = v_until, attempts = 1, first_sent_at = clock_timestamp(), updated_at = clock_timestamp(),
      attention = CASE WHEN p_reason = 'payment_mismatch' THEN p_reason ELSE attention END
  WHERE operation_id = p_operation;
  PERFORM order_note(o.order_id, m.kind || '_ending', o.state, o.state,
                     jsonb_build_object('operation', p_operation, 'reason', p_reason));
  RETURN money_result('ending', p_operation);
END $$;

-- The provider's object is cancelled for good. An order that was being ended is closed; one that was not (the provider
-- cancelled by itself) may open a new object.
CREATE FUNCTION money_voided(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') OR m.kind NOT IN ('open','authorise') THEN
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations SET state = 'voided', answer = coalesce(p_answer, answer), due_at = NULL, claimed_until = NULL,
                              updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE money_operations SET state = 'voided', updated_at = clock_timestamp()
  WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
  IF o.state = 'voiding' THEN
    UPDATE orders SET state = 'closed', updated_at = clock_timestamp() WHERE order_id = o.order_id;
    PERFORM order_note(o.order_id, 'voided', 'voiding', 'closed', jsonb_build_object('operation', p_operation));
  ELSIF o.state = 'reserved' AND m.state = 'ending' THEN
    v_seats := order_end(o, 'close', 'closed', m.end_reason, NULL);
  ELSE
    IF o.state = 'reserved' THEN
      UPDATE orders SET provider_object = NULL, updated_at = clock_timestamp() WHERE order_id = o.order_id;
    END IF;
    PERFORM order_note(o.order_id, m.kind || '_voided', o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('voided', p_operation, v_seats);
END $$;
