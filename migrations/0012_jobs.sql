-- What follows a step of an order: mails and, later, whatever else is told to others. The step's transaction only writes rows
-- of ours; a worker hands them to the job queue (graphile-worker, whose schema its own migrations make). See
-- docs/decisions/0024: its add_job notifies, and Postgres lets transactions that notify commit one at a time.

-- Jobs on their way to the queue.
CREATE TABLE job_outbox (
  job_no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task        text NOT NULL,
  payload     jsonb NOT NULL,
  key         text,                          -- one job a key waits in the queue: a later one replaces it
  after_ms    integer NOT NULL DEFAULT 0,    -- how long it waits before it runs
  enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION job_enqueue(p_task text, p_payload jsonb, p_key text, p_after_ms integer DEFAULT 0) RETURNS void LANGUAGE sql AS $$
  INSERT INTO job_outbox (task, payload, key, after_ms) VALUES (p_task, p_payload, p_key, p_after_ms)
$$;

-- Hands up to `p_limit` jobs to the queue, all or none; answers how many left the outbox. Several may run at once. A job that
-- waits under its key keeps the time at which it is due: what follows each of a crowd of orders is not put off by the next one.
CREATE FUNCTION job_forward(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_specs graphile_worker.job_spec[];
  v_moved integer;
BEGIN
  WITH moved AS (
    DELETE FROM job_outbox
    WHERE job_no IN (SELECT job_no FROM job_outbox ORDER BY job_no LIMIT p_limit FOR UPDATE SKIP LOCKED)
    RETURNING *),
  -- The queue takes a key only once a call.
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

-- Who works on the queue, and until when by this clock: the queue itself keeps a dead worker's jobs locked for 4 h.
CREATE TABLE job_workers (
  worker text PRIMARY KEY,                   -- what the queue calls it in locked_by
  until  timestamptz NOT NULL
);

-- Renews a worker's lease and frees what dead ones had locked; answers how many jobs were freed. A worker whose lease ran
-- out though it lives may see its job done twice: every task can bear that.
CREATE FUNCTION job_worker_keep(p_worker text, p_lease_ms integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_lease interval := p_lease_ms * interval '1 millisecond';
  v_dead text[];
  v_freed integer;
BEGIN
  INSERT INTO job_workers (worker, until) VALUES (p_worker, v_now + v_lease)
  ON CONFLICT (worker) DO UPDATE SET until = excluded.until;
  DELETE FROM job_workers WHERE until < v_now - v_lease;
  -- One that has no row may have locked jobs before it wrote its first lease: it has as long for that as a lease lasts.
  SELECT array_agg(DISTINCT locked_by), count(*) INTO v_dead, v_freed
  FROM graphile_worker.jobs
  WHERE locked_at < v_now - v_lease AND locked_by NOT IN (SELECT worker FROM job_workers WHERE until >= v_now);
  IF v_freed > 0 THEN PERFORM graphile_worker.force_unlock_workers(v_dead); END IF;
  RETURN v_freed;
END $$;

-- A mail that is owed to a buyer. Its id makes its Message-ID, so that a repeat is known for one. The address and the words
-- are taken from the order when it is sent: nothing personal is kept here.
CREATE TABLE mails (
  mail_id    uuid PRIMARY KEY,
  order_id   uuid NOT NULL REFERENCES orders,
  what       text NOT NULL,                  -- what happened: order.confirmed …
  detail     jsonb NOT NULL DEFAULT '{}',
  state      text NOT NULL DEFAULT 'due' CHECK (state IN ('due','sent','refused','not_needed')),
  attempts   integer NOT NULL DEFAULT 0,
  last_error text,                           -- of the last attempt, as the mail server said it
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX mails_order ON mails (order_id);
-- The operator's list: refused for good, or tried in vain.
CREATE INDEX mails_attention ON mails (updated_at) WHERE state = 'refused' OR (state = 'due' AND last_error IS NOT NULL);

-- The local mailbox, where mails go while no mail server is configured.
CREATE TABLE mailbox (
  message_id  text PRIMARY KEY,
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  copies      integer NOT NULL DEFAULT 1,    -- a repeat adds one: a receiver shows the mail once
  sender      text NOT NULL,
  recipient   text NOT NULL,
  subject     text NOT NULL,
  body_text   text NOT NULL,
  body_html   text NOT NULL
);
CREATE INDEX mailbox_newest ON mailbox (at DESC);
CREATE TABLE mailbox_attachments (
  message_id text NOT NULL REFERENCES mailbox ON DELETE CASCADE,
  position   integer NOT NULL,
  filename   text NOT NULL,
  mime_type  text NOT NULL,
  bytes      bytea NOT NULL,
  PRIMARY KEY (message_id, position)
);

-- What follows a step of an order, called inside the step's own transaction after all its locks. `p_what` is one of
-- order.confirmed (captured), order.closed_late (late money given back), order.cancelled, refund.created, refund.succeeded,
-- refund.failed. `p_detail` names the cause, {"refund": id} or {"operation": id}: the same thing twice is one mail. It may
-- also carry "amount" (minor units that go back to the buyer) and "tickets" (ids of those that are valid no more).
CREATE FUNCTION order_happened(o orders, p_what text, p_detail jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_mail uuid := md5(concat_ws('/', o.order_id, p_what, coalesce(p_detail ->> 'refund', p_detail ->> 'operation')))::uuid;
BEGIN
  -- A refund that failed is the operator's to mend: there is nothing to tell the buyer yet.
  IF p_what = 'refund.failed' THEN RETURN; END IF;
  INSERT INTO mails (mail_id, order_id, what, detail) VALUES (v_mail, o.order_id, p_what, coalesce(p_detail, '{}'))
  ON CONFLICT DO NOTHING;
  IF FOUND THEN PERFORM job_enqueue('mail', jsonb_build_object('mail', v_mail), 'mail/' || v_mail); END IF;
END $$;

-- Captured: the order is paid, and what follows is written with it.
CREATE OR REPLACE FUNCTION money_captured(p_operation uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  o orders; m money_operations; v_paid orders;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'capture' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  IF m.state = 'refused' THEN
    -- Money that came after its order was cancelled: for the operator's list.
    UPDATE money_operations SET attention = 'captured_after_refusal', answer = p_answer, updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations SET state = 'done', answer = p_answer, due_at = NULL, claimed_until = NULL,
                              attention = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'paid', updated_at = clock_timestamp() WHERE order_id = o.order_id AND state = 'confirmed'
  RETURNING * INTO v_paid;
  IF FOUND THEN PERFORM order_happened(v_paid, 'order.confirmed', jsonb_build_object('operation', p_operation)); END IF;
  PERFORM order_note(o.order_id, 'capture', o.state, 'paid', jsonb_build_object('operation', p_operation));
  RETURN money_result('captured', p_operation);
END $$;
