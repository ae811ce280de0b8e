-- Access codes: categories and ticket types that need a code, and the presale. A use is an order; it counts from the reserve that
-- names the code until the order ends unpaid. Locks: the code's row is the last of all.

-- `used` is counted here for codes without a bound on uses.
CREATE OR REPLACE FUNCTION access_code_json(c access_codes) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('id', c.code_id, 'code', c.code, 'batch', c.batch, 'label', c.label, 'categories', c.categories,
    'kinds', c.kinds, 'presale', c.presale, 'usesMax', c.uses_max, 'seatsMax', c.seats_max,
    'used', CASE WHEN c.uses_max IS NOT NULL THEN c.used
                 ELSE (SELECT count(*) FROM orders o WHERE o.access_code = c.code_id AND order_uses_code(o)) END,
    'until', epoch_ms(c.until), 'revokedAt', epoch_ms(c.revoked_at), 'createdAt', epoch_ms(c.created_at))
$$;

-- Creates a batch, all or none. Returns {kind: 'created'}, or {kind: 'exists', codes} with codes that the event has already.
--   p_uses  one element per code, null for any number
CREATE OR REPLACE FUNCTION access_codes_create(
  p_event integer, p_actor text, p_batch uuid, p_label text, p_codes text[], p_uses integer[], p_categories text[],
  p_kinds text[], p_presale boolean, p_seats_max integer, p_until timestamptz)
RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO access_codes (event_no, code, batch, label, categories, kinds, presale, uses_max, seats_max, until)
  SELECT p_event, c.code, p_batch, p_label, p_categories, p_kinds, p_presale, c.uses, p_seats_max, p_until
  FROM unnest(p_codes, p_uses) c (code, uses) ORDER BY c.code;
  -- The log names the batch and not the codes, because readers of the log must not be able to buy with them.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'codes_create', p_event, jsonb_build_object(
    'batch', p_batch, 'label', p_label, 'codes', cardinality(p_codes), 'categories', p_categories, 'kinds', p_kinds,
    'presale', p_presale, 'seatsMax', p_seats_max, 'until', p_until));
  RETURN '{"kind":"created"}';
EXCEPTION WHEN unique_violation THEN
  RETURN jsonb_build_object('kind', 'exists', 'codes', (SELECT jsonb_agg(code ORDER BY code) FROM access_codes
    WHERE event_no = p_event AND code = ANY (p_codes)));
END $$;

-- Revokes codes by batch, by code, or both: they begin no new order, and orders that have them go on. Returns how many were revoked
-- by this call, null if there is no such code. Repeatable.
CREATE OR REPLACE FUNCTION access_codes_revoke(p_event integer, p_actor text, p_batch uuid, p_code text)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_count integer;
BEGIN
  -- Ordered by code, so that two revocations at once cannot deadlock.
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

-- Returns whether the order uses its code: from its reserve on, and for good once it was paid, refunded or not.
CREATE OR REPLACE FUNCTION order_uses_code(o orders) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT o.access_code IS NOT NULL AND (o.state IN ('reserved','authorised','confirmed','paid')
    OR (o.state = 'cancelled' AND o.reason IS DISTINCT FROM 'capture_refused'))
$$;

-- Counts uses with every transition of an order, in whichever step it happens. A use that is not available fails as a unique
-- violation: the reserve is refused, and an order whose money came late stays closed (money_authorised).
CREATE OR REPLACE FUNCTION order_code_follows() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE TRIGGER orders_access_code AFTER UPDATE OF state, access_code ON orders
  FOR EACH ROW WHEN (NEW.access_code IS NOT NULL) EXECUTE FUNCTION order_code_follows();

-- order_reserve and the code's use in one step, or nothing. Refused with {kind: 'code', why}: 'unknown', 'ended' (revoked, or its time
-- is over), 'seats' (more than one order may have, see seatsMax) or 'used_up'.
CREATE OR REPLACE FUNCTION order_reserve_with_code(
  p_code uuid, p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamptz,
  p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
