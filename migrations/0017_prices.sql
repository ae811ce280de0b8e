-- Access codes: what only their holders may buy, and before the others. A use is an order; it counts from the reserve that
-- names the code until the order ends unpaid. Lock order: as everywhere, then the code's row, last of all.

CREATE TABLE access_codes (
  code_id    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  event_no   integer NOT NULL REFERENCES events,
  code       text NOT NULL,                  -- in its one form: canonicalCode in src/core/prices.ts
  batch      uuid NOT NULL,                  -- those that were made in one act
  label      text NOT NULL,                  -- the batch's name for people
  categories text[] NOT NULL,                -- locked categories that it opens
  kinds      text[] NOT NULL,                -- locked kinds of buyers that it opens
  presale    boolean NOT NULL,               -- opens the time before the sale is open to everybody
  uses_max   integer CHECK (uses_max > 0),   -- orders; null: any number
  seats_max  integer CHECK (seats_max > 0),  -- seats of one order; null: as many as anybody may hold
  used       integer NOT NULL DEFAULT 0,     -- counted only where uses_max is set: no common code has a hot row
  until      timestamptz,                    -- not accepted from then on; null: as long as the sale
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (event_no, code),
  -- Never oversold, whatever every layer above does.
  CHECK (used >= 0 AND (uses_max IS NULL OR used <= uses_max)),
  CHECK (presale OR categories <> '{}' OR kinds <> '{}')
);
CREATE INDEX access_codes_batch ON access_codes (event_no, batch);

ALTER TABLE orders ADD COLUMN access_code uuid;  -- the code that it uses; a foreign key would lock a common code's row
CREATE INDEX orders_access_code ON orders (access_code) WHERE access_code IS NOT NULL;

-- Whether the order uses its code up: from its reserve on, and for good once it was paid, refunded or not.
CREATE FUNCTION order_uses_code(o orders) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT o.access_code IS NOT NULL AND (o.state IN ('reserved','authorised','confirmed','paid')
    OR (o.state = 'cancelled' AND o.reason IS DISTINCT FROM 'capture_refused'))
$$;

-- Follows every transition of an order, whichever step makes it: the uses are right by construction. A use that cannot be had
-- fails as a unique violation: the reserve is refused, and an order whose money came late stays closed (money_authorised).
CREATE FUNCTION order_code_follows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_change integer := order_uses_code(NEW)::integer - (order_uses_code(OLD))::integer;
BEGIN
  IF v_change = 0 THEN RETURN NULL; END IF;
  UPDATE access_codes SET used = used + v_change
  WHERE code_id = NEW.access_code AND uses_max IS NOT NULL AND used + v_change BETWEEN 0 AND uses_max;
  IF NOT FOUND AND v_change > 0
     AND NOT EXISTS (SELECT 1 FROM access_codes WHERE code_id = NEW.access_code AND uses_max IS NULL) THEN
    RAISE unique_violation USING MESSAGE = 'used_up', CONSTRAINT = 'access_code_uses';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER orders_access_code AFTER UPDATE OF state, access_code ON orders
  FOR EACH ROW WHEN (NEW.access_code IS NOT NULL) EXECUTE FUNCTION order_code_follows();

-- Reserve with a code: the same step as order_reserve, and the code's use with it, or nothing at all. Refused with
-- {kind: 'code', why}: 'unknown', 'ended' (revoked, or its time is over), 'seats' (more than one order may have; seatsMax says
-- how many), 'used_up'.
CREATE FUNCTION order_reserve_with_code(
  p_code uuid, p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamptz,
  p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_result jsonb;
  v_code access_codes;
  v_why text;
  v_constraint text;
BEGIN
  BEGIN
    v_result := order_reserve(p_order, p_hold, p_event, p_partition, p_epoch, p_deadline, p_visitor, p_holder, p_account,
                              p_buyer, p_lines, p_order_fee, p_currency);
    IF v_result ->> 'kind' <> 'reserved' OR (v_result ->> 'repeated')::boolean THEN RETURN v_result; END IF;
    SELECT * INTO v_code FROM access_codes WHERE code_id = p_code AND event_no = p_event;
    v_why := CASE WHEN NOT FOUND THEN 'unknown'
      WHEN v_code.revoked_at IS NOT NULL OR v_code.until <= clock_timestamp() THEN 'ended'
      WHEN v_code.seats_max < jsonb_array_length(p_lines) THEN 'seats' END;
    IF v_why IS NOT NULL THEN
      RAISE unique_violation USING MESSAGE = v_why, CONSTRAINT = 'access_code_uses';
    END IF;
    UPDATE orders SET access_code = p_code WHERE order_id = p_order;
    RETURN v_result;
  EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME, v_why = MESSAGE_TEXT;
    IF v_constraint IS DISTINCT FROM 'access_code_uses' THEN RAISE; END IF;
    RETURN jsonb_build_object('kind', 'code', 'why', v_why, 'seatsMax', v_code.seats_max);
  END;
END $$;

-- Makes a batch, all or none. p_uses: one element a code, null for any number. Answers {kind: 'created'}, or {kind: 'exists',
-- codes} with those that the event has already.
CREATE FUNCTION access_codes_create(
  p_event integer, p_actor text, p_batch uuid, p_label text, p_codes text[], p_uses integer[], p_categories text[],
  p_kinds text[], p_presale boolean, p_seats_max integer, p_until timestamptz)
RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO access_codes (event_no, code, batch, label, categories, kinds, presale, uses_max, seats_max, until)
  SELECT p_event, c.code, p_batch, p_label, p_categories, p_kinds, p_presale, c.uses, p_seats_max, p_until
  FROM unnest(p_codes, p_uses) c (code, uses) ORDER BY c.code;
  -- The log names the batch, not the codes: whoever reads it should not be able to buy with them.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'codes_create', p_event, jsonb_build_object(
    'batch', p_batch, 'label', p_label, 'codes', cardinality(p_codes), 'categories', p_categories, 'kinds', p_kinds,
    'presale', p_presale, 'seatsMax', p_seats_max, 'until', p_until));
  RETURN '{"kind":"created"}';
EXCEPTION WHEN unique_violation THEN
  RETURN jsonb_build_object('kind', 'exists', 'codes', (SELECT jsonb_agg(code ORDER BY code) FROM access_codes
    WHERE event_no = p_event AND code = ANY (p_codes)));
END $$;

-- Nobody can begin an order with these any more; orders that were made with them go on. By batch, by code, or both. Answers
-- how many were revoked just now, null when there is no such code. Repeatable.
CREATE FUNCTION access_codes_revoke(p_event integer, p_actor text, p_batch uuid, p_code text)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_count integer;
BEGIN
  -- By code, so that two who revoke at once never wait for each other crosswise.
  PERFORM 1 FROM access_codes WHERE event_no = p_event AND batch = coalesce(p_batch, batch) AND code = coalesce(p_code, code)
  ORDER BY code FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE access_codes SET revoked_at = clock_timestamp()
  WHERE event_no = p_event AND batch = coalesce(p_batch, batch) AND code = coalesce(p_code, code) AND revoked_at IS NULL;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count > 0 THEN
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'codes_revoke', p_event,
      jsonb_build_object('batch', p_batch, 'codes', v_count));
  END IF;
  RETURN v_count;
END $$;

-- `used` of a code with any number of uses is counted here, where somebody looks.
CREATE FUNCTION access_code_json(c access_codes) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('id', c.code_id, 'code', c.code, 'batch', c.batch, 'label', c.label, 'categories', c.categories,
    'kinds', c.kinds, 'presale', c.presale, 'usesMax', c.uses_max, 'seatsMax', c.seats_max,
    'used', CASE WHEN c.uses_max IS NOT NULL THEN c.used
                 ELSE (SELECT count(*) FROM orders o WHERE o.access_code = c.code_id AND order_uses_code(o)) END,
    'until', epoch_ms(c.until), 'revokedAt', epoch_ms(c.revoked_at), 'createdAt', epoch_ms(c.created_at))
$$;

-- The presale. Its start stands in the event's settings; it lasts until the sale opens to everybody. It is no phase: the event
-- is open, and whoever has no code that opens the presale is told when his time comes (docs/decisions/0030).
CREATE FUNCTION event_opens_at(e events) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT least(e.on_sale_at, to_timestamp((e.settings ->> 'presaleAt')::float8 / 1000))
$$;
CREATE FUNCTION event_in_presale(e events) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT coalesce((e.settings ->> 'presaleAt') IS NOT NULL AND e.on_sale_at > clock_timestamp(), false)
$$;

-- A phase change by the leader, of its term, on what it expects to replace. Whether it is due is decided here, behind the
-- event's lock, since the leader's view is seconds old: 'advanced', 'other_term', 'changed' (another phase), 'not_due'.
CREATE OR REPLACE FUNCTION phase_advance(p_event integer, p_term bigint, p_expected text, p_next text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_event events;
  v_due boolean;
BEGIN
  PERFORM event_lock_alone(p_event);
  IF NOT lease_holds(p_event, p_term) THEN RETURN 'other_term'; END IF;
  SELECT * INTO STRICT v_event FROM events e WHERE e.event_no = p_event FOR UPDATE;
  IF v_event.phase <> p_expected THEN RETURN 'changed'; END IF;
  v_due := CASE
    WHEN p_expected IN ('scheduled','pre_queue') AND p_next = 'open' THEN event_opens_at(v_event) <= clock_timestamp()
    WHEN p_expected = 'open' AND p_next = 'sold_out' THEN v_event.seat_count > 0 AND NOT EXISTS (
      SELECT FROM seats s WHERE s.event_no = p_event AND s.state IN ('available','reserved'))
    WHEN p_expected = 'sold_out' AND p_next = 'open' THEN EXISTS (
      SELECT FROM seats s WHERE s.event_no = p_event AND s.state = 'available')
    WHEN p_expected IN ('open','paused','sold_out') AND p_next = 'closed' THEN v_event.sale_ends_at <= clock_timestamp()
    ELSE false
  END;
  IF v_due IS NOT TRUE THEN RETURN 'not_due'; END IF;
  UPDATE events SET phase = p_next, version = version + 1 WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES ('leader', 'phase', p_event, jsonb_build_object('from', p_expected, 'to', p_next, 'term', p_term));
  RETURN 'advanced';
END $$;
