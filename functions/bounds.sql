-- Bounds for buyers whose holds end unpaid again and again: cooldowns for browsers and accounts, fewer seats for address ranges
-- (docs/decisions/0034). An address is a keyed hash of an IPv4 address or an IPv6 /64 in one event. The tables of cooldowns are locked
-- after everything else, under one lock of their own.

-- One lock for everything that writes cooldowns, because their rows are taken in no fixed order.
CREATE OR REPLACE FUNCTION cooldown_lock() RETURNS void LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(20261, 14) $$;

-- From the afterUnpaid-th unpaid hold in a row, each one brings a cooldown twice as long as the one before. A quiet time resets it.
CREATE OR REPLACE FUNCTION cooldown_count(p_event integer, p_kind text, p_subject text, p_rule jsonb) RETURNS void LANGUAGE plpgsql AS $$
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

-- Resets buyers who pay or get an exception. Rows stay, so that web processes see the change.
CREATE OR REPLACE FUNCTION cooldown_forgive(p_event integer, p_account text, p_visitor text) RETURNS void LANGUAGE sql AS $$
  UPDATE cooldowns SET until = NULL, unpaid = 0, changed_at = clock_timestamp()
  WHERE event_no = p_event AND ((kind = 'account' AND subject = p_account) OR (kind = 'visitor' AND subject = p_visitor))
$$;

-- Counts an unpaid hold of an address range. An address never gets a cooldown, since a stranger could lock everyone behind it out.
-- The count reduces its seats at once instead (addressSeatsNow in src/orders/limits.ts). `until` is how long the count is valid.
CREATE OR REPLACE FUNCTION address_unpaid(p_event integer, p_address text, p_rule jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, last_at, until, changed_at)
  SELECT p_event, 'address', p_address, 1, at, at + (p_rule ->> 'forgetMs')::float8 * interval '1 millisecond', at
  FROM clock_timestamp() at
  ON CONFLICT (event_no, kind, subject) DO UPDATE
    SET unpaid = CASE WHEN c.until > excluded.last_at THEN c.unpaid + 1 ELSE 1 END,
        last_at = excluded.last_at, until = excluded.until, changed_at = excluded.changed_at
$$;

-- A purchase halves the count: neighbours who buy give an address its seats back, and one cheap ticket does not clear it.
CREATE OR REPLACE FUNCTION address_paid(p_event integer, p_address text) RETURNS void LANGUAGE sql AS $$
  UPDATE cooldowns SET unpaid = unpaid / 2, until = CASE WHEN unpaid > 1 THEN until END, changed_at = clock_timestamp()
  WHERE event_no = p_event AND kind = 'address' AND subject = p_address
$$;

-- Returns whether an ended hold counts as unpaid. Giving a hold back within a minute is a change of mind, but every third one counts.
-- Otherwise seats could go from cookie to cookie each minute without a holder.
CREATE OR REPLACE FUNCTION hold_end_counts(p_event integer, p_kind text, p_subject text, p_quick boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_quick integer;
BEGIN
  IF NOT p_quick THEN RETURN true; END IF;
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, quick, last_at, changed_at)
  VALUES (p_event, p_kind, p_subject, 0, 1, clock_timestamp(), clock_timestamp())
  ON CONFLICT (event_no, kind, subject) DO UPDATE SET quick = (c.quick + 1) % 3 RETURNING quick INTO v_quick;
  RETURN v_quick = 0;
END $$;

-- Records grants, then what ended them early: 'released' by their holder, 'replaced' (goes on with the old lease, so it counts once)
-- or 'paid' (judged before any hold that ends later).
CREATE OR REPLACE FUNCTION hold_ends_note(
  p_events integer[], p_holds uuid[], p_visitors text[], p_accounts text[], p_granted timestamptz[], p_ends timestamptz[],
  p_over_events integer[], p_over_holds uuid[], p_over_how text[], p_addresses text[] DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO hold_ends (event_no, hold_id, visitor, account, granted_at, ends_at, address)
  SELECT * FROM unnest(p_events, p_holds, p_visitors, p_accounts, p_granted, p_ends, p_addresses)
    n (event, hold, visitor, account, granted, ends, address)
  ORDER BY n.hold
  ON CONFLICT DO NOTHING;
  DELETE FROM hold_ends h USING unnest(p_over_events, p_over_holds, p_over_how) n (event, hold, how)
  WHERE h.event_no = n.event AND h.hold_id = n.hold
    AND n.how = 'replaced';
  UPDATE hold_ends h SET ends_at = clock_timestamp(),
    quick = n.how = 'released' AND h.granted_at > clock_timestamp() - interval '1 minute'
  FROM unnest(p_over_events, p_over_holds, p_over_how) n (event, hold, how)
  WHERE h.event_no = n.event AND h.hold_id = n.hold AND h.ends_at > clock_timestamp();
END $$;

-- Takes up to p_limit holds whose time is over and counts those that ended unpaid because of their holder. Returns how many were
-- judged, 0 if another process is judging.
CREATE OR REPLACE FUNCTION cooldown_judge(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  e record; v_count integer := 0; v_kind text;
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
      -- The order decides. order_free makes this hold due again at once.
      UPDATE hold_ends SET ends_at = greatest(e.payment_deadline, clock_timestamp()) + interval '30 seconds'
      WHERE event_no = e.event_no AND hold_id = e.hold_id;
      CONTINUE;
    END IF;
    DELETE FROM hold_ends WHERE event_no = e.event_no AND hold_id = e.hold_id;
    IF e.state IN ('confirmed','paid') THEN
      PERFORM cooldown_forgive(e.event_no, e.account, e.visitor);
      PERFORM address_paid(e.event_no, e.address);
    ELSIF jsonb_typeof(e.rule) = 'object'
      AND (e.state IS NULL OR (e.state = 'closed' AND e.reason IN ('closed_by_buyer','not_paid_in_time')))
      AND NOT limit_is_lifted(e.event_no, e.account, e.visitor)
    THEN
      -- Counts under one name, so that one exception lifts the whole wait.
      v_kind := CASE WHEN e.account IS NULL THEN 'visitor' ELSE 'account' END;
      IF hold_end_counts(e.event_no, v_kind, coalesce(e.account, e.visitor), e.quick) THEN
        PERFORM cooldown_count(e.event_no, v_kind, coalesce(e.account, e.visitor), e.rule);
      END IF;
      IF e.address IS NOT NULL AND hold_end_counts(e.event_no, 'address', e.address, e.quick) THEN
        PERFORM address_unpaid(e.event_no, e.address, e.rule);
      END IF;
    END IF;
  END LOOP;
  DELETE FROM cooldowns WHERE last_at < clock_timestamp() - interval '1 day' AND (until IS NULL OR until < clock_timestamp());
  RETURN v_count;
END $$;

-- Returns until when the order can be paid: ten minutes. Buyers whose last holds ended unpaid get no second term, only the rest of the
-- hold (extend has left five minutes, within fifteen of the grant) and at least five minutes. Otherwise an invented address would
-- double the life of a hold each time. Applies to visitors and accounts from the first unpaid hold, to address ranges from the sixth.
CREATE OR REPLACE FUNCTION order_pay_until(p_event integer, p_hold uuid, p_visitor text, p_holder text, p_deadline timestamptz,
  p_at timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  v_rule jsonb := (SELECT settings -> 'cooldown' FROM events WHERE event_no = p_event); v_since timestamptz;
BEGIN
  IF jsonb_typeof(v_rule) IS DISTINCT FROM 'object' THEN RETURN p_at + interval '10 minutes'; END IF;
  v_since := p_at - (v_rule ->> 'forgetMs')::float8 * interval '1 millisecond';
  IF NOT EXISTS (
    SELECT 1 FROM (VALUES ('visitor', p_visitor, 1), ('account', p_holder, 1),
                          ('address', (SELECT address FROM hold_ends WHERE hold_id = p_hold AND event_no = p_event), 6)
                  ) k (kind, subject, least)
      JOIN cooldowns c ON c.event_no = p_event AND c.kind = k.kind AND c.subject = k.subject
    WHERE c.unpaid >= k.least AND c.last_at > v_since)
  THEN RETURN p_at + interval '10 minutes'; END IF;
  RETURN least(p_at + interval '10 minutes', greatest(p_deadline, p_at + interval '5 minutes'));
END $$;
