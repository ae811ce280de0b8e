-- Unknown is a state, and so is what came late: deadlines that are columns, the way back of an order whose money came after
-- its deadline, objects that the provider knows and we do not, and the inbox of the provider's events.

ALTER TABLE orders
  ADD COLUMN capture_before timestamptz,     -- until then the reserved money can be taken, as the provider says; null: not said
  ADD COLUMN former_hold_id uuid;            -- the hold that it was made of, when its seats had to be held a second time
CREATE INDEX orders_former_hold ON orders (former_hold_id) WHERE former_hold_id IS NOT NULL;
CREATE INDEX money_object ON money_operations (provider_object) WHERE provider_object IS NOT NULL;

CREATE OR REPLACE FUNCTION order_json(o orders) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'order', o.order_id, 'eventNo', o.event_no, 'event', (SELECT event_id FROM events WHERE event_no = o.event_no),
    'partition', o.partition, 'hold', o.hold_id, 'visitor', o.visitor, 'holder', o.holder, 'account', o.account,
    'buyer', o.buyer, 'lines', o.lines, 'orderFee', o.order_fee, 'amount', o.amount, 'currency', o.currency,
    'state', o.state, 'reason', o.reason, 'paymentDeadline', epoch_ms(o.payment_deadline),
    'captureBefore', epoch_ms(o.capture_before),
    'providerObject', o.provider_object, 'instrument', o.instrument, 'createdAt', epoch_ms(o.created_at))
$$;

-- How much of the reservation's time is left, by the record's own clock.
CREATE FUNCTION order_capture_window(p_order uuid, p_ending interval) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN capture_before <= clock_timestamp() THEN 'over'
              WHEN capture_before <= clock_timestamp() + p_ending THEN 'ending' ELSE 'open' END
  FROM orders WHERE order_id = p_order
$$;

-- Late money.

-- The provider reserved the money. The order goes on from 'reserved'. One that was closed because it was not paid in time
-- answers 'late' while nothing is known about its seats (p_late null, or its hold is of another epoch); with
-- {kind: 'held', hold, epoch, deadline} it tries once to become an order again; with {kind: 'gone'}, or in vain, the
-- authorisation is ended. One that was closed for another reason stays so.
DROP FUNCTION money_authorised(uuid, jsonb, jsonb, text, text, integer);
CREATE FUNCTION money_authorised(
  p_operation uuid, p_answer jsonb, p_instrument jsonb, p_end_key text, p_owner text, p_lease_ms integer, p_late jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_seats jsonb;
BEGIN
  SELECT orders.* INTO o FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation;
  PERFORM event_lock_shared(o.event_no);
  IF p_late ->> 'kind' = 'held' THEN
    PERFORM order_lock_limits(o.event_no, o.account, NULL);
    PERFORM 1 FROM holds WHERE event_no = o.event_no AND hold_id = (p_late ->> 'hold')::uuid FOR UPDATE;
  END IF;
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
        -- In the same breath, so that an open order which the visitor makes meanwhile undoes both.
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
    -- The object lives again: its cancelling, if only planned, is called off.
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

-- A closed order's seats once more, all or none, out of a hold that the arbiter granted for it and bound to it: the same
-- conditions as at reserve. Null when one is not met: the event is cancelled, the visitor has another open order, the account
-- would be over its limit (and no exception of 0014 lifts it), the hold is not there or too near its end, or a seat is somebody
-- else's.
DROP FUNCTION order_retake(orders);
CREATE FUNCTION order_retake(o orders, p_hold uuid, p_epoch bigint, p_deadline timestamptz) RETURNS jsonb LANGUAGE plpgsql AS $$
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
  ON CONFLICT ((CASE WHEN status <> 'cancelled' THEN seat_no END), event_no) DO NOTHING;
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

-- A receipt of a hold that its order has left behind is as used up as one of its present hold.
CREATE OR REPLACE FUNCTION arbiter_recovered(p_event integer, p_partition smallint, p_epoch bigint, r holds, p_until timestamptz)
RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  h holds;
  v_now timestamptz;
  v_own integer[];
BEGIN
  IF EXISTS (SELECT FROM orders o WHERE o.former_hold_id = r.hold_id) THEN RETURN arbiter_say('hold_gone'); END IF;
  SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = r.hold_id FOR NO KEY UPDATE;
  v_now := arbiter_now();
  IF NOT FOUND OR hold_is_forgotten(h, v_now) OR (h.state = 'live' AND h.epoch <> p_epoch) THEN RETURN NULL; END IF;
  IF h.visitor <> r.visitor OR h.partition <> p_partition OR NOT hold_is_live(h, p_epoch, v_now) THEN
    RETURN arbiter_say('hold_gone');
  END IF;
  v_own := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.state = 'available' AND s.hold_id = h.hold_id);
  IF NOT h.seats <@ v_own THEN RETURN arbiter_say('taken', ARRAY(SELECT u FROM unnest(h.seats) u WHERE u <> ALL(v_own))); END IF;
  IF p_until IS NULL OR p_until <= v_now THEN RETURN arbiter_say_hold('recovered', h); END IF;
  -- Perhaps another receipt of it, a later one: from after its extension, or its own recovery in an earlier grace.
  IF h.receipt_epoch IS NOT NULL AND r.epoch < p_epoch THEN
    UPDATE holds SET deadline = greatest(deadline, r.deadline), order_id = coalesce(order_id, r.order_id),
        receipt_epoch = (greatest(hold_rank(h), hold_rank(r)))[1], receipt_grant = (greatest(hold_rank(h), hold_rank(r)))[2]
     WHERE event_no = p_event AND hold_id = h.hold_id;
    UPDATE seats s SET hold_until = greatest(s.hold_until, r.deadline)
     WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.hold_id = h.hold_id AND s.hold_until < r.deadline;
  END IF;
  RETURN arbiter_recovering(p_until);
END $$;

-- The provider's object is cancelled for good, or all that it took was given back. An order that was being ended is closed; one
-- that was not (the provider cancelled by itself) may open a new object. An object that is not the order's own changes nothing
-- about the order.
CREATE OR REPLACE FUNCTION money_voided(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') OR m.kind NOT IN ('open','authorise') THEN
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations
  SET state = 'voided', answer = coalesce(p_answer, answer), due_at = NULL, claimed_until = NULL, updated_at = clock_timestamp(),
      attention = CASE WHEN attention NOT IN ('void_refused','refund_refused') THEN attention END
  WHERE operation_id = p_operation;
  IF m.provider_object IS NOT NULL AND m.provider_object IS DISTINCT FROM o.provider_object THEN
    PERFORM order_note(o.order_id, 'stray_voided', o.state, o.state,
                       jsonb_build_object('operation', p_operation, 'object', m.provider_object));
    RETURN money_result('voided', p_operation);
  END IF;
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
  IF m.end_reason = 'late_payment' THEN
    SELECT * INTO o FROM orders WHERE order_id = o.order_id;
    PERFORM order_happened(o, 'order.closed_late', jsonb_strip_nulls(jsonb_build_object('operation', p_operation,
      'amount', nullif((p_answer #>> '{view,captured}')::bigint, 0))));
  END IF;
  RETURN money_result('voided', p_operation, v_seats);
END $$;

-- Finally refused. An authorisation: another card may be tried. A capture: the sale is undone in the same call, and its buyer told.
CREATE OR REPLACE FUNCTION money_refused(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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
    SELECT * INTO o FROM orders WHERE order_id = o.order_id;
    PERFORM order_happened(o, 'order.cancelled', jsonb_build_object('operation', p_operation));
  ELSE
    PERFORM order_note(o.order_id, m.kind || '_refused', o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('refused', p_operation, v_seats);
END $$;

-- Objects that the provider knows and that none of our operations names: an opening whose answer was lost.

-- 'known': it is one of the order's own by now. 'adopted': an opening of the order is still waiting for just this. 'ending':
-- written down in order to be cancelled, claimed by the caller. 'under_way': not yet, the order has something else to do first.
CREATE FUNCTION money_stray(
  p_order uuid, p_object text, p_fits boolean, p_operation uuid, p_key text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  -- Whosever it is: an object that some order of ours has, or is having cancelled, is no stray.
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

-- The inbox of the provider's events.

ALTER TABLE provider_events
  ADD COLUMN due_at        timestamptz,      -- when it is looked at next; null: never
  ADD COLUMN attempts      integer NOT NULL DEFAULT 0,
  ADD COLUMN claimed_by    text,
  ADD COLUMN claimed_until timestamptz,
  ADD COLUMN note          text;             -- how it ended, where not by its payment: 'no_payment', 'unknown_object'
UPDATE provider_events SET due_at = clock_timestamp() WHERE processed_at IS NULL;
DROP INDEX provider_events_open;
CREATE INDEX provider_events_due ON provider_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX provider_events_object ON provider_events (object) WHERE due_at IS NOT NULL;
CREATE INDEX provider_events_unknown ON provider_events (received_at) WHERE note = 'unknown_object';

-- Hands out objects with events that are due, those that wait longest first, each with all of its events: a thousand events
-- of one object are one look at it.
CREATE FUNCTION provider_events_claim(p_owner text, p_limit integer, p_lease_ms integer)
RETURNS TABLE (object text, "order" uuid, events text[], attempts integer, "ageMs" double precision) LANGUAGE sql AS $$
  WITH longest AS (
    -- A bounded number, so that a flood is not read as a whole for each handful of it.
    SELECT e.object, e.due_at FROM provider_events e
    WHERE e.due_at <= clock_timestamp() AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
    ORDER BY e.due_at LIMIT 1000),
  due AS (SELECT l.object FROM longest l GROUP BY l.object ORDER BY min(l.due_at) LIMIT p_limit),
  mine AS (
    SELECT e.provider_event_id FROM provider_events e JOIN due USING (object)
    WHERE e.due_at IS NOT NULL AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
    ORDER BY e.provider_event_id FOR UPDATE OF e SKIP LOCKED),
  claimed AS (
    UPDATE provider_events e
    SET claimed_by = p_owner, claimed_until = clock_timestamp() + p_lease_ms * interval '1 millisecond',
        due_at = clock_timestamp() + p_lease_ms * interval '1 millisecond', attempts = e.attempts + 1
    FROM mine WHERE e.provider_event_id = mine.provider_event_id
    RETURNING e.*)
  SELECT c.object,
         coalesce((SELECT o.order_id FROM orders o WHERE o.provider_object = c.object),
                  (SELECT m.order_id FROM money_operations m WHERE m.provider_object = c.object LIMIT 1)),
         array_agg(c.provider_event_id ORDER BY c.received_at, c.provider_event_id), max(c.attempts),
         (extract(epoch FROM clock_timestamp() - min(c.received_at)) * 1000)::double precision
  FROM claimed c GROUP BY c.object ORDER BY min(c.received_at)
$$;

-- As in 0004; an order that has another hold by now is found by its own id.
CREATE OR REPLACE FUNCTION order_abandon(
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
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
  IF v_order.seats = '{}' THEN RETURN '{"kind":"abandoned"}'; END IF;
  RETURN jsonb_build_object('kind', 'ordered', 'order', order_json(v_order));
END $$;
