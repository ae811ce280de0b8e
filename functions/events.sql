-- Events: their lock, their own tables, publishing, changes of the seating plan, on-sale controls and blocked seats.
--
-- One lock order holds in all functions: event → quotas and limits → order → the order's own rows (money operations, tickets,
-- refunds) → hold → seats by number. test/services/lock-order.test.ts reads it from the functions.

-- Takes the event's lock shared if it is free. Otherwise the error names the event, and the caller waits for it without a
-- connection (src/postgres/locked-events.ts), because an event that is locked alone for long must not take the connections of other
-- events. While a transaction waits to lock the event alone, no other gets it shared, so that the first does not wait forever.
-- Claims share the lock. Phase changes, degrade, restore and cancelling take it alone, so that nothing granted before a change
-- commits after it.
CREATE OR REPLACE FUNCTION event_lock_shared(p_event integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF pg_try_advisory_xact_lock_shared(20260, p_event) THEN RETURN; END IF;
  RAISE lock_not_available USING MESSAGE = format('event %s is locked', p_event),
    DETAIL = format('locked event %s', p_event);
END $$;

CREATE OR REPLACE FUNCTION event_lock_is_free(p_event integer) RETURNS boolean LANGUAGE sql AS $$
  SELECT pg_try_advisory_xact_lock_shared(20260, p_event)
$$;

CREATE OR REPLACE FUNCTION event_lock_alone(p_event integer) RETURNS void LANGUAGE sql AS
  $$ SELECT pg_advisory_xact_lock(20260, p_event) $$;

-- Creates the tables and first rows of one event. Called once, when the event is published. CREATE … LIKE and ATTACH take no lock
-- that stops other events' sales, which CREATE … PARTITION OF would.
CREATE OR REPLACE FUNCTION create_event_tables(p_event integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  parent text;
  child text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['seats','holds','tickets'] LOOP
    child := format('%s_%s', parent, p_event);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
    IF parent = 'seats' THEN
      -- Leaves room on each page, so that the update of a hold stays on its page and touches no index.
      EXECUTE format('ALTER TABLE %I SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)', child);
    END IF;
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (event_no = %s)', child, child || '_event', p_event);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', parent, child, p_event);
  END LOOP;
  INSERT INTO event_partitions (event_no, partition) VALUES (p_event, 0) ON CONFLICT DO NOTHING;
  INSERT INTO queue_counters (event_no, shard) VALUES (p_event, 0) ON CONFLICT DO NOTHING;
  INSERT INTO admissions (event_no) VALUES (p_event) ON CONFLICT DO NOTHING;
END $$;

-- Publishes a draft: creates its tables, writes its seats with the given numbers, stores the layout by hash and sets the phase to
-- 'scheduled'. The arrays are parallel, one element per seat, in seat_no order from 0.
--   p_partitions  [{partition, sections, store}], with partition 0 among them
-- Returns 'published', 'not_draft' or 'unknown'.
CREATE OR REPLACE FUNCTION event_publish(
  p_event integer, p_actor text, p_layout_hash text, p_layout bytea,
  p_guids text[], p_sections text[], p_rows text[], p_labels text[], p_categories text[],
  p_seat_partitions smallint[], p_partitions jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_phase text;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_phase IS NULL THEN RETURN 'unknown'; END IF;
  IF v_phase <> 'draft' THEN RETURN 'not_draft'; END IF;
  PERFORM create_event_tables(p_event);
  PERFORM event_write_partitions(p_event, p_partitions);
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  INSERT INTO event_seats (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, s.n - 1, s.guid, s.section, s.row_label, s.label, s.category
    FROM unnest(p_guids, p_sections, p_rows, p_labels, p_categories)
      WITH ORDINALITY AS s (guid, section, row_label, label, category, n);
  INSERT INTO seats (event_no, seat_no, partition)
    SELECT p_event, s.n - 1, s.partition FROM unnest(p_seat_partitions) WITH ORDINALITY AS s (partition, n);
  UPDATE events SET phase = 'scheduled', version = version + 1, layout_hash = p_layout_hash,
    seat_count = cardinality(p_guids), published_at = clock_timestamp() WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'publish', p_event, jsonb_build_object('seats', cardinality(p_guids), 'layout', p_layout_hash,
      'partitions', jsonb_array_length(p_partitions)));
  RETURN 'published';
END $$;

-- Adds partitions in mode 'postgres', each under its own epoch. Existing partitions only gain sections.
CREATE OR REPLACE FUNCTION event_write_partitions(p_event integer, p_partitions jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO event_partitions AS p (event_no, partition, sections, store)
    SELECT p_event, (r ->> 'partition')::smallint,
      CASE WHEN jsonb_typeof(r -> 'sections') = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(r -> 'sections')) END,
      r ->> 'store'
    FROM jsonb_array_elements(p_partitions) r
    ON CONFLICT (event_no, partition) DO UPDATE SET sections = excluded.sections, store = excluded.store
$$;

-- Replaces the plan of a published event. Seats that stay keep their number and partition, new seats are appended, removed seats
-- stay as blocked.
--   p_changed  [{n, guid, section, row, label, category, partition}]: seats that are new or whose section, row, label or category
--              changes
-- Returns no row when the plan is written. Otherwise nothing is changed, and the rows give the reason:
--   removed seats that are held, reserved or sold, with their state. Where Redis arbitrates, only a seat that is already blocked
--     is known not to be held
--   'conflict' without a seat: the numbers were based on layout p_base, which is no longer the event's
--   'busy' without a seat: a partition is moving or in grace
-- The large part is written before the event is locked alone, so that claims wait for the decision about removed seats but not for
-- 50,000 rows. A refusal undoes what was written.
CREATE OR REPLACE FUNCTION event_replan(
  p_event integer, p_actor text, p_base text, p_plan text, p_layout_hash text, p_layout bytea, p_seat_count integer,
  p_changed json, p_partitions jsonb, p_removed integer[]
) RETURNS TABLE (seat_no integer, state text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_refusals jsonb;
BEGIN
  BEGIN
    PERFORM event_replan_write(p_event, p_layout_hash, p_layout, p_changed);
    PERFORM event_lock_alone(p_event);
    v_refusals := event_replan_refusals(p_event, p_base, p_removed);
    IF v_refusals IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ON001'; END IF;
    PERFORM event_write_partitions(p_event, p_partitions);
    UPDATE event_seats SET removed = seat_no = ANY (p_removed)
      WHERE event_no = p_event AND removed <> (seat_no = ANY (p_removed));
    UPDATE seats s SET state = 'blocked', version = s.version + 1, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
      WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND s.state = 'available';
    INSERT INTO blocks (event_no, seat_no, reason, actor)
      SELECT p_event, r, 'removed from the plan', p_actor FROM unnest(p_removed) r ON CONFLICT DO NOTHING;
    UPDATE events SET plan_id = p_plan, layout_hash = p_layout_hash, seat_count = p_seat_count, version = version + 1
      WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'replan', p_event,
      jsonb_build_object('plan', p_plan, 'removed', cardinality(p_removed), 'seats', p_seat_count));
  EXCEPTION WHEN SQLSTATE 'ON001' THEN
    RETURN QUERY SELECT r.seat_no, r.state FROM jsonb_to_recordset(v_refusals) AS r (seat_no integer, state text);
  END;
END $$;

-- Writes the seats before the event's lock is taken; only this transaction sees them. If another plan change took a seat number
-- meanwhile, the check of p_base in event_replan_refusals finds it.
CREATE OR REPLACE FUNCTION event_replan_write(p_event integer, p_layout_hash text, p_layout bytea, p_changed json)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  INSERT INTO event_seats AS e (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, c.n, c.guid, c.section, c."row", c.label, c.category
    FROM json_to_recordset(p_changed) AS c (n integer, guid text, section text, "row" text, label text, category text)
    ORDER BY c.n
    ON CONFLICT (event_no, seat_no) DO UPDATE SET section_id = excluded.section_id, row_label = excluded.row_label,
      seat_label = excluded.seat_label, category = excluded.category
      WHERE e.seat_guid = excluded.seat_guid;
  INSERT INTO seats (event_no, seat_no, partition)
    SELECT p_event, c.n, c.partition
    FROM json_to_recordset(p_changed) AS c (n integer, partition smallint)
    WHERE c.n >= (SELECT seat_count FROM events WHERE event_no = p_event)
    ORDER BY c.n ON CONFLICT DO NOTHING;
END $$;

-- Returns why the plan must not be written as [{seat_no, state}], or null if it may. Called with the event locked alone.
CREATE OR REPLACE FUNCTION event_replan_refusals(p_event integer, p_base text, p_removed integer[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_base text;
BEGIN
  SELECT layout_hash INTO v_base FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_base IS NULL OR v_base IS DISTINCT FROM p_base THEN RETURN '[{"seat_no": null, "state": "conflict"}]'; END IF;
  IF EXISTS (SELECT FROM event_partitions p WHERE p.event_no = p_event AND NOT partition_is_settled(p)) THEN
    RETURN '[{"seat_no": null, "state": "busy"}]';
  END IF;
  RETURN (SELECT jsonb_agg(jsonb_build_object('seat_no', s.seat_no,
      'state', CASE WHEN s.state = 'available' THEN 'held' ELSE s.state END) ORDER BY s.seat_no)
    FROM seats s JOIN event_partitions p ON p.event_no = p_event AND p.partition = s.partition
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND (s.state IN ('reserved','sold')
      OR (s.state = 'available' AND (p.mode <> 'postgres'
        OR NOT seat_is_free(s.state, s.hold_until, s.hold_epoch, p.epoch, clock_timestamp())))));
END $$;

-- Applies the operator's controls if the version that the operator saw is still current. Locks the event alone, so that nothing
-- granted under the old phase commits after the change.
--   p_from   phases from which p_phase can be reached (src/core/phase.ts)
--   outcome  'changed', 'conflict', 'impossible' or 'unknown', always with the row as it is afterwards
CREATE OR REPLACE FUNCTION on_sale_change(
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

-- Returns when the presale starts, which is part of the event's settings. The presale lasts until the sale opens to everyone. It
-- is not a phase: the event is open, and visitors without a presale code learn when their time comes (docs/decisions/0030).
CREATE OR REPLACE FUNCTION event_opens_at(e events) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT least(e.on_sale_at, to_timestamp((e.settings ->> 'presaleAt')::float8 / 1000))
$$;

CREATE OR REPLACE FUNCTION event_in_presale(e events) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT coalesce((e.settings ->> 'presaleAt') IS NOT NULL AND e.on_sale_at > clock_timestamp(), false)
$$;

-- Returns whether the record may decide about seats without a known hold. It may not while the partition is moving, nor while
-- holders from a lost store may still present their receipts.
CREATE OR REPLACE FUNCTION partition_is_settled(p event_partitions) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN p.mode <> 'moving' AND (p.grace_until IS NULL OR p.grace_until <= clock_timestamp());
END $$;

-- Blocks the free seats and returns all seats: a seat that is not free comes with the state that keeps it, and is not changed.
--   p_epoch null   the partitions are in mode 'postgres': arbiter and record are the same rows, so this step is hold, decision
--                  and projection in one. p_partition null means seats of any partition
--   p_epoch given  p_partition is in mode 'redis' under that epoch, and no other buyer can get the seats: either they are held
--                  for the organiser until p_until, or p_version is the version of a phase that grants nothing and the store
--                  knows that version
-- If this does not apply, nothing is changed and the only row is 'other_mode' without a seat.
CREATE OR REPLACE FUNCTION seats_block(p_event integer, p_actor text, p_reason text, p_seats integer[],
  p_partition smallint DEFAULT NULL, p_epoch bigint DEFAULT NULL, p_until timestamptz DEFAULT NULL, p_version integer DEFAULT NULL)
RETURNS TABLE (seat_no integer, version bigint, state text, blocked boolean) LANGUAGE plpgsql AS $$
DECLARE
  v_settled boolean;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT bool_and(partition_is_settled(p) AND p.mode = CASE WHEN p_epoch IS NULL THEN 'postgres' ELSE 'redis' END
                  AND (p_epoch IS NULL OR p.epoch = p_epoch))
    INTO v_settled FROM event_partitions p WHERE p.event_no = p_event AND p.partition = coalesce(p_partition, p.partition);
  IF v_settled AND p_epoch IS NOT NULL AND p_until IS NULL THEN
    v_settled := EXISTS (SELECT FROM events e WHERE e.event_no = p_event AND e.version = p_version AND e.phase <> 'open');
  END IF;
  PERFORM 1 FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY (p_seats) ORDER BY s.seat_no FOR UPDATE;
  -- The same margin as at reserve: this statement's time limit (5 s) plus one second.
  IF v_settled IS NOT TRUE OR p_until - interval '6 seconds' <= clock_timestamp() THEN
    RETURN QUERY SELECT NULL::integer, 0::bigint, 'other_mode', false;
    RETURN;
  END IF;
  RETURN QUERY
  WITH judged AS (
    SELECT s.seat_no, s.state AS was, seat_is_free(s.state, s.hold_until, s.hold_epoch, p.epoch, clock_timestamp()) AS free
    FROM seats s JOIN event_partitions p ON p.event_no = p_event AND p.partition = s.partition
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_seats) AND s.partition = coalesce(p_partition, s.partition)
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

-- Seats that a new plan removed stay blocked, because no page shows them.
CREATE OR REPLACE FUNCTION seats_unblock(p_event integer, p_actor text, p_seats integer[])
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
