-- Epochs: which store arbitrates a partition, losing Redis and coming back (design §4.4).

-- `grace_until`: after a degrade only receipts are honoured until then. `rebuild_epoch`: of the rebuild under way; the last
-- attempt to begin wins. `changed_at`: of the last change of mode. `reason`: why it was degraded, for the operator.
-- While a partition is 'moving', `epoch` is still the one before: what Postgres granted under it stands until the flip.
ALTER TABLE event_partitions
  ADD COLUMN grace_until timestamptz,
  ADD COLUMN rebuild_epoch bigint,
  ADD COLUMN restored_at timestamptz,
  ADD COLUMN reason text;

-- Which installation this is: one row. Its id is in the name of each key in Redis, where others may have events of the same
-- numbers.
CREATE TABLE installation (
  id       text NOT NULL,
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
INSERT INTO installation (id) VALUES (left(gen_random_uuid()::text, 8));

-- An epoch above p_least, as all later ones are: after a restore from a backup stores may know epochs that the sequence has
-- still before it. The thousand is for those who take one meanwhile.
CREATE FUNCTION next_epoch(p_least bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_epoch bigint := nextval('epochs');
BEGIN
  IF v_epoch > p_least THEN RETURN v_epoch; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('epochs', 0));
  v_epoch := nextval('epochs');
  IF v_epoch <= p_least THEN PERFORM setval('epochs', p_least + 1000); END IF;
  RETURN nextval('epochs');
END $$;

-- Who reported a partition's Redis lost: one row a reporter, of his last report.
CREATE TABLE partition_witnesses (
  event_no  integer NOT NULL REFERENCES events,
  partition smallint NOT NULL,
  reporter  text NOT NULL,
  epoch     bigint NOT NULL,
  reason    text NOT NULL,
  at        timestamptz NOT NULL,
  PRIMARY KEY (event_no, partition, reporter)
);

-- Of a hold that was recovered: the epoch and grant of the receipt that recovered it, by which receipts are judged. Its own
-- epoch and grant are new ones, so that all that is granted later under that epoch outranks it.
ALTER TABLE holds
  ADD COLUMN receipt_epoch bigint,
  ADD COLUMN receipt_grant bigint;

-- The changes of a partition's mode, one function a step of src/inventory/modes.ts. Each takes the event's lock alone, and only
-- then reads the row, in a statement of its own: what was granted before a change has been committed by then, and what waited
-- for it reads the new row. Lock order: witnesses → event lock → lease → partition's row → orders → holds → seats.

-- The row, locked, if the leader's term still rules; `refused` says why not. p_mode: the mode that it has to be in.
CREATE FUNCTION partition_lock(p_event integer, p_partition smallint, p_term bigint, p_mode text,
  OUT refused text, OUT p event_partitions) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM event_lock_alone(p_event);
  IF NOT lease_holds(p_event, p_term) THEN refused := 'other_term'; RETURN; END IF;
  SELECT * INTO p FROM event_partitions e WHERE e.event_no = p_event AND e.partition = p_partition FOR UPDATE;
  IF p.mode IS DISTINCT FROM p_mode THEN refused := 'other_mode'; RETURN; END IF;
  IF p.grace_until > clock_timestamp() THEN refused := 'in_grace'; END IF;
END $$;

CREATE FUNCTION partition_note(p_event integer, p_partition smallint, p_action text, p_epoch bigint, p_reason text)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES ('controller', p_action, p_event, jsonb_build_object('partition', p_partition, 'epoch', p_epoch, 'reason', p_reason))
$$;

-- Answers degraded | noted | settling | changed.
CREATE FUNCTION partition_report(p_event integer, p_partition smallint, p_epoch bigint, p_reporter text, p_reason text,
  p_term bigint, p_witness_ms integer, p_settle_ms integer, p_grace_ms integer,
  OUT kind text, OUT new_epoch bigint, OUT after_ms integer) LANGUAGE plpgsql AS $$
DECLARE
  p event_partitions;
  v_leads boolean;
BEGIN
  SELECT * INTO p FROM event_partitions e WHERE e.event_no = p_event AND e.partition = p_partition;
  IF p.mode IS DISTINCT FROM 'redis' OR p.epoch <> p_epoch THEN kind := 'changed'; RETURN; END IF;
  after_ms := ceil(1000 * extract(epoch FROM
    p.restored_at + p_settle_ms * interval '1 millisecond' - clock_timestamp()));
  IF after_ms > 0 THEN kind := 'settling'; RETURN; END IF;
  after_ms := NULL;
  -- Only a look, so that nobody's renewal waits for us while we wait for the event's lock.
  v_leads := EXISTS (SELECT FROM leases l WHERE l.event_no = p_event AND l.term = p_term AND l.until > clock_timestamp());
  IF NOT v_leads THEN
    -- One after the other: of two first reports at once the later one sees the earlier.
    PERFORM pg_advisory_xact_lock(hashtextextended(format('w/%s/%s', p_event, p_partition), 0));
    INSERT INTO partition_witnesses AS w (event_no, partition, reporter, epoch, reason, at)
    VALUES (p_event, p_partition, p_reporter, p_epoch, p_reason, clock_timestamp())
    ON CONFLICT (event_no, partition, reporter)
      DO UPDATE SET epoch = excluded.epoch, reason = excluded.reason, at = excluded.at;
    IF (SELECT count(*) FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition
          AND w.epoch = p_epoch AND w.at > clock_timestamp() - p_witness_ms * interval '1 millisecond') < 2 THEN
      kind := 'noted';
      RETURN;
    END IF;
  END IF;
  PERFORM event_lock_alone(p_event);
  IF v_leads AND NOT lease_holds(p_event, p_term) THEN kind := 'noted'; RETURN; END IF;
  new_epoch := partition_degrade(p_event, p_partition, p_epoch, p_reason, p_grace_ms);
  kind := CASE WHEN new_epoch IS NULL THEN 'changed' ELSE 'degraded' END;
END $$;

-- The change itself; NULL when somebody else made it. The event's lock is held alone.
CREATE FUNCTION partition_degrade(p_event integer, p_partition smallint, p_epoch bigint, p_reason text, p_grace_ms integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_epoch bigint;
BEGIN
  UPDATE event_partitions e SET mode = 'postgres', epoch = nextval('epochs'), run_ids = '{}', rebuild_epoch = NULL,
      grace_until = date_trunc('milliseconds', clock_timestamp()) + p_grace_ms * interval '1 millisecond',
      reason = p_reason, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition AND e.mode = 'redis' AND e.epoch = p_epoch
  RETURNING e.epoch INTO v_epoch;
  IF v_epoch IS NULL THEN RETURN NULL; END IF;
  DELETE FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition;
  -- Nothing from before counts (the last flip took the rows along); what an unpaid order keeps of the quota, does (S7). The
  -- orders are locked, so that one which just ends is either left out or ends its row here afterwards.
  DELETE FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition;
  INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no,
                     order_id, state)
  SELECT o.event_no, o.hold_id, o.partition, o.visitor, o.holder, '', o.seats, o.created_at, o.payment_deadline, v_epoch, 0,
         o.order_id, 'ordered'
    FROM (SELECT * FROM orders WHERE event_no = p_event AND partition = p_partition AND state IN ('reserved','authorised')
           ORDER BY order_id FOR SHARE) o;
  PERFORM partition_note(p_event, p_partition, 'degrade', v_epoch, p_reason);
  RETURN v_epoch;
END $$;

-- A rebuild begins: the last one to begin may move and flip. p_least: an epoch that its store knows, below the rebuild's.
CREATE FUNCTION partition_begin(p_event integer, p_partition smallint, p_term bigint, p_least bigint, OUT refused text,
  OUT rebuild bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT l.refused INTO refused FROM partition_lock(p_event, p_partition, p_term, 'postgres') l;
  IF refused IS NOT NULL THEN RETURN; END IF;
  UPDATE event_partitions e SET rebuild_epoch = next_epoch(p_least) WHERE e.event_no = p_event AND e.partition = p_partition
  RETURNING e.rebuild_epoch INTO rebuild;
END $$;

-- Whether a row version is from after a mark: from a transaction that had not committed when the mark was made. Row versions
-- name 32 bits of their transaction, compared as Postgres does; long frozen ones may be taken for new, never new ones for old.
CREATE FUNCTION is_since(p_xmin xid, p_mark bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_mark IS NULL OR mod(p_xmin::text::bigint - mod(p_mark, 4294967296) + 4294967296, 4294967296) < 2147483648
$$;

-- The decided seats of a partition side by side, ascending; states by their index in seatStates (src/core/hold.ts). `mark`: what
-- has changed since is asked for by it.
CREATE FUNCTION partition_seats(p_event integer, p_partition smallint, p_mark bigint DEFAULT NULL)
RETURNS TABLE (seats integer[], versions double precision[], states smallint[], mark text) LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(s.seat_no ORDER BY s.seat_no), '{}'),
         coalesce(array_agg(s.version::double precision ORDER BY s.seat_no), '{}'),
         coalesce(array_agg((CASE s.state WHEN 'available' THEN 0 WHEN 'reserved' THEN 2 WHEN 'sold' THEN 3 ELSE 4 END)::smallint
                            ORDER BY s.seat_no), '{}'),
         pg_snapshot_xmin(pg_current_snapshot())::text
    FROM seats s WHERE s.event_no = p_event AND s.partition = p_partition AND is_since(s.xmin, p_mark)
$$;

-- The partition's holds and memories: all that another store has to know to go on. Leases of other epochs are nothing; one
-- that a decision took a seat from is a memory, also when the seat has come back since. (The statistics are from before there
-- were any holds here, and would have all seats read anew for each of them.)
CREATE FUNCTION partition_holds(p_event integer, p_partition smallint, p_mark bigint DEFAULT NULL)
RETURNS SETOF holds LANGUAGE sql STABLE SET enable_nestloop = off AS $$
  SELECT h.event_no, h.hold_id, h.partition, h.visitor, h.holder, h.request, h.seats, h.granted_at, h.deadline, h.epoch,
         h.grant_no, h.order_id,
         CASE WHEN h.state = 'live' AND coalesce(s.count, 0) < cardinality(h.seats) THEN 'expired' ELSE h.state END,
         h.receipt_epoch, h.receipt_grant
    FROM holds h JOIN event_partitions p USING (event_no, partition)
    LEFT JOIN (SELECT hold_id, count(*) FROM seats
                WHERE event_no = p_event AND partition = p_partition AND state = 'available' AND hold_id IS NOT NULL
                GROUP BY hold_id) s ON s.hold_id = h.hold_id
   WHERE h.event_no = p_event AND h.partition = p_partition
     AND (h.state <> 'live' OR h.epoch = p.epoch) AND NOT hold_is_forgotten(h, clock_timestamp())
     AND (is_since(h.xmin, p_mark) OR (h.state = 'live' AND coalesce(s.count, 0) < cardinality(h.seats)))
$$;

-- From here on nobody holds. Answers, still behind the event's lock, what has changed since the mark: the pause is as long as
-- what is left to do, and each question less makes it shorter.
CREATE FUNCTION partition_move(p_event integer, p_partition smallint, p_term bigint, p_rebuild bigint, p_mark bigint)
RETURNS TABLE (refused text, seats integer[], versions double precision[], states smallint[], holds jsonb, phase text,
               phase_version integer) LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  SELECT * INTO v FROM partition_lock(p_event, p_partition, p_term, 'postgres');
  refused := CASE WHEN v.refused IS NULL AND (v.p).rebuild_epoch IS DISTINCT FROM p_rebuild THEN 'other_rebuild'
                  ELSE v.refused END;
  IF refused IS NOT NULL THEN RETURN NEXT; RETURN; END IF;
  UPDATE event_partitions e SET mode = 'moving', grace_until = NULL, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition;
  SELECT s.seats, s.versions, s.states INTO seats, versions, states FROM partition_seats(p_event, p_partition, p_mark) s;
  SELECT coalesce(jsonb_agg(jsonb_build_object(
           'hold', h.hold_id, 'visitor', h.visitor, 'holder', h.holder, 'request', h.request, 'seats', h.seats,
           'grantedAt', round(extract(epoch FROM h.granted_at) * 1000), 'deadline', round(extract(epoch FROM h.deadline) * 1000),
           'grant', h.grant_no, 'order', h.order_id, 'state', h.state)), '[]')
    INTO holds FROM partition_holds(p_event, p_partition, p_mark) h;
  SELECT e.phase, e.version INTO phase, phase_version FROM events e WHERE e.event_no = p_event;
  RETURN NEXT;
END $$;

CREATE FUNCTION partition_flip(p_event integer, p_partition smallint, p_term bigint, p_rebuild bigint, p_run_ids text[],
  OUT refused text) LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  SELECT * INTO v FROM partition_lock(p_event, p_partition, p_term, 'moving');
  refused := CASE WHEN v.refused IS NULL AND (v.p).rebuild_epoch IS DISTINCT FROM p_rebuild THEN 'other_rebuild'
                  ELSE v.refused END;
  IF refused IS NOT NULL THEN RETURN; END IF;
  UPDATE event_partitions e SET mode = 'redis', epoch = p_rebuild, run_ids = p_run_ids, rebuild_epoch = NULL,
      -- A first move is no restore: a store that was never lost is believed lost at once.
      restored_at = CASE WHEN e.reason IS NULL THEN e.restored_at ELSE clock_timestamp() END,
      grace_until = NULL, reason = NULL, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition;
  -- They are the other store's from here on. What the seats' rows still say names an epoch that is over.
  DELETE FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition;
  DELETE FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition;
  PERFORM partition_note(p_event, p_partition, 'restore', p_rebuild, NULL);
END $$;

CREATE FUNCTION partition_abort(p_event integer, p_partition smallint, p_term bigint, OUT refused text, OUT new_epoch bigint)
LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  SELECT * INTO v FROM partition_lock(p_event, p_partition, p_term, 'moving');
  refused := v.refused;
  IF refused IS NOT NULL THEN RETURN; END IF;
  UPDATE event_partitions e SET mode = 'postgres', epoch = nextval('epochs'), rebuild_epoch = NULL, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition
  RETURNING e.epoch INTO new_epoch;
  -- Grant numbers are Postgres's own and go on rising: what is granted next outranks what comes along here.
  UPDATE holds h SET epoch = new_epoch
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.epoch = (v.p).epoch;
  UPDATE seats s SET hold_epoch = new_epoch
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.hold_epoch = (v.p).epoch AND s.hold_until > clock_timestamp();
  PERFORM partition_note(p_event, p_partition, 'abort_restore', new_epoch, NULL);
END $$;

-- Grace in the arbiter (D1). `after_ms`: with 'retry', when it makes sense to ask again; null: shortly.
ALTER TYPE arbiter_answer ADD ATTRIBUTE after_ms integer;
CREATE OR REPLACE FUNCTION arbiter_say(p_kind text, p_seats integer[] DEFAULT NULL, p_epoch bigint DEFAULT NULL,
  p_used integer DEFAULT NULL, p_phase text DEFAULT NULL, p_order uuid DEFAULT NULL)
RETURNS arbiter_answer LANGUAGE sql IMMUTABLE AS $$
  SELECT ROW(p_kind, NULL, NULL, NULL, p_seats, NULL, NULL, p_epoch, NULL, p_order, NULL, p_used, p_phase, NULL)::arbiter_answer
$$;
CREATE OR REPLACE FUNCTION arbiter_say_hold(p_kind text, h holds, p_repeated boolean DEFAULT false)
RETURNS arbiter_answer LANGUAGE sql IMMUTABLE AS $$
  SELECT ROW(p_kind, h.hold_id, h.visitor, h.holder, h.seats, h.granted_at, h.deadline, h.epoch, h.grant_no, h.order_id,
             p_repeated, NULL, NULL, NULL)::arbiter_answer
$$;

-- The gate of every claim: NULL kind lets it pass, with the phase and, while grace lasts, its end as `deadline`. Only what
-- says so with p_grace passes then. p_event's lock is held, shared, from here to the commit.
DROP FUNCTION arbiter_gate(integer, smallint, bigint);
CREATE FUNCTION arbiter_gate(p_event integer, p_partition smallint, p_epoch bigint, p_grace boolean DEFAULT false)
RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  r record;
  answer arbiter_answer;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT p.mode, p.epoch, p.grace_until, e.phase INTO r FROM event_partitions p JOIN events e USING (event_no)
   WHERE p.event_no = p_event AND p.partition = p_partition;
  IF NOT FOUND THEN RETURN arbiter_say('stale', p_epoch => 0::bigint); END IF;
  IF r.mode = 'moving' THEN RETURN arbiter_say('retry'); END IF;
  IF r.mode <> 'postgres' OR r.epoch <> p_epoch THEN RETURN arbiter_say('stale', p_epoch => r.epoch); END IF;
  answer.phase := r.phase;
  IF r.grace_until > clock_timestamp() THEN
    answer.deadline := r.grace_until;
    IF NOT p_grace THEN
      answer.kind := 'retry';
      -- Spread, so that not everybody who was told to wait comes back in the same instant.
      answer.after_ms := ceil(1000 * extract(epoch FROM r.grace_until - clock_timestamp())) + floor(random() * 1000);
    END IF;
  END IF;
  RETURN answer;
END $$;

-- What an id that was used before answers; NULL kind when it is new. A forgotten row makes room. Of a hold that came back by
-- its receipt, or as its order, nobody knows the request any more: any is taken for it.
CREATE OR REPLACE FUNCTION arbiter_past(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_request text) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  h holds;
BEGIN
  SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = p_hold;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF hold_is_forgotten(h, arbiter_now()) THEN
    DELETE FROM holds WHERE event_no = p_event AND hold_id = p_hold AND hold_is_forgotten(holds, arbiter_now());
    RETURN NULL;
  END IF;
  IF h.visitor <> p_visitor OR h.partition <> p_partition THEN RETURN arbiter_say('mismatch'); END IF;
  IF h.state = 'tombstone' THEN RETURN arbiter_say('hold_gone'); END IF;
  IF h.request <> p_request AND h.request <> '' THEN RETURN arbiter_say('mismatch'); END IF;
  IF hold_stands(h, p_epoch, arbiter_now()) THEN RETURN arbiter_say_hold('granted', h, true); END IF;
  RETURN arbiter_say('hold_gone');
END $$;

-- release: as in 0002, but it goes on in grace: an id that was given back, or got its tombstone, cannot be recovered.
CREATE OR REPLACE FUNCTION arbiter_release(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_force uuid) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  answer arbiter_answer;
  v_now timestamptz;
  v_seats integer[];
  h holds;
BEGIN
  answer := arbiter_gate(p_event, p_partition, p_epoch, p_grace => true);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  LOOP
    SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
    v_now := arbiter_now();
    IF FOUND AND hold_is_forgotten(h, v_now) THEN
      DELETE FROM holds WHERE event_no = p_event AND hold_id = p_hold;
    ELSIF FOUND THEN
      EXIT;
    END IF;
    INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
    VALUES (p_event, p_hold, p_partition, p_visitor, p_visitor, '', '{}', v_now, v_now, p_epoch, 0, 'tombstone')
    ON CONFLICT DO NOTHING;
    -- Not inserted: the claim that it overtook has just been granted.
    IF FOUND THEN RETURN arbiter_say('hold_gone'); END IF;
  END LOOP;
  IF h.partition <> p_partition OR h.visitor <> p_visitor THEN RETURN arbiter_say('hold_gone'); END IF;
  v_seats := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.state = 'available' AND s.hold_id = p_hold
    ORDER BY s.seat_no FOR NO KEY UPDATE);
  v_now := arbiter_now();
  IF h.state <> 'ordered' AND NOT hold_is_live(h, p_epoch, v_now) THEN RETURN arbiter_say('hold_gone'); END IF;
  IF h.order_id <> p_force OR (h.order_id IS NOT NULL AND p_force IS NULL) THEN
    RETURN arbiter_say('bound', p_order => h.order_id);
  END IF;
  UPDATE holds SET state = CASE state WHEN 'ordered' THEN 'ended' ELSE 'released' END,
                   deadline = CASE state WHEN 'ordered' THEN deadline ELSE v_now END
   WHERE event_no = p_event AND hold_id = p_hold;
  IF h.deadline <= v_now OR h.epoch <> p_epoch THEN v_seats := '{}'; END IF;
  UPDATE seats s SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL
   WHERE s.event_no = p_event AND s.seat_no = ANY(v_seats);
  RETURN arbiter_say('released', v_seats);
END $$;

-- By which receipts are judged: the higher wins (arrays are compared from the left).
CREATE FUNCTION hold_rank(h holds) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY[coalesce(h.receipt_epoch, h.epoch), coalesce(h.receipt_grant, h.grant_no)]
$$;

-- recover: a receipt presented, its fields as those of a row of holds. After grace it answers the hold as it is; while grace
-- lasts it takes the seats again, and nobody is told "yes" before the end.
DROP FUNCTION arbiter_recover(integer, smallint, bigint, uuid, text);
CREATE FUNCTION arbiter_recover(p_event integer, p_partition smallint, p_epoch bigint, p_receipt jsonb, p_seats_max integer)
RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  r holds := jsonb_populate_record(NULL::holds, p_receipt);
  gate arbiter_answer;
  answer arbiter_answer;
BEGIN
  gate := arbiter_gate(p_event, p_partition, p_epoch, p_grace => true);
  IF gate.kind IS NOT NULL THEN RETURN gate; END IF;
  IF gate.deadline IS NOT NULL THEN
    -- The quota and the visitor's other holds, as in arbiter_hold.
    PERFORM pg_advisory_xact_lock(hashtextextended(format('h/%s/%s/%s', p_event, p_partition, r.holder), 0));
    IF r.visitor <> r.holder THEN
      PERFORM pg_advisory_xact_lock(hashtextextended(format('v/%s/%s/%s', p_event, p_partition, r.visitor), 0));
    END IF;
  END IF;
  answer := arbiter_recovered(p_event, p_partition, p_epoch, r, gate.deadline);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  IF gate.deadline IS NULL THEN RETURN arbiter_say('hold_gone'); END IF;
  FOR v_try IN 1 .. 5 LOOP
    BEGIN
      RETURN arbiter_take_again(p_event, p_partition, p_epoch, r, p_seats_max, gate.deadline);
    EXCEPTION WHEN SQLSTATE 'OS001' THEN NULL;
    END;
  END LOOP;
  RAISE EXCEPTION 'others took the seats again and again' USING ERRCODE = 'serialization_failure';
END $$;

CREATE FUNCTION arbiter_recovering(p_until timestamptz) RETURNS arbiter_answer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  answer arbiter_answer;
BEGIN
  answer.kind := 'recovering';
  answer.deadline := p_until;
  RETURN answer;
END $$;

-- What a hold that is known answers to its receipt; NULL kind when it is not, which a lease of a lost store is neither. The row
-- is locked: a later receipt that is just taking its seats, at the last moment of grace, is waited for.
CREATE FUNCTION arbiter_recovered(p_event integer, p_partition smallint, p_epoch bigint, r holds, p_until timestamptz)
RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  h holds;
  v_now timestamptz;
  v_own integer[];
BEGIN
  SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = r.hold_id FOR NO KEY UPDATE;
  v_now := arbiter_now();
  IF NOT FOUND OR hold_is_forgotten(h, v_now) OR (h.state = 'live' AND h.epoch <> p_epoch) THEN RETURN NULL; END IF;
  IF h.visitor <> r.visitor OR h.partition <> p_partition OR NOT hold_is_live(h, p_epoch, v_now) THEN
    RETURN arbiter_say('hold_gone');
  END IF;
  v_own := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.state = 'available' AND s.hold_id = h.hold_id);
  IF NOT h.seats <@ v_own THEN RETURN arbiter_say('taken', ARRAY(SELECT u FROM unnest(h.seats) u WHERE u <> ALL(v_own))); END IF;
  IF p_until IS NULL OR p_until <= v_now THEN RETURN arbiter_say_hold('recovered', h); END IF;
  -- Perhaps another receipt of it, a later one: from after its extension, or its own recovery in an earlier grace.
  IF h.receipt_epoch IS NOT NULL AND r.epoch < p_epoch THEN
    UPDATE holds SET deadline = greatest(deadline, r.deadline), order_id = coalesce(order_id, r.order_id),
        receipt_epoch = (greatest(hold_rank(h), hold_rank(r)))[1], receipt_grant = (greatest(hold_rank(h), hold_rank(r)))[2]
     WHERE event_no = p_event AND hold_id = h.hold_id;
    UPDATE seats s SET hold_until = greatest(s.hold_until, r.deadline)
     WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.hold_id = h.hold_id AND s.hold_until < r.deadline;
  END IF;
  RETURN arbiter_recovering(p_until);
END $$;

-- Those whom a receipt could take something from, or who could be in its way: the holds of its seats, and the other ones of
-- its visitor and its holder. Locked, by id, and then all their seats and the receipt's, by number.
CREATE FUNCTION arbiter_lock_rivals(p_event integer, p_partition smallint, p_epoch bigint, r holds)
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  v_ids uuid[] := ARRAY(
    SELECT s.hold_id FROM seats s
     WHERE s.event_no = p_event AND s.seat_no = ANY(r.seats) AND s.hold_id IS NOT NULL AND s.hold_epoch = p_epoch
    UNION SELECT h.hold_id FROM holds h
     WHERE h.event_no = p_event AND h.partition = p_partition AND h.visitor = r.visitor AND h.state = 'live' AND h.epoch = p_epoch
    UNION SELECT h.hold_id FROM holds h
     WHERE h.event_no = p_event AND h.partition = p_partition AND h.holder = r.holder AND h.state = 'live' AND h.epoch = p_epoch);
  v_seats integer[];
BEGIN
  PERFORM FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_ids) ORDER BY h.hold_id FOR UPDATE;
  v_seats := r.seats || ARRAY(SELECT unnest(h.seats) FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_ids));
  PERFORM FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY(v_seats) ORDER BY s.seat_no FOR NO KEY UPDATE;
  RETURN v_ids;
END $$;

-- In grace, a receipt that is not known yet: all its seats or nothing changed (S2). Whoever has a lower rank gives way, and ends
-- wholly: the holds of its seats; the visitor's other one, for a later hold means that the earlier was over; the holder's,
-- lowest first, as far as his quota asks for it (S7). OS001: somebody else has taken a seat meanwhile, begin again.
CREATE FUNCTION arbiter_take_again(p_event integer, p_partition smallint, p_epoch bigint, r holds, p_seats_max integer,
  p_until timestamptz) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  v_rank bigint[] := hold_rank(r);
  v_size integer := cardinality(r.seats);
  v_rivals uuid[];
  v_occupants uuid[];
  v_weaker uuid[];
  v_losers uuid[];
  v_over uuid[];
  v_used integer;
  v_free integer[];
  v_rows integer;
  v_now timestamptz;
BEGIN
  IF r.epoch >= p_epoch OR EXISTS (SELECT FROM orders o WHERE o.hold_id = r.hold_id) THEN RETURN arbiter_say('hold_gone'); END IF;
  v_rivals := arbiter_lock_rivals(p_event, p_partition, p_epoch, r);
  v_now := arbiter_now();
  IF v_now >= least(p_until, r.deadline) THEN RETURN arbiter_say('hold_gone'); END IF;
  v_occupants := ARRAY(SELECT DISTINCT s.hold_id FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY(r.seats)
    AND s.state = 'available' AND NOT seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, v_now));
  IF NOT v_occupants <@ v_rivals THEN RAISE EXCEPTION USING ERRCODE = 'OS001'; END IF;
  v_weaker := ARRAY(SELECT h.hold_id FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_rivals)
    AND hold_is_live(h, p_epoch, v_now) AND hold_rank(h) < v_rank);
  -- The visitor's other hold: a later one means that this one was over.
  v_losers := ARRAY(SELECT h.hold_id FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_rivals)
    AND hold_is_live(h, p_epoch, v_now) AND h.visitor = r.visitor);
  IF NOT v_losers <@ v_weaker THEN RETURN arbiter_say('hold_gone'); END IF;
  v_free := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(r.seats) AND s.state = 'available'
      AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, v_now) OR s.hold_id = ANY(v_weaker)));
  IF NOT r.seats <@ v_free THEN RETURN arbiter_say('taken', ARRAY(SELECT u FROM unnest(r.seats) u WHERE u <> ALL(v_free))); END IF;
  v_losers := v_losers || v_occupants;
  SELECT coalesce(max(o.used) FILTER (WHERE o.ahead), 0),
         coalesce(array_agg(o.hold_id) FILTER (WHERE NOT o.ahead AND o.used + v_size > p_seats_max), '{}')
    INTO v_used, v_over
    FROM (SELECT h.hold_id, h.state = 'ordered' OR hold_rank(h) >= v_rank AS ahead,
                 sum(cardinality(h.seats)) OVER (ORDER BY h.state = 'ordered' DESC, hold_rank(h) DESC, h.hold_id) AS used
            FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition AND h.holder = r.holder
             AND (h.state = 'ordered' OR hold_is_live(h, p_epoch, v_now)) AND h.hold_id <> ALL(v_losers)) o;
  IF v_used + v_size > p_seats_max THEN RETURN arbiter_say('hold_gone'); END IF;
  v_losers := v_losers || v_over;

  DELETE FROM holds h WHERE h.event_no = p_event AND h.hold_id = r.hold_id
     AND (hold_is_forgotten(h, v_now) OR (h.state = 'live' AND h.epoch <> p_epoch));
  INSERT INTO holds (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no,
                     order_id, state, receipt_epoch, receipt_grant)
  VALUES (p_event, r.hold_id, p_partition, r.visitor, r.holder, '', r.seats, r.granted_at, r.deadline, p_epoch,
          nextval('grant_numbers'), r.order_id, 'live', r.epoch, r.grant_no)
  ON CONFLICT DO NOTHING;
  -- A release of this id has overtaken us and left its tombstone.
  IF NOT FOUND THEN RETURN arbiter_say('hold_gone'); END IF;
  IF v_losers <> '{}' THEN
    UPDATE holds h SET state = 'released', deadline = v_now WHERE h.event_no = p_event AND h.hold_id = ANY(v_losers);
    v_free := ARRAY(SELECT unnest(h.seats) FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_losers));
    UPDATE seats s SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL
     WHERE s.event_no = p_event AND s.seat_no = ANY(v_free) AND s.hold_id = ANY(v_losers);
  END IF;
  UPDATE seats s SET hold_id = r.hold_id, hold_until = r.deadline, hold_epoch = p_epoch
   WHERE s.event_no = p_event AND s.seat_no = ANY(r.seats);
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  ASSERT v_rows = v_size, 'every seat of a recovered hold has a row';
  RETURN arbiter_recovering(p_until);
END $$;

-- As in 0002: plans are made once a session, and not as sequential scans of tables that were empty then.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.proname IN ('arbiter_recover','arbiter_release') LOOP
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_bitmapscan = off', f);
  END LOOP;
END $$;
