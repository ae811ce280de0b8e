--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: arbiter_answer; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.arbiter_answer AS (
	kind text,
	hold_id uuid,
	visitor text,
	holder text,
	seats integer[],
	granted_at timestamp with time zone,
	deadline timestamp with time zone,
	epoch bigint,
	grant_no bigint,
	order_id uuid,
	repeated boolean,
	used integer,
	phase text,
	after_ms integer
);

--
-- Name: admission_publish(integer, bigint, bigint[], double precision, double precision); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.admission_publish(p_event integer, p_term bigint, p_frontier bigint[], p_rate double precision, p_burst double precision) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_row admissions;
  v_frontier bigint[];
  v_now timestamptz;
BEGIN
  IF NOT lease_holds(p_event, p_term) THEN RETURN false; END IF;
  SELECT * INTO STRICT v_row FROM admissions a WHERE a.event_no = p_event FOR UPDATE;
  SELECT array_agg(greatest(
      coalesce(v_row.frontier[c.shard + 1], 0),
      least(coalesce(p_frontier[c.shard + 1], 0), c.last_no)) ORDER BY c.shard)
    INTO v_frontier FROM queue_counters c WHERE c.event_no = p_event;
  v_now := clock_timestamp();
  UPDATE admissions a SET
    frontier = v_frontier,
    -- What was saved up at the old rate, as far as the new bucket holds it.
    tokens = least(p_burst, admission_tokens(v_row, v_now)),
    rate = p_rate, burst = p_burst, refilled_at = v_now, term = p_term
  WHERE a.event_no = p_event;
  INSERT INTO frontier_moves (event_no, shard, at, term, frontier)
    SELECT p_event, f.nth - 1, v_now, p_term, f.number
    FROM unnest(v_frontier) WITH ORDINALITY AS f (number, nth)
    WHERE f.number > coalesce(v_row.frontier[f.nth], 0);
  RETURN true;
END $$;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: admissions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.admissions (
    event_no integer NOT NULL,
    frontier bigint[] DEFAULT '{0}'::bigint[] NOT NULL,
    rate double precision DEFAULT 0 NOT NULL,
    burst double precision DEFAULT 1 NOT NULL,
    tokens double precision DEFAULT 0 NOT NULL,
    refilled_at timestamp with time zone DEFAULT now() NOT NULL,
    term bigint DEFAULT 0 NOT NULL,
    issued bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='20');

--
-- Name: admission_tokens(public.admissions, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.admission_tokens(a public.admissions, p_at timestamp with time zone) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT least(a.burst, a.tokens + greatest(0, extract(epoch FROM p_at - a.refilled_at)::double precision) * a.rate)
$$;

--
-- Name: arbiter_choose_at_once(integer, smallint, bigint, integer[], integer, integer[], uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_choose_at_once(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_size integer, p_units integer[], p_own uuid) RETURNS integer[]
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_choose_waiting(integer, smallint, bigint, integer[], integer, integer[], uuid, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_choose_waiting(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_size integer, p_units integer[], p_own uuid, p_own_seats integer[]) RETURNS integer[]
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_extend(integer, smallint, bigint, uuid, text, uuid, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_extend(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text, p_order uuid, p_extend_to_ms integer) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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

--
-- Name: arbiter_find(integer, smallint, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_find(p_event integer, p_partition smallint, p_hold uuid) RETURNS public.arbiter_answer
    LANGUAGE sql STABLE
    AS $$
  SELECT arbiter_say_hold('found', h) FROM holds h JOIN event_partitions p USING (event_no, partition)
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.hold_id = p_hold
     AND hold_stands(h, p.epoch, clock_timestamp())
$$;

--
-- Name: arbiter_first_group(integer[], integer, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_first_group(p_seats integer[], p_size integer, p_free integer[]) RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
  v_group integer[];
BEGIN
  FOR i IN 0 .. cardinality(p_seats) / p_size - 1 LOOP
    v_group := p_seats[i * p_size + 1 : (i + 1) * p_size];
    IF v_group <@ p_free THEN RETURN v_group; END IF;
  END LOOP;
  RETURN NULL;
END $$;

--
-- Name: arbiter_gate(integer, smallint, bigint, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_gate(p_event integer, p_partition smallint, p_epoch bigint, p_grace boolean DEFAULT false) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_hold(integer, smallint, bigint, uuid, text, text, text, integer[], integer, boolean, integer[], integer, integer, uuid, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_hold(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text, p_holder text, p_request text, p_seats integer[], p_size integer, p_named boolean, p_units integer[], p_ttl_ms integer, p_seats_max integer, p_replaces uuid, p_not_after timestamp with time zone) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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

--
-- Name: arbiter_hold_many(integer, smallint, bigint, uuid[], text[], text[], text[], text[], integer[], boolean[], integer[], integer[], timestamp with time zone[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_hold_many(p_event integer, p_partition smallint, p_epoch bigint, p_holds uuid[], p_visitors text[], p_holders text[], p_requests text[], p_seats text[], p_sizes integer[], p_named boolean[], p_ttls_ms integer[], p_seats_max integer[], p_not_after timestamp with time zone[]) RETURNS TABLE(claim integer, kind text, hold_id uuid, visitor text, holder text, seats integer[], granted_at timestamp with time zone, deadline timestamp with time zone, epoch bigint, grant_no bigint, order_id uuid, repeated boolean, used integer, phase text, after_ms integer)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  gate arbiter_answer;
  v_now timestamptz := arbiter_now();
  v_free integer[];
  v_given integer[] := '{}';
  v_group integer[];
  v_hopeful integer[];
  v_holds uuid[];
  v_visitors text[];
  v_holders text[];
  v_used integer[];
  -- Of the claims that chose seats, side by side.
  v_claims integer[] := '{}';
  v_chosen text[] := '{}';
  v_losers integer[] := '{}';
  v_granted integer[];
  v_rows integer;
  c record;
BEGIN
  gate := arbiter_gate(p_event, p_partition, p_epoch);
  IF gate.kind IS NOT NULL THEN
    RETURN QUERY SELECT i, (gate).* FROM generate_series(1, cardinality(p_holds)) i;
    RETURN;
  END IF;

  v_free := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.partition = p_partition
      AND s.seat_no = ANY(ARRAY(SELECT DISTINCT w FROM unnest(p_seats) t, unnest(t::integer[]) w))
      AND seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, v_now));

  -- Who may get something: a group of his is free, he is the first of his holder and visitor, and both are ours to decide about.
  v_hopeful := ARRAY(
    SELECT h.i FROM (
      SELECT u.i, u.visitor, u.holder FROM unnest(p_visitors, p_holders, p_seats, p_sizes, p_not_after)
          WITH ORDINALITY AS u(visitor, holder, seats, size, not_after, i)
       WHERE gate.phase = 'open' AND (u.not_after IS NULL OR u.not_after >= v_now)
         AND claim_finds(u.seats::integer[], u.size, v_free)
         AND u.i = array_position(p_visitors, u.visitor) AND u.i = array_position(p_holders, u.holder)
       OFFSET 0) h
     WHERE pg_try_advisory_xact_lock(hashtextextended(format('h/%s/%s/%s', p_event, p_partition, h.holder), 0))
       AND (h.visitor = h.holder
            OR pg_try_advisory_xact_lock(hashtextextended(format('v/%s/%s/%s', p_event, p_partition, h.visitor), 0)))
     ORDER BY h.i);

  -- What is known of them, read after those locks: in a crowd, next to nothing. (One index probe each, by LATERAL with a
  -- LIMIT: a join, EXISTS and `= ANY` of an array are all planned as a walk through all of the event's holds while the table
  -- is empty, and stay so.)
  v_holds := ARRAY(SELECT k.hold_id FROM unnest(p_holds) u(hold), LATERAL (
    SELECT h.hold_id FROM holds h WHERE h.event_no = p_event AND h.hold_id = u.hold LIMIT 1) k);
  v_visitors := ARRAY(SELECT k.visitor FROM unnest(p_visitors) u(visitor), LATERAL (
    SELECT h.visitor FROM holds h
     WHERE h.event_no = p_event AND h.visitor = u.visitor AND h.partition = p_partition AND h.state = 'live' LIMIT 1) k);
  SELECT coalesce(array_agg(p_holders[i]), '{}'), coalesce(array_agg(q.used), '{}') INTO v_holders, v_used
    FROM unnest(v_hopeful) i, LATERAL (
      SELECT sum(cardinality(h.seats))::integer AS used FROM holds h
       WHERE h.event_no = p_event AND h.holder = p_holders[i] AND h.partition = p_partition AND h.state IN ('live','ordered')
         AND (h.state = 'ordered' OR (h.deadline > v_now AND h.epoch = p_epoch)) OFFSET 0) q
   WHERE q.used > 0;

  -- What each gets, in order.
  FOR c IN
    SELECT u.i::integer AS i, u.seats::integer[] AS seats, u.size, u.named, u.seats_max, u.not_after,
           u.i = ANY(v_hopeful) AS hopeful, u.hold = ANY(v_holds) OR u.visitor = ANY(v_visitors) AS known,
           NOT claim_finds(u.seats::integer[], u.size, v_free) AS refused,
           coalesce(v_used[array_position(v_holders, u.holder)], 0) AS used
      FROM unnest(p_holds, p_visitors, p_holders, p_seats, p_sizes, p_named, p_seats_max, p_not_after)
        WITH ORDINALITY AS u(hold, visitor, holder, seats, size, named, seats_max, not_after, i)
     ORDER BY u.i
  LOOP
    claim := c.i; used := NULL; seats := NULL; phase := NULL;
    IF c.known THEN kind := 'alone';
    ELSIF gate.phase <> 'open' THEN kind := 'not_open'; phase := gate.phase;
    ELSIF c.not_after < v_now THEN kind := 'too_late';
    ELSIF c.refused THEN
      kind := 'taken';
      seats := CASE WHEN c.named THEN ARRAY(SELECT w FROM unnest(c.seats) w WHERE w <> ALL(v_free)) ELSE '{}'::integer[] END;
    ELSIF NOT c.hopeful THEN
      -- Somebody else's batch, or an earlier claim of his own, decides about him; or the seats went while he came.
      kind := 'alone';
    ELSIF c.used + c.size > c.seats_max THEN kind := 'quota'; used := c.used;
    ELSE
      v_group := NULL;
      FOR g IN 0 .. cardinality(c.seats) / c.size - 1 LOOP
        v_group := c.seats[g * c.size + 1 : (g + 1) * c.size];
        EXIT WHEN v_group <@ v_free AND NOT v_group && v_given;
        v_group := NULL;
      END LOOP;
      IF v_group IS NULL THEN v_losers := v_losers || c.i;
      ELSE
        v_given := v_given || v_group;
        v_claims := v_claims || c.i;
        v_chosen := v_chosen || v_group::text;
      END IF;
      CONTINUE;
    END IF;
    RETURN NEXT;
  END LOOP;
  IF cardinality(v_claims) = 0 THEN RETURN; END IF;

  v_free := ARRAY(SELECT l.seat_no FROM (
    SELECT s.seat_no FROM seats s
     WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(v_given)
       AND seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
     ORDER BY s.seat_no FOR NO KEY UPDATE SKIP LOCKED) l);
  v_now := arbiter_now();
  RETURN QUERY
    WITH made AS (
      INSERT INTO holds AS h (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no, state)
      SELECT p_event, p_holds[o.i], p_partition, p_visitors[o.i], p_holders[o.i], p_requests[o.i], o.seats, v_now,
             v_now + p_ttls_ms[o.i] * interval '1 millisecond', p_epoch, nextval('grant_numbers'), 'live'
        FROM (SELECT u.i, u.seats::integer[] AS seats FROM unnest(v_claims, v_chosen) AS u(i, seats)
               WHERE u.seats::integer[] <@ v_free AND (p_not_after[u.i] IS NULL OR p_not_after[u.i] >= v_now) ORDER BY u.i) o
      ON CONFLICT DO NOTHING RETURNING h.*),
    kept AS (
      UPDATE seats s SET hold_id = m.hold_id, hold_until = m.deadline, hold_epoch = p_epoch
        FROM made m, unnest(m.seats) AS w
       WHERE s.event_no = p_event AND s.seat_no = w
      RETURNING s.seat_no)
    SELECT array_position(p_holds, m.hold_id), 'granted', m.hold_id, m.visitor, m.holder, m.seats, m.granted_at, m.deadline,
           m.epoch, m.grant_no, m.order_id, false, NULL::integer, NULL::text, NULL::integer
      FROM made m;
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  -- Those who lost their seats within this batch lost them for good only if nobody gave them back.
  RETURN QUERY
    SELECT l.i, 'taken', NULL::uuid, NULL::text, NULL::text,
           CASE WHEN p_named[l.i] THEN ARRAY(SELECT w FROM unnest(p_seats[l.i]::integer[]) w WHERE w = ANY(v_given))
                ELSE '{}'::integer[] END,
           NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::uuid, NULL::boolean, NULL::integer, NULL::text,
           NULL::integer
      FROM unnest(v_losers) AS l(i) WHERE v_rows = cardinality(v_claims);
END $$;

--
-- Name: arbiter_life_max(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_life_max() RETURNS interval
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT interval '15 minutes' $$;

--
-- Name: arbiter_load(integer, smallint, bigint, integer[], bigint[], text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_load(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_versions bigint[], p_states text[]) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_lock_free(integer, smallint, bigint, integer[], uuid, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_lock_free(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_own uuid, p_own_seats integer[]) RETURNS integer[]
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: holds; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.holds (
    event_no integer NOT NULL,
    hold_id uuid NOT NULL,
    partition smallint NOT NULL,
    visitor text NOT NULL,
    holder text NOT NULL,
    request text NOT NULL,
    seats integer[] NOT NULL,
    granted_at timestamp with time zone NOT NULL,
    deadline timestamp with time zone NOT NULL,
    epoch bigint NOT NULL,
    grant_no bigint NOT NULL,
    order_id uuid,
    state text NOT NULL,
    receipt_epoch bigint,
    receipt_grant bigint,
    CONSTRAINT holds_state_check CHECK ((state = ANY (ARRAY['live'::text, 'ordered'::text, 'ended'::text, 'released'::text, 'replaced'::text, 'expired'::text, 'tombstone'::text])))
)
PARTITION BY LIST (event_no);

--
-- Name: arbiter_lock_rivals(integer, smallint, bigint, public.holds); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_lock_rivals(p_event integer, p_partition smallint, p_epoch bigint, r public.holds) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_now(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_now() RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$ SELECT date_trunc('milliseconds', clock_timestamp()) $$;

--
-- Name: arbiter_own(integer, smallint, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_own(p_event integer, p_partition smallint, p_epoch bigint, p_visitor text) RETURNS public.holds
    LANGUAGE plpgsql
    AS $$
DECLARE
  h holds;
BEGIN
  FOR h IN SELECT * FROM holds o
    WHERE o.event_no = p_event AND o.partition = p_partition AND o.visitor = p_visitor AND o.state = 'live' LOOP
    IF hold_stands(h, p_epoch, arbiter_now()) THEN RETURN h; END IF;
  END LOOP;
  RETURN NULL;
END $$;

--
-- Name: arbiter_past(integer, smallint, bigint, uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_past(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text, p_request text) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_project(integer, smallint, integer[], bigint[], text[], uuid[], uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_project(p_event integer, p_partition smallint, p_seats integer[], p_versions bigint[], p_states text[], p_ordered uuid[], p_ended uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = u.seat AND s.version < u.version;
END $$;

--
-- Name: arbiter_recover(integer, smallint, bigint, jsonb, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_recover(p_event integer, p_partition smallint, p_epoch bigint, p_receipt jsonb, p_seats_max integer) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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

--
-- Name: arbiter_recovered(integer, smallint, bigint, public.holds, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_recovered(p_event integer, p_partition smallint, p_epoch bigint, r public.holds, p_until timestamp with time zone) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_recovering(timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_recovering(p_until timestamp with time zone) RETURNS public.arbiter_answer
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
  answer arbiter_answer;
BEGIN
  answer.kind := 'recovering';
  answer.deadline := p_until;
  RETURN answer;
END $$;

--
-- Name: arbiter_release(integer, smallint, bigint, uuid, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_release(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text, p_force uuid) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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

--
-- Name: arbiter_say(text, integer[], bigint, integer, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_say(p_kind text, p_seats integer[] DEFAULT NULL::integer[], p_epoch bigint DEFAULT NULL::bigint, p_used integer DEFAULT NULL::integer, p_phase text DEFAULT NULL::text, p_order uuid DEFAULT NULL::uuid) RETURNS public.arbiter_answer
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT ROW(p_kind, NULL, NULL, NULL, p_seats, NULL, NULL, p_epoch, NULL, p_order, NULL, p_used, p_phase, NULL)::arbiter_answer
$$;

--
-- Name: arbiter_say_hold(text, public.holds, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_say_hold(p_kind text, h public.holds, p_repeated boolean DEFAULT false) RETURNS public.arbiter_answer
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT ROW(p_kind, h.hold_id, h.visitor, h.holder, h.seats, h.granted_at, h.deadline, h.epoch, h.grant_no, h.order_id,
             p_repeated, NULL, NULL, NULL)::arbiter_answer
$$;

--
-- Name: arbiter_snapshot(integer, smallint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_snapshot(p_event integer, p_partition smallint) RETURNS TABLE(at timestamp with time zone, epoch bigint, codes text, last integer)
    LANGUAGE sql STABLE
    AS $$
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

--
-- Name: arbiter_sweep(integer, smallint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_sweep(p_event integer, p_partition smallint, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
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

--
-- Name: arbiter_take_again(integer, smallint, bigint, public.holds, integer, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_take_again(p_event integer, p_partition smallint, p_epoch bigint, r public.holds, p_seats_max integer, p_until timestamp with time zone) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: arbiter_taken(integer, smallint, bigint, integer[], integer, boolean, integer[], uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_taken(p_event integer, p_partition smallint, p_epoch bigint, p_seats integer[], p_size integer, p_named boolean, p_units integer[], p_own uuid) RETURNS integer[]
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: claim_finds(integer[], integer, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.claim_finds(p_seats integer[], p_size integer, p_free integer[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT CASE WHEN cardinality(p_seats) = p_size THEN p_seats <@ p_free
              ELSE arbiter_first_group(p_seats, p_size, p_free) IS NOT NULL END
$$;

--
-- Name: create_event_tables(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.create_event_tables(p_event integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  parent text;
  child text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['seats','holds','tickets'] LOOP
    child := format('%s_%s', parent, p_event);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
    IF parent = 'seats' THEN
      -- Room on each page, so that a hold's update stays on it and touches no index.
      EXECUTE format('ALTER TABLE %I SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)', child);
    END IF;
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (event_no = %s)', child, child || '_event', p_event);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', parent, child, p_event);
  END LOOP;
  INSERT INTO event_partitions (event_no, partition) VALUES (p_event, 0) ON CONFLICT DO NOTHING;
  INSERT INTO queue_counters (event_no, shard) VALUES (p_event, 0) ON CONFLICT DO NOTHING;
  INSERT INTO admissions (event_no) VALUES (p_event) ON CONFLICT DO NOTHING;
END $$;

--
-- Name: epoch_ms(timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.epoch_ms(p timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$ SELECT floor(extract(epoch FROM p) * 1000)::bigint $$;

--
-- Name: event_lock_alone(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_lock_alone(p_event integer) RETURNS void
    LANGUAGE sql
    AS $$ SELECT pg_advisory_xact_lock(20260, p_event) $$;

--
-- Name: event_lock_shared(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_lock_shared(p_event integer) RETURNS void
    LANGUAGE sql
    AS $$ SELECT pg_advisory_xact_lock_shared(20260, p_event) $$;

--
-- Name: event_publish(integer, text, text, bytea, text[], text[], text[], text[], text[], smallint[], jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_publish(p_event integer, p_actor text, p_layout_hash text, p_layout bytea, p_guids text[], p_sections text[], p_rows text[], p_labels text[], p_categories text[], p_seat_partitions smallint[], p_partitions jsonb) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_phase text;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_phase IS NULL THEN RETURN 'unknown'; END IF;
  IF v_phase <> 'draft' THEN RETURN 'not_draft'; END IF;
  PERFORM create_event_tables(p_event);
  PERFORM event_write_partitions(p_event, p_partitions);
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  INSERT INTO event_seats (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, s.n - 1, s.guid, s.section, s.row_label, s.label, s.category
    FROM unnest(p_guids, p_sections, p_rows, p_labels, p_categories)
      WITH ORDINALITY AS s (guid, section, row_label, label, category, n);
  INSERT INTO seats (event_no, seat_no, partition)
    SELECT p_event, s.n - 1, s.partition FROM unnest(p_seat_partitions) WITH ORDINALITY AS s (partition, n);
  UPDATE events SET phase = 'scheduled', version = version + 1, layout_hash = p_layout_hash,
    seat_count = cardinality(p_guids), published_at = clock_timestamp() WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'publish', p_event, jsonb_build_object('seats', cardinality(p_guids), 'layout', p_layout_hash,
      'partitions', jsonb_array_length(p_partitions)));
  RETURN 'published';
END $$;

--
-- Name: event_replan(integer, text, text, text, text, bytea, text[], text[], text[], text[], text[], smallint[], jsonb, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_replan(p_event integer, p_actor text, p_base text, p_plan text, p_layout_hash text, p_layout bytea, p_guids text[], p_sections text[], p_rows text[], p_labels text[], p_categories text[], p_seat_partitions smallint[], p_partitions jsonb, p_removed integer[]) RETURNS TABLE(seat_no integer, state text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
  v_count integer;
  v_base text;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT seat_count, layout_hash INTO v_count, v_base FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_base IS NULL OR v_base IS DISTINCT FROM p_base THEN
    RETURN QUERY SELECT NULL::integer, 'conflict';
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM event_partitions p WHERE p.event_no = p_event AND NOT partition_is_settled(p)) THEN
    RETURN QUERY SELECT NULL::integer, 'busy';
    RETURN;
  END IF;
  RETURN QUERY SELECT s.seat_no, CASE WHEN s.state = 'available' THEN 'held' ELSE s.state END
    FROM seats s JOIN event_partitions p ON p.event_no = p_event AND p.partition = s.partition
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND (s.state IN ('reserved','sold')
      OR (s.state = 'available' AND (p.mode <> 'postgres'
        OR NOT seat_is_free(s.state, s.hold_until, s.hold_epoch, p.epoch, clock_timestamp()))))
    ORDER BY s.seat_no;
  IF FOUND THEN RETURN; END IF;
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  PERFORM event_write_partitions(p_event, p_partitions);
  INSERT INTO event_seats (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, s.n - 1, s.guid, s.section, s.row_label, s.label, s.category
    FROM unnest(p_guids, p_sections, p_rows, p_labels, p_categories)
      WITH ORDINALITY AS s (guid, section, row_label, label, category, n)
    ON CONFLICT (event_no, seat_no) DO UPDATE SET section_id = excluded.section_id, row_label = excluded.row_label,
      seat_label = excluded.seat_label, category = excluded.category;
  UPDATE event_seats SET removed = seat_no = ANY (p_removed)
    WHERE event_no = p_event AND removed <> (seat_no = ANY (p_removed));
  INSERT INTO seats (event_no, seat_no, partition)
    SELECT p_event, s.n - 1, s.partition FROM unnest(p_seat_partitions) WITH ORDINALITY AS s (partition, n)
    WHERE s.n > v_count;
  UPDATE seats s SET state = 'blocked', version = s.version + 1, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND s.state = 'available';
  INSERT INTO blocks (event_no, seat_no, reason, actor)
    SELECT p_event, r, 'removed from the plan', p_actor FROM unnest(p_removed) r ON CONFLICT DO NOTHING;
  UPDATE events SET plan_id = p_plan, layout_hash = p_layout_hash, seat_count = cardinality(p_guids), version = version + 1
    WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'replan', p_event,
    jsonb_build_object('plan', p_plan, 'removed', cardinality(p_removed), 'seats', cardinality(p_guids)));
END $$;

--
-- Name: event_write_partitions(integer, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_write_partitions(p_event integer, p_partitions jsonb) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO event_partitions AS p (event_no, partition, sections, store)
    SELECT p_event, (r ->> 'partition')::smallint,
      CASE WHEN jsonb_typeof(r -> 'sections') = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(r -> 'sections')) END,
      r ->> 'store'
    FROM jsonb_array_elements(p_partitions) r
    ON CONFLICT (event_no, partition) DO UPDATE SET sections = excluded.sections, store = excluded.store
$$;

--
-- Name: hold_due(text, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_due(p_state text, p_deadline timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT CASE p_state WHEN 'live' THEN p_deadline WHEN 'ordered' THEN NULL
                      ELSE p_deadline + interval '15 minutes' END
$$;

--
-- Name: hold_is_forgotten(public.holds, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_is_forgotten(h public.holds, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT h.state <> 'ordered' AND h.deadline + arbiter_life_max() <= p_now
$$;

--
-- Name: hold_is_live(public.holds, bigint, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_is_live(h public.holds, p_epoch bigint, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT h.state = 'live' AND h.deadline > p_now AND h.epoch = p_epoch
$$;

--
-- Name: hold_rank(public.holds); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_rank(h public.holds) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT ARRAY[coalesce(h.receipt_epoch, h.epoch), coalesce(h.receipt_grant, h.grant_no)]
$$;

--
-- Name: hold_stands(public.holds, bigint, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_stands(h public.holds, p_epoch bigint, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
  v_count integer;
BEGIN
  IF h.state = 'ordered' THEN RETURN true; END IF;
  IF NOT hold_is_live(h, p_epoch, p_now) THEN RETURN false; END IF;
  SELECT count(*) INTO v_count FROM seats s
   WHERE s.event_no = h.event_no AND s.seat_no = ANY(h.seats) AND s.state = 'available' AND s.hold_id = h.hold_id;
  RETURN v_count = cardinality(h.seats);
END $$;

--
-- Name: in_queue_gap(integer, smallint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.in_queue_gap(p_event integer, p_shard smallint, p_number bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
  SELECT EXISTS (SELECT FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard
    AND g.first <= p_number AND g.last >= p_number)
$$;

--
-- Name: is_since(xid, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.is_since(p_xmin xid, p_mark bigint) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT p_mark IS NULL OR mod(p_xmin::text::bigint - mod(p_mark, 4294967296) + 4294967296, 4294967296) < 2147483648
$$;

--
-- Name: lease_holds(integer, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.lease_holds(p_event integer, p_term bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM FROM leases l
    WHERE l.event_no = p_event AND l.term = p_term AND l.until > clock_timestamp() FOR SHARE;
  RETURN FOUND;
END $$;

--
-- Name: lease_keep(text, integer[], integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.lease_keep(p_owner text, p_events integer[], p_lease_ms integer) RETURNS TABLE(event_no integer, term bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  INSERT INTO leases AS l (event_no, owner, term, until)
    SELECT e.event_no, p_owner, 1, clock_timestamp() + p_lease_ms * interval '1 ms'
    FROM unnest(p_events) AS e (event_no) ORDER BY e.event_no
  ON CONFLICT (event_no) DO UPDATE SET
    owner = excluded.owner,
    term = CASE WHEN l.owner = excluded.owner AND l.until > clock_timestamp() THEN l.term ELSE l.term + 1 END,
    until = clock_timestamp() + p_lease_ms * interval '1 ms'
  WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()
  RETURNING l.event_no, l.term;
END $$;

--
-- Name: money_authorised(uuid, jsonb, jsonb, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_authorised(p_operation uuid, p_answer jsonb, p_instrument jsonb, p_end_key text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_seats jsonb;
BEGIN
  PERFORM event_lock_shared((SELECT event_no FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation));
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'authorise' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  -- A row that was ended for another reason than time, or whose object is being cancelled, does not come back.
  -- Nor does one beside another that is under way, but for the planned cancelling of a closed order's object.
  IF o.state NOT IN ('reserved','closed') OR (m.state = 'ending' AND m.end_reason <> 'not_paid_in_time')
     OR EXISTS (SELECT 1 FROM money_operations other
                WHERE other.order_id = o.order_id AND other.operation_id <> m.operation_id
                  AND CASE WHEN other.kind = 'authorise' THEN other.state NOT IN ('refused','voided')
                      ELSE other.state IN ('open','waiting','unknown','ending')
                           AND NOT (o.state = 'closed' AND other.kind = 'open' AND other.state = 'ending') END) THEN
    RETURN money_end(p_operation, coalesce(m.end_reason, 'seats_lost'), p_end_key, p_owner, p_lease_ms);
  END IF;
  IF o.state = 'closed' THEN
    BEGIN
      v_seats := order_retake(o);
      -- In the same breath, so that an open order which the visitor makes meanwhile undoes both.
      IF v_seats IS NOT NULL THEN UPDATE orders SET state = 'authorised' WHERE order_id = o.order_id; END IF;
    EXCEPTION WHEN unique_violation THEN v_seats := NULL;
    END;
    IF v_seats IS NULL THEN RETURN money_end(p_operation, 'seats_lost', p_end_key, p_owner, p_lease_ms); END IF;
    -- The object lives again: its cancelling, if only planned, is called off.
    UPDATE money_operations SET state = 'done', due_at = NULL, end_key = NULL, end_reason = NULL
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'ending' AND provider_object = o.provider_object;
  END IF;
  UPDATE money_operations
  SET state = 'done', answer = p_answer, due_at = v_until, claimed_by = p_owner, claimed_until = v_until,
      end_key = NULL, end_reason = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'authorised', reason = NULL, instrument = p_instrument, updated_at = clock_timestamp()
  WHERE order_id = o.order_id;
  PERFORM order_note(o.order_id, CASE WHEN o.state = 'closed' THEN 'late_success' ELSE 'authorise' END, o.state, 'authorised',
                     jsonb_build_object('operation', p_operation));
  RETURN money_result('authorised', p_operation, coalesce(v_seats, '[]'));
END $$;

--
-- Name: money_begin(uuid, uuid, text, text, text, text, jsonb, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_begin(p_operation uuid, p_order uuid, p_kind text, p_key text, p_client_key text, p_request text, p_instrument jsonb, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_order orders;
  v_operation money_operations;
  v_until timestamptz;
BEGIN
  SELECT * INTO v_order FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  SELECT * INTO v_operation FROM money_operations WHERE order_id = p_order AND client_key = p_client_key;
  IF FOUND THEN
    IF v_operation.request IS DISTINCT FROM p_request THEN RETURN '{"kind":"mismatch"}'; END IF;
    RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(v_order), 'operation', operation_json(v_operation));
  END IF;
  IF v_order.state <> 'reserved' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(v_order));
  END IF;
  SELECT * INTO v_operation FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending');
  IF FOUND THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(v_order), 'operation', operation_json(v_operation));
  END IF;
  IF clock_timestamp() >= v_order.payment_deadline THEN
    RETURN jsonb_build_object('kind', 'too_late', 'order', order_json(v_order), 'reason', 'not_paid_in_time');
  END IF;
  IF (SELECT phase FROM events WHERE event_no = v_order.event_no) = 'cancelled' THEN
    RETURN jsonb_build_object('kind', 'too_late', 'order', order_json(v_order), 'reason', 'event_cancelled');
  END IF;
  IF p_kind = 'open' AND v_order.provider_object IS NOT NULL THEN
    RETURN jsonb_build_object('kind', 'opened', 'order', order_json(v_order));
  END IF;
  v_until := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, client_key, request, instrument, provider_object,
                                amount, currency, attempts, first_sent_at, due_at, claimed_by, claimed_until, created_at)
  VALUES (p_operation, p_order, p_kind, 'open', p_key, p_client_key, p_request, p_instrument, v_order.provider_object,
          v_order.amount, v_order.currency, 1, clock_timestamp(), v_until, p_owner, v_until, clock_timestamp())
  RETURNING * INTO v_operation;
  PERFORM order_note(p_order, 'begin_' || p_kind, v_order.state, v_order.state, jsonb_build_object('operation', p_operation));
  RETURN jsonb_build_object('kind', 'begun', 'order', order_json(v_order), 'operation', operation_json(v_operation));
END $$;

--
-- Name: money_captured(uuid, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_captured(p_operation uuid, p_answer jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
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
  UPDATE orders SET state = 'paid', updated_at = clock_timestamp() WHERE order_id = o.order_id AND state = 'confirmed';
  PERFORM order_note(o.order_id, 'capture', o.state, 'paid', jsonb_build_object('operation', p_operation));
  RETURN money_result('captured', p_operation);
END $$;

--
-- Name: money_claim(text, integer, integer, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_claim(p_owner text, p_limit integer, p_lease_ms integer, p_operation uuid) RETURNS SETOF jsonb
    LANGUAGE sql
    AS $$
  WITH due AS (
    SELECT operation_id FROM money_operations
    WHERE due_at IS NOT NULL
      AND CASE WHEN p_operation IS NULL THEN due_at <= clock_timestamp() ELSE operation_id = p_operation END
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
    ORDER BY due_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
  UPDATE money_operations m
  SET claimed_by = p_owner, claimed_until = clock_timestamp() + p_lease_ms * interval '1 millisecond',
      due_at = clock_timestamp() + p_lease_ms * interval '1 millisecond',
      attempts = attempts + 1, first_sent_at = coalesce(first_sent_at, clock_timestamp())
  FROM due WHERE m.operation_id = due.operation_id
  RETURNING operation_json(m)
$$;

--
-- Name: money_end(uuid, text, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_end(p_operation uuid, p_reason text, p_end_key text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  -- A standing authorisation is ended by confirm alone. A settled one may come back here, but never beside another that is
  -- under way or stands: it is the same object, whose cancelling would take the other's money away.
  IF m.kind NOT IN ('open','authorise') OR m.state IN ('ending','done')
     OR (m.state IN ('refused','voided') AND EXISTS (SELECT 1 FROM money_operations other WHERE other.order_id = o.order_id
         AND other.operation_id <> m.operation_id AND (other.state IN ('open','waiting','unknown','ending')
           OR (other.kind = 'authorise' AND other.state = 'done'))))
  THEN RETURN money_result(CASE WHEN m.state = 'ending' THEN 'ending' ELSE 'settled' END, p_operation); END IF;
  UPDATE money_operations
  SET state = 'ending', end_key = p_end_key, end_reason = p_reason, due_at = v_until, claimed_by = p_owner,
      claimed_until = v_until, attempts = 1, first_sent_at = clock_timestamp(), updated_at = clock_timestamp(),
      attention = CASE WHEN p_reason = 'payment_mismatch' THEN p_reason ELSE attention END
  WHERE operation_id = p_operation;
  PERFORM order_note(o.order_id, m.kind || '_ending', o.state, o.state,
                     jsonb_build_object('operation', p_operation, 'reason', p_reason));
  RETURN money_result('ending', p_operation);
END $$;

--
-- Name: money_operations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.money_operations (
    operation_id uuid NOT NULL,
    order_id uuid NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    key text NOT NULL,
    end_key text,
    client_key text,
    request text,
    instrument jsonb,
    provider_object text,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    first_sent_at timestamp with time zone,
    due_at timestamp with time zone,
    answer jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    claimed_by text,
    claimed_until timestamp with time zone,
    end_reason text,
    attention text,
    CONSTRAINT money_operations_kind_check CHECK ((kind = ANY (ARRAY['open'::text, 'authorise'::text, 'capture'::text, 'refund'::text]))),
    CONSTRAINT money_operations_state_check CHECK ((state = ANY (ARRAY['open'::text, 'waiting'::text, 'unknown'::text, 'ending'::text, 'done'::text, 'refused'::text, 'voided'::text])))
);

--
-- Name: money_lock(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_lock(p_operation uuid) RETURNS public.money_operations
    LANGUAGE plpgsql
    AS $$
DECLARE
  m money_operations;
BEGIN
  PERFORM 1 FROM orders
  WHERE order_id = (SELECT order_id FROM money_operations WHERE operation_id = p_operation) FOR UPDATE;
  SELECT * INTO m FROM money_operations WHERE operation_id = p_operation FOR UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION 'no money operation %', p_operation; END IF;
  RETURN m;
END $$;

--
-- Name: money_opened(uuid, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_opened(p_operation uuid, p_object text, p_answer jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind = 'open' AND m.state IN ('open','unknown','ending') AND m.provider_object IS NULL THEN
    UPDATE money_operations
    SET provider_object = p_object, answer = p_answer, claimed_until = NULL, updated_at = clock_timestamp(),
        state = CASE WHEN m.state = 'ending' THEN 'ending' ELSE 'done' END,
        due_at = CASE WHEN m.state = 'ending' THEN clock_timestamp() END
    WHERE operation_id = p_operation;
    UPDATE orders SET provider_object = p_object, updated_at = clock_timestamp() WHERE order_id = o.order_id;
    PERFORM order_note(o.order_id, 'opened', o.state, o.state, jsonb_build_object('object', p_object));
  END IF;
  RETURN money_result('opened', p_operation);
END $$;

--
-- Name: money_park(uuid, text, integer, jsonb, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_park(p_operation uuid, p_state text, p_due_ms integer, p_answer jsonb, p_attention text, p_new_key text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_due timestamptz := clock_timestamp() + p_due_ms * interval '1 millisecond';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') THEN RETURN money_result('settled', p_operation); END IF;
  IF m.kind = 'authorise' AND m.state <> 'ending' AND o.payment_deadline > clock_timestamp() THEN
    v_due := least(v_due, o.payment_deadline);
  END IF;
  UPDATE money_operations
  SET state = CASE WHEN m.state = 'ending' THEN 'ending' ELSE p_state END, due_at = v_due, claimed_until = NULL,
      answer = coalesce(p_answer, answer), attention = coalesce(p_attention, attention),
      key = CASE WHEN m.state <> 'ending' THEN coalesce(p_new_key, key) ELSE key END,
      end_key = CASE WHEN m.state = 'ending' THEN coalesce(p_new_key, end_key) ELSE end_key END,
      first_sent_at = CASE WHEN p_new_key IS NULL THEN first_sent_at END, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  IF m.state NOT IN ('ending', p_state) THEN
    PERFORM order_note(o.order_id, m.kind || '_' || p_state, o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('parked', p_operation);
END $$;

--
-- Name: money_refused(uuid, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_refused(p_operation uuid, p_answer jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
BEGIN
  IF (SELECT kind FROM money_operations WHERE operation_id = p_operation) = 'capture' THEN
    PERFORM order_lock_limits(order_row.event_no, order_row.account, order_row.instrument ->> 'fingerprint')
    FROM (SELECT orders.* FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation) order_row;
  END IF;
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown') THEN RETURN money_result('settled', p_operation); END IF;
  UPDATE money_operations SET state = 'refused', answer = p_answer, due_at = NULL, claimed_until = NULL,
                              updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  IF m.kind = 'capture' AND o.state = 'confirmed' THEN
    PERFORM order_count_limits(o, -cardinality(o.seats));
    v_seats := order_end(o, 'capture_refused', 'cancelled', 'capture_refused', NULL);
    -- Nothing was taken, yet the reservation may stand: it is ended too.
    UPDATE money_operations SET state = 'ending', end_key = p_operation || ':end', end_reason = 'capture_refused',
           due_at = clock_timestamp(), claimed_until = NULL, attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'authorise' AND state = 'done';
  ELSE
    PERFORM order_note(o.order_id, m.kind || '_refused', o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('refused', p_operation, v_seats);
END $$;

--
-- Name: money_release_claims(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_release_claims(p_owner text) RETURNS integer
    LANGUAGE sql
    AS $$
  WITH freed AS (
    UPDATE money_operations SET claimed_until = NULL, due_at = clock_timestamp()
    WHERE due_at IS NOT NULL AND claimed_by = p_owner AND claimed_until > clock_timestamp() RETURNING 1)
  SELECT count(*)::integer FROM freed
$$;

--
-- Name: money_result(text, uuid, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_result(p_kind text, p_operation uuid, p_seats jsonb DEFAULT '[]'::jsonb) RETURNS jsonb
    LANGUAGE sql
    AS $$
  SELECT jsonb_build_object('kind', p_kind, 'operation', operation_json(m), 'order', order_json(o), 'seats', p_seats)
  FROM money_operations m JOIN orders o USING (order_id) WHERE m.operation_id = p_operation
$$;

--
-- Name: money_voided(uuid, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_voided(p_operation uuid, p_answer jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') OR m.kind NOT IN ('open','authorise') THEN
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations SET state = 'voided', answer = coalesce(p_answer, answer), due_at = NULL, claimed_until = NULL,
                              updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE money_operations SET state = 'voided', updated_at = clock_timestamp()
  WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
  IF o.state = 'voiding' THEN
    UPDATE orders SET state = 'closed', updated_at = clock_timestamp() WHERE order_id = o.order_id;
    PERFORM order_note(o.order_id, 'voided', 'voiding', 'closed', jsonb_build_object('operation', p_operation));
  ELSIF o.state = 'reserved' AND m.state = 'ending' THEN
    v_seats := order_end(o, 'close', 'closed', m.end_reason, NULL);
  ELSE
    IF o.state = 'reserved' THEN
      UPDATE orders SET provider_object = NULL, updated_at = clock_timestamp() WHERE order_id = o.order_id;
    END IF;
    PERFORM order_note(o.order_id, m.kind || '_voided', o.state, o.state, jsonb_build_object('operation', p_operation));
  END IF;
  RETURN money_result('voided', p_operation, v_seats);
END $$;

--
-- Name: next_epoch(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.next_epoch(p_least bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_epoch bigint := nextval('epochs');
BEGIN
  IF v_epoch > p_least THEN RETURN v_epoch; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('epochs', 0));
  v_epoch := nextval('epochs');
  IF v_epoch <= p_least THEN PERFORM setval('epochs', p_least + 1000); END IF;
  RETURN nextval('epochs');
END $$;

--
-- Name: on_sale_change(integer, text, integer, text, text[], boolean, text, boolean, double precision); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.on_sale_change(p_event integer, p_actor text, p_expected integer, p_phase text, p_from text[], p_set_message boolean, p_message text, p_set_rate boolean, p_rate double precision, OUT outcome text, OUT phase text, OUT version integer, OUT message text, OUT rate_ceiling double precision) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
  e events%ROWTYPE;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT * INTO e FROM events WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND THEN outcome := 'unknown'; RETURN; END IF;
  IF e.version <> p_expected THEN
    outcome := 'conflict';
  ELSIF p_phase IS NOT NULL AND p_phase <> e.phase AND NOT (e.phase = ANY (p_from)) THEN
    outcome := 'impossible';
  ELSE
    outcome := 'changed';
    UPDATE events SET
      phase = coalesce(p_phase, e.phase),
      message = CASE WHEN p_set_message THEN p_message ELSE e.message END,
      rate_ceiling = CASE WHEN p_set_rate THEN p_rate ELSE e.rate_ceiling END,
      version = e.version + 1
    WHERE event_no = p_event RETURNING * INTO e;
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'on_sale', p_event,
      jsonb_build_object('phase', e.phase, 'message', e.message, 'rate_ceiling', e.rate_ceiling, 'version', e.version));
  END IF;
  phase := e.phase; version := e.version; message := e.message; rate_ceiling := e.rate_ceiling;
END $$;

--
-- Name: operation_json(public.money_operations); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operation_json(m public.money_operations) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'operation', m.operation_id, 'order', m.order_id, 'kind', m.kind, 'state', m.state, 'key', m.key,
    'endKey', m.end_key, 'endReason', m.end_reason, 'clientKey', m.client_key, 'request', m.request,
    'instrument', m.instrument, 'providerObject', m.provider_object, 'amount', m.amount, 'currency', m.currency,
    'attempts', m.attempts, 'firstSentAt', epoch_ms(m.first_sent_at), 'dueAt', epoch_ms(m.due_at),
    'answer', m.answer, 'attention', m.attention)
$$;

--
-- Name: order_abandon(uuid, uuid, integer, smallint, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_abandon(p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_visitor text, p_holder text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_order orders;
BEGIN
  INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, amount, currency,
                      state, reason, payment_deadline)
  SELECT p_order, p_event, p_partition, p_hold, p_visitor, p_holder, '', '{"name":"","email":""}', '{}', '[]', 0, currency,
         'closed', 'closed_by_buyer', clock_timestamp()
  FROM events WHERE event_no = p_event
  ON CONFLICT DO NOTHING RETURNING * INTO v_order;
  IF v_order.order_id IS NOT NULL THEN
    PERFORM order_note(p_order, 'abandon', NULL, 'closed');
    RETURN '{"kind":"abandoned"}';
  END IF;
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
  IF v_order.seats = '{}' THEN RETURN '{"kind":"abandoned"}'; END IF;
  RETURN jsonb_build_object('kind', 'ordered', 'order', order_json(v_order));
END $$;

--
-- Name: order_close(uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_close(p_order uuid, p_reason text, p_end_key text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_order orders;
  v_seats jsonb;
BEGIN
  SELECT * INTO v_order FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  IF v_order.state IN ('closed','cancelled') THEN
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(v_order), 'seats', '[]'::jsonb);
  END IF;
  IF v_order.state <> 'reserved' THEN RETURN jsonb_build_object('kind', 'decided', 'order', order_json(v_order)); END IF;
  IF EXISTS (SELECT 1 FROM money_operations
             WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending'))
     OR (p_reason = 'not_paid_in_time' AND clock_timestamp() < v_order.payment_deadline) THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(v_order));
  END IF;
  v_seats := order_end(v_order, 'close', 'closed', p_reason, p_end_key);
  SELECT * INTO v_order FROM orders WHERE order_id = p_order;
  RETURN jsonb_build_object('kind', 'closed', 'order', order_json(v_order), 'seats', v_seats);
END $$;

--
-- Name: order_confirm(uuid, uuid, text, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_confirm(p_order uuid, p_capture uuid, p_capture_key text, p_end_key text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders;
  v_authorise money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_fingerprint text;
  v_reason text;
  v_seats jsonb;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  PERFORM event_lock_shared(o.event_no);
  v_fingerprint := o.instrument ->> 'fingerprint';
  PERFORM order_lock_limits(o.event_no, o.account, v_fingerprint);
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF o.state <> 'authorised' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o));
  END IF;
  SELECT * INTO v_authorise FROM money_operations
  WHERE order_id = p_order AND kind = 'authorise' AND state = 'done' FOR UPDATE;
  v_reason := CASE
    WHEN (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled' THEN 'event_cancelled'
    WHEN NOT order_seats_are(o, 'reserved')
      OR (SELECT count(*) FROM tickets WHERE event_no = o.event_no AND order_id = p_order AND status = 'reserved')
         <> cardinality(o.seats) THEN 'seats_lost'
    WHEN order_over_limit(o.event_no, 'account', o.account, cardinality(o.seats), 'accountSeatsMax')
      OR order_over_limit(o.event_no, 'instrument', v_fingerprint, cardinality(o.seats), 'instrumentSeatsMax') THEN 'limit'
  END;
  IF v_reason IS NOT NULL THEN
    v_seats := order_end(o, 'confirm_impossible', 'voiding', v_reason, NULL);
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = v_reason, due_at = v_until, claimed_by = p_owner,
        claimed_until = v_until, attempts = 1, first_sent_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE operation_id = v_authorise.operation_id;
    RETURN money_result('impossible', v_authorise.operation_id, v_seats);
  END IF;
  UPDATE tickets SET status = 'sold', changed_at = clock_timestamp()
  WHERE event_no = o.event_no AND order_id = p_order AND status = 'reserved';
  v_seats := order_decide_seats(o, 'sold');
  PERFORM order_count_limits(o, cardinality(o.seats));
  UPDATE holds SET state = 'ended' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state IN ('live','ordered');
  UPDATE money_operations SET due_at = NULL, claimed_until = NULL WHERE operation_id = v_authorise.operation_id;
  UPDATE orders SET state = 'confirmed', updated_at = clock_timestamp() WHERE order_id = p_order;
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, attempts,
                                first_sent_at, due_at, claimed_by, claimed_until, created_at)
  VALUES (p_capture, p_order, 'capture', 'open', p_capture_key, o.provider_object, o.amount, o.currency, 1,
          clock_timestamp(), v_until, p_owner, v_until, clock_timestamp());
  PERFORM order_note(p_order, 'confirm', 'authorised', 'confirmed');
  RETURN money_result('confirmed', p_capture, v_seats);
END $$;

--
-- Name: orders; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.orders (
    order_id uuid NOT NULL,
    event_no integer NOT NULL,
    partition smallint DEFAULT 0 NOT NULL,
    hold_id uuid NOT NULL,
    visitor text NOT NULL,
    holder text NOT NULL,
    account text NOT NULL,
    buyer jsonb NOT NULL,
    seats integer[] NOT NULL,
    lines jsonb NOT NULL,
    order_fee bigint DEFAULT 0 NOT NULL,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    state text NOT NULL,
    reason text,
    payment_deadline timestamp with time zone NOT NULL,
    provider_object text,
    instrument jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT orders_amount_check CHECK ((amount >= 0))
);

--
-- Name: order_count_limits(public.orders, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_count_limits(o public.orders, p_seats integer) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE limit_counts SET seats = seats + p_seats
  WHERE event_no = o.event_no
    AND ((kind = 'account' AND subject = o.account) OR (kind = 'instrument' AND subject = o.instrument ->> 'fingerprint'))
$$;

--
-- Name: order_decide_seats(public.orders, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_decide_seats(o public.orders, p_state text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  decided jsonb;
BEGIN
  PERFORM order_seats_are(o, p_state);
  WITH changed AS (
    UPDATE seats s
    SET state = p_state, version = s.version + 1,
        order_id = CASE WHEN p_state = 'available' THEN NULL ELSE o.order_id END
    WHERE s.event_no = o.event_no AND s.seat_no = ANY (o.seats) AND s.order_id = o.order_id
    RETURNING s.seat_no, s.version)
  SELECT coalesce(jsonb_agg(jsonb_build_object('seat', seat_no, 'version', version, 'state', p_state) ORDER BY seat_no), '[]')
  INTO decided FROM changed;
  RETURN decided;
END $$;

--
-- Name: order_end(public.orders, text, text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_end(o public.orders, p_change text, p_to text, p_reason text, p_end_key text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_seats jsonb := order_free(o);
BEGIN
  UPDATE orders SET state = p_to, reason = coalesce(p_reason, reason), updated_at = clock_timestamp()
  WHERE order_id = o.order_id;
  IF p_end_key IS NOT NULL THEN
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = p_reason, due_at = clock_timestamp(), claimed_until = NULL,
        attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
  END IF;
  PERFORM order_note(o.order_id, p_change, o.state, p_to, jsonb_build_object('reason', p_reason));
  RETURN v_seats;
END $$;

--
-- Name: order_event_limit(integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_event_limit(p_event integer, p_name text) RETURNS integer
    LANGUAGE sql STABLE
    AS $$ SELECT (settings ->> p_name)::integer FROM events WHERE event_no = p_event $$;

--
-- Name: order_free(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_free(o public.orders) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
BEGIN
  UPDATE tickets SET status = 'cancelled', changed_at = clock_timestamp()
  WHERE event_no = o.event_no AND order_id = o.order_id AND status IN ('reserved','sold');
  UPDATE holds SET state = 'ended' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state IN ('live','ordered');
  RETURN order_decide_seats(o, 'available');
END $$;

--
-- Name: order_json(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_json(o public.orders) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'order', o.order_id, 'eventNo', o.event_no, 'event', (SELECT event_id FROM events WHERE event_no = o.event_no),
    'partition', o.partition, 'hold', o.hold_id, 'visitor', o.visitor, 'holder', o.holder, 'account', o.account,
    'buyer', o.buyer, 'lines', o.lines, 'orderFee', o.order_fee, 'amount', o.amount, 'currency', o.currency,
    'state', o.state, 'reason', o.reason, 'paymentDeadline', epoch_ms(o.payment_deadline),
    'providerObject', o.provider_object, 'instrument', o.instrument, 'createdAt', epoch_ms(o.created_at))
$$;

--
-- Name: order_lock_limits(integer, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_lock_limits(p_event integer, p_account text, p_fingerprint text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO limit_counts (event_no, kind, subject, seats)
  SELECT p_event, kind, subject, 0
  FROM (VALUES ('account', p_account), ('instrument', p_fingerprint)) AS wanted (kind, subject)
  WHERE subject IS NOT NULL ORDER BY kind, subject
  ON CONFLICT DO NOTHING;
  PERFORM 1 FROM limit_counts
  WHERE event_no = p_event
    AND ((kind = 'account' AND subject = p_account) OR (kind = 'instrument' AND subject = p_fingerprint))
  ORDER BY kind, subject FOR UPDATE;
END $$;

--
-- Name: order_note(uuid, text, text, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_note(p_order uuid, p_change text, p_from text, p_to text, p_detail jsonb DEFAULT NULL::jsonb) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO order_history (order_id, change, from_state, to_state, detail)
  VALUES (p_order, p_change, p_from, p_to, p_detail)
$$;

--
-- Name: order_over_limit(integer, text, text, integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_over_limit(p_event integer, p_kind text, p_subject text, p_seats integer, p_setting text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = p_kind AND subject = p_subject), 0)
         + p_seats > order_event_limit(p_event, p_setting) AND p_subject IS NOT NULL
$$;

--
-- Name: order_reserve(uuid, uuid, integer, smallint, bigint, timestamp with time zone, text, text, text, jsonb, jsonb, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_reserve(p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamp with time zone, p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_phase text;
  v_mode event_partitions;
  v_hold holds;
  v_order orders;
  v_seats integer[];
  v_amount bigint;
  v_used integer;
  v_max integer;
  v_deadline timestamptz := p_deadline;
  v_free integer;
  v_decided jsonb;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
  IF FOUND THEN
    RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', true, 'seats', '[]'::jsonb);
  END IF;
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event;
  IF v_phase IS NULL OR v_phase NOT IN ('open','paused','sold_out','closed') THEN
    RETURN jsonb_build_object('kind', 'not_open', 'phase', coalesce(v_phase, 'draft'));
  END IF;
  SELECT * INTO v_mode FROM event_partitions WHERE event_no = p_event AND partition = p_partition;
  IF v_mode.mode = 'moving' THEN RETURN '{"kind":"retry"}'; END IF;
  IF v_mode.epoch IS DISTINCT FROM p_epoch THEN RETURN '{"kind":"stale"}'; END IF;

  SELECT array_agg((line ->> 'seat')::integer ORDER BY (line ->> 'seat')::integer),
         sum((line ->> 'price')::bigint + (line ->> 'fee')::bigint) + p_order_fee
  INTO v_seats, v_amount FROM jsonb_array_elements(p_lines) line;

  v_max := order_event_limit(p_event, 'accountSeatsMax');
  IF v_max IS NOT NULL THEN
    PERFORM order_lock_limits(p_event, p_account, NULL);
    SELECT coalesce(sum(cardinality(seats)), 0)
           + coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = 'account' AND subject = p_account), 0)
    INTO v_used FROM orders WHERE event_no = p_event AND account = p_account AND state IN ('reserved','authorised');
  END IF;

  IF v_mode.mode = 'postgres' THEN
    SELECT * INTO v_hold FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
    -- A repeat that waited here for the first request's end finds its order now.
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
    IF FOUND THEN
      RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', true, 'seats', '[]'::jsonb);
    END IF;
    IF v_hold.hold_id IS NULL OR v_hold.state <> 'live' OR v_hold.epoch <> p_epoch OR v_hold.order_id IS DISTINCT FROM p_order
       OR v_hold.visitor <> p_visitor
       OR v_hold.seats IS DISTINCT FROM v_seats THEN
      RETURN '{"kind":"hold_gone"}';
    END IF;
    v_deadline := least(v_hold.deadline, p_deadline);
  END IF;
  -- Only now, so that a repeat of an order that filled the limit is answered with that order.
  IF v_max IS NOT NULL AND v_used + cardinality(v_seats) > v_max THEN
    RETURN jsonb_build_object('kind', 'limit', 'limit', 'account', 'max', v_max, 'used', v_used);
  END IF;

  INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, order_fee,
                      amount, currency, state, payment_deadline, created_at)
  SELECT p_order, p_event, p_partition, p_hold, p_visitor, p_holder, p_account, p_buyer, v_seats, p_lines, p_order_fee,
         v_amount, p_currency, 'reserved', at + interval '10 minutes', at
  FROM date_trunc('milliseconds', clock_timestamp()) at
  ON CONFLICT DO NOTHING RETURNING * INTO v_order;
  IF v_order.order_id IS NULL THEN
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold;
    IF FOUND THEN
      RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', true, 'seats', '[]'::jsonb);
    END IF;
    SELECT * INTO v_order FROM orders WHERE event_no = p_event AND visitor = p_visitor AND state IN ('reserved','authorised');
    -- The open order may have ended between the two statements: the caller tries again.
    IF NOT FOUND THEN RETURN '{"kind":"retry"}'; END IF;
    RETURN jsonb_build_object('kind', 'open_order', 'order', v_order.order_id);
  END IF;

  SELECT count(*) FILTER (WHERE s.state = 'available' AND CASE
           WHEN s.hold_until > clock_timestamp() AND s.hold_epoch = p_epoch THEN s.hold_id = p_hold
           ELSE v_mode.mode <> 'postgres' END)
  INTO v_free
  FROM (SELECT * FROM seats WHERE event_no = p_event AND seat_no = ANY (v_seats) ORDER BY seat_no FOR UPDATE) s;
  IF v_free = cardinality(v_seats) AND clock_timestamp() < v_deadline - interval '6 seconds' THEN
    -- S1: whatever was wrong above, the index refuses a second owner; a refused seat is a seat that is gone.
    INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind)
    SELECT p_event, (line ->> 'seat')::integer, p_order, 'reserved', (line ->> 'price')::bigint, (line ->> 'fee')::bigint,
           coalesce(line ->> 'kind', 'full')
    FROM jsonb_array_elements(p_lines) line ORDER BY (line ->> 'seat')::integer
    ON CONFLICT (event_no, seat_no) WHERE status IN ('reserved','sold') DO NOTHING;
    GET DIAGNOSTICS v_free = ROW_COUNT;
  ELSE
    v_free := 0;
  END IF;
  IF v_free < cardinality(v_seats) THEN
    DELETE FROM tickets WHERE event_no = p_event AND order_id = p_order;
    DELETE FROM orders WHERE order_id = p_order;
    RETURN '{"kind":"hold_gone"}';
  END IF;
  UPDATE seats SET order_id = p_order, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
  WHERE event_no = p_event AND seat_no = ANY (v_seats);
  v_decided := order_decide_seats(v_order, 'reserved');
  UPDATE holds SET state = 'ordered' WHERE event_no = p_event AND hold_id = p_hold AND state = 'live';
  PERFORM order_note(p_order, 'reserve', NULL, 'reserved');
  RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', false, 'seats', v_decided);
END $$;

--
-- Name: order_retake(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_retake(o public.orders) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_free integer;
  v_epoch bigint := (SELECT epoch FROM event_partitions WHERE event_no = o.event_no AND partition = o.partition);
BEGIN
  IF cardinality(o.seats) = 0 OR (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled'
     OR EXISTS (SELECT 1 FROM orders WHERE event_no = o.event_no AND visitor = o.visitor AND state IN ('reserved','authorised'))
  THEN RETURN NULL; END IF;
  SELECT count(*) FILTER (WHERE s.state = 'available'
           AND NOT (s.hold_id IS NOT NULL AND s.hold_until > clock_timestamp() AND s.hold_epoch = v_epoch))
  INTO v_free
  FROM (SELECT * FROM seats WHERE event_no = o.event_no AND seat_no = ANY (o.seats) ORDER BY seat_no FOR UPDATE) s;
  IF v_free < cardinality(o.seats) THEN RETURN NULL; END IF;
  INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind)
  SELECT o.event_no, (line ->> 'seat')::integer, o.order_id, 'reserved', (line ->> 'price')::bigint, (line ->> 'fee')::bigint,
         coalesce(line ->> 'kind', 'full')
  FROM jsonb_array_elements(o.lines) line ORDER BY (line ->> 'seat')::integer
  ON CONFLICT (event_no, seat_no) WHERE status IN ('reserved','sold') DO NOTHING;
  GET DIAGNOSTICS v_free = ROW_COUNT;
  IF v_free < cardinality(o.seats) THEN
    DELETE FROM tickets WHERE event_no = o.event_no AND order_id = o.order_id AND status = 'reserved';
    RETURN NULL;
  END IF;
  UPDATE seats SET order_id = o.order_id, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
  WHERE event_no = o.event_no AND seat_no = ANY (o.seats);
  UPDATE holds SET state = 'ordered' WHERE event_no = o.event_no AND hold_id = o.hold_id AND state = 'ended';
  RETURN order_decide_seats(o, 'reserved');
END $$;

--
-- Name: order_seats_are(public.orders, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_seats_are(o public.orders, p_state text) RETURNS boolean
    LANGUAGE sql
    AS $$
  SELECT count(*) FILTER (WHERE s.state = p_state AND s.order_id = o.order_id) = cardinality(o.seats)
  FROM (SELECT state, order_id FROM seats
        WHERE event_no = o.event_no AND seat_no = ANY (o.seats) ORDER BY seat_no FOR UPDATE) s
$$;

--
-- Name: partition_abort(integer, smallint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_abort(p_event integer, p_partition smallint, p_term bigint, OUT refused text, OUT new_epoch bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: partition_begin(integer, smallint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_begin(p_event integer, p_partition smallint, p_term bigint, p_least bigint, OUT refused text, OUT rebuild bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
  SELECT l.refused INTO refused FROM partition_lock(p_event, p_partition, p_term, 'postgres') l;
  IF refused IS NOT NULL THEN RETURN; END IF;
  UPDATE event_partitions e SET rebuild_epoch = next_epoch(p_least) WHERE e.event_no = p_event AND e.partition = p_partition
  RETURNING e.rebuild_epoch INTO rebuild;
END $$;

--
-- Name: partition_degrade(integer, smallint, bigint, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_degrade(p_event integer, p_partition smallint, p_epoch bigint, p_reason text, p_grace_ms integer) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: partition_flip(integer, smallint, bigint, bigint, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_flip(p_event integer, p_partition smallint, p_term bigint, p_rebuild bigint, p_run_ids text[], OUT refused text) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: partition_holds(integer, smallint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_holds(p_event integer, p_partition smallint, p_mark bigint DEFAULT NULL::bigint) RETURNS SETOF public.holds
    LANGUAGE sql STABLE
    SET enable_nestloop TO 'off'
    AS $$
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

--
-- Name: epochs; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.epochs
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

--
-- Name: event_partitions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_partitions (
    event_no integer NOT NULL,
    partition smallint DEFAULT 0 NOT NULL,
    mode text DEFAULT 'postgres'::text NOT NULL,
    epoch bigint DEFAULT nextval('public.epochs'::regclass) NOT NULL,
    run_ids text[] DEFAULT '{}'::text[] NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    sections text[],
    store text,
    grace_until timestamp with time zone,
    rebuild_epoch bigint,
    restored_at timestamp with time zone,
    reason text,
    CONSTRAINT event_partitions_mode_check CHECK ((mode = ANY (ARRAY['postgres'::text, 'moving'::text, 'redis'::text])))
);

--
-- Name: partition_is_settled(public.event_partitions); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_is_settled(p public.event_partitions) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
  RETURN p.mode <> 'moving' AND (p.grace_until IS NULL OR p.grace_until <= clock_timestamp());
END $$;

--
-- Name: partition_lock(integer, smallint, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_lock(p_event integer, p_partition smallint, p_term bigint, p_mode text, OUT refused text, OUT p public.event_partitions) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM event_lock_alone(p_event);
  IF NOT lease_holds(p_event, p_term) THEN refused := 'other_term'; RETURN; END IF;
  SELECT * INTO p FROM event_partitions e WHERE e.event_no = p_event AND e.partition = p_partition FOR UPDATE;
  IF p.mode IS DISTINCT FROM p_mode THEN refused := 'other_mode'; RETURN; END IF;
  IF p.grace_until > clock_timestamp() THEN refused := 'in_grace'; END IF;
END $$;

--
-- Name: partition_move(integer, smallint, bigint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_move(p_event integer, p_partition smallint, p_term bigint, p_rebuild bigint, p_mark bigint) RETURNS TABLE(refused text, seats integer[], versions double precision[], states smallint[], holds jsonb, phase text, phase_version integer)
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: partition_note(integer, smallint, text, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_note(p_event integer, p_partition smallint, p_action text, p_epoch bigint, p_reason text) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES ('controller', p_action, p_event, jsonb_build_object('partition', p_partition, 'epoch', p_epoch, 'reason', p_reason))
$$;

--
-- Name: partition_report(integer, smallint, bigint, text, text, bigint, integer, integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_report(p_event integer, p_partition smallint, p_epoch bigint, p_reporter text, p_reason text, p_term bigint, p_witness_ms integer, p_settle_ms integer, p_grace_ms integer, OUT kind text, OUT new_epoch bigint, OUT after_ms integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: partition_seats(integer, smallint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_seats(p_event integer, p_partition smallint, p_mark bigint DEFAULT NULL::bigint) RETURNS TABLE(seats integer[], versions double precision[], states smallint[], mark text)
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce(array_agg(s.seat_no ORDER BY s.seat_no), '{}'),
         coalesce(array_agg(s.version::double precision ORDER BY s.seat_no), '{}'),
         coalesce(array_agg((CASE s.state WHEN 'available' THEN 0 WHEN 'reserved' THEN 2 WHEN 'sold' THEN 3 ELSE 4 END)::smallint
                            ORDER BY s.seat_no), '{}'),
         pg_snapshot_xmin(pg_current_snapshot())::text
    FROM seats s WHERE s.event_no = p_event AND s.partition = p_partition AND is_since(s.xmin, p_mark)
$$;

--
-- Name: phase_advance(integer, bigint, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.phase_advance(p_event integer, p_term bigint, p_expected text, p_next text) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_event events;
  v_due boolean;
BEGIN
  PERFORM event_lock_alone(p_event);
  IF NOT lease_holds(p_event, p_term) THEN RETURN 'other_term'; END IF;
  SELECT * INTO STRICT v_event FROM events e WHERE e.event_no = p_event FOR UPDATE;
  IF v_event.phase <> p_expected THEN RETURN 'changed'; END IF;
  v_due := CASE
    WHEN p_expected IN ('scheduled','pre_queue') AND p_next = 'open' THEN v_event.on_sale_at <= clock_timestamp()
    WHEN p_expected = 'open' AND p_next = 'sold_out' THEN v_event.seat_count > 0 AND NOT EXISTS (
      SELECT FROM seats s WHERE s.event_no = p_event AND s.state IN ('available','reserved'))
    WHEN p_expected = 'sold_out' AND p_next = 'open' THEN EXISTS (
      SELECT FROM seats s WHERE s.event_no = p_event AND s.state = 'available')
    WHEN p_expected IN ('open','paused','sold_out') AND p_next = 'closed' THEN v_event.sale_ends_at <= clock_timestamp()
    ELSE false
  END;
  IF v_due IS NOT TRUE THEN RETURN 'not_due'; END IF;
  UPDATE events SET phase = p_next, version = version + 1 WHERE event_no = p_event;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES ('leader', 'phase', p_event, jsonb_build_object('from', p_expected, 'to', p_next, 'term', p_term));
  RETURN 'advanced';
END $$;

--
-- Name: publish_objects(integer, bigint, text[], bigint[], bytea[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.publish_objects(p_event integer, p_term bigint, p_names text[], p_counts bigint[], p_bytes bytea[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM 1 FROM leases l WHERE l.event_no = p_event AND l.term = p_term AND l.until > clock_timestamp() FOR SHARE;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO published AS o (event_no, name, term, count, bytes)
    SELECT p_event, n.name, p_term, n.count, n.bytes FROM unnest(p_names, p_counts, p_bytes) AS n (name, count, bytes)
    ON CONFLICT (event_no, name) DO UPDATE
      SET term = excluded.term, count = excluded.count, bytes = excluded.bytes, published_at = clock_timestamp()
      WHERE (o.term, o.count) < (excluded.term, excluded.count);
  RETURN true;
END $$;

--
-- Name: queue_gap_numbers(integer, smallint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_gap_numbers(p_event integer, p_shard smallint, p_from bigint, p_to bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce(sum(greatest(0, least(g.last, p_to) - greatest(g.first, p_from + 1) + 1)), 0)::bigint
  FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard AND g.last > p_from AND g.first <= p_to
$$;

--
-- Name: queue_join(integer, smallint, text[], integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_join(p_event integer, p_shard smallint, p_visitors text[], p_memory_ms integer, p_ceiling_step integer) RETURNS TABLE(phase text, opens_at timestamp with time zone, number bigint, issued_at timestamp with time zone, repeated boolean)
    LANGUAGE plpgsql
    AS $$
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
    WHERE NOT EXISTS (
      SELECT FROM queue_recent r WHERE r.event_no = p_event AND r.visitor = a.visitor
        AND r.issued_at > v_now - p_memory_ms * interval '1 ms')
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
    JOIN queue_recent r ON r.event_no = p_event AND r.visitor = a.visitor
    ORDER BY a.place;
END $$;

--
-- Name: queue_note(integer, smallint, bigint, bigint, bigint, double precision, double precision, bigint[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_note(p_event integer, p_shard smallint, p_term bigint, p_epoch bigint, p_last bigint, p_redis_ms double precision, p_age_ms double precision, p_seconds bigint[], p_lasts bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: queue_raise(integer, smallint, bigint, bigint, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_raise(p_event integer, p_shard smallint, p_epoch bigint, p_last bigint, p_step integer) RETURNS bigint
    LANGUAGE sql
    AS $$
  UPDATE queue_counters q SET
    ceiling = greatest(q.ceiling, least(p_last, q.ceiling - 1) + p_step + 1),
    last_no = greatest(q.last_no, least(p_last, q.ceiling - 1))
  WHERE q.event_no = p_event AND q.shard = p_shard AND q.mode = 'redis' AND q.epoch = p_epoch
  RETURNING q.ceiling
$$;

--
-- Name: queue_redeem(integer, smallint, bigint, text, uuid, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_redeem(p_event integer, p_shard smallint, p_number bigint, p_visitor text, p_pass uuid, p_session_ms integer, OUT kind text, OUT phase text, OUT pass_id uuid, OUT number bigint, OUT issued_at timestamp with time zone, OUT expires_at timestamp with time zone, OUT repeated boolean, OUT frontier bigint, OUT after_ms integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

    -- Looked at first without the lock: whoever comes early or finds the bucket empty must not queue for the row.
    SELECT * INTO STRICT v_row FROM admissions a WHERE a.event_no = p_event;
    frontier := coalesce(v_row.frontier[p_shard + 1], 0);
    IF p_number > frontier THEN kind := 'not_yet'; RETURN; END IF;
    v_now := clock_timestamp();
    v_tokens := admission_tokens(v_row, v_now);
    IF v_tokens < 1 THEN
      kind := 'wait';
      -- With no rate there is nothing to wait for but the leader's next decision. The spread keeps those who wait apart.
      after_ms := CASE WHEN v_row.rate > 0 THEN least(5000, ceil(1000 * (1 - v_tokens) / v_row.rate)) ELSE 3000 END
        + floor(random() * 1000);
      RETURN;
    END IF;
    EXIT WHEN attempt = 2;
    -- All is read afresh behind the row's lock, since others may have passed meanwhile.
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

--
-- Name: queue_redeem_all(integer, smallint[], bigint[], text[], uuid[], integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_redeem_all(p_event integer, p_shards smallint[], p_numbers bigint[], p_visitors text[], p_passes uuid[], p_session_ms integer[]) RETURNS TABLE(kind text, phase text, pass_id uuid, number bigint, issued_at timestamp with time zone, expires_at timestamp with time zone, repeated boolean, frontier bigint, after_ms integer)
    LANGUAGE plpgsql
    AS $$
BEGIN
  FOR i IN 1..cardinality(p_numbers) LOOP
    RETURN QUERY SELECT * FROM queue_redeem(
      p_event, p_shards[i], p_numbers[i], p_visitors[i], p_passes[i], p_session_ms[i]);
  END LOOP;
END $$;

--
-- Name: queue_seen(integer, smallint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_seen(p_event integer, p_shard smallint, p_epoch bigint, p_seen bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  DELETE FROM queue_gaps g WHERE g.event_no = p_event AND g.shard = p_shard AND g.epoch = p_epoch AND g.last <= p_seen
    AND g.first > (SELECT coalesce(a.frontier[p_shard + 1], 0) FROM admissions a WHERE a.event_no = p_event);
  UPDATE queue_gaps g SET first = p_seen + 1
    WHERE g.event_no = p_event AND g.shard = p_shard AND g.epoch = p_epoch AND g.first <= p_seen AND g.last > p_seen
    AND g.first > (SELECT coalesce(a.frontier[p_shard + 1], 0) FROM admissions a WHERE a.event_no = p_event);
END $$;

--
-- Name: queue_shards_make(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_shards_make() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO queue_counters (event_no, shard)
    SELECT NEW.event_no, n FROM events e,
      generate_series(1, least(16, coalesce((e.settings->>'queueShards')::integer, 1)) - 1) n
    WHERE e.event_no = NEW.event_no
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

--
-- Name: queue_to_postgres(integer, smallint, bigint, bigint, text, text, bigint, integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_to_postgres(p_event integer, p_shard smallint, p_epoch bigint, p_term bigint, p_reporter text, p_reason text, p_seen bigint, p_step integer, p_witness_ms integer) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: queue_to_redis(integer, smallint, bigint, bigint, text, text[], integer, integer, double precision, integer, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_to_redis(p_event integer, p_shard smallint, p_term bigint, p_epoch bigint, p_store text, p_run_ids text[], p_step integer, p_settle_ms integer, p_redis_ms double precision, p_skew_ms integer, p_above bigint, OUT kind text, OUT epoch bigint, OUT last_no bigint, OUT ceiling bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: queue_withdraw(integer, smallint, bigint, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.queue_withdraw(p_event integer, p_shard smallint, p_term bigint, p_epoch bigint, p_reason text) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: seat_is_free(text, timestamp with time zone, bigint, bigint, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.seat_is_free(p_state text, p_until timestamp with time zone, p_hold_epoch bigint, p_epoch bigint, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT p_state = 'available' AND (p_until IS NULL OR p_until <= p_now OR p_hold_epoch IS DISTINCT FROM p_epoch)
$$;

--
-- Name: seats_block(integer, text, text, integer[], smallint, bigint, timestamp with time zone, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.seats_block(p_event integer, p_actor text, p_reason text, p_seats integer[], p_partition smallint DEFAULT NULL::smallint, p_epoch bigint DEFAULT NULL::bigint, p_until timestamp with time zone DEFAULT NULL::timestamp with time zone, p_version integer DEFAULT NULL::integer) RETURNS TABLE(seat_no integer, version bigint, state text, blocked boolean)
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_settled boolean;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT bool_and(partition_is_settled(p) AND p.mode = CASE WHEN p_epoch IS NULL THEN 'postgres' ELSE 'redis' END
                  AND (p_epoch IS NULL OR p.epoch = p_epoch))
    INTO v_settled FROM event_partitions p WHERE p.event_no = p_event AND p.partition = coalesce(p_partition, p.partition);
  IF v_settled AND p_epoch IS NOT NULL AND p_until IS NULL THEN
    v_settled := EXISTS (SELECT FROM events e WHERE e.event_no = p_event AND e.version = p_version AND e.phase <> 'open');
  END IF;
  PERFORM 1 FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY (p_seats) ORDER BY s.seat_no FOR UPDATE;
  -- With the margin of reserve: this statement's own time limit and a second.
  IF v_settled IS NOT TRUE OR p_until - interval '6 seconds' <= clock_timestamp() THEN
    RETURN QUERY SELECT NULL::integer, 0::bigint, 'other_mode', false;
    RETURN;
  END IF;
  RETURN QUERY
  WITH judged AS (
    SELECT s.seat_no, s.state AS was, seat_is_free(s.state, s.hold_until, s.hold_epoch, p.epoch, clock_timestamp()) AS free
    FROM seats s JOIN event_partitions p ON p.event_no = p_event AND p.partition = s.partition
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_seats) AND s.partition = coalesce(p_partition, s.partition)
  ), changed AS (
    UPDATE seats s SET state = 'blocked', version = s.version + 1, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
    FROM judged j WHERE s.event_no = p_event AND s.seat_no = j.seat_no AND j.free
    RETURNING s.seat_no, s.version
  ), noted AS (
    INSERT INTO blocks (event_no, seat_no, reason, actor) SELECT p_event, c.seat_no, p_reason, p_actor FROM changed c
  )
  SELECT j.seat_no, coalesce(c.version, 0::bigint),
    CASE WHEN j.free THEN 'blocked' WHEN j.was = 'available' THEN 'held' ELSE j.was END, j.free
  FROM judged j LEFT JOIN changed c ON c.seat_no = j.seat_no ORDER BY j.seat_no;
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'block', p_event, jsonb_build_object('asked', cardinality(p_seats), 'reason', p_reason));
END $$;

--
-- Name: seats_unblock(integer, text, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.seats_unblock(p_event integer, p_actor text, p_seats integer[]) RETURNS TABLE(seat_no integer, version bigint)
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_seats integer[];
BEGIN
  PERFORM event_lock_shared(p_event);
  v_seats := ARRAY(SELECT u FROM unnest(p_seats) u WHERE NOT EXISTS (
    SELECT FROM event_seats e WHERE e.event_no = p_event AND e.seat_no = u AND e.removed));
  PERFORM 1 FROM seats s WHERE s.event_no = p_event AND s.seat_no = ANY (v_seats) ORDER BY s.seat_no FOR UPDATE;
  DELETE FROM blocks b WHERE b.event_no = p_event AND b.seat_no = ANY (v_seats);
  INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'unblock', p_event, jsonb_build_object('asked', cardinality(p_seats)));
  RETURN QUERY UPDATE seats s SET state = 'available', version = s.version + 1
    WHERE s.event_no = p_event AND s.seat_no = ANY (v_seats) AND s.state = 'blocked'
      AND s.order_id IS NULL
    RETURNING s.seat_no, s.version;
END $$;

--
-- Name: audit_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.audit_log (
    entry bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    event_no integer,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL
);

--
-- Name: audit_log_entry_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.audit_log ALTER COLUMN entry ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.audit_log_entry_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: blocks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.blocks (
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    reason text NOT NULL,
    actor text NOT NULL,
    blocked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: event_seats; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_seats (
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    seat_guid text NOT NULL,
    section_id text NOT NULL,
    row_label text NOT NULL,
    seat_label text NOT NULL,
    category text NOT NULL,
    removed boolean DEFAULT false NOT NULL
);

--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    event_no integer NOT NULL,
    event_id text NOT NULL,
    name text NOT NULL,
    plan_id text NOT NULL,
    currency character(3) NOT NULL,
    performance_at timestamp with time zone,
    on_sale_at timestamp with time zone,
    sale_ends_at timestamp with time zone,
    prices jsonb NOT NULL,
    settings jsonb NOT NULL,
    phase text DEFAULT 'draft'::text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    message text,
    rate_ceiling double precision,
    layout_hash text,
    seat_count integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    published_at timestamp with time zone,
    CONSTRAINT events_event_id_check CHECK ((event_id ~ '^[a-z0-9][a-z0-9-]{0,39}$'::text)),
    CONSTRAINT events_phase_check CHECK ((phase = ANY (ARRAY['draft'::text, 'scheduled'::text, 'pre_queue'::text, 'open'::text, 'paused'::text, 'sold_out'::text, 'closed'::text, 'cancelled'::text])))
);

--
-- Name: events_event_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.events ALTER COLUMN event_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_event_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: frontier_moves; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.frontier_moves (
    event_no integer NOT NULL,
    shard smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    term bigint NOT NULL,
    frontier bigint NOT NULL
);

--
-- Name: grant_numbers; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.grant_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

--
-- Name: installation; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.installation (
    id text NOT NULL,
    only_row boolean DEFAULT true NOT NULL,
    CONSTRAINT installation_only_row_check CHECK (only_row)
);

--
-- Name: layouts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.layouts (
    hash text NOT NULL,
    bytes bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: leases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.leases (
    event_no integer NOT NULL,
    owner text NOT NULL,
    term bigint NOT NULL,
    until timestamp with time zone NOT NULL
);

--
-- Name: limit_counts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.limit_counts (
    event_no integer NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    seats integer NOT NULL,
    CONSTRAINT limit_counts_kind_check CHECK ((kind = ANY (ARRAY['account'::text, 'instrument'::text]))),
    CONSTRAINT limit_counts_seats_check CHECK ((seats >= 0))
);

--
-- Name: order_history; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.order_history (
    order_id uuid NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    change text NOT NULL,
    from_state text,
    to_state text,
    detail jsonb
);

--
-- Name: organiser_sessions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.organiser_sessions (
    token_hash text NOT NULL,
    email text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

--
-- Name: partition_witnesses; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.partition_witnesses (
    event_no integer NOT NULL,
    partition smallint NOT NULL,
    reporter text NOT NULL,
    epoch bigint NOT NULL,
    reason text NOT NULL,
    at timestamp with time zone NOT NULL
);

--
-- Name: passes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.passes (
    event_no integer NOT NULL,
    visitor text NOT NULL,
    pass_id uuid NOT NULL,
    shard smallint NOT NULL,
    number bigint NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

--
-- Name: path_signals; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.path_signals (
    owner text NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    requests integer NOT NULL,
    latency_p95_ms double precision NOT NULL,
    error_share double precision NOT NULL
);

--
-- Name: plans; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.plans (
    plan_id text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    hash text NOT NULL,
    plan bytea NOT NULL,
    report jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: provider_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.provider_events (
    provider_event_id text NOT NULL,
    type text NOT NULL,
    object text,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    processed_at timestamp with time zone
);

--
-- Name: published; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.published (
    event_no integer NOT NULL,
    name text NOT NULL,
    term bigint NOT NULL,
    count bigint NOT NULL,
    bytes bytea NOT NULL,
    published_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: queue_arrivals; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queue_arrivals (
    event_no integer NOT NULL,
    shard smallint NOT NULL,
    second bigint NOT NULL,
    last bigint NOT NULL
)
WITH (fillfactor='50');

--
-- Name: queue_counters; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queue_counters (
    event_no integer NOT NULL,
    shard smallint DEFAULT 0 NOT NULL,
    last_no bigint DEFAULT 0 NOT NULL,
    ceiling bigint DEFAULT 10000 NOT NULL,
    mode text DEFAULT 'postgres'::text NOT NULL,
    epoch bigint DEFAULT nextval('public.epochs'::regclass) NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    store text,
    run_ids text[] DEFAULT '{}'::text[] NOT NULL,
    lost_at timestamp with time zone,
    reason text,
    reported_by text,
    reported_at timestamp with time zone,
    read_ms double precision,
    skew_ms double precision,
    skew_max_ms double precision,
    CONSTRAINT queue_counters_mode_check CHECK ((mode = ANY (ARRAY['postgres'::text, 'redis'::text])))
)
WITH (fillfactor='20');

--
-- Name: queue_gaps; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queue_gaps (
    event_no integer NOT NULL,
    shard smallint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    epoch bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT queue_gaps_check CHECK ((last >= first))
);

--
-- Name: queue_recent; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.queue_recent (
    event_no integer NOT NULL,
    visitor text NOT NULL,
    shard smallint NOT NULL,
    number bigint NOT NULL,
    issued_at timestamp with time zone NOT NULL
);

--
-- Name: schema_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    file text NOT NULL,
    hash text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: seats; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.seats (
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    partition smallint DEFAULT 0 NOT NULL,
    state text DEFAULT 'available'::text NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    order_id uuid,
    hold_id uuid,
    hold_until timestamp with time zone,
    hold_epoch bigint,
    CONSTRAINT seats_state_check CHECK ((state = ANY (ARRAY['available'::text, 'reserved'::text, 'sold'::text, 'blocked'::text])))
)
PARTITION BY LIST (event_no);

--
-- Name: tickets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tickets (
    ticket_id uuid DEFAULT gen_random_uuid() NOT NULL,
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    order_id uuid NOT NULL,
    status text NOT NULL,
    price bigint NOT NULL,
    fee bigint DEFAULT 0 NOT NULL,
    kind text DEFAULT 'full'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tickets_status_check CHECK ((status = ANY (ARRAY['reserved'::text, 'sold'::text, 'cancelled'::text])))
)
PARTITION BY LIST (event_no);

--
-- Name: admissions admissions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.admissions
    ADD CONSTRAINT admissions_pkey PRIMARY KEY (event_no);

--
-- Name: audit_log audit_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (entry);

--
-- Name: blocks blocks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.blocks
    ADD CONSTRAINT blocks_pkey PRIMARY KEY (event_no, seat_no);

--
-- Name: event_partitions event_partitions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_partitions
    ADD CONSTRAINT event_partitions_pkey PRIMARY KEY (event_no, partition);

--
-- Name: event_seats event_seats_event_no_seat_guid_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_seats
    ADD CONSTRAINT event_seats_event_no_seat_guid_key UNIQUE (event_no, seat_guid);

--
-- Name: event_seats event_seats_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_seats
    ADD CONSTRAINT event_seats_pkey PRIMARY KEY (event_no, seat_no);

--
-- Name: events events_event_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_event_id_key UNIQUE (event_id);

--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (event_no);

--
-- Name: frontier_moves frontier_moves_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.frontier_moves
    ADD CONSTRAINT frontier_moves_pkey PRIMARY KEY (event_no, shard, frontier);

--
-- Name: holds holds_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (hold_id, event_no);

--
-- Name: installation installation_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (only_row);

--
-- Name: layouts layouts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.layouts
    ADD CONSTRAINT layouts_pkey PRIMARY KEY (hash);

--
-- Name: leases leases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (event_no);

--
-- Name: limit_counts limit_counts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_counts
    ADD CONSTRAINT limit_counts_pkey PRIMARY KEY (event_no, kind, subject);

--
-- Name: money_operations money_operations_end_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_end_key_key UNIQUE (end_key);

--
-- Name: money_operations money_operations_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_key_key UNIQUE (key);

--
-- Name: money_operations money_operations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_pkey PRIMARY KEY (operation_id);

--
-- Name: orders orders_hold_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_hold_id_key UNIQUE (hold_id);

--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (order_id);

--
-- Name: orders orders_provider_object_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_provider_object_key UNIQUE (provider_object);

--
-- Name: organiser_sessions organiser_sessions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.organiser_sessions
    ADD CONSTRAINT organiser_sessions_pkey PRIMARY KEY (token_hash);

--
-- Name: partition_witnesses partition_witnesses_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.partition_witnesses
    ADD CONSTRAINT partition_witnesses_pkey PRIMARY KEY (event_no, partition, reporter);

--
-- Name: passes passes_event_no_shard_number_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.passes
    ADD CONSTRAINT passes_event_no_shard_number_key UNIQUE (event_no, shard, number);

--
-- Name: passes passes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.passes
    ADD CONSTRAINT passes_pkey PRIMARY KEY (event_no, visitor);

--
-- Name: path_signals path_signals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.path_signals
    ADD CONSTRAINT path_signals_pkey PRIMARY KEY (owner);

--
-- Name: plans plans_hash_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_hash_key UNIQUE (hash);

--
-- Name: plans plans_name_version_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_name_version_key UNIQUE (name, version);

--
-- Name: plans plans_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_pkey PRIMARY KEY (plan_id);

--
-- Name: provider_events provider_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_events
    ADD CONSTRAINT provider_events_pkey PRIMARY KEY (provider_event_id);

--
-- Name: published published_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.published
    ADD CONSTRAINT published_pkey PRIMARY KEY (event_no, name);

--
-- Name: queue_arrivals queue_arrivals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_arrivals
    ADD CONSTRAINT queue_arrivals_pkey PRIMARY KEY (event_no, shard, second);

--
-- Name: queue_counters queue_counters_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_counters
    ADD CONSTRAINT queue_counters_pkey PRIMARY KEY (event_no, shard);

--
-- Name: queue_gaps queue_gaps_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_gaps
    ADD CONSTRAINT queue_gaps_pkey PRIMARY KEY (event_no, shard, epoch);

--
-- Name: queue_recent queue_recent_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_recent
    ADD CONSTRAINT queue_recent_pkey PRIMARY KEY (event_no, visitor);

--
-- Name: schema_migrations schema_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

--
-- Name: seats seats_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.seats
    ADD CONSTRAINT seats_pkey PRIMARY KEY (event_no, seat_no);

--
-- Name: tickets tickets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tickets
    ADD CONSTRAINT tickets_pkey PRIMARY KEY (event_no, ticket_id);

--
-- Name: frontier_moves_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX frontier_moves_at ON public.frontier_moves USING btree (event_no, shard, at);

--
-- Name: holds_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_due ON ONLY public.holds USING btree (public.hold_due(state, deadline));

--
-- Name: holds_holder; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_holder ON ONLY public.holds USING btree (holder);

--
-- Name: holds_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_visitor ON ONLY public.holds USING btree (visitor);

--
-- Name: money_attention; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_attention ON public.money_operations USING btree (updated_at) WHERE ((attention IS NOT NULL) OR (state = 'unknown'::text));

--
-- Name: money_client_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_client_key ON public.money_operations USING btree (order_id, client_key) WHERE (client_key IS NOT NULL);

--
-- Name: money_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_due ON public.money_operations USING btree (due_at) WHERE (due_at IS NOT NULL);

--
-- Name: money_one_authorisation; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_authorisation ON public.money_operations USING btree (order_id) WHERE ((kind = 'authorise'::text) AND (state <> ALL (ARRAY['refused'::text, 'voided'::text])));

--
-- Name: money_one_under_way; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_under_way ON public.money_operations USING btree (order_id) WHERE (state = ANY (ARRAY['open'::text, 'waiting'::text, 'unknown'::text, 'ending'::text]));

--
-- Name: money_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_order ON public.money_operations USING btree (order_id, created_at);

--
-- Name: order_history_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX order_history_order ON public.order_history USING btree (order_id, at);

--
-- Name: orders_deadline; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_deadline ON public.orders USING btree (payment_deadline) WHERE (state = ANY (ARRAY['reserved'::text, 'authorised'::text, 'confirmed'::text, 'voiding'::text]));

--
-- Name: orders_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_event ON public.orders USING btree (event_no, created_at);

--
-- Name: orders_open_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_open_account ON public.orders USING btree (event_no, account) WHERE (state = ANY (ARRAY['reserved'::text, 'authorised'::text]));

--
-- Name: orders_open_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX orders_open_visitor ON public.orders USING btree (event_no, visitor) WHERE (state = ANY (ARRAY['reserved'::text, 'authorised'::text]));

--
-- Name: passes_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX passes_expiry ON public.passes USING btree (event_no, expires_at);

--
-- Name: provider_events_open; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_open ON public.provider_events USING btree (received_at) WHERE (processed_at IS NULL);

--
-- Name: queue_recent_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX queue_recent_age ON public.queue_recent USING btree (event_no, issued_at);

--
-- Name: tickets_one_owner; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX tickets_one_owner ON ONLY public.tickets USING btree (event_no, seat_no) WHERE (status = ANY (ARRAY['reserved'::text, 'sold'::text]));

--
-- Name: tickets_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tickets_order ON ONLY public.tickets USING btree (order_id);

--
-- Name: queue_counters queue_shards_make; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER queue_shards_make AFTER INSERT ON public.queue_counters FOR EACH ROW WHEN ((new.shard = 0)) EXECUTE FUNCTION public.queue_shards_make();

--
-- Name: admissions admissions_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.admissions
    ADD CONSTRAINT admissions_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: blocks blocks_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.blocks
    ADD CONSTRAINT blocks_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: event_partitions event_partitions_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_partitions
    ADD CONSTRAINT event_partitions_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: events events_plan_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES public.plans(plan_id);

--
-- Name: frontier_moves frontier_moves_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.frontier_moves
    ADD CONSTRAINT frontier_moves_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: leases leases_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: money_operations money_operations_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: orders orders_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: partition_witnesses partition_witnesses_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.partition_witnesses
    ADD CONSTRAINT partition_witnesses_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: published published_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.published
    ADD CONSTRAINT published_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: queue_counters queue_counters_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_counters
    ADD CONSTRAINT queue_counters_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: queue_gaps queue_gaps_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_gaps
    ADD CONSTRAINT queue_gaps_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- PostgreSQL database dump complete
--
