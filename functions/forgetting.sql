-- Forgetting a buyer: personal data leaves the record, bookkeeping stays (docs/decisions/0028). One call and one transaction per
-- buyer; anything under way refuses the whole call. docs/operating/exports-and-deletion.md lists every column.

-- Returns the replacement of a forgotten name: the same for the same name within one event and one call, so that limits still count
-- correctly. The salt is random and not stored, so the replacement cannot be traced back.
CREATE OR REPLACE FUNCTION forgotten_as(p_salt uuid, p_event integer, p_kind text, p_name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT 'forgotten:' || left(encode(sha256(convert_to(concat_ws('/', p_salt, p_event, p_kind, p_name), 'UTF8')), 'hex'), 32)
$$;

-- Returns the buyer's orders, ascending: by account, by the address as typed (orders of a platform's account have one too), or one
-- order alone (p_order) whose reserve never named an account. Reads the whole table: it is called rarely, and an index would cost
-- every reserve.
CREATE OR REPLACE FUNCTION buyer_orders(p_account text, p_email text, p_order uuid) RETURNS uuid[] LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(order_id ORDER BY order_id), '{}') FROM orders
  WHERE account = p_account OR (p_email <> '' AND lower(buyer ->> 'email') = lower(p_email)) OR order_id = p_order
$$;

-- Returns why an order's buyer cannot be forgotten yet, or null.
--   'under_way'         the order, or a call to the provider about it, is not settled
--   'refund_under_way'  money is on its way back, or will be given back because the event is cancelled
--   'refund_failed'     money is owed to the buyer
--   'on_the_list'       something about its money is on the operator's list
--   'mail_under_way'    a mail to the buyer is being sent now
--   'event_not_over'    it has valid tickets; p_nameless forgets the buyer all the same
CREATE OR REPLACE FUNCTION order_unforgettable(o orders, p_nameless boolean) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN o.state NOT IN ('paid','closed','cancelled') OR EXISTS (
      SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.kind <> 'refund'
        AND (m.state IN ('open','waiting','unknown','ending') OR m.due_at IS NOT NULL)) THEN 'under_way'
    WHEN EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.order_id AND r.state IN ('open','unknown','pending'))
      OR (o.state = 'paid' AND EXISTS (
        SELECT 1 FROM event_cancellations c WHERE c.event_no = o.event_no AND c.state = 'running')) THEN 'refund_under_way'
    WHEN EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.order_id AND r.state = 'failed') THEN 'refund_failed'
    WHEN EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.attention IS NOT NULL)
      OR EXISTS (SELECT 1 FROM reconcile_findings f WHERE f.settled_at IS NULL
                 AND (f.order_id = o.order_id OR f.object = o.provider_object)) THEN 'on_the_list'
    WHEN EXISTS (SELECT 1 FROM mails JOIN graphile_worker.jobs j ON j.key = 'mail/' || mail_id
                 WHERE mails.order_id = o.order_id AND j.locked_at IS NOT NULL) THEN 'mail_under_way'
    WHEN NOT p_nameless AND EXISTS (SELECT 1 FROM tickets t
                     WHERE t.event_no = o.event_no AND t.order_id = o.order_id AND t.status = 'sold')
      AND NOT (SELECT e.phase = 'cancelled' OR coalesce(e.performance_at < clock_timestamp() - interval '1 day', false)
               FROM events e WHERE e.event_no = o.event_no) THEN 'event_not_over' END
$$;

-- Locks all rows of the buyer in the common lock order. If the buyer orders meanwhile, the call fails and is retried.
CREATE OR REPLACE FUNCTION buyer_lock(p_account text, p_email text, p_order uuid) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  v_ids uuid[] := buyer_orders(p_account, p_email, p_order);
  v_cards text[] := ARRAY(SELECT DISTINCT instrument ->> 'fingerprint' FROM orders WHERE order_id = ANY (v_ids) ORDER BY 1);
BEGIN
  PERFORM 1 FROM limit_counts
  WHERE (kind = 'account' AND subject = p_account)
     OR (kind = 'instrument' AND subject = ANY (v_cards)
         AND event_no IN (SELECT event_no FROM orders WHERE order_id = ANY (v_ids)))
  ORDER BY event_no, kind, subject FOR UPDATE;
  PERFORM 1 FROM orders WHERE order_id = ANY (v_ids) ORDER BY order_id FOR UPDATE;
  PERFORM 1 FROM money_operations WHERE order_id = ANY (v_ids) ORDER BY operation_id FOR UPDATE;
  PERFORM 1 FROM holds h
  WHERE (h.event_no, h.hold_id) IN (SELECT event_no, hold_id FROM orders WHERE order_id = ANY (v_ids))
  ORDER BY h.event_no, h.hold_id FOR UPDATE;
  IF v_ids <> buyer_orders(p_account, p_email, p_order)
     OR v_cards <> ARRAY(SELECT DISTINCT instrument ->> 'fingerprint' FROM orders WHERE order_id = ANY (v_ids) ORDER BY 1) THEN
    RAISE serialization_failure USING MESSAGE = 'the buyer ordered meanwhile';
  END IF;
  RETURN v_ids;
END $$;

-- Limits stay counted, under the replacements of the names. A card may be shared: only this buyer's seats leave its count.
CREATE OR REPLACE FUNCTION forget_limits(p_ids uuid[], p_account text, p_salt uuid) RETURNS void LANGUAGE sql AS $$
  UPDATE limit_counts SET subject = forgotten_as(p_salt, event_no, 'account', subject)
  WHERE kind = 'account' AND subject = p_account;
  WITH his AS (
    SELECT o.event_no, o.instrument ->> 'fingerprint' AS card,
           sum(CASE WHEN o.state = 'paid' THEN cardinality(o.seats) - (SELECT count(*) FROM tickets t
             WHERE t.event_no = o.event_no AND t.order_id = o.order_id AND t.revoked_at IS NOT NULL) ELSE 0 END)::integer AS n
    FROM orders o WHERE o.order_id = ANY (p_ids) AND o.instrument ->> 'fingerprint' IS NOT NULL GROUP BY 1, 2
  ), less AS (
    UPDATE limit_counts c SET seats = c.seats - his.n FROM his
    WHERE c.event_no = his.event_no AND c.kind = 'instrument' AND c.subject = his.card RETURNING c.event_no, c.subject, his.n)
  INSERT INTO limit_counts (event_no, kind, subject, seats)
  SELECT event_no, 'instrument', forgotten_as(p_salt, event_no, 'card', subject), n FROM less;
  -- No other buyer's seats are counted under it.
  DELETE FROM limit_counts c USING orders o
  WHERE o.order_id = ANY (p_ids) AND c.event_no = o.event_no AND c.kind = 'instrument'
    AND c.subject = o.instrument ->> 'fingerprint' AND c.seats = 0;
$$;

-- Ends exceptions, because they name their buyer and a reason. Returns how many there were.
CREATE OR REPLACE FUNCTION forget_allowances(p_account text, p_visitors jsonb, p_salt uuid, p_actor text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_count integer;
  v_ids uuid[];
BEGIN
  WITH ended AS (
    UPDATE limit_allowances a
    SET account = CASE WHEN account = p_account THEN forgotten_as(p_salt, event_no, 'account', account) ELSE account END,
        visitor = coalesce(p_visitors ->> concat_ws('/', event_no, visitor), visitor), reason = '(forgotten)',
        ended_at = coalesce(ended_at, clock_timestamp()), ended_by = coalesce(ended_by, p_actor)
    WHERE account = p_account OR p_visitors ? concat_ws('/', event_no, visitor)
    RETURNING allowance_id)
  SELECT count(*), array_agg(allowance_id) INTO v_count, v_ids FROM ended;
  UPDATE audit_log SET detail = detail - 'reason'
  WHERE action = 'limits_allow' AND detail ->> 'allowance' = ANY (v_ids::text[]);
  RETURN v_count;
END $$;

-- Deletes mails in the local mailbox; owed mails and their jobs are no longer needed.
CREATE OR REPLACE FUNCTION forget_mails(p_ids uuid[], OUT letters integer, OUT dropped integer) LANGUAGE plpgsql AS $$
DECLARE
  v_mails text[] := ARRAY(SELECT mail_id FROM mails WHERE order_id = ANY (p_ids));
BEGIN
  DELETE FROM mailbox WHERE split_part(message_id, '@', 1) = ANY (v_mails);
  GET DIAGNOSTICS letters = ROW_COUNT;
  UPDATE mails SET state = 'not_needed', updated_at = clock_timestamp() WHERE order_id = ANY (p_ids) AND state = 'due';
  GET DIAGNOSTICS dropped = ROW_COUNT;
  -- Mail servers often repeat the address or a name in their messages.
  UPDATE mails SET last_error = NULL, detail = detail - 'detail' WHERE order_id = ANY (p_ids);
  DELETE FROM job_outbox WHERE key IN (SELECT 'mail/' || u FROM unnest(v_mails) u);
  PERFORM graphile_worker.remove_job(j.key) FROM graphile_worker.jobs j
  WHERE j.key IN (SELECT 'mail/' || u FROM unnest(v_mails) u);
END $$;

-- Removes free text about the orders by people or the provider, since it may name people. Codes, ids and sums stay. The event's own
-- reason for cancelling names no buyer. Returns how many texts there were.
CREATE OR REPLACE FUNCTION forget_words(p_ids uuid[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_ids text[] := p_ids::text[];
  v_objects text[] := ARRAY(SELECT provider_object FROM orders WHERE order_id = ANY (p_ids) AND provider_object IS NOT NULL);
  v_count integer;
  v_sum integer := 0;
BEGIN
  UPDATE blocks b SET reason = '(forgotten)'
  FROM refunds r JOIN refund_tickets rt USING (refund_id) JOIN tickets t ON t.event_no = rt.event_no AND t.ticket_id = rt.ticket_id
  WHERE r.order_id = ANY (p_ids) AND NOT r.cancellation AND b.event_no = t.event_no AND b.seat_no = t.seat_no AND b.reason = r.reason;
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE refunds SET reason = CASE WHEN cancellation THEN reason ELSE '(forgotten)' END, detail = NULL
  WHERE order_id = ANY (p_ids) AND (NOT cancellation OR detail IS NOT NULL);
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE order_history SET detail = detail - 'detail' - 'note'
  WHERE order_id = ANY (p_ids) AND detail ?| ARRAY['detail','note'];
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE audit_log SET detail = detail - 'reason' - 'note'
  WHERE (detail ->> 'order' = ANY (v_ids) OR detail ->> 'subject' = ANY (v_ids || v_objects)) AND detail ?| ARRAY['reason','note'];
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE reconcile_findings SET note = NULL
  WHERE (order_id = ANY (p_ids) OR object = ANY (v_objects)) AND note IS NOT NULL;
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  -- A later attempt of a delivery sends this body, which still describes the same step.
  UPDATE webhook_deliveries SET body = jsonb_set(body::jsonb, '{refund,reason}', '"(forgotten)"')::text
  WHERE body::jsonb #>> '{order,order}' = ANY (v_ids) AND body::jsonb #> '{refund,reason}' IS NOT NULL
    AND body::jsonb #>> '{refund,eventCancelled}' = 'false';
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_sum + v_count;
END $$;

-- Returns the browsers that only these orders name in their event, each with its replacement: "event/visitor" → text.
CREATE OR REPLACE FUNCTION forgettable_visitors(p_ids uuid[], p_salt uuid) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_object_agg(concat_ws('/', event_no, visitor), forgotten_as(p_salt, event_no, 'visitor', visitor)), '{}')
  FROM (SELECT event_no, visitor FROM orders WHERE order_id = ANY (p_ids)
        EXCEPT SELECT event_no, visitor FROM orders
        WHERE NOT order_id = ANY (p_ids)
          AND visitor = ANY (ARRAY(SELECT visitor FROM orders WHERE order_id = ANY (p_ids)))) his
$$;

-- Removes the buyer's names from ended holds, and the counts of how holds ended.
CREATE OR REPLACE FUNCTION forget_holds(p_ids uuid[], p_account text, p_visitors jsonb, p_salt uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE holds h
  SET visitor = coalesce(p_visitors ->> concat_ws('/', h.event_no, h.visitor), h.visitor),
      holder = CASE WHEN h.holder = p_account THEN forgotten_as(p_salt, h.event_no, 'account', h.holder)
                    ELSE coalesce(p_visitors ->> concat_ws('/', h.event_no, h.holder), h.holder) END
  WHERE h.state NOT IN ('live','ordered') AND (h.holder = p_account OR p_visitors ? concat_ws('/', h.event_no, h.visitor));
  DELETE FROM hold_ends WHERE account = p_account OR p_visitors ? concat_ws('/', event_no, visitor);
  PERFORM cooldown_lock();
  -- A cooldown in force goes on its own, at most a day after its last hold.
  DELETE FROM cooldowns
  WHERE (until IS NULL OR until < clock_timestamp())
    AND ((kind = 'account' AND subject = p_account) OR (kind = 'visitor' AND p_visitors ? concat_ws('/', event_no, subject)));
END $$;

-- Clears the orders themselves, last, because the other steps find the names in them.
CREATE OR REPLACE FUNCTION forget_orders(p_ids uuid[], p_account text, p_visitors jsonb, p_salt uuid) RETURNS void LANGUAGE sql AS $$
  UPDATE money_operations SET instrument = NULL,
    answer = answer - 'detail' #- '{view,instrument}' #- '{view,action}' #- '{refund,reason}'
  WHERE order_id = ANY (p_ids);
  UPDATE orders o SET
    buyer = '{"name":"","email":""}', forgotten_at = clock_timestamp(),
    account = CASE WHEN account = p_account THEN forgotten_as(p_salt, event_no, 'account', account) ELSE account END,
    holder = CASE WHEN holder = p_account THEN forgotten_as(p_salt, event_no, 'account', holder)
                  ELSE coalesce(p_visitors ->> concat_ws('/', event_no, holder), holder) END,
    visitor = coalesce(p_visitors ->> concat_ws('/', event_no, visitor), visitor),
    instrument = CASE WHEN instrument ->> 'fingerprint' IS NOT NULL THEN jsonb_build_object('brand', '', 'last4', '',
      'fingerprint', forgotten_as(p_salt, event_no, 'card', instrument ->> 'fingerprint')) END
  WHERE order_id = ANY (p_ids);
$$;

-- Returns what is kept because it has to be. docs/decisions/0028 gives the reasons.
CREATE OR REPLACE FUNCTION forgotten_kept(p_ids uuid[]) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'orders', cardinality(p_ids),
    'amounts', (SELECT coalesce(jsonb_agg(jsonb_build_object('currency', currency, 'paid', paid, 'refunded', refunded) ORDER BY currency), '[]')
      FROM (SELECT o.currency, sum(o.amount) FILTER (WHERE o.state = 'paid' OR r.amount IS NOT NULL) AS paid,
                   coalesce(sum(r.amount), 0) AS refunded
            FROM orders o LEFT JOIN (SELECT order_id, sum(amount) AS amount FROM refunds GROUP BY order_id) r USING (order_id)
            WHERE o.order_id = ANY (p_ids) GROUP BY o.currency
            HAVING bool_or(o.state = 'paid' OR r.amount IS NOT NULL)) sums),
    'tickets', (SELECT count(*) FROM tickets WHERE order_id = ANY (p_ids)),
    'validTickets', (SELECT count(*) FROM tickets JOIN orders o USING (order_id)
                     WHERE order_id = ANY (p_ids) AND status = 'sold' AND o.state = 'paid'),
    'refunds', (SELECT count(*) FROM refunds WHERE order_id = ANY (p_ids)),
    'entries', (SELECT count(*) FROM entries JOIN tickets USING (event_no, ticket_id) WHERE order_id = ANY (p_ids)),
    'auditEntries', (SELECT count(*) FROM audit_log WHERE detail ->> 'order' = ANY (p_ids::text[])),
    'payments', (SELECT coalesce(jsonb_agg(DISTINCT provider_object ORDER BY provider_object), '[]') FROM money_operations
                 WHERE order_id = ANY (p_ids) AND provider_object IS NOT NULL))
$$;

-- Forgets a buyer, or reports what that would do (p_dry: everything is done and rolled back).
--   p_account    as orders.account. p_email is the address as typed. p_order replaces both with the buyer of that order
--   p_nameless   includes orders with valid tickets for events to come
--   p_code_hash  of the code that confirms p_request by p_actor; null if no confirmation is needed
-- Returns {kind}: 'forgotten' with {orders, events, erased, kept} · 'refused' with {orders: [{order, event, why}]} and nothing changed
-- · 'nothing' (nothing, or nothing left, of such a buyer) · 'unknown_order' · 'not_confirmed'
CREATE OR REPLACE FUNCTION buyer_forget(p_account text, p_email text, p_order uuid, p_nameless boolean, p_actor text, p_code_hash text,
  p_request text, p_dry boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_account text := nullif(p_account, '');
  v_ids uuid[]; v_salt uuid := gen_random_uuid();
  v_refused jsonb; v_visitors jsonb; v_kept jsonb; v_report jsonb;
  v_allowances integer; v_words integer; v_mails record;
  v_traces bigint; v_cards bigint;
BEGIN
  IF p_order IS NOT NULL THEN
    SELECT nullif(account, '') INTO v_account FROM orders WHERE order_id = p_order;
    IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  END IF;
  v_ids := buyer_lock(v_account, p_email, p_order);
  SELECT jsonb_agg(jsonb_build_object('order', u.order_id, 'event', e.event_id, 'why', u.why) ORDER BY u.order_id) INTO v_refused
  FROM (SELECT o.order_id, o.event_no, order_unforgettable(o, p_nameless) AS why FROM orders o
        WHERE o.order_id = ANY (v_ids) AND o.forgotten_at IS NULL) u JOIN events e USING (event_no)
  WHERE u.why IS NOT NULL;
  IF v_refused IS NOT NULL THEN RETURN jsonb_build_object('kind', 'refused', 'orders', v_refused); END IF;
  -- Replacements are not forgotten again, but an order may still name the account of a platform.
  IF v_account LIKE 'forgotten:%' THEN v_account := NULL; END IF;
  v_ids := ARRAY(SELECT order_id FROM orders
                 WHERE order_id = ANY (v_ids) AND (forgotten_at IS NULL OR account = v_account) ORDER BY order_id);
  SELECT count(*) INTO v_traces FROM (
    SELECT FROM limit_counts WHERE kind = 'account' AND subject = v_account
    UNION ALL SELECT FROM limit_allowances WHERE account = v_account
    UNION ALL SELECT FROM hold_ends WHERE account = v_account
    UNION ALL SELECT FROM holds WHERE holder = v_account AND state NOT IN ('live','ordered')
    UNION ALL SELECT FROM cooldowns WHERE kind = 'account' AND subject = v_account AND (until IS NULL OR until < clock_timestamp())) t;
  IF v_ids = '{}' AND v_traces = 0 THEN RETURN '{"kind":"nothing"}'; END IF;
  IF p_code_hash IS NOT NULL THEN
    DELETE FROM confirmations
    WHERE code_hash = p_code_hash AND act = 'forget_buyer' AND request = p_request AND actor = p_actor AND expires_at > clock_timestamp();
    IF NOT FOUND THEN RETURN '{"kind":"not_confirmed"}'; END IF;
  END IF;
  BEGIN
    v_kept := forgotten_kept(v_ids);
    SELECT count(DISTINCT instrument ->> 'fingerprint') INTO v_cards FROM orders WHERE order_id = ANY (v_ids);
    v_visitors := forgettable_visitors(v_ids, v_salt);
    PERFORM forget_limits(v_ids, v_account, v_salt);
    v_allowances := forget_allowances(v_account, v_visitors, v_salt, p_actor);
    v_mails := forget_mails(v_ids);
    v_words := forget_words(v_ids);
    PERFORM forget_holds(v_ids, v_account, v_visitors, v_salt);
    PERFORM forget_orders(v_ids, v_account, v_visitors, v_salt);
    v_report := jsonb_build_object('kind', 'forgotten', 'orders', v_ids,
      'events', ARRAY(SELECT DISTINCT event_id FROM orders JOIN events USING (event_no) WHERE order_id = ANY (v_ids) ORDER BY 1),
      'erased', jsonb_build_object('buyers', cardinality(v_ids), 'browsers', (SELECT count(*) FROM jsonb_object_keys(v_visitors)),
        'cards', v_cards, 'letters', v_mails.letters, 'mailsOwed', v_mails.dropped, 'exceptions', v_allowances,
        'words', v_words, 'counts', v_traces),
      'kept', v_kept);
    INSERT INTO audit_log (actor, action, detail) VALUES (p_actor, 'forget_buyer', v_report - 'kind' - 'kept');
    IF p_dry THEN RAISE EXCEPTION USING ERRCODE = 'OSDRY', MESSAGE = 'undone', DETAIL = v_report::text; END IF;
  EXCEPTION WHEN SQLSTATE 'OSDRY' THEN
    GET STACKED DIAGNOSTICS v_report = PG_EXCEPTION_DETAIL;
  END;
  RETURN v_report;
END $$;
