-- Webhooks to the organiser's receivers. A delivery is a row, written in the transaction of the step that it reports. Workers send
-- due deliveries (src/fulfilment/webhook-deliverer.ts) and record each attempt. Lock order: endpoint → its deliveries. Steps of orders
-- lock neither.

-- The part of an order that a receiver may know without asking: no name, no address.
CREATE OR REPLACE FUNCTION webhook_order(o orders) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('order', o.order_id, 'state', o.state, 'reason', o.reason, 'amount', o.amount,
    'orderFee', o.order_fee, 'currency', o.currency, 'seats', coalesce(jsonb_agg(jsonb_build_object(
      'seat', l.seat, 'guid', s.seat_guid, 'section', s.section_id, 'row', s.row_label, 'number', s.seat_label,
      'category', l.category, 'kind', l.kind, 'price', l.price, 'fee', l.fee, 'ticket', t.ticket_id,
      'valid', o.state = 'paid' AND t.status = 'sold') ORDER BY l.seat), '[]'))
  FROM jsonb_to_recordset(o.lines) AS l (seat integer, category text, kind text, price bigint, fee bigint)
    LEFT JOIN event_seats s ON s.event_no = o.event_no AND s.seat_no = l.seat
    LEFT JOIN LATERAL (SELECT ticket_id, status FROM tickets t
      WHERE t.event_no = o.event_no AND t.order_id = o.order_id AND t.seat_no = l.seat
      ORDER BY created_at DESC, (status = 'cancelled') LIMIT 1) t ON true
$$;

CREATE OR REPLACE FUNCTION webhook_refund(p_refund uuid) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('refund', r.refund_id, 'state', r.state, 'amount', r.amount, 'currency', r.currency,
    'reason', r.reason, 'eventCancelled', r.cancellation,
    'tickets', (SELECT coalesce(jsonb_agg(t.ticket_id ORDER BY t.ticket_id), '[]') FROM refund_tickets t WHERE t.refund_id = r.refund_id))
  FROM refunds r WHERE r.refund_id = p_refund
$$;

CREATE OR REPLACE FUNCTION webhook_wanted(p_event integer, p_what text) RETURNS SETOF webhook_endpoints LANGUAGE sql STABLE AS $$
  SELECT * FROM webhook_endpoints
  WHERE state <> 'removed' AND (event_no IS NULL OR event_no = p_event) AND p_what = ANY (happenings)
$$;

-- Owes a delivery to every endpoint that wants it, also to disabled ones, which get it when they are enabled again.
--   p_cause  two calls with the same cause are one delivery; null makes each call a delivery
CREATE OR REPLACE FUNCTION webhook_owe(p_event integer, p_what text, p_cause text, p_data jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO webhook_deliveries (delivery_id, endpoint_id, event_no, what, body)
  SELECT made.id, made.endpoint_id, p_event, p_what, (jsonb_build_object('id', made.id, 'type', p_what,
      'createdAt', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'event', (SELECT event_id FROM events WHERE event_no = p_event)) || p_data)::text
  FROM (SELECT endpoint_id, CASE WHEN p_cause IS NULL THEN gen_random_uuid()
          ELSE md5(concat_ws('/', endpoint_id, p_what, p_cause))::uuid END AS id
        FROM webhook_wanted(p_event, p_what)) made
  ON CONFLICT (delivery_id) DO NOTHING
$$;

-- Reports changes of an event's phase, in the transaction that makes them.
CREATE OR REPLACE FUNCTION event_phase_happened() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_what text := CASE NEW.phase WHEN 'open' THEN 'event.opened' WHEN 'paused' THEN 'event.paused'
    WHEN 'sold_out' THEN 'event.sold_out' WHEN 'closed' THEN 'event.closed' WHEN 'cancelled' THEN 'event.cancelled' END;
BEGIN
  IF v_what IS NOT NULL AND EXISTS (SELECT 1 FROM webhook_wanted(NEW.event_no, v_what)) THEN
    PERFORM webhook_owe(NEW.event_no, v_what, NULL, jsonb_build_object('phase', NEW.phase, 'before', OLD.phase));
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_phase_happened AFTER UPDATE OF phase ON events
  FOR EACH ROW WHEN (OLD.phase IS DISTINCT FROM NEW.phase) EXECUTE FUNCTION event_phase_happened();

-- Claims due deliveries, at most p_per_endpoint under way per endpoint over all workers; a failing endpoint gets one delivery at a
-- time. A claim without a result lapses, and the delivery is sent again under its id.
CREATE OR REPLACE FUNCTION webhook_take(p_per_endpoint integer, p_failures_max integer, p_lease_ms integer)
RETURNS TABLE (delivery uuid, endpoint uuid, url text, body text, attempt integer, secrets text[]) LANGUAGE plpgsql AS $$
DECLARE
  e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_free integer;
BEGIN
  FOR e IN
    SELECT * FROM webhook_endpoints w
    WHERE w.state = 'active' AND (w.rests_until IS NULL OR w.rests_until <= v_now)
      AND EXISTS (SELECT 1 FROM webhook_deliveries d
                  WHERE d.endpoint_id = w.endpoint_id AND d.state = 'due' AND d.due_at <= v_now)
    ORDER BY w.endpoint_id FOR NO KEY UPDATE SKIP LOCKED
  LOOP
    SELECT CASE WHEN e.failures >= p_failures_max THEN 1 ELSE p_per_endpoint END - count(*) INTO v_free
    FROM webhook_deliveries d WHERE d.endpoint_id = e.endpoint_id AND d.claimed_until > v_now;
    CONTINUE WHEN v_free <= 0;
    RETURN QUERY
    WITH due AS (
      SELECT d.delivery_id FROM webhook_deliveries d
      WHERE d.endpoint_id = e.endpoint_id AND d.state = 'due' AND d.due_at <= v_now
      ORDER BY d.due_at LIMIT v_free FOR UPDATE SKIP LOCKED
    ), claimed AS (
      UPDATE webhook_deliveries d
      SET attempts = d.attempts + 1, claimed_until = v_until, due_at = v_until,
          first_attempt_at = coalesce(d.first_attempt_at, v_now), updated_at = v_now
      FROM due WHERE d.delivery_id = due.delivery_id
      RETURNING d.delivery_id, d.body, d.attempts
    ), noted AS (
      INSERT INTO webhook_attempts (delivery_id, attempt, at) SELECT c.delivery_id, c.attempts, v_now FROM claimed c
    )
    SELECT c.delivery_id, e.endpoint_id, e.url, c.body, c.attempts,
      ARRAY(SELECT s.secret FROM webhook_secrets s
            WHERE s.endpoint_id = e.endpoint_id AND (s.until IS NULL OR s.until > v_now) ORDER BY s.secret_no DESC)
    FROM claimed c;
  END LOOP;
END $$;

-- Records the result of an attempt. A delivered delivery stays delivered, whatever an older attempt reports later.
--   p_gap_ms       until the next attempt of this delivery
--   p_rest_ms      first rest of an endpoint after p_failures_max failed attempts in a row, doubled by each further one…
--   p_rest_max_ms  …up to this
--   p_give_up_ms   after failing for that long a delivery is given up, and an endpoint disabled
CREATE OR REPLACE FUNCTION webhook_went(
  p_delivery uuid, p_attempt integer, p_status integer, p_error text, p_duration_ms integer, p_gap_ms integer,
  p_failures_max integer, p_rest_ms integer, p_rest_max_ms integer, p_give_up_ms bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  d webhook_deliveries; e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
  v_give_up interval := p_give_up_ms * interval '1 millisecond';
  v_why text;
BEGIN
  SELECT * INTO e FROM webhook_endpoints
  WHERE endpoint_id = (SELECT endpoint_id FROM webhook_deliveries WHERE delivery_id = p_delivery) FOR NO KEY UPDATE;
  SELECT * INTO d FROM webhook_deliveries WHERE delivery_id = p_delivery FOR UPDATE;
  IF NOT FOUND THEN RETURN 'gone'; END IF;
  UPDATE webhook_attempts SET status = p_status, error = p_error, duration_ms = p_duration_ms
  WHERE delivery_id = p_delivery AND attempt = p_attempt;
  IF p_error IS NULL THEN
    UPDATE webhook_deliveries SET state = 'delivered', claimed_until = NULL, updated_at = v_now
    WHERE delivery_id = p_delivery AND state <> 'delivered';
    IF e.failures > 0 THEN
      UPDATE webhook_endpoints SET failures = 0, failing_since = NULL, rests_until = NULL WHERE endpoint_id = e.endpoint_id;
    END IF;
    RETURN 'delivered';
  END IF;
  -- If the claim of an attempt lapsed, the later attempt decides.
  IF d.state <> 'due' OR d.attempts <> p_attempt THEN RETURN d.state; END IF;
  UPDATE webhook_deliveries
  SET state = CASE WHEN d.first_attempt_at + v_give_up <= v_now THEN 'failed' ELSE 'due' END,
      due_at = v_now + p_gap_ms * interval '1 millisecond', claimed_until = NULL, updated_at = v_now
  WHERE delivery_id = p_delivery RETURNING * INTO d;
  UPDATE webhook_endpoints
  SET failures = failures + 1, failing_since = coalesce(failing_since, v_now),
      rests_until = CASE WHEN failures + 1 >= p_failures_max THEN v_now + interval '1 millisecond'
        * least(p_rest_max_ms, p_rest_ms * 2 ^ least(failures + 1 - p_failures_max, 20)) END
  WHERE endpoint_id = e.endpoint_id RETURNING * INTO e;
  v_why := CASE
    WHEN p_status = 410 THEN 'The receiver answered 410: it is gone for good.'
    WHEN e.failing_since + v_give_up <= v_now THEN format('Nothing was taken since %s UTC; the last attempt: %s',
      to_char(e.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), p_error) END;
  IF v_why IS NOT NULL AND e.state = 'active' THEN
    UPDATE webhook_endpoints SET state = 'disabled', disabled_why = v_why, disabled_at = v_now, updated_at = v_now
    WHERE endpoint_id = e.endpoint_id;
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES ('worker', 'webhook_disabled', e.event_no,
      jsonb_build_object('endpoint', e.endpoint_id, 'why', v_why));
  END IF;
  RETURN d.state;
END $$;

-- Sends a delivery again under its id, whatever its state. Returns 'owed', 'unknown', 'disabled' (it waits until the endpoint is
-- enabled) or 'under_way'.
CREATE OR REPLACE FUNCTION webhook_again(p_delivery uuid, p_actor text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  e webhook_endpoints; d webhook_deliveries;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO e FROM webhook_endpoints WHERE state <> 'removed'
    AND endpoint_id = (SELECT endpoint_id FROM webhook_deliveries WHERE delivery_id = p_delivery) FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  SELECT * INTO d FROM webhook_deliveries WHERE delivery_id = p_delivery FOR UPDATE;
  IF d.claimed_until > v_now THEN RETURN 'under_way'; END IF;
  UPDATE webhook_deliveries SET state = 'due', due_at = v_now, first_attempt_at = NULL, claimed_until = NULL, updated_at = v_now
  WHERE delivery_id = p_delivery;
  UPDATE webhook_endpoints SET rests_until = NULL WHERE endpoint_id = e.endpoint_id;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_again', d.event_no,
    jsonb_build_object('endpoint', e.endpoint_id, 'delivery', p_delivery));
  RETURN CASE WHEN e.state = 'active' THEN 'owed' ELSE 'disabled' END;
END $$;

-- Owes one test delivery.
CREATE OR REPLACE FUNCTION webhook_trial(p_endpoint uuid, p_delivery uuid, p_actor text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  e webhook_endpoints;
BEGIN
  UPDATE webhook_endpoints SET rests_until = NULL WHERE endpoint_id = p_endpoint AND state = 'active' RETURNING * INTO e;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO webhook_deliveries (delivery_id, endpoint_id, event_no, what, body)
  VALUES (p_delivery, p_endpoint, e.event_no, 'webhook.trial', jsonb_build_object('id', p_delivery, 'type', 'webhook.trial',
    'createdAt', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'event', (SELECT event_id FROM events WHERE event_no = e.event_no))::text);
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_trial', e.event_no,
    jsonb_build_object('endpoint', p_endpoint, 'delivery', p_delivery));
  RETURN true;
END $$;

-- Deletes deliveries after some days, whatever their state. Returns how many.
CREATE OR REPLACE FUNCTION webhook_tidy(p_keep_days integer, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_count integer;
BEGIN
  DELETE FROM webhook_deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM webhook_deliveries WHERE created_at < clock_timestamp() - make_interval(days => p_keep_days)
    ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_count = ROW_COUNT;
  DELETE FROM webhook_secrets WHERE until < clock_timestamp() - interval '1 day';
  RETURN v_count;
END $$;

CREATE OR REPLACE FUNCTION webhook_endpoint_json(e webhook_endpoints) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('endpoint', e.endpoint_id, 'url', e.url,
    'event', (SELECT event_id FROM events WHERE event_no = e.event_no), 'happenings', e.happenings, 'note', e.note,
    'state', e.state, 'disabledWhy', e.disabled_why, 'disabledAt', epoch_ms(e.disabled_at), 'failures', e.failures,
    'failingSince', epoch_ms(e.failing_since), 'restsUntil', epoch_ms(e.rests_until), 'createdBy', e.created_by,
    'createdAt', epoch_ms(e.created_at),
    'due', (SELECT count(*) FROM webhook_deliveries d WHERE d.endpoint_id = e.endpoint_id AND d.state = 'due'),
    'secrets', (SELECT coalesce(jsonb_agg(jsonb_build_object('createdAt', epoch_ms(s.created_at), 'until', epoch_ms(s.until))
                  ORDER BY s.secret_no), '[]') FROM webhook_secrets s
                WHERE s.endpoint_id = e.endpoint_id AND (s.until IS NULL OR s.until > clock_timestamp())))
$$;

CREATE OR REPLACE FUNCTION webhook_endpoint_make(p_endpoint uuid, p_event integer, p_url text, p_happenings text[], p_note text,
  p_secret text, p_most integer, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  e webhook_endpoints;
BEGIN
  PERFORM pg_advisory_xact_lock(20261, 16);
  IF (SELECT count(*) FROM webhook_endpoints WHERE state <> 'removed') >= p_most THEN RETURN '{"kind":"too_many"}'; END IF;
  INSERT INTO webhook_endpoints (endpoint_id, event_no, url, happenings, note, created_by)
  VALUES (p_endpoint, p_event, p_url, p_happenings, p_note, p_actor) RETURNING * INTO e;
  INSERT INTO webhook_secrets (endpoint_id, secret) VALUES (p_endpoint, p_secret);
  -- A path may contain the receiver's secret, so the log has only the host.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_add', p_event,
    jsonb_build_object('endpoint', p_endpoint, 'host', substring(p_url from '^[a-z]+://([^/?#]+)'), 'happenings', p_happenings));
  RETURN jsonb_build_object('kind', 'made', 'endpoint', webhook_endpoint_json(e));
END $$;

-- Changes the parts in p_changes: url, event types, note, state. Enabling restarts the clocks of waiting deliveries and of the
-- endpoint. Removing is final: nothing more is sent, and its log stays until it is too old.
CREATE OR REPLACE FUNCTION webhook_endpoint_change(p_endpoint uuid, p_changes jsonb, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
  v_state text := p_changes ->> 'state';
BEGIN
  SELECT * INTO e FROM webhook_endpoints WHERE endpoint_id = p_endpoint AND state <> 'removed' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  UPDATE webhook_endpoints SET
    url = coalesce(p_changes ->> 'url', e.url),
    happenings = CASE WHEN p_changes ? 'happenings'
      THEN ARRAY(SELECT jsonb_array_elements_text(p_changes -> 'happenings')) ELSE e.happenings END,
    note = CASE WHEN p_changes ? 'note' THEN p_changes ->> 'note' ELSE e.note END,
    state = coalesce(v_state, e.state),
    disabled_why = CASE v_state WHEN 'active' THEN NULL WHEN 'disabled' THEN coalesce(e.disabled_why, 'Switched off by the organiser.')
      ELSE e.disabled_why END,
    disabled_at = CASE v_state WHEN 'active' THEN NULL WHEN 'disabled' THEN coalesce(e.disabled_at, v_now) ELSE e.disabled_at END,
    failures = CASE WHEN v_state = 'active' THEN 0 ELSE e.failures END,
    failing_since = CASE WHEN v_state = 'active' THEN NULL ELSE e.failing_since END,
    rests_until = CASE WHEN v_state = 'active' THEN NULL ELSE e.rests_until END,
    updated_at = v_now
  WHERE endpoint_id = p_endpoint RETURNING * INTO e;
  IF v_state = 'active' THEN
    UPDATE webhook_deliveries SET due_at = v_now, first_attempt_at = NULL
    WHERE endpoint_id = p_endpoint AND state = 'due' AND (claimed_until IS NULL OR claimed_until <= v_now);
  ELSIF v_state = 'removed' THEN
    UPDATE webhook_deliveries SET state = 'dropped', claimed_until = NULL, updated_at = v_now
    WHERE endpoint_id = p_endpoint AND state = 'due';
    DELETE FROM webhook_secrets WHERE endpoint_id = p_endpoint;
  END IF;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_change', e.event_no,
    jsonb_build_object('endpoint', p_endpoint) || (p_changes - 'url')
    || CASE WHEN p_changes ? 'url' THEN jsonb_build_object('host', substring(e.url from '^[a-z]+://([^/?#]+)')) ELSE '{}' END);
  RETURN jsonb_build_object('kind', 'changed', 'endpoint', webhook_endpoint_json(e));
END $$;

-- Adds a secret. Earlier secrets stay valid for p_keep_ms more, or for their remaining time if that is less.
CREATE OR REPLACE FUNCTION webhook_secret_add(p_endpoint uuid, p_secret text, p_keep_ms bigint, p_most integer, p_actor text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO e FROM webhook_endpoints WHERE endpoint_id = p_endpoint AND state <> 'removed' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  IF p_keep_ms > 0 AND (SELECT count(*) FROM webhook_secrets
                        WHERE endpoint_id = p_endpoint AND (until IS NULL OR until > v_now)) >= p_most THEN
    RETURN '{"kind":"too_many"}';
  END IF;
  UPDATE webhook_secrets SET until = least(coalesce(until, 'infinity'), v_now + p_keep_ms * interval '1 millisecond')
  WHERE endpoint_id = p_endpoint;
  INSERT INTO webhook_secrets (endpoint_id, secret) VALUES (p_endpoint, p_secret);
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_rotate', e.event_no,
    jsonb_build_object('endpoint', p_endpoint, 'keepMs', p_keep_ms));
  RETURN jsonb_build_object('kind', 'changed', 'endpoint', webhook_endpoint_json(e));
END $$;
