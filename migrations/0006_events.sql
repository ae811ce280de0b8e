-- Organiser's side of the record: publishing an event, its on-sale controls, blocks; and the leader's published objects.

CREATE TABLE blocks (
  event_no   integer NOT NULL REFERENCES events,
  seat_no    integer NOT NULL,
  reason     text NOT NULL,
  actor      text NOT NULL,
  blocked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (event_no, seat_no)
);

-- Publishes a draft: its own tables, seats numbered as given, layout stored by hash, phase 'scheduled'.
-- Arrays are parallel, one element a seat, in seat_no order from 0. Answers 'published', 'not_draft' or 'unknown'.
CREATE FUNCTION event_publish(
  p_event integer, p_actor text, p_layout_hash text, p_layout bytea,
  p_guids text[], p_sections text[], p_rows text[], p_labels text[], p_categories text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_phase text;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_phase IS NULL THEN RETURN 'unknown'; END IF;
  IF v_phase <> 'draft' THEN RETURN 'not_draft'; END IF;
  PERFORM create_event_tables(p_event);
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  INSERT INTO event_seats (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, s.n - 1, s.guid, s.section, s.row_label, s.label, s.category
    FROM unnest(p_guids, p_sections, p_rows, p_labels, p_categories)
      WITH ORDINALITY AS s (guid, section, row_label, label, category, n);
  INSERT INTO seats (event_no, seat_no) SELECT p_event, n FROM generate_series(0, cardinality(p_guids) - 1) n;
  UPDATE events SET phase = 'scheduled', version = version + 1, layout_hash = p_layout_hash,
    seat_count = cardinality(p_guids), published_at = clock_timestamp() WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'publish', p_event, jsonb_build_object('seats', cardinality(p_guids), 'layout', p_layout_hash));
  RETURN 'published';
END $$;

-- The operator's controls, guarded by the version he looked at. Takes the event lock alone, so that nothing granted under
-- the old phase commits after the change. `p_from`: phases from which p_phase may be reached (core/phase.ts).
-- outcome: changed | conflict | impossible | unknown; the row as it is afterwards in every case.
CREATE FUNCTION on_sale_change(
  p_event integer, p_actor text, p_expected integer,
  p_phase text, p_from text[], p_set_message boolean, p_message text, p_set_rate boolean, p_rate double precision,
  OUT outcome text, OUT phase text, OUT version integer, OUT message text, OUT rate_ceiling double precision
) LANGUAGE plpgsql AS $$
DECLARE
  e events%ROWTYPE;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT * INTO e FROM events WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND THEN outcome := 'unknown'; RETURN; END IF;
  IF e.version <> p_expected THEN
    outcome := 'conflict';
  ELSIF p_phase IS NOT NULL AND p_phase <> e.phase AND NOT (e.phase = ANY (p_from)) THEN
    outcome := 'impossible';
  ELSE
    outcome := 'changed';
    UPDATE events SET
      phase = coalesce(p_phase, e.phase),
      message = CASE WHEN p_set_message THEN p_message ELSE e.message END,
      rate_ceiling = CASE WHEN p_set_rate THEN p_rate ELSE e.rate_ceiling END,
      version = e.version + 1
    WHERE event_no = p_event RETURNING * INTO e;
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'on_sale', p_event,
      jsonb_build_object('phase', e.phase, 'message', e.message, 'rate_ceiling', e.rate_ceiling, 'version', e.version));
  END IF;
  phase := e.phase; version := e.version; message := e.message; rate_ceiling := e.rate_ceiling;
END $$;

-- Blocks the seats that are free; the others are answered with the state that keeps them, and nothing about them changes.
-- In Postgres mode arbiter and record are the same rows, so that hold, decision and projection are this one step.
CREATE FUNCTION seats_block(p_event integer, p_actor text, p_reason text, p_seats integer[])
RETURNS TABLE (seat_no integer, version bigint, state text, blocked boolean) LANGUAGE plpgsql AS $$
DECLARE
  v_epoch bigint;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT epoch INTO v_epoch FROM event_partitions p WHERE p.event_no = p_event AND p.partition = 0;
  PERFORM 1 FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY (p_seats) ORDER BY s.seat_no FOR UPDATE;
  RETURN QUERY
  WITH judged AS (
    SELECT s.seat_no, s.state AS was,
      s.state = 'available' AND (s.hold_until IS NULL OR s.hold_until <= clock_timestamp() OR s.hold_epoch <> v_epoch) AS free
    FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY (p_seats)
  ), changed AS (
    UPDATE seats s SET state = 'blocked', version = s.version + 1, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
    FROM judged j WHERE s.event_no = p_event AND s.seat_no = j.seat_no AND j.free
    RETURNING s.seat_no, s.version
  ), noted AS (
    INSERT INTO blocks (event_no, seat_no, reason, actor) SELECT p_event, c.seat_no, p_reason, p_actor FROM changed c
  )
  SELECT j.seat_no, coalesce(c.version, 0::bigint),
    CASE WHEN j.free THEN 'blocked' WHEN j.was = 'available' THEN 'held' ELSE j.was END, j.free
  FROM judged j LEFT JOIN changed c ON c.seat_no = j.seat_no ORDER BY j.seat_no;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'block', p_event, jsonb_build_object('asked', cardinality(p_seats), 'reason', p_reason));
END $$;

-- Seats that a new version of the plan removed stay blocked: no page shows them.
CREATE FUNCTION seats_unblock(p_event integer, p_actor text, p_seats integer[])
RETURNS TABLE (seat_no integer, version bigint) LANGUAGE plpgsql AS $$
DECLARE
  v_seats integer[];
BEGIN
  PERFORM event_lock_shared(p_event);
  v_seats := ARRAY(SELECT u FROM unnest(p_seats) u WHERE NOT EXISTS (
    SELECT FROM event_seats e WHERE e.event_no = p_event AND e.seat_no = u AND e.removed));
  PERFORM 1 FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY (v_seats) ORDER BY s.seat_no FOR UPDATE;
  DELETE FROM blocks b WHERE b.event_no = p_event AND b.seat_no = ANY (v_seats);
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'unblock', p_event, jsonb_build_object('asked', cardinality(p_seats)));
  RETURN QUERY UPDATE seats s SET state = 'available', version = s.version + 1
    WHERE s.event_no = p_event AND s.seat_no = ANY (v_seats) AND s.state = 'blocked'
      AND s.order_id IS NULL
    RETURNING s.seat_no, s.version;
END $$;

-- Another version of the plan for a published event. Arrays cover every seat_no from 0: seats that stay keep their number,
-- new ones are appended, removed ones stay as blocked. Refuses, changing nothing, while a removed seat is held, reserved
-- or sold; then it answers those seats. The numbers were given on top of layout p_base: when that is no longer the event's,
-- nothing is changed either, and the one row answered is 'conflict', of no seat.
CREATE FUNCTION event_replan(
  p_event integer, p_actor text, p_base text, p_plan text, p_layout_hash text, p_layout bytea,
  p_guids text[], p_sections text[], p_rows text[], p_labels text[], p_categories text[], p_removed integer[]
) RETURNS TABLE (seat_no integer, state text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_epoch bigint;
  v_count integer;
  v_base text;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT seat_count, layout_hash INTO v_count, v_base FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_base IS NULL OR v_base IS DISTINCT FROM p_base THEN
    RETURN QUERY SELECT NULL::integer, 'conflict';
    RETURN;
  END IF;
  SELECT epoch INTO v_epoch FROM event_partitions p WHERE p.event_no = p_event AND p.partition = 0;
  RETURN QUERY SELECT s.seat_no, CASE WHEN s.state = 'available' THEN 'held' ELSE s.state END FROM seats s
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND (s.state IN ('reserved','sold')
      OR (s.state = 'available' AND s.hold_until > clock_timestamp() AND s.hold_epoch = v_epoch))
    ORDER BY s.seat_no;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  INSERT INTO event_seats (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, s.n - 1, s.guid, s.section, s.row_label, s.label, s.category
    FROM unnest(p_guids, p_sections, p_rows, p_labels, p_categories)
      WITH ORDINALITY AS s (guid, section, row_label, label, category, n)
    ON CONFLICT (event_no, seat_no) DO UPDATE SET section_id = excluded.section_id, row_label = excluded.row_label,
      seat_label = excluded.seat_label, category = excluded.category;
  UPDATE event_seats SET removed = seat_no = ANY (p_removed)
    WHERE event_no = p_event AND removed <> (seat_no = ANY (p_removed));
  INSERT INTO seats (event_no, seat_no)
    SELECT p_event, n FROM generate_series(v_count, cardinality(p_guids) - 1) n;
  UPDATE seats s SET state = 'blocked', version = s.version + 1, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND s.state = 'available';
  INSERT INTO blocks (event_no, seat_no, reason, actor)
    SELECT p_event, r, 'removed from the plan', p_actor FROM unnest(p_removed) r ON CONFLICT DO NOTHING;
  UPDATE events SET plan_id = p_plan, layout_hash = p_layout_hash, seat_count = cardinality(p_guids), version = version + 1
    WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'replan', p_event,
    jsonb_build_object('plan', p_plan, 'removed', cardinality(p_removed), 'seats', cardinality(p_guids)));
END $$;

-- Writes the leader's objects; `false` and nothing written when another term rules or the lease ran out. The lease row is
-- share-locked, so that no take-over commits between the check and the write.
CREATE FUNCTION publish_objects(p_event integer, p_term bigint, p_names text[], p_counts bigint[], p_bytes bytea[])
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM leases l WHERE l.event_no = p_event AND l.term = p_term AND l.until > clock_timestamp() FOR SHARE;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO published AS o (event_no, name, term, count, bytes)
    SELECT p_event, n.name, p_term, n.count, n.bytes FROM unnest(p_names, p_counts, p_bytes) AS n (name, count, bytes)
    ON CONFLICT (event_no, name) DO UPDATE
      SET term = excluded.term, count = excluded.count, bytes = excluded.bytes, published_at = clock_timestamp()
      WHERE (o.term, o.count) < (excluded.term, excluded.count);
  RETURN true;
END $$;
