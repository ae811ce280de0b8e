-- Background work: what each process says about its loops, jobs that go back when their worker has ended, and what is overdue.

-- One row a process, renewed every few seconds and deleted when it stops in order.
CREATE TABLE process_health (
  process     text PRIMARY KEY,              -- new with each start: host, process id and a random part
  roles       text[] NOT NULL,
  started_at  timestamptz NOT NULL,
  reported_at timestamptz NOT NULL,
  parts       jsonb NOT NULL                 -- of each loop: name, state, since, last success, error; no personal data
);

-- Stores a report, drops rows of processes that ended long ago, and returns this clock for comparison.
CREATE FUNCTION process_report(p_process text, p_roles text[], p_up_ms bigint, p_parts jsonb, p_kept_ms bigint)
RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  INSERT INTO process_health (process, roles, started_at, reported_at, parts)
  VALUES (p_process, p_roles, v_now - p_up_ms * interval '1 millisecond', v_now, p_parts)
  ON CONFLICT (process) DO UPDATE SET reported_at = excluded.reported_at, parts = excluded.parts;
  DELETE FROM process_health WHERE reported_at < v_now - p_kept_ms * interval '1 millisecond';
  RETURN v_now;
END $$;

-- A worker that has ended: its lease ends and its jobs are free at once. Repeating it changes nothing.
CREATE FUNCTION job_worker_end(p_worker text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM job_workers WHERE worker = p_worker;
  PERFORM graphile_worker.force_unlock_workers(ARRAY[p_worker]);
END $$;

-- Mails that have been owed for too long.
CREATE INDEX mails_due ON mails (created_at) WHERE state = 'due';

-- As in 0010, but what is remembered is read once and answered from that reading: the sweep may forget a visitor between two
-- statements of this function, and the whole batch then had fewer answers than visitors.
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
  v_numbers bigint[];       -- by place in p_visitors; null: not remembered
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

  -- Each looked up by itself: as a join it would read all that is remembered, without statistics.
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
      -- The difference of one: a number stays below the ceiling, never on it.
      ceiling = CASE WHEN v_last + v_new + p_ceiling_step / 2 >= c.ceiling
        THEN v_last + v_new + p_ceiling_step + 1 ELSE c.ceiling END
    WHERE c.event_no = p_event AND c.shard = p_shard;
    INSERT INTO queue_arrivals AS w (event_no, shard, second, last)
      VALUES (p_event, p_shard, floor(extract(epoch FROM v_now))::bigint, v_last + v_new)
      ON CONFLICT (event_no, shard, second) DO UPDATE SET last = greatest(w.last, excluded.last);
  END IF;

  -- New ones are numbered by the first place of each visitor, as above.
  RETURN QUERY
    SELECT v_phase, v_opens,
      coalesce(x.number, v_last + dense_rank() OVER (PARTITION BY x.number IS NULL ORDER BY x.first)),
      coalesce(x.issued, v_now), x.number IS NOT NULL OR x.place > x.first
    FROM (SELECT a.*, min(a.place) OVER (PARTITION BY a.visitor) AS first
          FROM unnest(p_visitors, v_numbers, v_issued) WITH ORDINALITY AS a (visitor, number, issued, place)) x
    ORDER BY x.place;
END $$;
