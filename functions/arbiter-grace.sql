-- The Postgres arbiter: receipts of holds that a lost Redis granted (recover, D1). Until grace ends the seats are taken back for the
-- receipts with the highest rank, and no receipt gets a final result. docs/decisions and src/inventory/arbiter.ts have the rules.

-- Receipts are compared by this rank; the higher wins. Arrays are compared from the left.
CREATE OR REPLACE FUNCTION hold_rank(h holds) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY[coalesce(h.receipt_epoch, h.epoch), coalesce(h.receipt_grant, h.grant_no)]
$$;

CREATE OR REPLACE FUNCTION arbiter_recovering(p_until timestamptz) RETURNS arbiter_answer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  answer arbiter_answer;
BEGIN
  answer.kind := 'recovering';
  answer.deadline := p_until;
  RETURN answer;
END $$;

-- recover: presents a receipt, with the fields of a row of holds. After grace it returns the hold as it is. During grace it takes
-- the seats back, and the result is 'recovering' until grace ends. Locks: event (shared) → holder → visitor → holds by id → seats.
CREATE OR REPLACE FUNCTION arbiter_recover(p_event integer, p_partition smallint, p_epoch bigint, p_receipt jsonb, p_seats_max integer)
RETURNS arbiter_answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  r holds := jsonb_populate_record(NULL::holds, p_receipt);
  gate arbiter_answer;
  answer arbiter_answer;
BEGIN
  gate := arbiter_gate(p_event, p_partition, p_epoch, p_grace => true);
  IF gate.kind IS NOT NULL THEN RETURN gate; END IF;
  IF gate.deadline IS NOT NULL THEN
    -- Protects the quota and the visitor's other holds, as in arbiter_hold.
    PERFORM pg_advisory_xact_lock(hashtextextended(format('h/%s/%s/%s', p_event, p_partition, r.holder), 0));
    IF r.visitor <> r.holder THEN
      PERFORM pg_advisory_xact_lock(hashtextextended(format('v/%s/%s/%s', p_event, p_partition, r.visitor), 0));
    END IF;
  END IF;
  answer := arbiter_recovered(p_event, p_partition, p_epoch, r, gate.deadline);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  IF gate.deadline IS NULL THEN RETURN arbiter_say('hold_gone'); END IF;
  FOR v_try IN 1 .. 5 LOOP
    BEGIN
      RETURN arbiter_take_again(p_event, p_partition, p_epoch, r, p_seats_max, gate.deadline);
    EXCEPTION WHEN SQLSTATE 'OS001' THEN NULL;
    END;
  END LOOP;
  RAISE EXCEPTION 'others took the seats again and again' USING ERRCODE = 'serialization_failure';
END $$;

-- Returns the result for a receipt whose hold is known. A null kind means that it is not known; a lease from a lost store is not
-- known either. The row is locked, so that a later receipt that takes its seats in the last moment of grace is waited for. A receipt
-- of a hold that its order has left for another hold is used up.
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
  -- Another receipt of this hold, perhaps a later one: from after its extension, or from its recovery in an earlier grace.
  IF h.receipt_epoch IS NOT NULL AND r.epoch < p_epoch THEN
    UPDATE holds SET deadline = greatest(deadline, r.deadline), order_id = coalesce(order_id, r.order_id),
        receipt_epoch = (greatest(hold_rank(h), hold_rank(r)))[1], receipt_grant = (greatest(hold_rank(h), hold_rank(r)))[2]
     WHERE event_no = p_event AND hold_id = h.hold_id;
    UPDATE seats s SET hold_until = greatest(s.hold_until, r.deadline)
     WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.hold_id = h.hold_id AND s.hold_until < r.deadline;
  END IF;
  RETURN arbiter_recovering(p_until);
END $$;

-- Locks all that the receipt could displace or that could stand against it: the holds of its seats and the other holds of its
-- visitor and its holder, by id, then all their seats and the receipt's, by number. Returns the ids.
CREATE OR REPLACE FUNCTION arbiter_lock_rivals(p_event integer, p_partition smallint, p_epoch bigint, r holds)
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  v_ids uuid[] := ARRAY(
    SELECT s.hold_id FROM seats s
     WHERE s.event_no = p_event AND s.seat_no = ANY(r.seats) AND s.hold_id IS NOT NULL AND s.hold_epoch = p_epoch
    UNION SELECT h.hold_id FROM holds h
     WHERE h.event_no = p_event AND h.partition = p_partition AND h.visitor = r.visitor AND h.state = 'live' AND h.epoch = p_epoch
    UNION SELECT h.hold_id FROM holds h
     WHERE h.event_no = p_event AND h.partition = p_partition AND h.holder = r.holder AND h.state = 'live' AND h.epoch = p_epoch);
  v_seats integer[];
BEGIN
  PERFORM FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_ids) ORDER BY h.hold_id FOR UPDATE;
  v_seats := r.seats || ARRAY(SELECT unnest(h.seats) FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_ids));
  PERFORM FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY(v_seats) ORDER BY s.seat_no FOR NO KEY UPDATE;
  RETURN v_ids;
END $$;

-- During grace, for a receipt that is not known: takes all its seats or changes nothing (S2). Holds with a lower rank give way, each
-- as a whole: the holds of its seats; the visitor's other hold, since a later hold means that the earlier one was over; the holder's
-- other holds, lowest rank first, as far as the quota requires (S7). Error OS001 means that another claim took a seat meanwhile and
-- the caller starts over.
CREATE OR REPLACE FUNCTION arbiter_take_again(p_event integer, p_partition smallint, p_epoch bigint, r holds, p_seats_max integer,
  p_until timestamptz) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  v_rank bigint[] := hold_rank(r);
  v_size integer := cardinality(r.seats);
  v_rivals uuid[];
  v_occupants uuid[];
  v_weaker uuid[];
  v_losers uuid[];
  v_over uuid[];
  v_used integer;
  v_free integer[];
  v_rows integer;
  v_now timestamptz;
BEGIN
  IF r.epoch >= p_epoch OR EXISTS (SELECT FROM orders o WHERE o.hold_id = r.hold_id) THEN RETURN arbiter_say('hold_gone'); END IF;
  v_rivals := arbiter_lock_rivals(p_event, p_partition, p_epoch, r);
  v_now := arbiter_now();
  IF v_now >= least(p_until, r.deadline) THEN RETURN arbiter_say('hold_gone'); END IF;
  v_occupants := ARRAY(SELECT DISTINCT s.hold_id FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY(r.seats)
    AND s.state = 'available' AND NOT seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, v_now));
  IF NOT v_occupants <@ v_rivals THEN RAISE EXCEPTION USING ERRCODE = 'OS001'; END IF;
  v_weaker := ARRAY(SELECT h.hold_id FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_rivals)
    AND hold_is_live(h, p_epoch, v_now) AND hold_rank(h) < v_rank);
  -- The visitor's other hold has to be weaker too: a later one means that this one was over.
  v_losers := ARRAY(SELECT h.hold_id FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_rivals)
    AND hold_is_live(h, p_epoch, v_now) AND h.visitor = r.visitor);
  IF NOT v_losers <@ v_weaker THEN RETURN arbiter_say('hold_gone'); END IF;
  v_free := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(r.seats) AND s.state = 'available'
      AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, v_now) OR s.hold_id = ANY(v_weaker)));
  IF NOT r.seats <@ v_free THEN RETURN arbiter_say('taken', ARRAY(SELECT u FROM unnest(r.seats) u WHERE u <> ALL(v_free))); END IF;
  v_losers := v_losers || v_occupants;
  SELECT coalesce(max(o.used) FILTER (WHERE o.ahead), 0),
         coalesce(array_agg(o.hold_id) FILTER (WHERE NOT o.ahead AND o.used + v_size > p_seats_max), '{}')
    INTO v_used, v_over
    FROM (SELECT h.hold_id, h.state = 'ordered' OR hold_rank(h) >= v_rank AS ahead,
                 sum(cardinality(h.seats)) OVER (ORDER BY h.state = 'ordered' DESC, hold_rank(h) DESC, h.hold_id) AS used
            FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition AND h.holder = r.holder
             AND (h.state = 'ordered' OR hold_is_live(h, p_epoch, v_now)) AND h.hold_id <> ALL(v_losers)) o;
  IF v_used + v_size > p_seats_max THEN RETURN arbiter_say('hold_gone'); END IF;
  v_losers := v_losers || v_over;

  DELETE FROM holds h WHERE h.event_no = p_event AND h.hold_id = r.hold_id
     AND (hold_is_forgotten(h, v_now) OR (h.state = 'live' AND h.epoch <> p_epoch));
  INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no,
                     order_id, state, receipt_epoch, receipt_grant)
  VALUES (p_event, r.hold_id, p_partition, r.visitor, r.holder, '', r.seats, r.granted_at, r.deadline, p_epoch,
          nextval('grant_numbers'), r.order_id, 'live', r.epoch, r.grant_no)
  ON CONFLICT DO NOTHING;
  -- A release of this id came first and left its tombstone.
  IF NOT FOUND THEN RETURN arbiter_say('hold_gone'); END IF;
  IF v_losers <> '{}' THEN
    UPDATE holds h SET state = 'released', deadline = v_now WHERE h.event_no = p_event AND h.hold_id = ANY(v_losers);
    v_free := ARRAY(SELECT unnest(h.seats) FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_losers));
    UPDATE seats s SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL
     WHERE s.event_no = p_event AND s.seat_no = ANY(v_free) AND s.hold_id = ANY(v_losers);
  END IF;
  UPDATE seats s SET hold_id = r.hold_id, hold_until = r.deadline, hold_epoch = p_epoch
   WHERE s.event_no = p_event AND s.seat_no = ANY(r.seats);
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  ASSERT v_rows = v_size, 'every seat of a recovered hold has a row';
  RETURN arbiter_recovering(p_until);
END $$;
