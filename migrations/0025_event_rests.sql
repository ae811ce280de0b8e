-- Events at rest: an event about which nothing changes has no leader, costs nothing, and shows what was published last.
--
-- The leader writes a row here when it finds nothing to do for an event, and leads on. From then on every change of the event
-- adds a row to `event_wakes` in its own transaction (triggers below). Once each transaction that was under way when the row
-- was written has ended (`made_in`) and all was published after that, the leader settles the row and stops leading. Any
-- controller leads an event again when there is a wake, when `wake_at` has come, or when its row was never settled.

-- `wake_at`: when something happens without a change: a start, an end, a hold that lapses. `made_as`: identifies the settings
-- and the program that the published objects were made with.
CREATE TABLE event_rests (
  event_no integer PRIMARY KEY,
  wake_at  timestamptz NOT NULL,
  settled  boolean NOT NULL DEFAULT false,
  made_as  text NOT NULL,
  made_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  made_in  xid8 NOT NULL DEFAULT pg_current_xact_id()
);
-- A table of its own and no column: buyers who wake one event at once must not wait for each other's commits, and a wake that
-- is rolled back must not take another's along. Both tables are written beside everything else, so neither has a foreign key.
CREATE TABLE event_wakes (
  event_no integer NOT NULL
);
CREATE INDEX event_wakes_event ON event_wakes (event_no);

-- Also called by processes that are about to change something about the event that is not in Postgres.
CREATE FUNCTION event_wake(p_event integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM event_rests r WHERE r.event_no = p_event;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO event_wakes (event_no) SELECT p_event
    WHERE NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = p_event);
END $$;

CREATE FUNCTION event_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- As in event_wake, without the cost of another call: this runs for each seat that is held or sold.
  PERFORM FROM event_rests r WHERE r.event_no = NEW.event_no;
  IF FOUND THEN PERFORM event_wake(NEW.event_no); END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER wakes_event AFTER UPDATE ON seats FOR EACH ROW EXECUTE FUNCTION event_changed();
-- Each tick writes some rows as they were: that is no change.
CREATE TRIGGER wakes_event AFTER UPDATE ON events FOR EACH ROW
  WHEN (old.* IS DISTINCT FROM new.*) EXECUTE FUNCTION event_changed();
CREATE TRIGGER wakes_event AFTER UPDATE ON event_partitions FOR EACH ROW
  WHEN (old.* IS DISTINCT FROM new.*) EXECUTE FUNCTION event_changed();
CREATE TRIGGER wakes_event_first AFTER INSERT ON event_partitions FOR EACH ROW EXECUTE FUNCTION event_changed();
CREATE TRIGGER wakes_event AFTER INSERT OR UPDATE ON partition_witnesses FOR EACH ROW EXECUTE FUNCTION event_changed();
-- A pass was issued. What the leader writes with each tick, rate and frontier, is no news to it.
CREATE TRIGGER wakes_event AFTER UPDATE ON admissions FOR EACH ROW
  WHEN (old.issued IS DISTINCT FROM new.issued) EXECUTE FUNCTION event_changed();
-- Numbers were drawn, or their store changed or was reported lost; not the leader's readings of Redis's clock.
CREATE TRIGGER wakes_event AFTER UPDATE ON queue_counters FOR EACH ROW
  WHEN ((old.last_no, old.mode, old.epoch, old.reported_at) IS DISTINCT FROM (new.last_no, new.mode, new.epoch, new.reported_at))
  EXECUTE FUNCTION event_changed();
CREATE TRIGGER wakes_event_first AFTER INSERT ON queue_counters FOR EACH ROW EXECUTE FUNCTION event_changed();

-- Readers of published objects ask for what was published since their last reading.
CREATE INDEX published_since ON published (published_at);

-- When something happens next about the event although nobody changes anything; never later than p_max_ms from now, with a
-- spread so that events that were put to rest together do not wake together.
CREATE FUNCTION event_wake_at(e events, p_max_ms double precision) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
  SELECT least(
    clock_timestamp() + p_max_ms * (0.75 + 0.25 * random()) * interval '1 ms',
    CASE WHEN e.phase IN ('scheduled','pre_queue') THEN event_opens_at(e) END,
    CASE WHEN e.on_sale_at > clock_timestamp() THEN e.on_sale_at END,
    CASE WHEN e.phase IN ('open','paused','sold_out') THEN e.sale_ends_at END,
    (SELECT min(p.grace_until) FROM event_partitions p WHERE p.event_no = e.event_no AND p.grace_until > clock_timestamp()),
    (SELECT min(h.deadline) FROM holds h WHERE h.event_no = e.event_no AND h.state = 'live'),
    -- Memories of holds that ended are forgotten all at once: each by itself is not worth a leader.
    (SELECT max(hold_due(h.state, h.deadline)) FROM holds h WHERE h.event_no = e.event_no AND h.state <> 'live'))
$$;

-- For events of which the caller, who leads them under these terms, finds that there is nothing to do. Those that will be
-- woken within p_least_ms, are moving between stores, or have remembered numbers to forget, are left out.
CREATE FUNCTION events_rest(p_events integer[], p_terms bigint[], p_made_as text, p_least_ms double precision,
  p_max_ms double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- Left over from a wake that was committed after the event had been woken by another.
  DELETE FROM event_wakes w WHERE w.event_no = ANY (p_events)
    AND NOT EXISTS (SELECT FROM event_rests r WHERE r.event_no = w.event_no);
  INSERT INTO event_rests (event_no, wake_at, made_as)
    SELECT r.event_no, r.wake_at, p_made_as
    FROM (SELECT e.event_no, u.term, event_wake_at(e, p_max_ms) AS wake_at
      FROM unnest(p_events, p_terms) AS u (event_no, term) JOIN events e USING (event_no) OFFSET 0) r
    WHERE r.wake_at > clock_timestamp() + p_least_ms * interval '1 ms'
      AND NOT EXISTS (SELECT FROM event_partitions p WHERE p.event_no = r.event_no AND p.mode = 'moving')
      AND NOT EXISTS (SELECT FROM queue_recent q WHERE q.event_no = r.event_no)
      AND lease_holds(r.event_no, r.term)
    ON CONFLICT DO NOTHING;
END $$;

-- Settles the rest of events that nothing has woken, and ends their leases: the next leader leads them in a new term.
CREATE FUNCTION events_settle(p_events integer[], p_terms bigint[]) RETURNS void LANGUAGE sql AS $$
  WITH settled AS (
    UPDATE event_rests r SET settled = true FROM unnest(p_events, p_terms) AS u (event_no, term)
    WHERE r.event_no = u.event_no AND NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = r.event_no)
      AND lease_holds(u.event_no, u.term)
    RETURNING r.event_no)
  UPDATE leases l SET until = clock_timestamp() FROM settled s WHERE l.event_no = s.event_no
$$;

-- The published events that need a leader now, or will within p_ahead_ms. `clear`: the event has a rest that is not settled,
-- p_clear_ms old, and every transaction that did not see it has ended; null: it has none. A few rests a call (p_renew) that
-- were made as something else, over a minute ago, are ended, so that the objects are published anew.
CREATE FUNCTION events_to_lead(p_made_as text, p_ahead_ms integer, p_clear_ms integer, p_renew integer)
RETURNS TABLE (event_no integer, clear boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_over integer[];
BEGIN
  v_over := ARRAY(SELECT r.event_no FROM event_rests r
      WHERE r.wake_at <= clock_timestamp() + p_ahead_ms * interval '1 ms'
        OR EXISTS (SELECT FROM event_wakes w WHERE w.event_no = r.event_no))
    || ARRAY(SELECT r.event_no FROM event_rests r
      WHERE r.made_as <> p_made_as AND r.made_at < clock_timestamp() - interval '1 minute' ORDER BY r.made_at LIMIT p_renew);
  IF cardinality(v_over) > 0 THEN
    -- What another controller is just ending is ended.
    DELETE FROM event_rests r WHERE r.event_no IN (
      SELECT o.event_no FROM event_rests o WHERE o.event_no = ANY (v_over) FOR UPDATE SKIP LOCKED);
    DELETE FROM event_wakes w WHERE NOT EXISTS (SELECT FROM event_rests r WHERE r.event_no = w.event_no);
  END IF;
  RETURN QUERY
    SELECT e.event_no, r.made_in < pg_snapshot_xmin(pg_current_snapshot())
      AND r.made_at < clock_timestamp() - p_clear_ms * interval '1 ms'
    FROM events e LEFT JOIN event_rests r USING (event_no)
    WHERE e.phase <> 'draft' AND e.layout_hash IS NOT NULL AND r.settled IS NOT TRUE
      -- A day after the performance nobody looks any more.
      AND (e.phase NOT IN ('closed','cancelled') OR e.performance_at IS NULL
        OR e.performance_at > clock_timestamp() - interval '1 day')
    ORDER BY e.event_no;
END $$;

-- Takes the event's lock, shared, if it is free. Otherwise the error names the event, and the caller waits for it without a
-- connection (src/postgres/locked-events.ts): a lock that is held alone for long must not take the connections of other events.
-- While a transaction waits for the exclusive lock, no other gets it shared, so that the first does not wait for ever.
CREATE OR REPLACE FUNCTION event_lock_shared(p_event integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF pg_try_advisory_xact_lock_shared(20260, p_event) THEN RETURN; END IF;
  RAISE lock_not_available USING MESSAGE = format('event %s is locked', p_event),
    DETAIL = format('locked event %s', p_event);
END $$;
CREATE FUNCTION event_lock_is_free(p_event integer) RETURNS boolean LANGUAGE sql AS $$
  SELECT pg_try_advisory_xact_lock_shared(20260, p_event)
$$;

-- A claim that met a seat's lock for too long, or was rolled back, and so was not decided: which of its seats others have, or
-- are just deciding about (p_named; otherwise an empty list when no group of p_size seats can be had). NULL when nothing
-- speaks against it, when this store does not decide now, or when the id or the visitor has a hold already. Waits for nothing.
CREATE FUNCTION arbiter_refusal(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_seats integer[], p_size integer, p_named boolean) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
  v_free integer[];
BEGIN
  PERFORM FROM event_partitions p JOIN events e USING (event_no)
    WHERE p.event_no = p_event AND p.partition = p_partition AND p.mode = 'postgres' AND p.epoch = p_epoch
      AND e.phase = 'open' AND (p.grace_until IS NULL OR p.grace_until <= clock_timestamp());
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM holds h WHERE h.event_no = p_event AND h.hold_id = p_hold;
  IF FOUND THEN RETURN NULL; END IF;
  PERFORM FROM holds h WHERE h.event_no = p_event AND h.visitor = p_visitor AND h.partition = p_partition
    AND h.state = 'live';
  IF FOUND THEN RETURN NULL; END IF;
  v_free := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY (p_seats)
      AND seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
    ORDER BY s.seat_no FOR SHARE SKIP LOCKED);
  IF claim_finds(p_seats, p_size, v_free) THEN RETURN NULL; END IF;
  RETURN CASE WHEN p_named THEN ARRAY(SELECT u FROM unnest(p_seats) u WHERE u <> ALL (v_free)) ELSE '{}'::integer[] END;
END $$;
ALTER FUNCTION arbiter_refusal SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION arbiter_refusal SET enable_seqscan = off;
ALTER FUNCTION arbiter_refusal SET enable_bitmapscan = off;
