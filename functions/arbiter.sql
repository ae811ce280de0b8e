-- The Postgres arbiter, one function per operation: hold, extend, release, find, snapshot, load, project, sweep. Each is called once
-- by src/inventory/postgres.ts. The contract is in src/inventory/arbiter.ts; S numbers are the promises of docs/SPEC.md. Claims in
-- batches are in arbiter-batch.sql, receipts (recover) in arbiter-grace.sql.
--
-- Locks are always taken in this order: event (shared) → holder, visitor, address range → hold rows → seat rows by number. A claim
-- reads mode, epoch and phase after it has the event's lock, in a separate statement. Under READ COMMITTED every statement of a
-- volatile function sees what was committed before the statement began, so nothing granted before a flip commits after it.
-- Deadlines are compared with clock_timestamp() after the last lock. Times are whole milliseconds, as callers see them.
--
-- Steps of an order change the same rows, each in one transaction (functions/orders.sql):
--   before   lock the order, then the hold FOR UPDATE, then the seats by number. The hold is 'live', bound to this order by extend,
--            of the partition's epoch, and ends in more than 6 s; every seat is available and of this hold
--   reserve  seats: 'reserved', version + 1, order_id set, hold columns null. Hold: 'ordered', so that the quota still counts it
--   confirm  seats: 'sold', version + 1. Hold: 'ended'
--   close    seats of the order: 'available', version + 1, order_id null. Hold: 'ended'. If the order was never reserved,
--            arbiter_release (p_force) gives the hold back
-- 'ordered' is the only state of a hold that is neither a lease nor a memory, so the step that sets it must see that it ends.
--
-- Functions that claims call have settings of their own (SET after the header). Plans are made once per session, perhaps while the
-- tables are empty, and kept. Sequential scans and bitmap scans are off, so that such a plan still looks up single rows when the
-- tables are full; decision 0029 has the measurements.

CREATE OR REPLACE FUNCTION arbiter_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  $$ SELECT date_trunc('milliseconds', clock_timestamp()) $$;

-- The longest life of a hold, and how long the id of a hold that has ended is remembered.
CREATE OR REPLACE FUNCTION arbiter_life_max() RETURNS interval LANGUAGE sql IMMUTABLE AS $$ SELECT interval '15 minutes' $$;

-- S4: a seat becomes free when its lease ends, whether or not the sweep has run.
CREATE OR REPLACE FUNCTION seat_is_free(p_state text, p_until timestamptz, p_hold_epoch bigint, p_epoch bigint, p_now timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_state = 'available' AND (p_until IS NULL OR p_until <= p_now OR p_hold_epoch IS DISTINCT FROM p_epoch)
$$;

-- Returns whether the lease counts at p_now.
CREATE OR REPLACE FUNCTION hold_is_live(h holds, p_epoch bigint, p_now timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT h.state = 'live' AND h.deadline > p_now AND h.epoch = p_epoch
$$;

-- Returns whether the hold's row may go. Ids that led to an order are never forgotten: a key that is repeated years later must not
-- hold new seats under the id of an old order. 'ended' means that the order was sold or closed.
CREATE OR REPLACE FUNCTION hold_is_forgotten(h holds, p_now timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT h.state NOT IN ('ordered','ended') AND h.deadline + arbiter_life_max() <= p_now
$$;

-- Finds ids whose row is gone because the partition was in Redis. In plpgsql for its cached plan (see hold_stands).
CREATE OR REPLACE FUNCTION hold_led_to_order(p_hold uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM orders WHERE hold_id = p_hold) OR EXISTS (SELECT FROM orders WHERE former_hold_id = p_hold);
END $$;

-- Returns whether the hold still belongs to its visitor: it became an order, or it is a live lease and no decision took one of its
-- seats. In plpgsql for its cached plan: before Postgres 18, SQL functions with a subquery are planned in each call.
CREATE OR REPLACE FUNCTION hold_stands(h holds, p_epoch bigint, p_now timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_count integer;
BEGIN
  IF h.state = 'ordered' THEN RETURN true; END IF;
  IF NOT hold_is_live(h, p_epoch, p_now) THEN RETURN false; END IF;
  SELECT count(*) INTO v_count FROM seats s
   WHERE s.event_no = h.event_no AND s.seat_no = ANY(h.seats) AND s.state = 'available' AND s.hold_id = h.hold_id;
  RETURN v_count = cardinality(h.seats);
END $$;

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

-- The first step of every claim. Returns a null kind to let the claim pass, with the phase and, during grace, the end of grace as
-- `deadline`. During grace only calls with p_grace pass; others get 'retry', with the time after which to retry in `after_ms`. Takes
-- the event's lock shared and keeps it until the commit (D1).
CREATE OR REPLACE FUNCTION arbiter_gate(p_event integer, p_partition smallint, p_epoch bigint, p_grace boolean DEFAULT false)
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
      -- A random part keeps the retries of many buyers apart.
      answer.after_ms := ceil(1000 * extract(epoch FROM r.grace_until - clock_timestamp())) + floor(random() * 1000);
    END IF;
  END IF;
  RETURN answer;
END $$;

-- Returns the hold that the visitor has now, or a row of nulls.
CREATE OR REPLACE FUNCTION arbiter_own(p_event integer, p_partition smallint, p_epoch bigint, p_visitor text)
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

-- Returns the result for a hold id that was used before. A null kind means that the id is new. A forgotten row is deleted. A hold
-- that came back by its receipt, or as its order, has no known request: any request counts as its repeat.
CREATE OR REPLACE FUNCTION arbiter_past(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_request text) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
DECLARE
  h holds;
BEGIN
  SELECT * INTO h FROM holds WHERE event_no = p_event AND hold_id = p_hold;
  IF NOT FOUND THEN
    IF hold_led_to_order(p_hold) THEN RETURN arbiter_say('hold_gone'); END IF;
    RETURN NULL;
  END IF;
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

-- Returns the first of the groups (p_size seats each, one after the other in p_seats) whose seats are all in p_free.
CREATE OR REPLACE FUNCTION arbiter_first_group(p_seats integer[], p_size integer, p_free integer[])
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

-- Reads without locks whether the claim could succeed now; the seats of hold p_own count as free. Returns null if it could,
-- otherwise the named seats that are taken (an empty list for groups and units). Most claims of an on-sale are refused, and nearly
-- all of these end here, before any row is locked.
CREATE OR REPLACE FUNCTION arbiter_taken(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_size integer,
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

-- Locks the seats that look free (and all seats of hold p_own), waiting for each in ascending order. Returns the seats that are
-- still free once they are locked.
CREATE OR REPLACE FUNCTION arbiter_lock_free(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_own uuid,
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

-- Chooses and locks seats without waiting for any: groups in the given order, units from the given start onwards and then from the
-- beginning. Returns null if there are not enough. The caller then rolls back, so that no seat stays locked while another is waited
-- for.
--
-- Alternatives measured with four seats per claim, 20 connections and 100 seats, in claims per second: unordered updates 13
-- (deadlocks of one second each); SKIP LOCKED alone 3,500, but it reports free seats as taken; NOWAIT 430; one ordered SELECT … FOR
-- UPDATE and then the update 2,400; one UPDATE … = ANY(sorted), rolled back when short, 3,800, but its lock order is that of the
-- plan, which is not guaranteed. This is the ordered SELECT, after a read without locks has refused most claims.
CREATE OR REPLACE FUNCTION arbiter_choose_at_once(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[],
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
  -- Reads two ranges of the primary key, so that each ends as soon as it has enough seats.
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

-- Chooses among the groups or units and waits for their locks. There is no LIMIT for units, because this runs only when few seats
-- are left.
CREATE OR REPLACE FUNCTION arbiter_choose_waiting(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[],
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

CREATE OR REPLACE FUNCTION address_lock_key(p_event integer, p_partition smallint, p_address text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
  $$ SELECT hashtextextended(format('a/%s/%s/%s', p_event, p_partition, p_address), 0) $$;

CREATE OR REPLACE FUNCTION address_used(p_event integer, p_partition smallint, p_epoch bigint, p_address text, p_replaces uuid)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_now timestamptz := arbiter_now(); v_used integer;
BEGIN
  SELECT coalesce(sum(cardinality(h.seats)), 0) INTO v_used FROM holds h
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.address = p_address AND h.state IN ('live','ordered')
     AND (h.state = 'ordered' OR (h.deadline > v_now AND h.epoch = p_epoch)) AND h.hold_id IS DISTINCT FROM p_replaces;
  RETURN v_used;
END $$;

-- hold: claims a set of seats, all or nothing (S2), within the quotas of the holder (S7) and of the address range. Idempotent by
-- hold id. The order of refusals is that of the reference store (src/inventory/in-process.ts).
--   p_seats    candidate groups one after the other, each ascending, p_size seats each. Named seats are one group (p_named)
--   p_units    {first, count, quantity, start} instead of groups
--   p_address  id of the buyer's address range; null means that none is counted
-- Locks: event (shared) → holder → visitor → address range (advisory) → holds → seats by number.
CREATE OR REPLACE FUNCTION arbiter_hold(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_holder text, p_request text, p_seats integer[], p_size integer, p_named boolean, p_units integer[], p_ttl_ms integer,
  p_seats_max integer, p_replaces uuid, p_not_after timestamptz, p_address text DEFAULT NULL,
  p_address_max integer DEFAULT NULL)
RETURNS arbiter_answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  answer arbiter_answer; phase text; v_taken integer[]; v_used integer; v_seats integer[]; v_rows integer;
  v_now timestamptz; own holds; made holds;
BEGIN
  answer := arbiter_gate(p_event, p_partition, p_epoch);
  IF answer.kind IS NOT NULL THEN RETURN answer; END IF;
  phase := answer.phase;

  v_taken := arbiter_taken(p_event, p_partition, p_epoch, p_seats, p_size, p_named, p_units, NULL);
  IF v_taken IS NOT NULL THEN
    -- The visitor's own seats count as free until it is known whether this claim replaces them.
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

  -- S7 and one hold per visitor: one claim per holder, and one per visitor, at a time. These are advisory locks because those
  -- write nothing; a row per holder would cost an insert on each buyer's first claim. The holder's lock always comes first.
  PERFORM pg_advisory_xact_lock(hashtextextended(format('h/%s/%s/%s', p_event, p_partition, p_holder), 0));
  IF p_visitor <> p_holder THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(format('v/%s/%s/%s', p_event, p_partition, p_visitor), 0));
  END IF;
  IF p_address IS NOT NULL THEN PERFORM pg_advisory_xact_lock(address_lock_key(p_event, p_partition, p_address)); END IF;

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
  IF p_address IS NOT NULL THEN
    v_used := address_used(p_event, p_partition, p_epoch, p_address, p_replaces);
    IF v_used + p_size > p_address_max THEN RETURN arbiter_say('address_quota', p_used => v_used); END IF;
  END IF;

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
      -- Decides whether seats were only locked or are gone. Only seats that are gone are reported as taken.
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

  INSERT INTO holds AS h (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no,
                          state, address)
  VALUES (p_event, p_hold, p_partition, p_visitor, p_holder, p_request,
          v_seats,
          -- A replacement keeps the old lease's times, so that a chain of replacements does not outlive the bound (S6).
          coalesce(own.granted_at, v_now), coalesce(own.deadline, v_now + p_ttl_ms * interval '1 millisecond'),
          p_epoch, nextval('grant_numbers'), 'live', p_address)
  ON CONFLICT DO NOTHING RETURNING h.* INTO made;
  IF NOT FOUND THEN
    -- A release of this id came first and left its tombstone.
    IF p_replaces IS NULL THEN RETURN arbiter_say('hold_gone'); END IF;
    -- The old hold was ended above. Undo that and start over.
    RAISE EXCEPTION 'overtaken by its release' USING ERRCODE = 'serialization_failure';
  END IF;
  UPDATE seats s SET hold_id = p_hold, hold_until = made.deadline, hold_epoch = p_epoch
   WHERE s.event_no = p_event AND s.seat_no = ANY(made.seats);
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  ASSERT v_rows = p_size, 'every chosen seat has a row';
  RETURN arbiter_say_hold('granted', made);
END $$;

-- extend: binds the hold to one order and sets its deadline once (S5, S6), to at least 5 minutes from now and at most 15 minutes
-- after the grant.
CREATE OR REPLACE FUNCTION arbiter_extend(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_order uuid, p_extend_to_ms integer) RETURNS arbiter_answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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

-- release: gives the seats back, only by the hold's own id and visitor (S5), and leaves a tombstone for an id that is not there. It
-- works during grace too: an id that was given back, or has a tombstone, cannot be recovered. A hold that is given back because its
-- order was closed stays as 'ended'.
CREATE OR REPLACE FUNCTION arbiter_release(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_force uuid) RETURNS arbiter_answer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
    -- Nothing was inserted, so the claim that this call overtook has just been granted.
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
  UPDATE holds SET state = CASE WHEN order_id IS NOT NULL THEN 'ended' ELSE 'released' END,
                   deadline = CASE state WHEN 'ordered' THEN deadline ELSE v_now END
   WHERE event_no = p_event AND hold_id = p_hold;
  IF h.deadline <= v_now OR h.epoch <> p_epoch THEN v_seats := '{}'; END IF;
  UPDATE seats s SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL
   WHERE s.event_no = p_event AND s.seat_no = ANY(v_seats);
  RETURN arbiter_say('released', v_seats);
END $$;

-- find: returns the hold as it is, or null if it no longer belongs to its visitor.
CREATE OR REPLACE FUNCTION arbiter_find(p_event integer, p_partition smallint, p_hold uuid)
RETURNS arbiter_answer LANGUAGE sql STABLE AS $$
  SELECT arbiter_say_hold('found', h) FROM holds h JOIN event_partitions p USING (event_no, partition)
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.hold_id = p_hold
     AND hold_stands(h, p.epoch, clock_timestamp())
$$;

-- snapshot: one character per seat in seat order: '0' available, '1' held, '2' reserved, '3' sold, '4' blocked, 'x' of another
-- partition. `last` is the number of the last seat, so that the caller can see that none is missing.
CREATE OR REPLACE FUNCTION arbiter_snapshot(p_event integer, p_partition smallint)
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

-- load: adds seats; seats that are known keep the higher version. Parallel arrays, ascending by seat.
CREATE OR REPLACE FUNCTION arbiter_load(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_versions bigint[],
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

-- project: applies decisions about seats. Here the seats are the record's own rows, so a change made by the record is already in
-- them with its version and is ignored.
CREATE OR REPLACE FUNCTION arbiter_project(p_event integer, p_partition smallint, p_seats integer[], p_versions bigint[],
  p_states text[], p_ordered uuid[], p_ended uuid[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
   -- "ANY" repeats the join's condition, so that the seats are looked up one by one instead of reading the whole venue.
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(p_seats) AND s.seat_no = u.seat
     AND s.version < u.version;
END $$;

-- sweep: marks lapsed holds and deletes forgotten ones, oldest first, up to p_limit in all. Seats are not touched, because a lapsed
-- hold in a seat's row has no effect and each update would cost a row version. Rows that are locked are skipped.
CREATE OR REPLACE FUNCTION arbiter_sweep(p_event integer, p_partition smallint, p_limit integer) RETURNS integer LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
