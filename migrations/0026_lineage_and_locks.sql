-- What a Redis is known to have given, so that an older copy of it is known by fewer (design §4.4).

-- `granted`: a number that the partition's Redis is known to have given under `epoch`: every process refuses a store that has
-- given fewer. Written a second behind by the leader, and at once by a process that finds an older copy. `run_ids`: now
-- '<run id>:<replication id>', see src/redis/run.ts.
ALTER TABLE event_partitions ADD COLUMN granted bigint NOT NULL DEFAULT 0;

-- True for whoever writes it: under one epoch the number only rises. One row and no other lock.
CREATE FUNCTION partition_granted(p_event integer, p_partition smallint, p_epoch bigint, p_granted bigint) RETURNS void
LANGUAGE sql AS $$
  UPDATE event_partitions SET granted = p_granted
   WHERE event_no = p_event AND partition = p_partition AND mode = 'redis' AND epoch = p_epoch AND granted < p_granted
$$;

-- flip: as in 0009; numbers known of an earlier epoch say nothing about this one.
CREATE OR REPLACE FUNCTION partition_flip(p_event integer, p_partition smallint, p_term bigint, p_rebuild bigint,
  p_run_ids text[], OUT refused text) LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  SELECT * INTO v FROM partition_lock(p_event, p_partition, p_term, 'moving');
  refused := CASE WHEN v.refused IS NULL AND (v.p).rebuild_epoch IS DISTINCT FROM p_rebuild THEN 'other_rebuild'
                  ELSE v.refused END;
  IF refused IS NOT NULL THEN RETURN; END IF;
  UPDATE event_partitions e SET mode = 'redis', epoch = p_rebuild, run_ids = p_run_ids, rebuild_epoch = NULL, granted = 0,
      -- A first move is no restore: a store that was never lost is believed lost at once.
      restored_at = CASE WHEN e.reason IS NULL THEN e.restored_at ELSE clock_timestamp() END,
      grace_until = NULL, reason = NULL, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition;
  -- They are the other store's from here on. What the seats' rows still say names an epoch that is over.
  DELETE FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition;
  DELETE FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition;
  PERFORM partition_note(p_event, p_partition, 'restore', p_rebuild, NULL);
END $$;

-- A claim: of one operation by its name, or of those that are due, by the index of what is due. A time that is read once and
-- one statement each: with clock_timestamp() or a CASE in the condition all that wait are read.
DROP FUNCTION money_claim(text, integer, integer, uuid);
CREATE FUNCTION money_claim(p_owner text, p_limit integer, p_lease_ms integer, p_operation uuid) RETURNS SETOF jsonb
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

-- For the leader, which tells Redis each second: the holds of the orders that changed within p_within_ms, and, with p_open, of
-- all that are not paid yet; `ordered` are not paid, `ended` were sold or have ended. Each part can use one index only (`+ 0`
-- rules the others out), whatever Postgres has counted, so that what is over is not read; now() is the statement's time and,
-- unlike clock_timestamp(), finds rows by an index.
CREATE INDEX orders_changed ON orders (updated_at);
CREATE FUNCTION projection_orders(p_event integer, p_within_ms integer, p_open boolean)
RETURNS TABLE (partition smallint, ordered uuid[], ended uuid[])
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
  SELECT t.partition,
         coalesce(array_agg(t.hold_id) FILTER (WHERE t.state IN ('reserved','authorised')), '{}'),
         coalesce(array_agg(t.hold_id) FILTER (WHERE t.state NOT IN ('reserved','authorised')), '{}')
    FROM (SELECT o.order_id, o.partition, o.hold_id, o.state FROM orders o
           WHERE o.event_no + 0 = p_event AND o.updated_at > now() - p_within_ms * interval '1 millisecond'
             AND NOT (p_open AND o.state IN ('reserved','authorised'))
          UNION ALL
          SELECT o.order_id, o.partition, o.hold_id, o.state FROM orders o
           WHERE p_open AND o.event_no = p_event AND o.state IN ('reserved','authorised')) t
   GROUP BY t.partition
$$;

-- One lock order, everywhere: event → quota and limits → order → what is the order's own (money operations, tickets, refunds)
-- → hold → seats by number. test/services/lock-order.test.ts reads it from the functions. Below, five that kept another one;
-- of each, only the order of its steps is new.

-- as in 0014: the hold is locked before the seats.
CREATE OR REPLACE FUNCTION order_confirm(
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
  -- An object that came from nowhere (money_stray) is still being cancelled: one operation at a time. The authorisation is due
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

-- as in 0004: the money operation, then hold and seats.
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

-- as in 0019: the holds after the orders.
CREATE OR REPLACE FUNCTION buyer_lock(p_account text, p_email text, p_order uuid) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  v_ids uuid[] := buyer_orders(p_account, p_email, p_order);
  v_cards text[] := ARRAY(SELECT DISTINCT instrument ->> 'fingerprint' FROM orders WHERE order_id = ANY (v_ids) ORDER BY 1);
BEGIN
  PERFORM 1 FROM limit_counts
  WHERE (kind = 'account' AND subject = p_account)
     OR (kind = 'instrument' AND subject = ANY (v_cards)
         AND event_no IN (SELECT event_no FROM orders WHERE order_id = ANY (v_ids)))
  ORDER BY event_no, kind, subject FOR UPDATE;
  PERFORM 1 FROM orders WHERE order_id = ANY (v_ids) ORDER BY order_id FOR UPDATE;
  PERFORM 1 FROM money_operations WHERE order_id = ANY (v_ids) ORDER BY operation_id FOR UPDATE;
  PERFORM 1 FROM holds h
  WHERE (h.event_no, h.hold_id) IN (SELECT event_no, hold_id FROM orders WHERE order_id = ANY (v_ids))
  ORDER BY h.event_no, h.hold_id FOR UPDATE;
  IF v_ids <> buyer_orders(p_account, p_email, p_order)
     OR v_cards <> ARRAY(SELECT DISTINCT instrument ->> 'fingerprint' FROM orders WHERE order_id = ANY (v_ids) ORDER BY 1) THEN
    RAISE serialization_failure USING MESSAGE = 'the buyer ordered meanwhile';
  END IF;
  RETURN v_ids;
END $$;

-- as in 0013: the hold after the order.
CREATE OR REPLACE FUNCTION money_authorised(
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
  END IF;
  m := money_lock(p_operation);
  IF p_late ->> 'kind' = 'held' THEN
    PERFORM 1 FROM holds WHERE event_no = o.event_no AND hold_id = (p_late ->> 'hold')::uuid FOR UPDATE;
  END IF;
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

-- as in 0009: the orders before the holds.
CREATE OR REPLACE FUNCTION partition_degrade(p_event integer, p_partition smallint, p_epoch bigint, p_reason text, p_grace_ms integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_epoch bigint;
BEGIN
  UPDATE event_partitions e SET mode = 'postgres', epoch = nextval('epochs'), run_ids = '{}', rebuild_epoch = NULL,
      grace_until = date_trunc('milliseconds', clock_timestamp()) + p_grace_ms * interval '1 millisecond',
      reason = p_reason, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition AND e.mode = 'redis' AND e.epoch = p_epoch
  RETURNING e.epoch INTO v_epoch;
  IF v_epoch IS NULL THEN RETURN NULL; END IF;
  PERFORM FROM orders o WHERE o.event_no = p_event AND o.partition = p_partition AND o.state IN ('reserved','authorised')
   ORDER BY o.order_id FOR SHARE;
  DELETE FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition;
  -- Nothing from before counts (the last flip took the rows along); what an unpaid order keeps of the quota, does (S7). The
  -- orders are locked, so that one which just ends is either left out or ends its row here afterwards.
  DELETE FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition;
  INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no,
                     order_id, state)
  SELECT o.event_no, o.hold_id, o.partition, o.visitor, o.holder, '', o.seats, o.created_at, o.payment_deadline, v_epoch, 0,
         o.order_id, 'ordered'
    FROM (SELECT * FROM orders WHERE event_no = p_event AND partition = p_partition AND state IN ('reserved','authorised')
           ORDER BY order_id FOR SHARE) o;
  PERFORM partition_note(p_event, p_partition, 'degrade', v_epoch, p_reason);
  RETURN v_epoch;
END $$;

-- As in 0004 and 0013: plans are made once a session, and not as sequential scans of tables that were empty then.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.proname IN ('order_confirm','money_authorised') LOOP
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_mergejoin = off', f);
  END LOOP;
END $$;
