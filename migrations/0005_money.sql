-- Money operations: a row before each call, and what the provider's answers do to it and to its order. Same lock order and
-- json shapes as 0004_orders.sql.

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
    BEGIN
      v_seats := order_retake(o);
      -- In the same breath, so that an open order which the visitor makes meanwhile undoes both.
      IF v_seats IS NOT NULL THEN UPDATE orders SET state = 'authorised' WHERE order_id = o.order_id; END IF;
    EXCEPTION WHEN unique_violation THEN v_seats := NULL;
    END;
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
  ON CONFLICT ((CASE WHEN status <> 'cancelled' THEN seat_no END), event_no) DO NOTHING;
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
