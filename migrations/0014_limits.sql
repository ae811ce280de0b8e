-- Limits of purchases (P7) with exceptions, cooldowns, and what the comparison with the payment provider found. Lock order and
-- json shapes as in 0004_orders.sql. The tables of cooldowns are locked after everything else, under one lock of their own.

-- An organiser's exceptions: every limit that an event sets for one buyer, and any cooldown, is lifted while one is in force.
-- What is held at once (S7) is not lifted: it protects the others' sale.
CREATE TABLE limit_allowances (
  allowance_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  event_no     integer NOT NULL REFERENCES events,
  account      text,                         -- as orders.account
  visitor      text,
  order_id     uuid,                         -- the order that named the buyer, if one did
  reason       text NOT NULL,
  actor        text NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  until        timestamptz,                  -- null: until it is ended
  ended_at     timestamptz,
  ended_by     text,
  CHECK (account IS NOT NULL OR visitor IS NOT NULL)
);
CREATE INDEX limit_allowances_account ON limit_allowances (event_no, account) WHERE ended_at IS NULL;
CREATE INDEX limit_allowances_visitor ON limit_allowances (event_no, visitor) WHERE ended_at IS NULL;

CREATE FUNCTION limit_is_lifted(p_event integer, p_account text, p_visitor text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM limit_allowances
                 WHERE event_no = p_event AND account = p_account AND ended_at IS NULL
                   AND (until IS NULL OR until > clock_timestamp()))
      OR EXISTS (SELECT 1 FROM limit_allowances
                 WHERE event_no = p_event AND visitor = p_visitor AND ended_at IS NULL
                   AND (until IS NULL OR until > clock_timestamp()))
$$;

-- Which limit the order would exceed, as the reason of its end; null: none. Its limit rows are locked by the caller.
CREATE FUNCTION order_limit_reached(o orders) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_reason text := CASE
    WHEN order_over_limit(o.event_no, 'account', o.account, cardinality(o.seats), 'accountSeatsMax') THEN 'limit'
    WHEN order_over_limit(o.event_no, 'instrument', o.instrument ->> 'fingerprint', cardinality(o.seats), 'instrumentSeatsMax')
      THEN 'card_limit' END;
BEGIN
  IF v_reason IS NOT NULL AND limit_is_lifted(o.event_no, o.account, o.visitor) THEN RETURN NULL; END IF;
  RETURN v_reason;
END $$;

-- The event's limits, guarded by those that the operator looked at. Under the event's lock alone: no order is confirmed under
-- the old limits after this commits. p_expected: all three, null for none; p_changes: some of them.
CREATE FUNCTION event_limits(p_settings jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('accountSeatsMax', p_settings -> 'accountSeatsMax',
    'instrumentSeatsMax', p_settings -> 'instrumentSeatsMax', 'cooldown', p_settings -> 'cooldown')
$$;
CREATE FUNCTION limits_change(p_event integer, p_actor text, p_expected jsonb, p_changes jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_settings jsonb;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT settings INTO v_settings FROM events WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  IF event_limits(v_settings) <> p_expected THEN
    RETURN jsonb_build_object('kind', 'conflict', 'limits', event_limits(v_settings));
  END IF;
  UPDATE events SET settings = v_settings || p_changes WHERE event_no = p_event RETURNING settings INTO v_settings;
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES (p_actor, 'limits', p_event, jsonb_build_object('from', p_expected, 'to', event_limits(v_settings)));
  RETURN jsonb_build_object('kind', 'changed', 'limits', event_limits(v_settings));
END $$;

-- Cooldowns: who lets holds end unpaid again and again asks for the next one a while later.

-- Holds granted in events with a cooldown, as the web processes note them, until it is known how they ended. Unlogged: losing
-- it forgives, it never accuses.
CREATE UNLOGGED TABLE hold_ends (
  event_no   integer NOT NULL,
  hold_id    uuid NOT NULL,
  visitor    text NOT NULL,
  account    text,                           -- the holder, where it is not the visitor
  granted_at timestamptz NOT NULL,
  ends_at    timestamptz NOT NULL,           -- when to look how it ended
  PRIMARY KEY (hold_id, event_no)
);
CREATE INDEX hold_ends_due ON hold_ends (ends_at);

CREATE TABLE cooldowns (
  event_no   integer NOT NULL REFERENCES events,
  kind       text NOT NULL CHECK (kind IN ('visitor','account')),
  subject    text NOT NULL,
  unpaid     integer NOT NULL,               -- holds that ended unpaid, one after the other
  last_at    timestamptz NOT NULL,
  until      timestamptz,                    -- no new hold before; null: not in a cooldown yet
  changed_at timestamptz NOT NULL,
  PRIMARY KEY (event_no, kind, subject)
);
CREATE INDEX cooldowns_changed ON cooldowns (changed_at);
CREATE INDEX cooldowns_last ON cooldowns (last_at);

-- Notes grants, then what ended them early: 'released' by their holder, 'replaced', which goes on with the old lease and so
-- counts once, or 'paid', which is judged before any hold that ends later. A hold that is given back within a minute is a changed
-- mind and counts for nothing.
CREATE FUNCTION hold_ends_note(
  p_events integer[], p_holds uuid[], p_visitors text[], p_accounts text[], p_granted timestamptz[], p_ends timestamptz[],
  p_over_events integer[], p_over_holds uuid[], p_over_how text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO hold_ends (event_no, hold_id, visitor, account, granted_at, ends_at)
  SELECT * FROM unnest(p_events, p_holds, p_visitors, p_accounts, p_granted, p_ends) n (event, hold, visitor, account, granted, ends)
  ORDER BY n.hold
  ON CONFLICT DO NOTHING;
  DELETE FROM hold_ends h USING unnest(p_over_events, p_over_holds, p_over_how) n (event, hold, how)
  WHERE h.event_no = n.event AND h.hold_id = n.hold
    AND (n.how = 'replaced' OR (n.how = 'released' AND h.granted_at > clock_timestamp() - interval '1 minute'));
  UPDATE hold_ends h SET ends_at = clock_timestamp()
  FROM unnest(p_over_events, p_over_holds) n (event, hold)
  WHERE h.event_no = n.event AND h.hold_id = n.hold AND h.ends_at > clock_timestamp();
END $$;

-- One lock for all that writes cooldowns: their rows are taken in no order.
CREATE FUNCTION cooldown_lock() RETURNS void LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(20261, 14) $$;

-- Whoever pays, or is excepted, begins anew. Rows stay: web processes learn of this as of any change.
CREATE FUNCTION cooldown_forgive(p_event integer, p_account text, p_visitor text) RETURNS void LANGUAGE sql AS $$
  UPDATE cooldowns SET until = NULL, unpaid = 0, changed_at = clock_timestamp()
  WHERE event_no = p_event AND ((kind = 'account' AND subject = p_account) OR (kind = 'visitor' AND subject = p_visitor))
$$;

-- Takes up to p_limit holds whose time is over and counts those that ended unpaid by their holder's doing. Answers how many
-- were looked at; none when another process is at it.
CREATE FUNCTION cooldown_judge(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  e record;
  v_count integer := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(20261, 14) THEN RETURN 0; END IF;
  FOR e IN
    SELECT h.*, o.state, o.reason, o.payment_deadline, v.settings -> 'cooldown' AS rule
    FROM (SELECT * FROM hold_ends WHERE ends_at <= clock_timestamp() ORDER BY ends_at LIMIT p_limit FOR UPDATE SKIP LOCKED) h
      LEFT JOIN orders o ON o.hold_id = h.hold_id
      LEFT JOIN events v ON v.event_no = h.event_no
    ORDER BY h.ends_at
  LOOP
    v_count := v_count + 1;
    IF e.state IN ('reserved','authorised','voiding') THEN
      -- Its order decides; order_free brings it back here at once.
      UPDATE hold_ends SET ends_at = greatest(e.payment_deadline, clock_timestamp()) + interval '30 seconds'
      WHERE event_no = e.event_no AND hold_id = e.hold_id;
      CONTINUE;
    END IF;
    DELETE FROM hold_ends WHERE event_no = e.event_no AND hold_id = e.hold_id;
    IF e.state IN ('confirmed','paid') THEN
      PERFORM cooldown_forgive(e.event_no, e.account, e.visitor);
    ELSIF jsonb_typeof(e.rule) = 'object'
      AND (e.state IS NULL OR (e.state = 'closed' AND e.reason IN ('closed_by_buyer','not_paid_in_time')))
      AND NOT limit_is_lifted(e.event_no, e.account, e.visitor)
    THEN
      -- By one name: an exception for it is one for the whole wait.
      IF e.account IS NULL THEN PERFORM cooldown_count(e.event_no, 'visitor', e.visitor, e.rule);
      ELSE PERFORM cooldown_count(e.event_no, 'account', e.account, e.rule); END IF;
    END IF;
  END LOOP;
  DELETE FROM cooldowns WHERE last_at < clock_timestamp() - interval '1 day' AND (until IS NULL OR until < clock_timestamp());
  RETURN v_count;
END $$;

-- From the afterUnpaid-th in a row on, each brings a cooldown twice as long as the one before; a quiet time forgets them all.
CREATE FUNCTION cooldown_count(p_event integer, p_kind text, p_subject text, p_rule jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_unpaid integer;
  v_after integer := (p_rule ->> 'afterUnpaid')::integer;
BEGIN
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, last_at, changed_at)
  VALUES (p_event, p_kind, p_subject, 1, v_now, v_now)
  ON CONFLICT (event_no, kind, subject) DO UPDATE
    SET unpaid = CASE WHEN c.last_at < v_now - (p_rule ->> 'forgetMs')::float8 * interval '1 millisecond' THEN 1
                      ELSE c.unpaid + 1 END,
        last_at = v_now, changed_at = v_now
  RETURNING unpaid INTO v_unpaid;
  IF v_unpaid >= v_after THEN
    UPDATE cooldowns
    SET until = v_now + least((p_rule ->> 'maxMs')::float8, (p_rule ->> 'firstMs')::float8 * 2 ^ least(v_unpaid - v_after, 20))
                        * interval '1 millisecond'
    WHERE event_no = p_event AND kind = p_kind AND subject = p_subject;
  END IF;
END $$;

-- An exception for one buyer: named by account, by visitor, or by an order of his, which names both. Ends his cooldowns.
CREATE FUNCTION limits_allow(
  p_event integer, p_actor text, p_account text, p_visitor text, p_order uuid, p_reason text, p_until timestamptz)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  a limit_allowances;
  v_account text := p_account;
  v_visitor text := p_visitor;
BEGIN
  IF p_order IS NOT NULL THEN
    -- An order that was given up before it was reserved names no account.
    SELECT nullif(account, ''), visitor INTO v_account, v_visitor FROM orders WHERE order_id = p_order AND event_no = p_event;
    IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  END IF;
  PERFORM cooldown_lock();
  INSERT INTO limit_allowances (event_no, account, visitor, order_id, reason, actor, until)
  VALUES (p_event, v_account, v_visitor, p_order, p_reason, p_actor, p_until) RETURNING * INTO a;
  PERFORM cooldown_forgive(p_event, v_account, v_visitor);
  -- The audit log holds no personal data of buyers: the allowance's own row tells whom it is for.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'limits_allow', p_event,
    jsonb_build_object('allowance', a.allowance_id, 'by', CASE WHEN p_order IS NOT NULL THEN 'order'
      WHEN p_account IS NOT NULL THEN 'account' ELSE 'visitor' END, 'order', p_order, 'reason', p_reason, 'until', p_until));
  RETURN jsonb_build_object('kind', 'allowed', 'allowance', allowance_json(a));
END $$;

CREATE FUNCTION allowance_json(a limit_allowances) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('allowance', a.allowance_id, 'account', a.account, 'visitor', a.visitor, 'order', a.order_id,
    'reason', a.reason, 'actor', a.actor, 'createdAt', epoch_ms(a.created_at), 'until', epoch_ms(a.until),
    'endedAt', epoch_ms(a.ended_at), 'endedBy', a.ended_by,
    'inForce', a.ended_at IS NULL AND (a.until IS NULL OR a.until > clock_timestamp()))
$$;

-- Ends an exception; what was bought under it stays bought. Repeatable.
CREATE FUNCTION limits_disallow(p_event integer, p_allowance uuid, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  a limit_allowances;
BEGIN
  UPDATE limit_allowances SET ended_at = clock_timestamp(), ended_by = p_actor
  WHERE event_no = p_event AND allowance_id = p_allowance AND ended_at IS NULL RETURNING * INTO a;
  IF FOUND THEN
    INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'limits_disallow', p_event, jsonb_build_object('allowance', p_allowance));
    RETURN jsonb_build_object('kind', 'ended', 'allowance', allowance_json(a));
  END IF;
  SELECT * INTO a FROM limit_allowances WHERE event_no = p_event AND allowance_id = p_allowance;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  RETURN jsonb_build_object('kind', 'ended', 'allowance', allowance_json(a));
END $$;

-- The steps of 0004 and 0005 that limits and cooldowns hang on.

-- The order lets go of tickets, seats and its hold's quota entry; how its hold ended is known.
CREATE OR REPLACE FUNCTION order_free(o orders) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tickets SET status = 'cancelled', changed_at = clock_timestamp()
  WHERE event_no = o.event_no AND order_id = o.order_id AND status IN ('reserved','sold');
  UPDATE holds SET state = 'ended' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state IN ('live','ordered');
  UPDATE hold_ends SET ends_at = clock_timestamp() WHERE hold_id = o.hold_id AND event_no = o.event_no;
  PERFORM order_seats_are(o, 'available');
  RETURN order_decide_seats(o, 'available');
END $$;

-- Reserve: a live hold becomes an order. P1 (unique hold, one open order per visitor and event), S5, S6, P7.
CREATE OR REPLACE FUNCTION order_reserve(
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
  IF v_max IS NOT NULL THEN
    PERFORM order_lock_limits(p_event, p_account, NULL);
    SELECT coalesce(sum(cardinality(seats)), 0)
           + coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = 'account' AND subject = p_account), 0)
    INTO v_used FROM orders WHERE event_no = p_event AND account = p_account AND state IN ('reserved','authorised');
  END IF;

  IF v_mode.mode = 'postgres' THEN
    SELECT * INTO v_hold FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
    -- A repeat that waited here for the first request's end finds its order now.
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
  -- Only now, so that a repeat of an order that filled the limit is answered with that order.
  IF v_max IS NOT NULL AND v_used + cardinality(v_seats) > v_max AND NOT limit_is_lifted(p_event, p_account, p_visitor) THEN
    RETURN jsonb_build_object('kind', 'limit', 'limit', 'account', 'max', v_max, 'used', v_used);
  END IF;

  INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, order_fee,
                      amount, currency, state, payment_deadline, created_at)
  SELECT p_order, p_event, p_partition, p_hold, p_visitor, p_holder, p_account, p_buyer, v_seats, p_lines, p_order_fee,
         v_amount, p_currency, 'reserved', at + interval '10 minutes', at
  FROM date_trunc('milliseconds', clock_timestamp()) at
  ON CONFLICT DO NOTHING RETURNING * INTO v_order;
  IF v_order.order_id IS NULL THEN
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
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

-- Confirm: the order's seats are sold to it, all or nothing, only from 'authorised', limits counted (P7), and only this
-- writes the capture (P2). Impossible → seats freed and the authorisation's row goes to 'ending' (P3), in the same call.
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

-- Comparing the provider's payments with the record, in both directions.

-- One comparison over a window of time; resumable by its cursor. Steps: the provider's payments beside ours, ours beside theirs,
-- then what was found before and not looked at on the way.
CREATE TABLE reconcile_runs (
  run_id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  scheduled     boolean NOT NULL,
  from_at       timestamptz NOT NULL,
  to_at         timestamptz NOT NULL,
  step          text NOT NULL DEFAULT 'theirs' CHECK (step IN ('theirs','ours','again','done')),
  cursor        text,
  counts        jsonb NOT NULL DEFAULT '{}',
  owner         text,
  claimed_until timestamptz,
  started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at   timestamptz
);
CREATE INDEX reconcile_runs_started ON reconcile_runs (started_at);
-- Objects that the run saw at the provider. Unlogged: what is lost is looked up one by one.
CREATE UNLOGGED TABLE reconcile_seen (
  run_id uuid NOT NULL,
  object text NOT NULL,
  PRIMARY KEY (run_id, object)
);

-- The operator's list of what does not fit. Nothing here changes an order or a payment.
CREATE TABLE reconcile_findings (
  finding_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind          text NOT NULL,               -- see FindingKind in src/orders/reconcile-findings.ts
  subject       text NOT NULL,               -- the provider's object, or the order where there is none
  order_id      uuid,
  object        text,
  says          text NOT NULL,
  detail        jsonb NOT NULL DEFAULT '{}',
  first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at    timestamptz,
  settled_by    text,                        -- an operator, or 'reconcile': it fits by now
  note          text
);
CREATE UNIQUE INDEX reconcile_findings_open ON reconcile_findings (kind, subject) WHERE settled_at IS NULL;
CREATE INDEX reconcile_findings_subject ON reconcile_findings (subject);
CREATE INDEX reconcile_findings_settled ON reconcile_findings (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX money_operations_opened ON money_operations (created_at, operation_id) WHERE kind = 'open';

CREATE FUNCTION reconcile_run_json(r reconcile_runs) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('run', r.run_id, 'scheduled', r.scheduled, 'from', epoch_ms(r.from_at), 'to', epoch_ms(r.to_at),
    'step', r.step, 'cursor', r.cursor, 'counts', r.counts, 'startedAt', epoch_ms(r.started_at),
    'finishedAt', epoch_ms(r.finished_at))
$$;

-- The scheduled run to work on: one that its owner left, else a new one when the last began p_every_ms ago; null: none is due.
-- Payments younger than p_young_ms are still on their way and left to the next run.
CREATE FUNCTION reconcile_run_due(p_owner text, p_every_ms integer, p_back_ms integer, p_young_ms integer, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r reconcile_runs;
  v_now timestamptz := clock_timestamp();
BEGIN
  IF NOT pg_try_advisory_xact_lock(20261, 15) THEN RETURN NULL; END IF;
  SELECT * INTO r FROM reconcile_runs WHERE scheduled ORDER BY started_at DESC LIMIT 1 FOR UPDATE;
  -- One that comes to no end is given up: perhaps its cursor is not known to the provider any more.
  IF r.step <> 'done' AND r.started_at > v_now - 4 * p_every_ms * interval '1 millisecond' THEN
    IF r.claimed_until > v_now AND r.owner <> p_owner THEN RETURN NULL; END IF;
    UPDATE reconcile_runs SET owner = p_owner, claimed_until = v_now + p_lease_ms * interval '1 millisecond'
    WHERE run_id = r.run_id RETURNING * INTO r;
    RETURN reconcile_run_json(r);
  END IF;
  IF r.started_at > v_now - p_every_ms * interval '1 millisecond' THEN RETURN NULL; END IF;
  DELETE FROM reconcile_runs WHERE started_at < v_now - interval '30 days';
  DELETE FROM reconcile_findings WHERE settled_at < v_now - interval '1 year';
  INSERT INTO reconcile_runs (scheduled, from_at, to_at, owner, claimed_until)
  VALUES (true, v_now - p_back_ms * interval '1 millisecond', v_now - p_young_ms * interval '1 millisecond', p_owner,
          v_now + p_lease_ms * interval '1 millisecond')
  RETURNING * INTO r;
  RETURN reconcile_run_json(r);
END $$;

-- What one page of a run came to, with the place to go on from; null: the run is another's by now. p_found: findings as
-- [{kind, subject, order, object, says, detail}], seen now; p_fitting: subjects that were looked at and fit.
CREATE FUNCTION reconcile_run_advance(
  p_run uuid, p_owner text, p_step text, p_cursor text, p_seen text[], p_counts jsonb, p_found jsonb, p_fitting text[],
  p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r reconcile_runs;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO r FROM reconcile_runs WHERE run_id = p_run AND owner = p_owner AND step <> 'done' FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO reconcile_seen (run_id, object) SELECT p_run, o FROM unnest(p_seen) o ON CONFLICT DO NOTHING;
  INSERT INTO reconcile_findings AS f (kind, subject, order_id, object, says, detail)
  SELECT DISTINCT ON (kind, subject) kind, subject, "order", object, says, coalesce(detail, '{}')
  FROM jsonb_to_recordset(p_found) x (kind text, subject text, "order" uuid, object text, says text, detail jsonb)
  -- What an operator took off the list stays off it while nothing else is said of it.
  WHERE NOT EXISTS (SELECT 1 FROM reconcile_findings s
                    WHERE s.subject = x.subject AND s.kind = x.kind AND s.says = x.says AND s.settled_by <> 'reconcile')
  ORDER BY kind, subject
  ON CONFLICT (kind, subject) WHERE settled_at IS NULL DO UPDATE
    SET last_seen_at = v_now, says = excluded.says, detail = excluded.detail, order_id = excluded.order_id;
  -- One subject has one fault at a time: another one, or none, ends what was said of it before.
  UPDATE reconcile_findings f SET settled_at = v_now, settled_by = 'reconcile'
  WHERE f.settled_at IS NULL AND (f.subject = ANY (p_fitting)
    OR EXISTS (SELECT 1 FROM jsonb_to_recordset(p_found) x (kind text, subject text)
               WHERE x.subject = f.subject AND x.kind <> f.kind));
  UPDATE reconcile_runs
  SET step = p_step, cursor = p_cursor, claimed_until = v_now + p_lease_ms * interval '1 millisecond',
      finished_at = CASE WHEN p_step = 'done' THEN v_now END,
      counts = counts || (SELECT coalesce(jsonb_object_agg(key, coalesce((counts ->> key)::bigint, 0) + value::bigint), '{}')
                          FROM jsonb_each_text(p_counts))
  WHERE run_id = p_run RETURNING * INTO r;
  IF p_step = 'done' THEN DELETE FROM reconcile_seen WHERE run_id = p_run; END IF;
  RETURN reconcile_run_json(r);
END $$;

-- Takes a finding off the list by hand, with who and why. It comes back when something else is found about the same subject.
CREATE FUNCTION reconcile_settle(p_finding bigint, p_actor text, p_note text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  f reconcile_findings;
BEGIN
  UPDATE reconcile_findings SET settled_at = clock_timestamp(), settled_by = p_actor, note = p_note
  WHERE finding_id = p_finding AND settled_at IS NULL RETURNING * INTO f;
  IF NOT FOUND THEN RETURN EXISTS (SELECT 1 FROM reconcile_findings WHERE finding_id = p_finding); END IF;
  INSERT INTO audit_log (actor, action, detail) VALUES (p_actor, 'reconcile_settle',
    jsonb_build_object('finding', f.finding_id, 'kind', f.kind, 'subject', f.subject, 'note', p_note));
  RETURN true;
END $$;
