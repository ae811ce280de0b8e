-- The operator's list: every payment that needs a decision, and the possible actions. The texts and the names of attentions
-- are those of src/core/operator-list.ts. Lock order as everywhere: limit rows → order → money operations → seats by number.

ALTER TABLE money_operations
  ADD COLUMN decision jsonb,                 -- the last action of an operator: {action, actor, at}; its note is in the audit log
  ADD CONSTRAINT money_operations_attention CHECK (attention IN ('payment_mismatch','captured_amount','capture_window',
    'void_refused','refund_refused','captured_after_refusal','refund_missing','refund_mismatch','refunded_twice'));
DROP INDEX money_attention;
CREATE INDEX money_attention ON money_operations (created_at) WHERE attention IS NOT NULL;
CREATE INDEX refunds_failed ON refunds (created_at) WHERE state = 'failed';

-- Amount kept at the provider beyond what the order is due (negative if less), after an operator accepted it.
ALTER TABLE orders ADD COLUMN accepted_difference bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION operation_json(m money_operations) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'operation', m.operation_id, 'order', m.order_id, 'kind', m.kind, 'state', m.state, 'key', m.key,
    'endKey', m.end_key, 'endReason', m.end_reason, 'clientKey', m.client_key, 'request', m.request,
    'instrument', m.instrument, 'providerObject', m.provider_object, 'amount', m.amount, 'currency', m.currency,
    'attempts', m.attempts, 'firstSentAt', epoch_ms(m.first_sent_at), 'dueAt', epoch_ms(m.due_at),
    'answer', m.answer, 'attention', m.attention, 'decision', m.decision)
$$;

-- Everything on the list, in no order. An operation is on it by its attention; or because nobody knows its end after ten minutes,
-- or because it does not end after more than five tries. Reads only what is open: each part has its partial index.
CREATE VIEW operator_list AS
  SELECT 'operation-' || m.operation_id AS entry, m.attention AS kind, m.created_at AS since, m.order_id, m.operation_id,
         NULL::uuid AS refund_id, m.provider_object AS object, NULL::text AS says
  FROM money_operations m WHERE m.attention IS NOT NULL
  UNION ALL
  SELECT 'operation-' || m.operation_id, 'outcome_unknown', m.created_at, m.order_id, m.operation_id, NULL, m.provider_object, NULL
  FROM money_operations m
  WHERE m.due_at IS NOT NULL AND m.attention IS NULL
    AND ((m.state = 'unknown' AND m.created_at < clock_timestamp() - interval '10 minutes') OR (m.state = 'ending' AND m.attempts > 5))
  UNION ALL
  SELECT 'refund-' || r.refund_id, 'refund_failed', r.created_at, r.order_id, NULL, r.refund_id, NULL, r.detail
  FROM refunds r WHERE r.state = 'failed'
  UNION ALL
  SELECT 'event-' || e.object, 'unknown_object', min(e.received_at), NULL, NULL, NULL, e.object,
         string_agg(DISTINCT e.type, ', ' ORDER BY e.type)
  FROM provider_events e WHERE e.note = 'unknown_object' GROUP BY e.object
  UNION ALL
  SELECT 'finding-' || f.finding_id, f.kind, f.first_seen_at, f.order_id, NULL, NULL, f.object, f.says
  FROM reconcile_findings f WHERE f.settled_at IS NULL;

CREATE FUNCTION operator_decision(p_action text, p_actor text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT jsonb_build_object('action', p_action, 'actor', p_actor, 'at', epoch_ms(clock_timestamp()))
$$;

CREATE FUNCTION operator_audit(p_actor text, p_action text, o orders, p_detail jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES (p_actor, 'payment_' || p_action, o.event_no, jsonb_strip_nulls(jsonb_build_object('order', o.order_id) || p_detail))
$$;

-- The worker looks at the payment at once: by its own row where that is under way, and as an event of the provider's would make it.
CREATE FUNCTION operator_look(p_operation uuid, p_object text, p_actor text) RETURNS void LANGUAGE plpgsql AS $$
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
  -- Events that were given up are looked at by themselves.
  UPDATE provider_events SET processed_at = NULL, note = NULL, due_at = clock_timestamp(), claimed_until = NULL
  WHERE object = v_object AND note = 'unknown_object';
  IF NOT FOUND AND v_object IS NOT NULL THEN
    INSERT INTO provider_events (provider_event_id, type, object, due_at)
    VALUES ('look:' || gen_random_uuid(), 'look', v_object, clock_timestamp());
  END IF;
  PERFORM operator_audit(p_actor, 'look', o, jsonb_build_object('operation', p_operation, 'object', v_object));
END $$;

-- Events of an object that no order has leave the list.
CREATE FUNCTION operator_dismiss_events(p_object text, p_actor text, p_note text) RETURNS text LANGUAGE plpgsql AS $$
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

-- The actions on a money operation, one step each, conditional on the state that the operator saw. Each returns
-- {kind, order, seats}: 'done'; 'repeated': this very action was taken before; 'busy': a call to the provider is under way;
-- 'not_possible': the operation is in another state by now.

CREATE FUNCTION operator_result(p_kind text, p_order uuid, p_seats jsonb DEFAULT '[]') RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('kind', p_kind, 'order', order_json(o), 'seats', p_seats) FROM orders o WHERE o.order_id = p_order
$$;

-- Returns why the action is not possible, or null if it is possible.
CREATE FUNCTION operator_refuses(m money_operations, p_action text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT CASE
    WHEN m.decision ->> 'action' = p_action AND (m.attention IS NULL OR p_action = 'give_back') THEN 'repeated'
    WHEN m.claimed_until > clock_timestamp() AND m.due_at IS NOT NULL THEN 'busy' END
$$;

-- The sale is undone, or the payment of an unpaid order ended: its authorisation's row goes to 'ending' with a key of its own, and
-- the reconciler releases or refunds whatever the provider holds.
CREATE FUNCTION operator_give_back(p_operation uuid, p_actor text, p_end_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- What was captured counts as the order's payment: never more than the order's amount, and only while none of it was given back.
CREATE FUNCTION operator_accept(p_operation uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- Settled by hand: the provider is not asked again. What it still holds of the order, or gave back too much, is accepted.
CREATE FUNCTION operator_settle(p_operation uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
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
    -- Of a refund that differs, what the provider shows was given back.
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

-- An attempt that the provider has lost counts as failed: the refund can be tried again.
CREATE FUNCTION operator_give_up_refund(p_operation uuid, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  m money_operations;
  v_refuses text;
BEGIN
  m := money_lock(p_operation);
  v_refuses := operator_refuses(m, 'retry');
  -- Decided before, but the next attempt was never made: the decision is taken again.
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

-- An operation that has ended leaves the list.
CREATE FUNCTION operator_dismiss(p_operation uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- Steps of the purchase, of refunds and of cancelling that follow from it.

-- The provider's object is cancelled for good, or all that it took was given back. An order that was being ended is closed; one
-- that was not (the provider cancelled by itself) may open a new object. An object that is not the order's own changes nothing
-- about the order. Money that had been taken and was given back is noted in the order, and its buyer is told.
CREATE OR REPLACE FUNCTION money_voided(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
  -- What had been taken and was given back.
  v_back bigint := nullif((p_answer #>> '{view,captured}')::bigint, 0);
  -- The order ended without its buyer's doing although they had paid, or were about to.
  v_failed boolean := false;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') OR m.kind NOT IN ('open','authorise') THEN
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations
  SET state = 'voided', answer = coalesce(p_answer, answer), due_at = NULL, claimed_until = NULL, updated_at = clock_timestamp(),
      attention = CASE WHEN attention NOT IN ('void_refused','refund_refused') AND decision IS NULL THEN attention END,
      check_at = CASE WHEN v_back IS NOT NULL THEN refund_check_after(checks, clock_timestamp()) END
  WHERE operation_id = p_operation;
  UPDATE money_operations SET attention = NULL
  WHERE order_id = o.order_id AND provider_object = m.provider_object AND attention = 'captured_after_refusal';
  IF m.provider_object IS NOT NULL AND m.provider_object IS DISTINCT FROM o.provider_object THEN
    PERFORM order_note(o.order_id, 'stray_voided', o.state, o.state,
                       jsonb_build_object('operation', p_operation, 'object', m.provider_object));
  ELSE
    UPDATE money_operations SET state = 'voided', updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
    IF o.state = 'voiding' THEN
      UPDATE orders SET state = 'closed', updated_at = clock_timestamp() WHERE order_id = o.order_id;
      PERFORM order_note(o.order_id, 'voided', 'voiding', 'closed', jsonb_build_object('operation', p_operation));
      v_failed := o.reason IS DISTINCT FROM 'closed_by_buyer';
    ELSIF o.state = 'reserved' AND m.state = 'ending' THEN
      v_seats := order_end(o, 'close', 'closed', m.end_reason, NULL);
      v_failed := m.kind = 'authorise' AND m.end_reason IN ('payment_mismatch','event_cancelled');
    ELSE
      IF o.state = 'reserved' THEN
        UPDATE orders SET provider_object = NULL, updated_at = clock_timestamp() WHERE order_id = o.order_id;
      END IF;
      PERFORM order_note(o.order_id, m.kind || '_voided', o.state, o.state, jsonb_build_object('operation', p_operation));
    END IF;
  END IF;
  SELECT * INTO o FROM orders WHERE order_id = o.order_id;
  IF m.end_reason = 'late_payment' THEN
    PERFORM order_happened(o, 'order.closed_late', jsonb_strip_nulls(jsonb_build_object('operation', p_operation, 'amount', v_back)));
  ELSIF v_back IS NOT NULL THEN
    PERFORM order_happened(o, 'order.money_returned', jsonb_build_object('operation', p_operation, 'amount', v_back));
  ELSIF v_failed THEN
    PERFORM order_happened(o, 'order.failed', jsonb_build_object('operation', p_operation));
  END IF;
  IF v_back IS NOT NULL THEN
    PERFORM order_note(o.order_id, 'money_returned', o.state, o.state, jsonb_build_object(
      'operation', p_operation, 'object', m.provider_object, 'amount', v_back));
  END IF;
  RETURN money_result('voided', p_operation, v_seats);
END $$;

-- As 0016 (order_happened until 0021); what was given back is named for money that came beside a sale too.
CREATE OR REPLACE FUNCTION order_told(o orders, p_what text, p_detail jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_refund uuid := (p_detail ->> 'refund')::uuid;
  v_cause text := concat_ws('/', o.order_id, coalesce(p_detail ->> 'refund', p_detail ->> 'operation'));
BEGIN
  PERFORM order_mail_owed(o, p_what, p_detail);
  IF NOT EXISTS (SELECT 1 FROM webhook_wanted(o.event_no, p_what)) THEN RETURN; END IF;
  PERFORM webhook_owe(o.event_no, p_what, CASE WHEN p_what NOT IN ('refund.succeeded','refund.failed') THEN v_cause END,
    jsonb_strip_nulls(jsonb_build_object('refund', webhook_refund(v_refund), 'returned',
      CASE WHEN p_what IN ('order.closed_late','order.money_returned') THEN coalesce((p_detail ->> 'amount')::bigint, 0) END))
    || jsonb_build_object('order', webhook_order(o)));
END $$;

-- Finally refused. An authorisation: another card may be tried. A capture: the sale is undone in the same call, and its buyer told,
-- with what had been taken.
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
  UPDATE money_operations SET state = 'refused', answer = p_answer, due_at = NULL, claimed_until = NULL, attention = NULL,
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
    PERFORM order_happened(o, 'order.cancelled', jsonb_strip_nulls(jsonb_build_object(
      'operation', p_operation, 'amount', nullif((p_answer #>> '{view,captured}')::bigint, 0))));
  ELSE
    PERFORM order_note(o.order_id, m.kind || '_refused', o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('refused', p_operation, v_seats);
END $$;

-- Captured: the order is paid.
CREATE OR REPLACE FUNCTION money_captured(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations; v_paid orders;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'capture' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  IF m.state = 'refused' THEN
    -- Money that came after its order was cancelled: for the operator's list, until the ending of its authorisation gave it back.
    UPDATE money_operations SET answer = p_answer, updated_at = clock_timestamp(),
      attention = CASE WHEN NOT EXISTS (SELECT 1 FROM money_operations other WHERE other.order_id = o.order_id
        AND other.provider_object = m.provider_object AND other.state = 'voided') THEN 'captured_after_refusal' END
    WHERE operation_id = p_operation;
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations SET state = 'done', answer = p_answer, due_at = NULL, claimed_until = NULL,
                              attention = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'paid', updated_at = clock_timestamp() WHERE order_id = o.order_id AND state = 'confirmed'
  RETURNING * INTO v_paid;
  IF FOUND THEN PERFORM order_happened(v_paid, 'order.confirmed', jsonb_build_object('operation', p_operation)); END IF;
  PERFORM order_note(o.order_id, 'capture', o.state, 'paid', jsonb_build_object('operation', p_operation));
  RETURN money_result('captured', p_operation);
END $$;

-- What was captured for the order: its amount, unless an operator accepted less.
CREATE FUNCTION order_taken(o orders) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT m.amount FROM money_operations m WHERE m.order_id = o.order_id AND m.kind = 'capture' AND m.state = 'done'),
                  o.amount)
$$;

-- As in 0015, but never more than what is left of the order's money (order_left, 0028). p_pays false: the tickets are cancelled and
-- no money leaves, because it is back with the buyer already.
DROP FUNCTION refund_make(uuid, uuid, uuid, text, text, text, text, text, uuid[], text, bigint, text, integer, boolean, text, integer);
CREATE FUNCTION refund_make(
  p_refund uuid, p_order uuid, p_operation uuid, p_key text, p_request_key text, p_request text, p_actor text, p_reason text,
  p_tickets uuid[], p_fees text, p_goodwill bigint, p_seats text, p_step integer, p_cancellation boolean, p_owner text,
  p_lease_ms integer, p_pays boolean DEFAULT true)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; r refunds; v_named orders;
  v_wanted uuid[]; v_seat_nos integer[]; v_unknown uuid[];
  v_prices bigint; v_fees bigint; v_valid integer; v_left bigint; v_fee_given bigint;
  v_all boolean;
  v_seats jsonb := '[]';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  v_named := o;
  PERFORM order_lock_limits(o.event_no, o.account, o.instrument ->> 'fingerprint');
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF v_named.account <> o.account THEN
    PERFORM order_unname_limits(v_named.account, v_named.instrument ->> 'fingerprint', o);
  END IF;
  SELECT * INTO r FROM refunds WHERE order_id = p_order AND request_key = p_request_key;
  IF FOUND THEN
    IF r.request IS DISTINCT FROM p_request THEN RETURN '{"kind":"mismatch"}'; END IF;
    RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(o), 'refund', refund_json(r), 'seats', v_seats);
  END IF;
  -- Of an order whose tickets were all refunded, kept fees may still be given back as goodwill.
  IF o.state <> 'paid' AND NOT (o.state = 'cancelled' AND coalesce(p_tickets = '{}', false) AND EXISTS (
       SELECT 1 FROM refunds WHERE order_id = p_order)) THEN
    RETURN jsonb_build_object('kind', 'not_paid', 'order', order_json(o));
  END IF;

  SELECT array_agg(t.ticket_id ORDER BY t.seat_no), array_agg(t.seat_no ORDER BY t.seat_no),
         coalesce(sum(t.price), 0), coalesce(sum(t.fee), 0)
  INTO v_wanted, v_seat_nos, v_prices, v_fees
  FROM tickets t
  WHERE t.event_no = o.event_no AND t.order_id = p_order AND t.status = 'sold'
    AND (p_tickets IS NULL OR t.ticket_id = ANY (p_tickets));
  v_wanted := coalesce(v_wanted, '{}');
  v_unknown := ARRAY(SELECT u FROM unnest(p_tickets) u WHERE NOT u = ANY (v_wanted));
  IF v_unknown <> '{}' THEN RETURN jsonb_build_object('kind', 'not_valid', 'tickets', v_unknown); END IF;
  SELECT count(*) INTO v_valid FROM tickets WHERE event_no = o.event_no AND order_id = p_order AND status = 'sold';
  v_all := v_wanted <> '{}' AND cardinality(v_wanted) = v_valid;
  SELECT order_left(o), coalesce(sum(order_fee), 0) INTO v_left, v_fee_given
  FROM refunds WHERE order_id = p_order;

  r.refund_id := p_refund; r.order_id := p_order; r.event_no := o.event_no; r.cancellation := p_cancellation;
  r.request_key := p_request_key; r.request := p_request; r.actor := p_actor; r.reason := p_reason; r.currency := o.currency;
  r.fees_kept := CASE WHEN p_fees = 'kept' THEN v_fees ELSE 0 END;
  r.order_fee := CASE WHEN p_fees = 'returned' AND v_all THEN o.order_fee - v_fee_given ELSE 0 END;
  r.amount := v_prices + v_fees - r.fees_kept + r.order_fee + p_goodwill;
  r.amount := r.amount + (p_step - r.amount % p_step) % p_step;
  IF p_goodwill = 0 THEN r.amount := least(r.amount, v_left); END IF;
  IF NOT p_pays THEN r.amount := 0; END IF;
  r.goodwill := r.amount - (v_prices + v_fees - r.fees_kept + r.order_fee);
  IF r.amount > v_left THEN RETURN jsonb_build_object('kind', 'too_much', 'amount', r.amount, 'most', v_left); END IF;
  IF r.amount = 0 AND v_wanted = '{}' THEN RETURN '{"kind":"nothing"}'; END IF;
  r.state := CASE WHEN r.amount = 0 THEN 'done' ELSE 'open' END;
  r.created_at := clock_timestamp(); r.updated_at := r.created_at; r.checks := 0;

  INSERT INTO refunds SELECT r.*;
  INSERT INTO refund_tickets (event_no, ticket_id, refund_id) SELECT o.event_no, u, p_refund FROM unnest(v_wanted) u;
  IF r.amount > 0 THEN PERFORM refund_attempt(r, o, p_operation, p_key, p_owner, p_lease_ms); END IF;
  IF v_wanted <> '{}' THEN
    UPDATE tickets SET status = 'cancelled', revoked_at = r.created_at, changed_at = r.created_at
    WHERE event_no = o.event_no AND ticket_id = ANY (v_wanted);
    PERFORM order_count_limits(o, -cardinality(v_wanted));
    IF v_all THEN
      UPDATE orders SET state = 'cancelled', reason = CASE WHEN p_cancellation THEN 'event_cancelled' ELSE 'refunded' END,
                        updated_at = r.created_at
      WHERE order_id = p_order;
    END IF;
    v_seats := refund_seats(o, v_seat_nos, CASE WHEN p_seats = 'block' THEN 'blocked' ELSE 'available' END, p_actor, p_reason);
  END IF;
  PERFORM order_note(p_order, CASE WHEN v_all THEN 'cancel' ELSE 'refund' END, o.state,
                     CASE WHEN v_all THEN 'cancelled' ELSE o.state END,
                     jsonb_build_object('refund', p_refund, 'tickets', v_wanted, 'amount', r.amount));
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF v_all THEN
    PERFORM order_happened(o, 'order.cancelled', jsonb_build_object('refund', p_refund, 'amount', r.amount, 'reason', o.reason));
  END IF;
  PERFORM order_happened(o, 'refund.created', jsonb_build_object('refund', p_refund, 'amount', r.amount, 'tickets', v_wanted));
  IF r.state = 'done' THEN
    PERFORM order_happened(o, 'refund.succeeded', jsonb_build_object('refund', p_refund, 'amount', 0, 'tickets', v_wanted));
  END IF;
  -- The event's cancelling has one entry for all of its orders.
  IF NOT p_cancellation THEN
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'refund', o.event_no, jsonb_build_object(
      'order', p_order, 'refund', p_refund, 'tickets', cardinality(v_wanted), 'amount', r.amount, 'goodwill', r.goodwill,
      'fees', p_fees, 'seats', p_seats, 'pays', p_pays, 'reason', p_reason));
  END IF;
  RETURN jsonb_build_object('kind', 'made', 'order', order_json(o), 'refund', refund_json(r), 'seats', v_seats,
    'operation', (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = p_operation));
END $$;

-- A refund that succeeded may still fail at the bank, days later: it is looked at again on these days after it succeeded.

ALTER TABLE refunds
  ADD COLUMN check_at timestamptz,           -- when the provider is asked again whether it stands; null: not any more
  ADD COLUMN checks   smallint NOT NULL DEFAULT 0;
CREATE INDEX refunds_check ON refunds (check_at) WHERE check_at IS NOT NULL;
-- The same for money that went back when an operation was ended, which has no row of `refunds`.
ALTER TABLE money_operations
  ADD COLUMN check_at timestamptz,
  ADD COLUMN checks   smallint NOT NULL DEFAULT 0;
CREATE INDEX money_operations_check ON money_operations (check_at) WHERE check_at IS NOT NULL;

-- The n-th look, after 1, 3, 7, 15 and 30 days; null: there is none.
CREATE FUNCTION refund_check_after(p_checks integer, p_done timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT p_done + (ARRAY[1, 3, 7, 15, 30])[p_checks + 1] * interval '1 day'
$$;
UPDATE refunds SET check_at = greatest(refund_check_after(0, updated_at), clock_timestamp())
WHERE state = 'done' AND amount > 0 AND updated_at > clock_timestamp() - interval '30 days';

-- Returns orders whose refunds have to be checked again. One that could not be checked comes again after an hour.
CREATE FUNCTION refund_checks_claim(p_limit integer) RETURNS SETOF uuid LANGUAGE sql AS $$
  WITH due AS (
    SELECT refund_id FROM refunds WHERE check_at <= clock_timestamp() ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
  claimed AS (
    UPDATE refunds r SET check_at = clock_timestamp() + interval '1 hour' FROM due WHERE r.refund_id = due.refund_id
    RETURNING r.order_id),
  due_ended AS (
    SELECT operation_id FROM money_operations WHERE check_at <= clock_timestamp() ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
  ended AS (
    UPDATE money_operations m SET check_at = clock_timestamp() + interval '1 hour' FROM due_ended d
    WHERE m.operation_id = d.operation_id RETURNING m.order_id)
  SELECT order_id FROM claimed UNION SELECT order_id FROM ended
$$;

-- The refunds of the order were checked.
CREATE FUNCTION refund_checked(p_order uuid) RETURNS void LANGUAGE sql AS $$
  UPDATE refunds SET checks = checks + 1, check_at = refund_check_after(checks + 1, updated_at)
  WHERE order_id = p_order AND check_at IS NOT NULL;
  UPDATE money_operations SET checks = checks + 1, check_at = refund_check_after(checks + 1, updated_at)
  WHERE order_id = p_order AND check_at IS NOT NULL
$$;

-- As 0015; one that succeeded is looked at again.
CREATE OR REPLACE FUNCTION refund_settle(p_operation uuid, p_state text, p_due_ms integer, p_answer jsonb, p_detail text, p_attention text,
  p_new_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations; r refunds;
  v_state text;
  v_rival boolean;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  SELECT * INTO r FROM refunds WHERE refund_id = m.refund_id;
  v_rival := EXISTS (SELECT 1 FROM money_operations other WHERE other.refund_id = m.refund_id
                     AND other.operation_id <> m.operation_id AND other.state <> 'refused');
  IF m.state = 'refused' AND p_state IN ('done','waiting') AND (v_rival OR r.state = 'elsewhere') THEN
    UPDATE money_operations SET attention = 'refunded_twice', answer = coalesce(p_answer, answer), updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
  ELSIF m.state IN ('open','waiting','unknown') OR (m.state = 'done' AND p_state = 'refused')
     OR (m.state = 'refused' AND p_state IN ('done','waiting')) THEN
    UPDATE money_operations
    SET state = p_state, answer = coalesce(p_answer, answer), attention = p_attention, claimed_until = NULL,
        due_at = CASE WHEN p_state IN ('unknown','waiting') THEN clock_timestamp() + p_due_ms * interval '1 millisecond' END,
        key = coalesce(p_new_key, key), first_sent_at = CASE WHEN p_new_key IS NULL THEN first_sent_at END,
        updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    v_state := CASE p_state WHEN 'waiting' THEN 'pending' WHEN 'refused' THEN 'failed' ELSE p_state END;
    UPDATE refunds
    SET state = v_state, detail = CASE WHEN v_state <> 'done' THEN p_detail END, updated_at = clock_timestamp(),
        checks = CASE WHEN v_state = 'done' THEN checks ELSE 0 END,
        check_at = CASE WHEN v_state = 'done' THEN refund_check_after(0, clock_timestamp()) END
    WHERE refund_id = m.refund_id;
    IF m.state <> p_state THEN
      PERFORM order_note(o.order_id, 'refund_' || v_state, o.state, o.state,
                         jsonb_build_object('refund', r.refund_id, 'operation', p_operation, 'detail', p_detail));
      IF v_state IN ('done','failed') THEN
        PERFORM order_happened(o, CASE v_state WHEN 'done' THEN 'refund.succeeded' ELSE 'refund.failed' END,
          jsonb_build_object('refund', r.refund_id, 'amount', r.amount, 'detail', p_detail));
      END IF;
    END IF;
  END IF;
  SELECT * INTO r FROM refunds WHERE refund_id = m.refund_id;
  RETURN jsonb_build_object('order', order_json(o), 'refund', refund_json(r),
    'operation', (SELECT operation_json(one) FROM money_operations one WHERE one.operation_id = p_operation));
END $$;

-- What keeps a cancelled event's run from ending, oldest first: payments and refunds that go on although the run has come by.
CREATE FUNCTION cancellation_waits(p_event integer, p_limit integer)
RETURNS TABLE ("order" uuid, operation uuid, kind text, state text, attention text, since timestamptz, total bigint)
LANGUAGE sql STABLE AS $$
  SELECT o.order_id, m.operation_id, m.kind, m.state, m.attention, m.created_at, count(*) OVER ()
  FROM orders o JOIN money_operations m USING (order_id)
  WHERE o.event_no = p_event AND m.due_at IS NOT NULL AND NOT (m.kind = 'refund' AND m.state = 'waiting')
    AND (m.attention IS NOT NULL OR (m.state IN ('unknown','ending') AND m.attempts > 2))
  ORDER BY m.created_at, m.operation_id LIMIT p_limit
$$;
