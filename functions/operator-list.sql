-- The operator's list: every payment that needs a decision, and the possible actions. Texts and names of attentions are those of
-- src/core/operator-list.ts. Lock order: limit rows → order → money operations → seats by number.
--
-- An action on a money operation is one step, conditional on the state that the operator saw. It returns {kind, order, seats}: 'done';
-- 'repeated' (this action was taken before); 'busy' (a call to the provider is under way); 'not_possible' (the operation is in another
-- state by now).

-- Everything on the list, in no order. An operation is on it because of its attention, or because its outcome is unknown after ten
-- minutes, or because it has not ended after more than five tries. Reads only open rows: each part has its partial index.
CREATE OR REPLACE VIEW operator_list AS
  SELECT 'operation-' || m.operation_id AS entry, m.attention AS kind, m.created_at AS since, m.order_id, m.operation_id,
         NULL::uuid AS refund_id, m.provider_object AS object, NULL::text AS says
  FROM money_operations m WHERE m.attention IS NOT NULL
  UNION ALL
  SELECT 'operation-' || m.operation_id, 'outcome_unknown', m.created_at, m.order_id, m.operation_id, NULL, m.provider_object, NULL
  FROM money_operations m
  WHERE m.due_at IS NOT NULL AND m.attention IS NULL
    AND ((m.state = 'unknown' AND m.created_at < clock_timestamp() - interval '10 minutes') OR (m.state = 'ending' AND m.attempts > 5))
  UNION ALL
  SELECT 'refund-' || r.refund_id, CASE WHEN refund_gone_back(r) < r.amount THEN 'refund_failed' ELSE 'refund_gone_back' END, r.created_at, r.order_id, NULL, r.refund_id, NULL, r.detail
  FROM refunds r WHERE r.state = 'failed'
  UNION ALL
  SELECT 'event-' || e.object, 'unknown_object', min(e.received_at), NULL, NULL, NULL, e.object,
         string_agg(DISTINCT e.type, ', ' ORDER BY e.type)
  FROM provider_events e WHERE e.note = 'unknown_object' GROUP BY e.object
  UNION ALL
  SELECT 'finding-' || f.finding_id, f.kind, f.first_seen_at, f.order_id, NULL, NULL, f.object, f.says
  FROM reconcile_findings f WHERE f.settled_at IS NULL;

CREATE OR REPLACE FUNCTION operator_decision(p_action text, p_actor text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT jsonb_build_object('action', p_action, 'actor', p_actor, 'at', epoch_ms(clock_timestamp()))
$$;

CREATE OR REPLACE FUNCTION operator_audit(p_actor text, p_action text, o orders, p_detail jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES (p_actor, 'payment_' || p_action, o.event_no, jsonb_strip_nulls(jsonb_build_object('order', o.order_id) || p_detail))
$$;

CREATE OR REPLACE FUNCTION operator_result(p_kind text, p_order uuid, p_seats jsonb DEFAULT '[]') RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('kind', p_kind, 'order', order_json(o), 'seats', p_seats) FROM orders o WHERE o.order_id = p_order
$$;

-- Returns why the action is not possible, or null if it is possible.
CREATE OR REPLACE FUNCTION operator_refuses(m money_operations, p_action text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT CASE
    WHEN m.decision ->> 'action' = p_action AND (m.attention IS NULL OR p_action = 'give_back') THEN 'repeated'
    WHEN m.claimed_until > clock_timestamp() AND m.due_at IS NOT NULL THEN 'busy' END
$$;

-- Makes the worker look at the payment at once: through its own row if that is under way, and like an event from the provider.
CREATE OR REPLACE FUNCTION operator_look(p_operation uuid, p_object text, p_actor text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_object text := p_object;
BEGIN
  IF p_operation IS NOT NULL THEN
    m := money_lock(p_operation);
    SELECT * INTO o FROM orders WHERE order_id = m.order_id;
    v_object := m.provider_object;
    UPDATE money_operations SET due_at = clock_timestamp()
    WHERE operation_id = p_operation AND due_at IS NOT NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp());
  END IF;
  -- Events that were given up are looked at again.
  UPDATE provider_events SET processed_at = NULL, note = NULL, due_at = clock_timestamp(), claimed_until = NULL
  WHERE object = v_object AND note = 'unknown_object';
  IF NOT FOUND AND v_object IS NOT NULL THEN
    INSERT INTO provider_events (provider_event_id, type, object, due_at)
    VALUES ('look:' || gen_random_uuid(), 'look', v_object, clock_timestamp());
  END IF;
  PERFORM operator_audit(p_actor, 'look', o, jsonb_build_object('operation', p_operation, 'object', v_object));
END $$;

-- Undoes the sale, or ends the payment of an unpaid order: its authorisation goes to 'ending' with a key of its own, and the
-- reconciler releases or refunds what the provider holds.
CREATE OR REPLACE FUNCTION operator_give_back(p_operation uuid, p_actor text, p_end_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
  v_decision jsonb := operator_decision('give_back', p_actor);
  v_refuses text;
  v_taken bigint;
BEGIN
  PERFORM order_lock_limits(orders.event_no, orders.account, orders.instrument ->> 'fingerprint')
  FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation;
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'give_back');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  IF m.kind = 'capture' AND m.state IN ('open','unknown') AND o.state = 'confirmed' THEN
    v_taken := greatest((m.answer #>> '{view,captured}')::bigint - (m.answer #>> '{view,refunded}')::bigint, 0);
    UPDATE money_operations SET state = 'refused', due_at = NULL, claimed_until = NULL, attention = NULL, decision = v_decision,
                                updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    PERFORM order_count_limits(o, -cardinality(o.seats));
    v_seats := order_end(o, 'capture_refused', 'cancelled', CASE WHEN (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled'
                         THEN 'event_cancelled' ELSE 'capture_refused' END, NULL);
    UPDATE money_operations SET state = 'ending', end_key = p_end_key, end_reason = 'capture_refused', due_at = clock_timestamp(),
           claimed_until = NULL, attempts = 0, first_sent_at = NULL, decision = v_decision, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'authorise' AND state = 'done';
    SELECT * INTO o FROM orders WHERE order_id = o.order_id;
    PERFORM order_happened(o, 'order.cancelled', jsonb_strip_nulls(jsonb_build_object(
      'operation', p_operation, 'amount', nullif(v_taken, 0))));
  ELSIF m.attention = 'payment_mismatch' AND m.kind IN ('open','authorise') AND m.state IN ('open','waiting','unknown','ending') THEN
    UPDATE money_operations
    SET state = 'ending', due_at = clock_timestamp(), claimed_until = NULL, decision = v_decision, updated_at = clock_timestamp(),
        end_key = CASE WHEN m.state = 'ending' THEN end_key ELSE p_end_key END,
        end_reason = coalesce(end_reason, 'payment_mismatch'),
        attempts = CASE WHEN m.state = 'ending' THEN attempts ELSE 0 END,
        first_sent_at = CASE WHEN m.state = 'ending' THEN first_sent_at END
    WHERE operation_id = p_operation;
    PERFORM order_note(o.order_id, m.kind || '_ending', o.state, o.state,
                       jsonb_build_object('operation', p_operation, 'reason', 'payment_mismatch'));
  ELSE
    RETURN operator_result('not_possible', o.order_id);
  END IF;
  PERFORM operator_audit(p_actor, 'give_back', o, jsonb_build_object('operation', p_operation, 'captured', v_taken));
  RETURN operator_result('done', o.order_id, v_seats);
END $$;

-- Counts the captured amount as the order's payment: never more than the order's amount, and only while none of it was given back.
CREATE OR REPLACE FUNCTION operator_accept(p_operation uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_refuses text;
  v_captured bigint;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'accept');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  v_captured := (m.answer #>> '{view,captured}')::bigint;
  IF m.kind <> 'capture' OR m.state <> 'unknown' OR o.state <> 'confirmed'
     OR coalesce(m.attention NOT IN ('captured_amount','payment_mismatch'), true)
     OR coalesce(m.answer #>> '{view,status}' <> 'captured' OR v_captured NOT BETWEEN 1 AND o.amount
                 OR m.answer #>> '{view,refunded}' <> '0' OR m.answer #>> '{view,currency}' <> o.currency
                 OR m.answer #>> '{view,object}' <> m.provider_object, true) THEN
    RETURN operator_result('not_possible', o.order_id);
  END IF;
  UPDATE money_operations SET state = 'done', amount = v_captured, due_at = NULL, claimed_until = NULL, attention = NULL,
                              decision = operator_decision('accept', p_actor), updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'paid', accepted_difference = accepted_difference + v_captured - o.amount, updated_at = clock_timestamp()
  WHERE order_id = o.order_id RETURNING * INTO o;
  PERFORM order_happened(o, 'order.confirmed', jsonb_build_object('operation', p_operation));
  PERFORM order_note(o.order_id, 'capture', 'confirmed', 'paid', jsonb_build_object('operation', p_operation, 'accepted', v_captured));
  PERFORM operator_audit(p_actor, 'accept', o, jsonb_build_object('operation', p_operation, 'captured', v_captured, 'note', p_note));
  RETURN operator_result('done', o.order_id);
END $$;

-- Settled by hand: the provider is not asked again. A difference, kept at the provider or given back in excess, is accepted.
CREATE OR REPLACE FUNCTION operator_settle(p_operation uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_refuses text;
  v_seats jsonb := '[]';
  v_difference bigint := 0;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'settle');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  IF m.kind <> 'refund' AND m.state = 'ending' THEN
    v_difference := greatest(coalesce((m.answer #>> '{view,captured}')::bigint - (m.answer #>> '{view,refunded}')::bigint, 0), 0);
    UPDATE money_operations SET attention = NULL, decision = operator_decision('settle', p_actor)
    WHERE operation_id = p_operation;
    v_seats := money_voided(p_operation, NULL) -> 'seats';
  ELSIF m.kind = 'refund' AND m.state IN ('waiting','unknown') THEN
    -- For a refund that differs, the amount that the provider shows was given back.
    IF m.attention = 'refund_mismatch' AND m.answer #>> '{refund,status}' <> 'failed' THEN
      v_difference := -(m.answer #>> '{refund,amount}')::bigint;
    END IF;
    UPDATE money_operations SET state = 'refused', due_at = NULL, claimed_until = NULL, attention = NULL,
                                decision = operator_decision('settle', p_actor), updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    UPDATE refunds SET state = 'elsewhere', detail = p_note, retry_asked = NULL, updated_at = clock_timestamp()
    WHERE refund_id = m.refund_id;
    PERFORM order_note(o.order_id, 'refund_elsewhere', o.state, o.state, jsonb_build_object('refund', m.refund_id, 'note', p_note));
  ELSIF m.attention = 'refunded_twice' THEN
    v_difference := -m.amount;
    UPDATE money_operations SET attention = NULL, decision = operator_decision('settle', p_actor), updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
  ELSE
    RETURN operator_result('not_possible', o.order_id);
  END IF;
  UPDATE orders SET accepted_difference = accepted_difference + v_difference WHERE order_id = o.order_id;
  PERFORM operator_audit(p_actor, 'settle', o,
    jsonb_build_object('operation', p_operation, 'difference', v_difference, 'note', p_note));
  RETURN operator_result('done', o.order_id, v_seats);
END $$;

-- Takes an ended operation off the list.
CREATE OR REPLACE FUNCTION operator_dismiss(p_operation uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_refuses text;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'dismiss');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  IF m.state NOT IN ('done','refused','voided') OR m.attention IS NULL THEN RETURN operator_result('not_possible', o.order_id); END IF;
  UPDATE money_operations SET attention = NULL, decision = operator_decision('dismiss', p_actor), updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  PERFORM operator_audit(p_actor, 'dismiss', o,
    jsonb_build_object('operation', p_operation, 'attention', m.attention, 'note', p_note));
  RETURN operator_result('done', o.order_id);
END $$;

-- Takes events of an object that belongs to no order off the list.
CREATE OR REPLACE FUNCTION operator_dismiss_events(p_object text, p_actor text, p_note text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  UPDATE provider_events SET note = 'dismissed' WHERE object = p_object AND note = 'unknown_object';
  IF NOT FOUND THEN
    RETURN CASE WHEN EXISTS (SELECT 1 FROM provider_events WHERE object = p_object AND note = 'dismissed')
           THEN 'repeated' ELSE 'not_possible' END;
  END IF;
  INSERT INTO audit_log (actor, action, detail)
    VALUES (p_actor, 'payment_dismiss', jsonb_build_object('object', p_object, 'note', p_note));
  RETURN 'done';
END $$;

-- An attempt that the provider lost counts as failed, so that the refund can be tried again.
CREATE OR REPLACE FUNCTION operator_give_up_refund(p_operation uuid, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  m money_operations;
  v_refuses text;
BEGIN
  m := money_lock(p_operation);
  v_refuses := operator_refuses(m, 'retry');
  -- The decision was made before but the next attempt was not: the decision is made again.
  IF v_refuses = 'repeated' AND EXISTS (SELECT 1 FROM refunds WHERE refund_id = m.refund_id AND state = 'failed')
     AND NOT EXISTS (SELECT 1 FROM money_operations later WHERE later.refund_id = m.refund_id AND later.created_at > m.created_at) THEN
    RETURN operator_result('done', m.order_id);
  END IF;
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, m.order_id); END IF;
  IF m.kind <> 'refund' OR m.state NOT IN ('waiting','unknown') OR m.attention IS DISTINCT FROM 'refund_missing' THEN
    RETURN operator_result('not_possible', m.order_id);
  END IF;
  PERFORM refund_settle(p_operation, 'refused', NULL, NULL, 'the provider does not list it any more', NULL, NULL);
  UPDATE money_operations SET decision = operator_decision('retry', p_actor) WHERE operation_id = p_operation;
  RETURN operator_result('done', m.order_id);
END $$;

-- Takes a finding off the list. It comes back when something else is found about the same subject. Returns 'done', 'repeated' (this
-- decision was made before), 'not_possible' (another one was, or the worker has settled it) or 'unknown' (no such finding).
CREATE OR REPLACE FUNCTION finding_decide(p_finding bigint, p_action text, p_actor text, p_note text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  f reconcile_findings;
BEGIN
  SELECT * INTO f FROM reconcile_findings WHERE finding_id = p_finding FOR UPDATE;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF f.settled_at IS NOT NULL THEN
    RETURN CASE WHEN f.decision ->> 'action' = p_action THEN 'repeated' ELSE 'not_possible' END;
  END IF;
  UPDATE reconcile_findings SET settled_at = clock_timestamp(), settled_by = p_actor, note = p_note,
                                decision = operator_decision(p_action, p_actor)
  WHERE finding_id = p_finding;
  INSERT INTO audit_log (actor, action, detail) VALUES (p_actor, 'reconcile_settle', jsonb_build_object(
    'finding', f.finding_id, 'kind', f.kind, 'subject', f.subject, 'decision', p_action, 'note', p_note));
  RETURN 'done';
END $$;

-- Decides that the tickets of the finding's order are cancelled, and cancels them with a refund that pays nothing. Locks: limit rows,
-- order, finding, then as refund_make.
CREATE OR REPLACE FUNCTION finding_cancel_tickets(p_finding bigint, p_refund uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; v_named orders;
  v_kind text;
  v_made jsonb;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM reconcile_findings WHERE finding_id = p_finding);
  IF NOT FOUND THEN RETURN '{"kind":"not_possible"}'; END IF;
  v_named := o;
  PERFORM order_lock_limits(o.event_no, o.account, o.instrument ->> 'fingerprint');
  SELECT * INTO o FROM orders WHERE order_id = o.order_id FOR UPDATE;
  IF v_named.account <> o.account THEN
    PERFORM order_unname_limits(v_named.account, v_named.instrument ->> 'fingerprint', o);
  END IF;
  IF o.state <> 'paid' AND EXISTS (SELECT 1 FROM reconcile_findings WHERE finding_id = p_finding AND settled_at IS NULL) THEN
    RETURN '{"kind":"not_possible"}';
  END IF;
  v_kind := finding_decide(p_finding, 'cancel_tickets', p_actor, p_note);
  IF v_kind <> 'done' THEN RETURN jsonb_build_object('kind', v_kind); END IF;
  v_made := refund_make(p_refund, o.order_id, NULL, NULL, 'finding-' || p_finding, 'unpaid', p_actor, p_note, NULL, 'returned', 0,
                        'release', 1, false, NULL, 0, false);
  IF v_made ->> 'kind' <> 'made' THEN
    RAISE EXCEPTION 'the tickets of finding % were not cancelled: %', p_finding, v_made ->> 'kind';
  END IF;
  RETURN v_made || '{"kind":"done"}';
END $$;
