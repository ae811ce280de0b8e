-- The steps of a purchase in the record. Each is one function, one call and one transaction, and returns JSON in the shape of
-- src/orders/record.ts, with times as epoch milliseconds. Money operations are in money.sql, limits in limits.sql.
--
-- Lock order: event (shared) → limit rows by (kind, subject) → order → money operations, tickets → hold → seats by number. Deadlines
-- are tested after all locks are held.
--
-- Functions that a crowd calls have settings of their own (SET after the header), here and in queue.sql, money.sql and refunds.sql.
-- Their plans are made once per session, perhaps while the tables are empty, and kept: planning for each call would cost more than
-- the step, because of the tables' many partitions. No such plan may read a table from its first row to its last, so sequential
-- scans and joins that do not look each row up are off. (Bitmap scans stay on: "hold_id = … OR order_id = …" needs one.)
-- test/services/growth.test.ts counts the rows read; decision 0029 has the measurements.

CREATE OR REPLACE FUNCTION epoch_ms(p timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
  $$ SELECT floor(extract(epoch FROM p) * 1000)::bigint $$;

CREATE OR REPLACE FUNCTION order_json(o orders) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'order', o.order_id, 'eventNo', o.event_no, 'event', (SELECT event_id FROM events WHERE event_no = o.event_no),
    'partition', o.partition, 'hold', o.hold_id, 'visitor', o.visitor, 'holder', o.holder, 'account', o.account,
    'buyer', o.buyer, 'lines', o.lines, 'orderFee', o.order_fee, 'amount', o.amount, 'currency', o.currency,
    'state', o.state, 'reason', o.reason, 'paymentDeadline', epoch_ms(o.payment_deadline),
    'captureBefore', epoch_ms(o.capture_before),
    'providerObject', o.provider_object, 'instrument', o.instrument, 'createdAt', epoch_ms(o.created_at))
$$;

-- Adds an entry to the order's timeline.
CREATE OR REPLACE FUNCTION order_note(p_order uuid, p_change text, p_from text, p_to text, p_detail jsonb DEFAULT NULL)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO order_history (order_id, change, from_state, to_state, detail)
  VALUES (p_order, p_change, p_from, p_to, p_detail)
$$;

-- Returns how much of the reservation's time is left, by the record's clock.
CREATE OR REPLACE FUNCTION order_capture_window(p_order uuid, p_ending interval) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN capture_before <= clock_timestamp() THEN 'over'
              WHEN capture_before <= clock_timestamp() + p_ending THEN 'ending' ELSE 'open' END
  FROM orders WHERE order_id = p_order
$$;

-- Locks the order's seats by number and returns whether all of them are the order's own in that state. In Postgres, a sub-select
-- with ORDER BY … FOR UPDATE locks in that order.
CREATE OR REPLACE FUNCTION order_seats_are(o orders, p_state text) RETURNS boolean LANGUAGE sql AS $$
  SELECT count(*) FILTER (WHERE s.state = p_state AND s.order_id = o.order_id) = cardinality(o.seats)
  FROM (SELECT state, order_id FROM seats
        WHERE event_no = o.event_no AND seat_no = ANY (o.seats) ORDER BY seat_no FOR UPDATE) s
$$;

-- Sets the state of the order's seats, which are locked already, and only of seats that are its own (S5). Returns the decided seats.
CREATE OR REPLACE FUNCTION order_decide_seats(o orders, p_state text) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- Releases the order's tickets, seats and quota entry, and schedules the verdict about its hold (cooldowns).
CREATE OR REPLACE FUNCTION order_free(o orders) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tickets SET status = 'cancelled', changed_at = clock_timestamp()
  WHERE event_no = o.event_no AND order_id = o.order_id AND status IN ('reserved','sold');
  UPDATE holds SET state = 'ended' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state IN ('live','ordered');
  UPDATE hold_ends SET ends_at = clock_timestamp() WHERE hold_id = o.hold_id AND event_no = o.event_no;
  PERFORM order_seats_are(o, 'available');
  RETURN order_decide_seats(o, 'available');
END $$;

-- The common part of all ends: frees the seats and writes state and reason. With p_end_key the provider's open object, if there is
-- one, is cancelled too, so that nothing can be authorised on it later. Called with the order locked.
CREATE OR REPLACE FUNCTION order_end(o orders, p_change text, p_to text, p_reason text, p_end_key text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_seats jsonb;
BEGIN
  IF p_end_key IS NOT NULL THEN
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = p_reason, due_at = clock_timestamp(), claimed_until = NULL,
        attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
  END IF;
  v_seats := order_free(o);
  UPDATE orders SET state = p_to, reason = coalesce(p_reason, reason), updated_at = clock_timestamp()
  WHERE order_id = o.order_id;
  PERFORM order_note(o.order_id, p_change, o.state, p_to, jsonb_build_object('reason', p_reason));
  RETURN v_seats;
END $$;

-- reserve: a live hold becomes an order. P1 (unique hold, one open order per visitor and event), S5, S6, P7. The order of the locks
-- is that of the file; the account's limit row is locked only where a limit applies or the holder has several browsers.
CREATE OR REPLACE FUNCTION order_reserve(
  p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamptz,
  p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  v_phase text; v_mode event_partitions; v_hold holds; v_order orders; v_seats integer[]; v_amount bigint;
  v_used integer; v_max integer; v_deadline timestamptz := p_deadline; v_free integer; v_decided jsonb; v_limit jsonb;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
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
  IF v_max IS NOT NULL OR p_holder <> p_visitor THEN
    PERFORM order_lock_limits(p_event, p_account, NULL);
    SELECT coalesce(sum(cardinality(seats)), 0)
           + coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = 'account' AND subject = p_account), 0)
    INTO v_used FROM orders WHERE event_no = p_event AND account = p_account AND state IN ('reserved','authorised');
  END IF;

  IF v_mode.mode = 'postgres' THEN
    SELECT * INTO v_hold FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
    -- A repeat that waited here for the first request finds that request's order now.
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
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
  -- Checked only now, so that a repeat of an order that filled the limit returns that order.
  IF v_max IS NOT NULL AND v_used + cardinality(v_seats) > v_max AND NOT limit_is_lifted(p_event, p_account, p_visitor) THEN
    RETURN jsonb_build_object('kind', 'limit', 'limit', 'account', 'max', v_max, 'used', v_used);
  END IF;
  v_limit := order_bounds_reached(p_event, p_hold, p_visitor, p_holder, cardinality(v_seats));
  IF v_limit IS NOT NULL THEN RETURN v_limit; END IF;

  INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, order_fee,
                      amount, currency, state, payment_deadline, created_at)
  SELECT p_order, p_event, p_partition, p_hold, p_visitor, p_holder, p_account, p_buyer, v_seats, p_lines, p_order_fee,
         v_amount, p_currency, 'reserved', order_pay_until(p_event, p_hold, p_visitor, p_holder, v_deadline, at), at
  FROM date_trunc('milliseconds', clock_timestamp()) at
  ON CONFLICT DO NOTHING RETURNING * INTO v_order;
  IF v_order.order_id IS NULL THEN
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
    IF FOUND THEN
      RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', true, 'seats', '[]'::jsonb);
    END IF;
    SELECT * INTO v_order FROM orders WHERE event_no = p_event AND visitor = p_visitor AND state IN ('reserved','authorised');
    -- The open order may have ended between the two statements: the caller retries.
    IF NOT FOUND THEN RETURN '{"kind":"retry"}'; END IF;
    RETURN jsonb_build_object('kind', 'open_order', 'order', v_order.order_id);
  END IF;

  SELECT count(*) FILTER (WHERE s.state = 'available' AND CASE
           WHEN s.hold_until > clock_timestamp() AND s.hold_epoch = p_epoch THEN s.hold_id = p_hold
           ELSE v_mode.mode <> 'postgres' END)
  INTO v_free
  FROM (SELECT * FROM seats WHERE event_no = p_event AND seat_no = ANY (v_seats) ORDER BY seat_no FOR UPDATE) s;
  IF v_free = cardinality(v_seats) AND clock_timestamp() < v_deadline - interval '6 seconds' THEN
    -- S1: even if a check above were wrong, the index refuses a second owner. A refused seat counts as gone.
    INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind)
    SELECT p_event, (line ->> 'seat')::integer, p_order, 'reserved', (line ->> 'price')::bigint, (line ->> 'fee')::bigint,
           coalesce(line ->> 'kind', 'full')
    FROM jsonb_array_elements(p_lines) line ORDER BY (line ->> 'seat')::integer
    ON CONFLICT (seat_no, event_no) WHERE (status IN ('reserved','sold')) IS TRUE DO NOTHING;
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

-- Writes a closed order for a hold that was bound to one but never reserved, so that a reserve on its way loses (S5). An order that
-- has another hold by now is found by its id.
CREATE OR REPLACE FUNCTION order_abandon(
  p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_visitor text, p_holder text)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
  IF v_order.seats = '{}' THEN RETURN '{"kind":"abandoned"}'; END IF;
  RETURN jsonb_build_object('kind', 'ordered', 'order', order_json(v_order));
END $$;

-- Closes an unpaid order. Loses to a money operation under way; 'not_paid_in_time' only after the deadline. A buyer who cancels while
-- the bank waits for them, or while the payment is already being ended, does not have to wait: the order becomes 'voiding', its
-- seats are free, and the reservation is cancelled by the operation's own row, which the caller has claimed ('operation'; null if
-- another process works on it). An opening without a response has no object, so nothing can be authorised on it.
CREATE OR REPLACE FUNCTION order_close(p_order uuid, p_reason text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_mine boolean;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  IF o.state IN ('closed','cancelled') THEN
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', '[]'::jsonb);
  END IF;
  IF o.state <> 'reserved' THEN RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o)); END IF;
  IF p_reason = 'not_paid_in_time' AND clock_timestamp() < o.payment_deadline THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(o));
  END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending') FOR UPDATE;
  IF m.operation_id IS NULL THEN
    v_seats := order_end(o, 'close', 'closed', p_reason, p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF p_reason = 'closed_by_buyer' AND m.kind = 'open' AND m.state IN ('unknown','ending') AND m.provider_object IS NULL THEN
    UPDATE money_operations SET state = 'voided', due_at = NULL, claimed_until = NULL, updated_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
    v_seats := order_end(o, 'close', 'closed', p_reason, p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF p_reason <> 'closed_by_buyer' OR m.state NOT IN ('waiting','ending') THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(o));
  END IF;
  v_mine := m.state = 'waiting' OR m.claimed_until IS NULL OR m.claimed_until <= clock_timestamp();
  IF m.state = 'waiting' THEN
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = p_reason, attempts = 1, first_sent_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
  ELSE
    -- Overrides an earlier reason: money that arrives from now on buys nothing.
    UPDATE money_operations SET end_reason = p_reason WHERE operation_id = m.operation_id;
  END IF;
  IF v_mine THEN
    UPDATE money_operations
    SET due_at = v_until, claimed_by = p_owner, claimed_until = v_until, updated_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
  END IF;
  v_seats := order_end(o, 'close_pending', 'voiding', p_reason, NULL);
  RETURN money_result('voiding', m.operation_id, v_seats) || CASE WHEN v_mine THEN '{}' ELSE '{"operation":null}'::jsonb END;
END $$;

-- confirm: sells the order's seats to it, all or nothing, only from 'authorised', with limits counted (P7). Only this function writes
-- the capture (P2). If the seats cannot be sold, they are freed and the authorisation goes to 'ending' (P3) in the same call.
CREATE OR REPLACE FUNCTION order_confirm(
  p_order uuid, p_capture uuid, p_capture_key text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
  -- A stray object (money_stray) is still being cancelled, and only one operation runs at a time. The authorisation is due
  -- again when its lease ends.
  IF EXISTS (SELECT 1 FROM money_operations
             WHERE order_id = p_order AND kind <> 'refund' AND state IN ('open','waiting','unknown','ending')) THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o));
  END IF;
  SELECT * INTO v_authorise FROM money_operations
  WHERE order_id = p_order AND kind = 'authorise' AND state = 'done' FOR UPDATE;
  PERFORM 1 FROM holds WHERE event_no = o.event_no AND hold_id = o.hold_id FOR UPDATE;
  v_reason := CASE
    WHEN (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled' THEN 'event_cancelled'
    WHEN NOT order_seats_are(o, 'reserved')
      OR (SELECT count(*) FROM tickets WHERE event_no = o.event_no AND order_id = p_order AND status = 'reserved')
         <> cardinality(o.seats) THEN 'seats_lost'
    ELSE order_limit_reached(o)
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

-- Owes the mail and the webhook deliveries for a step of an order. Called by order_happened. A refund may succeed and fail more than
-- once (a bank sends money back, another attempt is made), so each of these transitions is reported. Everything else is reported
-- once per cause.
CREATE OR REPLACE FUNCTION order_told(o orders, p_what text, p_detail jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_refund uuid := (p_detail ->> 'refund')::uuid;
  v_cause text := concat_ws('/', o.order_id, coalesce(p_detail ->> 'refund', p_detail ->> 'operation'));
BEGIN
  PERFORM order_mail_owed(o, p_what, p_detail);
  IF NOT EXISTS (SELECT 1 FROM webhook_wanted(o.event_no, p_what)) THEN RETURN; END IF;
  PERFORM webhook_owe(o.event_no, p_what, CASE WHEN p_what NOT IN ('refund.succeeded','refund.failed') THEN v_cause END,
    jsonb_strip_nulls(jsonb_build_object('refund', webhook_refund(v_refund), 'returned',
      CASE WHEN p_what IN ('order.closed_late','order.money_returned') THEN coalesce((p_detail ->> 'amount')::bigint, 0) END))
    || jsonb_build_object('order', webhook_order(o)));
END $$;

-- Owes everything that follows a step of an order: mail, webhook deliveries and, five seconds later, new figures. Called inside the
-- step's transaction after all its locks.
--   p_what    order.confirmed (captured), order.closed_late (late money given back), order.money_returned, order.cancelled,
--             refund.created, refund.succeeded, refund.failed
--   p_detail  the cause, {"refund": id} or {"operation": id}: the same cause is one mail. May also have "amount" (minor units that
--             go back to the buyer) and "tickets" (ids that are no longer valid)
CREATE OR REPLACE FUNCTION order_happened(o orders, p_what text, p_detail jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM order_told(o, p_what, p_detail);
  PERFORM job_enqueue('figures', jsonb_build_object('event', o.event_no), 'figures/' || o.event_no, 5000);
END $$;
