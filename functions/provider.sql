-- The provider's side: the inbox of its events, its listings, the comparison with the record, and money that leaves a payment without
-- us (refunds made at the provider, disputes). Lock order: limit rows → order → money operations → seats by number.

-- Returns what was captured for the order: its amount, unless an operator accepted less.
CREATE OR REPLACE FUNCTION order_taken(o orders) RETURNS bigint LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT coalesce((SELECT m.amount FROM money_operations m WHERE m.order_id = o.order_id AND m.kind = 'capture' AND m.state = 'done'),
                  o.amount)
$$;

-- Returns how much of the money that went back at the provider refunds stand for that an operator settled as paid by other means. A
-- settled refund stands for money that was seen before it was settled, at most for its amount; money that a failed refund may stand
-- for is left to that one.
CREATE OR REPLACE FUNCTION order_settled_there(p_order uuid) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  r record; v_there bigint := 0; v_all bigint; v_failed bigint;
BEGIN
  FOR r IN
    SELECT s.amount, (SELECT coalesce(sum(v.taken), 0) FROM reversals v
                      WHERE v.order_id = p_order AND v.kind = 'refund' AND v.seen_at <= s.updated_at) AS seen
    FROM refunds s WHERE s.order_id = p_order AND s.state = 'elsewhere' ORDER BY s.updated_at, s.refund_id
  LOOP
    v_there := v_there + greatest(0, least(r.amount, r.seen - v_there));
  END LOOP;
  IF v_there = 0 THEN RETURN 0; END IF;
  SELECT coalesce(sum(taken), 0) INTO v_all FROM reversals WHERE order_id = p_order AND kind = 'refund';
  SELECT coalesce(sum(amount), 0) INTO v_failed FROM refunds WHERE order_id = p_order AND state = 'failed';
  RETURN least(v_there, greatest(0, v_all - v_failed));
END $$;

-- Returns what can still be given back of the order's money: nothing twice, and only what was captured and is still there. A refund
-- that failed and a refund made at the provider may be the same money: the larger sum counts. A refund that was paid by other means
-- counts on its own, unless it stands for money that went back at the provider (order_settled_there).
CREATE OR REPLACE FUNCTION order_left(o orders) RETURNS bigint LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT greatest(0, order_taken(o) - r.decided - greatest(r.failed, v.refunded - order_settled_there(o.order_id)) - v.disputed)::bigint
  FROM (SELECT coalesce(sum(amount) FILTER (WHERE state <> 'failed'), 0) AS decided,
               coalesce(sum(amount) FILTER (WHERE state = 'failed'), 0) AS failed
        FROM refunds WHERE order_id = o.order_id) r,
       (SELECT coalesce(sum(taken) FILTER (WHERE kind = 'refund'), 0) AS refunded,
               coalesce(sum(taken) FILTER (WHERE kind <> 'refund'), 0) AS disputed
        FROM reversals WHERE order_id = o.order_id) v
$$;

-- Claims objects with due events, those that wait longest first, each with all of its events: a thousand events of one object cause
-- one look at it.
CREATE OR REPLACE FUNCTION provider_events_claim(p_owner text, p_limit integer, p_lease_ms integer)
RETURNS TABLE (object text, "order" uuid, events text[], types text[], attempts integer, "ageMs" double precision) LANGUAGE sql AS $$
  WITH longest AS (
    -- A bounded number, so that a flood of events is not read as a whole for each batch.
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

-- Deletes up to p_limit events that ended at least that long ago, oldest first, and returns how many. Events that are still being
-- looked at stay. Several calls may run at once.
CREATE OR REPLACE FUNCTION provider_events_clean(p_kept_ms double precision, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_deleted integer;
BEGIN
  DELETE FROM provider_events
  WHERE provider_event_id IN (
    SELECT provider_event_id FROM provider_events
    WHERE processed_at <= clock_timestamp() - p_kept_ms * interval '1 millisecond'
    ORDER BY processed_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_deleted = ROW_COUNT;
  RETURN v_deleted;
END $$;

-- Claims the listing that is due: one that was interrupted, or a new window p_every_ms after the last one. A window reaches p_back_ms
-- behind what was listed, because the provider's list may show entries late.
CREATE OR REPLACE FUNCTION provider_listing_due(p_owner text, p_every_ms double precision, p_back_ms double precision, p_lease_ms integer)
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

-- Records that a page was read. p_cursor null means that it was the last one. Returns false if another process has the listing.
CREATE OR REPLACE FUNCTION provider_listing_page(p_kind text, p_owner text, p_cursor text, p_counts jsonb, p_lease_ms integer)
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

CREATE OR REPLACE FUNCTION reversal_json(v reversals) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('reversal', v.reversal_id, 'kind', v.kind, 'order', v.order_id, 'object', v.object,
    'amount', v.amount, 'currency', v.currency, 'state', v.state, 'taken', v.taken, 'detail', v.detail,
    'createdAt', epoch_ms(v.created_at), 'updatedAt', epoch_ms(v.updated_at))
$$;

-- Records what the provider shows of an order's payment. Refunds that carry the reference of one of our operations are ours and are
-- left out. What is new or has changed goes into the order's history, the action log and the operator's list. Returns what changed.
--   p_seen  [{reversal, kind, object, reference, amount, currency, state, taken, detail, createdAt, finding, says}]
CREATE OR REPLACE FUNCTION reversals_record(p_order uuid, p_seen jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- Writes one finding that was seen now. A finding that an operator took off the list stays off while it is the same. One subject has
-- one fault at a time.
CREATE OR REPLACE FUNCTION finding_put(p_kind text, p_subject text, p_order uuid, p_object text, p_says text, p_detail jsonb)
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

CREATE OR REPLACE FUNCTION reconcile_run_json(r reconcile_runs) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('run', r.run_id, 'scheduled', r.scheduled, 'from', epoch_ms(r.from_at), 'to', epoch_ms(r.to_at),
    'step', r.step, 'cursor', r.cursor, 'counts', r.counts, 'startedAt', epoch_ms(r.started_at),
    'finishedAt', epoch_ms(r.finished_at))
$$;

-- Returns the scheduled run to work on: one that its owner left, or a new one if the last began p_every_ms ago. Returns null if none
-- is due. Payments younger than p_young_ms are still in progress and left to the next run.
CREATE OR REPLACE FUNCTION reconcile_run_due(p_owner text, p_every_ms integer, p_back_ms integer, p_young_ms integer, p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r reconcile_runs;
  v_now timestamptz := clock_timestamp();
BEGIN
  IF NOT pg_try_advisory_xact_lock(20261, 15) THEN RETURN NULL; END IF;
  SELECT * INTO r FROM reconcile_runs WHERE scheduled ORDER BY started_at DESC LIMIT 1 FOR UPDATE;
  -- A run that does not end is given up: the provider may no longer know its cursor.
  IF r.step <> 'done' AND r.started_at > v_now - 4 * p_every_ms * interval '1 millisecond' THEN
    IF r.claimed_until > v_now AND r.owner <> p_owner THEN RETURN NULL; END IF;
    UPDATE reconcile_runs SET owner = p_owner, claimed_until = v_now + p_lease_ms * interval '1 millisecond'
    WHERE run_id = r.run_id RETURNING * INTO r;
    RETURN reconcile_run_json(r);
  END IF;
  IF r.started_at > v_now - p_every_ms * interval '1 millisecond' THEN RETURN NULL; END IF;
  DELETE FROM reconcile_runs WHERE started_at < v_now - interval '30 days';
  DELETE FROM reconcile_findings WHERE settled_at < v_now - interval '1 year';
  INSERT INTO reconcile_runs (scheduled, from_at, to_at, owner, claimed_until)
  VALUES (true, v_now - p_back_ms * interval '1 millisecond', v_now - p_young_ms * interval '1 millisecond', p_owner,
          v_now + p_lease_ms * interval '1 millisecond')
  RETURNING * INTO r;
  RETURN reconcile_run_json(r);
END $$;

-- Stores the result of one page and where to continue. Returns null if another process has the run by now.
--   p_found    findings seen now, [{kind, subject, order, object, says, detail}]
--   p_fitting  subjects that were compared and match
CREATE OR REPLACE FUNCTION reconcile_run_advance(
  p_run uuid, p_owner text, p_step text, p_cursor text, p_seen text[], p_counts jsonb, p_found jsonb, p_fitting text[],
  p_lease_ms integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r reconcile_runs;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO r FROM reconcile_runs WHERE run_id = p_run AND owner = p_owner AND step <> 'done' FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO reconcile_seen (run_id, object) SELECT p_run, o FROM unnest(p_seen) o ON CONFLICT DO NOTHING;
  INSERT INTO reconcile_findings AS f (kind, subject, order_id, object, says, detail)
  SELECT DISTINCT ON (kind, subject) kind, subject, "order", object, says, coalesce(detail, '{}')
  FROM jsonb_to_recordset(p_found) x (kind text, subject text, "order" uuid, object text, says text, detail jsonb)
  -- A finding that an operator took off the list stays off while it is the same.
  WHERE NOT EXISTS (SELECT 1 FROM reconcile_findings s
                    WHERE s.subject = x.subject AND s.kind = x.kind AND s.says = x.says AND s.settled_by <> 'reconcile')
  ORDER BY kind, subject
  ON CONFLICT (kind, subject) WHERE settled_at IS NULL DO UPDATE
    SET last_seen_at = v_now, says = excluded.says, detail = excluded.detail, order_id = excluded.order_id;
  -- One subject has one fault at a time: another fault, or none, settles the earlier finding.
  UPDATE reconcile_findings f SET settled_at = v_now, settled_by = 'reconcile'
  WHERE f.settled_at IS NULL AND (f.subject = ANY (p_fitting)
    OR EXISTS (SELECT 1 FROM jsonb_to_recordset(p_found) x (kind text, subject text)
               WHERE x.subject = f.subject AND x.kind <> f.kind));
  UPDATE reconcile_runs
  SET step = p_step, cursor = p_cursor, claimed_until = v_now + p_lease_ms * interval '1 millisecond',
      finished_at = CASE WHEN p_step = 'done' THEN v_now END,
      counts = counts || (SELECT coalesce(jsonb_object_agg(key, coalesce((counts ->> key)::bigint, 0) + value::bigint), '{}')
                          FROM jsonb_each_text(p_counts))
  WHERE run_id = p_run RETURNING * INTO r;
  IF p_step = 'done' THEN DELETE FROM reconcile_seen WHERE run_id = p_run; END IF;
  RETURN reconcile_run_json(r);
END $$;
