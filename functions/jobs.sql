-- Jobs and mails that follow a step of an order, and the reports of background processes. A step's transaction only writes rows of
-- ours; a worker forwards them to the job queue (graphile-worker, which has its own schema). Decision 0024: the queue's add_job
-- notifies, and Postgres lets transactions that notify commit only one at a time.

CREATE OR REPLACE FUNCTION job_enqueue(p_task text, p_payload jsonb, p_key text, p_after_ms integer DEFAULT 0) RETURNS void LANGUAGE sql AS $$
  INSERT INTO job_outbox (task, payload, key, after_ms) VALUES (p_task, p_payload, p_key, p_after_ms)
$$;

-- Forwards up to p_limit jobs to the queue, all or none, and returns how many. Several calls may run at once. A job that waits under
-- its key keeps the time at which it is due, so that a crowd of orders does not postpone what follows them.
CREATE OR REPLACE FUNCTION job_forward(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_specs graphile_worker.job_spec[];
  v_moved integer;
BEGIN
  WITH moved AS (
    DELETE FROM job_outbox
    WHERE job_no IN (SELECT job_no FROM job_outbox ORDER BY job_no LIMIT p_limit FOR UPDATE SKIP LOCKED)
    RETURNING *),
  -- The queue accepts a key only once per call.
  latest AS (
    SELECT DISTINCT ON (key, CASE WHEN key IS NULL THEN job_no END) * FROM moved
    ORDER BY key, CASE WHEN key IS NULL THEN job_no END, job_no DESC)
  SELECT (SELECT count(*) FROM moved),
         array_agg((task, payload::json, NULL, CASE WHEN after_ms > 0 THEN now() + after_ms * interval '1 millisecond' END,
                    NULL, key, NULL, NULL)::graphile_worker.job_spec ORDER BY job_no)
  INTO v_moved, v_specs FROM latest;
  IF v_moved > 0 THEN PERFORM graphile_worker.add_jobs(v_specs, job_key_preserve_run_at => true); END IF;
  RETURN v_moved;
END $$;

-- Renews a worker's lease and frees jobs locked by dead workers; returns how many jobs. A live worker whose lease ran out may see its
-- job done twice, which every task can bear.
CREATE OR REPLACE FUNCTION job_worker_keep(p_worker text, p_lease_ms integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_lease interval := p_lease_ms * interval '1 millisecond';
  v_dead text[];
  v_freed integer;
BEGIN
  INSERT INTO job_workers (worker, until) VALUES (p_worker, v_now + v_lease)
  ON CONFLICT (worker) DO UPDATE SET until = excluded.until;
  DELETE FROM job_workers WHERE until < v_now - v_lease;
  -- A worker without a row may have locked jobs before it wrote its first lease. It gets the length of a lease for that.
  SELECT array_agg(DISTINCT locked_by), count(*) INTO v_dead, v_freed
  FROM graphile_worker.jobs
  WHERE locked_at < v_now - v_lease AND locked_by NOT IN (SELECT worker FROM job_workers WHERE until >= v_now);
  IF v_freed > 0 THEN PERFORM graphile_worker.force_unlock_workers(v_dead); END IF;
  RETURN v_freed;
END $$;

-- Ends a worker's lease and frees its jobs at once. Repeatable.
CREATE OR REPLACE FUNCTION job_worker_end(p_worker text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM job_workers WHERE worker = p_worker;
  PERFORM graphile_worker.force_unlock_workers(ARRAY[p_worker]);
END $$;

-- Stores a process's report, deletes reports of processes that ended long ago, and returns this clock for comparison.
CREATE OR REPLACE FUNCTION process_report(p_process text, p_roles text[], p_up_ms bigint, p_parts jsonb, p_kept_ms bigint)
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

-- Owes a mail about a step of an order. Forgotten buyers are owed none, since there is no address. A failed refund is for the operator
-- to fix; the buyer gets a mail only if an earlier one said that the money was given back. A refund that succeeds after such a failure
-- gets another mail: the id counts the mails of the other kind.
CREATE OR REPLACE FUNCTION order_mail_owed(o orders, p_what text, p_detail jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_other integer;
  v_mail uuid;
BEGIN
  IF o.forgotten_at IS NOT NULL THEN RETURN; END IF;
  SELECT count(*) INTO v_other FROM mails
  WHERE order_id = o.order_id AND copy_of IS NULL AND detail ->> 'refund' = p_detail ->> 'refund'
    AND what = CASE p_what WHEN 'refund.succeeded' THEN 'refund.failed' WHEN 'refund.failed' THEN 'refund.succeeded' END;
  IF p_what = 'refund.failed' AND v_other = 0 THEN RETURN; END IF;
  v_mail := md5(concat_ws('/', o.order_id, p_what, coalesce(p_detail ->> 'refund', p_detail ->> 'operation'),
                          nullif(v_other, 0)))::uuid;
  INSERT INTO mails (mail_id, order_id, what, detail) VALUES (v_mail, o.order_id, p_what, coalesce(p_detail, '{}'))
  ON CONFLICT DO NOTHING;
  IF FOUND THEN PERFORM job_enqueue('mail', jsonb_build_object('mail', v_mail), 'mail/' || v_mail); END IF;
END $$;

-- Sends a mail again on a person's request.
--   'again'       it was refused or kept failing: the same mail is owed again
--   'copied'      it was sent before and p_copy asks for another: "mail" is the copy's id
--   'sent'        it was sent before, and no copy was requested
--   'under_way'   the mail or a copy of it is owed and has not failed
--   'not_needed'  it was not needed when it was due, or its buyer was forgotten since
--   'unknown'
CREATE OR REPLACE FUNCTION mail_resend(p_mail uuid, p_copy boolean, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  m mails; o orders;
  v_copy uuid;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM mails WHERE mail_id = p_mail) FOR SHARE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  -- Two requests at once take turns here.
  SELECT * INTO m FROM mails WHERE mail_id = p_mail FOR UPDATE;
  IF m.state = 'not_needed' OR o.forgotten_at IS NOT NULL THEN RETURN '{"kind":"not_needed"}'; END IF;
  IF m.state = 'due' AND m.last_error IS NULL THEN RETURN '{"kind":"under_way"}'; END IF;
  IF m.state <> 'sent' THEN
    UPDATE mails SET state = 'due', updated_at = clock_timestamp() WHERE mail_id = p_mail;
    PERFORM job_enqueue('mail', jsonb_build_object('mail', p_mail), 'mail/' || p_mail);
    INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'mail_again', o.event_no, jsonb_build_object('mail', p_mail));
    RETURN jsonb_build_object('kind', 'again', 'mail', p_mail);
  END IF;
  IF NOT p_copy THEN RETURN '{"kind":"sent"}'; END IF;
  SELECT mail_id INTO v_copy FROM mails WHERE copy_of = p_mail AND state = 'due' LIMIT 1;
  IF FOUND THEN RETURN jsonb_build_object('kind', 'under_way', 'mail', v_copy); END IF;
  v_copy := gen_random_uuid();
  INSERT INTO mails (mail_id, order_id, what, detail, copy_of) VALUES (v_copy, m.order_id, m.what, m.detail, p_mail);
  PERFORM job_enqueue('mail', jsonb_build_object('mail', v_copy), 'mail/' || v_copy);
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES (p_actor, 'mail_copy', o.event_no, jsonb_build_object('mail', p_mail, 'copy', v_copy));
  RETURN jsonb_build_object('kind', 'copied', 'mail', v_copy);
END $$;
