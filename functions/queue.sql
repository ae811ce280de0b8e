-- The waiting room: numbers, gaps and passes. Each function is one call and one transaction. Lock order: event → lease → counter →
-- admissions row → passes and remembered numbers. Moving the counters between stores is in queue-stores.sql.

-- Returns how many numbers of (p_from, p_to] are in gaps.
CREATE OR REPLACE FUNCTION queue_gap_numbers(p_event integer, p_shard smallint, p_from bigint, p_to bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(greatest(0, least(g.last, p_to) - greatest(g.first, p_from + 1) + 1)), 0)::bigint
  FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard AND g.last > p_from AND g.first <= p_to
$$;

CREATE OR REPLACE FUNCTION in_queue_gap(p_event integer, p_shard smallint, p_number bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard
    AND g.first <= p_number AND g.last >= p_number)
$$;

-- Creates the shards of an event's queue with its first counter, from the setting `queueShards` (1 by default, at most 16).
CREATE OR REPLACE FUNCTION queue_shards_make() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO queue_counters (event_no, shard)
    SELECT NEW.event_no, n FROM events e,
      generate_series(1, least(16, coalesce((e.settings->>'queueShards')::integer, 1)) - 1) n
    WHERE e.event_no = NEW.event_no
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER queue_shards_make AFTER INSERT ON queue_counters FOR EACH ROW WHEN (NEW.shard = 0)
  EXECUTE FUNCTION queue_shards_make();

-- Issues numbers to a batch, in the order of the list (W1). Repeats, within the batch and within p_memory_ms of an earlier one, get
-- the number they have. The counter's row is locked first: batches queue there, and each reads what the one before stored. Raises
-- the ceiling in the same call, so that no number reaches it, and records the batch's arrivals. Returns phase 'moved' and issues
-- nothing if this store no longer issues the shard's numbers, which is decided with the counter locked. Remembered numbers are read
-- once, because the sweep may delete one between two statements.
CREATE OR REPLACE FUNCTION queue_join(
  p_event integer, p_shard smallint, p_visitors text[], p_memory_ms integer, p_ceiling_step integer)
RETURNS TABLE (phase text, opens_at timestamptz, number bigint, issued_at timestamptz, repeated boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_phase text;
  v_opens timestamptz;
  v_mode text;
  v_last bigint;
  v_new bigint;
  v_now timestamptz;
  v_numbers bigint[];       -- by position in p_visitors; null means not remembered
  v_issued timestamptz[];
BEGIN
  SELECT e.phase, e.on_sale_at INTO STRICT v_phase, v_opens FROM events e WHERE e.event_no = p_event;
  IF v_phase NOT IN ('pre_queue','open','paused','sold_out') THEN
    RETURN QUERY SELECT v_phase, v_opens, NULL::bigint, NULL::timestamptz, false;
    RETURN;
  END IF;
  SELECT c.last_no, c.mode INTO STRICT v_last, v_mode FROM queue_counters c
    WHERE c.event_no = p_event AND c.shard = p_shard FOR UPDATE;
  IF v_mode <> 'postgres' THEN
    RETURN QUERY SELECT 'moved', v_opens, NULL::bigint, NULL::timestamptz, false;
    RETURN;
  END IF;
  v_now := clock_timestamp();

  -- Looks up each visitor separately: without statistics a join would read all remembered numbers.
  SELECT array_agg(r.number ORDER BY a.place), array_agg(r.issued_at ORDER BY a.place) INTO v_numbers, v_issued
  FROM unnest(p_visitors) WITH ORDINALITY AS a (visitor, place)
  LEFT JOIN LATERAL (
    SELECT r.number, r.issued_at FROM queue_recent r
    WHERE r.event_no = p_event AND r.visitor = a.visitor AND r.issued_at > v_now - p_memory_ms * interval '1 ms' OFFSET 0) r ON true;

  INSERT INTO queue_recent AS r (event_no, visitor, shard, number, issued_at)
    SELECT p_event, f.visitor, p_shard, v_last + row_number() OVER (ORDER BY f.place), v_now
    FROM (SELECT a.visitor, min(a.place) AS place
          FROM unnest(p_visitors, v_numbers) WITH ORDINALITY AS a (visitor, number, place)
          WHERE a.number IS NULL GROUP BY a.visitor) f
    ON CONFLICT (event_no, visitor)
      DO UPDATE SET shard = excluded.shard, number = excluded.number, issued_at = excluded.issued_at;
  GET DIAGNOSTICS v_new = ROW_COUNT;

  IF v_new > 0 THEN
    UPDATE queue_counters c SET
      last_no = v_last + v_new,
      -- Adds one because numbers stay below the ceiling.
      ceiling = CASE WHEN v_last + v_new + p_ceiling_step / 2 >= c.ceiling
        THEN v_last + v_new + p_ceiling_step + 1 ELSE c.ceiling END
    WHERE c.event_no = p_event AND c.shard = p_shard;
    INSERT INTO queue_arrivals AS w (event_no, shard, second, last)
      VALUES (p_event, p_shard, floor(extract(epoch FROM v_now))::bigint, v_last + v_new)
      ON CONFLICT (event_no, shard, second) DO UPDATE SET last = greatest(w.last, excluded.last);
  END IF;

  -- New numbers are ordered by the first position of each visitor, as above.
  RETURN QUERY
    SELECT v_phase, v_opens,
      coalesce(x.number, v_last + dense_rank() OVER (PARTITION BY x.number IS NULL ORDER BY x.first)),
      coalesce(x.issued, v_now), x.number IS NOT NULL OR x.place > x.first
    FROM (SELECT a.*, min(a.place) OVER (PARTITION BY a.visitor) AS first
          FROM unnest(p_visitors, v_numbers, v_issued) WITH ORDINALITY AS a (visitor, number, issued, place)) x
    ORDER BY x.place;
END $$;

-- Returns the tokens in the bucket at p_at. They are refilled by this server's clock, whichever process asks.
CREATE OR REPLACE FUNCTION admission_tokens(a admissions, p_at timestamptz) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
  SELECT least(a.burst, a.tokens + greatest(0, extract(epoch FROM p_at - a.refilled_at)::double precision) * a.rate)
$$;

-- A number at or behind the frontier becomes the visitor's one pass (W3); the token is taken in the same step. A repeat returns the
-- existing pass, whatever the phase, or that its session is over. A visitor whose session ended may buy with a number that was
-- issued later: the row is replaced, so that a visitor never has more than one pass.
CREATE OR REPLACE FUNCTION queue_redeem(
  p_event integer, p_shard smallint, p_number bigint, p_visitor text, p_pass uuid, p_session_ms integer,
  OUT kind text, OUT phase text, OUT pass_id uuid, OUT number bigint, OUT issued_at timestamptz,
  OUT expires_at timestamptz, OUT repeated boolean, OUT frontier bigint, OUT after_ms integer)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

    -- Checks without the lock first: visitors who come early or find no token must not queue for the row.
    SELECT * INTO STRICT v_row FROM admissions a WHERE a.event_no = p_event;
    frontier := coalesce(v_row.frontier[p_shard + 1], 0);
    IF p_number > frontier THEN kind := 'not_yet'; RETURN; END IF;
    v_now := clock_timestamp();
    v_tokens := admission_tokens(v_row, v_now);
    IF v_tokens < 1 THEN
      kind := 'wait';
      -- Without a rate the only thing to wait for is the leader's next decision. The random part keeps retries apart.
      after_ms := CASE WHEN v_row.rate > 0 THEN least(5000, ceil(1000 * (1 - v_tokens) / v_row.rate)) ELSE 3000 END
        + floor(random() * 1000);
      RETURN;
    END IF;
    EXIT WHEN attempt = 2;
    -- Reads everything again with the row locked, since others may have passed meanwhile.
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

-- Redeems several numbers of one event in one transaction, in the given order, so that the bucket's row is locked and the log
-- flushed once for all.
CREATE OR REPLACE FUNCTION queue_redeem_all(
  p_event integer, p_shards smallint[], p_numbers bigint[], p_visitors text[], p_passes uuid[], p_session_ms integer[])
RETURNS TABLE (
  kind text, phase text, pass_id uuid, number bigint, issued_at timestamptz, expires_at timestamptz, repeated boolean,
  frontier bigint, after_ms integer)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  FOR i IN 1..cardinality(p_numbers) LOOP
    RETURN QUERY SELECT * FROM queue_redeem(
      p_event, p_shards[i], p_numbers[i], p_visitors[i], p_passes[i], p_session_ms[i]);
  END LOOP;
END $$;
