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
