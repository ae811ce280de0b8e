-- The waiting room's counters: which store issues a shard's numbers, and ranges left unknown by a loss. Lock order: event → lease →
-- counter → admissions row.

-- Moves the numbering of a shard to Redis, in the leader's term: from this commit Postgres issues none of its numbers. The caller
-- opens the returned epoch in Redis once; an epoch that may have issued numbers is never opened again.
--   p_above     the epoch that Redis knows, 0 if none; the new one is higher
--   p_redis_ms  Redis's clock just before the call
-- Returns kind 'turned', or nothing was changed: 'other_term', 'other_mode' (not p_epoch in mode 'postgres'), 'settling' (lost less
-- than p_settle_ms ago), 'clock' (Redis's clock differs from ours by more than p_skew_ms).
CREATE OR REPLACE FUNCTION queue_to_redis(
  p_event integer, p_shard smallint, p_term bigint, p_epoch bigint, p_store text, p_run_ids text[], p_step integer,
  p_settle_ms integer, p_redis_ms double precision, p_skew_ms integer, p_above bigint,
  OUT kind text, OUT epoch bigint, OUT last_no bigint, OUT ceiling bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  c queue_counters;
BEGIN
  IF NOT lease_holds(p_event, p_term) THEN kind := 'other_term'; RETURN; END IF;
  SELECT * INTO STRICT c FROM queue_counters q WHERE q.event_no = p_event AND q.shard = p_shard FOR UPDATE;
  kind := CASE
    WHEN c.mode <> 'postgres' OR c.epoch <> p_epoch THEN 'other_mode'
    WHEN c.lost_at > clock_timestamp() - p_settle_ms * interval '1 ms' THEN 'settling'
    WHEN abs(extract(epoch FROM clock_timestamp()) * 1000 - p_redis_ms) > p_skew_ms THEN 'clock'
    ELSE 'turned' END;
  IF kind <> 'turned' THEN RETURN; END IF;
  UPDATE queue_counters q SET mode = 'redis', epoch = next_epoch(p_above), store = p_store, run_ids = p_run_ids,
    ceiling = greatest(q.ceiling, q.last_no + p_step + 1), changed_at = clock_timestamp(), read_ms = p_redis_ms,
    reported_by = NULL, reported_at = NULL, reason = NULL
  WHERE q.event_no = p_event AND q.shard = p_shard
  RETURNING q.epoch, q.last_no, q.ceiling INTO epoch, last_no, ceiling;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES ('leader', 'queue_store', p_event,
    jsonb_build_object('shard', p_shard, 'mode', 'redis', 'epoch', epoch, 'term', p_term));
END $$;

-- Undoes queue_to_redis when Redis certainly did not open the epoch, so that no number was issued under it. Postgres continues where
-- it was and nothing is lost. Returns 'withdrawn', or nothing was changed: 'other_term', 'already' (the epoch is over).
CREATE OR REPLACE FUNCTION queue_withdraw(p_event integer, p_shard smallint, p_term bigint, p_epoch bigint, p_reason text)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF NOT lease_holds(p_event, p_term) THEN RETURN 'other_term'; END IF;
  UPDATE queue_counters q SET mode = 'postgres', epoch = nextval('epochs'), run_ids = '{}', changed_at = clock_timestamp(),
    reason = p_reason, reported_by = NULL, reported_at = NULL
  WHERE q.event_no = p_event AND q.shard = p_shard AND q.mode = 'redis' AND q.epoch = p_epoch;
  IF NOT FOUND THEN RETURN 'already'; END IF;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES ('leader', 'queue_store', p_event,
    jsonb_build_object('shard', p_shard, 'mode', 'postgres', 'epoch', p_epoch, 'term', p_term, 'unopened', p_reason));
  RETURN 'withdrawn';
END $$;

-- Moves the numbering of a shard back. Postgres continues at the ceiling of the epoch that is over, and the range between the last
-- known number and the ceiling becomes a gap (W1). Idempotent: an epoch that is over returns 'already'. The leader's term acts at
-- once. Without a term, the second process that reports within p_witness_ms acts, and the first gets 'noted'.
--   p_seen  the highest number that the caller got from Redis under the epoch, 0 if none
CREATE OR REPLACE FUNCTION queue_to_postgres(
  p_event integer, p_shard smallint, p_epoch bigint, p_term bigint, p_reporter text, p_reason text, p_seen bigint,
  p_step integer, p_witness_ms integer)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  c queue_counters;
  v_now timestamptz;
  v_known bigint;
BEGIN
  IF p_term IS NOT NULL AND NOT lease_holds(p_event, p_term) THEN RETURN 'other_term'; END IF;
  SELECT * INTO STRICT c FROM queue_counters q WHERE q.event_no = p_event AND q.shard = p_shard FOR UPDATE;
  IF c.mode <> 'redis' OR c.epoch <> p_epoch THEN
    PERFORM queue_seen(p_event, p_shard, p_epoch, p_seen);
    RETURN 'already';
  END IF;
  v_now := clock_timestamp();
  v_known := greatest(c.last_no, least(p_seen, c.ceiling - 1));
  IF p_term IS NULL AND (c.reported_by IS NULL OR c.reported_by = p_reporter
      OR c.reported_at < v_now - p_witness_ms * interval '1 ms') THEN
    UPDATE queue_counters q SET reported_by = p_reporter, reported_at = v_now, last_no = v_known
      WHERE q.event_no = p_event AND q.shard = p_shard;
    RETURN 'noted';
  END IF;
  IF v_known < c.ceiling - 1 THEN
    INSERT INTO queue_gaps (event_no, shard, first, last, epoch)
      VALUES (p_event, p_shard, v_known + 1, c.ceiling - 1, p_epoch);
  END IF;
  -- Visitors with a number in the gap came before all who come from now on.
  INSERT INTO queue_arrivals AS w (event_no, shard, second, last)
    VALUES (p_event, p_shard, floor(extract(epoch FROM v_now))::bigint, c.ceiling - 1)
    ON CONFLICT (event_no, shard, second) DO UPDATE SET last = greatest(w.last, excluded.last);
  UPDATE queue_counters q SET mode = 'postgres', epoch = nextval('epochs'), run_ids = '{}',
    last_no = c.ceiling - 1, ceiling = c.ceiling + p_step, changed_at = v_now, lost_at = v_now, reason = p_reason,
    reported_by = NULL, reported_at = NULL
  WHERE q.event_no = p_event AND q.shard = p_shard;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_reporter, 'queue_store', p_event,
    jsonb_build_object('shard', p_shard, 'mode', 'postgres', 'epoch', p_epoch, 'reason', p_reason, 'known', v_known,
      'at', c.ceiling));
  RETURN 'turned';
END $$;

-- A process reports how far an epoch that is over had come. Numbers up to there are ordinary, and the gap begins after them. A gap
-- that the frontier has passed is not changed.
CREATE OR REPLACE FUNCTION queue_seen(p_event integer, p_shard smallint, p_epoch bigint, p_seen bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard AND g.epoch = p_epoch AND g.last <= p_seen
    AND g.first > (SELECT coalesce(a.frontier[p_shard + 1], 0) FROM admissions a WHERE a.event_no = p_event);
  UPDATE queue_gaps g SET first = p_seen + 1
    WHERE g.event_no = p_event AND g.shard = p_shard AND g.epoch = p_epoch AND g.first <= p_seen AND g.last > p_seen
    AND g.first > (SELECT coalesce(a.frontier[p_shard + 1], 0) FROM admissions a WHERE a.event_no = p_event);
END $$;

-- Raises the ceiling before it is reached, for the current epoch. Returns the new ceiling, or null if the epoch is over.
CREATE OR REPLACE FUNCTION queue_raise(p_event integer, p_shard smallint, p_epoch bigint, p_last bigint, p_step integer)
RETURNS bigint LANGUAGE sql AS $$
  UPDATE queue_counters q SET
    ceiling = greatest(q.ceiling, least(p_last, q.ceiling - 1) + p_step + 1),
    last_no = greatest(q.last_no, least(p_last, q.ceiling - 1))
  WHERE q.event_no = p_event AND q.shard = p_shard AND q.mode = 'redis' AND q.epoch = p_epoch
  RETURNING q.ceiling
$$;

-- Records what the leader read in Redis: the last number issued, and arrivals by second. Returns false, with nothing changed, if
-- another term or epoch is current.
--   p_redis_ms  Redis's clock at the reading
--   p_age_ms    how long before this call the leader read it
CREATE OR REPLACE FUNCTION queue_note(
  p_event integer, p_shard smallint, p_term bigint, p_epoch bigint, p_last bigint, p_redis_ms double precision,
  p_age_ms double precision, p_seconds bigint[], p_lasts bigint[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_skew double precision := extract(epoch FROM v_now)::double precision * 1000 - p_redis_ms - p_age_ms;
BEGIN
  IF NOT lease_holds(p_event, p_term) THEN RETURN false; END IF;
  UPDATE queue_counters q SET
    last_no = greatest(q.last_no, least(p_last, q.ceiling - 1)), read_ms = greatest(q.read_ms, p_redis_ms), skew_ms = v_skew,
    skew_max_ms = greatest(q.skew_max_ms, abs(v_skew))
  WHERE q.event_no = p_event AND q.shard = p_shard AND q.mode = 'redis' AND q.epoch = p_epoch;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO queue_arrivals AS w (event_no, shard, second, last)
    SELECT p_event, p_shard, s.second, s.last FROM unnest(p_seconds, p_lasts) AS s (second, last)
    ON CONFLICT (event_no, shard, second) DO UPDATE SET last = excluded.last WHERE w.last < excluded.last;
  RETURN true;
END $$;
