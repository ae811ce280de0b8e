-- The waiting room's counters: which store issues numbers, ranges that a loss left unknown, arrivals of sharded queues
-- (design §4.1). Lock order as in 0003: event lock → lease → counter → admissions row.

-- `mode`: who issues numbers. `epoch`: under which Redis may; a new one whenever the store changes or may have lost memory.
-- `store`, `run_ids`: in redis mode the configured server and the run ids that are trusted with the shard.
-- `ceiling` belongs to the epoch: who reads it together with the epoch may let Redis issue below it, whatever happens to
-- this row meanwhile, since the next epoch begins to number at it. That is what makes W1 hold over every loss.
-- `read_ms`: Redis's clock (Unix time, ms) when the leader last read what it had issued. `skew_ms`, `skew_max_ms`: how far
-- Redis's clock stood from this one's then, and at most so far; the way of the reading is part of it.
-- `lost_at`, `reason`: when and why the numbering last came back from Redis without its word.
ALTER TABLE queue_counters
  ADD COLUMN mode text NOT NULL DEFAULT 'postgres' CHECK (mode IN ('postgres','redis')),
  ADD COLUMN epoch bigint NOT NULL DEFAULT nextval('epochs'),
  ADD COLUMN changed_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN store text,
  ADD COLUMN run_ids text[] NOT NULL DEFAULT '{}',
  ADD COLUMN lost_at timestamptz,
  ADD COLUMN reason text,
  ADD COLUMN reported_by text,
  ADD COLUMN reported_at timestamptz,
  ADD COLUMN read_ms double precision,
  ADD COLUMN skew_ms double precision,
  ADD COLUMN skew_max_ms double precision;

-- Of numbers from `first` to `last` nobody can say how many were issued: their store was lost before it told (W1). Those
-- that were stay valid. The frontier passes the range in one move when it reaches it, so that nobody waits for numbers
-- that do not exist, and whoever holds one of them is called then. `epoch`: under which they may have been issued.
CREATE TABLE queue_gaps (
  event_no integer NOT NULL REFERENCES events,
  shard    smallint NOT NULL,
  first    bigint NOT NULL,
  last     bigint NOT NULL,
  epoch    bigint NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (event_no, shard, epoch),
  CHECK (last >= first)
);

-- The last number that each second of arrivals had got at its end; `second` is a Unix time of the issuing store's clock.
-- Kept for the report after the sale; one row a shard and second in which somebody came. Without a foreign key: those who
-- join must not wait for the event's row.
CREATE TABLE queue_arrivals (
  event_no integer NOT NULL,
  shard    smallint NOT NULL,
  second   bigint NOT NULL,
  last     bigint NOT NULL,
  PRIMARY KEY (event_no, shard, second)
);
ALTER TABLE queue_arrivals SET (fillfactor = 50);

-- How many numbers of (p_from, p_to] lie in gaps.
CREATE FUNCTION queue_gap_numbers(p_event integer, p_shard smallint, p_from bigint, p_to bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(greatest(0, least(g.last, p_to) - greatest(g.first, p_from + 1) + 1)), 0)::bigint
  FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard AND g.last > p_from AND g.first <= p_to
$$;

CREATE FUNCTION in_queue_gap(p_event integer, p_shard smallint, p_number bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard
    AND g.first <= p_number AND g.last >= p_number)
$$;

-- As in 0003, and: answers phase 'moved' and draws nothing when this store does not issue the shard's numbers (any more),
-- judged behind the counter's lock; notes the batch's arrivals.
CREATE OR REPLACE FUNCTION queue_join(
  p_event integer, p_shard smallint, p_visitors text[], p_memory_ms integer, p_ceiling_step integer)
RETURNS TABLE (phase text, opens_at timestamptz, number bigint, issued_at timestamptz, repeated boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_phase text;
  v_opens timestamptz;
  v_mode text;
  v_last bigint;
  v_new bigint;
  v_now timestamptz;
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
    INSERT INTO queue_arrivals AS w (event_no, shard, second, last)
      VALUES (p_event, p_shard, floor(extract(epoch FROM v_now))::bigint, v_last + v_new)
      ON CONFLICT (event_no, shard, second) DO UPDATE SET last = greatest(w.last, excluded.last);
  END IF;

  RETURN QUERY
    SELECT v_phase, v_opens, r.number, r.issued_at,
      r.number <= v_last OR row_number() OVER (PARTITION BY a.visitor ORDER BY a.place) > 1
    FROM unnest(p_visitors) WITH ORDINALITY AS a (visitor, place)
    CROSS JOIN LATERAL (
      SELECT r.number, r.issued_at FROM queue_recent r WHERE r.event_no = p_event AND r.visitor = a.visitor OFFSET 0) r
    ORDER BY a.place;
END $$;

-- Hands the numbering of a shard over to Redis, of the leader's term: from this commit Postgres issues none of it. Redis is
-- to be opened with what is answered, once: an epoch that may have issued numbers is never opened again. `p_above`: the epoch
-- that Redis knows, 0 for none; the new one is higher.
-- 'turned', or nothing was changed: 'other_term', 'other_mode' (not p_epoch in postgres mode), 'settling' (lost less than
-- p_settle_ms ago), 'clock' (p_redis_ms, Redis's clock just before the call, is more than p_skew_ms away from ours).
CREATE FUNCTION queue_to_redis(
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

-- Takes back what queue_to_redis did when Redis certainly did not open the epoch, and so nobody drew under it: Postgres goes
-- on where it was, nothing is lost. 'withdrawn', or nothing was changed: 'other_term', 'already' (the epoch is over).
CREATE FUNCTION queue_withdraw(p_event integer, p_shard smallint, p_term bigint, p_epoch bigint, p_reason text)
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

-- Takes the numbering of a shard back: Postgres goes on at the ceiling of the epoch that is over, and what lies between
-- that and the last number known is a gap. Idempotent: an epoch that is over is 'already'. By the leader's term at once;
-- without a term the second process that reports the same within p_witness_ms does it, the first answers 'noted'.
-- `p_seen`: the highest number that the caller got from Redis under the epoch; 0: none.
CREATE FUNCTION queue_to_postgres(
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
  -- Whoever is in the gap came before whoever comes from here on.
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

-- A process tells how far an epoch that is over had come: numbers up to there are ordinary ones, the gap begins behind
-- them. Nothing is changed about a gap that the frontier has passed.
CREATE FUNCTION queue_seen(p_event integer, p_shard smallint, p_epoch bigint, p_seen bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard AND g.epoch = p_epoch AND g.last <= p_seen
    AND g.first > (SELECT coalesce(a.frontier[p_shard + 1], 0) FROM admissions a WHERE a.event_no = p_event);
  UPDATE queue_gaps g SET first = p_seen + 1
    WHERE g.event_no = p_event AND g.shard = p_shard AND g.epoch = p_epoch AND g.first <= p_seen AND g.last > p_seen
    AND g.first > (SELECT coalesce(a.frontier[p_shard + 1], 0) FROM admissions a WHERE a.event_no = p_event);
END $$;

-- Raises the ceiling ahead of use for the epoch that rules; null: it rules no more. Answers the ceiling in any case.
CREATE FUNCTION queue_raise(p_event integer, p_shard smallint, p_epoch bigint, p_last bigint, p_step integer)
RETURNS bigint LANGUAGE sql AS $$
  UPDATE queue_counters q SET
    ceiling = greatest(q.ceiling, least(p_last, q.ceiling - 1) + p_step + 1),
    last_no = greatest(q.last_no, least(p_last, q.ceiling - 1))
  WHERE q.event_no = p_event AND q.shard = p_shard AND q.mode = 'redis' AND q.epoch = p_epoch
  RETURNING q.ceiling
$$;

-- What the leader read in Redis: the last number issued, and its arrivals by second. `p_redis_ms`: Redis's clock then;
-- `p_age_ms`: how long ago that was when the leader called.
-- False: another term or epoch rules, nothing was changed.
CREATE FUNCTION queue_note(
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

-- The shards of an event's queue, by its setting `queueShards` (1 by default, 16 at most), made with its first counter.
CREATE FUNCTION queue_shards_make() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO queue_counters (event_no, shard)
    SELECT NEW.event_no, n FROM events e,
      generate_series(1, least(16, coalesce((e.settings->>'queueShards')::integer, 1)) - 1) n
    WHERE e.event_no = NEW.event_no
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER queue_shards_make AFTER INSERT ON queue_counters FOR EACH ROW WHEN (NEW.shard = 0)
  EXECUTE FUNCTION queue_shards_make();
