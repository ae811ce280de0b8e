-- Money that leaves a payment without us: refunds that somebody made at the provider, and disputes of the buyer's bank. Lock order
-- as everywhere: order → money operations → seats by number. Times in json are epoch milliseconds.

CREATE TABLE reversals (
  reversal_id text PRIMARY KEY,              -- the provider's id of the refund or the dispute
  kind        text NOT NULL CHECK (kind IN ('refund','dispute')),
  order_id    uuid NOT NULL REFERENCES orders,
  object      text NOT NULL,                 -- the payment
  amount      bigint NOT NULL,
  currency    char(3) NOT NULL,
  -- A refund is 'pending', 'done' or 'failed'; a dispute 'open', 'won' or 'lost'.
  state       text NOT NULL CHECK (state IN ('pending','done','failed','open','won','lost')),
  -- Minor units of the order's currency that can no longer be refunded: 0 for a failed refund and a dispute that was won.
  taken       bigint NOT NULL CHECK (taken >= 0),
  detail      jsonb NOT NULL DEFAULT '{}',   -- the provider's status, reason and fee, and until when it can be answered
  created_at  timestamptz NOT NULL,          -- by the provider's clock
  seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX reversals_order ON reversals (order_id);
CREATE INDEX reversals_open ON reversals (object) WHERE state IN ('pending','open');

CREATE FUNCTION reversal_json(v reversals) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('reversal', v.reversal_id, 'kind', v.kind, 'order', v.order_id, 'object', v.object,
    'amount', v.amount, 'currency', v.currency, 'state', v.state, 'taken', v.taken, 'detail', v.detail,
    'createdAt', epoch_ms(v.created_at), 'updatedAt', epoch_ms(v.updated_at))
$$;

-- One finding, seen now. What an operator took off the list stays off it while nothing else is said of it; one subject has one
-- fault at a time.
CREATE FUNCTION finding_put(p_kind text, p_subject text, p_order uuid, p_object text, p_says text, p_detail jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO reconcile_findings (kind, subject, order_id, object, says, detail)
  SELECT p_kind, p_subject, p_order, p_object, p_says, p_detail
  WHERE NOT EXISTS (SELECT 1 FROM reconcile_findings s WHERE s.subject = p_subject AND s.kind = p_kind AND s.says = p_says
                    AND s.settled_by <> 'reconcile')
  ON CONFLICT (kind, subject) WHERE settled_at IS NULL DO UPDATE
    SET last_seen_at = clock_timestamp(), says = excluded.says, detail = excluded.detail, order_id = excluded.order_id;
  UPDATE reconcile_findings SET settled_at = clock_timestamp(), settled_by = 'reconcile'
  WHERE subject = p_subject AND kind <> p_kind AND settled_at IS NULL;
END $$;

-- What the provider shows of an order's payment: p_seen as [{reversal, kind, object, reference, amount, currency, state, taken,
-- detail, createdAt, finding, says}]. Refunds that carry the reference of one of our operations are ours and are left out. What is
-- new or has changed goes into the order's history, the audit log and the operator's list. Returns what changed.
CREATE FUNCTION reversals_record(p_order uuid, p_seen jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; s record; v reversals;
  v_before text;
  v_changed jsonb := '[]';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  FOR s IN
    SELECT x.* FROM jsonb_to_recordset(p_seen) AS x (reversal text, kind text, object text, reference text, amount bigint,
      currency text, state text, taken bigint, detail jsonb, "createdAt" double precision, finding text, says text)
    WHERE NOT EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = p_order AND m.operation_id::text = x.reference)
    ORDER BY x."createdAt", x.reversal
  LOOP
    SELECT r.state INTO v_before FROM reversals r WHERE r.reversal_id = s.reversal;
    INSERT INTO reversals AS r (reversal_id, kind, order_id, object, amount, currency, state, taken, detail, created_at)
    VALUES (s.reversal, s.kind, p_order, s.object, s.amount, s.currency, s.state, s.taken, s.detail,
            to_timestamp(s."createdAt" / 1000))
    ON CONFLICT (reversal_id) DO UPDATE
      SET state = excluded.state, taken = excluded.taken, amount = excluded.amount, detail = excluded.detail,
          updated_at = clock_timestamp()
      WHERE r.order_id = p_order AND (r.state, r.taken, r.amount, r.detail)
            IS DISTINCT FROM (excluded.state, excluded.taken, excluded.amount, excluded.detail)
    RETURNING * INTO v;
    CONTINUE WHEN NOT FOUND;
    PERFORM finding_put(s.finding, s.reversal, p_order, s.object, s.says, reversal_json(v));
    CONTINUE WHEN v_before = v.state;
    PERFORM order_note(p_order, s.kind || '_at_provider', o.state, o.state, reversal_json(v));
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES ('provider', s.finding, o.event_no, jsonb_build_object(
      'order', p_order, 'reversal', s.reversal, 'amount', s.amount, 'currency', s.currency, 'state', s.state));
    v_changed := v_changed || reversal_json(v);
  END LOOP;
  IF v_changed <> '[]' THEN
    PERFORM job_enqueue('figures', jsonb_build_object('event', o.event_no), 'figures/' || o.event_no, 5000);
  END IF;
  RETURN v_changed;
END $$;

-- The operator's decision about a finding: {action, actor, at}. It and its work are one step, so that a step that fails leaves none.
ALTER TABLE reconcile_findings ADD COLUMN decision jsonb;
UPDATE reconcile_findings f SET decision = jsonb_build_object('actor', settled_by, 'at', epoch_ms(settled_at), 'action',
  CASE WHEN EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = f.order_id AND r.request_key = 'finding-' || f.finding_id)
       THEN 'cancel_tickets' ELSE 'dismiss' END)
WHERE settled_by <> 'reconcile';

-- Takes a finding off the list. It comes back when something else is found about the same subject. 'repeated': this decision was
-- taken before; 'not_possible': another one was, or the worker has ended it; 'unknown': there is no such finding.
DROP FUNCTION reconcile_settle(bigint, text, text);
CREATE FUNCTION finding_decide(p_finding bigint, p_action text, p_actor text, p_note text) RETURNS text LANGUAGE plpgsql AS $$
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

-- Decides that the tickets of the finding's order are cancelled, and cancels them by a refund that pays nothing. Locks: limit rows,
-- order, finding, then as refund_make.
CREATE FUNCTION finding_cancel_tickets(p_finding bigint, p_refund uuid, p_actor text, p_note text) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- What can still be given back of an order's money: nothing twice, and only what was captured and is still there. A refund that
-- failed, or was paid by other means, and a refund made at the provider may be the same money: the larger sum counts.
CREATE FUNCTION order_left(o orders) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT greatest(0, order_taken(o) - r.decided - greatest(r.replaced, v.refunded) - v.disputed)::bigint
  FROM (SELECT coalesce(sum(amount) FILTER (WHERE state NOT IN ('failed','elsewhere')), 0) AS decided,
               coalesce(sum(amount) FILTER (WHERE state IN ('failed','elsewhere')), 0) AS replaced
        FROM refunds WHERE order_id = o.order_id) r,
       (SELECT coalesce(sum(taken) FILTER (WHERE kind = 'refund'), 0) AS refunded,
               coalesce(sum(taken) FILTER (WHERE kind <> 'refund'), 0) AS disputed
        FROM reversals WHERE order_id = o.order_id) v
$$;

-- As in 0015, but 'gone_back' while a refund made at the provider may be what replaces this one: the same money would be paid
-- twice. The operator settles it as paid by other means.
CREATE OR REPLACE FUNCTION refund_retry(p_refund uuid, p_operation uuid, p_key text, p_actor text, p_owner text, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; r refunds; v_elsewhere bigint;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM refunds WHERE refund_id = p_refund) FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_refund"}'; END IF;
  SELECT * INTO r FROM refunds WHERE refund_id = p_refund;
  IF r.state <> 'failed' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  v_elsewhere := (SELECT coalesce(sum(taken), 0) FROM reversals WHERE order_id = o.order_id AND kind = 'refund')
    - (SELECT coalesce(sum(amount), 0) FROM refunds
       WHERE order_id = o.order_id AND refund_id <> p_refund AND state IN ('failed','elsewhere'));
  IF v_elsewhere > 0 THEN
    RETURN jsonb_build_object('kind', 'gone_back', 'order', order_json(o), 'refund', refund_json(r));
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

-- As in 0015, with what is left of each order's money.
CREATE OR REPLACE FUNCTION cancellation_preview(p_event integer, p_fees text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'orders', count(*) FILTER (WHERE o.state IN ('confirmed','paid')),
    'tickets', coalesce(sum(t.n) FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'amount', coalesce(sum(least(order_left(o),
                t.prices + CASE WHEN p_fees = 'returned' THEN t.fees + o.order_fee - coalesce(f.given, 0) ELSE 0 END))
              FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'unpaidOrders', count(*) FILTER (WHERE o.state IN ('reserved','authorised','voiding')),
    'currency', (SELECT currency FROM events WHERE event_no = p_event))
  FROM orders o
    LEFT JOIN (SELECT order_id, count(*) AS n, sum(price) AS prices, sum(fee) AS fees FROM tickets
               WHERE event_no = p_event AND status = 'sold' GROUP BY order_id) t USING (order_id)
    LEFT JOIN (SELECT order_id, sum(order_fee) AS given FROM refunds
               WHERE event_no = p_event GROUP BY order_id) f USING (order_id)
  WHERE o.event_no = p_event AND o.state IN ('reserved','authorised','voiding','confirmed','paid')
$$;

-- As in 0021, with what went back without us.
CREATE OR REPLACE FUNCTION sales_figures_refresh(p_event integer) RETURNS sales_figures LANGUAGE sql AS $$
  WITH sold AS (
    SELECT s.category, t.kind, count(*) AS tickets, sum(t.price) AS prices, sum(t.fee) AS fees
    FROM tickets t JOIN event_seats s ON s.event_no = t.event_no AND s.seat_no = t.seat_no
    WHERE t.event_no = p_event AND t.status = 'sold' GROUP BY 1, 2),
  placed AS (SELECT state, count(*) AS n FROM orders WHERE event_no = p_event GROUP BY 1),
  moved AS (
    SELECT coalesce(sum(m.amount) FILTER (WHERE m.kind = 'capture'), 0) AS taken,
           coalesce(sum(m.amount) FILTER (WHERE m.kind = 'refund'), 0) AS given
    FROM money_operations m JOIN orders o USING (order_id)
    WHERE o.event_no = p_event AND m.state = 'done' AND m.kind IN ('capture','refund')),
  back AS (
    SELECT coalesce(sum(amount) FILTER (WHERE state = 'elsewhere'), 0) AS elsewhere,
           coalesce(sum(amount) FILTER (WHERE state NOT IN ('done','elsewhere')), 0) AS owed
    FROM refunds WHERE event_no = p_event),
  reversed AS (
    SELECT coalesce(sum(v.taken), 0) AS taken FROM reversals v JOIN orders o USING (order_id) WHERE o.event_no = p_event),
  counted AS (
    SELECT jsonb_build_object(
      'orders', (SELECT coalesce(jsonb_object_agg(state, n), '{}') FROM placed),
      'sold', (SELECT coalesce(jsonb_agg(jsonb_build_object('category', category, 'kind', kind, 'tickets', tickets,
                 'prices', prices, 'fees', fees) ORDER BY category, kind), '[]') FROM sold),
      'taken', moved.taken, 'refunded', moved.given + back.elsewhere + reversed.taken, 'owed', back.owed) AS figures
    FROM moved, back, reversed)
  INSERT INTO sales_figures AS f (event_no, at, figures)
  SELECT p_event, statement_timestamp(), figures FROM counted
  ON CONFLICT (event_no) DO UPDATE SET
    figures = CASE WHEN excluded.at > f.at THEN excluded.figures ELSE f.figures END,
    at = greatest(excluded.at, f.at)
  RETURNING f.*
$$;

-- As in 0013, with the types of the events.
DROP FUNCTION provider_events_claim(text, integer, integer);
CREATE FUNCTION provider_events_claim(p_owner text, p_limit integer, p_lease_ms integer)
RETURNS TABLE (object text, "order" uuid, events text[], types text[], attempts integer, "ageMs" double precision) LANGUAGE sql AS $$
  WITH longest AS (
    -- A bounded number, so that a flood is not read as a whole for each handful of it.
    SELECT e.object, e.due_at FROM provider_events e
    WHERE e.due_at <= clock_timestamp() AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
    ORDER BY e.due_at LIMIT 1000),
  due AS (SELECT l.object FROM longest l GROUP BY l.object ORDER BY min(l.due_at) LIMIT p_limit),
  mine AS (
    SELECT e.provider_event_id FROM provider_events e JOIN due USING (object)
    WHERE e.due_at IS NOT NULL AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
    ORDER BY e.provider_event_id FOR UPDATE OF e SKIP LOCKED),
  claimed AS (
    UPDATE provider_events e
    SET claimed_by = p_owner, claimed_until = clock_timestamp() + p_lease_ms * interval '1 millisecond',
        due_at = clock_timestamp() + p_lease_ms * interval '1 millisecond', attempts = e.attempts + 1
    FROM mine WHERE e.provider_event_id = mine.provider_event_id
    RETURNING e.*)
  SELECT c.object,
         coalesce((SELECT o.order_id FROM orders o WHERE o.provider_object = c.object),
                  (SELECT m.order_id FROM money_operations m WHERE m.provider_object = c.object LIMIT 1)),
         array_agg(c.provider_event_id ORDER BY c.received_at, c.provider_event_id), array_agg(DISTINCT c.type), max(c.attempts),
         (extract(epoch FROM clock_timestamp() - min(c.received_at)) * 1000)::double precision
  FROM claimed c GROUP BY c.object ORDER BY min(c.received_at)
$$;

-- Refunds and disputes of the account are listed by their own creation: what a lost event would have told. One row a kind.
CREATE TABLE provider_listings (
  kind          text PRIMARY KEY CHECK (kind IN ('refund','dispute')),
  listed_to     timestamptz NOT NULL,        -- everything that was created before was seen
  from_at       timestamptz,                 -- the window being listed, and where its next page begins
  to_at         timestamptz,
  cursor        text,
  counts        jsonb NOT NULL DEFAULT '{}', -- of the window being listed, or of the last one
  owner         text,
  claimed_until timestamptz,
  finished_at   timestamptz
);
INSERT INTO provider_listings (kind, listed_to)
SELECT kind, clock_timestamp() - interval '30 days' FROM unnest(ARRAY['refund','dispute']) kind;

-- The listing that is due, claimed: one that was left off, else a new window p_every_ms after the last one. It reaches p_back_ms
-- behind what was listed, for what the provider's list shows late.
CREATE FUNCTION provider_listing_due(p_owner text, p_every_ms double precision, p_back_ms double precision, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  l provider_listings;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO l FROM provider_listings
  WHERE (claimed_until IS NULL OR claimed_until <= v_now OR owner = p_owner)
    AND (to_at IS NOT NULL OR finished_at IS NULL OR finished_at <= v_now - p_every_ms * interval '1 millisecond')
  ORDER BY kind LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE provider_listings
  SET owner = p_owner, claimed_until = v_now + p_lease_ms * interval '1 millisecond',
      from_at = coalesce(from_at, listed_to - p_back_ms * interval '1 millisecond'), to_at = coalesce(to_at, v_now),
      counts = CASE WHEN to_at IS NULL THEN '{}' ELSE counts END
  WHERE kind = l.kind RETURNING * INTO l;
  RETURN jsonb_build_object('kind', l.kind, 'from', epoch_ms(l.from_at), 'to', epoch_ms(l.to_at), 'cursor', l.cursor,
                            'counts', l.counts);
END $$;

-- A page was seen. p_cursor NULL: it was the last. False: the listing is another's by now.
CREATE FUNCTION provider_listing_page(p_kind text, p_owner text, p_cursor text, p_counts jsonb, p_lease_ms integer)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE provider_listings
  SET cursor = p_cursor,
      counts = counts || (SELECT coalesce(jsonb_object_agg(key, coalesce((counts ->> key)::bigint, 0) + value::bigint), '{}')
                          FROM jsonb_each_text(p_counts)),
      claimed_until = CASE WHEN p_cursor IS NOT NULL THEN clock_timestamp() + p_lease_ms * interval '1 millisecond' END,
      listed_to = CASE WHEN p_cursor IS NULL THEN to_at ELSE listed_to END,
      finished_at = CASE WHEN p_cursor IS NULL THEN clock_timestamp() ELSE finished_at END,
      from_at = CASE WHEN p_cursor IS NOT NULL THEN from_at END,
      to_at = CASE WHEN p_cursor IS NOT NULL THEN to_at END
  WHERE kind = p_kind AND owner = p_owner AND to_at IS NOT NULL;
  RETURN FOUND;
END $$;

-- How the provider takes each process's calls, over its last seconds; read by the leaders, who admit fewer people while it refuses
-- calls. Unlogged: worth nothing after a crash.
CREATE UNLOGGED TABLE provider_signals (
  owner       text PRIMARY KEY,
  measured_at timestamptz NOT NULL,
  calls       integer NOT NULL,
  refused     integer NOT NULL               -- because they were too many a second
);

-- Findings about payments of the account that are not ours: they are not on the list any more.
UPDATE reconcile_findings SET settled_at = clock_timestamp(), settled_by = 'reconcile'
WHERE kind = 'no_reference' AND settled_at IS NULL;
CREATE INDEX provider_events_foreign ON provider_events (received_at) WHERE note = 'foreign';
