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

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: access_codes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.access_codes (
    code_id uuid DEFAULT gen_random_uuid() NOT NULL,
    event_no integer NOT NULL,
    code text NOT NULL,
    batch uuid NOT NULL,
    label text NOT NULL,
    categories text[] NOT NULL,
    kinds text[] NOT NULL,
    presale boolean NOT NULL,
    uses_max integer,
    seats_max integer,
    used integer DEFAULT 0 NOT NULL,
    until timestamp with time zone,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT access_codes_check CHECK (((used >= 0) AND ((uses_max IS NULL) OR (used <= uses_max)))),
    CONSTRAINT access_codes_check1 CHECK ((presale OR (categories <> '{}'::text[]) OR (kinds <> '{}'::text[]))),
    CONSTRAINT access_codes_seats_max_check CHECK ((seats_max > 0)),
    CONSTRAINT access_codes_uses_max_check CHECK ((uses_max > 0))
);

--
-- Name: access_code_json(public.access_codes); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.access_code_json(c public.access_codes) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('id', c.code_id, 'code', c.code, 'batch', c.batch, 'label', c.label, 'categories', c.categories,
    'kinds', c.kinds, 'presale', c.presale, 'usesMax', c.uses_max, 'seatsMax', c.seats_max,
    'used', CASE WHEN c.uses_max IS NOT NULL THEN c.used
                 ELSE (SELECT count(*) FROM orders o WHERE o.access_code = c.code_id AND order_uses_code(o)) END,
    'until', epoch_ms(c.until), 'revokedAt', epoch_ms(c.revoked_at), 'createdAt', epoch_ms(c.created_at))
$$;

--
-- Name: access_codes_create(integer, text, uuid, text, text[], integer[], text[], text[], boolean, integer, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.access_codes_create(p_event integer, p_actor text, p_batch uuid, p_label text, p_codes text[], p_uses integer[], p_categories text[], p_kinds text[], p_presale boolean, p_seats_max integer, p_until timestamp with time zone) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO access_codes (event_no, code, batch, label, categories, kinds, presale, uses_max, seats_max, until)
  SELECT p_event, c.code, p_batch, p_label, p_categories, p_kinds, p_presale, c.uses, p_seats_max, p_until
  FROM unnest(p_codes, p_uses) c (code, uses) ORDER BY c.code;
  -- The log names the batch, not the codes: whoever reads it should not be able to buy with them.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'codes_create', p_event, jsonb_build_object(
    'batch', p_batch, 'label', p_label, 'codes', cardinality(p_codes), 'categories', p_categories, 'kinds', p_kinds,
    'presale', p_presale, 'seatsMax', p_seats_max, 'until', p_until));
  RETURN '{"kind":"created"}';
EXCEPTION WHEN unique_violation THEN
  RETURN jsonb_build_object('kind', 'exists', 'codes', (SELECT jsonb_agg(code ORDER BY code) FROM access_codes
    WHERE event_no = p_event AND code = ANY (p_codes)));
END $$;

--
-- Name: access_codes_revoke(integer, text, uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.access_codes_revoke(p_event integer, p_actor text, p_batch uuid, p_code text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_count integer;
BEGIN
  -- By code, so that two who revoke at once never wait for each other crosswise.
  PERFORM 1 FROM access_codes WHERE event_no = p_event AND batch = coalesce(p_batch, batch) AND code = coalesce(p_code, code)
  ORDER BY code FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE access_codes SET revoked_at = clock_timestamp()
  WHERE event_no = p_event AND batch = coalesce(p_batch, batch) AND code = coalesce(p_code, code) AND revoked_at IS NULL;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count > 0 THEN
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'codes_revoke', p_event,
      jsonb_build_object('batch', p_batch, 'codes', v_count));
  END IF;
  RETURN v_count;
END $$;

--
-- Name: address_lock_key(integer, smallint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.address_lock_key(p_event integer, p_partition smallint, p_address text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT hashtextextended(format('a/%s/%s/%s', p_event, p_partition, p_address), 0) $$;

--
-- Name: address_paid(integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.address_paid(p_event integer, p_address text) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE cooldowns SET unpaid = unpaid / 2, until = CASE WHEN unpaid > 1 THEN until END, changed_at = clock_timestamp()
  WHERE event_no = p_event AND kind = 'address' AND subject = p_address
$$;

--
-- Name: address_unpaid(integer, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.address_unpaid(p_event integer, p_address text, p_rule jsonb) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, last_at, until, changed_at)
  SELECT p_event, 'address', p_address, 1, at, at + (p_rule ->> 'forgetMs')::float8 * interval '1 millisecond', at
  FROM clock_timestamp() at
  ON CONFLICT (event_no, kind, subject) DO UPDATE
    SET unpaid = CASE WHEN c.until > excluded.last_at THEN c.unpaid + 1 ELSE 1 END,
        last_at = excluded.last_at, until = excluded.until, changed_at = excluded.changed_at
$$;

--
-- Name: address_used(integer, smallint, bigint, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.address_used(p_event integer, p_partition smallint, p_epoch bigint, p_address text, p_replaces uuid) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_now timestamptz := arbiter_now(); v_used integer;
BEGIN
  SELECT coalesce(sum(cardinality(h.seats)), 0) INTO v_used FROM holds h
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.address = p_address AND h.state IN ('live','ordered')
     AND (h.state = 'ordered' OR (h.deadline > v_now AND h.epoch = p_epoch)) AND h.hold_id IS DISTINCT FROM p_replaces;
  RETURN v_used;
END $$;

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
-- Name: limit_allowances; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.limit_allowances (
    allowance_id uuid DEFAULT gen_random_uuid() NOT NULL,
    event_no integer NOT NULL,
    account text,
    visitor text,
    order_id uuid,
    reason text NOT NULL,
    actor text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    until timestamp with time zone,
    ended_at timestamp with time zone,
    ended_by text,
    CONSTRAINT limit_allowances_check CHECK (((account IS NOT NULL) OR (visitor IS NOT NULL)))
);

--
-- Name: allowance_json(public.limit_allowances); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.allowance_json(a public.limit_allowances) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('allowance', a.allowance_id, 'account', a.account, 'visitor', a.visitor, 'order', a.order_id,
    'reason', a.reason, 'actor', a.actor, 'createdAt', epoch_ms(a.created_at), 'until', epoch_ms(a.until),
    'endedAt', epoch_ms(a.ended_at), 'endedBy', a.ended_by,
    'inForce', a.ended_at IS NULL AND (a.until IS NULL OR a.until > clock_timestamp()))
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
-- Name: arbiter_hold(integer, smallint, bigint, uuid, text, text, text, integer[], integer, boolean, integer[], integer, integer, uuid, timestamp with time zone, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_hold(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text, p_holder text, p_request text, p_seats integer[], p_size integer, p_named boolean, p_units integer[], p_ttl_ms integer, p_seats_max integer, p_replaces uuid, p_not_after timestamp with time zone, p_address text DEFAULT NULL::text, p_address_max integer DEFAULT NULL::integer) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
    AS $$
DECLARE
  answer arbiter_answer; phase text; v_taken integer[]; v_used integer; v_seats integer[]; v_rows integer;
  v_now timestamptz; own holds; made holds;
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

  INSERT INTO holds AS h (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch, grant_no,
                          state, address)
  VALUES (p_event, p_hold, p_partition, p_visitor, p_holder, p_request,
          v_seats,
          -- A replacement goes on with the old lease, so that a chain of them does not outlive the bound (S6).
          coalesce(own.granted_at, v_now), coalesce(own.deadline, v_now + p_ttl_ms * interval '1 millisecond'),
          p_epoch, nextval('grant_numbers'), 'live', p_address)
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
-- Name: arbiter_hold_many(integer, smallint, bigint, uuid[], text[], text[], text[], text[], integer[], boolean[], integer[], integer[], timestamp with time zone[], text[], integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_hold_many(p_event integer, p_partition smallint, p_epoch bigint, p_holds uuid[], p_visitors text[], p_holders text[], p_requests text[], p_seats text[], p_sizes integer[], p_named boolean[], p_ttls_ms integer[], p_seats_max integer[], p_not_after timestamp with time zone[], p_addresses text[] DEFAULT NULL::text[], p_addresses_max integer[] DEFAULT NULL::integer[]) RETURNS TABLE(claim integer, kind text, hold_id uuid, visitor text, holder text, seats integer[], granted_at timestamp with time zone, deadline timestamp with time zone, epoch bigint, grant_no bigint, order_id uuid, repeated boolean, used integer, phase text, after_ms integer)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  gate arbiter_answer; v_now timestamptz := arbiter_now(); v_free integer[]; v_given integer[] := '{}'; v_group integer[];
  v_hopeful integer[]; v_holds uuid[]; v_visitors text[]; v_holders text[]; v_used integer[]; v_rows integer; c record;
  -- Address ranges of the batch, side by side: seats that counted before it, seats that it gives.
  v_addresses text[]; v_address_used integer[]; v_address_given integer[]; v_at integer;
  -- Of the claims that chose seats, side by side.
  v_claims integer[] := '{}'; v_chosen text[] := '{}'; v_losers integer[] := '{}'; v_granted integer[];
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
      SELECT u.i, u.visitor, u.holder, u.address FROM unnest(p_visitors, p_holders, p_seats, p_sizes, p_not_after, p_addresses)
          WITH ORDINALITY AS u(visitor, holder, seats, size, not_after, address, i)
       WHERE gate.phase = 'open' AND (u.not_after IS NULL OR u.not_after >= v_now)
         AND claim_finds(u.seats::integer[], u.size, v_free)
         AND u.i = array_position(p_visitors, u.visitor) AND u.i = array_position(p_holders, u.holder)
       OFFSET 0) h
     WHERE pg_try_advisory_xact_lock(hashtextextended(format('h/%s/%s/%s', p_event, p_partition, h.holder), 0))
       AND (h.visitor = h.holder
            OR pg_try_advisory_xact_lock(hashtextextended(format('v/%s/%s/%s', p_event, p_partition, h.visitor), 0)))
       -- Claims of one address range share its lock: a transaction may take it again.
       AND (h.address IS NULL OR pg_try_advisory_xact_lock(address_lock_key(p_event, p_partition, h.address)))
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
  SELECT array_agg(a.address), array_agg(address_used(p_event, p_partition, p_epoch, a.address, NULL)), array_agg(0)
    INTO v_addresses, v_address_used, v_address_given
    FROM (SELECT DISTINCT p_addresses[i] AS address FROM unnest(v_hopeful) i WHERE p_addresses[i] IS NOT NULL) a;

  -- What each gets, in order.
  FOR c IN
    SELECT u.i::integer AS i, u.seats::integer[] AS seats, u.size, u.named, u.seats_max, u.not_after,
           u.i = ANY(v_hopeful) AS hopeful, u.hold = ANY(v_holds) OR u.visitor = ANY(v_visitors) AS known,
           NOT claim_finds(u.seats::integer[], u.size, v_free) AS refused,
           coalesce(v_used[array_position(v_holders, u.holder)], 0) AS used, u.address, u.address_max
      FROM unnest(p_holds, p_visitors, p_holders, p_seats, p_sizes, p_named, p_seats_max, p_not_after,
                  p_addresses, p_addresses_max)
        WITH ORDINALITY AS u(hold, visitor, holder, seats, size, named, seats_max, not_after, address, address_max, i)
     ORDER BY u.i
  LOOP
    v_at := array_position(v_addresses, c.address);
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
    ELSIF v_address_used[v_at] + c.size > c.address_max THEN kind := 'address_quota'; used := v_address_used[v_at];
    ELSIF v_address_used[v_at] + v_address_given[v_at] + c.size > c.address_max THEN
      -- Whether the seats given to its neighbours in this batch stay theirs is known only at its end.
      kind := 'alone';
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
        IF v_at IS NOT NULL THEN v_address_given[v_at] := v_address_given[v_at] + c.size; END IF;
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
      INSERT INTO holds AS h (event_no, hold_id, partition, visitor, holder, request, seats, granted_at, deadline, epoch,
                              grant_no, state, address)
      SELECT p_event, p_holds[o.i], p_partition, p_visitors[o.i], p_holders[o.i], p_requests[o.i], o.seats, v_now,
             v_now + p_ttls_ms[o.i] * interval '1 millisecond', p_epoch, nextval('grant_numbers'), 'live',
             p_addresses[o.i]
        FROM (SELECT u.i, u.seats::integer[] AS seats FROM unnest(v_claims, v_chosen) AS u(i, seats)
               WHERE u.seats::integer[] <@ v_free AND (p_not_after[u.i] IS NULL OR p_not_after[u.i] >= v_now)
                 AND NOT hold_led_to_order(p_holds[u.i]) ORDER BY u.i) o
      ON CONFLICT DO NOTHING RETURNING h.*),
    kept AS (
      UPDATE seats s SET hold_id = m.hold_id, hold_until = m.deadline, hold_epoch = p_epoch
        FROM made m, unnest(m.seats) AS w
       WHERE s.event_no = p_event AND s.seat_no = ANY(v_free) AND s.seat_no = w
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
    address text,
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
   -- "ANY" says what u says already, so that the seats are looked up and not the house read.
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY(p_seats) AND s.seat_no = u.seat
     AND s.version < u.version;
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
  IF EXISTS (SELECT FROM orders o WHERE o.former_hold_id = r.hold_id) THEN RETURN arbiter_say('hold_gone'); END IF;
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
-- Name: arbiter_refusal(integer, smallint, bigint, uuid, text, integer[], integer, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_refusal(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text, p_seats integer[], p_size integer, p_named boolean) RETURNS integer[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
  v_free integer[];
BEGIN
  PERFORM FROM event_partitions p JOIN events e USING (event_no)
    WHERE p.event_no = p_event AND p.partition = p_partition AND p.mode = 'postgres' AND p.epoch = p_epoch
      AND e.phase = 'open' AND (p.grace_until IS NULL OR p.grace_until <= clock_timestamp());
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM holds h WHERE h.event_no = p_event AND h.hold_id = p_hold;
  IF FOUND THEN RETURN NULL; END IF;
  PERFORM FROM holds h WHERE h.event_no = p_event AND h.visitor = p_visitor AND h.partition = p_partition
    AND h.state = 'live';
  IF FOUND THEN RETURN NULL; END IF;
  v_free := ARRAY(SELECT s.seat_no FROM seats s
    WHERE s.event_no = p_event AND s.partition = p_partition AND s.seat_no = ANY (p_seats)
      AND seat_is_free(s.state, s.hold_until, s.hold_epoch, p_epoch, clock_timestamp())
    ORDER BY s.seat_no FOR SHARE SKIP LOCKED);
  IF claim_finds(p_seats, p_size, v_free) THEN RETURN NULL; END IF;
  RETURN CASE WHEN p_named THEN ARRAY(SELECT u FROM unnest(p_seats) u WHERE u <> ALL (v_free)) ELSE '{}'::integer[] END;
END $$;

--
-- Name: arbiter_release(integer, smallint, bigint, uuid, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.arbiter_release(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text, p_force uuid) RETURNS public.arbiter_answer
    LANGUAGE plpgsql
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
  UPDATE holds SET state = CASE WHEN order_id IS NOT NULL THEN 'ended' ELSE 'released' END,
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
-- Name: buyer_forget(text, text, uuid, boolean, text, text, text, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.buyer_forget(p_account text, p_email text, p_order uuid, p_nameless boolean, p_actor text, p_code_hash text, p_request text, p_dry boolean) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_account text := nullif(p_account, '');
  v_ids uuid[]; v_salt uuid := gen_random_uuid();
  v_refused jsonb; v_visitors jsonb; v_kept jsonb; v_report jsonb;
  v_allowances integer; v_words integer; v_mails record;
  v_traces bigint; v_cards bigint;
BEGIN
  IF p_order IS NOT NULL THEN
    SELECT nullif(account, '') INTO v_account FROM orders WHERE order_id = p_order;
    IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  END IF;
  v_ids := buyer_lock(v_account, p_email, p_order);
  SELECT jsonb_agg(jsonb_build_object('order', u.order_id, 'event', e.event_id, 'why', u.why) ORDER BY u.order_id) INTO v_refused
  FROM (SELECT o.order_id, o.event_no, order_unforgettable(o, p_nameless) AS why FROM orders o
        WHERE o.order_id = ANY (v_ids) AND o.forgotten_at IS NULL) u JOIN events e USING (event_no)
  WHERE u.why IS NOT NULL;
  IF v_refused IS NOT NULL THEN RETURN jsonb_build_object('kind', 'refused', 'orders', v_refused); END IF;
  -- Names that lead nowhere are not forgotten again; an order may still name the account of a platform.
  IF v_account LIKE 'forgotten:%' THEN v_account := NULL; END IF;
  v_ids := ARRAY(SELECT order_id FROM orders
                 WHERE order_id = ANY (v_ids) AND (forgotten_at IS NULL OR account = v_account) ORDER BY order_id);
  SELECT count(*) INTO v_traces FROM (
    SELECT FROM limit_counts WHERE kind = 'account' AND subject = v_account
    UNION ALL SELECT FROM limit_allowances WHERE account = v_account
    UNION ALL SELECT FROM hold_ends WHERE account = v_account
    UNION ALL SELECT FROM holds WHERE holder = v_account AND state NOT IN ('live','ordered')
    UNION ALL SELECT FROM cooldowns WHERE kind = 'account' AND subject = v_account AND (until IS NULL OR until < clock_timestamp())) t;
  IF v_ids = '{}' AND v_traces = 0 THEN RETURN '{"kind":"nothing"}'; END IF;
  IF p_code_hash IS NOT NULL THEN
    DELETE FROM confirmations
    WHERE code_hash = p_code_hash AND act = 'forget_buyer' AND request = p_request AND actor = p_actor AND expires_at > clock_timestamp();
    IF NOT FOUND THEN RETURN '{"kind":"not_confirmed"}'; END IF;
  END IF;
  BEGIN
    v_kept := forgotten_kept(v_ids);
    SELECT count(DISTINCT instrument ->> 'fingerprint') INTO v_cards FROM orders WHERE order_id = ANY (v_ids);
    v_visitors := forgettable_visitors(v_ids, v_salt);
    PERFORM forget_limits(v_ids, v_account, v_salt);
    v_allowances := forget_allowances(v_account, v_visitors, v_salt, p_actor);
    v_mails := forget_mails(v_ids);
    v_words := forget_words(v_ids);
    PERFORM forget_holds(v_ids, v_account, v_visitors, v_salt);
    PERFORM forget_orders(v_ids, v_account, v_visitors, v_salt);
    v_report := jsonb_build_object('kind', 'forgotten', 'orders', v_ids,
      'events', ARRAY(SELECT DISTINCT event_id FROM orders JOIN events USING (event_no) WHERE order_id = ANY (v_ids) ORDER BY 1),
      'erased', jsonb_build_object('buyers', cardinality(v_ids), 'browsers', (SELECT count(*) FROM jsonb_object_keys(v_visitors)),
        'cards', v_cards, 'letters', v_mails.letters, 'mailsOwed', v_mails.dropped, 'exceptions', v_allowances,
        'words', v_words, 'counts', v_traces),
      'kept', v_kept);
    INSERT INTO audit_log (actor, action, detail) VALUES (p_actor, 'forget_buyer', v_report - 'kind' - 'kept');
    IF p_dry THEN RAISE EXCEPTION USING ERRCODE = 'OSDRY', MESSAGE = 'undone', DETAIL = v_report::text; END IF;
  EXCEPTION WHEN SQLSTATE 'OSDRY' THEN
    GET STACKED DIAGNOSTICS v_report = PG_EXCEPTION_DETAIL;
  END;
  RETURN v_report;
END $$;

--
-- Name: buyer_lock(text, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.buyer_lock(p_account text, p_email text, p_order uuid) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_ids uuid[] := buyer_orders(p_account, p_email, p_order);
  v_cards text[] := ARRAY(SELECT DISTINCT instrument ->> 'fingerprint' FROM orders WHERE order_id = ANY (v_ids) ORDER BY 1);
BEGIN
  PERFORM 1 FROM limit_counts
  WHERE (kind = 'account' AND subject = p_account)
     OR (kind = 'instrument' AND subject = ANY (v_cards)
         AND event_no IN (SELECT event_no FROM orders WHERE order_id = ANY (v_ids)))
  ORDER BY event_no, kind, subject FOR UPDATE;
  PERFORM 1 FROM orders WHERE order_id = ANY (v_ids) ORDER BY order_id FOR UPDATE;
  PERFORM 1 FROM money_operations WHERE order_id = ANY (v_ids) ORDER BY operation_id FOR UPDATE;
  PERFORM 1 FROM holds h
  WHERE (h.event_no, h.hold_id) IN (SELECT event_no, hold_id FROM orders WHERE order_id = ANY (v_ids))
  ORDER BY h.event_no, h.hold_id FOR UPDATE;
  IF v_ids <> buyer_orders(p_account, p_email, p_order)
     OR v_cards <> ARRAY(SELECT DISTINCT instrument ->> 'fingerprint' FROM orders WHERE order_id = ANY (v_ids) ORDER BY 1) THEN
    RAISE serialization_failure USING MESSAGE = 'the buyer ordered meanwhile';
  END IF;
  RETURN v_ids;
END $$;

--
-- Name: buyer_orders(text, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.buyer_orders(p_account text, p_email text, p_order uuid) RETURNS uuid[]
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce(array_agg(order_id ORDER BY order_id), '{}') FROM orders
  WHERE account = p_account OR (p_email <> '' AND lower(buyer ->> 'email') = lower(p_email)) OR order_id = p_order
$$;

--
-- Name: cancellation_counts(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cancellation_counts(p_event integer) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'refunds', (SELECT coalesce(jsonb_object_agg(state, jsonb_build_object('refunds', n, 'amount', amount)), '{}')
                FROM (SELECT state, count(*) AS n, sum(amount) AS amount FROM refunds
                      WHERE event_no = p_event AND cancellation GROUP BY state) r),
    'earlier', (SELECT coalesce(jsonb_object_agg(state, jsonb_build_object('refunds', n, 'amount', amount)), '{}')
                FROM (SELECT state, count(*) AS n, sum(amount) AS amount FROM refunds
                      WHERE event_no = p_event AND NOT cancellation GROUP BY state) r),
    'closed', (SELECT count(*) FROM orders WHERE event_no = p_event AND state = 'closed' AND reason = 'event_cancelled'),
    'left', (SELECT count(*) FROM orders WHERE event_no = p_event AND state IN ('paid','confirmed')),
    'ending', (SELECT count(*) FROM orders WHERE event_no = p_event AND state IN ('reserved','authorised','voiding')))
$$;

--
-- Name: event_cancellations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_cancellations (
    event_no integer NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    fees text NOT NULL,
    seats text NOT NULL,
    per_second double precision NOT NULL,
    tokens double precision DEFAULT 1 NOT NULL,
    refilled_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    claimed_by text,
    claimed_until timestamp with time zone,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT event_cancellations_fees_check CHECK ((fees = ANY (ARRAY['returned'::text, 'kept'::text]))),
    CONSTRAINT event_cancellations_per_second_check CHECK ((per_second > (0)::double precision)),
    CONSTRAINT event_cancellations_seats_check CHECK ((seats = ANY (ARRAY['release'::text, 'block'::text]))),
    CONSTRAINT event_cancellations_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text])))
);

--
-- Name: cancellation_json(public.event_cancellations); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cancellation_json(c public.event_cancellations) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'eventNo', c.event_no, 'actor', c.actor, 'reason', c.reason, 'fees', c.fees, 'seats', c.seats, 'perSecond', c.per_second,
    'state', c.state, 'startedAt', epoch_ms(c.started_at), 'finishedAt', epoch_ms(c.finished_at),
    'currency', (SELECT currency FROM events WHERE event_no = c.event_no)) || cancellation_counts(c.event_no)
$$;

--
-- Name: cancellation_next(integer, text, integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cancellation_next(p_event integer, p_owner text, p_lease_ms integer, p_most integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  c event_cancellations;
  v_now timestamptz := clock_timestamp();
  v_most integer;
  v_orders uuid[]; v_retries uuid[] := '{}';
BEGIN
  SELECT * INTO c FROM event_cancellations
  WHERE event_no = p_event AND state = 'running' AND (claimed_by = p_owner OR claimed_until IS NULL OR claimed_until <= v_now)
  FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN '{"kind":"not_mine"}'; END IF;
  -- At most what one second allows is saved up, and at least one order.
  c.tokens := least(greatest(c.per_second, 1), c.tokens + c.per_second * extract(epoch FROM v_now - c.refilled_at));
  v_most := least(p_most, floor(c.tokens)::integer);
  v_orders := ARRAY(SELECT order_id FROM orders o WHERE event_no = p_event AND (state = 'paid' OR (state = 'reserved'
      AND NOT EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.state IN ('open','ending'))))
    ORDER BY created_at LIMIT v_most);
  v_retries := ARRAY(SELECT refund_id FROM refunds WHERE event_no = p_event AND state = 'failed' AND retry_asked IS NOT NULL
    ORDER BY retry_asked LIMIT v_most - cardinality(v_orders));
  IF v_most > 0 AND cardinality(v_orders) + cardinality(v_retries) = 0
     AND NOT EXISTS (SELECT 1 FROM orders WHERE event_no = p_event AND state NOT IN ('closed','cancelled'))
     AND NOT EXISTS (SELECT 1 FROM refunds WHERE event_no = p_event AND state IN ('open','unknown'))
     AND NOT EXISTS (SELECT 1 FROM money_operations m JOIN orders o USING (order_id)
                     WHERE o.event_no = p_event AND m.state IN ('open','waiting','unknown','ending') AND m.kind <> 'refund') THEN
    UPDATE event_cancellations SET state = 'done', finished_at = v_now, claimed_until = NULL WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (c.actor, 'cancel_event_done', p_event, cancellation_counts(p_event));
    RETURN '{"kind":"done"}';
  END IF;
  UPDATE event_cancellations
  SET tokens = c.tokens - cardinality(v_orders) - cardinality(v_retries), refilled_at = v_now, claimed_by = p_owner,
      claimed_until = v_now + p_lease_ms * interval '1 millisecond'
  WHERE event_no = p_event;
  RETURN jsonb_build_object('kind', 'next', 'orders', v_orders, 'retries', v_retries,
                            'currency', (SELECT currency FROM events WHERE event_no = p_event));
END $$;

--
-- Name: cancellation_order(uuid, uuid, uuid, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cancellation_order(p_order uuid, p_refund uuid, p_operation uuid, p_key text, p_end_key text, p_step integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; c event_cancellations; m money_operations;
  v_seats jsonb;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  SELECT * INTO c FROM event_cancellations WHERE event_no = o.event_no;
  IF c.event_no IS NULL THEN RETURN '{"kind":"left"}'; END IF;
  IF o.state = 'paid' THEN
    RETURN refund_make(p_refund, p_order, p_operation, p_key, NULL, NULL, c.actor, c.reason, NULL, c.fees, 0, c.seats, p_step,
                       true, NULL, 0);
  END IF;
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF o.state <> 'reserved' THEN RETURN '{"kind":"left"}'; END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending') AND kind <> 'refund' FOR UPDATE;
  IF m.operation_id IS NULL THEN
    v_seats := order_end(o, 'close', 'closed', 'event_cancelled', p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF m.state NOT IN ('waiting','unknown') OR m.claimed_until > clock_timestamp() THEN RETURN '{"kind":"left"}'; END IF;
  UPDATE money_operations
  SET state = 'ending', end_key = p_end_key, end_reason = 'event_cancelled', due_at = clock_timestamp(), claimed_until = NULL,
      attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
  WHERE operation_id = m.operation_id;
  PERFORM order_note(p_order, m.kind || '_ending', o.state, o.state,
                     jsonb_build_object('operation', m.operation_id, 'reason', 'event_cancelled'));
  RETURN '{"kind":"ending"}';
END $$;

--
-- Name: cancellation_preview(integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cancellation_preview(p_event integer, p_fees text) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'orders', count(*) FILTER (WHERE o.state IN ('confirmed','paid')),
    'tickets', coalesce(sum(t.n) FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'amount', coalesce(sum(least(order_left(o),
                t.prices + CASE WHEN p_fees = 'returned' THEN t.fees + o.order_fee - coalesce(f.given, 0) ELSE 0 END))
              FILTER (WHERE o.state IN ('confirmed','paid')), 0),
    'unpaidOrders', count(*) FILTER (WHERE o.state IN ('reserved','authorised','voiding')),
    'currency', (SELECT currency FROM events WHERE event_no = p_event))
  FROM orders o
    LEFT JOIN (SELECT order_id, count(*) AS n, sum(price) AS prices, sum(fee) AS fees FROM tickets
               WHERE event_no = p_event AND status = 'sold' GROUP BY order_id) t USING (order_id)
    LEFT JOIN (SELECT order_id, sum(order_fee) AS given FROM refunds
               WHERE event_no = p_event GROUP BY order_id) f USING (order_id)
  WHERE o.event_no = p_event AND o.state IN ('reserved','authorised','voiding','confirmed','paid')
$$;

--
-- Name: cancellation_retry(integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cancellation_retry(p_event integer, p_actor text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_count integer;
BEGIN
  PERFORM 1 FROM event_cancellations WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE refunds SET retry_asked = clock_timestamp() WHERE event_no = p_event AND state = 'failed' AND retry_asked IS NULL;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count > 0 THEN
    UPDATE event_cancellations SET state = 'running', finished_at = NULL WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (p_actor, 'cancel_event_retry', p_event, jsonb_build_object('refunds', v_count));
  END IF;
  RETURN v_count;
END $$;

--
-- Name: cancellation_waits(integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cancellation_waits(p_event integer, p_limit integer) RETURNS TABLE("order" uuid, operation uuid, kind text, state text, attention text, since timestamp with time zone, total bigint)
    LANGUAGE sql STABLE
    AS $$
  SELECT o.order_id, m.operation_id, m.kind, m.state, m.attention, m.created_at, count(*) OVER ()
  FROM orders o JOIN money_operations m USING (order_id)
  WHERE o.event_no = p_event AND m.due_at IS NOT NULL AND NOT (m.kind = 'refund' AND m.state = 'waiting')
    AND (m.attention IS NOT NULL OR (m.state IN ('unknown','ending') AND m.attempts > 2))
  ORDER BY m.created_at, m.operation_id LIMIT p_limit
$$;

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
-- Name: cooldown_count(integer, text, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cooldown_count(p_event integer, p_kind text, p_subject text, p_rule jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_unpaid integer;
  v_after integer := (p_rule ->> 'afterUnpaid')::integer;
BEGIN
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, last_at, changed_at)
  VALUES (p_event, p_kind, p_subject, 1, v_now, v_now)
  ON CONFLICT (event_no, kind, subject) DO UPDATE
    SET unpaid = CASE WHEN c.last_at < v_now - (p_rule ->> 'forgetMs')::float8 * interval '1 millisecond' THEN 1
                      ELSE c.unpaid + 1 END,
        last_at = v_now, changed_at = v_now
  RETURNING unpaid INTO v_unpaid;
  IF v_unpaid >= v_after THEN
    UPDATE cooldowns
    SET until = v_now + least((p_rule ->> 'maxMs')::float8, (p_rule ->> 'firstMs')::float8 * 2 ^ least(v_unpaid - v_after, 20))
                        * interval '1 millisecond'
    WHERE event_no = p_event AND kind = p_kind AND subject = p_subject;
  END IF;
END $$;

--
-- Name: cooldown_forgive(integer, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cooldown_forgive(p_event integer, p_account text, p_visitor text) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE cooldowns SET until = NULL, unpaid = 0, changed_at = clock_timestamp()
  WHERE event_no = p_event AND ((kind = 'account' AND subject = p_account) OR (kind = 'visitor' AND subject = p_visitor))
$$;

--
-- Name: cooldown_judge(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cooldown_judge(p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  e record; v_count integer := 0; v_kind text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(20261, 14) THEN RETURN 0; END IF;
  FOR e IN
    SELECT h.*, o.state, o.reason, o.payment_deadline, v.settings -> 'cooldown' AS rule
    FROM (SELECT * FROM hold_ends WHERE ends_at <= clock_timestamp() ORDER BY ends_at LIMIT p_limit FOR UPDATE SKIP LOCKED) h
      LEFT JOIN orders o ON o.hold_id = h.hold_id
      LEFT JOIN events v ON v.event_no = h.event_no
    ORDER BY h.ends_at
  LOOP
    v_count := v_count + 1;
    IF e.state IN ('reserved','authorised','voiding') THEN
      -- Its order decides; order_free brings it back here at once.
      UPDATE hold_ends SET ends_at = greatest(e.payment_deadline, clock_timestamp()) + interval '30 seconds'
      WHERE event_no = e.event_no AND hold_id = e.hold_id;
      CONTINUE;
    END IF;
    DELETE FROM hold_ends WHERE event_no = e.event_no AND hold_id = e.hold_id;
    IF e.state IN ('confirmed','paid') THEN
      PERFORM cooldown_forgive(e.event_no, e.account, e.visitor);
      PERFORM address_paid(e.event_no, e.address);
    ELSIF jsonb_typeof(e.rule) = 'object'
      AND (e.state IS NULL OR (e.state = 'closed' AND e.reason IN ('closed_by_buyer','not_paid_in_time')))
      AND NOT limit_is_lifted(e.event_no, e.account, e.visitor)
    THEN
      -- By one name: an exception for it is one for the whole wait.
      v_kind := CASE WHEN e.account IS NULL THEN 'visitor' ELSE 'account' END;
      IF hold_end_counts(e.event_no, v_kind, coalesce(e.account, e.visitor), e.quick) THEN
        PERFORM cooldown_count(e.event_no, v_kind, coalesce(e.account, e.visitor), e.rule);
      END IF;
      IF e.address IS NOT NULL AND hold_end_counts(e.event_no, 'address', e.address, e.quick) THEN
        PERFORM address_unpaid(e.event_no, e.address, e.rule);
      END IF;
    END IF;
  END LOOP;
  DELETE FROM cooldowns WHERE last_at < clock_timestamp() - interval '1 day' AND (until IS NULL OR until < clock_timestamp());
  RETURN v_count;
END $$;

--
-- Name: cooldown_lock(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cooldown_lock() RETURNS void
    LANGUAGE sql
    AS $$ SELECT pg_advisory_xact_lock(20261, 14) $$;

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
-- Name: entry_check_in(integer, uuid, text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_check_in(p_event integer, p_ticket uuid, p_gate text, p_scan text, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  t tickets; n entries;
  v_phase text; v_why text;
  v_first boolean; v_valid boolean;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event;
  SELECT * INTO t FROM tickets WHERE event_no = p_event AND ticket_id = p_ticket FOR SHARE;
  IF NOT FOUND THEN RETURN '{"kind":"revoked","why":"unknown","seat":null}'; END IF;
  v_why := entry_refusal(v_phase, t);
  IF v_why IS NOT NULL THEN
    RETURN jsonb_build_object('kind', 'revoked', 'why', v_why, 'seat', t.seat_no, 'ticketKind', t.kind);
  END IF;
  -- A repeat of a scan that was taken back since lets nobody in again: somebody has to look at the ticket anew.
  SELECT at, gate INTO n.at, n.gate FROM entry_scans
  WHERE event_no = p_event AND ticket_id = p_ticket AND scan = p_scan AND gate IS NOT DISTINCT FROM p_gate AND what = 'undone'
  LIMIT 1;
  IF FOUND THEN
    RETURN jsonb_build_object('kind', 'undone', 'at', epoch_ms(n.at), 'gate', n.gate, 'seat', t.seat_no, 'ticketKind', t.kind);
  END IF;
  INSERT INTO entries (event_no, ticket_id, gate, scan, actor) VALUES (p_event, p_ticket, p_gate, p_scan, p_actor)
  ON CONFLICT DO NOTHING RETURNING * INTO n;
  v_first := FOUND;
  v_valid := v_first;
  IF NOT v_first THEN
    -- A repeat has its first answer again, also when an earlier use was told of since. At another gate it is none: keys that
    -- two scanners happen to share let nobody in twice.
    SELECT u.at, u.gate INTO n.at, n.gate FROM entry_uses(p_event, p_ticket) u
    WHERE u.scan = p_scan AND u.gate IS NOT DISTINCT FROM p_gate ORDER BY u.at LIMIT 1;
    v_valid := FOUND;
    IF NOT FOUND THEN SELECT * INTO n FROM entries WHERE event_no = p_event AND ticket_id = p_ticket; END IF;
  END IF;
  RETURN jsonb_build_object(
    'kind', CASE WHEN v_valid THEN 'valid' ELSE 'used' END, 'repeated', NOT v_first,
    'at', epoch_ms(n.at), 'gate', n.gate, 'seat', t.seat_no, 'ticketKind', t.kind);
END $$;

--
-- Name: entry_counts(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_counts(p_event integer) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'entered', (SELECT count(*) FROM entries WHERE event_no = p_event),
    'doubles', (SELECT count(*) FROM entry_scans WHERE event_no = p_event AND what = 'double'),
    'revoked', (SELECT count(*) FROM entry_scans WHERE event_no = p_event AND what = 'revoked'),
    'tickets', (SELECT count(*) FROM tickets t JOIN orders o USING (order_id)
                WHERE t.event_no = p_event AND t.status = 'sold' AND o.state = 'paid'),
    'gates', (SELECT coalesce(jsonb_agg(jsonb_build_object('gate', gate, 'entered', n, 'lastAt', epoch_ms(last)) ORDER BY gate), '[]')
              FROM (SELECT gate, count(*) AS n, max(at) AS last FROM entries WHERE event_no = p_event GROUP BY gate) g))
$$;

--
-- Name: entry_doubles(integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_doubles(p_event integer, p_limit integer) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('ticket', d.ticket_id, 'seat', t.seat_no, 'uses', (
      SELECT jsonb_agg(jsonb_build_object('at', epoch_ms(u.at), 'gate', u.gate, 'actor', u.actor) ORDER BY u.at)
      FROM entry_uses(p_event, d.ticket_id) u)) ORDER BY d.no DESC), '[]')
  FROM (SELECT ticket_id, max(entry_scan_no) AS no FROM entry_scans WHERE event_no = p_event AND what = 'double'
        GROUP BY ticket_id ORDER BY no DESC LIMIT p_limit) d
  LEFT JOIN tickets t ON t.event_no = p_event AND t.ticket_id = d.ticket_id
$$;

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
    revoked_at timestamp with time zone,
    CONSTRAINT tickets_status_check CHECK ((status = ANY (ARRAY['reserved'::text, 'sold'::text, 'cancelled'::text])))
)
PARTITION BY LIST (event_no);

--
-- Name: entry_refusal(text, public.tickets); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_refusal(p_phase text, t public.tickets) RETURNS text
    LANGUAGE sql STABLE
    AS $$
  SELECT CASE
    WHEN t.ticket_id IS NULL THEN 'unknown'
    WHEN p_phase = 'cancelled' THEN 'event_cancelled'
    WHEN t.revoked_at IS NOT NULL THEN 'refunded'
    WHEN t.status <> 'sold' OR (SELECT state FROM orders WHERE order_id = t.order_id) <> 'paid' THEN 'not_paid' END
$$;

--
-- Name: entry_standing(integer, jsonb, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_standing(p_event integer, p_scans jsonb, p_known text[]) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object(
    'scan', one ->> 'scan', 'ticket', one ->> 'ticket', 'repeated', no::text = ANY (p_known),
    'kind', CASE WHEN n.scan IS NOT NULL THEN 'entered' ELSE d.what END,
    'at', epoch_ms(coalesce(n.at, d.at)), 'gate', CASE WHEN n.scan IS NOT NULL THEN n.gate ELSE d.gate END,
    'seat', t.seat_no, 'why', d.why,
    'others', CASE WHEN n.scan IS NOT NULL OR d.what = 'double' THEN (
      SELECT coalesce(jsonb_agg(jsonb_build_object('at', epoch_ms(u.at), 'gate', u.gate, 'actor', u.actor) ORDER BY u.at), '[]')
      FROM entry_uses(p_event, (one ->> 'ticket')::uuid) u
      WHERE (u.scan, u.gate) IS DISTINCT FROM (one ->> 'scan', one ->> 'gate')) END) ORDER BY no), '[]')
  FROM jsonb_array_elements(p_scans) WITH ORDINALITY list (one, no)
  LEFT JOIN tickets t ON t.event_no = p_event AND t.ticket_id = (one ->> 'ticket')::uuid
  LEFT JOIN entries n ON n.event_no = p_event AND n.ticket_id = (one ->> 'ticket')::uuid AND n.scan = one ->> 'scan'
    AND n.gate IS NOT DISTINCT FROM one ->> 'gate'
  LEFT JOIN LATERAL (
    SELECT * FROM entry_scans e
    WHERE e.event_no = p_event AND e.ticket_id = (one ->> 'ticket')::uuid AND e.scan = one ->> 'scan'
      AND e.gate IS NOT DISTINCT FROM one ->> 'gate'
    ORDER BY entry_scan_no DESC LIMIT 1) d ON true
$$;

--
-- Name: entry_undo(integer, uuid, timestamp with time zone, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_undo(p_event integer, p_ticket uuid, p_at timestamp with time zone, p_reason text, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  n entries; d entry_scans;
  v_seat integer; v_order uuid;
BEGIN
  PERFORM event_lock_shared(p_event);
  -- The gates wait: they hold the ticket's row too.
  SELECT seat_no, order_id INTO v_seat, v_order FROM tickets WHERE event_no = p_event AND ticket_id = p_ticket FOR NO KEY UPDATE;
  DELETE FROM entries
  WHERE event_no = p_event AND ticket_id = p_ticket AND (p_at IS NULL OR epoch_ms(at) = epoch_ms(p_at)) RETURNING * INTO n;
  IF FOUND THEN
    INSERT INTO entry_scans (event_no, ticket_id, what, at, gate, scan, actor)
    VALUES (p_event, p_ticket, 'undone', n.at, n.gate, n.scan, n.actor);
    DELETE FROM entry_scans WHERE entry_scan_no = (
      SELECT entry_scan_no FROM entry_scans WHERE event_no = p_event AND ticket_id = p_ticket AND what = 'double'
      ORDER BY at, entry_scan_no LIMIT 1) RETURNING at, gate, scan, actor INTO d.at, d.gate, d.scan, d.actor;
    IF FOUND THEN
      INSERT INTO entries (event_no, ticket_id, at, gate, scan, actor) VALUES (p_event, p_ticket, d.at, d.gate, d.scan, d.actor);
    END IF;
  ELSE
    UPDATE entry_scans SET what = 'undone' WHERE entry_scan_no = (
      SELECT entry_scan_no FROM entry_scans
      WHERE event_no = p_event AND ticket_id = p_ticket AND what = 'double' AND epoch_ms(at) = epoch_ms(p_at) LIMIT 1)
    RETURNING at, gate, actor INTO n.at, n.gate, n.actor;
    IF NOT FOUND THEN
      RETURN jsonb_build_object('kind', CASE WHEN v_order IS NULL THEN 'unknown' ELSE 'not_entered' END);
    END IF;
    SELECT at, gate INTO d.at, d.gate FROM entries WHERE event_no = p_event AND ticket_id = p_ticket;
  END IF;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'entry_undo', p_event,
    jsonb_build_object('order', v_order, 'ticket', p_ticket, 'at', n.at, 'gate', n.gate, 'by', n.actor, 'reason', p_reason));
  RETURN jsonb_build_object('kind', 'undone', 'at', epoch_ms(n.at), 'gate', n.gate, 'seat', v_seat,
    'next', CASE WHEN d.at IS NOT NULL THEN jsonb_build_object('at', epoch_ms(d.at), 'gate', d.gate) END);
END $$;

--
-- Name: entry_upload(integer, jsonb, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_upload(p_event integer, p_scans jsonb, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  s record; t tickets; n entries;
  v_phase text; v_why text;
  v_known text[] := '{}';
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event;
  PERFORM 1 FROM tickets
  WHERE event_no = p_event AND ticket_id IN (SELECT (one ->> 'ticket')::uuid FROM jsonb_array_elements(p_scans) one)
  ORDER BY seat_no, ticket_id FOR NO KEY UPDATE;
  FOR s IN
    SELECT (one ->> 'ticket')::uuid AS ticket, one ->> 'scan' AS scan, one ->> 'gate' AS gate, no,
           least(to_timestamp((one ->> 'at')::double precision / 1000), clock_timestamp()) AS at
    FROM jsonb_array_elements(p_scans) WITH ORDINALITY list (one, no) ORDER BY no
  LOOP
    IF EXISTS (SELECT 1 FROM entries WHERE event_no = p_event AND ticket_id = s.ticket AND scan = s.scan
               AND gate IS NOT DISTINCT FROM s.gate)
       OR EXISTS (SELECT 1 FROM entry_scans WHERE event_no = p_event AND ticket_id = s.ticket AND scan = s.scan
                  AND gate IS NOT DISTINCT FROM s.gate) THEN
      v_known := v_known || s.no::text;
      CONTINUE;
    END IF;
    t := NULL;
    SELECT * INTO t FROM tickets WHERE event_no = p_event AND ticket_id = s.ticket;
    v_why := entry_refusal(v_phase, t);
    -- Who came in before the event was called off, or before his money went back, was rightly let in.
    IF v_why = 'event_cancelled' AND s.at < (SELECT started_at FROM event_cancellations WHERE event_no = p_event) THEN
      v_why := entry_refusal('closed', t);
    END IF;
    IF v_why IN ('refunded','not_paid') AND t.revoked_at > s.at THEN v_why := NULL; END IF;
    IF v_why IS NOT NULL THEN
      INSERT INTO entry_scans (event_no, ticket_id, what, at, gate, scan, actor, why)
      VALUES (p_event, s.ticket, 'revoked', s.at, s.gate, s.scan, p_actor, v_why);
      CONTINUE;
    END IF;
    INSERT INTO entries (event_no, ticket_id, at, gate, scan, actor) VALUES (p_event, s.ticket, s.at, s.gate, s.scan, p_actor)
    ON CONFLICT DO NOTHING;
    CONTINUE WHEN FOUND;
    SELECT * INTO n FROM entries WHERE event_no = p_event AND ticket_id = s.ticket;
    IF s.at < n.at THEN
      UPDATE entries SET at = s.at, gate = s.gate, scan = s.scan, actor = p_actor
      WHERE event_no = p_event AND ticket_id = s.ticket;
      INSERT INTO entry_scans (event_no, ticket_id, what, at, gate, scan, actor)
      VALUES (p_event, s.ticket, 'double', n.at, n.gate, n.scan, n.actor);
    ELSE
      INSERT INTO entry_scans (event_no, ticket_id, what, at, gate, scan, actor)
      VALUES (p_event, s.ticket, 'double', s.at, s.gate, s.scan, p_actor);
    END IF;
  END LOOP;
  RETURN entry_standing(p_event, p_scans, v_known);
END $$;

--
-- Name: entry_uses(integer, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.entry_uses(p_event integer, p_ticket uuid) RETURNS TABLE(at timestamp with time zone, gate text, scan text, actor text)
    LANGUAGE sql STABLE
    AS $$
  SELECT at, gate, scan, actor FROM entries WHERE event_no = p_event AND ticket_id = p_ticket
  UNION ALL
  SELECT at, gate, scan, actor FROM entry_scans WHERE event_no = p_event AND ticket_id = p_ticket AND what = 'double'
$$;

--
-- Name: epoch_ms(timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.epoch_ms(p timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$ SELECT floor(extract(epoch FROM p) * 1000)::bigint $$;

--
-- Name: event_cancel(integer, text, text, text, text, text, text, double precision); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_cancel(p_event integer, p_actor text, p_code_hash text, p_request text, p_reason text, p_fees text, p_seats text, p_per_second double precision) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  e events%ROWTYPE;
  v_holds uuid[];
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT * INTO e FROM events WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND OR e.published_at IS NULL AND e.phase = 'draft' THEN RETURN '{"kind":"not_published"}'; END IF;
  IF EXISTS (SELECT 1 FROM event_cancellations WHERE event_no = p_event) THEN RETURN '{"kind":"already"}'; END IF;
  UPDATE confirmations SET used_at = clock_timestamp()
  WHERE code_hash = p_code_hash AND act = 'cancel_event' AND event_no = p_event AND request = p_request AND actor = p_actor
    AND used_at IS NULL AND expires_at > clock_timestamp();
  IF NOT FOUND THEN RETURN '{"kind":"not_confirmed"}'; END IF;
  INSERT INTO event_cancellations (event_no, actor, reason, fees, seats, per_second)
  VALUES (p_event, p_actor, p_reason, p_fees, p_seats, p_per_second);
  IF e.phase <> 'cancelled' THEN
    UPDATE events SET phase = 'cancelled', version = version + 1 WHERE event_no = p_event;
  END IF;
  v_holds := ARRAY(SELECT hold_id FROM holds WHERE event_no = p_event AND state = 'live' ORDER BY hold_id FOR UPDATE);
  UPDATE holds SET state = 'released', deadline = least(deadline, clock_timestamp())
  WHERE event_no = p_event AND hold_id = ANY (v_holds);
  PERFORM 1 FROM seats WHERE event_no = p_event AND hold_id = ANY (v_holds) ORDER BY seat_no FOR UPDATE;
  UPDATE seats SET hold_id = NULL, hold_until = NULL, hold_epoch = NULL WHERE event_no = p_event AND hold_id = ANY (v_holds);
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'cancel_event', p_event, jsonb_build_object(
    'from', e.phase, 'reason', p_reason, 'fees', p_fees, 'seats', p_seats, 'perSecond', p_per_second,
    'shown', (SELECT shown FROM confirmations WHERE code_hash = p_code_hash)));
  RETURN jsonb_build_object('kind', 'started', 'holds', cardinality(v_holds));
END $$;

--
-- Name: event_changed(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_changed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  -- As in event_wake, without the cost of another call: this runs for each seat that is held or sold.
  PERFORM FROM event_rests r WHERE r.event_no = NEW.event_no;
  IF FOUND THEN PERFORM event_wake(NEW.event_no); END IF;
  RETURN NULL;
END $$;

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
-- Name: event_in_presale(public.events); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_in_presale(e public.events) RETURNS boolean
    LANGUAGE sql
    AS $$
  SELECT coalesce((e.settings ->> 'presaleAt') IS NOT NULL AND e.on_sale_at > clock_timestamp(), false)
$$;

--
-- Name: event_limits(jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_limits(p_settings jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT jsonb_object_agg(name, coalesce(p_settings -> name, 'null'))
  FROM unnest('{accountSeatsMax,instrumentSeatsMax,visitorSeatsMax,addressSeatsMax,joinsPerMinute,claimsPerMinute,cooldown}'::text[]) name
$$;

--
-- Name: event_lock_alone(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_lock_alone(p_event integer) RETURNS void
    LANGUAGE sql
    AS $$ SELECT pg_advisory_xact_lock(20260, p_event) $$;

--
-- Name: event_lock_is_free(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_lock_is_free(p_event integer) RETURNS boolean
    LANGUAGE sql
    AS $$
  SELECT pg_try_advisory_xact_lock_shared(20260, p_event)
$$;

--
-- Name: event_lock_shared(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_lock_shared(p_event integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF pg_try_advisory_xact_lock_shared(20260, p_event) THEN RETURN; END IF;
  RAISE lock_not_available USING MESSAGE = format('event %s is locked', p_event),
    DETAIL = format('locked event %s', p_event);
END $$;

--
-- Name: event_opens_at(public.events); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_opens_at(e public.events) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
  SELECT least(e.on_sale_at, to_timestamp((e.settings ->> 'presaleAt')::float8 / 1000))
$$;

--
-- Name: event_phase_happened(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_phase_happened() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_what text := CASE NEW.phase WHEN 'open' THEN 'event.opened' WHEN 'paused' THEN 'event.paused'
    WHEN 'sold_out' THEN 'event.sold_out' WHEN 'closed' THEN 'event.closed' WHEN 'cancelled' THEN 'event.cancelled' END;
BEGIN
  IF v_what IS NOT NULL AND EXISTS (SELECT 1 FROM webhook_wanted(NEW.event_no, v_what)) THEN
    PERFORM webhook_owe(NEW.event_no, v_what, NULL, jsonb_build_object('phase', NEW.phase, 'before', OLD.phase));
  END IF;
  RETURN NULL;
END $$;

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
-- Name: event_replan(integer, text, text, text, text, bytea, integer, json, jsonb, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_replan(p_event integer, p_actor text, p_base text, p_plan text, p_layout_hash text, p_layout bytea, p_seat_count integer, p_changed json, p_partitions jsonb, p_removed integer[]) RETURNS TABLE(seat_no integer, state text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
  v_refusals jsonb;
BEGIN
  BEGIN
    PERFORM event_replan_write(p_event, p_layout_hash, p_layout, p_changed);
    PERFORM event_lock_alone(p_event);
    v_refusals := event_replan_refusals(p_event, p_base, p_removed);
    IF v_refusals IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = 'ON001'; END IF;
    PERFORM event_write_partitions(p_event, p_partitions);
    UPDATE event_seats SET removed = seat_no = ANY (p_removed)
      WHERE event_no = p_event AND removed <> (seat_no = ANY (p_removed));
    UPDATE seats s SET state = 'blocked', version = s.version + 1, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
      WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND s.state = 'available';
    INSERT INTO blocks (event_no, seat_no, reason, actor)
      SELECT p_event, r, 'removed from the plan', p_actor FROM unnest(p_removed) r ON CONFLICT DO NOTHING;
    UPDATE events SET plan_id = p_plan, layout_hash = p_layout_hash, seat_count = p_seat_count, version = version + 1
      WHERE event_no = p_event;
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'replan', p_event,
      jsonb_build_object('plan', p_plan, 'removed', cardinality(p_removed), 'seats', p_seat_count));
  EXCEPTION WHEN SQLSTATE 'ON001' THEN
    RETURN QUERY SELECT r.seat_no, r.state FROM jsonb_to_recordset(v_refusals) AS r (seat_no integer, state text);
  END;
END $$;

--
-- Name: event_replan_refusals(integer, text, integer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_replan_refusals(p_event integer, p_base text, p_removed integer[]) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_base text;
BEGIN
  SELECT layout_hash INTO v_base FROM events WHERE event_no = p_event FOR UPDATE;
  IF v_base IS NULL OR v_base IS DISTINCT FROM p_base THEN RETURN '[{"seat_no": null, "state": "conflict"}]'; END IF;
  IF EXISTS (SELECT FROM event_partitions p WHERE p.event_no = p_event AND NOT partition_is_settled(p)) THEN
    RETURN '[{"seat_no": null, "state": "busy"}]';
  END IF;
  RETURN (SELECT jsonb_agg(jsonb_build_object('seat_no', s.seat_no,
      'state', CASE WHEN s.state = 'available' THEN 'held' ELSE s.state END) ORDER BY s.seat_no)
    FROM seats s JOIN event_partitions p ON p.event_no = p_event AND p.partition = s.partition
    WHERE s.event_no = p_event AND s.seat_no = ANY (p_removed) AND (s.state IN ('reserved','sold')
      OR (s.state = 'available' AND (p.mode <> 'postgres'
        OR NOT seat_is_free(s.state, s.hold_until, s.hold_epoch, p.epoch, clock_timestamp())))));
END $$;

--
-- Name: event_replan_write(integer, text, bytea, json); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_replan_write(p_event integer, p_layout_hash text, p_layout bytea, p_changed json) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO layouts (hash, bytes) VALUES (p_layout_hash, p_layout) ON CONFLICT DO NOTHING;
  INSERT INTO event_seats AS e (event_no, seat_no, seat_guid, section_id, row_label, seat_label, category)
    SELECT p_event, c.n, c.guid, c.section, c."row", c.label, c.category
    FROM json_to_recordset(p_changed) AS c (n integer, guid text, section text, "row" text, label text, category text)
    ORDER BY c.n
    ON CONFLICT (event_no, seat_no) DO UPDATE SET section_id = excluded.section_id, row_label = excluded.row_label,
      seat_label = excluded.seat_label, category = excluded.category
      WHERE e.seat_guid = excluded.seat_guid;
  INSERT INTO seats (event_no, seat_no, partition)
    SELECT p_event, c.n, c.partition
    FROM json_to_recordset(p_changed) AS c (n integer, partition smallint)
    WHERE c.n >= (SELECT seat_count FROM events WHERE event_no = p_event)
    ORDER BY c.n ON CONFLICT DO NOTHING;
END $$;

--
-- Name: event_wake(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_wake(p_event integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM FROM event_rests r WHERE r.event_no = p_event;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO event_wakes (event_no) SELECT p_event
    WHERE NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = p_event);
END $$;

--
-- Name: event_wake_at(public.events, double precision); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.event_wake_at(e public.events, p_max_ms double precision) RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$
  SELECT least(
    clock_timestamp() + p_max_ms * (0.75 + 0.25 * random()) * interval '1 ms',
    CASE WHEN e.phase IN ('scheduled','pre_queue') THEN event_opens_at(e) END,
    CASE WHEN e.on_sale_at > clock_timestamp() THEN e.on_sale_at END,
    CASE WHEN e.phase IN ('open','paused','sold_out') THEN e.sale_ends_at END,
    (SELECT min(p.grace_until) FROM event_partitions p WHERE p.event_no = e.event_no AND p.grace_until > clock_timestamp()),
    (SELECT min(h.deadline) FROM holds h WHERE h.event_no = e.event_no AND h.state = 'live'),
    -- Memories of holds that ended are forgotten all at once: each by itself is not worth a leader.
    (SELECT max(hold_due(h.state, h.deadline)) FROM holds h WHERE h.event_no = e.event_no AND h.state <> 'live'))
$$;

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
-- Name: events_rest(integer[], bigint[], text, double precision, double precision); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.events_rest(p_events integer[], p_terms bigint[], p_made_as text, p_least_ms double precision, p_max_ms double precision) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  -- Left over from a wake that was committed after the event had been woken by another.
  DELETE FROM event_wakes w WHERE w.event_no = ANY (p_events)
    AND NOT EXISTS (SELECT FROM event_rests r WHERE r.event_no = w.event_no);
  INSERT INTO event_rests (event_no, wake_at, made_as)
    SELECT r.event_no, r.wake_at, p_made_as
    FROM (SELECT e.event_no, u.term, event_wake_at(e, p_max_ms) AS wake_at
      FROM unnest(p_events, p_terms) AS u (event_no, term) JOIN events e USING (event_no) OFFSET 0) r
    WHERE r.wake_at > clock_timestamp() + p_least_ms * interval '1 ms'
      AND NOT EXISTS (SELECT FROM event_partitions p WHERE p.event_no = r.event_no AND p.mode = 'moving')
      AND NOT EXISTS (SELECT FROM queue_recent q WHERE q.event_no = r.event_no)
      AND lease_holds(r.event_no, r.term)
    ON CONFLICT DO NOTHING;
END $$;

--
-- Name: events_settle(integer[], bigint[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.events_settle(p_events integer[], p_terms bigint[]) RETURNS void
    LANGUAGE sql
    AS $$
  WITH settled AS (
    UPDATE event_rests r SET settled = true FROM unnest(p_events, p_terms) AS u (event_no, term)
    WHERE r.event_no = u.event_no AND NOT EXISTS (SELECT FROM event_wakes w WHERE w.event_no = r.event_no)
      AND lease_holds(u.event_no, u.term)
    RETURNING r.event_no)
  UPDATE leases l SET until = clock_timestamp() FROM settled s WHERE l.event_no = s.event_no
$$;

--
-- Name: events_to_lead(text, integer, integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.events_to_lead(p_made_as text, p_ahead_ms integer, p_clear_ms integer, p_renew integer) RETURNS TABLE(event_no integer, clear boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
  v_over integer[];
BEGIN
  v_over := ARRAY(SELECT r.event_no FROM event_rests r
      WHERE r.wake_at <= clock_timestamp() + p_ahead_ms * interval '1 ms'
        OR EXISTS (SELECT FROM event_wakes w WHERE w.event_no = r.event_no))
    || ARRAY(SELECT r.event_no FROM event_rests r
      WHERE r.made_as <> p_made_as AND r.made_at < clock_timestamp() - interval '1 minute' ORDER BY r.made_at LIMIT p_renew);
  IF cardinality(v_over) > 0 THEN
    -- What another controller is just ending is ended.
    DELETE FROM event_rests r WHERE r.event_no IN (
      SELECT o.event_no FROM event_rests o WHERE o.event_no = ANY (v_over) FOR UPDATE SKIP LOCKED);
    DELETE FROM event_wakes w WHERE NOT EXISTS (SELECT FROM event_rests r WHERE r.event_no = w.event_no);
  END IF;
  RETURN QUERY
    SELECT e.event_no, r.made_in < pg_snapshot_xmin(pg_current_snapshot())
      AND r.made_at < clock_timestamp() - p_clear_ms * interval '1 ms'
    FROM events e LEFT JOIN event_rests r USING (event_no)
    WHERE e.phase <> 'draft' AND e.layout_hash IS NOT NULL AND r.settled IS NOT TRUE
      -- A day after the performance nobody looks any more.
      AND (e.phase NOT IN ('closed','cancelled') OR e.performance_at IS NULL
        OR e.performance_at > clock_timestamp() - interval '1 day')
    ORDER BY e.event_no;
END $$;

--
-- Name: finding_cancel_tickets(bigint, uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.finding_cancel_tickets(p_finding bigint, p_refund uuid, p_actor text, p_note text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; v_named orders;
  v_kind text;
  v_made jsonb;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM reconcile_findings WHERE finding_id = p_finding);
  IF NOT FOUND THEN RETURN '{"kind":"not_possible"}'; END IF;
  v_named := o;
  PERFORM order_lock_limits(o.event_no, o.account, o.instrument ->> 'fingerprint');
  SELECT * INTO o FROM orders WHERE order_id = o.order_id FOR UPDATE;
  IF v_named.account <> o.account THEN
    PERFORM order_unname_limits(v_named.account, v_named.instrument ->> 'fingerprint', o);
  END IF;
  IF o.state <> 'paid' AND EXISTS (SELECT 1 FROM reconcile_findings WHERE finding_id = p_finding AND settled_at IS NULL) THEN
    RETURN '{"kind":"not_possible"}';
  END IF;
  v_kind := finding_decide(p_finding, 'cancel_tickets', p_actor, p_note);
  IF v_kind <> 'done' THEN RETURN jsonb_build_object('kind', v_kind); END IF;
  v_made := refund_make(p_refund, o.order_id, NULL, NULL, 'finding-' || p_finding, 'unpaid', p_actor, p_note, NULL, 'returned', 0,
                        'release', 1, false, NULL, 0, false);
  IF v_made ->> 'kind' <> 'made' THEN
    RAISE EXCEPTION 'the tickets of finding % were not cancelled: %', p_finding, v_made ->> 'kind';
  END IF;
  RETURN v_made || '{"kind":"done"}';
END $$;

--
-- Name: finding_decide(bigint, text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.finding_decide(p_finding bigint, p_action text, p_actor text, p_note text) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
  f reconcile_findings;
BEGIN
  SELECT * INTO f FROM reconcile_findings WHERE finding_id = p_finding FOR UPDATE;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF f.settled_at IS NOT NULL THEN
    RETURN CASE WHEN f.decision ->> 'action' = p_action THEN 'repeated' ELSE 'not_possible' END;
  END IF;
  UPDATE reconcile_findings SET settled_at = clock_timestamp(), settled_by = p_actor, note = p_note,
                                decision = operator_decision(p_action, p_actor)
  WHERE finding_id = p_finding;
  INSERT INTO audit_log (actor, action, detail) VALUES (p_actor, 'reconcile_settle', jsonb_build_object(
    'finding', f.finding_id, 'kind', f.kind, 'subject', f.subject, 'decision', p_action, 'note', p_note));
  RETURN 'done';
END $$;

--
-- Name: finding_put(text, text, uuid, text, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.finding_put(p_kind text, p_subject text, p_order uuid, p_object text, p_says text, p_detail jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO reconcile_findings (kind, subject, order_id, object, says, detail)
  SELECT p_kind, p_subject, p_order, p_object, p_says, p_detail
  WHERE NOT EXISTS (SELECT 1 FROM reconcile_findings s WHERE s.subject = p_subject AND s.kind = p_kind AND s.says = p_says
                    AND s.settled_by <> 'reconcile')
  ON CONFLICT (kind, subject) WHERE settled_at IS NULL DO UPDATE
    SET last_seen_at = clock_timestamp(), says = excluded.says, detail = excluded.detail, order_id = excluded.order_id;
  UPDATE reconcile_findings SET settled_at = clock_timestamp(), settled_by = 'reconcile'
  WHERE subject = p_subject AND kind <> p_kind AND settled_at IS NULL;
END $$;

--
-- Name: forget_allowances(text, jsonb, uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_allowances(p_account text, p_visitors jsonb, p_salt uuid, p_actor text) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_count integer;
  v_ids uuid[];
BEGIN
  WITH ended AS (
    UPDATE limit_allowances a
    SET account = CASE WHEN account = p_account THEN forgotten_as(p_salt, event_no, 'account', account) ELSE account END,
        visitor = coalesce(p_visitors ->> concat_ws('/', event_no, visitor), visitor), reason = '(forgotten)',
        ended_at = coalesce(ended_at, clock_timestamp()), ended_by = coalesce(ended_by, p_actor)
    WHERE account = p_account OR p_visitors ? concat_ws('/', event_no, visitor)
    RETURNING allowance_id)
  SELECT count(*), array_agg(allowance_id) INTO v_count, v_ids FROM ended;
  UPDATE audit_log SET detail = detail - 'reason'
  WHERE action = 'limits_allow' AND detail ->> 'allowance' = ANY (v_ids::text[]);
  RETURN v_count;
END $$;

--
-- Name: forget_holds(uuid[], text, jsonb, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_holds(p_ids uuid[], p_account text, p_visitors jsonb, p_salt uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  UPDATE holds h
  SET visitor = coalesce(p_visitors ->> concat_ws('/', h.event_no, h.visitor), h.visitor),
      holder = CASE WHEN h.holder = p_account THEN forgotten_as(p_salt, h.event_no, 'account', h.holder)
                    ELSE coalesce(p_visitors ->> concat_ws('/', h.event_no, h.holder), h.holder) END
  WHERE h.state NOT IN ('live','ordered') AND (h.holder = p_account OR p_visitors ? concat_ws('/', h.event_no, h.visitor));
  DELETE FROM hold_ends WHERE account = p_account OR p_visitors ? concat_ws('/', event_no, visitor);
  PERFORM cooldown_lock();
  -- One that is in force goes by itself, a day after its last hold at the latest.
  DELETE FROM cooldowns
  WHERE (until IS NULL OR until < clock_timestamp())
    AND ((kind = 'account' AND subject = p_account) OR (kind = 'visitor' AND p_visitors ? concat_ws('/', event_no, subject)));
END $$;

--
-- Name: forget_limits(uuid[], text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_limits(p_ids uuid[], p_account text, p_salt uuid) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE limit_counts SET subject = forgotten_as(p_salt, event_no, 'account', subject)
  WHERE kind = 'account' AND subject = p_account;
  WITH his AS (
    SELECT o.event_no, o.instrument ->> 'fingerprint' AS card,
           sum(CASE WHEN o.state = 'paid' THEN cardinality(o.seats) - (SELECT count(*) FROM tickets t
             WHERE t.event_no = o.event_no AND t.order_id = o.order_id AND t.revoked_at IS NOT NULL) ELSE 0 END)::integer AS n
    FROM orders o WHERE o.order_id = ANY (p_ids) AND o.instrument ->> 'fingerprint' IS NOT NULL GROUP BY 1, 2
  ), less AS (
    UPDATE limit_counts c SET seats = c.seats - his.n FROM his
    WHERE c.event_no = his.event_no AND c.kind = 'instrument' AND c.subject = his.card RETURNING c.event_no, c.subject, his.n)
  INSERT INTO limit_counts (event_no, kind, subject, seats)
  SELECT event_no, 'instrument', forgotten_as(p_salt, event_no, 'card', subject), n FROM less;
  -- Nobody else's seats are counted under it.
  DELETE FROM limit_counts c USING orders o
  WHERE o.order_id = ANY (p_ids) AND c.event_no = o.event_no AND c.kind = 'instrument'
    AND c.subject = o.instrument ->> 'fingerprint' AND c.seats = 0;
$$;

--
-- Name: forget_mails(uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_mails(p_ids uuid[], OUT letters integer, OUT dropped integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_mails text[] := ARRAY(SELECT mail_id FROM mails WHERE order_id = ANY (p_ids));
BEGIN
  DELETE FROM mailbox WHERE split_part(message_id, '@', 1) = ANY (v_mails);
  GET DIAGNOSTICS letters = ROW_COUNT;
  UPDATE mails SET state = 'not_needed', updated_at = clock_timestamp() WHERE order_id = ANY (p_ids) AND state = 'due';
  GET DIAGNOSTICS dropped = ROW_COUNT;
  -- Mail servers like to repeat the address, or a name, in what they say.
  UPDATE mails SET last_error = NULL, detail = detail - 'detail' WHERE order_id = ANY (p_ids);
  DELETE FROM job_outbox WHERE key IN (SELECT 'mail/' || u FROM unnest(v_mails) u);
  PERFORM graphile_worker.remove_job(j.key) FROM graphile_worker.jobs j
  WHERE j.key IN (SELECT 'mail/' || u FROM unnest(v_mails) u);
END $$;

--
-- Name: forget_orders(uuid[], text, jsonb, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_orders(p_ids uuid[], p_account text, p_visitors jsonb, p_salt uuid) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE money_operations SET instrument = NULL,
    answer = answer - 'detail' #- '{view,instrument}' #- '{view,action}' #- '{refund,reason}'
  WHERE order_id = ANY (p_ids);
  UPDATE orders o SET
    buyer = '{"name":"","email":""}', forgotten_at = clock_timestamp(),
    account = CASE WHEN account = p_account THEN forgotten_as(p_salt, event_no, 'account', account) ELSE account END,
    holder = CASE WHEN holder = p_account THEN forgotten_as(p_salt, event_no, 'account', holder)
                  ELSE coalesce(p_visitors ->> concat_ws('/', event_no, holder), holder) END,
    visitor = coalesce(p_visitors ->> concat_ws('/', event_no, visitor), visitor),
    instrument = CASE WHEN instrument ->> 'fingerprint' IS NOT NULL THEN jsonb_build_object('brand', '', 'last4', '',
      'fingerprint', forgotten_as(p_salt, event_no, 'card', instrument ->> 'fingerprint')) END
  WHERE order_id = ANY (p_ids);
$$;

--
-- Name: forget_words(uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_words(p_ids uuid[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_ids text[] := p_ids::text[];
  v_objects text[] := ARRAY(SELECT provider_object FROM orders WHERE order_id = ANY (p_ids) AND provider_object IS NOT NULL);
  v_count integer;
  v_sum integer := 0;
BEGIN
  UPDATE blocks b SET reason = '(forgotten)'
  FROM refunds r JOIN refund_tickets rt USING (refund_id) JOIN tickets t ON t.event_no = rt.event_no AND t.ticket_id = rt.ticket_id
  WHERE r.order_id = ANY (p_ids) AND NOT r.cancellation AND b.event_no = t.event_no AND b.seat_no = t.seat_no AND b.reason = r.reason;
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE refunds SET reason = CASE WHEN cancellation THEN reason ELSE '(forgotten)' END, detail = NULL
  WHERE order_id = ANY (p_ids) AND (NOT cancellation OR detail IS NOT NULL);
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE order_history SET detail = detail - 'detail' - 'note'
  WHERE order_id = ANY (p_ids) AND detail ?| ARRAY['detail','note'];
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE audit_log SET detail = detail - 'reason' - 'note'
  WHERE (detail ->> 'order' = ANY (v_ids) OR detail ->> 'subject' = ANY (v_ids || v_objects)) AND detail ?| ARRAY['reason','note'];
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  UPDATE reconcile_findings SET note = NULL
  WHERE (order_id = ANY (p_ids) OR object = ANY (v_objects)) AND note IS NOT NULL;
  GET DIAGNOSTICS v_count = ROW_COUNT; v_sum := v_sum + v_count;
  -- A later attempt of a delivery brings the receiver these bytes: it is the same thing that happened.
  UPDATE webhook_deliveries SET body = jsonb_set(body::jsonb, '{refund,reason}', '"(forgotten)"')::text
  WHERE body::jsonb #>> '{order,order}' = ANY (v_ids) AND body::jsonb #> '{refund,reason}' IS NOT NULL
    AND body::jsonb #>> '{refund,eventCancelled}' = 'false';
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_sum + v_count;
END $$;

--
-- Name: forgettable_visitors(uuid[], uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forgettable_visitors(p_ids uuid[], p_salt uuid) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce(jsonb_object_agg(concat_ws('/', event_no, visitor), forgotten_as(p_salt, event_no, 'visitor', visitor)), '{}')
  FROM (SELECT event_no, visitor FROM orders WHERE order_id = ANY (p_ids)
        EXCEPT SELECT event_no, visitor FROM orders
        WHERE NOT order_id = ANY (p_ids)
          AND visitor = ANY (ARRAY(SELECT visitor FROM orders WHERE order_id = ANY (p_ids)))) his
$$;

--
-- Name: forgotten_as(uuid, integer, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forgotten_as(p_salt uuid, p_event integer, p_kind text, p_name text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT 'forgotten:' || left(encode(sha256(convert_to(concat_ws('/', p_salt, p_event, p_kind, p_name), 'UTF8')), 'hex'), 32)
$$;

--
-- Name: forgotten_kept(uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forgotten_kept(p_ids uuid[]) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'orders', cardinality(p_ids),
    'amounts', (SELECT coalesce(jsonb_agg(jsonb_build_object('currency', currency, 'paid', paid, 'refunded', refunded) ORDER BY currency), '[]')
      FROM (SELECT o.currency, sum(o.amount) FILTER (WHERE o.state = 'paid' OR r.amount IS NOT NULL) AS paid,
                   coalesce(sum(r.amount), 0) AS refunded
            FROM orders o LEFT JOIN (SELECT order_id, sum(amount) AS amount FROM refunds GROUP BY order_id) r USING (order_id)
            WHERE o.order_id = ANY (p_ids) GROUP BY o.currency
            HAVING bool_or(o.state = 'paid' OR r.amount IS NOT NULL)) sums),
    'tickets', (SELECT count(*) FROM tickets WHERE order_id = ANY (p_ids)),
    'validTickets', (SELECT count(*) FROM tickets JOIN orders o USING (order_id)
                     WHERE order_id = ANY (p_ids) AND status = 'sold' AND o.state = 'paid'),
    'refunds', (SELECT count(*) FROM refunds WHERE order_id = ANY (p_ids)),
    'entries', (SELECT count(*) FROM entries JOIN tickets USING (event_no, ticket_id) WHERE order_id = ANY (p_ids)),
    'auditEntries', (SELECT count(*) FROM audit_log WHERE detail ->> 'order' = ANY (p_ids::text[])),
    'payments', (SELECT coalesce(jsonb_agg(DISTINCT provider_object ORDER BY provider_object), '[]') FROM money_operations
                 WHERE order_id = ANY (p_ids) AND provider_object IS NOT NULL))
$$;

--
-- Name: hold_due(text, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_due(p_state text, p_deadline timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT CASE p_state WHEN 'live' THEN p_deadline WHEN 'ordered' THEN NULL WHEN 'ended' THEN NULL
                      ELSE p_deadline + interval '15 minutes' END
$$;

--
-- Name: hold_end_counts(integer, text, text, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_end_counts(p_event integer, p_kind text, p_subject text, p_quick boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_quick integer;
BEGIN
  IF NOT p_quick THEN RETURN true; END IF;
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, quick, last_at, changed_at)
  VALUES (p_event, p_kind, p_subject, 0, 1, clock_timestamp(), clock_timestamp())
  ON CONFLICT (event_no, kind, subject) DO UPDATE SET quick = (c.quick + 1) % 3 RETURNING quick INTO v_quick;
  RETURN v_quick = 0;
END $$;

--
-- Name: hold_ends_note(integer[], uuid[], text[], text[], timestamp with time zone[], timestamp with time zone[], integer[], uuid[], text[], text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_ends_note(p_events integer[], p_holds uuid[], p_visitors text[], p_accounts text[], p_granted timestamp with time zone[], p_ends timestamp with time zone[], p_over_events integer[], p_over_holds uuid[], p_over_how text[], p_addresses text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO hold_ends (event_no, hold_id, visitor, account, granted_at, ends_at, address)
  SELECT * FROM unnest(p_events, p_holds, p_visitors, p_accounts, p_granted, p_ends, p_addresses)
    n (event, hold, visitor, account, granted, ends, address)
  ORDER BY n.hold
  ON CONFLICT DO NOTHING;
  DELETE FROM hold_ends h USING unnest(p_over_events, p_over_holds, p_over_how) n (event, hold, how)
  WHERE h.event_no = n.event AND h.hold_id = n.hold
    AND n.how = 'replaced';
  UPDATE hold_ends h SET ends_at = clock_timestamp(),
    quick = n.how = 'released' AND h.granted_at > clock_timestamp() - interval '1 minute'
  FROM unnest(p_over_events, p_over_holds, p_over_how) n (event, hold, how)
  WHERE h.event_no = n.event AND h.hold_id = n.hold AND h.ends_at > clock_timestamp();
END $$;

--
-- Name: hold_is_forgotten(public.holds, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_is_forgotten(h public.holds, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT h.state NOT IN ('ordered','ended') AND h.deadline + arbiter_life_max() <= p_now
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
-- Name: hold_led_to_order(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hold_led_to_order(p_hold uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
  RETURN EXISTS (SELECT FROM orders WHERE hold_id = p_hold) OR EXISTS (SELECT FROM orders WHERE former_hold_id = p_hold);
END $$;

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
-- Name: job_enqueue(text, jsonb, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.job_enqueue(p_task text, p_payload jsonb, p_key text, p_after_ms integer DEFAULT 0) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO job_outbox (task, payload, key, after_ms) VALUES (p_task, p_payload, p_key, p_after_ms)
$$;

--
-- Name: job_forward(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.job_forward(p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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

--
-- Name: job_worker_end(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.job_worker_end(p_worker text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  DELETE FROM job_workers WHERE worker = p_worker;
  PERFORM graphile_worker.force_unlock_workers(ARRAY[p_worker]);
END $$;

--
-- Name: job_worker_keep(text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.job_worker_keep(p_worker text, p_lease_ms integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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
-- Name: limit_is_lifted(integer, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.limit_is_lifted(p_event integer, p_account text, p_visitor text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
  SELECT EXISTS (SELECT 1 FROM limit_allowances
                 WHERE event_no = p_event AND account = p_account AND ended_at IS NULL
                   AND (until IS NULL OR until > clock_timestamp()))
      OR EXISTS (SELECT 1 FROM limit_allowances
                 WHERE event_no = p_event AND visitor = p_visitor AND ended_at IS NULL
                   AND (until IS NULL OR until > clock_timestamp()))
$$;

--
-- Name: limits_allow(integer, text, text, text, uuid, text, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.limits_allow(p_event integer, p_actor text, p_account text, p_visitor text, p_order uuid, p_reason text, p_until timestamp with time zone) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  a limit_allowances;
  v_account text := p_account;
  v_visitor text := p_visitor;
BEGIN
  IF p_order IS NOT NULL THEN
    -- An order that was given up before it was reserved names no account.
    SELECT nullif(account, ''), visitor INTO v_account, v_visitor FROM orders WHERE order_id = p_order AND event_no = p_event;
    IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  END IF;
  PERFORM cooldown_lock();
  INSERT INTO limit_allowances (event_no, account, visitor, order_id, reason, actor, until)
  VALUES (p_event, v_account, v_visitor, p_order, p_reason, p_actor, p_until) RETURNING * INTO a;
  PERFORM cooldown_forgive(p_event, v_account, v_visitor);
  -- The audit log holds no personal data of buyers: the allowance's own row tells whom it is for.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'limits_allow', p_event,
    jsonb_build_object('allowance', a.allowance_id, 'by', CASE WHEN p_order IS NOT NULL THEN 'order'
      WHEN p_account IS NOT NULL THEN 'account' ELSE 'visitor' END, 'order', p_order, 'reason', p_reason, 'until', p_until));
  RETURN jsonb_build_object('kind', 'allowed', 'allowance', allowance_json(a));
END $$;

--
-- Name: limits_change(integer, text, jsonb, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.limits_change(p_event integer, p_actor text, p_expected jsonb, p_changes jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_settings jsonb;
BEGIN
  PERFORM event_lock_alone(p_event);
  SELECT settings INTO v_settings FROM events WHERE event_no = p_event FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  IF event_limits(v_settings) <> p_expected THEN
    RETURN jsonb_build_object('kind', 'conflict', 'limits', event_limits(v_settings));
  END IF;
  UPDATE events SET settings = v_settings || p_changes WHERE event_no = p_event RETURNING settings INTO v_settings;
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES (p_actor, 'limits', p_event, jsonb_build_object('from', p_expected, 'to', event_limits(v_settings)));
  RETURN jsonb_build_object('kind', 'changed', 'limits', event_limits(v_settings));
END $$;

--
-- Name: limits_disallow(integer, uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.limits_disallow(p_event integer, p_allowance uuid, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  a limit_allowances;
BEGIN
  UPDATE limit_allowances SET ended_at = clock_timestamp(), ended_by = p_actor
  WHERE event_no = p_event AND allowance_id = p_allowance AND ended_at IS NULL RETURNING * INTO a;
  IF FOUND THEN
    INSERT INTO audit_log (actor, action, event_no, detail)
    VALUES (p_actor, 'limits_disallow', p_event, jsonb_build_object('allowance', p_allowance));
    RETURN jsonb_build_object('kind', 'ended', 'allowance', allowance_json(a));
  END IF;
  SELECT * INTO a FROM limit_allowances WHERE event_no = p_event AND allowance_id = p_allowance;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  RETURN jsonb_build_object('kind', 'ended', 'allowance', allowance_json(a));
END $$;

--
-- Name: mail_resend(uuid, boolean, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.mail_resend(p_mail uuid, p_copy boolean, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  m mails; o orders;
  v_copy uuid;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM mails WHERE mail_id = p_mail) FOR SHARE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  -- Who asks twice at once takes turns here.
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

--
-- Name: money_ask(text, integer, uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_ask(p_owner text, p_lease_ms integer, p_operation uuid, p_by text) RETURNS SETOF jsonb
    LANGUAGE sql
    AS $$
  WITH mine AS (
    SELECT operation_id, clock_timestamp() AS at, due_at > clock_timestamp() AS early FROM money_operations
    WHERE operation_id = p_operation AND due_at IS NOT NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
      AND (due_at <= clock_timestamp()
        OR ((p_by = 'provider' OR state = 'waiting') AND (asked_until IS NULL OR asked_until <= clock_timestamp())))
    FOR UPDATE SKIP LOCKED)
  UPDATE money_operations m
  SET claimed_by = p_owner, claimed_until = mine.at + p_lease_ms * interval '1 millisecond',
      due_at = mine.at + p_lease_ms * interval '1 millisecond',
      attempts = attempts + 1, first_sent_at = coalesce(first_sent_at, mine.at),
      asked_times = CASE WHEN mine.early THEN asked_times + 1 ELSE asked_times END,
      asked_until = CASE WHEN mine.early THEN mine.at + least(20, 0.5 * 2 ^ least(asked_times, 10)) * interval '1 second'
                         ELSE asked_until END
  FROM mine WHERE m.operation_id = mine.operation_id
  RETURNING operation_json(m)
$$;

--
-- Name: money_authorised(uuid, jsonb, jsonb, text, text, integer, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_authorised(p_operation uuid, p_answer jsonb, p_instrument jsonb, p_end_key text, p_owner text, p_lease_ms integer, p_late jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_seats jsonb;
BEGIN
  SELECT orders.* INTO o FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation;
  PERFORM event_lock_shared(o.event_no);
  IF p_late ->> 'kind' = 'held' THEN
    PERFORM order_lock_limits(o.event_no, o.account, NULL);
  END IF;
  m := money_lock(p_operation);
  IF p_late ->> 'kind' = 'held' THEN
    PERFORM 1 FROM holds WHERE event_no = o.event_no AND hold_id = (p_late ->> 'hold')::uuid FOR UPDATE;
  END IF;
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
    IF o.reason IS DISTINCT FROM 'not_paid_in_time' THEN
      RETURN money_end(p_operation, coalesce(o.reason, 'seats_lost'), p_end_key, p_owner, p_lease_ms);
    END IF;
    IF p_late IS NULL OR (p_late ->> 'kind' = 'held' AND NOT EXISTS (
         SELECT 1 FROM event_partitions p WHERE p.event_no = o.event_no AND p.partition = o.partition
           AND p.mode <> 'moving' AND p.epoch = (p_late ->> 'epoch')::bigint)) THEN
      RETURN money_result('late', p_operation);
    END IF;
    IF p_late ->> 'kind' = 'held' THEN
      BEGIN
        v_seats := order_retake(o, (p_late ->> 'hold')::uuid, (p_late ->> 'epoch')::bigint,
                                to_timestamp((p_late ->> 'deadline')::float8 / 1000));
        -- In the same breath, so that an open order which the visitor makes meanwhile undoes both.
        IF v_seats IS NOT NULL THEN
          UPDATE orders SET state = 'authorised', former_hold_id = o.hold_id, hold_id = (p_late ->> 'hold')::uuid
          WHERE order_id = o.order_id;
        END IF;
      EXCEPTION WHEN unique_violation THEN v_seats := NULL;
      END;
    END IF;
    IF v_seats IS NULL THEN
      UPDATE orders SET reason = 'late_payment', updated_at = clock_timestamp() WHERE order_id = o.order_id;
      UPDATE money_operations SET end_reason = 'late_payment', due_at = clock_timestamp()
      WHERE order_id = o.order_id AND kind = 'open' AND state = 'ending' AND provider_object = o.provider_object;
      PERFORM order_note(o.order_id, 'late_payment', 'closed', 'closed', jsonb_build_object('operation', p_operation));
      RETURN money_end(p_operation, 'late_payment', p_end_key, p_owner, p_lease_ms);
    END IF;
    -- The object lives again: its cancelling, if only planned, is called off.
    UPDATE money_operations SET state = 'done', due_at = NULL, end_key = NULL, end_reason = NULL
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'ending' AND provider_object = o.provider_object;
  END IF;
  UPDATE money_operations
  SET state = 'done', answer = p_answer, due_at = v_until, claimed_by = p_owner, claimed_until = v_until,
      end_key = NULL, end_reason = NULL, attention = NULL, updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders
  SET state = 'authorised', reason = NULL, instrument = p_instrument, updated_at = clock_timestamp(),
      capture_before = to_timestamp((p_answer #>> '{view,captureBefore}')::float8 / 1000)
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  v_order orders;
  v_operation money_operations;
  v_until timestamptz;
  v_refused record;
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
  IF p_kind = 'open' THEN
    SELECT count(*) OVER () AS times, m.* INTO v_refused FROM money_operations m
    -- `|| ''`: by the order's index, never by that of all openings.
    WHERE order_id = p_order AND kind || '' = 'open' AND state = 'refused' ORDER BY created_at DESC LIMIT 1;
    IF FOUND AND clock_timestamp() < v_refused.first_sent_at + least(10, 2 ^ v_refused.times) * interval '1 second' THEN
      RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(v_order), 'operation',
        (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = v_refused.operation_id));
    END IF;
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; m money_operations; v_paid orders;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.kind <> 'capture' OR m.state = 'done' THEN RETURN money_result('settled', p_operation); END IF;
  IF m.state = 'refused' THEN
    -- Money that came after its order was cancelled: for the operator's list, until the ending of its authorisation gave it back.
    UPDATE money_operations SET answer = p_answer, updated_at = clock_timestamp(),
      attention = CASE WHEN NOT EXISTS (SELECT 1 FROM money_operations other WHERE other.order_id = o.order_id
        AND other.provider_object = m.provider_object AND other.state = 'voided') THEN 'captured_after_refusal' END
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

--
-- Name: money_claim(text, integer, integer, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_claim(p_owner text, p_limit integer, p_lease_ms integer, p_operation uuid) RETURNS SETOF jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + p_lease_ms * interval '1 millisecond';
  v_ids uuid[];
BEGIN
  IF p_operation IS NULL THEN
    v_ids := ARRAY(SELECT operation_id FROM money_operations
      WHERE due_at IS NOT NULL AND due_at <= v_now AND (claimed_until IS NULL OR claimed_until <= v_now)
      ORDER BY due_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  ELSE
    v_ids := ARRAY(SELECT operation_id FROM money_operations
      WHERE operation_id = p_operation AND due_at IS NOT NULL AND (claimed_until IS NULL OR claimed_until <= v_now)
      FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN QUERY UPDATE money_operations m
    SET claimed_by = p_owner, claimed_until = v_until, due_at = v_until, attempts = attempts + 1,
        first_sent_at = coalesce(first_sent_at, v_now)
    WHERE m.operation_id = ANY (v_ids) RETURNING operation_json(m);
END $$;

--
-- Name: money_end(uuid, text, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_end(p_operation uuid, p_reason text, p_end_key text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
    refund_id uuid,
    decision jsonb,
    check_at timestamp with time zone,
    checks smallint DEFAULT 0 NOT NULL,
    asked_times integer DEFAULT 0 NOT NULL,
    asked_until timestamp with time zone,
    CONSTRAINT money_operations_attention CHECK ((attention = ANY (ARRAY['payment_mismatch'::text, 'captured_amount'::text, 'capture_window'::text, 'void_refused'::text, 'refund_refused'::text, 'captured_after_refusal'::text, 'refund_missing'::text, 'refund_mismatch'::text, 'refunded_twice'::text]))),
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
  UPDATE money_operations SET state = 'refused', answer = p_answer, due_at = NULL, claimed_until = NULL, attention = NULL,
                              updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  IF m.kind = 'capture' AND o.state = 'confirmed' THEN
    PERFORM order_count_limits(o, -cardinality(o.seats));
    v_seats := order_end(o, 'capture_refused', 'cancelled', 'capture_refused', NULL);
    -- Nothing was taken, yet the reservation may stand: it is ended too.
    UPDATE money_operations SET state = 'ending', end_key = p_operation || ':end', end_reason = 'capture_refused',
           due_at = clock_timestamp(), claimed_until = NULL, attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'authorise' AND state = 'done';
    SELECT * INTO o FROM orders WHERE order_id = o.order_id;
    PERFORM order_happened(o, 'order.cancelled', jsonb_strip_nulls(jsonb_build_object(
      'operation', p_operation, 'amount', nullif((p_answer #>> '{view,captured}')::bigint, 0))));
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
-- Name: money_stray(uuid, text, boolean, uuid, text, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_stray(p_order uuid, p_object text, p_fits boolean, p_operation uuid, p_key text, p_end_key text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; m money_operations;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  -- Whosever it is: an object that some order of ours has, or is having cancelled, is no stray.
  IF EXISTS (SELECT 1 FROM orders WHERE provider_object = p_object)
     OR EXISTS (SELECT 1 FROM money_operations WHERE provider_object = p_object) THEN
    RETURN '{"kind":"known"}';
  END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND kind <> 'refund' AND state IN ('open','waiting','unknown','ending') FOR UPDATE;
  IF FOUND AND p_fits AND m.kind = 'open' AND m.state <> 'waiting' AND m.provider_object IS NULL AND o.provider_object IS NULL THEN
    PERFORM money_opened(m.operation_id, p_object, NULL);
    RETURN money_result('adopted', m.operation_id);
  END IF;
  IF m.operation_id IS NOT NULL OR o.state NOT IN ('paid','closed','cancelled') THEN RETURN '{"kind":"under_way"}'; END IF;
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, end_key, provider_object, amount, currency, attempts,
                                first_sent_at, due_at, claimed_by, claimed_until, created_at)
  VALUES (p_operation, p_order, 'open', 'ending', p_key, p_end_key, p_object, o.amount, o.currency, 1,
          clock_timestamp(), v_until, p_owner, v_until, clock_timestamp());
  PERFORM order_note(p_order, 'stray_ending', o.state, o.state,
                     jsonb_build_object('operation', p_operation, 'object', p_object));
  RETURN money_result('ending', p_operation);
END $$;

--
-- Name: money_voided(uuid, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.money_voided(p_operation uuid, p_answer jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
  -- What had been taken and was given back.
  v_back bigint := nullif((p_answer #>> '{view,captured}')::bigint, 0);
  -- The order ended without its buyer's doing although they had paid, or were about to.
  v_failed boolean := false;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  IF m.state NOT IN ('open','waiting','unknown','ending') OR m.kind NOT IN ('open','authorise') THEN
    RETURN money_result('settled', p_operation);
  END IF;
  UPDATE money_operations
  SET state = 'voided', answer = coalesce(p_answer, answer), due_at = NULL, claimed_until = NULL, updated_at = clock_timestamp(),
      attention = CASE WHEN attention NOT IN ('void_refused','refund_refused') AND decision IS NULL THEN attention END,
      check_at = CASE WHEN v_back IS NOT NULL THEN refund_check_after(checks, clock_timestamp()) END
  WHERE operation_id = p_operation;
  UPDATE money_operations SET attention = NULL
  WHERE order_id = o.order_id AND provider_object = m.provider_object AND attention = 'captured_after_refusal';
  IF m.provider_object IS NOT NULL AND m.provider_object IS DISTINCT FROM o.provider_object THEN
    PERFORM order_note(o.order_id, 'stray_voided', o.state, o.state,
                       jsonb_build_object('operation', p_operation, 'object', m.provider_object));
  ELSE
    UPDATE money_operations SET state = 'voided', updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
    IF o.state = 'voiding' THEN
      UPDATE orders SET state = 'closed', updated_at = clock_timestamp() WHERE order_id = o.order_id;
      PERFORM order_note(o.order_id, 'voided', 'voiding', 'closed', jsonb_build_object('operation', p_operation));
      v_failed := o.reason IS DISTINCT FROM 'closed_by_buyer';
    ELSIF o.state = 'reserved' AND m.state = 'ending' THEN
      v_seats := order_end(o, 'close', 'closed', m.end_reason, NULL);
      v_failed := m.kind = 'authorise' AND m.end_reason IN ('payment_mismatch','event_cancelled');
    ELSE
      IF o.state = 'reserved' THEN
        UPDATE orders SET provider_object = NULL, updated_at = clock_timestamp() WHERE order_id = o.order_id;
      END IF;
      PERFORM order_note(o.order_id, m.kind || '_voided', o.state, o.state, jsonb_build_object('operation', p_operation));
    END IF;
  END IF;
  SELECT * INTO o FROM orders WHERE order_id = o.order_id;
  IF m.end_reason = 'late_payment' THEN
    PERFORM order_happened(o, 'order.closed_late', jsonb_strip_nulls(jsonb_build_object('operation', p_operation, 'amount', v_back)));
  ELSIF v_back IS NOT NULL THEN
    PERFORM order_happened(o, 'order.money_returned', jsonb_build_object('operation', p_operation, 'amount', v_back));
  ELSIF v_failed THEN
    PERFORM order_happened(o, 'order.failed', jsonb_build_object('operation', p_operation));
  END IF;
  IF v_back IS NOT NULL THEN
    PERFORM order_note(o.order_id, 'money_returned', o.state, o.state, jsonb_build_object(
      'operation', p_operation, 'object', m.provider_object, 'amount', v_back));
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
    'answer', m.answer, 'attention', m.attention, 'decision', m.decision)
$$;

--
-- Name: operator_accept(uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_accept(p_operation uuid, p_actor text, p_note text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_refuses text;
  v_captured bigint;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'accept');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  v_captured := (m.answer #>> '{view,captured}')::bigint;
  IF m.kind <> 'capture' OR m.state <> 'unknown' OR o.state <> 'confirmed'
     OR coalesce(m.attention NOT IN ('captured_amount','payment_mismatch'), true)
     OR coalesce(m.answer #>> '{view,status}' <> 'captured' OR v_captured NOT BETWEEN 1 AND o.amount
                 OR m.answer #>> '{view,refunded}' <> '0' OR m.answer #>> '{view,currency}' <> o.currency
                 OR m.answer #>> '{view,object}' <> m.provider_object, true) THEN
    RETURN operator_result('not_possible', o.order_id);
  END IF;
  UPDATE money_operations SET state = 'done', amount = v_captured, due_at = NULL, claimed_until = NULL, attention = NULL,
                              decision = operator_decision('accept', p_actor), updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  UPDATE orders SET state = 'paid', accepted_difference = accepted_difference + v_captured - o.amount, updated_at = clock_timestamp()
  WHERE order_id = o.order_id RETURNING * INTO o;
  PERFORM order_happened(o, 'order.confirmed', jsonb_build_object('operation', p_operation));
  PERFORM order_note(o.order_id, 'capture', 'confirmed', 'paid', jsonb_build_object('operation', p_operation, 'accepted', v_captured));
  PERFORM operator_audit(p_actor, 'accept', o, jsonb_build_object('operation', p_operation, 'captured', v_captured, 'note', p_note));
  RETURN operator_result('done', o.order_id);
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
    capture_before timestamp with time zone,
    former_hold_id uuid,
    access_code uuid,
    forgotten_at timestamp with time zone,
    accepted_difference bigint DEFAULT 0 NOT NULL,
    CONSTRAINT orders_amount_check CHECK ((amount >= 0))
);

--
-- Name: operator_audit(text, text, public.orders, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_audit(p_actor text, p_action text, o public.orders, p_detail jsonb) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES (p_actor, 'payment_' || p_action, o.event_no, jsonb_strip_nulls(jsonb_build_object('order', o.order_id) || p_detail))
$$;

--
-- Name: operator_decision(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_decision(p_action text, p_actor text) RETURNS jsonb
    LANGUAGE sql
    AS $$
  SELECT jsonb_build_object('action', p_action, 'actor', p_actor, 'at', epoch_ms(clock_timestamp()))
$$;

--
-- Name: operator_dismiss(uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_dismiss(p_operation uuid, p_actor text, p_note text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_refuses text;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'dismiss');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  IF m.state NOT IN ('done','refused','voided') OR m.attention IS NULL THEN RETURN operator_result('not_possible', o.order_id); END IF;
  UPDATE money_operations SET attention = NULL, decision = operator_decision('dismiss', p_actor), updated_at = clock_timestamp()
  WHERE operation_id = p_operation;
  PERFORM operator_audit(p_actor, 'dismiss', o,
    jsonb_build_object('operation', p_operation, 'attention', m.attention, 'note', p_note));
  RETURN operator_result('done', o.order_id);
END $$;

--
-- Name: operator_dismiss_events(text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_dismiss_events(p_object text, p_actor text, p_note text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
  UPDATE provider_events SET note = 'dismissed' WHERE object = p_object AND note = 'unknown_object';
  IF NOT FOUND THEN
    RETURN CASE WHEN EXISTS (SELECT 1 FROM provider_events WHERE object = p_object AND note = 'dismissed')
           THEN 'repeated' ELSE 'not_possible' END;
  END IF;
  INSERT INTO audit_log (actor, action, detail)
    VALUES (p_actor, 'payment_dismiss', jsonb_build_object('object', p_object, 'note', p_note));
  RETURN 'done';
END $$;

--
-- Name: operator_give_back(uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_give_back(p_operation uuid, p_actor text, p_end_key text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb := '[]';
  v_decision jsonb := operator_decision('give_back', p_actor);
  v_refuses text;
  v_taken bigint;
BEGIN
  PERFORM order_lock_limits(orders.event_no, orders.account, orders.instrument ->> 'fingerprint')
  FROM orders JOIN money_operations USING (order_id) WHERE operation_id = p_operation;
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'give_back');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  IF m.kind = 'capture' AND m.state IN ('open','unknown') AND o.state = 'confirmed' THEN
    v_taken := greatest((m.answer #>> '{view,captured}')::bigint - (m.answer #>> '{view,refunded}')::bigint, 0);
    UPDATE money_operations SET state = 'refused', due_at = NULL, claimed_until = NULL, attention = NULL, decision = v_decision,
                                updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    PERFORM order_count_limits(o, -cardinality(o.seats));
    v_seats := order_end(o, 'capture_refused', 'cancelled', CASE WHEN (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled'
                         THEN 'event_cancelled' ELSE 'capture_refused' END, NULL);
    UPDATE money_operations SET state = 'ending', end_key = p_end_key, end_reason = 'capture_refused', due_at = clock_timestamp(),
           claimed_until = NULL, attempts = 0, first_sent_at = NULL, decision = v_decision, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'authorise' AND state = 'done';
    SELECT * INTO o FROM orders WHERE order_id = o.order_id;
    PERFORM order_happened(o, 'order.cancelled', jsonb_strip_nulls(jsonb_build_object(
      'operation', p_operation, 'amount', nullif(v_taken, 0))));
  ELSIF m.attention = 'payment_mismatch' AND m.kind IN ('open','authorise') AND m.state IN ('open','waiting','unknown','ending') THEN
    UPDATE money_operations
    SET state = 'ending', due_at = clock_timestamp(), claimed_until = NULL, decision = v_decision, updated_at = clock_timestamp(),
        end_key = CASE WHEN m.state = 'ending' THEN end_key ELSE p_end_key END,
        end_reason = coalesce(end_reason, 'payment_mismatch'),
        attempts = CASE WHEN m.state = 'ending' THEN attempts ELSE 0 END,
        first_sent_at = CASE WHEN m.state = 'ending' THEN first_sent_at END
    WHERE operation_id = p_operation;
    PERFORM order_note(o.order_id, m.kind || '_ending', o.state, o.state,
                       jsonb_build_object('operation', p_operation, 'reason', 'payment_mismatch'));
  ELSE
    RETURN operator_result('not_possible', o.order_id);
  END IF;
  PERFORM operator_audit(p_actor, 'give_back', o, jsonb_build_object('operation', p_operation, 'captured', v_taken));
  RETURN operator_result('done', o.order_id, v_seats);
END $$;

--
-- Name: operator_give_up_refund(uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_give_up_refund(p_operation uuid, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  m money_operations;
  v_refuses text;
BEGIN
  m := money_lock(p_operation);
  v_refuses := operator_refuses(m, 'retry');
  -- Decided before, but the next attempt was never made: the decision is taken again.
  IF v_refuses = 'repeated' AND EXISTS (SELECT 1 FROM refunds WHERE refund_id = m.refund_id AND state = 'failed')
     AND NOT EXISTS (SELECT 1 FROM money_operations later WHERE later.refund_id = m.refund_id AND later.created_at > m.created_at) THEN
    RETURN operator_result('done', m.order_id);
  END IF;
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, m.order_id); END IF;
  IF m.kind <> 'refund' OR m.state NOT IN ('waiting','unknown') OR m.attention IS DISTINCT FROM 'refund_missing' THEN
    RETURN operator_result('not_possible', m.order_id);
  END IF;
  PERFORM refund_settle(p_operation, 'refused', NULL, NULL, 'the provider does not list it any more', NULL, NULL);
  UPDATE money_operations SET decision = operator_decision('retry', p_actor) WHERE operation_id = p_operation;
  RETURN operator_result('done', m.order_id);
END $$;

--
-- Name: operator_look(uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_look(p_operation uuid, p_object text, p_actor text) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_object text := p_object;
BEGIN
  IF p_operation IS NOT NULL THEN
    m := money_lock(p_operation);
    SELECT * INTO o FROM orders WHERE order_id = m.order_id;
    v_object := m.provider_object;
    UPDATE money_operations SET due_at = clock_timestamp()
    WHERE operation_id = p_operation AND due_at IS NOT NULL
      AND (claimed_until IS NULL OR claimed_until <= clock_timestamp());
  END IF;
  -- Events that were given up are looked at by themselves.
  UPDATE provider_events SET processed_at = NULL, note = NULL, due_at = clock_timestamp(), claimed_until = NULL
  WHERE object = v_object AND note = 'unknown_object';
  IF NOT FOUND AND v_object IS NOT NULL THEN
    INSERT INTO provider_events (provider_event_id, type, object, due_at)
    VALUES ('look:' || gen_random_uuid(), 'look', v_object, clock_timestamp());
  END IF;
  PERFORM operator_audit(p_actor, 'look', o, jsonb_build_object('operation', p_operation, 'object', v_object));
END $$;

--
-- Name: operator_refuses(public.money_operations, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_refuses(m public.money_operations, p_action text) RETURNS text
    LANGUAGE sql
    AS $$
  SELECT CASE
    WHEN m.decision ->> 'action' = p_action AND (m.attention IS NULL OR p_action = 'give_back') THEN 'repeated'
    WHEN m.claimed_until > clock_timestamp() AND m.due_at IS NOT NULL THEN 'busy' END
$$;

--
-- Name: operator_result(text, uuid, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_result(p_kind text, p_order uuid, p_seats jsonb DEFAULT '[]'::jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('kind', p_kind, 'order', order_json(o), 'seats', p_seats) FROM orders o WHERE o.order_id = p_order
$$;

--
-- Name: operator_settle(uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.operator_settle(p_operation uuid, p_actor text, p_note text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; m money_operations;
  v_refuses text;
  v_seats jsonb := '[]';
  v_difference bigint := 0;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  v_refuses := operator_refuses(m, 'settle');
  IF v_refuses IS NOT NULL THEN RETURN operator_result(v_refuses, o.order_id); END IF;
  IF m.kind <> 'refund' AND m.state = 'ending' THEN
    v_difference := greatest(coalesce((m.answer #>> '{view,captured}')::bigint - (m.answer #>> '{view,refunded}')::bigint, 0), 0);
    UPDATE money_operations SET attention = NULL, decision = operator_decision('settle', p_actor)
    WHERE operation_id = p_operation;
    v_seats := money_voided(p_operation, NULL) -> 'seats';
  ELSIF m.kind = 'refund' AND m.state IN ('waiting','unknown') THEN
    -- Of a refund that differs, what the provider shows was given back.
    IF m.attention = 'refund_mismatch' AND m.answer #>> '{refund,status}' <> 'failed' THEN
      v_difference := -(m.answer #>> '{refund,amount}')::bigint;
    END IF;
    UPDATE money_operations SET state = 'refused', due_at = NULL, claimed_until = NULL, attention = NULL,
                                decision = operator_decision('settle', p_actor), updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    UPDATE refunds SET state = 'elsewhere', detail = p_note, retry_asked = NULL, updated_at = clock_timestamp()
    WHERE refund_id = m.refund_id;
    PERFORM order_note(o.order_id, 'refund_elsewhere', o.state, o.state, jsonb_build_object('refund', m.refund_id, 'note', p_note));
  ELSIF m.attention = 'refunded_twice' THEN
    v_difference := -m.amount;
    UPDATE money_operations SET attention = NULL, decision = operator_decision('settle', p_actor), updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
  ELSE
    RETURN operator_result('not_possible', o.order_id);
  END IF;
  UPDATE orders SET accepted_difference = accepted_difference + v_difference WHERE order_id = o.order_id;
  PERFORM operator_audit(p_actor, 'settle', o,
    jsonb_build_object('operation', p_operation, 'difference', v_difference, 'note', p_note));
  RETURN operator_result('done', o.order_id, v_seats);
END $$;

--
-- Name: order_abandon(uuid, uuid, integer, smallint, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_abandon(p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_visitor text, p_holder text) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
  IF v_order.seats = '{}' THEN RETURN '{"kind":"abandoned"}'; END IF;
  RETURN jsonb_build_object('kind', 'ordered', 'order', order_json(v_order));
END $$;

--
-- Name: order_bounds_reached(integer, uuid, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_bounds_reached(p_event integer, p_hold uuid, p_visitor text, p_holder text, p_seats integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_max integer := order_event_limit(p_event, 'visitorSeatsMax'); v_used integer; v_open uuid;
BEGIN
  IF v_max IS NOT NULL THEN
    SELECT count(*), (array_agg(o.order_id) FILTER (WHERE o.is_open))[1] INTO v_used, v_open
    FROM (SELECT order_id, true AS is_open FROM orders
          WHERE event_no = p_event AND visitor = p_visitor AND state IN ('reserved','authorised') AND hold_id <> p_hold
          UNION ALL
          SELECT order_id, false FROM orders WHERE event_no = p_event AND visitor = p_visitor AND state IN ('confirmed','paid') AND hold_id <> p_hold) o,
      LATERAL (SELECT FROM tickets t WHERE t.event_no = p_event AND t.order_id = o.order_id AND t.status <> 'cancelled') t;
    IF v_used + p_seats > v_max AND NOT limit_is_lifted(p_event, p_holder, p_visitor) THEN
      -- Paying or closing that order is what the buyer can do.
      IF v_open IS NOT NULL THEN RETURN jsonb_build_object('kind', 'open_order', 'order', v_open); END IF;
      RETURN jsonb_build_object('kind', 'limit', 'limit', 'visitor', 'max', v_max, 'used', v_used);
    END IF;
  END IF;
  IF p_holder <> p_visitor THEN
    v_max := coalesce(order_event_limit(p_event, 'holdSeatsMax'), 6);
    SELECT coalesce(sum(cardinality(seats)), 0) INTO v_used FROM orders
    WHERE event_no = p_event AND account = p_holder AND state IN ('reserved','authorised') AND hold_id <> p_hold;
    IF v_used + p_seats > v_max THEN
      RETURN jsonb_build_object('kind', 'limit', 'limit', 'holder', 'max', v_max, 'used', v_used);
    END IF;
  END IF;
  RETURN NULL;
END $$;

--
-- Name: order_capture_window(uuid, interval); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_capture_window(p_order uuid, p_ending interval) RETURNS text
    LANGUAGE sql
    AS $$
  SELECT CASE WHEN capture_before <= clock_timestamp() THEN 'over'
              WHEN capture_before <= clock_timestamp() + p_ending THEN 'ending' ELSE 'open' END
  FROM orders WHERE order_id = p_order
$$;

--
-- Name: order_close(uuid, text, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_close(p_order uuid, p_reason text, p_end_key text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; m money_operations;
  v_seats jsonb;
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_mine boolean;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  IF o.state IN ('closed','cancelled') THEN
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', '[]'::jsonb);
  END IF;
  IF o.state <> 'reserved' THEN RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o)); END IF;
  IF p_reason = 'not_paid_in_time' AND clock_timestamp() < o.payment_deadline THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(o));
  END IF;
  SELECT * INTO m FROM money_operations
  WHERE order_id = p_order AND state IN ('open','waiting','unknown','ending') FOR UPDATE;
  IF m.operation_id IS NULL THEN
    v_seats := order_end(o, 'close', 'closed', p_reason, p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF p_reason = 'closed_by_buyer' AND m.kind = 'open' AND m.state IN ('unknown','ending') AND m.provider_object IS NULL THEN
    UPDATE money_operations SET state = 'voided', due_at = NULL, claimed_until = NULL, updated_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
    v_seats := order_end(o, 'close', 'closed', p_reason, p_end_key);
    SELECT * INTO o FROM orders WHERE order_id = p_order;
    RETURN jsonb_build_object('kind', 'closed', 'order', order_json(o), 'seats', v_seats);
  END IF;
  IF p_reason <> 'closed_by_buyer' OR m.state NOT IN ('waiting','ending') THEN
    RETURN jsonb_build_object('kind', 'under_way', 'order', order_json(o));
  END IF;
  v_mine := m.state = 'waiting' OR m.claimed_until IS NULL OR m.claimed_until <= clock_timestamp();
  IF m.state = 'waiting' THEN
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = p_reason, attempts = 1, first_sent_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
  ELSE
    -- Whatever ended it before: money that comes now buys nothing any more.
    UPDATE money_operations SET end_reason = p_reason WHERE operation_id = m.operation_id;
  END IF;
  IF v_mine THEN
    UPDATE money_operations
    SET due_at = v_until, claimed_by = p_owner, claimed_until = v_until, updated_at = clock_timestamp()
    WHERE operation_id = m.operation_id;
  END IF;
  v_seats := order_end(o, 'close_pending', 'voiding', p_reason, NULL);
  RETURN money_result('voiding', m.operation_id, v_seats) || CASE WHEN v_mine THEN '{}' ELSE '{"operation":null}'::jsonb END;
END $$;

--
-- Name: order_code_follows(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_code_follows() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_change integer := order_uses_code(NEW)::integer - (order_uses_code(OLD))::integer;
BEGIN
  IF v_change = 0 THEN RETURN NULL; END IF;
  UPDATE access_codes SET used = used + v_change
  WHERE code_id = NEW.access_code AND uses_max IS NOT NULL AND used + v_change BETWEEN 0 AND uses_max;
  IF NOT FOUND AND v_change > 0
     AND NOT EXISTS (SELECT 1 FROM access_codes WHERE code_id = NEW.access_code AND uses_max IS NULL) THEN
    RAISE unique_violation USING MESSAGE = 'used_up', CONSTRAINT = 'access_code_uses';
  END IF;
  RETURN NULL;
END $$;

--
-- Name: order_confirm(uuid, uuid, text, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_confirm(p_order uuid, p_capture uuid, p_capture_key text, p_end_key text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
  -- An object that came from nowhere (money_stray) is still being cancelled: one operation at a time. The authorisation is due
  -- again when its lease ends.
  IF EXISTS (SELECT 1 FROM money_operations
             WHERE order_id = p_order AND kind <> 'refund' AND state IN ('open','waiting','unknown','ending')) THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o));
  END IF;
  SELECT * INTO v_authorise FROM money_operations
  WHERE order_id = p_order AND kind = 'authorise' AND state = 'done' FOR UPDATE;
  PERFORM 1 FROM holds WHERE event_no = o.event_no AND hold_id = o.hold_id FOR UPDATE;
  v_reason := CASE
    WHEN (SELECT phase FROM events WHERE event_no = o.event_no) = 'cancelled' THEN 'event_cancelled'
    WHEN NOT order_seats_are(o, 'reserved')
      OR (SELECT count(*) FROM tickets WHERE event_no = o.event_no AND order_id = p_order AND status = 'reserved')
         <> cardinality(o.seats) THEN 'seats_lost'
    ELSE order_limit_reached(o)
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
  v_seats jsonb;
BEGIN
  IF p_end_key IS NOT NULL THEN
    UPDATE money_operations
    SET state = 'ending', end_key = p_end_key, end_reason = p_reason, due_at = clock_timestamp(), claimed_until = NULL,
        attempts = 0, first_sent_at = NULL, updated_at = clock_timestamp()
    WHERE order_id = o.order_id AND kind = 'open' AND state = 'done' AND provider_object = o.provider_object;
  END IF;
  v_seats := order_free(o);
  UPDATE orders SET state = p_to, reason = coalesce(p_reason, reason), updated_at = clock_timestamp()
  WHERE order_id = o.order_id;
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
  UPDATE hold_ends SET ends_at = clock_timestamp() WHERE hold_id = o.hold_id AND event_no = o.event_no;
  PERFORM order_seats_are(o, 'available');
  RETURN order_decide_seats(o, 'available');
END $$;

--
-- Name: order_happened(public.orders, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_happened(o public.orders, p_what text, p_detail jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM order_told(o, p_what, p_detail);
  PERFORM job_enqueue('figures', jsonb_build_object('event', o.event_no), 'figures/' || o.event_no, 5000);
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
    'captureBefore', epoch_ms(o.capture_before),
    'providerObject', o.provider_object, 'instrument', o.instrument, 'createdAt', epoch_ms(o.created_at))
$$;

--
-- Name: order_left(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_left(o public.orders) RETURNS bigint
    LANGUAGE sql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
  SELECT greatest(0, order_taken(o) - r.decided - greatest(r.replaced, v.refunded) - v.disputed)::bigint
  FROM (SELECT coalesce(sum(amount) FILTER (WHERE state NOT IN ('failed','elsewhere')), 0) AS decided,
               coalesce(sum(amount) FILTER (WHERE state IN ('failed','elsewhere')), 0) AS replaced
        FROM refunds WHERE order_id = o.order_id) r,
       (SELECT coalesce(sum(taken) FILTER (WHERE kind = 'refund'), 0) AS refunded,
               coalesce(sum(taken) FILTER (WHERE kind <> 'refund'), 0) AS disputed
        FROM reversals WHERE order_id = o.order_id) v
$$;

--
-- Name: order_limit_reached(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_limit_reached(o public.orders) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_reason text := CASE
    WHEN order_over_limit(o.event_no, 'account', o.account, cardinality(o.seats), 'accountSeatsMax') THEN 'limit'
    WHEN order_over_limit(o.event_no, 'instrument', o.instrument ->> 'fingerprint', cardinality(o.seats), 'instrumentSeatsMax')
      THEN 'card_limit' END;
BEGIN
  IF v_reason IS NOT NULL AND limit_is_lifted(o.event_no, o.account, o.visitor) THEN RETURN NULL; END IF;
  RETURN v_reason;
END $$;

--
-- Name: order_lock_limits(integer, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_lock_limits(p_event integer, p_account text, p_fingerprint text) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_wanted integer := (p_account IS NOT NULL)::integer + (p_fingerprint IS NOT NULL)::integer;
  v_locked integer := -1;
BEGIN
  WHILE v_locked < v_wanted LOOP
    INSERT INTO limit_counts (event_no, kind, subject, seats)
    SELECT p_event, kind, subject, 0
    FROM (VALUES ('account', p_account), ('instrument', p_fingerprint)) AS wanted (kind, subject)
    WHERE subject IS NOT NULL ORDER BY kind, subject
    ON CONFLICT DO NOTHING;
    PERFORM 1 FROM limit_counts
    WHERE event_no = p_event
      AND ((kind = 'account' AND subject = p_account) OR (kind = 'instrument' AND subject = p_fingerprint))
    ORDER BY kind, subject FOR UPDATE;
    GET DIAGNOSTICS v_locked = ROW_COUNT;
  END LOOP;
END $$;

--
-- Name: order_mail_owed(public.orders, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_mail_owed(o public.orders, p_what text, p_detail jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
-- Name: order_pay_until(integer, uuid, text, text, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_pay_until(p_event integer, p_hold uuid, p_visitor text, p_holder text, p_deadline timestamp with time zone, p_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_rule jsonb := (SELECT settings -> 'cooldown' FROM events WHERE event_no = p_event); v_since timestamptz;
BEGIN
  IF jsonb_typeof(v_rule) IS DISTINCT FROM 'object' THEN RETURN p_at + interval '10 minutes'; END IF;
  v_since := p_at - (v_rule ->> 'forgetMs')::float8 * interval '1 millisecond';
  IF NOT EXISTS (
    SELECT 1 FROM (VALUES ('visitor', p_visitor, 1), ('account', p_holder, 1),
                          ('address', (SELECT address FROM hold_ends WHERE hold_id = p_hold AND event_no = p_event), 6)
                  ) k (kind, subject, least)
      JOIN cooldowns c ON c.event_no = p_event AND c.kind = k.kind AND c.subject = k.subject
    WHERE c.unpaid >= k.least AND c.last_at > v_since)
  THEN RETURN p_at + interval '10 minutes'; END IF;
  RETURN least(p_at + interval '10 minutes', greatest(p_deadline, p_at + interval '5 minutes'));
END $$;

--
-- Name: order_reserve(uuid, uuid, integer, smallint, bigint, timestamp with time zone, text, text, text, jsonb, jsonb, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_reserve(p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamp with time zone, p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  v_phase text; v_mode event_partitions; v_hold holds; v_order orders; v_seats integer[]; v_amount bigint;
  v_used integer; v_max integer; v_deadline timestamptz := p_deadline; v_free integer; v_decided jsonb; v_limit jsonb;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
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
  IF v_max IS NOT NULL OR p_holder <> p_visitor THEN
    PERFORM order_lock_limits(p_event, p_account, NULL);
    SELECT coalesce(sum(cardinality(seats)), 0)
           + coalesce((SELECT seats FROM limit_counts WHERE event_no = p_event AND kind = 'account' AND subject = p_account), 0)
    INTO v_used FROM orders WHERE event_no = p_event AND account = p_account AND state IN ('reserved','authorised');
  END IF;

  IF v_mode.mode = 'postgres' THEN
    SELECT * INTO v_hold FROM holds WHERE event_no = p_event AND hold_id = p_hold FOR UPDATE;
    -- A repeat that waited here for the first request's end finds its order now.
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
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
  IF v_max IS NOT NULL AND v_used + cardinality(v_seats) > v_max AND NOT limit_is_lifted(p_event, p_account, p_visitor) THEN
    RETURN jsonb_build_object('kind', 'limit', 'limit', 'account', 'max', v_max, 'used', v_used);
  END IF;
  v_limit := order_bounds_reached(p_event, p_hold, p_visitor, p_holder, cardinality(v_seats));
  IF v_limit IS NOT NULL THEN RETURN v_limit; END IF;

  INSERT INTO orders (order_id, event_no, partition, hold_id, visitor, holder, account, buyer, seats, lines, order_fee,
                      amount, currency, state, payment_deadline, created_at)
  SELECT p_order, p_event, p_partition, p_hold, p_visitor, p_holder, p_account, p_buyer, v_seats, p_lines, p_order_fee,
         v_amount, p_currency, 'reserved', order_pay_until(p_event, p_hold, p_visitor, p_holder, v_deadline, at), at
  FROM date_trunc('milliseconds', clock_timestamp()) at
  ON CONFLICT DO NOTHING RETURNING * INTO v_order;
  IF v_order.order_id IS NULL THEN
    SELECT * INTO v_order FROM orders WHERE hold_id = p_hold OR order_id = p_order;
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
    ON CONFLICT ((CASE WHEN status <> 'cancelled' THEN seat_no END), event_no) DO NOTHING;
    GET DIAGNOSTICS v_free = ROW_COUNT;
  ELSE
    v_free := 0;
  END IF;
  IF v_free < cardinality(v_seats) THEN
    DELETE FROM tickets WHERE event_no = p_event AND order_id = p_order;
    DELETE FROM orders WHERE order_id = p_order;
    RETURN '{"kind":"hold_gone"}';
  END IF;
  WITH changed AS (
    UPDATE seats s
    SET state = 'reserved', version = s.version + 1, order_id = p_order, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
    WHERE s.event_no = p_event AND s.seat_no = ANY (v_seats)
    RETURNING s.seat_no, s.version)
  SELECT jsonb_agg(jsonb_build_object('seat', seat_no, 'version', version, 'state', 'reserved') ORDER BY seat_no)
  INTO v_decided FROM changed;
  UPDATE holds SET state = 'ordered' WHERE event_no = p_event AND hold_id = p_hold AND state = 'live';
  PERFORM order_note(p_order, 'reserve', NULL, 'reserved');
  RETURN jsonb_build_object('kind', 'reserved', 'order', order_json(v_order), 'repeated', false, 'seats', v_decided);
END $$;

--
-- Name: order_reserve_with_code(uuid, uuid, uuid, integer, smallint, bigint, timestamp with time zone, text, text, text, jsonb, jsonb, bigint, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_reserve_with_code(p_code uuid, p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamp with time zone, p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  v_result jsonb;
  v_code access_codes;
  v_why text;
  v_constraint text;
BEGIN
  BEGIN
    v_result := order_reserve(p_order, p_hold, p_event, p_partition, p_epoch, p_deadline, p_visitor, p_holder, p_account,
                              p_buyer, p_lines, p_order_fee, p_currency);
    IF v_result ->> 'kind' <> 'reserved' OR (v_result ->> 'repeated')::boolean THEN RETURN v_result; END IF;
    SELECT * INTO v_code FROM access_codes WHERE code_id = p_code AND event_no = p_event;
    v_why := CASE WHEN NOT FOUND THEN 'unknown'
      WHEN v_code.revoked_at IS NOT NULL OR v_code.until <= clock_timestamp() THEN 'ended'
      WHEN v_code.seats_max < jsonb_array_length(p_lines) THEN 'seats' END;
    IF v_why IS NOT NULL THEN
      RAISE unique_violation USING MESSAGE = v_why, CONSTRAINT = 'access_code_uses';
    END IF;
    UPDATE orders SET access_code = p_code WHERE order_id = p_order;
    RETURN v_result;
  EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME, v_why = MESSAGE_TEXT;
    IF v_constraint IS DISTINCT FROM 'access_code_uses' THEN RAISE; END IF;
    RETURN jsonb_build_object('kind', 'code', 'why', v_why, 'seatsMax', v_code.seats_max);
  END;
END $$;

--
-- Name: order_retake(public.orders, uuid, bigint, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_retake(o public.orders, p_hold uuid, p_epoch bigint, p_deadline timestamp with time zone) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_mode text := (SELECT mode FROM event_partitions WHERE event_no = o.event_no AND partition = o.partition);
  v_hold holds;
  v_deadline timestamptz := p_deadline;
  v_max integer := order_event_limit(o.event_no, 'accountSeatsMax');
  v_used integer;
  v_free integer;
BEGIN
  IF cardinality(o.seats) = 0
     OR (SELECT phase FROM events WHERE event_no = o.event_no) NOT IN ('open','paused','sold_out','closed')
     OR EXISTS (SELECT 1 FROM orders WHERE event_no = o.event_no AND visitor = o.visitor AND state IN ('reserved','authorised'))
  THEN RETURN NULL; END IF;
  IF v_max IS NOT NULL THEN
    SELECT coalesce(sum(cardinality(seats)), 0)
           + coalesce((SELECT seats FROM limit_counts
                       WHERE event_no = o.event_no AND kind = 'account' AND subject = o.account), 0)
    INTO v_used FROM orders WHERE event_no = o.event_no AND account = o.account AND state IN ('reserved','authorised');
    IF v_used + cardinality(o.seats) > v_max AND NOT limit_is_lifted(o.event_no, o.account, o.visitor) THEN RETURN NULL; END IF;
  END IF;
  IF v_mode = 'postgres' THEN
    SELECT * INTO v_hold FROM holds WHERE event_no = o.event_no AND hold_id = p_hold;
    IF v_hold.hold_id IS NULL OR v_hold.state <> 'live' OR v_hold.epoch <> p_epoch
       OR v_hold.order_id IS DISTINCT FROM o.order_id OR v_hold.seats IS DISTINCT FROM o.seats THEN RETURN NULL; END IF;
    v_deadline := least(v_hold.deadline, p_deadline);
  END IF;
  SELECT count(*) FILTER (WHERE s.state = 'available' AND CASE
           WHEN s.hold_until > clock_timestamp() AND s.hold_epoch = p_epoch THEN s.hold_id = p_hold
           ELSE v_mode <> 'postgres' END)
  INTO v_free
  FROM (SELECT * FROM seats WHERE event_no = o.event_no AND seat_no = ANY (o.seats) ORDER BY seat_no FOR UPDATE) s;
  IF v_free < cardinality(o.seats) OR clock_timestamp() >= v_deadline - interval '6 seconds' THEN RETURN NULL; END IF;
  INSERT INTO tickets (event_no, seat_no, order_id, status, price, fee, kind)
  SELECT o.event_no, (line ->> 'seat')::integer, o.order_id, 'reserved', (line ->> 'price')::bigint, (line ->> 'fee')::bigint,
         coalesce(line ->> 'kind', 'full')
  FROM jsonb_array_elements(o.lines) line ORDER BY (line ->> 'seat')::integer
  ON CONFLICT ((CASE WHEN status <> 'cancelled' THEN seat_no END), event_no) DO NOTHING;
  GET DIAGNOSTICS v_free = ROW_COUNT;
  IF v_free < cardinality(o.seats) THEN
    DELETE FROM tickets WHERE event_no = o.event_no AND order_id = o.order_id AND status = 'reserved';
    RETURN NULL;
  END IF;
  UPDATE seats SET order_id = o.order_id, hold_id = NULL, hold_until = NULL, hold_epoch = NULL
  WHERE event_no = o.event_no AND seat_no = ANY (o.seats);
  UPDATE holds SET state = 'ordered' WHERE event_no = o.event_no AND hold_id = p_hold AND state = 'live';
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
-- Name: order_taken(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_taken(o public.orders) RETURNS bigint
    LANGUAGE sql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
  SELECT coalesce((SELECT m.amount FROM money_operations m WHERE m.order_id = o.order_id AND m.kind = 'capture' AND m.state = 'done'),
                  o.amount)
$$;

--
-- Name: order_told(public.orders, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_told(o public.orders, p_what text, p_detail jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_refund uuid := (p_detail ->> 'refund')::uuid;
  v_cause text := concat_ws('/', o.order_id, coalesce(p_detail ->> 'refund', p_detail ->> 'operation'));
BEGIN
  PERFORM order_mail_owed(o, p_what, p_detail);
  IF NOT EXISTS (SELECT 1 FROM webhook_wanted(o.event_no, p_what)) THEN RETURN; END IF;
  PERFORM webhook_owe(o.event_no, p_what, CASE WHEN p_what NOT IN ('refund.succeeded','refund.failed') THEN v_cause END,
    jsonb_strip_nulls(jsonb_build_object('refund', webhook_refund(v_refund), 'returned',
      CASE WHEN p_what IN ('order.closed_late','order.money_returned') THEN coalesce((p_detail ->> 'amount')::bigint, 0) END))
    || jsonb_build_object('order', webhook_order(o)));
END $$;

--
-- Name: order_unforgettable(public.orders, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_unforgettable(o public.orders, p_nameless boolean) RETURNS text
    LANGUAGE sql STABLE
    AS $$
  SELECT CASE
    WHEN o.state NOT IN ('paid','closed','cancelled') OR EXISTS (
      SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.kind <> 'refund'
        AND (m.state IN ('open','waiting','unknown','ending') OR m.due_at IS NOT NULL)) THEN 'under_way'
    WHEN EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.order_id AND r.state IN ('open','unknown','pending'))
      OR (o.state = 'paid' AND EXISTS (
        SELECT 1 FROM event_cancellations c WHERE c.event_no = o.event_no AND c.state = 'running')) THEN 'refund_under_way'
    WHEN EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.order_id AND r.state = 'failed') THEN 'refund_failed'
    WHEN EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = o.order_id AND m.attention IS NOT NULL)
      OR EXISTS (SELECT 1 FROM reconcile_findings f WHERE f.settled_at IS NULL
                 AND (f.order_id = o.order_id OR f.object = o.provider_object)) THEN 'on_the_list'
    WHEN EXISTS (SELECT 1 FROM mails JOIN graphile_worker.jobs j ON j.key = 'mail/' || mail_id
                 WHERE mails.order_id = o.order_id AND j.locked_at IS NOT NULL) THEN 'mail_under_way'
    WHEN NOT p_nameless AND EXISTS (SELECT 1 FROM tickets t
                     WHERE t.event_no = o.event_no AND t.order_id = o.order_id AND t.status = 'sold')
      AND NOT (SELECT e.phase = 'cancelled' OR coalesce(e.performance_at < clock_timestamp() - interval '1 day', false)
               FROM events e WHERE e.event_no = o.event_no) THEN 'event_not_over' END
$$;

--
-- Name: order_unname_limits(text, text, public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_unname_limits(p_account text, p_fingerprint text, o public.orders) RETURNS void
    LANGUAGE sql
    AS $$
  DELETE FROM limit_counts
  WHERE event_no = o.event_no AND seats = 0 AND o.forgotten_at IS NOT NULL
    AND ((kind = 'account' AND subject = p_account AND subject <> o.account)
      OR (kind = 'instrument' AND subject = p_fingerprint AND subject IS DISTINCT FROM o.instrument ->> 'fingerprint'))
$$;

--
-- Name: order_uses_code(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.order_uses_code(o public.orders) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT o.access_code IS NOT NULL AND (o.state IN ('reserved','authorised','confirmed','paid')
    OR (o.state = 'cancelled' AND o.reason IS DISTINCT FROM 'capture_refused'))
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
  PERFORM FROM orders o WHERE o.event_no = p_event AND o.partition = p_partition AND o.state IN ('reserved','authorised')
   ORDER BY o.order_id FOR SHARE;
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
  UPDATE event_partitions e SET mode = 'redis', epoch = p_rebuild, run_ids = p_run_ids, rebuild_epoch = NULL, granted = 0,
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
-- Name: partition_granted(integer, smallint, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.partition_granted(p_event integer, p_partition smallint, p_epoch bigint, p_granted bigint) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE event_partitions SET granted = p_granted
   WHERE event_no = p_event AND partition = p_partition AND mode = 'redis' AND epoch = p_epoch AND granted < p_granted
$$;

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
         h.receipt_epoch, h.receipt_grant, h.address
    FROM holds h JOIN event_partitions p USING (event_no, partition)
    LEFT JOIN (SELECT hold_id, count(*) FROM seats
                WHERE event_no = p_event AND partition = p_partition AND state = 'available' AND hold_id IS NOT NULL
                GROUP BY hold_id) s ON s.hold_id = h.hold_id
   WHERE h.event_no = p_event AND h.partition = p_partition
     AND (h.state <> 'live' OR h.epoch = p.epoch) AND NOT hold_is_forgotten(h, clock_timestamp())
     AND (is_since(h.xmin, p_mark) OR (h.state = 'live' AND coalesce(s.count, 0) < cardinality(h.seats)))
  -- Without a mark all ids that led to an order are in it (0029). What ends between the mark and the move has a row.
  UNION ALL
  SELECT o.event_no, u.hold_id, o.partition, o.visitor, o.holder, '', '{}', o.created_at, o.created_at, 0, 0, o.order_id, 'ended',
         NULL, NULL, NULL
    FROM orders o CROSS JOIN LATERAL (VALUES (o.hold_id), (o.former_hold_id)) u (hold_id)
   WHERE p_mark IS NULL AND o.event_no = p_event AND o.partition = p_partition AND o.state NOT IN ('reserved','authorised')
     AND u.hold_id IS NOT NULL
     AND u.hold_id NOT IN (SELECT hold_id FROM holds h WHERE event_no = p_event AND NOT hold_is_forgotten(h, clock_timestamp()))
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
    granted bigint DEFAULT 0 NOT NULL,
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
           'grant', h.grant_no, 'order', h.order_id, 'address', h.address, 'state', h.state)), '[]')
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
    WHEN p_expected IN ('scheduled','pre_queue') AND p_next = 'open' THEN event_opens_at(v_event) <= clock_timestamp()
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
-- Name: process_report(text, text[], bigint, jsonb, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.process_report(p_process text, p_roles text[], p_up_ms bigint, p_parts jsonb, p_kept_ms bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  INSERT INTO process_health (process, roles, started_at, reported_at, parts)
  VALUES (p_process, p_roles, v_now - p_up_ms * interval '1 millisecond', v_now, p_parts)
  ON CONFLICT (process) DO UPDATE SET reported_at = excluded.reported_at, parts = excluded.parts;
  DELETE FROM process_health WHERE reported_at < v_now - p_kept_ms * interval '1 millisecond';
  RETURN v_now;
END $$;

--
-- Name: projection_orders(integer, integer, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.projection_orders(p_event integer, p_within_ms integer, p_open boolean) RETURNS TABLE(partition smallint, ordered uuid[], ended uuid[])
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    AS $$
  SELECT t.partition,
         coalesce(array_agg(t.hold_id) FILTER (WHERE t.state IN ('reserved','authorised')), '{}'),
         coalesce(array_agg(t.hold_id) FILTER (WHERE t.state NOT IN ('reserved','authorised')), '{}')
    FROM (SELECT o.order_id, o.partition, o.hold_id, o.state FROM orders o
           WHERE o.event_no + 0 = p_event AND o.updated_at > now() - p_within_ms * interval '1 millisecond'
             AND NOT (p_open AND o.state IN ('reserved','authorised'))
          UNION ALL
          SELECT o.order_id, o.partition, o.hold_id, o.state FROM orders o
           WHERE p_open AND o.event_no = p_event AND o.state IN ('reserved','authorised')) t
   GROUP BY t.partition
$$;

--
-- Name: provider_events_claim(text, integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.provider_events_claim(p_owner text, p_limit integer, p_lease_ms integer) RETURNS TABLE(object text, "order" uuid, events text[], types text[], attempts integer, "ageMs" double precision)
    LANGUAGE sql
    AS $$
  WITH longest AS (
    -- A bounded number, so that a flood is not read as a whole for each handful of it.
    SELECT e.object, e.due_at FROM provider_events e
    WHERE e.due_at <= clock_timestamp() AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
    ORDER BY e.due_at LIMIT 1000),
  due AS (SELECT l.object FROM longest l GROUP BY l.object ORDER BY min(l.due_at) LIMIT p_limit),
  mine AS (
    SELECT e.provider_event_id FROM provider_events e JOIN due USING (object)
    WHERE e.due_at IS NOT NULL AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
    ORDER BY e.provider_event_id FOR UPDATE OF e SKIP LOCKED),
  claimed AS (
    UPDATE provider_events e
    SET claimed_by = p_owner, claimed_until = clock_timestamp() + p_lease_ms * interval '1 millisecond',
        due_at = clock_timestamp() + p_lease_ms * interval '1 millisecond', attempts = e.attempts + 1
    FROM mine WHERE e.provider_event_id = mine.provider_event_id
    RETURNING e.*)
  SELECT c.object,
         coalesce((SELECT o.order_id FROM orders o WHERE o.provider_object = c.object),
                  (SELECT m.order_id FROM money_operations m WHERE m.provider_object = c.object LIMIT 1)),
         array_agg(c.provider_event_id ORDER BY c.received_at, c.provider_event_id), array_agg(DISTINCT c.type), max(c.attempts),
         (extract(epoch FROM clock_timestamp() - min(c.received_at)) * 1000)::double precision
  FROM claimed c GROUP BY c.object ORDER BY min(c.received_at)
$$;

--
-- Name: provider_events_clean(double precision, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.provider_events_clean(p_kept_ms double precision, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_deleted integer;
BEGIN
  DELETE FROM provider_events
  WHERE provider_event_id IN (
    SELECT provider_event_id FROM provider_events
    WHERE processed_at <= clock_timestamp() - p_kept_ms * interval '1 millisecond'
    ORDER BY processed_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_deleted = ROW_COUNT;
  RETURN v_deleted;
END $$;

--
-- Name: provider_listing_due(text, double precision, double precision, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.provider_listing_due(p_owner text, p_every_ms double precision, p_back_ms double precision, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  l provider_listings;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO l FROM provider_listings
  WHERE (claimed_until IS NULL OR claimed_until <= v_now OR owner = p_owner)
    AND (to_at IS NOT NULL OR finished_at IS NULL OR finished_at <= v_now - p_every_ms * interval '1 millisecond')
  ORDER BY kind LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE provider_listings
  SET owner = p_owner, claimed_until = v_now + p_lease_ms * interval '1 millisecond',
      from_at = coalesce(from_at, listed_to - p_back_ms * interval '1 millisecond'), to_at = coalesce(to_at, v_now),
      counts = CASE WHEN to_at IS NULL THEN '{}' ELSE counts END
  WHERE kind = l.kind RETURNING * INTO l;
  RETURN jsonb_build_object('kind', l.kind, 'from', epoch_ms(l.from_at), 'to', epoch_ms(l.to_at), 'cursor', l.cursor,
                            'counts', l.counts);
END $$;

--
-- Name: provider_listing_page(text, text, text, jsonb, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.provider_listing_page(p_kind text, p_owner text, p_cursor text, p_counts jsonb, p_lease_ms integer) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
  UPDATE provider_listings
  SET cursor = p_cursor,
      counts = counts || (SELECT coalesce(jsonb_object_agg(key, coalesce((counts ->> key)::bigint, 0) + value::bigint), '{}')
                          FROM jsonb_each_text(p_counts)),
      claimed_until = CASE WHEN p_cursor IS NOT NULL THEN clock_timestamp() + p_lease_ms * interval '1 millisecond' END,
      listed_to = CASE WHEN p_cursor IS NULL THEN to_at ELSE listed_to END,
      finished_at = CASE WHEN p_cursor IS NULL THEN clock_timestamp() ELSE finished_at END,
      from_at = CASE WHEN p_cursor IS NOT NULL THEN from_at END,
      to_at = CASE WHEN p_cursor IS NOT NULL THEN to_at END
  WHERE kind = p_kind AND owner = p_owner AND to_at IS NOT NULL;
  RETURN FOUND;
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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
-- Name: reconcile_run_advance(uuid, text, text, text, text[], jsonb, jsonb, text[], integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reconcile_run_advance(p_run uuid, p_owner text, p_step text, p_cursor text, p_seen text[], p_counts jsonb, p_found jsonb, p_fitting text[], p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  r reconcile_runs;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO r FROM reconcile_runs WHERE run_id = p_run AND owner = p_owner AND step <> 'done' FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO reconcile_seen (run_id, object) SELECT p_run, o FROM unnest(p_seen) o ON CONFLICT DO NOTHING;
  INSERT INTO reconcile_findings AS f (kind, subject, order_id, object, says, detail)
  SELECT DISTINCT ON (kind, subject) kind, subject, "order", object, says, coalesce(detail, '{}')
  FROM jsonb_to_recordset(p_found) x (kind text, subject text, "order" uuid, object text, says text, detail jsonb)
  -- What an operator took off the list stays off it while nothing else is said of it.
  WHERE NOT EXISTS (SELECT 1 FROM reconcile_findings s
                    WHERE s.subject = x.subject AND s.kind = x.kind AND s.says = x.says AND s.settled_by <> 'reconcile')
  ORDER BY kind, subject
  ON CONFLICT (kind, subject) WHERE settled_at IS NULL DO UPDATE
    SET last_seen_at = v_now, says = excluded.says, detail = excluded.detail, order_id = excluded.order_id;
  -- One subject has one fault at a time: another one, or none, ends what was said of it before.
  UPDATE reconcile_findings f SET settled_at = v_now, settled_by = 'reconcile'
  WHERE f.settled_at IS NULL AND (f.subject = ANY (p_fitting)
    OR EXISTS (SELECT 1 FROM jsonb_to_recordset(p_found) x (kind text, subject text)
               WHERE x.subject = f.subject AND x.kind <> f.kind));
  UPDATE reconcile_runs
  SET step = p_step, cursor = p_cursor, claimed_until = v_now + p_lease_ms * interval '1 millisecond',
      finished_at = CASE WHEN p_step = 'done' THEN v_now END,
      counts = counts || (SELECT coalesce(jsonb_object_agg(key, coalesce((counts ->> key)::bigint, 0) + value::bigint), '{}')
                          FROM jsonb_each_text(p_counts))
  WHERE run_id = p_run RETURNING * INTO r;
  IF p_step = 'done' THEN DELETE FROM reconcile_seen WHERE run_id = p_run; END IF;
  RETURN reconcile_run_json(r);
END $$;

--
-- Name: reconcile_run_due(text, integer, integer, integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reconcile_run_due(p_owner text, p_every_ms integer, p_back_ms integer, p_young_ms integer, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  r reconcile_runs;
  v_now timestamptz := clock_timestamp();
BEGIN
  IF NOT pg_try_advisory_xact_lock(20261, 15) THEN RETURN NULL; END IF;
  SELECT * INTO r FROM reconcile_runs WHERE scheduled ORDER BY started_at DESC LIMIT 1 FOR UPDATE;
  -- One that comes to no end is given up: perhaps its cursor is not known to the provider any more.
  IF r.step <> 'done' AND r.started_at > v_now - 4 * p_every_ms * interval '1 millisecond' THEN
    IF r.claimed_until > v_now AND r.owner <> p_owner THEN RETURN NULL; END IF;
    UPDATE reconcile_runs SET owner = p_owner, claimed_until = v_now + p_lease_ms * interval '1 millisecond'
    WHERE run_id = r.run_id RETURNING * INTO r;
    RETURN reconcile_run_json(r);
  END IF;
  IF r.started_at > v_now - p_every_ms * interval '1 millisecond' THEN RETURN NULL; END IF;
  DELETE FROM reconcile_runs WHERE started_at < v_now - interval '30 days';
  DELETE FROM reconcile_findings WHERE settled_at < v_now - interval '1 year';
  INSERT INTO reconcile_runs (scheduled, from_at, to_at, owner, claimed_until)
  VALUES (true, v_now - p_back_ms * interval '1 millisecond', v_now - p_young_ms * interval '1 millisecond', p_owner,
          v_now + p_lease_ms * interval '1 millisecond')
  RETURNING * INTO r;
  RETURN reconcile_run_json(r);
END $$;

--
-- Name: reconcile_runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.reconcile_runs (
    run_id uuid DEFAULT gen_random_uuid() NOT NULL,
    scheduled boolean NOT NULL,
    from_at timestamp with time zone NOT NULL,
    to_at timestamp with time zone NOT NULL,
    step text DEFAULT 'theirs'::text NOT NULL,
    cursor text,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    owner text,
    claimed_until timestamp with time zone,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT reconcile_runs_step_check CHECK ((step = ANY (ARRAY['theirs'::text, 'ours'::text, 'again'::text, 'done'::text])))
);

--
-- Name: reconcile_run_json(public.reconcile_runs); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reconcile_run_json(r public.reconcile_runs) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('run', r.run_id, 'scheduled', r.scheduled, 'from', epoch_ms(r.from_at), 'to', epoch_ms(r.to_at),
    'step', r.step, 'cursor', r.cursor, 'counts', r.counts, 'startedAt', epoch_ms(r.started_at),
    'finishedAt', epoch_ms(r.finished_at))
$$;

--
-- Name: refunds; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.refunds (
    refund_id uuid NOT NULL,
    order_id uuid NOT NULL,
    event_no integer NOT NULL,
    cancellation boolean DEFAULT false NOT NULL,
    request_key text,
    request text,
    actor text NOT NULL,
    reason text NOT NULL,
    fees_kept bigint NOT NULL,
    order_fee bigint NOT NULL,
    goodwill bigint NOT NULL,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    state text NOT NULL,
    detail text,
    retry_asked timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    check_at timestamp with time zone,
    checks smallint DEFAULT 0 NOT NULL,
    CONSTRAINT refunds_check CHECK (((fees_kept >= 0) AND (order_fee >= 0) AND (amount >= 0))),
    CONSTRAINT refunds_state_check CHECK ((state = ANY (ARRAY['open'::text, 'unknown'::text, 'pending'::text, 'done'::text, 'failed'::text, 'elsewhere'::text])))
);

--
-- Name: refund_attempt(public.refunds, public.orders, uuid, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_attempt(r public.refunds, o public.orders, p_operation uuid, p_key text, p_owner text, p_lease_ms integer) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO money_operations (operation_id, order_id, kind, state, key, provider_object, amount, currency, attempts,
                                first_sent_at, due_at, claimed_by, claimed_until, created_at, refund_id)
  SELECT p_operation, o.order_id, 'refund', 'open', p_key, o.provider_object, r.amount, r.currency,
         CASE WHEN p_owner IS NULL THEN 0 ELSE 1 END, CASE WHEN p_owner IS NOT NULL THEN now_ END,
         CASE WHEN p_owner IS NULL THEN now_ ELSE until END, p_owner, CASE WHEN p_owner IS NOT NULL THEN until END, now_, r.refund_id
  FROM (SELECT clock_timestamp() AS now_, clock_timestamp() + p_lease_ms * interval '1 millisecond' AS until) at
$$;

--
-- Name: refund_check_after(integer, timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_check_after(p_checks integer, p_done timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT p_done + (ARRAY[1, 3, 7, 15, 30])[p_checks + 1] * interval '1 day'
$$;

--
-- Name: refund_checked(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_checked(p_order uuid) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE refunds SET checks = checks + 1, check_at = refund_check_after(checks + 1, updated_at)
  WHERE order_id = p_order AND check_at IS NOT NULL;
  UPDATE money_operations SET checks = checks + 1, check_at = refund_check_after(checks + 1, updated_at)
  WHERE order_id = p_order AND check_at IS NOT NULL
$$;

--
-- Name: refund_checks_claim(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_checks_claim(p_limit integer) RETURNS SETOF uuid
    LANGUAGE sql
    AS $$
  WITH due AS (
    SELECT refund_id FROM refunds WHERE check_at <= clock_timestamp() ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
  claimed AS (
    UPDATE refunds r SET check_at = clock_timestamp() + interval '1 hour' FROM due WHERE r.refund_id = due.refund_id
    RETURNING r.order_id),
  due_ended AS (
    SELECT operation_id FROM money_operations WHERE check_at <= clock_timestamp() ORDER BY check_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
  ended AS (
    UPDATE money_operations m SET check_at = clock_timestamp() + interval '1 hour' FROM due_ended d
    WHERE m.operation_id = d.operation_id RETURNING m.order_id)
  SELECT order_id FROM claimed UNION SELECT order_id FROM ended
$$;

--
-- Name: refund_elsewhere(uuid, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_elsewhere(p_refund uuid, p_actor text, p_note text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; r refunds;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM refunds WHERE refund_id = p_refund) FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_refund"}'; END IF;
  UPDATE refunds SET state = 'elsewhere', detail = p_note, retry_asked = NULL, updated_at = clock_timestamp()
  WHERE refund_id = p_refund AND state = 'failed' RETURNING * INTO r;
  IF NOT FOUND THEN
    SELECT * INTO r FROM refunds WHERE refund_id = p_refund;
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  PERFORM order_note(o.order_id, 'refund_elsewhere', o.state, o.state, jsonb_build_object('refund', p_refund, 'note', p_note));
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'refund_elsewhere', o.event_no,
    jsonb_build_object('order', o.order_id, 'refund', p_refund, 'amount', r.amount, 'note', p_note));
  RETURN jsonb_build_object('kind', 'elsewhere', 'order', order_json(o), 'refund', refund_json(r));
END $$;

--
-- Name: refund_json(public.refunds); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_json(r public.refunds) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object(
    'refund', r.refund_id, 'order', r.order_id, 'eventNo', r.event_no, 'cancellation', r.cancellation, 'actor', r.actor,
    'reason', r.reason, 'feesKept', r.fees_kept, 'orderFee', r.order_fee, 'goodwill', r.goodwill, 'amount', r.amount,
    'currency', r.currency, 'state', r.state, 'detail', r.detail,
    'tickets', (SELECT coalesce(jsonb_agg(t.ticket_id ORDER BY t.ticket_id), '[]') FROM refund_tickets t WHERE t.refund_id = r.refund_id),
    'attempts', (SELECT count(*) FROM money_operations m WHERE m.refund_id = r.refund_id),
    'createdAt', epoch_ms(r.created_at), 'updatedAt', epoch_ms(r.updated_at))
$$;

--
-- Name: refund_make(uuid, uuid, uuid, text, text, text, text, text, uuid[], text, bigint, text, integer, boolean, text, integer, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_make(p_refund uuid, p_order uuid, p_operation uuid, p_key text, p_request_key text, p_request text, p_actor text, p_reason text, p_tickets uuid[], p_fees text, p_goodwill bigint, p_seats text, p_step integer, p_cancellation boolean, p_owner text, p_lease_ms integer, p_pays boolean DEFAULT true) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; r refunds; v_named orders;
  v_wanted uuid[]; v_seat_nos integer[]; v_unknown uuid[];
  v_prices bigint; v_fees bigint; v_valid integer; v_left bigint; v_fee_given bigint;
  v_all boolean;
  v_seats jsonb := '[]';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_order"}'; END IF;
  v_named := o;
  PERFORM order_lock_limits(o.event_no, o.account, o.instrument ->> 'fingerprint');
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  IF v_named.account <> o.account THEN
    PERFORM order_unname_limits(v_named.account, v_named.instrument ->> 'fingerprint', o);
  END IF;
  SELECT * INTO r FROM refunds WHERE order_id = p_order AND request_key = p_request_key;
  IF FOUND THEN
    IF r.request IS DISTINCT FROM p_request THEN RETURN '{"kind":"mismatch"}'; END IF;
    RETURN jsonb_build_object('kind', 'repeated', 'order', order_json(o), 'refund', refund_json(r), 'seats', v_seats);
  END IF;
  -- Of an order whose tickets were all refunded, kept fees may still be given back as goodwill.
  IF o.state <> 'paid' AND NOT (o.state = 'cancelled' AND coalesce(p_tickets = '{}', false) AND EXISTS (
       SELECT 1 FROM refunds WHERE order_id = p_order)) THEN
    RETURN jsonb_build_object('kind', 'not_paid', 'order', order_json(o));
  END IF;

  SELECT array_agg(t.ticket_id ORDER BY t.seat_no), array_agg(t.seat_no ORDER BY t.seat_no),
         coalesce(sum(t.price), 0), coalesce(sum(t.fee), 0)
  INTO v_wanted, v_seat_nos, v_prices, v_fees
  FROM tickets t
  WHERE t.event_no = o.event_no AND t.order_id = p_order AND t.status = 'sold'
    AND (p_tickets IS NULL OR t.ticket_id = ANY (p_tickets));
  v_wanted := coalesce(v_wanted, '{}');
  v_unknown := ARRAY(SELECT u FROM unnest(p_tickets) u WHERE NOT u = ANY (v_wanted));
  IF v_unknown <> '{}' THEN RETURN jsonb_build_object('kind', 'not_valid', 'tickets', v_unknown); END IF;
  SELECT count(*) INTO v_valid FROM tickets WHERE event_no = o.event_no AND order_id = p_order AND status = 'sold';
  v_all := v_wanted <> '{}' AND cardinality(v_wanted) = v_valid;
  SELECT order_left(o), coalesce(sum(order_fee), 0) INTO v_left, v_fee_given
  FROM refunds WHERE order_id = p_order;

  r.refund_id := p_refund; r.order_id := p_order; r.event_no := o.event_no; r.cancellation := p_cancellation;
  r.request_key := p_request_key; r.request := p_request; r.actor := p_actor; r.reason := p_reason; r.currency := o.currency;
  r.fees_kept := CASE WHEN p_fees = 'kept' THEN v_fees ELSE 0 END;
  r.order_fee := CASE WHEN p_fees = 'returned' AND v_all THEN o.order_fee - v_fee_given ELSE 0 END;
  r.amount := v_prices + v_fees - r.fees_kept + r.order_fee + p_goodwill;
  r.amount := r.amount + (p_step - r.amount % p_step) % p_step;
  IF p_goodwill = 0 THEN r.amount := least(r.amount, v_left); END IF;
  IF NOT p_pays THEN r.amount := 0; END IF;
  r.goodwill := r.amount - (v_prices + v_fees - r.fees_kept + r.order_fee);
  IF r.amount > v_left THEN RETURN jsonb_build_object('kind', 'too_much', 'amount', r.amount, 'most', v_left); END IF;
  IF r.amount = 0 AND v_wanted = '{}' THEN RETURN '{"kind":"nothing"}'; END IF;
  r.state := CASE WHEN r.amount = 0 THEN 'done' ELSE 'open' END;
  r.created_at := clock_timestamp(); r.updated_at := r.created_at; r.checks := 0;

  INSERT INTO refunds SELECT r.*;
  INSERT INTO refund_tickets (event_no, ticket_id, refund_id) SELECT o.event_no, u, p_refund FROM unnest(v_wanted) u;
  IF r.amount > 0 THEN PERFORM refund_attempt(r, o, p_operation, p_key, p_owner, p_lease_ms); END IF;
  IF v_wanted <> '{}' THEN
    UPDATE tickets SET status = 'cancelled', revoked_at = r.created_at, changed_at = r.created_at
    WHERE event_no = o.event_no AND ticket_id = ANY (v_wanted);
    PERFORM order_count_limits(o, -cardinality(v_wanted));
    IF v_all THEN
      UPDATE orders SET state = 'cancelled', reason = CASE WHEN p_cancellation THEN 'event_cancelled' ELSE 'refunded' END,
                        updated_at = r.created_at
      WHERE order_id = p_order;
    END IF;
    v_seats := refund_seats(o, v_seat_nos, CASE WHEN p_seats = 'block' THEN 'blocked' ELSE 'available' END, p_actor, p_reason);
  END IF;
  PERFORM order_note(p_order, CASE WHEN v_all THEN 'cancel' ELSE 'refund' END, o.state,
                     CASE WHEN v_all THEN 'cancelled' ELSE o.state END,
                     jsonb_build_object('refund', p_refund, 'tickets', v_wanted, 'amount', r.amount));
  SELECT * INTO o FROM orders WHERE order_id = p_order;
  IF v_all THEN
    PERFORM order_happened(o, 'order.cancelled', jsonb_build_object('refund', p_refund, 'amount', r.amount, 'reason', o.reason));
  END IF;
  PERFORM order_happened(o, 'refund.created', jsonb_build_object('refund', p_refund, 'amount', r.amount, 'tickets', v_wanted));
  IF r.state = 'done' THEN
    PERFORM order_happened(o, 'refund.succeeded', jsonb_build_object('refund', p_refund, 'amount', 0, 'tickets', v_wanted));
  END IF;
  -- The event's cancelling has one entry for all of its orders.
  IF NOT p_cancellation THEN
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'refund', o.event_no, jsonb_build_object(
      'order', p_order, 'refund', p_refund, 'tickets', cardinality(v_wanted), 'amount', r.amount, 'goodwill', r.goodwill,
      'fees', p_fees, 'seats', p_seats, 'pays', p_pays, 'reason', p_reason));
  END IF;
  RETURN jsonb_build_object('kind', 'made', 'order', order_json(o), 'refund', refund_json(r), 'seats', v_seats,
    'operation', (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = p_operation));
END $$;

--
-- Name: refund_retry(uuid, uuid, text, text, text, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_retry(p_refund uuid, p_operation uuid, p_key text, p_actor text, p_owner text, p_lease_ms integer) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  o orders; r refunds; v_elsewhere bigint;
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = (SELECT order_id FROM refunds WHERE refund_id = p_refund) FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown_refund"}'; END IF;
  SELECT * INTO r FROM refunds WHERE refund_id = p_refund;
  IF r.state <> 'failed' THEN
    RETURN jsonb_build_object('kind', 'decided', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  v_elsewhere := (SELECT coalesce(sum(taken), 0) FROM reversals WHERE order_id = o.order_id AND kind = 'refund')
    - (SELECT coalesce(sum(amount), 0) FROM refunds
       WHERE order_id = o.order_id AND refund_id <> p_refund AND state IN ('failed','elsewhere'));
  IF v_elsewhere > 0 THEN
    RETURN jsonb_build_object('kind', 'gone_back', 'order', order_json(o), 'refund', refund_json(r));
  END IF;
  UPDATE refunds SET state = 'open', detail = NULL, retry_asked = NULL, updated_at = clock_timestamp()
  WHERE refund_id = p_refund RETURNING * INTO r;
  PERFORM refund_attempt(r, o, p_operation, p_key, p_owner, p_lease_ms);
  PERFORM order_note(o.order_id, 'refund_retry', o.state, o.state, jsonb_build_object('refund', p_refund, 'operation', p_operation));
  IF p_actor IS NOT NULL THEN
    INSERT INTO audit_log (actor, action, event_no, detail)
      VALUES (p_actor, 'refund_retry', o.event_no, jsonb_build_object('order', o.order_id, 'refund', p_refund, 'amount', r.amount));
  END IF;
  RETURN jsonb_build_object('kind', 'retried', 'order', order_json(o), 'refund', refund_json(r),
    'operation', (SELECT operation_json(m) FROM money_operations m WHERE m.operation_id = p_operation));
END $$;

--
-- Name: refund_seats(public.orders, integer[], text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_seats(o public.orders, p_seats integer[], p_state text, p_actor text, p_reason text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_decided jsonb;
BEGIN
  PERFORM 1 FROM seats WHERE event_no = o.event_no AND seat_no = ANY (p_seats) ORDER BY seat_no FOR UPDATE;
  WITH changed AS (
    UPDATE seats s SET state = p_state, version = s.version + 1, order_id = NULL
    WHERE s.event_no = o.event_no AND s.seat_no = ANY (p_seats) AND s.order_id = o.order_id
    RETURNING s.seat_no, s.version
  ), noted AS (
    INSERT INTO blocks (event_no, seat_no, reason, actor)
    SELECT o.event_no, c.seat_no, p_reason, p_actor FROM changed c WHERE p_state = 'blocked')
  SELECT coalesce(jsonb_agg(jsonb_build_object('seat', seat_no, 'version', version, 'state', p_state) ORDER BY seat_no), '[]')
  INTO v_decided FROM changed;
  RETURN v_decided;
END $$;

--
-- Name: refund_settle(uuid, text, integer, jsonb, text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refund_settle(p_operation uuid, p_state text, p_due_ms integer, p_answer jsonb, p_detail text, p_attention text, p_new_key text) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; m money_operations; r refunds;
  v_state text;
  v_rival boolean;
BEGIN
  m := money_lock(p_operation);
  SELECT * INTO o FROM orders WHERE order_id = m.order_id;
  SELECT * INTO r FROM refunds WHERE refund_id = m.refund_id;
  v_rival := EXISTS (SELECT 1 FROM money_operations other WHERE other.refund_id = m.refund_id
                     AND other.operation_id <> m.operation_id AND other.state <> 'refused');
  IF m.state = 'refused' AND p_state IN ('done','waiting') AND (v_rival OR r.state = 'elsewhere') THEN
    UPDATE money_operations SET attention = 'refunded_twice', answer = coalesce(p_answer, answer), updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
  ELSIF m.state IN ('open','waiting','unknown') OR (m.state = 'done' AND p_state = 'refused')
     OR (m.state = 'refused' AND p_state IN ('done','waiting')) THEN
    UPDATE money_operations
    SET state = p_state, answer = coalesce(p_answer, answer), attention = p_attention, claimed_until = NULL,
        due_at = CASE WHEN p_state IN ('unknown','waiting') THEN clock_timestamp() + p_due_ms * interval '1 millisecond' END,
        key = coalesce(p_new_key, key), first_sent_at = CASE WHEN p_new_key IS NULL THEN first_sent_at END,
        updated_at = clock_timestamp()
    WHERE operation_id = p_operation;
    v_state := CASE p_state WHEN 'waiting' THEN 'pending' WHEN 'refused' THEN 'failed' ELSE p_state END;
    UPDATE refunds
    SET state = v_state, detail = CASE WHEN v_state <> 'done' THEN p_detail END, updated_at = clock_timestamp(),
        checks = CASE WHEN v_state = 'done' THEN checks ELSE 0 END,
        check_at = CASE WHEN v_state = 'done' THEN refund_check_after(0, clock_timestamp()) END
    WHERE refund_id = m.refund_id;
    IF m.state <> p_state THEN
      PERFORM order_note(o.order_id, 'refund_' || v_state, o.state, o.state,
                         jsonb_build_object('refund', r.refund_id, 'operation', p_operation, 'detail', p_detail));
      IF v_state IN ('done','failed') THEN
        PERFORM order_happened(o, CASE v_state WHEN 'done' THEN 'refund.succeeded' ELSE 'refund.failed' END,
          jsonb_build_object('refund', r.refund_id, 'amount', r.amount, 'detail', p_detail));
      END IF;
    END IF;
  END IF;
  SELECT * INTO r FROM refunds WHERE refund_id = m.refund_id;
  RETURN jsonb_build_object('order', order_json(o), 'refund', refund_json(r),
    'operation', (SELECT operation_json(one) FROM money_operations one WHERE one.operation_id = p_operation));
END $$;

--
-- Name: reversals; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.reversals (
    reversal_id text NOT NULL,
    kind text NOT NULL,
    order_id uuid NOT NULL,
    object text NOT NULL,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    state text NOT NULL,
    taken bigint NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT reversals_kind_check CHECK ((kind = ANY (ARRAY['refund'::text, 'dispute'::text]))),
    CONSTRAINT reversals_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'done'::text, 'failed'::text, 'open'::text, 'won'::text, 'lost'::text]))),
    CONSTRAINT reversals_taken_check CHECK ((taken >= 0))
);

--
-- Name: reversal_json(public.reversals); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reversal_json(v public.reversals) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('reversal', v.reversal_id, 'kind', v.kind, 'order', v.order_id, 'object', v.object,
    'amount', v.amount, 'currency', v.currency, 'state', v.state, 'taken', v.taken, 'detail', v.detail,
    'createdAt', epoch_ms(v.created_at), 'updatedAt', epoch_ms(v.updated_at))
$$;

--
-- Name: reversals_record(uuid, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reversals_record(p_order uuid, p_seen jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  o orders; s record; v reversals;
  v_before text;
  v_changed jsonb := '[]';
BEGIN
  SELECT * INTO o FROM orders WHERE order_id = p_order FOR UPDATE;
  FOR s IN
    SELECT x.* FROM jsonb_to_recordset(p_seen) AS x (reversal text, kind text, object text, reference text, amount bigint,
      currency text, state text, taken bigint, detail jsonb, "createdAt" double precision, finding text, says text)
    WHERE NOT EXISTS (SELECT 1 FROM money_operations m WHERE m.order_id = p_order AND m.operation_id::text = x.reference)
    ORDER BY x."createdAt", x.reversal
  LOOP
    SELECT r.state INTO v_before FROM reversals r WHERE r.reversal_id = s.reversal;
    INSERT INTO reversals AS r (reversal_id, kind, order_id, object, amount, currency, state, taken, detail, created_at)
    VALUES (s.reversal, s.kind, p_order, s.object, s.amount, s.currency, s.state, s.taken, s.detail,
            to_timestamp(s."createdAt" / 1000))
    ON CONFLICT (reversal_id) DO UPDATE
      SET state = excluded.state, taken = excluded.taken, amount = excluded.amount, detail = excluded.detail,
          updated_at = clock_timestamp()
      WHERE r.order_id = p_order AND (r.state, r.taken, r.amount, r.detail)
            IS DISTINCT FROM (excluded.state, excluded.taken, excluded.amount, excluded.detail)
    RETURNING * INTO v;
    CONTINUE WHEN NOT FOUND;
    PERFORM finding_put(s.finding, s.reversal, p_order, s.object, s.says, reversal_json(v));
    CONTINUE WHEN v_before = v.state;
    PERFORM order_note(p_order, s.kind || '_at_provider', o.state, o.state, reversal_json(v));
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES ('provider', s.finding, o.event_no, jsonb_build_object(
      'order', p_order, 'reversal', s.reversal, 'amount', s.amount, 'currency', s.currency, 'state', s.state));
    v_changed := v_changed || reversal_json(v);
  END LOOP;
  IF v_changed <> '[]' THEN
    PERFORM job_enqueue('figures', jsonb_build_object('event', o.event_no), 'figures/' || o.event_no, 5000);
  END IF;
  RETURN v_changed;
END $$;

--
-- Name: revoked_tickets(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.revoked_tickets(p_event integer) RETURNS TABLE(ticket uuid, revoked_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
  SELECT t.ticket_id, coalesce(t.revoked_at, t.changed_at)
  FROM tickets t JOIN events e USING (event_no)
  WHERE t.event_no = p_event AND (t.revoked_at IS NOT NULL OR (t.status = 'sold' AND e.phase = 'cancelled'))
  ORDER BY 2, 1
$$;

--
-- Name: sales_figures; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sales_figures (
    event_no integer NOT NULL,
    at timestamp with time zone NOT NULL,
    figures jsonb NOT NULL
);

--
-- Name: sales_figures_refresh(integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.sales_figures_refresh(p_event integer) RETURNS public.sales_figures
    LANGUAGE sql
    AS $$
  WITH sold AS (
    SELECT s.category, t.kind, count(*) AS tickets, sum(t.price) AS prices, sum(t.fee) AS fees
    FROM tickets t JOIN event_seats s ON s.event_no = t.event_no AND s.seat_no = t.seat_no
    WHERE t.event_no = p_event AND t.status = 'sold' GROUP BY 1, 2),
  placed AS (SELECT state, count(*) AS n FROM orders WHERE event_no = p_event GROUP BY 1),
  moved AS (
    SELECT coalesce(sum(m.amount) FILTER (WHERE m.kind = 'capture'), 0) AS taken,
           coalesce(sum(m.amount) FILTER (WHERE m.kind = 'refund'), 0) AS given
    FROM money_operations m JOIN orders o USING (order_id)
    WHERE o.event_no = p_event AND m.state = 'done' AND m.kind IN ('capture','refund')),
  back AS (
    SELECT coalesce(sum(amount) FILTER (WHERE state = 'elsewhere'), 0) AS elsewhere,
           coalesce(sum(amount) FILTER (WHERE state NOT IN ('done','elsewhere')), 0) AS owed
    FROM refunds WHERE event_no = p_event),
  reversed AS (
    SELECT coalesce(sum(v.taken), 0) AS taken FROM reversals v JOIN orders o USING (order_id) WHERE o.event_no = p_event),
  counted AS (
    SELECT jsonb_build_object(
      'orders', (SELECT coalesce(jsonb_object_agg(state, n), '{}') FROM placed),
      'sold', (SELECT coalesce(jsonb_agg(jsonb_build_object('category', category, 'kind', kind, 'tickets', tickets,
                 'prices', prices, 'fees', fees) ORDER BY category, kind), '[]') FROM sold),
      'taken', moved.taken, 'refunded', moved.given + back.elsewhere + reversed.taken, 'owed', back.owed) AS figures
    FROM moved, back, reversed)
  INSERT INTO sales_figures AS f (event_no, at, figures)
  SELECT p_event, statement_timestamp(), figures FROM counted
  ON CONFLICT (event_no) DO UPDATE SET
    figures = CASE WHEN excluded.at > f.at THEN excluded.figures ELSE f.figures END,
    at = greatest(excluded.at, f.at)
  RETURNING f.*
$$;

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
-- Name: sign_in_done(text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.sign_in_done(p_budget text, p_device text, p_email text) RETURNS void
    LANGUAGE sql
    AS $$
  UPDATE sign_in_budgets SET attempts = greatest(0, attempts - 1) WHERE budget = p_budget;
  INSERT INTO sign_in_budgets (budget, email) VALUES ('device:' || p_device, p_email)
    ON CONFLICT (budget) DO UPDATE SET email = excluded.email, counted_at = clock_timestamp();
$$;

--
-- Name: sign_in_slot(text, text, text, integer[], integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.sign_in_slot(p_range text, p_device text, p_email text, p_spacings_ms integer[], p_forget_ms integer, p_wait_max_ms integer, OUT budget text, OUT wait_ms double precision, OUT refused boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_known sign_in_budgets;
  v_now timestamptz;
  v_slot timestamptz;
  v_attempts double precision;
  v_spacing integer;
BEGIN
  wait_ms := 0;
  refused := false;
  SELECT * INTO v_known FROM sign_in_budgets b WHERE b.budget = 'device:' || p_device AND b.email = p_email FOR UPDATE;
  IF NOT FOUND THEN
    IF p_range IS NULL THEN RETURN; END IF;
    -- The update locks a row that is there already.
    INSERT INTO sign_in_budgets AS b (budget) VALUES ('range:' || p_range)
      ON CONFLICT ON CONSTRAINT sign_in_budgets_pkey DO UPDATE SET budget = b.budget RETURNING * INTO v_known;
  END IF;
  budget := v_known.budget;
  v_now := clock_timestamp();
  v_slot := greatest(v_now, v_known.next_at);
  wait_ms := extract(epoch FROM v_slot - v_now) * 1000;
  IF wait_ms > p_wait_max_ms THEN
    refused := true;
    RETURN;
  END IF;
  v_attempts := greatest(0, v_known.attempts - extract(epoch FROM v_now - v_known.counted_at) * 1000 / p_forget_ms);
  v_spacing := p_spacings_ms[least(ceil(v_attempts)::integer + 1, cardinality(p_spacings_ms))];
  UPDATE sign_in_budgets b
     SET attempts = least(v_attempts + 1, cardinality(p_spacings_ms)), counted_at = greatest(v_now, b.counted_at),
         next_at = v_slot + v_spacing * interval '1 ms'
   WHERE b.budget = v_known.budget;
END $$;

--
-- Name: ticket_key_seen(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.ticket_key_seen(p_key_id text, p_public_key text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_first boolean;
BEGIN
  LOCK TABLE ticket_keys IN SHARE ROW EXCLUSIVE MODE;
  UPDATE ticket_keys SET last_seen_at = clock_timestamp() WHERE key_id = p_key_id;
  v_first := NOT FOUND;
  IF v_first THEN INSERT INTO ticket_keys (key_id, public_key) VALUES (p_key_id, p_public_key); END IF;
  RETURN jsonb_build_object('first', v_first, 'others', (SELECT count(*) FROM ticket_keys WHERE key_id <> p_key_id));
END $$;

--
-- Name: webhook_again(uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_again(p_delivery uuid, p_actor text) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
  e webhook_endpoints; d webhook_deliveries;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO e FROM webhook_endpoints WHERE state <> 'removed'
    AND endpoint_id = (SELECT endpoint_id FROM webhook_deliveries WHERE delivery_id = p_delivery) FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  SELECT * INTO d FROM webhook_deliveries WHERE delivery_id = p_delivery FOR UPDATE;
  IF d.claimed_until > v_now THEN RETURN 'under_way'; END IF;
  UPDATE webhook_deliveries SET state = 'due', due_at = v_now, first_attempt_at = NULL, claimed_until = NULL, updated_at = v_now
  WHERE delivery_id = p_delivery;
  UPDATE webhook_endpoints SET rests_until = NULL WHERE endpoint_id = e.endpoint_id;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_again', d.event_no,
    jsonb_build_object('endpoint', e.endpoint_id, 'delivery', p_delivery));
  RETURN CASE WHEN e.state = 'active' THEN 'owed' ELSE 'disabled' END;
END $$;

--
-- Name: webhook_endpoint_change(uuid, jsonb, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_endpoint_change(p_endpoint uuid, p_changes jsonb, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
  v_state text := p_changes ->> 'state';
BEGIN
  SELECT * INTO e FROM webhook_endpoints WHERE endpoint_id = p_endpoint AND state <> 'removed' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  UPDATE webhook_endpoints SET
    url = coalesce(p_changes ->> 'url', e.url),
    happenings = CASE WHEN p_changes ? 'happenings'
      THEN ARRAY(SELECT jsonb_array_elements_text(p_changes -> 'happenings')) ELSE e.happenings END,
    note = CASE WHEN p_changes ? 'note' THEN p_changes ->> 'note' ELSE e.note END,
    state = coalesce(v_state, e.state),
    disabled_why = CASE v_state WHEN 'active' THEN NULL WHEN 'disabled' THEN coalesce(e.disabled_why, 'Switched off by the organiser.')
      ELSE e.disabled_why END,
    disabled_at = CASE v_state WHEN 'active' THEN NULL WHEN 'disabled' THEN coalesce(e.disabled_at, v_now) ELSE e.disabled_at END,
    failures = CASE WHEN v_state = 'active' THEN 0 ELSE e.failures END,
    failing_since = CASE WHEN v_state = 'active' THEN NULL ELSE e.failing_since END,
    rests_until = CASE WHEN v_state = 'active' THEN NULL ELSE e.rests_until END,
    updated_at = v_now
  WHERE endpoint_id = p_endpoint RETURNING * INTO e;
  IF v_state = 'active' THEN
    UPDATE webhook_deliveries SET due_at = v_now, first_attempt_at = NULL
    WHERE endpoint_id = p_endpoint AND state = 'due' AND (claimed_until IS NULL OR claimed_until <= v_now);
  ELSIF v_state = 'removed' THEN
    UPDATE webhook_deliveries SET state = 'dropped', claimed_until = NULL, updated_at = v_now
    WHERE endpoint_id = p_endpoint AND state = 'due';
    DELETE FROM webhook_secrets WHERE endpoint_id = p_endpoint;
  END IF;
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_change', e.event_no,
    jsonb_build_object('endpoint', p_endpoint) || (p_changes - 'url')
    || CASE WHEN p_changes ? 'url' THEN jsonb_build_object('host', substring(e.url from '^[a-z]+://([^/?#]+)')) ELSE '{}' END);
  RETURN jsonb_build_object('kind', 'changed', 'endpoint', webhook_endpoint_json(e));
END $$;

--
-- Name: webhook_endpoints; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_endpoints (
    endpoint_id uuid NOT NULL,
    event_no integer,
    url text NOT NULL,
    happenings text[] NOT NULL,
    note text,
    state text DEFAULT 'active'::text NOT NULL,
    disabled_why text,
    disabled_at timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    failing_since timestamp with time zone,
    rests_until timestamp with time zone,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT webhook_endpoints_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text, 'removed'::text])))
);

--
-- Name: webhook_endpoint_json(public.webhook_endpoints); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_endpoint_json(e public.webhook_endpoints) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('endpoint', e.endpoint_id, 'url', e.url,
    'event', (SELECT event_id FROM events WHERE event_no = e.event_no), 'happenings', e.happenings, 'note', e.note,
    'state', e.state, 'disabledWhy', e.disabled_why, 'disabledAt', epoch_ms(e.disabled_at), 'failures', e.failures,
    'failingSince', epoch_ms(e.failing_since), 'restsUntil', epoch_ms(e.rests_until), 'createdBy', e.created_by,
    'createdAt', epoch_ms(e.created_at),
    'due', (SELECT count(*) FROM webhook_deliveries d WHERE d.endpoint_id = e.endpoint_id AND d.state = 'due'),
    'secrets', (SELECT coalesce(jsonb_agg(jsonb_build_object('createdAt', epoch_ms(s.created_at), 'until', epoch_ms(s.until))
                  ORDER BY s.secret_no), '[]') FROM webhook_secrets s
                WHERE s.endpoint_id = e.endpoint_id AND (s.until IS NULL OR s.until > clock_timestamp())))
$$;

--
-- Name: webhook_endpoint_make(uuid, integer, text, text[], text, text, integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_endpoint_make(p_endpoint uuid, p_event integer, p_url text, p_happenings text[], p_note text, p_secret text, p_most integer, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  e webhook_endpoints;
BEGIN
  PERFORM pg_advisory_xact_lock(20261, 16);
  IF (SELECT count(*) FROM webhook_endpoints WHERE state <> 'removed') >= p_most THEN RETURN '{"kind":"too_many"}'; END IF;
  INSERT INTO webhook_endpoints (endpoint_id, event_no, url, happenings, note, created_by)
  VALUES (p_endpoint, p_event, p_url, p_happenings, p_note, p_actor) RETURNING * INTO e;
  INSERT INTO webhook_secrets (endpoint_id, secret) VALUES (p_endpoint, p_secret);
  -- A path may hold the receiver's own secret: the log names the host alone.
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_add', p_event,
    jsonb_build_object('endpoint', p_endpoint, 'host', substring(p_url from '^[a-z]+://([^/?#]+)'), 'happenings', p_happenings));
  RETURN jsonb_build_object('kind', 'made', 'endpoint', webhook_endpoint_json(e));
END $$;

--
-- Name: webhook_order(public.orders); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_order(o public.orders) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('order', o.order_id, 'state', o.state, 'reason', o.reason, 'amount', o.amount,
    'orderFee', o.order_fee, 'currency', o.currency, 'seats', coalesce(jsonb_agg(jsonb_build_object(
      'seat', l.seat, 'guid', s.seat_guid, 'section', s.section_id, 'row', s.row_label, 'number', s.seat_label,
      'category', l.category, 'kind', l.kind, 'price', l.price, 'fee', l.fee, 'ticket', t.ticket_id,
      'valid', o.state = 'paid' AND t.status = 'sold') ORDER BY l.seat), '[]'))
  FROM jsonb_to_recordset(o.lines) AS l (seat integer, category text, kind text, price bigint, fee bigint)
    LEFT JOIN event_seats s ON s.event_no = o.event_no AND s.seat_no = l.seat
    LEFT JOIN LATERAL (SELECT ticket_id, status FROM tickets t
      WHERE t.event_no = o.event_no AND t.order_id = o.order_id AND t.seat_no = l.seat
      ORDER BY created_at DESC, (status = 'cancelled') LIMIT 1) t ON true
$$;

--
-- Name: webhook_owe(integer, text, text, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_owe(p_event integer, p_what text, p_cause text, p_data jsonb) RETURNS void
    LANGUAGE sql
    AS $$
  INSERT INTO webhook_deliveries (delivery_id, endpoint_id, event_no, what, body)
  SELECT made.id, made.endpoint_id, p_event, p_what, (jsonb_build_object('id', made.id, 'type', p_what,
      'createdAt', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'event', (SELECT event_id FROM events WHERE event_no = p_event)) || p_data)::text
  FROM (SELECT endpoint_id, CASE WHEN p_cause IS NULL THEN gen_random_uuid()
          ELSE md5(concat_ws('/', endpoint_id, p_what, p_cause))::uuid END AS id
        FROM webhook_wanted(p_event, p_what)) made
  ON CONFLICT (delivery_id) DO NOTHING
$$;

--
-- Name: webhook_refund(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_refund(p_refund uuid) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT jsonb_build_object('refund', r.refund_id, 'state', r.state, 'amount', r.amount, 'currency', r.currency,
    'reason', r.reason, 'eventCancelled', r.cancellation,
    'tickets', (SELECT coalesce(jsonb_agg(t.ticket_id ORDER BY t.ticket_id), '[]') FROM refund_tickets t WHERE t.refund_id = r.refund_id))
  FROM refunds r WHERE r.refund_id = p_refund
$$;

--
-- Name: webhook_secret_add(uuid, text, bigint, integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_secret_add(p_endpoint uuid, p_secret text, p_keep_ms bigint, p_most integer, p_actor text) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO e FROM webhook_endpoints WHERE endpoint_id = p_endpoint AND state <> 'removed' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN '{"kind":"unknown"}'; END IF;
  IF p_keep_ms > 0 AND (SELECT count(*) FROM webhook_secrets
                        WHERE endpoint_id = p_endpoint AND (until IS NULL OR until > v_now)) >= p_most THEN
    RETURN '{"kind":"too_many"}';
  END IF;
  UPDATE webhook_secrets SET until = least(coalesce(until, 'infinity'), v_now + p_keep_ms * interval '1 millisecond')
  WHERE endpoint_id = p_endpoint;
  INSERT INTO webhook_secrets (endpoint_id, secret) VALUES (p_endpoint, p_secret);
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_rotate', e.event_no,
    jsonb_build_object('endpoint', p_endpoint, 'keepMs', p_keep_ms));
  RETURN jsonb_build_object('kind', 'changed', 'endpoint', webhook_endpoint_json(e));
END $$;

--
-- Name: webhook_take(integer, integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_take(p_per_endpoint integer, p_failures_max integer, p_lease_ms integer) RETURNS TABLE(delivery uuid, endpoint uuid, url text, body text, attempt integer, secrets text[])
    LANGUAGE plpgsql
    AS $$
DECLARE
  e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := clock_timestamp() + p_lease_ms * interval '1 millisecond';
  v_free integer;
BEGIN
  FOR e IN
    SELECT * FROM webhook_endpoints w
    WHERE w.state = 'active' AND (w.rests_until IS NULL OR w.rests_until <= v_now)
      AND EXISTS (SELECT 1 FROM webhook_deliveries d
                  WHERE d.endpoint_id = w.endpoint_id AND d.state = 'due' AND d.due_at <= v_now)
    ORDER BY w.endpoint_id FOR NO KEY UPDATE SKIP LOCKED
  LOOP
    SELECT CASE WHEN e.failures >= p_failures_max THEN 1 ELSE p_per_endpoint END - count(*) INTO v_free
    FROM webhook_deliveries d WHERE d.endpoint_id = e.endpoint_id AND d.claimed_until > v_now;
    CONTINUE WHEN v_free <= 0;
    RETURN QUERY
    WITH due AS (
      SELECT d.delivery_id FROM webhook_deliveries d
      WHERE d.endpoint_id = e.endpoint_id AND d.state = 'due' AND d.due_at <= v_now
      ORDER BY d.due_at LIMIT v_free FOR UPDATE SKIP LOCKED
    ), claimed AS (
      UPDATE webhook_deliveries d
      SET attempts = d.attempts + 1, claimed_until = v_until, due_at = v_until,
          first_attempt_at = coalesce(d.first_attempt_at, v_now), updated_at = v_now
      FROM due WHERE d.delivery_id = due.delivery_id
      RETURNING d.delivery_id, d.body, d.attempts
    ), noted AS (
      INSERT INTO webhook_attempts (delivery_id, attempt, at) SELECT c.delivery_id, c.attempts, v_now FROM claimed c
    )
    SELECT c.delivery_id, e.endpoint_id, e.url, c.body, c.attempts,
      ARRAY(SELECT s.secret FROM webhook_secrets s
            WHERE s.endpoint_id = e.endpoint_id AND (s.until IS NULL OR s.until > v_now) ORDER BY s.secret_no DESC)
    FROM claimed c;
  END LOOP;
END $$;

--
-- Name: webhook_tidy(integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_tidy(p_keep_days integer, p_limit integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_count integer;
BEGIN
  DELETE FROM webhook_deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM webhook_deliveries WHERE created_at < clock_timestamp() - make_interval(days => p_keep_days)
    ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS v_count = ROW_COUNT;
  DELETE FROM webhook_secrets WHERE until < clock_timestamp() - interval '1 day';
  RETURN v_count;
END $$;

--
-- Name: webhook_trial(uuid, uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_trial(p_endpoint uuid, p_delivery uuid, p_actor text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
  e webhook_endpoints;
BEGIN
  UPDATE webhook_endpoints SET rests_until = NULL WHERE endpoint_id = p_endpoint AND state = 'active' RETURNING * INTO e;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO webhook_deliveries (delivery_id, endpoint_id, event_no, what, body)
  VALUES (p_delivery, p_endpoint, e.event_no, 'webhook.trial', jsonb_build_object('id', p_delivery, 'type', 'webhook.trial',
    'createdAt', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'event', (SELECT event_id FROM events WHERE event_no = e.event_no))::text);
  INSERT INTO audit_log (actor, action, event_no, detail) VALUES (p_actor, 'webhook_trial', e.event_no,
    jsonb_build_object('endpoint', p_endpoint, 'delivery', p_delivery));
  RETURN true;
END $$;

--
-- Name: webhook_wanted(integer, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_wanted(p_event integer, p_what text) RETURNS SETOF public.webhook_endpoints
    LANGUAGE sql STABLE
    AS $$
  SELECT * FROM webhook_endpoints
  WHERE state <> 'removed' AND (event_no IS NULL OR event_no = p_event) AND p_what = ANY (happenings)
$$;

--
-- Name: webhook_went(uuid, integer, integer, text, integer, integer, integer, integer, integer, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.webhook_went(p_delivery uuid, p_attempt integer, p_status integer, p_error text, p_duration_ms integer, p_gap_ms integer, p_failures_max integer, p_rest_ms integer, p_rest_max_ms integer, p_give_up_ms bigint) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
  d webhook_deliveries; e webhook_endpoints;
  v_now timestamptz := clock_timestamp();
  v_give_up interval := p_give_up_ms * interval '1 millisecond';
  v_why text;
BEGIN
  SELECT * INTO e FROM webhook_endpoints
  WHERE endpoint_id = (SELECT endpoint_id FROM webhook_deliveries WHERE delivery_id = p_delivery) FOR NO KEY UPDATE;
  SELECT * INTO d FROM webhook_deliveries WHERE delivery_id = p_delivery FOR UPDATE;
  IF NOT FOUND THEN RETURN 'gone'; END IF;
  UPDATE webhook_attempts SET status = p_status, error = p_error, duration_ms = p_duration_ms
  WHERE delivery_id = p_delivery AND attempt = p_attempt;
  IF p_error IS NULL THEN
    UPDATE webhook_deliveries SET state = 'delivered', claimed_until = NULL, updated_at = v_now
    WHERE delivery_id = p_delivery AND state <> 'delivered';
    IF e.failures > 0 THEN
      UPDATE webhook_endpoints SET failures = 0, failing_since = NULL, rests_until = NULL WHERE endpoint_id = e.endpoint_id;
    END IF;
    RETURN 'delivered';
  END IF;
  -- Of an attempt whose claim lapsed, the later one decides.
  IF d.state <> 'due' OR d.attempts <> p_attempt THEN RETURN d.state; END IF;
  UPDATE webhook_deliveries
  SET state = CASE WHEN d.first_attempt_at + v_give_up <= v_now THEN 'failed' ELSE 'due' END,
      due_at = v_now + p_gap_ms * interval '1 millisecond', claimed_until = NULL, updated_at = v_now
  WHERE delivery_id = p_delivery RETURNING * INTO d;
  UPDATE webhook_endpoints
  SET failures = failures + 1, failing_since = coalesce(failing_since, v_now),
      rests_until = CASE WHEN failures + 1 >= p_failures_max THEN v_now + interval '1 millisecond'
        * least(p_rest_max_ms, p_rest_ms * 2 ^ least(failures + 1 - p_failures_max, 20)) END
  WHERE endpoint_id = e.endpoint_id RETURNING * INTO e;
  v_why := CASE
    WHEN p_status = 410 THEN 'The receiver answered 410: it is gone for good.'
    WHEN e.failing_since + v_give_up <= v_now THEN format('Nothing was taken since %s UTC; the last attempt: %s',
      to_char(e.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), p_error) END;
  IF v_why IS NOT NULL AND e.state = 'active' THEN
    UPDATE webhook_endpoints SET state = 'disabled', disabled_why = v_why, disabled_at = v_now, updated_at = v_now
    WHERE endpoint_id = e.endpoint_id;
    INSERT INTO audit_log (actor, action, event_no, detail) VALUES ('worker', 'webhook_disabled', e.event_no,
      jsonb_build_object('endpoint', e.endpoint_id, 'why', v_why));
  END IF;
  RETURN d.state;
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
-- Name: confirmations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.confirmations (
    code_hash text NOT NULL,
    act text NOT NULL,
    event_no integer,
    request text NOT NULL,
    actor text NOT NULL,
    shown jsonb NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone
);

--
-- Name: cooldowns; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.cooldowns (
    event_no integer NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    unpaid integer NOT NULL,
    last_at timestamp with time zone NOT NULL,
    until timestamp with time zone,
    changed_at timestamp with time zone NOT NULL,
    quick integer DEFAULT 0 NOT NULL,
    CONSTRAINT cooldowns_kind_check CHECK ((kind = ANY (ARRAY['visitor'::text, 'account'::text, 'address'::text])))
);

--
-- Name: entries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.entries (
    event_no integer NOT NULL,
    ticket_id uuid NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    gate text,
    scan text,
    actor text NOT NULL
);

--
-- Name: entry_scans; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.entry_scans (
    entry_scan_no bigint NOT NULL,
    event_no integer NOT NULL,
    ticket_id uuid NOT NULL,
    what text NOT NULL,
    at timestamp with time zone NOT NULL,
    gate text,
    scan text,
    actor text NOT NULL,
    why text,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT entry_scans_what_check CHECK ((what = ANY (ARRAY['double'::text, 'revoked'::text, 'undone'::text])))
);

--
-- Name: entry_scans_entry_scan_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.entry_scans ALTER COLUMN entry_scan_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.entry_scans_entry_scan_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: event_rests; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_rests (
    event_no integer NOT NULL,
    wake_at timestamp with time zone NOT NULL,
    settled boolean DEFAULT false NOT NULL,
    made_as text NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    made_in xid8 DEFAULT pg_current_xact_id() NOT NULL
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
-- Name: event_wakes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_wakes (
    event_no integer NOT NULL
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
-- Name: hold_ends; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.hold_ends (
    event_no integer NOT NULL,
    hold_id uuid NOT NULL,
    visitor text NOT NULL,
    account text,
    granted_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    address text,
    quick boolean DEFAULT false NOT NULL
);

--
-- Name: installation; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.installation (
    id text NOT NULL,
    only_row boolean DEFAULT true NOT NULL,
    CONSTRAINT installation_only_row_check CHECK (only_row)
);

--
-- Name: job_outbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_outbox (
    job_no bigint NOT NULL,
    task text NOT NULL,
    payload jsonb NOT NULL,
    key text,
    after_ms integer DEFAULT 0 NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: job_outbox_job_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.job_outbox ALTER COLUMN job_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.job_outbox_job_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: job_workers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_workers (
    worker text NOT NULL,
    until timestamp with time zone NOT NULL
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
-- Name: mailbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mailbox (
    message_id text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    copies integer DEFAULT 1 NOT NULL,
    sender text NOT NULL,
    recipient text NOT NULL,
    subject text NOT NULL,
    body_text text NOT NULL,
    body_html text NOT NULL
);

--
-- Name: mailbox_attachments; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mailbox_attachments (
    message_id text NOT NULL,
    "position" integer NOT NULL,
    filename text NOT NULL,
    mime_type text NOT NULL,
    bytes bytea NOT NULL
);

--
-- Name: mails; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mails (
    mail_id uuid NOT NULL,
    order_id uuid NOT NULL,
    what text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    state text DEFAULT 'due'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    copy_of uuid,
    CONSTRAINT mails_state_check CHECK ((state = ANY (ARRAY['due'::text, 'sent'::text, 'refused'::text, 'not_needed'::text])))
);

--
-- Name: provider_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.provider_events (
    provider_event_id text NOT NULL,
    type text NOT NULL,
    object text,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    processed_at timestamp with time zone,
    due_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_by text,
    claimed_until timestamp with time zone,
    note text
);

--
-- Name: reconcile_findings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.reconcile_findings (
    finding_id bigint NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    order_id uuid,
    object text,
    says text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    first_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    settled_at timestamp with time zone,
    settled_by text,
    note text,
    decision jsonb
);

--
-- Name: operator_list; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.operator_list AS
 SELECT ('operation-'::text || m.operation_id) AS entry,
    m.attention AS kind,
    m.created_at AS since,
    m.order_id,
    m.operation_id,
    NULL::uuid AS refund_id,
    m.provider_object AS object,
    NULL::text AS says
   FROM public.money_operations m
  WHERE (m.attention IS NOT NULL)
UNION ALL
 SELECT ('operation-'::text || m.operation_id) AS entry,
    'outcome_unknown'::text AS kind,
    m.created_at AS since,
    m.order_id,
    m.operation_id,
    NULL::uuid AS refund_id,
    m.provider_object AS object,
    NULL::text AS says
   FROM public.money_operations m
  WHERE ((m.due_at IS NOT NULL) AND (m.attention IS NULL) AND (((m.state = 'unknown'::text) AND (m.created_at < (clock_timestamp() - '00:10:00'::interval))) OR ((m.state = 'ending'::text) AND (m.attempts > 5))))
UNION ALL
 SELECT ('refund-'::text || r.refund_id) AS entry,
    'refund_failed'::text AS kind,
    r.created_at AS since,
    r.order_id,
    NULL::uuid AS operation_id,
    r.refund_id,
    NULL::text AS object,
    r.detail AS says
   FROM public.refunds r
  WHERE (r.state = 'failed'::text)
UNION ALL
 SELECT ('event-'::text || e.object) AS entry,
    'unknown_object'::text AS kind,
    min(e.received_at) AS since,
    NULL::uuid AS order_id,
    NULL::uuid AS operation_id,
    NULL::uuid AS refund_id,
    e.object,
    string_agg(DISTINCT e.type, ', '::text ORDER BY e.type) AS says
   FROM public.provider_events e
  WHERE (e.note = 'unknown_object'::text)
  GROUP BY e.object
UNION ALL
 SELECT ('finding-'::text || f.finding_id) AS entry,
    f.kind,
    f.first_seen_at AS since,
    f.order_id,
    NULL::uuid AS operation_id,
    NULL::uuid AS refund_id,
    f.object,
    f.says
   FROM public.reconcile_findings f
  WHERE (f.settled_at IS NULL);

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
-- Name: process_health; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.process_health (
    process text NOT NULL,
    roles text[] NOT NULL,
    started_at timestamp with time zone NOT NULL,
    reported_at timestamp with time zone NOT NULL,
    parts jsonb NOT NULL
);

--
-- Name: provider_listings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.provider_listings (
    kind text NOT NULL,
    listed_to timestamp with time zone NOT NULL,
    from_at timestamp with time zone,
    to_at timestamp with time zone,
    cursor text,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    owner text,
    claimed_until timestamp with time zone,
    finished_at timestamp with time zone,
    CONSTRAINT provider_listings_kind_check CHECK ((kind = ANY (ARRAY['refund'::text, 'dispute'::text])))
);

--
-- Name: provider_signals; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.provider_signals (
    owner text NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    calls integer NOT NULL,
    refused integer NOT NULL
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
-- Name: reconcile_findings_finding_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.reconcile_findings ALTER COLUMN finding_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.reconcile_findings_finding_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: reconcile_seen; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.reconcile_seen (
    run_id uuid NOT NULL,
    object text NOT NULL
);

--
-- Name: refund_tickets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.refund_tickets (
    event_no integer NOT NULL,
    ticket_id uuid NOT NULL,
    refund_id uuid NOT NULL
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
-- Name: sign_in_budgets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sign_in_budgets (
    budget text NOT NULL,
    email text,
    attempts double precision DEFAULT 0 NOT NULL,
    counted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    next_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: ticket_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ticket_keys (
    key_id text NOT NULL,
    public_key text NOT NULL,
    first_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: undeclared_proxies; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.undeclared_proxies (
    peer_kind text NOT NULL,
    peer text NOT NULL,
    header text NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT undeclared_proxies_peer_kind_check CHECK ((peer_kind = ANY (ARRAY['private'::text, 'public'::text])))
);

--
-- Name: webhook_attempts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_attempts (
    delivery_id uuid NOT NULL,
    attempt integer NOT NULL,
    at timestamp with time zone NOT NULL,
    status integer,
    error text,
    duration_ms integer
);

--
-- Name: webhook_deliveries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_deliveries (
    delivery_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    event_no integer,
    what text NOT NULL,
    body text NOT NULL,
    state text DEFAULT 'due'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    claimed_until timestamp with time zone,
    first_attempt_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['due'::text, 'delivered'::text, 'failed'::text, 'dropped'::text])))
);

--
-- Name: webhook_secrets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_secrets (
    secret_no bigint NOT NULL,
    endpoint_id uuid NOT NULL,
    secret text NOT NULL,
    until timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: webhook_secrets_secret_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.webhook_secrets ALTER COLUMN secret_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.webhook_secrets_secret_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: access_codes access_codes_event_no_code_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_codes
    ADD CONSTRAINT access_codes_event_no_code_key UNIQUE (event_no, code);

--
-- Name: access_codes access_codes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_codes
    ADD CONSTRAINT access_codes_pkey PRIMARY KEY (code_id);

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
-- Name: confirmations confirmations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.confirmations
    ADD CONSTRAINT confirmations_pkey PRIMARY KEY (code_hash);

--
-- Name: cooldowns cooldowns_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cooldowns
    ADD CONSTRAINT cooldowns_pkey PRIMARY KEY (event_no, kind, subject);

--
-- Name: entries entries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (event_no, ticket_id);

--
-- Name: entry_scans entry_scans_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entry_scans
    ADD CONSTRAINT entry_scans_pkey PRIMARY KEY (entry_scan_no);

--
-- Name: event_cancellations event_cancellations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_cancellations
    ADD CONSTRAINT event_cancellations_pkey PRIMARY KEY (event_no);

--
-- Name: event_partitions event_partitions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_partitions
    ADD CONSTRAINT event_partitions_pkey PRIMARY KEY (event_no, partition);

--
-- Name: event_rests event_rests_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_rests
    ADD CONSTRAINT event_rests_pkey PRIMARY KEY (event_no);

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
-- Name: hold_ends hold_ends_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hold_ends
    ADD CONSTRAINT hold_ends_pkey PRIMARY KEY (hold_id, event_no);

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
-- Name: job_outbox job_outbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_outbox
    ADD CONSTRAINT job_outbox_pkey PRIMARY KEY (job_no);

--
-- Name: job_workers job_workers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_workers
    ADD CONSTRAINT job_workers_pkey PRIMARY KEY (worker);

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
-- Name: limit_allowances limit_allowances_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_allowances
    ADD CONSTRAINT limit_allowances_pkey PRIMARY KEY (allowance_id);

--
-- Name: limit_counts limit_counts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_counts
    ADD CONSTRAINT limit_counts_pkey PRIMARY KEY (event_no, kind, subject);

--
-- Name: mailbox_attachments mailbox_attachments_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mailbox_attachments
    ADD CONSTRAINT mailbox_attachments_pkey PRIMARY KEY (message_id, "position");

--
-- Name: mailbox mailbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mailbox
    ADD CONSTRAINT mailbox_pkey PRIMARY KEY (message_id);

--
-- Name: mails mails_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mails
    ADD CONSTRAINT mails_pkey PRIMARY KEY (mail_id);

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
-- Name: process_health process_health_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.process_health
    ADD CONSTRAINT process_health_pkey PRIMARY KEY (process);

--
-- Name: provider_events provider_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_events
    ADD CONSTRAINT provider_events_pkey PRIMARY KEY (provider_event_id);

--
-- Name: provider_listings provider_listings_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_listings
    ADD CONSTRAINT provider_listings_pkey PRIMARY KEY (kind);

--
-- Name: provider_signals provider_signals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_signals
    ADD CONSTRAINT provider_signals_pkey PRIMARY KEY (owner);

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
    ADD CONSTRAINT queue_recent_pkey PRIMARY KEY (visitor, event_no);

--
-- Name: reconcile_findings reconcile_findings_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reconcile_findings
    ADD CONSTRAINT reconcile_findings_pkey PRIMARY KEY (finding_id);

--
-- Name: reconcile_runs reconcile_runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reconcile_runs
    ADD CONSTRAINT reconcile_runs_pkey PRIMARY KEY (run_id);

--
-- Name: reconcile_seen reconcile_seen_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reconcile_seen
    ADD CONSTRAINT reconcile_seen_pkey PRIMARY KEY (run_id, object);

--
-- Name: refund_tickets refund_tickets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refund_tickets
    ADD CONSTRAINT refund_tickets_pkey PRIMARY KEY (event_no, ticket_id);

--
-- Name: refunds refunds_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refunds
    ADD CONSTRAINT refunds_pkey PRIMARY KEY (refund_id);

--
-- Name: reversals reversals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reversals
    ADD CONSTRAINT reversals_pkey PRIMARY KEY (reversal_id);

--
-- Name: sales_figures sales_figures_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sales_figures
    ADD CONSTRAINT sales_figures_pkey PRIMARY KEY (event_no);

--
-- Name: schema_migrations schema_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

--
-- Name: seats seats_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.seats
    ADD CONSTRAINT seats_pkey PRIMARY KEY (seat_no, event_no);

--
-- Name: sign_in_budgets sign_in_budgets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sign_in_budgets
    ADD CONSTRAINT sign_in_budgets_pkey PRIMARY KEY (budget);

--
-- Name: ticket_keys ticket_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ticket_keys
    ADD CONSTRAINT ticket_keys_pkey PRIMARY KEY (key_id);

--
-- Name: tickets tickets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tickets
    ADD CONSTRAINT tickets_pkey PRIMARY KEY (ticket_id, event_no);

--
-- Name: undeclared_proxies undeclared_proxies_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.undeclared_proxies
    ADD CONSTRAINT undeclared_proxies_pkey PRIMARY KEY (peer_kind);

--
-- Name: webhook_attempts webhook_attempts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_pkey PRIMARY KEY (delivery_id, attempt);

--
-- Name: webhook_deliveries webhook_deliveries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (delivery_id);

--
-- Name: webhook_endpoints webhook_endpoints_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (endpoint_id);

--
-- Name: webhook_secrets webhook_secrets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_pkey PRIMARY KEY (secret_no);

--
-- Name: access_codes_batch; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX access_codes_batch ON public.access_codes USING btree (event_no, batch);

--
-- Name: audit_log_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX audit_log_event ON public.audit_log USING btree (event_no, entry);

--
-- Name: cooldowns_changed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX cooldowns_changed ON public.cooldowns USING btree (changed_at);

--
-- Name: cooldowns_last; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX cooldowns_last ON public.cooldowns USING btree (last_at);

--
-- Name: entry_scans_ticket; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX entry_scans_ticket ON public.entry_scans USING btree (event_no, ticket_id);

--
-- Name: event_wakes_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX event_wakes_event ON public.event_wakes USING btree (event_no);

--
-- Name: frontier_moves_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX frontier_moves_at ON public.frontier_moves USING btree (event_no, shard, at);

--
-- Name: hold_ends_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hold_ends_due ON public.hold_ends USING btree (ends_at);

--
-- Name: holds_address; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_address ON ONLY public.holds USING btree (address);

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
-- Name: limit_allowances_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX limit_allowances_account ON public.limit_allowances USING btree (event_no, account) WHERE (ended_at IS NULL);

--
-- Name: limit_allowances_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX limit_allowances_visitor ON public.limit_allowances USING btree (event_no, visitor) WHERE (ended_at IS NULL);

--
-- Name: mailbox_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mailbox_newest ON public.mailbox USING btree (at DESC);

--
-- Name: mails_attention; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_attention ON public.mails USING btree (updated_at) WHERE ((state = 'refused'::text) OR ((state = 'due'::text) AND (last_error IS NOT NULL)));

--
-- Name: mails_copies; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_copies ON public.mails USING btree (copy_of) WHERE (copy_of IS NOT NULL);

--
-- Name: mails_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_due ON public.mails USING btree (created_at) WHERE (state = 'due'::text);

--
-- Name: mails_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_order ON public.mails USING btree (order_id);

--
-- Name: money_attention; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_attention ON public.money_operations USING btree (created_at) WHERE (attention IS NOT NULL);

--
-- Name: money_client_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_client_key ON public.money_operations USING btree (order_id, client_key) WHERE (client_key IS NOT NULL);

--
-- Name: money_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_due ON public.money_operations USING btree (due_at) WHERE (due_at IS NOT NULL);

--
-- Name: money_object; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_object ON public.money_operations USING btree (provider_object) WHERE (provider_object IS NOT NULL);

--
-- Name: money_one_authorisation; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_authorisation ON public.money_operations USING btree (order_id) WHERE ((kind = 'authorise'::text) AND (state <> ALL (ARRAY['refused'::text, 'voided'::text])));

--
-- Name: money_one_refund; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_refund ON public.money_operations USING btree (refund_id) WHERE ((refund_id IS NOT NULL) AND (state <> 'refused'::text));

--
-- Name: money_one_under_way; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_under_way ON public.money_operations USING btree (order_id) WHERE ((state = ANY (ARRAY['open'::text, 'waiting'::text, 'unknown'::text, 'ending'::text])) AND (kind <> 'refund'::text));

--
-- Name: money_operations_check; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_operations_check ON public.money_operations USING btree (check_at) WHERE (check_at IS NOT NULL);

--
-- Name: money_operations_opened; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_operations_opened ON public.money_operations USING btree (created_at, operation_id) WHERE (kind = 'open'::text);

--
-- Name: money_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_order ON public.money_operations USING btree (order_id, created_at);

--
-- Name: money_refund; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_refund ON public.money_operations USING btree (refund_id) WHERE (refund_id IS NOT NULL);

--
-- Name: order_history_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX order_history_order ON public.order_history USING btree (order_id, at);

--
-- Name: orders_access_code; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_access_code ON public.orders USING btree (access_code) WHERE (access_code IS NOT NULL);

--
-- Name: orders_bought_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_bought_visitor ON public.orders USING btree (event_no, visitor) WHERE (state = ANY (ARRAY['confirmed'::text, 'paid'::text]));

--
-- Name: orders_changed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_changed ON public.orders USING btree (updated_at);

--
-- Name: orders_deadline; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_deadline ON public.orders USING btree (payment_deadline) WHERE (state = ANY (ARRAY['reserved'::text, 'authorised'::text, 'confirmed'::text, 'voiding'::text]));

--
-- Name: orders_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_event ON public.orders USING btree (event_no, created_at);

--
-- Name: orders_former_hold; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_former_hold ON public.orders USING btree (former_hold_id) WHERE (former_hold_id IS NOT NULL);

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
-- Name: provider_events_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_due ON public.provider_events USING btree (due_at) WHERE (due_at IS NOT NULL);

--
-- Name: provider_events_ended; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_ended ON public.provider_events USING btree (processed_at) WHERE (processed_at IS NOT NULL);

--
-- Name: provider_events_foreign; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_foreign ON public.provider_events USING btree (received_at) WHERE (note = 'foreign'::text);

--
-- Name: provider_events_object; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_object ON public.provider_events USING btree (object) WHERE (due_at IS NOT NULL);

--
-- Name: provider_events_unknown; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_unknown ON public.provider_events USING btree (received_at) WHERE (note = 'unknown_object'::text);

--
-- Name: published_since; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX published_since ON public.published USING btree (published_at);

--
-- Name: queue_recent_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX queue_recent_age ON public.queue_recent USING btree (issued_at);

--
-- Name: reconcile_findings_open; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX reconcile_findings_open ON public.reconcile_findings USING btree (kind, subject) WHERE (settled_at IS NULL);

--
-- Name: reconcile_findings_settled; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reconcile_findings_settled ON public.reconcile_findings USING btree (settled_at) WHERE (settled_at IS NOT NULL);

--
-- Name: reconcile_findings_subject; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reconcile_findings_subject ON public.reconcile_findings USING btree (subject);

--
-- Name: reconcile_runs_started; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reconcile_runs_started ON public.reconcile_runs USING btree (started_at);

--
-- Name: refund_tickets_refund; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refund_tickets_refund ON public.refund_tickets USING btree (refund_id);

--
-- Name: refunds_check; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_check ON public.refunds USING btree (check_at) WHERE (check_at IS NOT NULL);

--
-- Name: refunds_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_event ON public.refunds USING btree (event_no, state);

--
-- Name: refunds_failed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_failed ON public.refunds USING btree (created_at) WHERE (state = 'failed'::text);

--
-- Name: refunds_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_order ON public.refunds USING btree (order_id, created_at);

--
-- Name: refunds_request; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX refunds_request ON public.refunds USING btree (order_id, request_key) WHERE (request_key IS NOT NULL);

--
-- Name: reversals_open; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reversals_open ON public.reversals USING btree (object) WHERE (state = ANY (ARRAY['pending'::text, 'open'::text]));

--
-- Name: reversals_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reversals_order ON public.reversals USING btree (order_id);

--
-- Name: sign_in_budgets_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX sign_in_budgets_by_age ON public.sign_in_budgets USING btree (counted_at);

--
-- Name: tickets_one_owner; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX tickets_one_owner ON ONLY public.tickets USING btree ((
CASE
    WHEN (status <> 'cancelled'::text) THEN seat_no
    ELSE NULL::integer
END), event_no);

--
-- Name: tickets_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tickets_order ON ONLY public.tickets USING btree (order_id);

--
-- Name: webhook_deliveries_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_age ON public.webhook_deliveries USING btree (created_at);

--
-- Name: webhook_deliveries_claimed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_claimed ON public.webhook_deliveries USING btree (endpoint_id, claimed_until) WHERE (claimed_until IS NOT NULL);

--
-- Name: webhook_deliveries_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_due ON public.webhook_deliveries USING btree (endpoint_id, due_at) WHERE (state = 'due'::text);

--
-- Name: webhook_deliveries_log; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_log ON public.webhook_deliveries USING btree (endpoint_id, created_at DESC);

--
-- Name: webhook_secrets_endpoint; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_secrets_endpoint ON public.webhook_secrets USING btree (endpoint_id);

--
-- Name: events events_phase_happened; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER events_phase_happened AFTER UPDATE OF phase ON public.events FOR EACH ROW WHEN ((old.phase IS DISTINCT FROM new.phase)) EXECUTE FUNCTION public.event_phase_happened();

--
-- Name: orders orders_access_code; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER orders_access_code AFTER UPDATE OF state, access_code ON public.orders FOR EACH ROW WHEN ((new.access_code IS NOT NULL)) EXECUTE FUNCTION public.order_code_follows();

--
-- Name: queue_counters queue_shards_make; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER queue_shards_make AFTER INSERT ON public.queue_counters FOR EACH ROW WHEN ((new.shard = 0)) EXECUTE FUNCTION public.queue_shards_make();

--
-- Name: admissions wakes_event; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event AFTER UPDATE ON public.admissions FOR EACH ROW WHEN ((old.issued IS DISTINCT FROM new.issued)) EXECUTE FUNCTION public.event_changed();

--
-- Name: event_partitions wakes_event; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event AFTER UPDATE ON public.event_partitions FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.event_changed();

--
-- Name: events wakes_event; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event AFTER UPDATE ON public.events FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.event_changed();

--
-- Name: partition_witnesses wakes_event; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event AFTER INSERT OR UPDATE ON public.partition_witnesses FOR EACH ROW EXECUTE FUNCTION public.event_changed();

--
-- Name: queue_counters wakes_event; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event AFTER UPDATE ON public.queue_counters FOR EACH ROW WHEN (((((old.last_no IS DISTINCT FROM new.last_no) OR (old.mode IS DISTINCT FROM new.mode)) OR (old.epoch IS DISTINCT FROM new.epoch)) OR (old.reported_at IS DISTINCT FROM new.reported_at))) EXECUTE FUNCTION public.event_changed();

--
-- Name: seats wakes_event; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event AFTER UPDATE ON public.seats FOR EACH ROW EXECUTE FUNCTION public.event_changed();

--
-- Name: event_partitions wakes_event_first; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event_first AFTER INSERT ON public.event_partitions FOR EACH ROW EXECUTE FUNCTION public.event_changed();

--
-- Name: queue_counters wakes_event_first; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakes_event_first AFTER INSERT ON public.queue_counters FOR EACH ROW EXECUTE FUNCTION public.event_changed();

--
-- Name: access_codes access_codes_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_codes
    ADD CONSTRAINT access_codes_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

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
-- Name: confirmations confirmations_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.confirmations
    ADD CONSTRAINT confirmations_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: cooldowns cooldowns_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cooldowns
    ADD CONSTRAINT cooldowns_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: entries entries_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: entry_scans entry_scans_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entry_scans
    ADD CONSTRAINT entry_scans_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: event_cancellations event_cancellations_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_cancellations
    ADD CONSTRAINT event_cancellations_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

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
-- Name: limit_allowances limit_allowances_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_allowances
    ADD CONSTRAINT limit_allowances_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: mailbox_attachments mailbox_attachments_message_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mailbox_attachments
    ADD CONSTRAINT mailbox_attachments_message_id_fkey FOREIGN KEY (message_id) REFERENCES public.mailbox(message_id) ON DELETE CASCADE;

--
-- Name: mails mails_copy_of_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mails
    ADD CONSTRAINT mails_copy_of_fkey FOREIGN KEY (copy_of) REFERENCES public.mails(mail_id);

--
-- Name: mails mails_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mails
    ADD CONSTRAINT mails_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: money_operations money_operations_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: money_operations money_operations_refund_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_refund_id_fkey FOREIGN KEY (refund_id) REFERENCES public.refunds(refund_id);

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
-- Name: refund_tickets refund_tickets_refund_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refund_tickets
    ADD CONSTRAINT refund_tickets_refund_id_fkey FOREIGN KEY (refund_id) REFERENCES public.refunds(refund_id);

--
-- Name: refunds refunds_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refunds
    ADD CONSTRAINT refunds_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: refunds refunds_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refunds
    ADD CONSTRAINT refunds_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: reversals reversals_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reversals
    ADD CONSTRAINT reversals_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: sales_figures sales_figures_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sales_figures
    ADD CONSTRAINT sales_figures_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: webhook_attempts webhook_attempts_delivery_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_delivery_id_fkey FOREIGN KEY (delivery_id) REFERENCES public.webhook_deliveries(delivery_id) ON DELETE CASCADE;

--
-- Name: webhook_endpoints webhook_endpoints_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: webhook_secrets webhook_secrets_endpoint_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES public.webhook_endpoints(endpoint_id);

--
-- PostgreSQL database dump complete
--
