-- The waiting room: numbers, passes, the leader's decisions. Each function is one call of one transaction.
-- Lock order: event lock → lease → counter → admissions row → passes and remembered numbers.

-- Passes issued so far: the leader's rate is the difference of two readings instead of a count over the passes.
ALTER TABLE admissions ADD COLUMN issued bigint NOT NULL DEFAULT 0;
-- A hot row that each redeem updates: room on its page keeps the update off the index.
ALTER TABLE admissions SET (fillfactor = 20);
ALTER TABLE queue_counters SET (fillfactor = 20);

-- Every move of the frontier (W6): when a number was called, and what the public log is made of.
CREATE TABLE frontier_moves (
  event_no integer NOT NULL REFERENCES events,
  shard    smallint NOT NULL,
  at       timestamptz NOT NULL,
  term     bigint NOT NULL,
  frontier bigint NOT NULL,
  PRIMARY KEY (event_no, shard, frontier)
);
CREATE INDEX frontier_moves_at ON frontier_moves (event_no, shard, at);

-- Draws numbers for a batch, in the order of the list (W1). Repeats, within the batch and within p_memory_ms of an earlier
-- one, answer the number they have. The counter's row is locked first: batches queue there, and each then reads what the
-- one before remembered. Raises the ceiling in the same call, so that no number reaches it.
CREATE FUNCTION queue_join(p_event integer, p_shard smallint, p_visitors text[], p_memory_ms integer, p_ceiling_step integer)
RETURNS TABLE (phase text, opens_at timestamptz, number bigint, issued_at timestamptz, repeated boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_phase text;
  v_opens timestamptz;
  v_last bigint;
  v_new bigint;
  v_now timestamptz;
BEGIN
  SELECT e.phase, e.on_sale_at INTO STRICT v_phase, v_opens FROM events e WHERE e.event_no = p_event;
  IF v_phase NOT IN ('pre_queue','open','paused','sold_out') THEN
    RETURN QUERY SELECT v_phase, v_opens, NULL::bigint, NULL::timestamptz, false;
    RETURN;
  END IF;
  SELECT c.last_no INTO STRICT v_last FROM queue_counters c
    WHERE c.event_no = p_event AND c.shard = p_shard FOR UPDATE;
  v_now := clock_timestamp();

  WITH asked AS (
    SELECT a.visitor, min(a.place) AS place FROM unnest(p_visitors) WITH ORDINALITY AS a (visitor, place) GROUP BY a.visitor
  ), fresh AS (
    SELECT a.visitor, row_number() OVER (ORDER BY a.place) AS nth FROM asked a
    -- Each looked up by itself (here and below): as a join it would read all that is remembered, without statistics.
    WHERE coalesce((SELECT r.issued_at FROM queue_recent r WHERE r.event_no = p_event AND r.visitor = a.visitor), '-infinity')
          <= v_now - p_memory_ms * interval '1 ms'
  )
  INSERT INTO queue_recent AS r (event_no, visitor, shard, number, issued_at)
    SELECT p_event, f.visitor, p_shard, v_last + f.nth, v_now FROM fresh f
    ON CONFLICT (event_no, visitor)
      DO UPDATE SET shard = excluded.shard, number = excluded.number, issued_at = excluded.issued_at;
  GET DIAGNOSTICS v_new = ROW_COUNT;

  IF v_new > 0 THEN
    UPDATE queue_counters c SET
      last_no = v_last + v_new,
      -- The difference of one: a number stays below the ceiling, never on it.
      ceiling = CASE WHEN v_last + v_new + p_ceiling_step / 2 >= c.ceiling
        THEN v_last + v_new + p_ceiling_step + 1 ELSE c.ceiling END
    WHERE c.event_no = p_event AND c.shard = p_shard;
  END IF;

  RETURN QUERY
    SELECT v_phase, v_opens, r.number, r.issued_at,
      r.number <= v_last OR row_number() OVER (PARTITION BY a.visitor ORDER BY a.place) > 1
    FROM unnest(p_visitors) WITH ORDINALITY AS a (visitor, place)
    CROSS JOIN LATERAL (
      SELECT r.number, r.issued_at FROM queue_recent r WHERE r.event_no = p_event AND r.visitor = a.visitor OFFSET 0) r
    ORDER BY a.place;
END $$;

-- What is in the bucket now. Refilled by this server's clock, whoever asks.
CREATE FUNCTION admission_tokens(a admissions, p_at timestamptz) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
  SELECT least(a.burst, a.tokens + greatest(0, extract(epoch FROM p_at - a.refilled_at)::double precision) * a.rate)
$$;

-- A number at or behind the frontier becomes the visitor's one pass (W3); the token is debited in the same step. A repeat
-- answers the pass that is there, whatever the phase, or that its session is over. A visitor whose session ended may buy with a number that he drew
-- afterwards: his row is then replaced, so that there is never more than one pass a visitor.
CREATE FUNCTION queue_redeem(
  p_event integer, p_shard smallint, p_number bigint, p_visitor text, p_pass uuid, p_session_ms integer,
  OUT kind text, OUT phase text, OUT pass_id uuid, OUT number bigint, OUT issued_at timestamptz,
  OUT expires_at timestamptz, OUT repeated boolean, OUT frontier bigint, OUT after_ms integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_row admissions;
  v_now timestamptz;
  v_tokens double precision;
BEGIN
  PERFORM event_lock_shared(p_event);
  FOR attempt IN 1..2 LOOP
    SELECT 'issued', p.pass_id, p.number, p.issued_at, p.expires_at, true
      INTO kind, pass_id, number, issued_at, expires_at, repeated
      FROM passes p WHERE p.event_no = p_event AND p.visitor = p_visitor
        AND (p.expires_at > clock_timestamp() OR p.number >= p_number OR p.shard <> p_shard);
    IF FOUND THEN
      IF expires_at <= clock_timestamp() THEN kind := 'over'; END IF;
      RETURN;
    END IF;
    SELECT e.phase INTO STRICT phase FROM events e WHERE e.event_no = p_event;
    IF phase <> 'open' THEN kind := 'not_open'; RETURN; END IF;
    PERFORM FROM passes p WHERE p.event_no = p_event AND p.shard = p_shard AND p.number = p_number;
    IF FOUND THEN kind := 'used'; RETURN; END IF;

    -- Looked at first without the lock: whoever comes early or finds the bucket empty must not queue for the row.
    SELECT * INTO STRICT v_row FROM admissions a WHERE a.event_no = p_event;
    frontier := coalesce(v_row.frontier[p_shard + 1], 0);
    IF p_number > frontier THEN kind := 'not_yet'; RETURN; END IF;
    v_now := clock_timestamp();
    v_tokens := admission_tokens(v_row, v_now);
    IF v_tokens < 1 THEN
      kind := 'wait';
      -- With no rate there is nothing to wait for but the leader's next decision. The spread keeps those who wait apart.
      after_ms := CASE WHEN v_row.rate > 0 THEN least(5000, ceil(1000 * (1 - v_tokens) / v_row.rate)) ELSE 3000 END
        + floor(random() * 1000);
      RETURN;
    END IF;
    EXIT WHEN attempt = 2;
    -- All is read afresh behind the row's lock, since others may have passed meanwhile.
    PERFORM FROM admissions a WHERE a.event_no = p_event FOR UPDATE;
  END LOOP;

  UPDATE admissions a SET tokens = v_tokens - 1, refilled_at = v_now, issued = a.issued + 1 WHERE a.event_no = p_event;
  INSERT INTO passes AS p (event_no, visitor, pass_id, shard, number, issued_at, expires_at)
    VALUES (p_event, p_visitor, p_pass, p_shard, p_number, v_now, v_now + p_session_ms * interval '1 ms')
    ON CONFLICT (event_no, visitor) DO UPDATE SET pass_id = excluded.pass_id, shard = excluded.shard,
      number = excluded.number, issued_at = excluded.issued_at, expires_at = excluded.expires_at
    RETURNING 'issued', p.pass_id, p.number, p.issued_at, p.expires_at, false
    INTO kind, pass_id, number, issued_at, expires_at, repeated;
END $$;

-- Several redeems of one event in one transaction, in the order given: the bucket's row is locked, and the log flushed, once
-- for all.
CREATE FUNCTION queue_redeem_all(
  p_event integer, p_shards smallint[], p_numbers bigint[], p_visitors text[], p_passes uuid[], p_session_ms integer[])
RETURNS TABLE (
  kind text, phase text, pass_id uuid, number bigint, issued_at timestamptz, expires_at timestamptz, repeated boolean,
  frontier bigint, after_ms integer)
LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..cardinality(p_numbers) LOOP
    RETURN QUERY SELECT * FROM queue_redeem(
      p_event, p_shards[i], p_numbers[i], p_visitors[i], p_passes[i], p_session_ms[i]);
  END LOOP;
END $$;

-- Takes and renews leases, in one step for all events of one owner. A lease that ran out, the owner's own too, begins a
-- new term; another's live one is left alone. By number, so that two owners never wait for each other crosswise.
CREATE FUNCTION lease_keep(p_owner text, p_events integer[], p_lease_ms integer)
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

-- Whether this term still rules, and that it does until this transaction ends: a take-over waits for the row.
CREATE FUNCTION lease_holds(p_event integer, p_term bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM leases l
    WHERE l.event_no = p_event AND l.term = p_term AND l.until > clock_timestamp() FOR SHARE;
  RETURN FOUND;
END $$;

-- The leader's decision. The frontier moves forward only and never past the last number issued (W6).
CREATE FUNCTION admission_publish(
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
    -- What was saved up at the old rate, as far as the new bucket holds it.
    tokens = least(p_burst, admission_tokens(v_row, v_now)),
    rate = p_rate, burst = p_burst, refilled_at = v_now, term = p_term
  WHERE a.event_no = p_event;
  INSERT INTO frontier_moves (event_no, shard, at, term, frontier)
    SELECT p_event, f.nth - 1, v_now, p_term, f.number
    FROM unnest(v_frontier) WITH ORDINALITY AS f (number, nth)
    WHERE f.number > coalesce(v_row.frontier[f.nth], 0);
  RETURN true;
END $$;

-- A phase change by the leader, of its term, on what it expects to replace. Whether it is due is decided here, behind the
-- event's lock, since the leader's view is seconds old: 'advanced', 'other_term', 'changed' (another phase), 'not_due'.
CREATE FUNCTION phase_advance(p_event integer, p_term bigint, p_expected text, p_next text) RETURNS text
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
    WHEN p_expected IN ('scheduled','pre_queue') AND p_next = 'open' THEN v_event.on_sale_at <= clock_timestamp()
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
