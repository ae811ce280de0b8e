-- Partitions: groups of whole sections whose holds one arbiter state decides (design §4.3). One by default.

-- `sections`: those of this partition; null: all that no other partition names (always partition 0).
-- `store`: the configured Redis server that it is pinned to (ONSALE_REDIS_SERVERS); null: the default one (REDIS_URL).
ALTER TABLE event_partitions
  ADD COLUMN sections text[],
  ADD COLUMN store text;

-- Publishes a draft: its own tables, seats numbered as given, layout stored by hash, phase 'scheduled'.
-- Arrays are parallel, one element a seat, in seat_no order from 0. p_partitions: [{partition, sections, store}], partition 0
-- among them. Answers 'published', 'not_draft' or 'unknown'.
DROP FUNCTION event_publish(integer, text, text, bytea, text[], text[], text[], text[], text[]);
CREATE FUNCTION event_publish(
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

-- New rows begin in mode 'postgres' under an epoch of their own; of those that are there only the sections may grow.
CREATE FUNCTION event_write_partitions(p_event integer, p_partitions jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO event_partitions AS p (event_no, partition, sections, store)
    SELECT p_event, (r ->> 'partition')::smallint,
      CASE WHEN jsonb_typeof(r -> 'sections') = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(r -> 'sections')) END,
      r ->> 'store'
    FROM jsonb_array_elements(p_partitions) r
    ON CONFLICT (event_no, partition) DO UPDATE SET sections = excluded.sections, store = excluded.store
$$;

-- Whether the record may decide about seats that nobody is known to hold: not while the partition is moving, nor while holders
-- of a lost store may still come with their receipts (grace_until is a column of migration 0009).
CREATE FUNCTION partition_is_settled(p event_partitions) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN p.mode <> 'moving' AND (p.grace_until IS NULL OR p.grace_until <= clock_timestamp());
END $$;

-- Blocks the seats that are free; the others are answered with the state that keeps them, and nothing about them changes.
--   p_epoch NULL   the partitions are in mode 'postgres': arbiter and record are the same rows, so that hold, decision and
--                  projection are this one step. p_partition NULL: seats of any.
--   p_epoch given  p_partition is in mode 'redis' under that epoch. Nobody else can get the seats there: they are held for the
--                  organiser until p_until, or p_version is that of a phase that grants nothing and that the store knows of.
-- When that is not so, nothing is changed, and the one row answered is 'other_mode', of no seat.
DROP FUNCTION seats_block(integer, text, text, integer[]);
CREATE FUNCTION seats_block(p_event integer, p_actor text, p_reason text, p_seats integer[],
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
  -- With the margin of reserve: this statement's own time limit and a second.
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

-- Another version of the plan for a published event. Arrays cover every seat_no from 0: seats that stay keep their number
-- and partition, new ones are appended, removed ones stay as blocked. Refuses, changing nothing, while a removed seat is held,
-- reserved or sold; then it answers those seats. Where Redis arbitrates, only a seat that is blocked already is known not to
-- be held. The numbers were given on top of layout p_base: when that is no longer the event's, nothing is changed either, and
-- the one row answered is 'conflict', of no seat; 'busy' while a partition moves or is in grace.
DROP FUNCTION event_replan(integer, text, text, text, text, bytea, text[], text[], text[], text[], text[], integer[]);
CREATE FUNCTION event_replan(
  p_event integer, p_actor text, p_base text, p_plan text, p_layout_hash text, p_layout bytea,
  p_guids text[], p_sections text[], p_rows text[], p_labels text[], p_categories text[],
  p_seat_partitions smallint[], p_partitions jsonb, p_removed integer[]
) RETURNS TABLE (seat_no integer, state text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_count integer;
  v_base text;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT seat_count, layout_hash INTO v_count, v_base FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_base IS NULL OR v_base IS DISTINCT FROM p_base THEN
    RETURN QUERY SELECT NULL::integer, 'conflict';
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM event_partitions p WHERE p.event_no = p_event AND NOT partition_is_settled(p)) THEN
    RETURN QUERY SELECT NULL::integer, 'busy';
    RETURN;
  END IF;
  RETURN QUERY SELECT s.seat_no, CASE WHEN s.state = 'available' THEN 'held' ELSE s.state END
    FROM seats s JOIN event_partitions p ON p.event_no = p_event AND p.partition = s.partition
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND (s.state IN ('reserved','sold')
      OR (s.state = 'available' AND (p.mode <> 'postgres'
        OR NOT seat_is_free(s.state, s.hold_until, s.hold_epoch, p.epoch, clock_timestamp()))))
    ORDER BY s.seat_no;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  PERFORM event_write_partitions(p_event, p_partitions);
  INSERT INTO event_seats (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, s.n - 1, s.guid, s.section, s.row_label, s.label, s.category
    FROM unnest(p_guids, p_sections, p_rows, p_labels, p_categories)
      WITH ORDINALITY AS s (guid, section, row_label, label, category, n)
    ON CONFLICT (event_no, seat_no) DO UPDATE SET section_id = excluded.section_id, row_label = excluded.row_label,
      seat_label = excluded.seat_label, category = excluded.category;
  UPDATE event_seats SET removed = seat_no = ANY (p_removed)
    WHERE event_no = p_event AND removed <> (seat_no = ANY (p_removed));
  INSERT INTO seats (event_no, seat_no, partition)
    SELECT p_event, s.n - 1, s.partition FROM unnest(p_seat_partitions) WITH ORDINALITY AS s (partition, n)
    WHERE s.n > v_count;
  UPDATE seats s SET state = 'blocked', version = s.version + 1, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND s.state = 'available';
  INSERT INTO blocks (event_no, seat_no, reason, actor)
    SELECT p_event, r, 'removed from the plan', p_actor FROM unnest(p_removed) r ON CONFLICT DO NOTHING;
  UPDATE events SET plan_id = p_plan, layout_hash = p_layout_hash, seat_count = cardinality(p_guids), version = version + 1
    WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'replan', p_event,
    jsonb_build_object('plan', p_plan, 'removed', cardinality(p_removed), 'seats', cardinality(p_guids)));
END $$;
