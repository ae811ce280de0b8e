-- The Postgres arbiter: one function an operation, called once each by src/inventory/postgres.ts. The contract is in
-- src/inventory/arbiter.ts; S numbers are the promises of docs/SPEC.md.
--
-- Locks, always in this order: the event's lock (shared) → the holder's and the visitor's → hold rows → seat rows by number.
-- Each claim reads mode, epoch and phase only after the event's lock, in a statement of its own: under READ COMMITTED every
-- statement of a volatile function sees what was committed before it began, so nothing granted before a flip commits after it.
-- Deadlines are tested with clock_timestamp() after the last lock. Times are kept in whole milliseconds, as callers see them.
--
-- What `reserve` and the later steps of an order (migration 0004) have to write, all in their one transaction:
--   lock    the order's rows, then the holds row FOR UPDATE, then the seats ORDER BY seat_no FOR NO KEY UPDATE
--   test    after the locks: holds.state = 'live', holds.order_id = the order (extend bound it), holds.epoch = the partition's,
--           clock_timestamp() < holds.deadline - 6 s, and every seat state = 'available' AND hold_id = this hold
--   reserve seats: state = 'reserved', version = version + 1, order_id = the order, hold_id = hold_until = hold_epoch = NULL
--           holds: state = 'ordered' (deadline stays): the quota goes on counting it
--   sold    seats: state = 'sold', version = version + 1;  holds: state = 'ended'
--   closed  seats WHERE order_id = the order: state = 'available', version = version + 1, order_id = NULL
--           holds: state = 'ended'. A hold whose order never was reserved is given back by arbiter_release (force).
-- A row 'ordered' is the only one that is neither a lease nor forgotten: whoever sets it has to see that it ends.

-- 'expired': lapsed and swept. Every state but 'live' and 'ordered' is a memory that its id is used up, kept for a hold's
-- longest life after its deadline; for 'released', 'replaced' and 'tombstone' the deadline is the instant of that.
ALTER TABLE holds DROP CONSTRAINT holds_state_check;
ALTER TABLE holds ADD CONSTRAINT holds_state_check
  CHECK (state IN ('live','ordered','ended','released','replaced','expired','tombstone'));

-- When the sweep has something to do with a row: a lease that lapses, a memory that ends. (Fixed lengths, so immutable.)
CREATE FUNCTION arbiter_life_max() RETURNS interval LANGUAGE sql IMMUTABLE AS $$ SELECT interval '15 minutes' $$;
CREATE FUNCTION hold_due(p_state text, p_deadline timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_state WHEN 'live' THEN p_deadline WHEN 'ordered' THEN NULL
                      ELSE p_deadline + interval '15 minutes' END
$$;
-- The planner, with no statistics yet and 'event_no = $1' in each query for the sake of pruning, finds every index that
-- begins with event_no, or whose predicate fits, as good as the right one, and then reads all of an event's holds in each
-- claim (measured: 1 ms at 1,500 holds, and rising). So no index here begins with what is equal in all rows of a partition,
-- and none is partial: for each query there is one that fits.
DROP INDEX holds_holder, holds_visitor, holds_deadline;
ALTER TABLE holds DROP CONSTRAINT holds_pkey;
ALTER TABLE holds ADD PRIMARY KEY (hold_id, event_no);
CREATE INDEX holds_holder ON holds (holder);
CREATE INDEX holds_visitor ON holds (visitor);
CREATE INDEX holds_due ON holds (hold_due(state, deadline));

CREATE TYPE arbiter_answer AS (
  kind       text,
  hold_id    uuid,
  visitor    text,
  holder     text,
  seats      integer[],
  granted_at timestamptz,
  deadline   timestamptz,
  epoch      bigint,
  grant_no   bigint,
  order_id   uuid,
  repeated   boolean,
  used       integer,
  phase      text
);

CREATE FUNCTION arbiter_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  $$ SELECT date_trunc('milliseconds', clock_timestamp()) $$;

-- S4: what frees a seat is time, not the sweep.
CREATE FUNCTION seat_is_free(p_state text, p_until timestamptz, p_hold_epoch bigint, p_epoch bigint, p_now timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_state = 'available' AND (p_until IS NULL OR p_until <= p_now OR p_hold_epoch IS DISTINCT FROM p_epoch)
$$;

CREATE FUNCTION arbiter_say(p_kind text, p_seats integer[] DEFAULT NULL, p_epoch bigint DEFAULT NULL,
  p_used integer DEFAULT NULL, p_phase text DEFAULT NULL, p_order uuid DEFAULT NULL)
RETURNS arbiter_answer LANGUAGE sql IMMUTABLE AS $$
  SELECT ROW(p_kind, NULL, NULL, NULL, p_seats, NULL, NULL, p_epoch, NULL, p_order, NULL, p_used, p_phase)::arbiter_answer
$$;
CREATE FUNCTION arbiter_say_hold(p_kind text, h holds, p_repeated boolean DEFAULT false)
RETURNS arbiter_answer LANGUAGE sql IMMUTABLE AS $$
  SELECT ROW(p_kind, h.hold_id, h.visitor, h.holder, h.seats, h.granted_at, h.deadline, h.epoch, h.grant_no, h.order_id,
             p_repeated, NULL, NULL)::arbiter_answer
$$;

-- The gate of every claim: NULL kind lets it pass, with the phase. p_event's lock is held, shared, from here to the commit.
CREATE FUNCTION arbiter_gate(p_event integer, p_partition smallint, p_epoch bigint)
RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  r record;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT p.mode, p.epoch, e.phase INTO r FROM event_partitions p JOIN events e USING (event_no)
   WHERE p.event_no = p_event AND p.partition = p_partition;
  IF NOT FOUND THEN RETURN arbiter_say('stale', p_epoch => 0::bigint); END IF;
  IF r.mode = 'moving' THEN RETURN arbiter_say('retry'); END IF;
  IF r.mode <> 'postgres' OR r.epoch <> p_epoch THEN RETURN arbiter_say('stale', p_epoch => r.epoch); END IF;
  RETURN arbiter_say(NULL, p_phase => r.phase);
END $$;

-- A lease that counts now.
CREATE FUNCTION hold_is_live(h holds, p_epoch bigint, p_now timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT h.state = 'live' AND h.deadline > p_now AND h.epoch = p_epoch
$$;
-- What its owner may be told is his: an order's, or a live lease that no decision has taken a seat from. (plpgsql, for its
-- cached plan: SQL functions with a subquery are planned anew in each call before Postgres 18.)
CREATE FUNCTION hold_stands(h holds, p_epoch bigint, p_now timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_count integer;
BEGIN
  IF h.state = 'ordered' THEN RETURN true; END IF;
  IF NOT hold_is_live(h, p_epoch, p_now) THEN RETURN false; END IF;
  SELECT count(*) INTO v_count FROM seats s
   WHERE s.event_no = h.event_no AND s.seat_no = ANY(h.seats) AND s.state = 'available' AND s.hold_id = h.hold_id;
  RETURN v_count = cardinality(h.seats);
END $$;
CREATE FUNCTION hold_is_forgotten(h holds, p_now timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT h.state <> 'ordered' AND h.deadline + arbiter_life_max() <= p_now
$$;

-- What an id that was used before answers; NULL kind when it is new. A forgotten row makes room.
CREATE FUNCTION arbiter_past(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
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
  IF h.request <> p_request THEN RETURN arbiter_say('mismatch'); END IF;
  IF hold_stands(h, p_epoch, arbiter_now()) THEN RETURN arbiter_say_hold('granted', h, true); END IF;
  RETURN arbiter_say('hold_gone');
END $$;

-- The hold that a visitor has now; NULL fields when none.
CREATE FUNCTION arbiter_own(p_event integer, p_partition smallint, p_epoch bigint, p_visitor text)
RETURNS holds LANGUAGE plpgsql AS $$
DECLARE
  h holds;
BEGIN
  FOR h IN SELECT * FROM holds o
    WHERE o.event_no = p_event AND o.partition = p_partition AND o.visitor = p_visitor AND o.state = 'live' LOOP
    IF hold_stands(h, p_epoch, arbiter_now()) THEN RETURN h; END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- The first of the groups (p_size seats each, one after the other in p_seats) whose seats are all in p_free.
CREATE FUNCTION arbiter_first_group(p_seats integer[], p_size integer, p_free integer[])
RETURNS integer[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_group integer[];
BEGIN
  FOR i IN 0 .. cardinality(p_seats) / p_size - 1 LOOP
    v_group := p_seats[i * p_size + 1 : (i + 1) * p_size];
    IF v_group <@ p_free THEN RETURN v_group; END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Reads without locking whether a claim could be met now, where the seats of hold p_own count as free. NULL: it could.
-- Otherwise the named seats that are taken (empty for groups and units). Refusals are most of an on-sale: nearly all of them
-- end here, before any lock on a row.
CREATE FUNCTION arbiter_taken(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_size integer,
  p_named boolean, p_units integer[], p_own uuid) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
  v_free integer[];
  v_now timestamptz := arbiter_now();
BEGIN
  IF p_units IS NOT NULL THEN
    SELECT array_agg(f.seat_no) INTO v_free FROM (
      SELECT s.seat_no FROM seats s
       WHERE s.event_no = p_event AND s.partition = p_partition
         AND s.seat_no >= p_units[1] AND s.seat_no < p_units[1] + p_units[2]
         AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, v_now)
              OR (s.state = 'available' AND s.hold_id = p_own))
       LIMIT p_size) f;
    RETURN CASE WHEN cardinality(v_free) = p_size THEN NULL ELSE '{}'::integer[] END;
  END IF;
  SELECT coalesce(array_agg(s.seat_no), '{}') INTO v_free FROM seats s
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(p_seats)
     AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, v_now)
          OR (s.state = 'available' AND s.hold_id = p_own));
  IF p_named THEN
    IF cardinality(v_free) = cardinality(p_seats) THEN RETURN NULL; END IF;
    RETURN ARRAY(SELECT u FROM unnest(p_seats) u WHERE u <> ALL(v_free));
  END IF;
  RETURN CASE WHEN arbiter_first_group(p_seats, p_size, v_free) IS NULL THEN '{}'::integer[] END;
END $$;

-- How seats are locked (measured with four seats a claim, 20 connections, 100 seats; claims answered a second): unordered
-- updates 13 (deadlocks, a second each); SKIP LOCKED alone 3,500 but it says "taken" of free seats; NOWAIT 430; one ordered
-- SELECT … FOR UPDATE and then the update 2,400; one UPDATE … = ANY(sorted), rolled back when short, 3,800, but its order is
-- the plan's, which nothing promises. This is the ordered SELECT, after a read without locks has refused most claims.
--
-- Chooses and locks without ever waiting for a seat: groups in the order given, units from the start given and around.
-- NULL when short; the caller then rolls back to before, so that no seat stays locked while another is waited for.
CREATE FUNCTION arbiter_choose_at_once(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[],
  p_size integer, p_units integer[], p_own uuid) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
  v_free integer[];
  v_group integer[];
  v_got integer[] := '{}';
  v_from integer;
  v_to integer;
BEGIN
  IF p_units IS NULL THEN
    SELECT coalesce(array_agg(s.seat_no), '{}') INTO v_free FROM seats s
     WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(p_seats)
       AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
            OR (s.state = 'available' AND s.hold_id = p_own));
    FOR i IN 0 .. cardinality(p_seats) / p_size - 1 LOOP
      v_group := p_seats[i * p_size + 1 : (i + 1) * p_size];
      CONTINUE WHEN NOT v_group <@ v_free;
      SELECT array_agg(l.seat_no) INTO v_got FROM (
        SELECT s.seat_no FROM seats s
         WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(v_group)
           AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
                OR (s.state = 'available' AND s.hold_id = p_own))
         ORDER BY s.seat_no FOR NO KEY UPDATE SKIP LOCKED) l;
      IF cardinality(v_got) = p_size THEN RETURN v_group; END IF;
    END LOOP;
    RETURN NULL;
  END IF;
  -- Two stretches of the primary key, so that each ends as soon as it has enough.
  FOR i IN 0 .. 1 LOOP
    v_from := p_units[1] + CASE i WHEN 0 THEN p_units[4] ELSE 0 END;
    v_to := p_units[1] + CASE i WHEN 0 THEN p_units[2] ELSE p_units[4] END;
    v_got := v_got || ARRAY(
      SELECT s.seat_no FROM seats s
       WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no >= v_from AND s.seat_no < v_to
         AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
              OR (s.state = 'available' AND s.hold_id = p_own))
       ORDER BY s.seat_no LIMIT p_size - cardinality(v_got) FOR NO KEY UPDATE SKIP LOCKED);
    EXIT WHEN cardinality(v_got) = p_size;
  END LOOP;
  RETURN CASE WHEN cardinality(v_got) = p_size THEN ARRAY(SELECT u FROM unnest(v_got) u ORDER BY u) END;
END $$;

-- Locks those of the seats that look free (and all of hold p_own), waiting for each in ascending order, and answers which
-- are still free when they are ours.
CREATE FUNCTION arbiter_lock_free(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_own uuid,
  p_own_seats integer[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
  v_free integer[];
BEGIN
  SELECT coalesce(array_agg(l.seat_no), '{}') INTO v_free FROM (
    SELECT s.seat_no FROM seats s
     WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(p_seats || p_own_seats)
       AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
            OR (s.state = 'available' AND s.hold_id = p_own))
     ORDER BY s.seat_no FOR NO KEY UPDATE) l;
  RETURN v_free;
END $$;

-- The same for groups and units, and chooses among them. No LIMIT for units: this runs only when few are left.
CREATE FUNCTION arbiter_choose_waiting(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[],
  p_size integer, p_units integer[], p_own uuid, p_own_seats integer[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
  v_free integer[];
BEGIN
  IF p_units IS NULL THEN
    v_free := arbiter_lock_free(p_event, p_partition, p_epoch, p_seats, p_own, p_own_seats);
    RETURN arbiter_first_group(p_seats, p_size, v_free);
  END IF;
  SELECT coalesce(array_agg(l.seat_no), '{}') INTO v_free FROM (
    SELECT s.seat_no FROM seats s
     WHERE s.event_no = p_event AND s.partition = p_partition
       AND ((s.seat_no >= p_units[1] AND s.seat_no < p_units[1] + p_units[2]) OR s.seat_no = ANY(p_own_seats))
       AND (seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
            OR (s.state = 'available' AND s.hold_id = p_own))
     ORDER BY s.seat_no FOR NO KEY UPDATE) l;
  v_free := ARRAY(SELECT u FROM unnest(v_free) u WHERE u >= p_units[1] AND u < p_units[1] + p_units[2]
                   ORDER BY u < p_units[1] + p_units[4], u LIMIT p_size);
  RETURN CASE WHEN cardinality(v_free) = p_size THEN ARRAY(SELECT u FROM unnest(v_free) u ORDER BY u) END;
END $$;

-- hold: claims a set of seats, all or nothing (S2), within the holder's quota (S7), idempotent by hold id.
-- p_seats: candidate groups one after the other, each ascending, p_size seats each (named seats are one group, p_named);
-- p_units: {first, count, quantity, start} instead. Precedence of refusals as in the reference.
CREATE FUNCTION arbiter_hold(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_holder text, p_request text, p_seats integer[], p_size integer, p_named boolean, p_units integer[], p_ttl_ms integer,
  p_seats_max integer, p_replaces uuid, p_not_after timestamptz) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  answer arbiter_answer;
  phase text;
  v_taken integer[];
  v_used integer;
  v_seats integer[];
  v_rows integer;
  v_now timestamptz;
  own holds;
  made holds;
BEGIN
  answer := arbiter_gate(p_event, p_partition, p_epoch);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  phase := answer.phase;

  v_taken := arbiter_taken(p_event, p_partition, p_epoch, p_seats, p_size, p_named, p_units, NULL);
  IF v_taken IS NOT NULL THEN
    -- The visitor's own seats count as free until it is known whether he gives them up.
    own := arbiter_own(p_event, p_partition, p_epoch, p_visitor);
    IF own.hold_id IS NOT NULL THEN
      v_taken := arbiter_taken(p_event, p_partition, p_epoch, p_seats, p_size, p_named, p_units, own.hold_id);
    END IF;
  END IF;
  IF v_taken IS NOT NULL OR phase <> 'open' OR p_not_after < arbiter_now() THEN
    answer := arbiter_past(p_event, p_partition, p_epoch, p_hold, p_visitor, p_request);
    IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
    IF phase <> 'open' THEN RETURN arbiter_say('not_open', p_phase => phase); END IF;
    IF p_not_after < arbiter_now() THEN RETURN arbiter_say('too_late'); END IF;
    RETURN arbiter_say('taken', v_taken);
  END IF;

  -- S7 and one hold a visitor: one claim of a holder, and of a visitor, at a time. Advisory locks, since they write nothing
  -- (a row a holder costs its insert on each buyer's first claim). The holder's first, always.
  PERFORM pg_advisory_xact_lock(hashtextextended(format('h/%s/%s/%s', p_event, p_partition, p_holder), 0));
  IF p_visitor <> p_holder THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(format('v/%s/%s/%s', p_event, p_partition, p_visitor), 0));
  END IF;

  answer := arbiter_past(p_event, p_partition, p_epoch, p_hold, p_visitor, p_request);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;

  own := arbiter_own(p_event, p_partition, p_epoch, p_visitor);
  IF p_replaces IS NULL AND own.hold_id IS NOT NULL THEN
    IF p_named AND own.seats = p_seats THEN RETURN arbiter_say_hold('granted', own, true); END IF;
    RETURN arbiter_say_hold('hold_exists', own);
  END IF;
  IF p_replaces IS NOT NULL THEN
    IF own.hold_id IS DISTINCT FROM p_replaces THEN RETURN arbiter_say('hold_gone'); END IF;
    SELECT * INTO own FROM holds h WHERE h.event_no = p_event AND h.hold_id = p_replaces FOR UPDATE;
    v_now := arbiter_now();
    IF NOT hold_is_live(own, p_epoch, v_now) OR own.order_id IS NOT NULL THEN RETURN arbiter_say('hold_gone'); END IF;
  END IF;

  v_now := arbiter_now();
  SELECT coalesce(sum(cardinality(h.seats)), 0) INTO v_used FROM holds h
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.holder = p_holder AND h.state IN ('live','ordered')
     AND (h.state = 'ordered' OR (h.deadline > v_now AND h.epoch = p_epoch)) AND h.hold_id IS DISTINCT FROM p_replaces;
  IF v_used + p_size > p_seats_max THEN RETURN arbiter_say('quota', p_used => v_used); END IF;

  IF p_named THEN
    v_seats := arbiter_lock_free(p_event, p_partition, p_epoch, p_seats, p_replaces, own.seats);
    IF NOT p_seats <@ v_seats THEN
      RETURN arbiter_say('taken', ARRAY(SELECT u FROM unnest(p_seats) u WHERE u <> ALL(v_seats)));
    END IF;
    v_seats := p_seats;
  ELSE
    FOR v_try IN 1 .. 5 LOOP
      BEGIN
        v_seats := CASE v_try
          WHEN 1 THEN arbiter_choose_at_once(p_event, p_partition, p_epoch, p_seats, p_size, p_units, p_replaces)
          ELSE arbiter_choose_waiting(p_event, p_partition, p_epoch, p_seats, p_size, p_units, p_replaces, own.seats)
        END;
        IF v_seats IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'OS001'; END IF;
      EXCEPTION WHEN SQLSTATE 'OS001' THEN NULL;
      END;
      EXIT WHEN v_seats IS NOT NULL;
      -- Short because seats were locked, or because they are gone? Only the latter is "taken".
      v_taken := arbiter_taken(p_event, p_partition, p_epoch, p_seats, p_size, false, p_units, p_replaces);
      IF v_taken IS NOT NULL THEN RETURN arbiter_say('taken', v_taken); END IF;
    END LOOP;
    IF v_seats IS NULL THEN RAISE EXCEPTION 'seats free, but not to be had' USING ERRCODE = 'serialization_failure'; END IF;
  END IF;

  v_now := arbiter_now();
  IF p_not_after < v_now THEN RETURN arbiter_say('too_late'); END IF;
  IF p_replaces IS NOT NULL THEN
    IF own.deadline <= v_now THEN RETURN arbiter_say('hold_gone'); END IF;
    UPDATE holds h SET state = 'replaced', deadline = v_now WHERE h.event_no = p_event AND h.hold_id = p_replaces;
    UPDATE seats s SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL
     WHERE s.event_no = p_event AND s.seat_no = ANY(own.seats) AND s.hold_id = p_replaces;
  END IF;

  INSERT INTO holds AS h (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
  VALUES (p_event, p_hold, p_partition, p_visitor, p_holder, p_request,
          v_seats,
          -- A replacement goes on with the old lease, so that a chain of them does not outlive the bound (S6).
          coalesce(own.granted_at, v_now), coalesce(own.deadline, v_now + p_ttl_ms * interval '1 millisecond'),
          p_epoch, nextval('grant_numbers'), 'live')
  ON CONFLICT DO NOTHING RETURNING h.* INTO made;
  IF NOT FOUND THEN
    -- A release of this id has overtaken us and left its tombstone.
    IF p_replaces IS NULL THEN RETURN arbiter_say('hold_gone'); END IF;
    -- The old hold was ended above: undo it and begin again.
    RAISE EXCEPTION 'overtaken by its release' USING ERRCODE = 'serialization_failure';
  END IF;
  UPDATE seats s SET hold_id = p_hold, hold_until = made.deadline, hold_epoch = p_epoch
   WHERE s.event_no = p_event AND s.seat_no = ANY(made.seats);
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  ASSERT v_rows = p_size, 'every chosen seat has a row';
  RETURN arbiter_say_hold('granted', made);
END $$;

-- recover: answers the hold of a receipt as it is. A store that forgot it cannot take it back yet.
CREATE FUNCTION arbiter_recover(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text)
RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  answer arbiter_answer;
BEGIN
  answer := arbiter_gate(p_event, p_partition, p_epoch);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  SELECT * INTO answer FROM arbiter_find(p_event, p_partition, p_hold);
  IF answer.kind IS NULL OR answer.visitor <> p_visitor THEN RETURN arbiter_say('hold_gone'); END IF;
  answer.kind := 'recovered';
  RETURN answer;
END $$;

-- find: the hold as it is; NULL when it does not stand.
CREATE FUNCTION arbiter_find(p_event integer, p_partition smallint, p_hold uuid)
RETURNS arbiter_answer LANGUAGE sql STABLE AS $$
  SELECT arbiter_say_hold('found', h) FROM holds h JOIN event_partitions p USING (event_no, partition)
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.hold_id = p_hold
     AND hold_stands(h, p.epoch, clock_timestamp())
$$;

-- extend: binds the hold to one order and sets its deadline once (S5, S6): at least 5 min left, at most 15 since the grant.
CREATE FUNCTION arbiter_extend(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_order uuid, p_extend_to_ms integer) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  answer arbiter_answer;
  v_now timestamptz;
  h holds;
BEGIN
  answer := arbiter_gate(p_event, p_partition, p_epoch);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
  IF NOT FOUND OR h.partition <> p_partition OR h.visitor <> p_visitor THEN RETURN arbiter_say('hold_gone'); END IF;
  PERFORM FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.hold_id = p_hold
    ORDER BY s.seat_no FOR NO KEY UPDATE;
  v_now := arbiter_now();
  IF NOT hold_stands(h, p_epoch, v_now) THEN RETURN arbiter_say('hold_gone'); END IF;
  IF h.order_id IS NOT NULL THEN
    IF h.order_id = p_order THEN RETURN arbiter_say_hold('extended', h); END IF;
    RETURN arbiter_say('bound', p_order => h.order_id);
  END IF;
  UPDATE holds SET order_id = p_order, deadline = greatest(deadline,
      least(v_now + p_extend_to_ms * interval '1 millisecond', granted_at + arbiter_life_max()))
   WHERE event_no = p_event AND hold_id = p_hold RETURNING * INTO h;
  UPDATE seats s SET hold_until = h.deadline WHERE s.event_no = p_event AND s.seat_no = ANY(h.seats) AND s.hold_id = p_hold;
  RETURN arbiter_say_hold('extended', h);
END $$;

-- release: gives the seats back, only by the hold's own id and visitor (S5); leaves a tombstone for an id that is not there.
CREATE FUNCTION arbiter_release(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_force uuid) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  answer arbiter_answer;
  v_now timestamptz;
  v_seats integer[];
  h holds;
BEGIN
  answer := arbiter_gate(p_event, p_partition, p_epoch);
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

-- load: makes seats known; known ones keep the higher version. Arrays side by side, ascending by seat.
CREATE FUNCTION arbiter_load(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_versions bigint[],
  p_states text[]) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  v_epoch bigint;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT epoch INTO v_epoch FROM event_partitions WHERE event_no = p_event AND partition = p_partition;
  IF v_epoch IS DISTINCT FROM p_epoch THEN RETURN arbiter_say('stale', p_epoch => coalesce(v_epoch, 0)); END IF;
  INSERT INTO seats AS s (event_no, seat_no, partition, version, state)
  SELECT p_event, seat, p_partition, version, state FROM unnest(p_seats, p_versions, p_states) AS u(seat, version, state)
   ORDER BY seat
  ON CONFLICT (event_no, seat_no) DO UPDATE SET version = excluded.version, state = excluded.state
   WHERE s.version < excluded.version AND s.partition = excluded.partition;
  RETURN arbiter_say('loaded');
END $$;

-- project: what was decided about seats. In this store they are the record's own rows, so a change that the record made is
-- already here under its version, and is ignored.
CREATE FUNCTION arbiter_project(p_event integer, p_partition smallint, p_seats integer[], p_versions bigint[],
  p_states text[], p_ordered uuid[], p_ended uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_all uuid[] := p_ordered || p_ended;
  v_seats integer[];
BEGIN
  PERFORM event_lock_shared(p_event);
  PERFORM FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_all) ORDER BY h.hold_id FOR UPDATE;
  v_seats := ARRAY(SELECT unnest(seats) FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(p_ended));
  PERFORM FROM seats s
    WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(p_seats || v_seats)
    ORDER BY s.seat_no FOR NO KEY UPDATE;
  UPDATE holds h SET state = 'ordered'
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.hold_id = ANY(p_ordered) AND h.state IN ('live','expired');
  UPDATE holds h SET state = 'ended'
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.hold_id = ANY(p_ended)
     AND h.state IN ('live','expired','ordered');
  UPDATE seats s SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(v_seats) AND s.hold_id = ANY(p_ended);
  UPDATE seats s SET state = u.state, version = u.version,
      order_id   = CASE WHEN u.state IN ('reserved','sold') THEN s.order_id END,
      hold_id    = CASE WHEN u.state = 'available' THEN s.hold_id END,
      hold_until = CASE WHEN u.state = 'available' THEN s.hold_until END,
      hold_epoch = CASE WHEN u.state = 'available' THEN s.hold_epoch END
    FROM unnest(p_seats, p_versions, p_states) AS u(seat, version, state)
   -- "ANY" says what u says already, so that the seats are looked up and not the house read.
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(p_seats) AND s.seat_no = u.seat
     AND s.version < u.version;
END $$;

-- sweep: marks lapsed holds and drops memories, oldest first, up to p_limit together. Seats are not touched: what they say of
-- a lapsed hold counts for nothing, and writing it down would cost a row version each. Rows that are being used are skipped.
CREATE FUNCTION arbiter_sweep(p_event integer, p_partition smallint, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_holds uuid[];
BEGIN
  v_holds := ARRAY(SELECT h.hold_id FROM holds h
    WHERE h.event_no = p_event AND h.partition = p_partition AND hold_due(h.state, h.deadline) <= statement_timestamp()
    ORDER BY hold_due(h.state, h.deadline) LIMIT p_limit FOR UPDATE SKIP LOCKED);
  DELETE FROM holds h WHERE h.event_no = p_event AND h.hold_id = ANY(v_holds) AND h.state <> 'live';
  UPDATE holds h SET state = 'expired' WHERE h.event_no = p_event AND h.hold_id = ANY(v_holds) AND h.state = 'live';
  RETURN cardinality(v_holds);
END $$;

-- snapshot: one character a seat in seat order, '0' available, '1' held, '2' reserved, '3' sold, '4' blocked, 'x' of another
-- partition. `last` is the last seat's number, for the caller to see that none is missing.
CREATE FUNCTION arbiter_snapshot(p_event integer, p_partition smallint)
RETURNS TABLE (at timestamptz, epoch bigint, codes text, last integer) LANGUAGE sql STABLE AS $$
  SELECT now(), p.epoch, s.codes, s.last
    FROM event_partitions p, LATERAL (
      SELECT string_agg(CASE
          WHEN s.partition <> p_partition THEN 'x'
          WHEN s.state = 'available' THEN CASE WHEN s.hold_until > now() AND s.hold_epoch = p.epoch THEN '1' ELSE '0' END
          WHEN s.state = 'reserved' THEN '2' WHEN s.state = 'sold' THEN '3' ELSE '4' END, '' ORDER BY s.seat_no) AS codes,
        max(s.seat_no) AS last
        FROM seats s WHERE s.event_no = p_event) s
   WHERE p.event_no = p_event AND p.partition = p_partition
$$;

-- Plans are made once a session, for any event: planning costs more than everything else together (server time of a refusal
-- of two seats: 2,200 us planned each time; 300 us with kept plans and the indexes above; SELECT 1 takes 75). Made while the
-- tables are empty, they must not be sequential scans: a plan is kept until the next ANALYZE, and an on-sale's first minute
-- fills the tables.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
            WHERE p.proname IN ('arbiter_hold','arbiter_recover','arbiter_extend','arbiter_release','arbiter_project','arbiter_sweep') LOOP
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f);
    EXECUTE format('ALTER FUNCTION %s SET enable_bitmapscan = off', f);
  END LOOP;
END $$;
