-- Refunds of an order or of some of its tickets, and the cancelling of an event. A refund is decided once, in one step with the
-- tickets that it cancels; each attempt to give the money back is a money operation with a key of its own (P5). Lock order as
-- everywhere: event lock → limit rows → order → money operations → seats by number. Times in json are epoch milliseconds.

-- amount = prices of its tickets + their fees − fees_kept + order_fee + goodwill (src/core/money-due.ts has the rule).
CREATE TABLE refunds (
  refund_id    uuid PRIMARY KEY,
  order_id     uuid NOT NULL REFERENCES orders,
  event_no     integer NOT NULL REFERENCES events,
  cancellation boolean NOT NULL DEFAULT false, -- of the event's cancelling
  request_key  text,                         -- the organiser's Idempotency-Key…
  request      text,                         -- …and the hash of what came with it
  actor        text NOT NULL,
  reason       text NOT NULL,
  fees_kept    bigint NOT NULL,              -- of its tickets' fees: not given back
  order_fee    bigint NOT NULL,              -- of the order's fee: given back
  -- On top, what rounding to a sum that can be paid adds included. Negative: goodwill that was given before is counted
  -- towards it, because no more is left.
  goodwill     bigint NOT NULL,
  amount       bigint NOT NULL,
  currency     char(3) NOT NULL,
  -- Of the last attempt: 'pending': accepted, the provider or the bank is at it. 'failed': the money is still owed.
  -- 'elsewhere': given back by other means than the provider.
  state        text NOT NULL CHECK (state IN ('open','unknown','pending','done','failed','elsewhere')),
  detail       text,                         -- why it waits or failed, in the provider's words; how it was given back elsewhere
  retry_asked  timestamptz,                  -- failed, and to be tried again by the event's run
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK (fees_kept >= 0 AND order_fee >= 0 AND amount >= 0)
);
CREATE UNIQUE INDEX refunds_request ON refunds (order_id, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX refunds_event ON refunds (event_no, state);
CREATE INDEX refunds_order ON refunds (order_id, created_at);

-- A ticket is refunded once.
CREATE TABLE refund_tickets (
  event_no  integer NOT NULL,
  ticket_id uuid NOT NULL,
  refund_id uuid NOT NULL REFERENCES refunds,
  PRIMARY KEY (event_no, ticket_id)
);
CREATE INDEX refund_tickets_refund ON refund_tickets (refund_id);

ALTER TABLE money_operations ADD COLUMN refund_id uuid REFERENCES refunds;
CREATE INDEX money_refund ON money_operations (refund_id) WHERE refund_id IS NOT NULL;
-- One attempt of a refund that is under way or done; refunds run beside each other.
CREATE UNIQUE INDEX money_one_refund ON money_operations (refund_id) WHERE refund_id IS NOT NULL AND state <> 'refused';
DROP INDEX money_one_under_way;
CREATE UNIQUE INDEX money_one_under_way ON money_operations (order_id)
  WHERE state IN ('open','waiting','unknown','ending') AND kind <> 'refund';

-- When a sold ticket's code stopped being valid. Tickets of orders that were never paid have no code and no revocation.
ALTER TABLE tickets ADD COLUMN revoked_at timestamptz;

CREATE FUNCTION refund_json(r refunds) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'refund', r.refund_id, 'order', r.order_id, 'eventNo', r.event_no, 'cancellation', r.cancellation, 'actor', r.actor,
    'reason', r.reason, 'feesKept', r.fees_kept, 'orderFee', r.order_fee, 'goodwill', r.goodwill, 'amount', r.amount,
    'currency', r.currency, 'state', r.state, 'detail', r.detail,
    'tickets', (SELECT coalesce(jsonb_agg(t.ticket_id ORDER BY t.ticket_id), '[]') FROM refund_tickets t WHERE t.refund_id = r.refund_id),
    'attempts', (SELECT count(*) FROM money_operations m WHERE m.refund_id = r.refund_id),
    'createdAt', epoch_ms(r.created_at), 'updatedAt', epoch_ms(r.updated_at))
$$;

-- The tickets' seats leave the order: free for the next buyer, or blocked with a reason. Answers the decided seats.
CREATE FUNCTION refund_seats(o orders, p_seats integer[], p_state text, p_actor text, p_reason text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_decided jsonb;
BEGIN
  PERFORM 1 FROM seats WHERE event_no = o.event_no AND seat_no = ANY (p_seats) ORDER BY seat_no FOR UPDATE;
  WITH changed AS (
    UPDATE seats s SET state = p_state, version = s.version + 1, order_id = NULL
    WHERE s.event_no = o.event_no AND s.seat_no = ANY (p_seats) AND s.order_id = o.order_id
    RETURNING s.seat_no, s.version
  ), noted AS (
    INSERT INTO blocks (event_no, seat_no, reason, actor)
    SELECT o.event_no, c.seat_no, p_reason, p_actor FROM changed c WHERE p_state = 'blocked')
  SELECT coalesce(jsonb_agg(jsonb_build_object('seat', seat_no, 'version', version, 'state', p_state) ORDER BY seat_no), '[]')
  INTO v_decided FROM changed;
  RETURN v_decided;
END $$;

-- The attempt's row, before its call (P5). p_owner NULL: due at once for whoever looks first.
CREATE FUNCTION refund_attempt(r refunds, o orders, p_operation uuid, p_key text, p_owner text, p_lease_ms integer)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, attempts,
                                first_sent_at, due_at, claimed_by, claimed_until, created_at, refund_id)
  SELECT p_operation, o.order_id, 'refund', 'open', p_key, o.provider_object, r.amount, r.currency,
         CASE WHEN p_owner IS NULL THEN 0 ELSE 1 END, CASE WHEN p_owner IS NOT NULL THEN now_ END,
         CASE WHEN p_owner IS NULL THEN now_ ELSE until END, p_owner, CASE WHEN p_owner IS NOT NULL THEN until END, now_, r.refund_id
  FROM (SELECT clock_timestamp() AS now_, clock_timestamp() + p_lease_ms * interval '1 millisecond' AS until) at
$$;

-- Decides a refund: which tickets are cancelled, what is given back, and that their codes are revoked, limits given back and
-- seats free or blocked, all in the step that also writes the first attempt. Only of a paid order, so never beside a capture.
--   p_tickets  NULL: all that are valid. '{}': none, a sum of goodwill alone
--   p_fees     'returned': the tickets' fees too, and the order's when no ticket stays valid. 'kept': neither
--   p_goodwill more than is left is refused; without it at most what is left is given back, which earlier goodwill made less
--   p_step     an amount is given back only in multiples of it (minor units); what rounding up adds counts as goodwill
CREATE FUNCTION refund_make(
  p_refund uuid, p_order uuid, p_operation uuid, p_key text, p_request_key text, p_request text, p_actor text, p_reason text,
  p_tickets uuid[], p_fees text, p_goodwill bigint, p_seats text, p_step integer, p_cancellation boolean, p_owner text,
  p_lease_ms integer)
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
  SELECT o.amount - coalesce(sum(amount), 0), coalesce(sum(order_fee), 0) INTO v_left, v_fee_given
  FROM refunds WHERE order_id = p_order;

  r.refund_id := p_refund; r.order_id := p_order; r.event_no := o.event_no; r.cancellation := p_cancellation;
  r.request_key := p_request_key; r.request := p_request; r.actor := p_actor; r.reason := p_reason; r.currency := o.currency;
  r.fees_kept := CASE WHEN p_fees = 'kept' THEN v_fees ELSE 0 END;
  r.order_fee := CASE WHEN p_fees = 'returned' AND v_all THEN o.order_fee - v_fee_given ELSE 0 END;
  r.amount := v_prices + v_fees - r.fees_kept + r.order_fee + p_goodwill;
  r.amount := r.amount + (p_step - r.amount % p_step) % p_step;
  IF p_goodwill = 0 THEN r.amount := least(r.amount, v_left); END IF;
  r.goodwill := r.amount - (v_prices + v_fees - r.fees_kept + r.order_fee);
  IF r.amount > v_left THEN RETURN jsonb_build_object('kind', 'too_much', 'amount', r.amount, 'most', v_left); END IF;
  IF r.amount = 0 AND v_wanted = '{}' THEN RETURN '{"kind":"nothing"}'; END IF;
  r.state := CASE WHEN r.amount = 0 THEN 'done' ELSE 'open' END;
  r.created_at := clock_timestamp(); r.updated_at := r.created_at;

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
      'fees', p_fees, 'seats', p_seats, 'reason', p_reason));
  END IF;
  RETURN jsonb_build_object('kind', 'made', 'order', order_json(o), 'refund', refund_json(r), 'seats', v_seats,
    'operation', (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = p_operation));
END $$;

-- A further attempt of a refund that failed, with a key of its own.
CREATE FUNCTION refund_retry(p_refund uuid, p_operation uuid, p_key text, p_actor text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; r refunds;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM refunds WHERE refund_id = p_refund) FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_refund"}'; END IF;
  SELECT * INTO r FROM refunds WHERE refund_id = p_refund;
  IF r.state <> 'failed' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  UPDATE refunds SET state = 'open', detail = NULL, retry_asked = NULL, updated_at = clock_timestamp()
  WHERE refund_id = p_refund RETURNING * INTO r;
  PERFORM refund_attempt(r, o, p_operation, p_key, p_owner, p_lease_ms);
  PERFORM order_note(o.order_id, 'refund_retry', o.state, o.state, jsonb_build_object('refund', p_refund, 'operation', p_operation));
  IF p_actor IS NOT NULL THEN
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (p_actor, 'refund_retry', o.event_no, jsonb_build_object('order', o.order_id, 'refund', p_refund, 'amount', r.amount));
  END IF;
  RETURN jsonb_build_object('kind', 'retried', 'order', order_json(o), 'refund', refund_json(r),
    'operation', (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = p_operation));
END $$;

-- What failed was given back by other means (cash, a bank transfer): nothing more is owed, nothing more is tried.
CREATE FUNCTION refund_elsewhere(p_refund uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; r refunds;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM refunds WHERE refund_id = p_refund) FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_refund"}'; END IF;
  UPDATE refunds SET state = 'elsewhere', detail = p_note, retry_asked = NULL, updated_at = clock_timestamp()
  WHERE refund_id = p_refund AND state = 'failed' RETURNING * INTO r;
  IF NOT FOUND THEN
    SELECT * INTO r FROM refunds WHERE refund_id = p_refund;
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  PERFORM order_note(o.order_id, 'refund_elsewhere', o.state, o.state, jsonb_build_object('refund', p_refund, 'note', p_note));
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'refund_elsewhere', o.event_no,
    jsonb_build_object('order', o.order_id, 'refund', p_refund, 'amount', r.amount, 'note', p_note));
  RETURN jsonb_build_object('kind', 'elsewhere', 'order', order_json(o), 'refund', refund_json(r));
END $$;

-- What is known of an attempt. 'done' may become 'refused' (the bank sent the money back) and 'refused' 'done' (it had gone
-- through after all), unless another attempt is under way or done: then the operator is told. A repeat changes nothing.
--   p_due_ms   when to look next, for 'unknown' and 'waiting'
--   p_new_key  replaces a key that cannot be sent again, after the provider's list has shown that nothing was done under it
CREATE FUNCTION refund_settle(p_operation uuid, p_state text, p_due_ms integer, p_answer jsonb, p_detail text, p_attention text,
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
    UPDATE refunds SET state = v_state, detail = CASE WHEN v_state <> 'done' THEN p_detail END, updated_at = clock_timestamp()
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

-- Tickets whose codes are not valid any more; all of a cancelled event's, whether or not its run has come to them.
CREATE FUNCTION revoked_tickets(p_event integer) RETURNS TABLE (ticket uuid, revoked_at timestamptz) LANGUAGE sql STABLE AS $$
  SELECT t.ticket_id, coalesce(t.revoked_at, t.changed_at)
  FROM tickets t JOIN events e USING (event_no)
  WHERE t.event_no = p_event AND (t.revoked_at IS NOT NULL OR (t.status = 'sold' AND e.phase = 'cancelled'))
  ORDER BY 2, 1
$$;

-- An act that has to be confirmed: what was shown, and the hash of the code that a second request has to bring.
CREATE TABLE confirmations (
  code_hash  text PRIMARY KEY,
  act        text NOT NULL,
  event_no   integer NOT NULL REFERENCES events,
  request    text NOT NULL,                  -- hash of what was asked for: another wish needs another code
  actor      text NOT NULL,
  shown      jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at    timestamptz
);

-- The cancelling of an event: one row, and a run over its orders that anybody may carry on who holds the claim.
CREATE TABLE event_cancellations (
  event_no      integer PRIMARY KEY REFERENCES events,
  actor         text NOT NULL,
  reason        text NOT NULL,
  fees          text NOT NULL CHECK (fees IN ('returned','kept')),
  seats         text NOT NULL CHECK (seats IN ('release','block')),
  per_second    double precision NOT NULL CHECK (per_second > 0),
  tokens        double precision NOT NULL DEFAULT 1,
  refilled_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  state         text NOT NULL DEFAULT 'running' CHECK (state IN ('running','done')),
  claimed_by    text,
  claimed_until timestamptz,
  started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at   timestamptz
);

-- What cancelling would do now.
CREATE FUNCTION cancellation_preview(p_event integer, p_fees text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'orders', count(*) FILTER (WHERE o.state IN ('confirmed','paid')),
    'tickets', coalesce(sum(t.n) FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'amount', coalesce(sum(least(o.amount - coalesce(f.refunded, 0),
                t.prices + CASE WHEN p_fees = 'returned' THEN t.fees + o.order_fee - coalesce(f.given, 0) ELSE 0 END))
              FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'unpaidOrders', count(*) FILTER (WHERE o.state IN ('reserved','authorised','voiding')),
    'currency', (SELECT currency FROM events WHERE event_no = p_event))
  FROM orders o
    LEFT JOIN (SELECT order_id, count(*) AS n, sum(price) AS prices, sum(fee) AS fees FROM tickets
               WHERE event_no = p_event AND status = 'sold' GROUP BY order_id) t USING (order_id)
    LEFT JOIN (SELECT order_id, sum(order_fee) AS given, sum(amount) AS refunded FROM refunds
               WHERE event_no = p_event GROUP BY order_id) f USING (order_id)
  WHERE o.event_no = p_event AND o.state IN ('reserved','authorised','voiding','confirmed','paid')
$$;

-- Closes the sale for good and begins the run, if the code was given out for this very wish. Takes the event lock alone, so
-- that nothing granted under the old phase commits afterwards. Holds end; where Redis has them the run ends them there.
CREATE FUNCTION event_cancel(p_event integer, p_actor text, p_code_hash text, p_request text, p_reason text, p_fees text,
  p_seats text, p_per_second double precision) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  e events%ROWTYPE;
  v_holds uuid[];
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT * INTO e FROM events WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND OR e.published_at IS NULL AND e.phase = 'draft' THEN RETURN '{"kind":"not_published"}'; END IF;
  IF EXISTS (SELECT 1 FROM event_cancellations WHERE event_no = p_event) THEN RETURN '{"kind":"already"}'; END IF;
  UPDATE confirmations SET used_at = clock_timestamp()
  WHERE code_hash = p_code_hash AND act = 'cancel_event' AND event_no = p_event AND request = p_request AND actor = p_actor
    AND used_at IS NULL AND expires_at > clock_timestamp();
  IF NOT FOUND THEN RETURN '{"kind":"not_confirmed"}'; END IF;
  INSERT INTO event_cancellations (event_no, actor, reason, fees, seats, per_second)
  VALUES (p_event, p_actor, p_reason, p_fees, p_seats, p_per_second);
  IF e.phase <> 'cancelled' THEN
    UPDATE events SET phase = 'cancelled', version = version + 1 WHERE event_no = p_event;
  END IF;
  v_holds := ARRAY(SELECT hold_id FROM holds WHERE event_no = p_event AND state = 'live' ORDER BY hold_id FOR UPDATE);
  UPDATE holds SET state = 'released', deadline = least(deadline, clock_timestamp())
  WHERE event_no = p_event AND hold_id = ANY (v_holds);
  PERFORM 1 FROM seats WHERE event_no = p_event AND hold_id = ANY (v_holds) ORDER BY seat_no FOR UPDATE;
  UPDATE seats SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL WHERE event_no = p_event AND hold_id = ANY (v_holds);
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'cancel_event', p_event, jsonb_build_object(
    'from', e.phase, 'reason', p_reason, 'fees', p_fees, 'seats', p_seats, 'perSecond', p_per_second,
    'shown', (SELECT shown FROM confirmations WHERE code_hash = p_code_hash)));
  RETURN jsonb_build_object('kind', 'started', 'holds', cardinality(v_holds));
END $$;

-- Whose turn it is, and for which orders, at most as many as the rate allows (over all workers): paid ones, unpaid ones that
-- nothing is under way for or that wait for somebody, and refunds that are to be tried again. Orders with a call in flight come
-- up again when it has ended. Nothing left and nothing under way: the run is done.
CREATE FUNCTION cancellation_next(p_event integer, p_owner text, p_lease_ms integer, p_most integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  c event_cancellations;
  v_now timestamptz := clock_timestamp();
  v_most integer;
  v_orders uuid[]; v_retries uuid[] := '{}';
BEGIN
  SELECT * INTO c FROM event_cancellations
  WHERE event_no = p_event AND state = 'running' AND (claimed_by = p_owner OR claimed_until IS NULL OR claimed_until <= v_now)
  FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN '{"kind":"not_mine"}'; END IF;
  -- At most what one second allows is saved up, and at least one order.
  c.tokens := least(greatest(c.per_second, 1), c.tokens + c.per_second * extract(epoch FROM v_now - c.refilled_at));
  v_most := least(p_most, floor(c.tokens)::integer);
  v_orders := ARRAY(SELECT order_id FROM orders o WHERE event_no = p_event AND (state = 'paid' OR (state = 'reserved'
      AND NOT EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.state IN ('open','ending'))))
    ORDER BY created_at LIMIT v_most);
  v_retries := ARRAY(SELECT refund_id FROM refunds WHERE event_no = p_event AND state = 'failed' AND retry_asked IS NOT NULL
    ORDER BY retry_asked LIMIT v_most - cardinality(v_orders));
  IF v_most > 0 AND cardinality(v_orders) + cardinality(v_retries) = 0
     AND NOT EXISTS (SELECT 1 FROM orders WHERE event_no = p_event AND state NOT IN ('closed','cancelled'))
     AND NOT EXISTS (SELECT 1 FROM refunds WHERE event_no = p_event AND state IN ('open','unknown'))
     AND NOT EXISTS (SELECT 1 FROM money_operations m JOIN orders o USING (order_id)
                     WHERE o.event_no = p_event AND m.state IN ('open','waiting','unknown','ending') AND m.kind <> 'refund') THEN
    UPDATE event_cancellations SET state = 'done', finished_at = v_now, claimed_until = NULL WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (c.actor, 'cancel_event_done', p_event, cancellation_counts(p_event));
    RETURN '{"kind":"done"}';
  END IF;
  UPDATE event_cancellations
  SET tokens = c.tokens - cardinality(v_orders) - cardinality(v_retries), refilled_at = v_now, claimed_by = p_owner,
      claimed_until = v_now + p_lease_ms * interval '1 millisecond'
  WHERE event_no = p_event;
  RETURN jsonb_build_object('kind', 'next', 'orders', v_orders, 'retries', v_retries,
                            'currency', (SELECT currency FROM events WHERE event_no = p_event));
END $$;

-- One order of a cancelled event: a paid one is refunded, an unpaid one closed. One whose payment waits or is unknown is being
-- ended: the reconciler asks the provider for its last word. 'left': a call is in flight, or nothing is left to do.
CREATE FUNCTION cancellation_order(p_order uuid, p_refund uuid, p_operation uuid, p_key text, p_end_key text, p_step integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; c event_cancellations; m money_operations;
  v_seats jsonb;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  SELECT * INTO c FROM event_cancellations WHERE event_no = o.event_no;
  IF c.event_no IS NULL THEN RETURN '{"kind":"left"}'; END IF;
  IF o.state = 'paid' THEN
    RETURN refund_make(p_refund, p_order, p_operation, p_key, NULL, NULL, c.actor, c.reason, NULL, c.fees, 0, c.seats, p_step,
                       true, NULL, 0);
  END IF;
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF o.state <> 'reserved' THEN RETURN '{"kind":"left"}'; END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending') AND kind <> 'refund' FOR UPDATE;
  IF m.operation_id IS NULL THEN
    v_seats := order_end(o, 'close', 'closed', 'event_cancelled', p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF m.state NOT IN ('waiting','unknown') OR m.claimed_until > clock_timestamp() THEN RETURN '{"kind":"left"}'; END IF;
  UPDATE money_operations
  SET state = 'ending', end_key = p_end_key, end_reason = 'event_cancelled', due_at = clock_timestamp(), claimed_until = NULL,
      attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
  WHERE operation_id = m.operation_id;
  PERFORM order_note(p_order, m.kind || '_ending', o.state, o.state,
                     jsonb_build_object('operation', m.operation_id, 'reason', 'event_cancelled'));
  RETURN '{"kind":"ending"}';
END $$;

-- How far it has come: orders and minor units by outcome.
CREATE FUNCTION cancellation_counts(p_event integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'refunds', (SELECT coalesce(jsonb_object_agg(state, jsonb_build_object('refunds', n, 'amount', amount)), '{}')
                FROM (SELECT state, count(*) AS n, sum(amount) AS amount FROM refunds
                      WHERE event_no = p_event AND cancellation GROUP BY state) r),
    'earlier', (SELECT coalesce(jsonb_object_agg(state, jsonb_build_object('refunds', n, 'amount', amount)), '{}')
                FROM (SELECT state, count(*) AS n, sum(amount) AS amount FROM refunds
                      WHERE event_no = p_event AND NOT cancellation GROUP BY state) r),
    'closed', (SELECT count(*) FROM orders WHERE event_no = p_event AND state = 'closed' AND reason = 'event_cancelled'),
    'left', (SELECT count(*) FROM orders WHERE event_no = p_event AND state IN ('paid','confirmed')),
    'ending', (SELECT count(*) FROM orders WHERE event_no = p_event AND state IN ('reserved','authorised','voiding')))
$$;

CREATE FUNCTION cancellation_json(c event_cancellations) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'eventNo', c.event_no, 'actor', c.actor, 'reason', c.reason, 'fees', c.fees, 'seats', c.seats, 'perSecond', c.per_second,
    'state', c.state, 'startedAt', epoch_ms(c.started_at), 'finishedAt', epoch_ms(c.finished_at),
    'currency', (SELECT currency FROM events WHERE event_no = c.event_no)) || cancellation_counts(c.event_no)
$$;

-- All of the event's failed refunds are to be tried again, at the run's rate. Answers how many; null: no cancelling.
CREATE FUNCTION cancellation_retry(p_event integer, p_actor text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_count integer;
BEGIN
  PERFORM 1 FROM event_cancellations WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE refunds SET retry_asked = clock_timestamp() WHERE event_no = p_event AND state = 'failed' AND retry_asked IS NULL;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count > 0 THEN
    UPDATE event_cancellations SET state = 'running', finished_at = NULL WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (p_actor, 'cancel_event_retry', p_event, jsonb_build_object('refunds', v_count));
  END IF;
  RETURN v_count;
END $$;
