-- Another version of the plan for a published event. Seats that stay keep their number and partition, new ones are appended,
-- removed ones stay as blocked. p_changed: [{n, guid, section, row, label, category, partition}], the seats that are new or
-- whose section, row, label or category changes. Returns no row when the plan is written. Otherwise nothing is changed, and
-- the rows say why:
--   removed seats that are held, reserved or sold, with their state. Where Redis arbitrates, only a seat that is blocked
--     already is known not to be held;
--   'conflict' of no seat: the numbers were given on top of layout p_base, which is no longer the event's;
--   'busy' of no seat: a partition is moving or in grace.
-- The large part is written first, and the event's lock is held alone from then on only: claims wait for what is decided
-- about removed seats, not for 50,000 rows. A refusal undoes what was written.
DROP FUNCTION event_replan(integer, text, text, text, text, bytea, text[], text[], text[], text[], text[], smallint[], jsonb,
  integer[]);
CREATE FUNCTION event_replan(
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

-- Seats are in their tables, for this transaction alone, before the event's lock is taken. A seat number that another change
-- of the plan took meanwhile is left to the check of p_base.
CREATE FUNCTION event_replan_write(p_event integer, p_layout_hash text, p_layout bytea, p_changed json)
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

-- Why a plan may not be written: [{seat_no, state}]; null when it may. Under the event's lock.
CREATE FUNCTION event_replan_refusals(p_event integer, p_base text, p_removed integer[]) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- A function that is replaced loses its settings: those of 0022 again, for all that was replaced since (0023 to 0031), and for what
-- refunds and the provider's events call.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
            WHERE p.pronamespace = 'public'::regnamespace
              AND p.proname IN ('queue_join','queue_redeem','queue_redeem_all',
                                'order_reserve','order_reserve_with_code','order_abandon','order_confirm','order_close',
                                'money_begin','money_opened','money_authorised','money_refused','money_park','money_end',
                                'money_voided','money_captured','money_stray','refund_make','refund_settle','entry_check_in',
                                'order_taken','order_left','reversals_record')
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_mergejoin = off', f);
  END LOOP;
END $$;
