-- The Postgres arbiter: several claims of one tick in one call. In a crowd most claims are refused, and most of a claim's cost does
-- not depend on it: the call, the gate, the plan of each statement, the flush at commit. A batch shares these.
--
-- Locks: the event's (shared) is waited for first, as in every claim. Nothing else is waited for: the locks of holders, visitors and
-- address ranges are tried, and rows locked by others are skipped. A claim that would have had to wait gets 'alone': nothing was
-- done, and the caller calls arbiter_hold for it. So two batches cannot wait for each other.

-- Returns whether enough of the seats are free for the claim.
CREATE OR REPLACE FUNCTION claim_finds(p_seats integer[], p_size integer, p_free integer[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN cardinality(p_seats) = p_size THEN p_seats <@ p_free
              ELSE arbiter_first_group(p_seats, p_size, p_free) IS NOT NULL END
$$;

-- hold for a batch: arrays with one element per claim, in order of arrival. Of two claims to a seat the earlier gets it.
--   p_seats  for each claim the text of an integer array: its candidate groups one after the other, as in arbiter_hold
--   p_named  exactly these seats
-- Decides only simple cases. A claim also gets 'alone' if its id or visitor is known already (a repeat, a second hold), or if it is
-- not the first of its holder or visitor in the batch.
CREATE OR REPLACE FUNCTION arbiter_hold_many(p_event integer, p_partition smallint, p_epoch bigint, p_holds uuid[], p_visitors text[],
  p_holders text[], p_requests text[], p_seats text[], p_sizes integer[], p_named boolean[], p_ttls_ms integer[],
  p_seats_max integer[], p_not_after timestamptz[], p_addresses text[] DEFAULT NULL, p_addresses_max integer[] DEFAULT NULL)
RETURNS TABLE (claim integer, kind text, hold_id uuid, visitor text, holder text, seats integer[], granted_at timestamptz,
  deadline timestamptz, epoch bigint, grant_no bigint, order_id uuid, repeated boolean, used integer, phase text,
  after_ms integer)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
  gate arbiter_answer; v_now timestamptz := arbiter_now(); v_free integer[]; v_given integer[] := '{}'; v_group integer[];
  v_hopeful integer[]; v_holds uuid[]; v_visitors text[]; v_holders text[]; v_used integer[]; v_rows integer; c record;
  -- Address ranges of the batch in parallel arrays: seats that counted before it, seats that it gives.
  v_addresses text[]; v_address_used integer[]; v_address_given integer[]; v_at integer;
  -- Claims that chose seats, in parallel arrays.
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

  -- A claim is a candidate if one of its groups is free, it is the first of its holder and visitor, and both locks are ours.
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
       -- Claims of one address range share its lock, because a transaction may take it again.
       AND (h.address IS NULL OR pg_try_advisory_xact_lock(address_lock_key(p_event, p_partition, h.address)))
     ORDER BY h.i);

  -- Reads the existing holds of the candidates after those locks. In a crowd there are almost none. Each is one index probe
  -- (LATERAL with a LIMIT): a join, EXISTS or `= ANY` of an array is planned as a scan of all of the event's holds while the
  -- table is empty, and the plan is kept.
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

  -- Gives seats to the candidates in order.
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
      -- Another batch, or an earlier claim of the same buyer, decides about this one, or its seats went meanwhile.
      kind := 'alone';
    ELSIF c.used + c.size > c.seats_max THEN kind := 'quota'; used := c.used;
    ELSIF v_address_used[v_at] + c.size > c.address_max THEN kind := 'address_quota'; used := v_address_used[v_at];
    ELSIF v_address_used[v_at] + v_address_given[v_at] + c.size > c.address_max THEN
      -- Whether the seats given to neighbours in this batch stay theirs is known only at its end.
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
  -- A claim that lost its seats within this batch is refused only if they were not given back.
  RETURN QUERY
    SELECT l.i, 'taken', NULL::uuid, NULL::text, NULL::text,
           CASE WHEN p_named[l.i] THEN ARRAY(SELECT w FROM unnest(p_seats[l.i]::integer[]) w WHERE w = ANY(v_given))
                ELSE '{}'::integer[] END,
           NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::uuid, NULL::boolean, NULL::integer, NULL::text,
           NULL::integer
      FROM unnest(v_losers) AS l(i) WHERE v_rows = cardinality(v_claims);
END $$;

-- For a claim that waited too long for a seat's lock, or was rolled back, and so was not decided. Returns the seats that others have
-- or are deciding about (p_named; otherwise an empty list if no group of p_size seats is available). Returns null if the claim may
-- succeed, if this store does not decide now, or if the id or the visitor has a hold already. Waits for no lock.
CREATE OR REPLACE FUNCTION arbiter_refusal(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_seats integer[], p_size integer, p_named boolean) RETURNS integer[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
