-- What buyers are told and what they can cause: one look at the provider a gap whoever asks, a cancelled order whose reservation
-- is still being lifted, mails about money and seats that were lost afterwards, and hold ids that stay used up once they led to
-- an order.

-- A look that somebody asks for before the operation is due: one in a gap that doubles, for all processes and tabs together.
ALTER TABLE money_operations
  ADD COLUMN asked_times integer NOT NULL DEFAULT 0,  -- looks before due so far
  ADD COLUMN asked_until timestamptz;                 -- no further one before this

-- Claims the named operation for a look: when it is due, or before that if p_by may ask. 'buyer': only while the buyer's bank is
-- waited for, since nothing else changes because the buyer asks. 'provider': the provider says that something happened.
-- Looks before due are spaced by a gap that doubles from half a second to 20 s, so the first one after the return from the bank is immediate.
CREATE FUNCTION money_ask(p_owner text, p_lease_ms integer, p_operation uuid, p_by text) RETURNS SETOF jsonb LANGUAGE sql AS $$
  WITH mine AS (
    SELECT operation_id, clock_timestamp() AS at, due_at > clock_timestamp() AS early FROM money_operations
    WHERE operation_id = p_operation AND due_at IS NOT NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
      AND (due_at <= clock_timestamp()
        OR ((p_by = 'provider' OR state = 'waiting') AND (asked_until IS NULL OR asked_until <= clock_timestamp())))
    FOR UPDATE SKIP LOCKED)
  UPDATE money_operations m
  SET claimed_by = p_owner, claimed_until = mine.at + p_lease_ms * interval '1 millisecond',
      due_at = mine.at + p_lease_ms * interval '1 millisecond',
      attempts = attempts + 1, first_sent_at = coalesce(first_sent_at, mine.at),
      asked_times = CASE WHEN mine.early THEN asked_times + 1 ELSE asked_times END,
      asked_until = CASE WHEN mine.early THEN mine.at + least(20, 0.5 * 2 ^ least(asked_times, 10)) * interval '1 second'
                         ELSE asked_until END
  FROM mine WHERE m.operation_id = mine.operation_id
  RETURNING operation_json(m)
$$;

-- Closes an unpaid order. Loses to a money operation under way; 'not_paid_in_time' only after the deadline. A buyer who cancels
-- while the bank waits for them, or while the payment is being ended already, is not kept waiting: the order is 'voiding', its
-- seats are free, and the reservation is cancelled by the operation's own row, which the caller has claimed ('operation'; null:
-- another process is at it). An opening that got no answer has no object, so nothing can be authorised on it.
DROP FUNCTION order_close(uuid, text, text);
CREATE FUNCTION order_close(p_order uuid, p_reason text, p_end_key text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_mine boolean;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  IF o.state IN ('closed','cancelled') THEN
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', '[]'::jsonb);
  END IF;
  IF o.state <> 'reserved' THEN RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o)); END IF;
  IF p_reason = 'not_paid_in_time' AND clock_timestamp() < o.payment_deadline THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(o));
  END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending') FOR UPDATE;
  IF m.operation_id IS NULL THEN
    v_seats := order_end(o, 'close', 'closed', p_reason, p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF p_reason = 'closed_by_buyer' AND m.kind = 'open' AND m.state IN ('unknown','ending') AND m.provider_object IS NULL THEN
    UPDATE money_operations SET state = 'voided', due_at = NULL, claimed_until = NULL, updated_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
    v_seats := order_end(o, 'close', 'closed', p_reason, p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF p_reason <> 'closed_by_buyer' OR m.state NOT IN ('waiting','ending') THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(o));
  END IF;
  v_mine := m.state = 'waiting' OR m.claimed_until IS NULL OR m.claimed_until <= clock_timestamp();
  IF m.state = 'waiting' THEN
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = p_reason, attempts = 1, first_sent_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
  ELSE
    -- Whatever ended it before: money that comes now buys nothing any more.
    UPDATE money_operations SET end_reason = p_reason WHERE operation_id = m.operation_id;
  END IF;
  IF v_mine THEN
    UPDATE money_operations
    SET due_at = v_until, claimed_by = p_owner, claimed_until = v_until, updated_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
  END IF;
  v_seats := order_end(o, 'close_pending', 'voiding', p_reason, NULL);
  RETURN money_result('voiding', m.operation_id, v_seats) || CASE WHEN v_mine THEN '{}' ELSE '{"operation":null}'::jsonb END;
END $$;

-- As in 0005. After an opening that was refused, the next one waits for a gap that doubles from 2 s to 10 s: until then the refused
-- one is the answer, so that a client cannot have the provider asked as often as it likes.
CREATE OR REPLACE FUNCTION money_begin(
  p_operation uuid, p_order uuid, p_kind text, p_key text, p_client_key text, p_request text, p_instrument jsonb,
  p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_order orders;
  v_operation money_operations;
  v_until timestamptz;
  v_refused record;
BEGIN
  SELECT * INTO v_order FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  SELECT * INTO v_operation FROM money_operations WHERE order_id = p_order AND client_key = p_client_key;
  IF FOUND THEN
    IF v_operation.request IS DISTINCT FROM p_request THEN RETURN '{"kind":"mismatch"}'; END IF;
    RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(v_order), 'operation', operation_json(v_operation));
  END IF;
  IF v_order.state <> 'reserved' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(v_order));
  END IF;
  SELECT * INTO v_operation FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending');
  IF FOUND THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(v_order), 'operation', operation_json(v_operation));
  END IF;
  IF p_kind = 'open' THEN
    SELECT count(*) OVER () AS times, m.* INTO v_refused FROM money_operations m
    -- `|| ''`: by the order's index, never by that of all openings.
    WHERE order_id = p_order AND kind || '' = 'open' AND state = 'refused' ORDER BY created_at DESC LIMIT 1;
    IF FOUND AND clock_timestamp() < v_refused.first_sent_at + least(10, 2 ^ v_refused.times) * interval '1 second' THEN
      RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(v_order), 'operation',
        (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = v_refused.operation_id));
    END IF;
  END IF;
  IF clock_timestamp() >= v_order.payment_deadline THEN
    RETURN jsonb_build_object('kind', 'too_late', 'order', order_json(v_order), 'reason', 'not_paid_in_time');
  END IF;
  IF (SELECT phase FROM events WHERE event_no = v_order.event_no) = 'cancelled' THEN
    RETURN jsonb_build_object('kind', 'too_late', 'order', order_json(v_order), 'reason', 'event_cancelled');
  END IF;
  IF p_kind = 'open' AND v_order.provider_object IS NOT NULL THEN
    RETURN jsonb_build_object('kind', 'opened', 'order', order_json(v_order));
  END IF;
  v_until := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, client_key, request, instrument, provider_object,
                                amount, currency, attempts, first_sent_at, due_at, claimed_by, claimed_until, created_at)
  VALUES (p_operation, p_order, p_kind, 'open', p_key, p_client_key, p_request, p_instrument, v_order.provider_object,
          v_order.amount, v_order.currency, 1, clock_timestamp(), v_until, p_owner, v_until, clock_timestamp())
  RETURNING * INTO v_operation;
  PERFORM order_note(p_order, 'begin_' || p_kind, v_order.state, v_order.state, jsonb_build_object('operation', p_operation));
  RETURN jsonb_build_object('kind', 'begun', 'order', order_json(v_order), 'operation', operation_json(v_operation));
END $$;

-- As in 0019. A refund that failed is the operator's to fix, and its buyer hears of it only if a mail said before that it had been
-- given back. A refund that goes through after such a failure is said again: the id counts the mails of the other kind.
CREATE OR REPLACE FUNCTION order_mail_owed(o orders, p_what text, p_detail jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_other integer;
  v_mail uuid;
BEGIN
  IF o.forgotten_at IS NOT NULL THEN RETURN; END IF;
  SELECT count(*) INTO v_other FROM mails
  WHERE order_id = o.order_id AND copy_of IS NULL AND detail ->> 'refund' = p_detail ->> 'refund'
    AND what = CASE p_what WHEN 'refund.succeeded' THEN 'refund.failed' WHEN 'refund.failed' THEN 'refund.succeeded' END;
  IF p_what = 'refund.failed' AND v_other = 0 THEN RETURN; END IF;
  v_mail := md5(concat_ws('/', o.order_id, p_what, coalesce(p_detail ->> 'refund', p_detail ->> 'operation'),
                          nullif(v_other, 0)))::uuid;
  INSERT INTO mails (mail_id, order_id, what, detail) VALUES (v_mail, o.order_id, p_what, coalesce(p_detail, '{}'))
  ON CONFLICT DO NOTHING;
  IF FOUND THEN PERFORM job_enqueue('mail', jsonb_build_object('mail', v_mail), 'mail/' || v_mail); END IF;
END $$;

-- Hold ids that led to an order stay used up: a key that comes again years later must not hold new seats under the id of an old
-- order. 'ended' (its order was sold or closed) is therefore a memory without an end. Where the row is gone (the partition was in
-- Redis, or the memory is from before this), the order itself says so.

CREATE OR REPLACE FUNCTION hold_due(p_state text, p_deadline timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_state WHEN 'live' THEN p_deadline WHEN 'ordered' THEN NULL WHEN 'ended' THEN NULL
                      ELSE p_deadline + interval '15 minutes' END
$$;
-- Its entries are from the function as it was.
DROP INDEX holds_due;
CREATE INDEX holds_due ON holds (hold_due(state, deadline));

CREATE OR REPLACE FUNCTION hold_is_forgotten(h holds, p_now timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT h.state NOT IN ('ordered','ended') AND h.deadline + arbiter_life_max() <= p_now
$$;

-- (plpgsql, for its cached plan.)
CREATE FUNCTION hold_led_to_order(p_hold uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM orders WHERE hold_id = p_hold) OR EXISTS (SELECT FROM orders WHERE former_hold_id = p_hold);
END $$;

-- As in 0009; an id that led to an order is used up although its row is gone.
CREATE OR REPLACE FUNCTION arbiter_past(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_request text) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  h holds;
BEGIN
  SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = p_hold;
  IF NOT FOUND THEN
    IF hold_led_to_order(p_hold) THEN RETURN arbiter_say('hold_gone'); END IF;
    RETURN NULL;
  END IF;
  IF hold_is_forgotten(h, arbiter_now()) THEN
    DELETE FROM holds WHERE event_no = p_event AND hold_id = p_hold AND hold_is_forgotten(holds, arbiter_now());
    RETURN NULL;
  END IF;
  IF h.visitor <> p_visitor OR h.partition <> p_partition THEN RETURN arbiter_say('mismatch'); END IF;
  IF h.state = 'tombstone' THEN RETURN arbiter_say('hold_gone'); END IF;
  IF h.request <> p_request AND h.request <> '' THEN RETURN arbiter_say('mismatch'); END IF;
  IF hold_stands(h, p_epoch, arbiter_now()) THEN RETURN arbiter_say_hold('granted', h, true); END IF;
  RETURN arbiter_say('hold_gone');
END $$;

-- As in 0009; a hold that is given back because its order was closed is a memory without an end, too.
CREATE OR REPLACE FUNCTION arbiter_release(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_force uuid) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  answer arbiter_answer;
  v_now timestamptz;
  v_seats integer[];
  h holds;
BEGIN
  answer := arbiter_gate(p_event, p_partition, p_epoch, p_grace => true);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  LOOP
    SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
    v_now := arbiter_now();
    IF FOUND AND hold_is_forgotten(h, v_now) THEN
      DELETE FROM holds WHERE event_no = p_event AND hold_id = p_hold;
    ELSIF FOUND THEN
      EXIT;
    END IF;
    INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
    VALUES (p_event, p_hold, p_partition, p_visitor, p_visitor, '', '{}', v_now, v_now, p_epoch, 0, 'tombstone')
    ON CONFLICT DO NOTHING;
    -- Not inserted: the claim that it overtook has just been granted.
    IF FOUND THEN RETURN arbiter_say('hold_gone'); END IF;
  END LOOP;
  IF h.partition <> p_partition OR h.visitor <> p_visitor THEN RETURN arbiter_say('hold_gone'); END IF;
  v_seats := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.state = 'available' AND s.hold_id = p_hold
    ORDER BY s.seat_no FOR NO KEY UPDATE);
  v_now := arbiter_now();
  IF h.state <> 'ordered' AND NOT hold_is_live(h, p_epoch, v_now) THEN RETURN arbiter_say('hold_gone'); END IF;
  IF h.order_id <> p_force OR (h.order_id IS NOT NULL AND p_force IS NULL) THEN
    RETURN arbiter_say('bound', p_order => h.order_id);
  END IF;
  UPDATE holds SET state = CASE WHEN order_id IS NOT NULL THEN 'ended' ELSE 'released' END,
                   deadline = CASE state WHEN 'ordered' THEN deadline ELSE v_now END
   WHERE event_no = p_event AND hold_id = p_hold;
  IF h.deadline <= v_now OR h.epoch <> p_epoch THEN v_seats := '{}'; END IF;
  UPDATE seats s SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL
   WHERE s.event_no = p_event AND s.seat_no = ANY(v_seats);
  RETURN arbiter_say('released', v_seats);
END $$;
