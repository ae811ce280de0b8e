-- The leader of an event: its lease, what it publishes, and the phase changes that it makes. Lock order: event → lease → counter →
-- admissions row → passes and remembered numbers.

-- Returns whether this term is current, and keeps it so until this transaction ends, because a take-over waits for the row.
CREATE OR REPLACE FUNCTION lease_holds(p_event integer, p_term bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM leases l
    WHERE l.event_no = p_event AND l.term = p_term AND l.until > clock_timestamp() FOR SHARE;
  RETURN FOUND;
END $$;

-- Takes and renews leases in one step for all events of one owner. A lease that ran out, even the owner's own, begins a new term. A
-- live lease of another owner is left alone. Ordered by number, so that two owners cannot deadlock.
CREATE OR REPLACE FUNCTION lease_keep(p_owner text, p_events integer[], p_lease_ms integer)
RETURNS TABLE (event_no integer, term bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  INSERT INTO leases AS l (event_no, owner, term, until)
    SELECT e.event_no, p_owner, 1, clock_timestamp() + p_lease_ms * interval '1 ms'
    FROM unnest(p_events) AS e (event_no) ORDER BY e.event_no
  ON CONFLICT (event_no) DO UPDATE SET
    owner = excluded.owner,
    term = CASE WHEN l.owner = excluded.owner AND l.until > clock_timestamp() THEN l.term ELSE l.term + 1 END,
    until = clock_timestamp() + p_lease_ms * interval '1 ms'
  WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()
  RETURNING l.event_no, l.term;
END $$;

-- Writes the leader's objects. Returns false, with nothing written, if another term is current or the lease ran out. The lease row
-- is share-locked, so that no take-over commits between the check and the write.
CREATE OR REPLACE FUNCTION publish_objects(p_event integer, p_term bigint, p_names text[], p_counts bigint[], p_bytes bytea[])
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

-- The leader changes the phase, in its term and from the phase that it expects. Whether the change is due is decided here, with the
-- event locked alone, because the leader's view is seconds old. Returns 'advanced', 'other_term', 'changed' (another phase) or
-- 'not_due'.
CREATE OR REPLACE FUNCTION phase_advance(p_event integer, p_term bigint, p_expected text, p_next text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_event events;
  v_due boolean;
BEGIN
  PERFORM event_lock_alone(p_event);
  IF NOT lease_holds(p_event, p_term) THEN RETURN 'other_term'; END IF;
  SELECT * INTO STRICT v_event FROM events e WHERE e.event_no = p_event FOR UPDATE;
  IF v_event.phase <> p_expected THEN RETURN 'changed'; END IF;
  v_due := CASE
    WHEN p_expected IN ('scheduled','pre_queue') AND p_next = 'open' THEN event_opens_at(v_event) <= clock_timestamp()
    WHEN p_expected = 'open' AND p_next = 'sold_out' THEN v_event.seat_count > 0 AND NOT EXISTS (
      SELECT FROM seats s WHERE s.event_no = p_event AND s.state IN ('available','reserved'))
    WHEN p_expected = 'sold_out' AND p_next = 'open' THEN EXISTS (
      SELECT FROM seats s WHERE s.event_no = p_event AND s.state = 'available')
    WHEN p_expected IN ('open','paused','sold_out') AND p_next = 'closed' THEN v_event.sale_ends_at <= clock_timestamp()
    ELSE false
  END;
  IF v_due IS NOT TRUE THEN RETURN 'not_due'; END IF;
  UPDATE events SET phase = p_next, version = version + 1 WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES ('leader', 'phase', p_event, jsonb_build_object('from', p_expected, 'to', p_next, 'term', p_term));
  RETURN 'advanced';
END $$;

-- Writes the leader's decision. The frontier only moves forward, and never past the last number issued (W6).
CREATE OR REPLACE FUNCTION admission_publish(
  p_event integer, p_term bigint, p_frontier bigint[], p_rate double precision, p_burst double precision)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_row admissions;
  v_frontier bigint[];
  v_now timestamptz;
BEGIN
  IF NOT lease_holds(p_event, p_term) THEN RETURN false; END IF;
  SELECT * INTO STRICT v_row FROM admissions a WHERE a.event_no = p_event FOR UPDATE;
  SELECT array_agg(greatest(
      coalesce(v_row.frontier[c.shard + 1], 0),
      least(coalesce(p_frontier[c.shard + 1], 0), c.last_no)) ORDER BY c.shard)
    INTO v_frontier FROM queue_counters c WHERE c.event_no = p_event;
  v_now := clock_timestamp();
  UPDATE admissions a SET
    frontier = v_frontier,
    -- Tokens saved at the old rate are kept as far as the new bucket has room.
    tokens = least(p_burst, admission_tokens(v_row, v_now)),
    rate = p_rate, burst = p_burst, refilled_at = v_now, term = p_term
  WHERE a.event_no = p_event;
  INSERT INTO frontier_moves (event_no, shard, at, term, frontier)
    SELECT p_event, f.nth - 1, v_now, p_term, f.number
    FROM unnest(v_frontier) WITH ORDINALITY AS f (number, nth)
    WHERE f.number > coalesce(v_row.frontier[f.nth], 0);
  RETURN true;
END $$;
