-- Events at rest: an event that nothing changes has no leader, costs nothing, and shows what was published last (decision 0035).
--
-- The leader writes a row in event_rests when it finds nothing to do for an event, and keeps leading. From then on every change of the
-- event adds a row to event_wakes in its own transaction (the triggers below). Once every transaction that was under way when the row
-- was written has ended (`made_in`), and everything was published after that, the leader settles the row and stops leading. A
-- controller leads the event again when there is a wake, when `wake_at` has come, or when its row was never settled.

-- Also called by processes that are about to change something about the event outside Postgres.
CREATE OR REPLACE FUNCTION event_wake(p_event integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM event_rests r WHERE r.event_no = p_event;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO event_wakes (event_no) SELECT p_event
    WHERE NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = p_event);
END $$;

CREATE OR REPLACE FUNCTION event_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Checks as event_wake does, without the cost of another call: this runs for each seat that is held or sold.
  PERFORM FROM event_rests r WHERE r.event_no = NEW.event_no;
  IF FOUND THEN PERFORM event_wake(NEW.event_no); END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER wakes_event AFTER UPDATE ON seats FOR EACH ROW EXECUTE FUNCTION event_changed();
-- Each tick writes some rows unchanged, which is not a change.
CREATE OR REPLACE TRIGGER wakes_event AFTER UPDATE ON events FOR EACH ROW
  WHEN (old.* IS DISTINCT FROM new.*) EXECUTE FUNCTION event_changed();
CREATE OR REPLACE TRIGGER wakes_event AFTER UPDATE ON event_partitions FOR EACH ROW
  WHEN (old.* IS DISTINCT FROM new.*) EXECUTE FUNCTION event_changed();
CREATE OR REPLACE TRIGGER wakes_event_first AFTER INSERT ON event_partitions FOR EACH ROW EXECUTE FUNCTION event_changed();
CREATE OR REPLACE TRIGGER wakes_event AFTER INSERT OR UPDATE ON partition_witnesses FOR EACH ROW EXECUTE FUNCTION event_changed();
-- A pass was issued. Changes of rate and frontier do not count, because the leader itself writes them with each tick.
CREATE OR REPLACE TRIGGER wakes_event AFTER UPDATE ON admissions FOR EACH ROW
  WHEN (old.issued IS DISTINCT FROM new.issued) EXECUTE FUNCTION event_changed();
-- Numbers were issued, or their store changed or was reported lost. The leader's readings of Redis's clock do not count.
CREATE OR REPLACE TRIGGER wakes_event AFTER UPDATE ON queue_counters FOR EACH ROW
  WHEN ((old.last_no, old.mode, old.epoch, old.reported_at) IS DISTINCT FROM (new.last_no, new.mode, new.epoch, new.reported_at))
  EXECUTE FUNCTION event_changed();
CREATE OR REPLACE TRIGGER wakes_event_first AFTER INSERT ON queue_counters FOR EACH ROW EXECUTE FUNCTION event_changed();

-- Returns when something next happens to the event without a change, at most p_max_ms from now, with a spread so that events that
-- were put to rest together do not wake together.
CREATE OR REPLACE FUNCTION event_wake_at(e events, p_max_ms double precision) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
  SELECT least(
    clock_timestamp() + p_max_ms * (0.75 + 0.25 * random()) * interval '1 ms',
    CASE WHEN e.phase IN ('scheduled','pre_queue') THEN event_opens_at(e) END,
    CASE WHEN e.on_sale_at > clock_timestamp() THEN e.on_sale_at END,
    CASE WHEN e.phase IN ('open','paused','sold_out') THEN e.sale_ends_at END,
    (SELECT min(p.grace_until) FROM event_partitions p WHERE p.event_no = e.event_no AND p.grace_until > clock_timestamp()),
    (SELECT min(h.deadline) FROM holds h WHERE h.event_no = e.event_no AND h.state = 'live'),
    -- Memories of ended holds are deleted together, when the last one is due: a leader is not woken for a single one.
    (SELECT max(hold_due(h.state, h.deadline)) FROM holds h WHERE h.event_no = e.event_no AND h.state <> 'live'))
$$;

-- Puts events to rest in which the caller, who leads them under these terms, finds nothing to do. Leaves out events that will be woken
-- within p_least_ms, are moving between stores, or have remembered numbers to delete.
CREATE OR REPLACE FUNCTION events_rest(p_events integer[], p_terms bigint[], p_made_as text, p_least_ms double precision,
  p_max_ms double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- Left over from a wake that was committed after another had woken the event.
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

-- Settles the rest of events that nothing has woken, and ends their leases. The next leader leads them in a new term.
CREATE OR REPLACE FUNCTION events_settle(p_events integer[], p_terms bigint[]) RETURNS void LANGUAGE sql AS $$
  WITH settled AS (
    UPDATE event_rests r SET settled = true FROM unnest(p_events, p_terms) AS u (event_no, term)
    WHERE r.event_no = u.event_no AND NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = r.event_no)
      AND lease_holds(u.event_no, u.term)
    RETURNING r.event_no)
  UPDATE leases l SET until = clock_timestamp() FROM settled s WHERE l.event_no = s.event_no
$$;

-- Returns the published events that need a leader now or within p_ahead_ms. `clear` is true if the event has an unsettled rest,
-- p_clear_ms old, and every transaction that did not see it has ended; null if it has no rest. Up to p_renew rests per call that were
-- made with other settings, over a minute ago, are ended, so that the objects are published again.
CREATE OR REPLACE FUNCTION events_to_lead(p_made_as text, p_ahead_ms integer, p_clear_ms integer, p_renew integer)
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
    -- Skips rests that another controller is ending now.
    DELETE FROM event_rests r WHERE r.event_no IN (
      SELECT o.event_no FROM event_rests o WHERE o.event_no = ANY (v_over) FOR UPDATE SKIP LOCKED);
    DELETE FROM event_wakes w WHERE NOT EXISTS (SELECT FROM event_rests r WHERE r.event_no = w.event_no);
  END IF;
  RETURN QUERY
    SELECT e.event_no, r.made_in < pg_snapshot_xmin(pg_current_snapshot())
      AND r.made_at < clock_timestamp() - p_clear_ms * interval '1 ms'
    FROM events e LEFT JOIN event_rests r USING (event_no)
    WHERE e.phase <> 'draft' AND e.layout_hash IS NOT NULL AND r.settled IS NOT TRUE
      -- A day after the performance the event is left alone.
      AND (e.phase NOT IN ('closed','cancelled') OR e.performance_at IS NULL
        OR e.performance_at > clock_timestamp() - interval '1 day')
    ORDER BY e.event_no;
END $$;
