-- Money operations: a row before each call to the provider (P5), and what the provider's responses do to the operation and its order.
-- Lock order and JSON as in orders.sql.

CREATE OR REPLACE FUNCTION operation_json(m money_operations) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'operation', m.operation_id, 'order', m.order_id, 'kind', m.kind, 'state', m.state, 'key', m.key,
    'endKey', m.end_key, 'endReason', m.end_reason, 'clientKey', m.client_key, 'request', m.request,
    'instrument', m.instrument, 'providerObject', m.provider_object, 'amount', m.amount, 'currency', m.currency,
    'attempts', m.attempts, 'firstSentAt', epoch_ms(m.first_sent_at), 'dueAt', epoch_ms(m.due_at),
    'answer', m.answer, 'attention', m.attention, 'decision', m.decision)
$$;

CREATE OR REPLACE FUNCTION money_result(p_kind text, p_operation uuid, p_seats jsonb DEFAULT '[]') RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_build_object('kind', p_kind, 'operation', operation_json(m), 'order', order_json(o), 'seats', p_seats)
  FROM money_operations m JOIN orders o USING (order_id) WHERE m.operation_id = p_operation
$$;

-- Locks an operation's order, then the operation.
CREATE OR REPLACE FUNCTION money_lock(p_operation uuid) RETURNS money_operations LANGUAGE plpgsql AS $$
DECLARE
  m money_operations;
BEGIN
  PERFORM 1 FROM orders
  WHERE order_id = (SELECT order_id FROM money_operations WHERE operation_id = p_operation) FOR UPDATE;
  SELECT * INTO m FROM money_operations WHERE operation_id = p_operation FOR UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION 'no money operation %', p_operation; END IF;
  RETURN m;
END $$;

-- Writes an operation's row before its call (P5), claimed by the caller. After a refused opening the next one waits for a gap that
-- doubles from 2 s to 10 s; until then the refused one is returned, so that a client cannot make us call the provider at will.
CREATE OR REPLACE FUNCTION money_begin(
  p_operation uuid, p_order uuid, p_kind text, p_key text, p_client_key text, p_request text, p_instrument jsonb,
  p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  v_order orders;
  v_operation money_operations;
  v_until timestamptz;
  v_refused record;
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
  IF p_kind = 'open' THEN
    SELECT count(*) OVER () AS times, m.* INTO v_refused FROM money_operations m
    -- `|| ''` makes the planner use the order's index instead of the index of all openings.
    WHERE order_id = p_order AND kind || '' = 'open' AND state = 'refused' ORDER BY created_at DESC LIMIT 1;
    IF FOUND AND clock_timestamp() < v_refused.first_sent_at + least(10, 2 ^ v_refused.times) * interval '1 second' THEN
      RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(v_order), 'operation',
        (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = v_refused.operation_id));
    END IF;
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

-- Claims operations for one owner until the lease ends: the named one if it is due, or those that are due. The time is read once and
-- each case is one statement, because with clock_timestamp() or a CASE in the condition all waiting rows would be read.
CREATE OR REPLACE FUNCTION money_claim(p_owner text, p_limit integer, p_lease_ms integer, p_operation uuid) RETURNS SETOF jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + p_lease_ms * interval '1 millisecond';
  v_ids uuid[];
BEGIN
  IF p_operation IS NULL THEN
    v_ids := ARRAY(SELECT operation_id FROM money_operations
      WHERE due_at IS NOT NULL AND due_at <= v_now AND (claimed_until IS NULL OR claimed_until <= v_now)
      ORDER BY due_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  ELSE
    v_ids := ARRAY(SELECT operation_id FROM money_operations
      WHERE operation_id = p_operation AND due_at IS NOT NULL AND (claimed_until IS NULL OR claimed_until <= v_now)
      FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN QUERY UPDATE money_operations m
    SET claimed_by = p_owner, claimed_until = v_until, due_at = v_until, attempts = attempts + 1,
        first_sent_at = coalesce(first_sent_at, v_now)
    WHERE m.operation_id = ANY (v_ids) RETURNING operation_json(m);
END $$;

-- Claims the named operation for a look at the provider: if it is due, or earlier if p_by may ask. 'buyer' may only while the buyer's
-- bank is waited for, since nothing else changes because the buyer asks. 'provider' means that the provider reported something.
-- Early looks are spaced by a gap that doubles from half a second to 20 s, for all processes and tabs together, so the first one
-- after the return from the bank is immediate.
CREATE OR REPLACE FUNCTION money_ask(p_owner text, p_lease_ms integer, p_operation uuid, p_by text) RETURNS SETOF jsonb LANGUAGE sql AS $$
  WITH mine AS (
    SELECT operation_id, clock_timestamp() AS at, due_at > clock_timestamp() AS early FROM money_operations
    WHERE operation_id = p_operation AND due_at IS NOT NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
      AND (due_at <= clock_timestamp()
        OR ((p_by = 'provider' OR state = 'waiting') AND (asked_until IS NULL OR asked_until <= clock_timestamp())))
    FOR UPDATE SKIP LOCKED)
  UPDATE money_operations m
  SET claimed_by = p_owner, claimed_until = mine.at + p_lease_ms * interval '1 millisecond',
      due_at = mine.at + p_lease_ms * interval '1 millisecond',
      attempts = attempts + 1, first_sent_at = coalesce(first_sent_at, mine.at),
      asked_times = CASE WHEN mine.early THEN asked_times + 1 ELSE asked_times END,
      asked_until = CASE WHEN mine.early THEN mine.at + least(20, 0.5 * 2 ^ least(asked_times, 10)) * interval '1 second'
                         ELSE asked_until END
  FROM mine WHERE m.operation_id = mine.operation_id
  RETURNING operation_json(m)
$$;

-- Makes due at once what a dead process of this name had claimed.
CREATE OR REPLACE FUNCTION money_release_claims(p_owner text) RETURNS integer LANGUAGE sql AS $$
  WITH freed AS (
    UPDATE money_operations SET claimed_until = NULL, due_at = clock_timestamp()
    WHERE due_at IS NOT NULL AND claimed_by = p_owner AND claimed_until > clock_timestamp() RETURNING 1)
  SELECT count(*)::integer FROM freed
$$;

-- The provider's object is open. Its id is stored before anything is authorised on it.
CREATE OR REPLACE FUNCTION money_opened(p_operation uuid, p_object text, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- The outcome is not known yet, or the buyer or the provider has to act: look again after p_due_ms. p_new_key replaces a key that is
-- too old to be sent again, after a look-up has shown that it had no effect.
CREATE OR REPLACE FUNCTION money_park(
  p_operation uuid, p_state text, p_due_ms integer, p_answer jsonb, p_attention text, p_new_key text)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- The provider reserved the money, and the order goes on from 'reserved'. For an order that was closed because it was not paid in
-- time, p_late says what is known about its seats:
--   null                                   nothing, or a hold of another epoch: returns 'late'
--   {kind: 'held', hold, epoch, deadline}  the order is restored if all conditions of reserve are met (order_retake)
--   {kind: 'gone'}                         the authorisation is ended, as when restoring fails
-- An order that was closed for another reason stays closed.
CREATE OR REPLACE FUNCTION money_authorised(
  p_operation uuid, p_answer jsonb, p_instrument jsonb, p_end_key text, p_owner text, p_lease_ms integer, p_late jsonb)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_seats jsonb;
BEGIN
  SELECT orders.* INTO o FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation;
  PERFORM event_lock_shared(o.event_no);
  IF p_late ->> 'kind' = 'held' THEN
    PERFORM order_lock_limits(o.event_no, o.account, NULL);
  END IF;
  m := money_lock(p_operation);
  IF p_late ->> 'kind' = 'held' THEN
    PERFORM 1 FROM holds WHERE event_no = o.event_no AND hold_id = (p_late ->> 'hold')::uuid FOR UPDATE;
  END IF;
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'authorise' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  -- An operation that is being ended for another reason than time, or whose object is being cancelled, does not come back. Nor
  -- does it while another operation is under way, except the planned cancelling of a closed order's object.
  IF o.state NOT IN ('reserved','closed') OR (m.state = 'ending' AND m.end_reason <> 'not_paid_in_time')
     OR EXISTS (SELECT 1 FROM money_operations other
                WHERE other.order_id = o.order_id AND other.operation_id <> m.operation_id
                  AND CASE WHEN other.kind = 'authorise' THEN other.state NOT IN ('refused','voided')
                      ELSE other.state IN ('open','waiting','unknown','ending')
                           AND NOT (o.state = 'closed' AND other.kind = 'open' AND other.state = 'ending') END) THEN
    RETURN money_end(p_operation, coalesce(m.end_reason, 'seats_lost'), p_end_key, p_owner, p_lease_ms);
  END IF;
  IF o.state = 'closed' THEN
    IF o.reason IS DISTINCT FROM 'not_paid_in_time' THEN
      RETURN money_end(p_operation, coalesce(o.reason, 'seats_lost'), p_end_key, p_owner, p_lease_ms);
    END IF;
    IF p_late IS NULL OR (p_late ->> 'kind' = 'held' AND NOT EXISTS (
         SELECT 1 FROM event_partitions p WHERE p.event_no = o.event_no AND p.partition = o.partition
           AND p.mode <> 'moving' AND p.epoch = (p_late ->> 'epoch')::bigint)) THEN
      RETURN money_result('late', p_operation);
    END IF;
    IF p_late ->> 'kind' = 'held' THEN
      BEGIN
        v_seats := order_retake(o, (p_late ->> 'hold')::uuid, (p_late ->> 'epoch')::bigint,
                                to_timestamp((p_late ->> 'deadline')::float8 / 1000));
        -- In one sub-transaction, so that an open order which the visitor makes meanwhile undoes both.
        IF v_seats IS NOT NULL THEN
          UPDATE orders SET state = 'authorised', former_hold_id = o.hold_id, hold_id = (p_late ->> 'hold')::uuid
          WHERE order_id = o.order_id;
        END IF;
      EXCEPTION WHEN unique_violation THEN v_seats := NULL;
      END;
    END IF;
    IF v_seats IS NULL THEN
      UPDATE orders SET reason = 'late_payment', updated_at = clock_timestamp() WHERE order_id = o.order_id;
      UPDATE money_operations SET end_reason = 'late_payment', due_at = clock_timestamp()
      WHERE order_id = o.order_id AND kind = 'open' AND state = 'ending' AND provider_object = o.provider_object;
      PERFORM order_note(o.order_id, 'late_payment', 'closed', 'closed', jsonb_build_object('operation', p_operation));
      RETURN money_end(p_operation, 'late_payment', p_end_key, p_owner, p_lease_ms);
    END IF;
    -- The object is in use again: its cancelling, if only planned, is called off.
    UPDATE money_operations SET state = 'done', due_at = NULL, end_key = NULL, end_reason = NULL
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'ending' AND provider_object = o.provider_object;
  END IF;
  UPDATE money_operations
  SET state = 'done', answer = p_answer, due_at = v_until, claimed_by = p_owner, claimed_until = v_until,
      end_key = NULL, end_reason = NULL, attention = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders
  SET state = 'authorised', reason = NULL, instrument = p_instrument, updated_at = clock_timestamp(),
      capture_before = to_timestamp((p_answer #>> '{view,captureBefore}')::float8 / 1000)
  WHERE order_id = o.order_id;
  PERFORM order_note(o.order_id, CASE WHEN o.state = 'closed' THEN 'late_success' ELSE 'authorise' END, o.state, 'authorised',
                     jsonb_build_object('operation', p_operation));
  RETURN money_result('authorised', p_operation, coalesce(v_seats, '[]'));
END $$;

-- Takes a closed order's seats back, all or none, from a hold that the arbiter granted for the order and bound to it, under the same
-- conditions as reserve. Returns null if one is not met: the event does not sell, the visitor has another open order, the account
-- would exceed its limit, the hold is gone or about to end, or a seat belongs to another buyer.
CREATE OR REPLACE FUNCTION order_retake(o orders, p_hold uuid, p_epoch bigint, p_deadline timestamptz) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_mode text := (SELECT mode FROM event_partitions WHERE event_no = o.event_no AND partition = o.partition);
  v_hold holds;
  v_deadline timestamptz := p_deadline;
  v_max integer := order_event_limit(o.event_no, 'accountSeatsMax');
  v_used integer;
  v_free integer;
BEGIN
  IF cardinality(o.seats) = 0
     OR (SELECT phase FROM events WHERE event_no = o.event_no) NOT IN ('open','paused','sold_out','closed')
     OR EXISTS (SELECT 1 FROM orders WHERE event_no = o.event_no AND visitor = o.visitor AND state IN ('reserved','authorised'))
  THEN RETURN NULL; END IF;
  IF v_max IS NOT NULL THEN
    SELECT coalesce(sum(cardinality(seats)), 0)
           + coalesce((SELECT seats FROM limit_counts
                       WHERE event_no = o.event_no AND kind = 'account' AND subject = o.account), 0)
    INTO v_used FROM orders WHERE event_no = o.event_no AND account = o.account AND state IN ('reserved','authorised');
    IF v_used + cardinality(o.seats) > v_max AND NOT limit_is_lifted(o.event_no, o.account, o.visitor) THEN RETURN NULL; END IF;
  END IF;
  IF v_mode = 'postgres' THEN
    SELECT * INTO v_hold FROM holds WHERE event_no = o.event_no AND hold_id = p_hold;
    IF v_hold.hold_id IS NULL OR v_hold.state <> 'live' OR v_hold.epoch <> p_epoch
       OR v_hold.order_id IS DISTINCT FROM o.order_id OR v_hold.seats IS DISTINCT FROM o.seats THEN RETURN NULL; END IF;
    v_deadline := least(v_hold.deadline, p_deadline);
  END IF;
  SELECT count(*) FILTER (WHERE s.state = 'available' AND CASE
           WHEN s.hold_until > clock_timestamp() AND s.hold_epoch = p_epoch THEN s.hold_id = p_hold
           ELSE v_mode <> 'postgres' END)
  INTO v_free
  FROM (SELECT * FROM seats WHERE event_no = o.event_no AND seat_no = ANY (o.seats) ORDER BY seat_no FOR UPDATE) s;
  IF v_free < cardinality(o.seats) OR clock_timestamp() >= v_deadline - interval '6 seconds' THEN RETURN NULL; END IF;
  INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind)
  SELECT o.event_no, (line ->> 'seat')::integer, o.order_id, 'reserved', (line ->> 'price')::bigint, (line ->> 'fee')::bigint,
         coalesce(line ->> 'kind', 'full')
  FROM jsonb_array_elements(o.lines) line ORDER BY (line ->> 'seat')::integer
  ON CONFLICT (seat_no, event_no) WHERE (status IN ('reserved','sold')) IS TRUE DO NOTHING;
  GET DIAGNOSTICS v_free = ROW_COUNT;
  IF v_free < cardinality(o.seats) THEN
    DELETE FROM tickets WHERE event_no = o.event_no AND order_id = o.order_id AND status = 'reserved';
    RETURN NULL;
  END IF;
  UPDATE seats SET order_id = o.order_id, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
  WHERE event_no = o.event_no AND seat_no = ANY (o.seats);
  UPDATE holds SET state = 'ordered' WHERE event_no = o.event_no AND hold_id = p_hold AND state = 'live';
  RETURN order_decide_seats(o, 'reserved');
END $$;

-- Finally refused. After a refused authorisation the buyer may try another card. A refused capture undoes the sale in the same call
-- and notifies the buyer, with the amount that had been captured.
CREATE OR REPLACE FUNCTION money_refused(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
  UPDATE money_operations SET state = 'refused', answer = p_answer, due_at = NULL, claimed_until = NULL, attention = NULL,
                              updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  IF m.kind = 'capture' AND o.state = 'confirmed' THEN
    PERFORM order_count_limits(o, -cardinality(o.seats));
    v_seats := order_end(o, 'capture_refused', 'cancelled', 'capture_refused', NULL);
    -- Nothing was captured, but the reservation may still exist: it is ended too.
    UPDATE money_operations SET state = 'ending', end_key = p_operation || ':end', end_reason = 'capture_refused',
           due_at = clock_timestamp(), claimed_until = NULL, attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'authorise' AND state = 'done';
    SELECT * INTO o FROM orders WHERE order_id = o.order_id;
    PERFORM order_happened(o, 'order.cancelled', jsonb_strip_nulls(jsonb_build_object(
      'operation', p_operation, 'amount', nullif((p_answer #>> '{view,captured}')::bigint, 0))));
  ELSE
    PERFORM order_note(o.order_id, m.kind || '_refused', o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('refused', p_operation, v_seats);
END $$;

-- From now on this operation is being ended (its object voided) with a key of its own.
CREATE OR REPLACE FUNCTION money_end(p_operation uuid, p_reason text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  -- Only confirm ends an authorisation in force. A settled one may come back here, but not while another is under way, or in force
  -- for the same object: cancelling the object would take the other's money away.
  IF m.kind NOT IN ('open','authorise') OR m.state IN ('ending','done')
     OR (m.state IN ('refused','voided') AND EXISTS (SELECT 1 FROM money_operations other WHERE other.order_id = o.order_id
         AND other.operation_id <> m.operation_id AND (other.state IN ('open','waiting','unknown','ending')
           OR (other.kind = 'authorise' AND other.state = 'done'
               AND (m.provider_object IS NULL OR other.provider_object = m.provider_object)))))
     -- An operator settled its money by other means: it would be paid twice.
     OR EXISTS (SELECT 1 FROM money_operations other WHERE other.order_id = o.order_id AND other.state = 'voided'
                AND other.provider_object = m.provider_object AND other.decision ->> 'action' = 'settle')
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

-- The provider's object is cancelled for good, or all that was captured was given back. An order that was being ended is closed; one
-- that was not (the provider cancelled on its own) may open a new object. An object that is not the order's own changes nothing about
-- the order. Money that was captured and given back is noted in the order, and its buyer is notified.
CREATE OR REPLACE FUNCTION money_voided(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
  -- The amount that was captured and given back.
  v_back bigint := nullif((p_answer #>> '{view,captured}')::bigint, 0);
  -- The order ended without the buyer's doing although they had paid or were about to.
  v_failed boolean := false;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') OR m.kind NOT IN ('open','authorise') THEN
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations
  SET state = 'voided', answer = coalesce(p_answer, answer), due_at = NULL, claimed_until = NULL, updated_at = clock_timestamp(),
      attention = CASE WHEN attention NOT IN ('void_refused','refund_refused') AND decision IS NULL THEN attention END,
      checks = 0, check_at = CASE WHEN v_back IS NOT NULL THEN refund_check_after(0, clock_timestamp()) END
  WHERE operation_id = p_operation;
  UPDATE money_operations SET attention = NULL
  WHERE order_id = o.order_id AND provider_object = m.provider_object AND attention = 'captured_after_refusal';
  IF m.provider_object IS NOT NULL AND m.provider_object IS DISTINCT FROM o.provider_object THEN
    PERFORM order_note(o.order_id, 'stray_voided', o.state, o.state,
                       jsonb_build_object('operation', p_operation, 'object', m.provider_object));
  ELSE
    UPDATE money_operations SET state = 'voided', updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
    IF o.state = 'voiding' THEN
      UPDATE orders SET state = 'closed', updated_at = clock_timestamp() WHERE order_id = o.order_id;
      PERFORM order_note(o.order_id, 'voided', 'voiding', 'closed', jsonb_build_object('operation', p_operation));
      v_failed := o.reason IS DISTINCT FROM 'closed_by_buyer';
    ELSIF o.state = 'reserved' AND m.state = 'ending' THEN
      v_seats := order_end(o, 'close', 'closed', m.end_reason, NULL);
      v_failed := m.kind = 'authorise' AND m.end_reason IN ('payment_mismatch','event_cancelled');
    ELSE
      IF o.state = 'reserved' THEN
        UPDATE orders SET provider_object = NULL, updated_at = clock_timestamp() WHERE order_id = o.order_id;
      END IF;
      PERFORM order_note(o.order_id, m.kind || '_voided', o.state, o.state, jsonb_build_object('operation', p_operation));
    END IF;
  END IF;
  SELECT * INTO o FROM orders WHERE order_id = o.order_id;
  IF m.end_reason = 'late_payment' THEN
    PERFORM order_happened(o, 'order.closed_late', jsonb_strip_nulls(jsonb_build_object('operation', p_operation, 'amount', v_back)));
  ELSIF v_back IS NOT NULL THEN
    PERFORM order_happened(o, 'order.money_returned', jsonb_build_object('operation', p_operation, 'amount', v_back));
  ELSIF v_failed THEN
    PERFORM order_happened(o, 'order.failed', jsonb_build_object('operation', p_operation));
  END IF;
  IF v_back IS NOT NULL THEN
    PERFORM order_note(o.order_id, 'money_returned', o.state, o.state, jsonb_build_object(
      'operation', p_operation, 'object', m.provider_object, 'amount', v_back));
  END IF;
  RETURN money_result('voided', p_operation, v_seats);
END $$;

-- Captured: the order is paid.
CREATE OR REPLACE FUNCTION money_captured(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; m money_operations; v_paid orders;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'capture' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  IF m.state = 'refused' THEN
    -- Money that came after its order was cancelled is on the operator's list until the ending of its authorisation gave it
    -- back.
    UPDATE money_operations SET answer = p_answer, updated_at = clock_timestamp(),
      attention = CASE WHEN NOT EXISTS (SELECT 1 FROM money_operations other WHERE other.order_id = o.order_id
        AND other.provider_object = m.provider_object AND other.state = 'voided') THEN 'captured_after_refusal' END
    WHERE operation_id = p_operation;
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations SET state = 'done', answer = p_answer, due_at = NULL, claimed_until = NULL,
                              attention = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'paid', updated_at = clock_timestamp() WHERE order_id = o.order_id AND state = 'confirmed'
  RETURNING * INTO v_paid;
  IF FOUND THEN PERFORM order_happened(v_paid, 'order.confirmed', jsonb_build_object('operation', p_operation)); END IF;
  PERFORM order_note(o.order_id, 'capture', o.state, 'paid', jsonb_build_object('operation', p_operation));
  RETURN money_result('captured', p_operation);
END $$;

-- An object that the provider knows and that none of our operations names: an opening whose response was lost. Returns 'known' (it
-- is one of the order's own by now), 'adopted' (an opening of the order was waiting for it), 'ending' (recorded in order to be
-- cancelled, claimed by the caller) or 'under_way' (not yet, the order has something else to do first).
CREATE OR REPLACE FUNCTION money_stray(
  p_order uuid, p_object text, p_fits boolean, p_operation uuid, p_key text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  -- An object that one of our orders has, or is having cancelled, is not a stray.
  IF EXISTS (SELECT 1 FROM orders WHERE provider_object = p_object)
     OR EXISTS (SELECT 1 FROM money_operations WHERE provider_object = p_object) THEN
    RETURN '{"kind":"known"}';
  END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND kind <> 'refund' AND state IN ('open','waiting','unknown','ending') FOR UPDATE;
  IF FOUND AND p_fits AND m.kind = 'open' AND m.state <> 'waiting' AND m.provider_object IS NULL AND o.provider_object IS NULL THEN
    PERFORM money_opened(m.operation_id, p_object, NULL);
    RETURN money_result('adopted', m.operation_id);
  END IF;
  IF m.operation_id IS NOT NULL OR o.state NOT IN ('paid','closed','cancelled') THEN RETURN '{"kind":"under_way"}'; END IF;
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, end_key, provider_object, amount, currency, attempts,
                                first_sent_at, due_at, claimed_by, claimed_until, created_at)
  VALUES (p_operation, p_order, 'open', 'ending', p_key, p_end_key, p_object, o.amount, o.currency, 1,
          clock_timestamp(), v_until, p_owner, v_until, clock_timestamp());
  PERFORM order_note(p_order, 'stray_ending', o.state, o.state,
                     jsonb_build_object('operation', p_operation, 'object', p_object));
  RETURN money_result('ending', p_operation);
END $$;

-- Returns how much of a failed refund went back at the provider since it was decided: money of refunds made there that the order's
-- other failed refunds do not account for. A refund that was settled does not account for it here: whether it was paid at the
-- provider or by bank transfer is not known, and nothing must be paid twice.
CREATE OR REPLACE FUNCTION refund_gone_back(r refunds) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT least(r.amount, greatest(0,
    (SELECT coalesce(sum(v.taken), 0) FROM reversals v
     WHERE v.order_id = r.order_id AND v.kind = 'refund' AND v.seen_at > r.created_at)
    - (SELECT coalesce(sum(o.amount), 0) FROM refunds o
       WHERE o.order_id = r.order_id AND o.refund_id <> r.refund_id AND o.state = 'failed')))::bigint
$$;
