-- Limits of purchases (P7) and their exceptions. The limit rows of an order are locked before the order.

-- The event's limits by name, as limits_change compares them.
CREATE OR REPLACE FUNCTION event_limits(p_settings jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_object_agg(name, coalesce(p_settings -> name, 'null'))
  FROM unnest('{accountSeatsMax,instrumentSeatsMax,visitorSeatsMax,addressSeatsMax,joinsPerMinute,claimsPerMinute,cooldown}'::text[]) name
$$;

CREATE OR REPLACE FUNCTION allowance_json(a limit_allowances) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('allowance', a.allowance_id, 'account', a.account, 'visitor', a.visitor, 'order', a.order_id,
    'reason', a.reason, 'actor', a.actor, 'createdAt', epoch_ms(a.created_at), 'until', epoch_ms(a.until),
    'endedAt', epoch_ms(a.ended_at), 'endedBy', a.ended_by,
    'inForce', a.ended_at IS NULL AND (a.until IS NULL OR a.until > clock_timestamp()))
$$;

-- Changes the event's limits if they are still those that the operator saw. Locks the event alone, so that no order is confirmed under
-- the old limits after this commits.
--   p_expected  all limits, null where there is none
--   p_changes   the limits to change
CREATE OR REPLACE FUNCTION limits_change(p_event integer, p_actor text, p_expected jsonb, p_changes jsonb)
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

-- Adds an exception for one buyer, named by account, by visitor, or by one of their orders, which has both. Ends their cooldowns.
CREATE OR REPLACE FUNCTION limits_allow(
  p_event integer, p_actor text, p_account text, p_visitor text, p_order uuid, p_reason text, p_until timestamptz)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  a limit_allowances;
  v_account text := p_account;
  v_visitor text := p_visitor;
BEGIN
  IF p_order IS NOT NULL THEN
    -- An order that was given up before reserve has no account.
    SELECT nullif(account, ''), visitor INTO v_account, v_visitor FROM orders WHERE order_id = p_order AND event_no = p_event;
    IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  END IF;
  PERFORM cooldown_lock();
  INSERT INTO limit_allowances (event_no, account, visitor, order_id, reason, actor, until)
  VALUES (p_event, v_account, v_visitor, p_order, p_reason, p_actor, p_until) RETURNING * INTO a;
  PERFORM cooldown_forgive(p_event, v_account, v_visitor);
  -- The log of actions holds no personal data of buyers. The exception's own row names the buyer.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'limits_allow', p_event,
    jsonb_build_object('allowance', a.allowance_id, 'by', CASE WHEN p_order IS NOT NULL THEN 'order'
      WHEN p_account IS NOT NULL THEN 'account' ELSE 'visitor' END, 'order', p_order, 'reason', p_reason, 'until', p_until));
  RETURN jsonb_build_object('kind', 'allowed', 'allowance', allowance_json(a));
END $$;

-- Ends an exception. What was bought under it stays bought. Repeatable.
CREATE OR REPLACE FUNCTION limits_disallow(p_event integer, p_allowance uuid, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION limit_is_lifted(p_event integer, p_account text, p_visitor text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM limit_allowances
                 WHERE event_no = p_event AND account = p_account AND ended_at IS NULL
                   AND (until IS NULL OR until > clock_timestamp()))
      OR EXISTS (SELECT 1 FROM limit_allowances
                 WHERE event_no = p_event AND visitor = p_visitor AND ended_at IS NULL
                   AND (until IS NULL OR until > clock_timestamp()))
$$;

CREATE OR REPLACE FUNCTION order_event_limit(p_event integer, p_name text) RETURNS integer LANGUAGE sql STABLE AS
  $$ SELECT (settings ->> p_name)::integer FROM events WHERE event_no = p_event $$;

-- Locks the order's limit rows in key order and creates missing ones. If a row's subject was forgotten while this waited, the row no
-- longer belongs to the subject and a new one is created.
CREATE OR REPLACE FUNCTION order_lock_limits(p_event integer, p_account text, p_fingerprint text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_wanted integer := (p_account IS NOT NULL)::integer + (p_fingerprint IS NOT NULL)::integer;
  v_locked integer := -1;
BEGIN
  WHILE v_locked < v_wanted LOOP
    INSERT INTO limit_counts (event_no, kind, subject, seats)
    SELECT p_event, kind, subject, 0
    FROM (VALUES ('account', p_account), ('instrument', p_fingerprint)) AS wanted (kind, subject)
    WHERE subject IS NOT NULL ORDER BY kind, subject
    ON CONFLICT DO NOTHING;
    PERFORM 1 FROM limit_counts
    WHERE event_no = p_event
      AND ((kind = 'account' AND subject = p_account) OR (kind = 'instrument' AND subject = p_fingerprint))
    ORDER BY kind, subject FOR UPDATE;
    GET DIAGNOSTICS v_locked = ROW_COUNT;
  END LOOP;
END $$;

-- Removes limit rows that name a buyer again: a step that read the order's names before they were forgotten, and got the locks only
-- afterwards, has created them. They count nothing. Called with the order locked.
CREATE OR REPLACE FUNCTION order_unname_limits(p_account text, p_fingerprint text, o orders) RETURNS void LANGUAGE sql AS $$
  DELETE FROM limit_counts
  WHERE event_no = o.event_no AND seats = 0 AND o.forgotten_at IS NOT NULL
    AND ((kind = 'account' AND subject = p_account AND subject <> o.account)
      OR (kind = 'instrument' AND subject = p_fingerprint AND subject IS DISTINCT FROM o.instrument ->> 'fingerprint'))
$$;

CREATE OR REPLACE FUNCTION order_count_limits(o orders, p_seats integer) RETURNS void LANGUAGE sql AS $$
  UPDATE limit_counts SET seats = seats + p_seats
  WHERE event_no = o.event_no
    AND ((kind = 'account' AND subject = o.account) OR (kind = 'instrument' AND subject = o.instrument ->> 'fingerprint'))
$$;

CREATE OR REPLACE FUNCTION order_over_limit(p_event integer, p_kind text, p_subject text, p_seats integer, p_setting text)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = p_kind AND subject = p_subject), 0)
         + p_seats > order_event_limit(p_event, p_setting) AND p_subject IS NOT NULL
$$;

-- Returns which limit the order would exceed, as the reason for its end, or null. The caller has locked its limit rows.
CREATE OR REPLACE FUNCTION order_limit_reached(o orders) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_reason text := CASE
    WHEN order_over_limit(o.event_no, 'account', o.account, cardinality(o.seats), 'accountSeatsMax') THEN 'limit'
    WHEN order_over_limit(o.event_no, 'instrument', o.instrument ->> 'fingerprint', cardinality(o.seats), 'instrumentSeatsMax')
      THEN 'card_limit' END;
BEGIN
  IF v_reason IS NOT NULL AND limit_is_lifted(o.event_no, o.account, o.visitor) THEN RETURN NULL; END IF;
  RETURN v_reason;
END $$;

-- Returns the refusal of an order that would exceed visitorSeatsMax or, for an account with several browsers, the event's quota over
-- all partitions. Returns null if neither. A visitor has one open order at a time, and an account's orders queue at its limit row,
-- so both bounds are exact. Refunded seats do not count.
CREATE OR REPLACE FUNCTION order_bounds_reached(p_event integer, p_hold uuid, p_visitor text, p_holder text, p_seats integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_max integer := order_event_limit(p_event, 'visitorSeatsMax'); v_used integer; v_open uuid;
BEGIN
  IF v_max IS NOT NULL THEN
    SELECT count(*), (array_agg(o.order_id) FILTER (WHERE o.is_open))[1] INTO v_used, v_open
    FROM (SELECT order_id, true AS is_open FROM orders
          WHERE event_no = p_event AND visitor = p_visitor AND state IN ('reserved','authorised') AND hold_id <> p_hold
          UNION ALL
          SELECT order_id, false FROM orders WHERE event_no = p_event AND visitor = p_visitor AND state IN ('confirmed','paid') AND hold_id <> p_hold) o,
      LATERAL (SELECT FROM tickets t WHERE t.event_no = p_event AND t.order_id = o.order_id AND t.status <> 'cancelled') t;
    IF v_used + p_seats > v_max AND NOT limit_is_lifted(p_event, p_holder, p_visitor) THEN
      -- The buyer can pay or close that order.
      IF v_open IS NOT NULL THEN RETURN jsonb_build_object('kind', 'open_order', 'order', v_open); END IF;
      RETURN jsonb_build_object('kind', 'limit', 'limit', 'visitor', 'max', v_max, 'used', v_used);
    END IF;
  END IF;
  IF p_holder <> p_visitor THEN
    v_max := coalesce(order_event_limit(p_event, 'holdSeatsMax'), 6);
    SELECT coalesce(sum(cardinality(seats)), 0) INTO v_used FROM orders
    WHERE event_no = p_event AND account = p_holder AND state IN ('reserved','authorised') AND hold_id <> p_hold;
    IF v_used + p_seats > v_max THEN
      RETURN jsonb_build_object('kind', 'limit', 'limit', 'holder', 'max', v_max, 'used', v_used);
    END IF;
  END IF;
  RETURN NULL;
END $$;
