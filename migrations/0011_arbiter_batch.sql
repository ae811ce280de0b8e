-- Holds of one tick in one call. In a crowd most claims are refused, and most of what each costs is not its own: the call, the
-- gate, the plan of each statement, the flush of a commit. Here a batch shares them.
--
-- Locks: the event's (shared) is waited for, as in every claim, before anything else is held. Nothing else is: the holder's
-- and the visitor's are tried, rows that somebody is just deciding about are skipped, and a claim that would have had to wait
-- is answered 'alone': nothing was done, call arbiter_hold for it. So two batches cannot wait for each other.
--
-- Only what is plain is decided here; 'alone' too is a claim whose id or visitor is known already (a repeat, a second hold),
-- and all but the first of one holder or visitor in the batch. p_seats: for each claim the text of an integer array,
-- its candidate groups one after the other, as in arbiter_hold; p_named: exactly these seats. The order of the arrays is the order of arrival:
-- of two claims to a seat the earlier gets it.
CREATE FUNCTION claim_finds(p_seats integer[], p_size integer, p_free integer[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN cardinality(p_seats) = p_size THEN p_seats <@ p_free
              ELSE arbiter_first_group(p_seats, p_size, p_free) IS NOT NULL END
$$;

CREATE FUNCTION arbiter_hold_many(p_event integer, p_partition smallint, p_epoch bigint, p_holds uuid[], p_visitors text[],
  p_holders text[], p_requests text[], p_seats text[], p_sizes integer[], p_named boolean[], p_ttls_ms integer[],
  p_seats_max integer[], p_not_after timestamptz[])
RETURNS TABLE (claim integer, kind text, hold_id uuid, visitor text, holder text, seats integer[], granted_at timestamptz,
  deadline timestamptz, epoch bigint, grant_no bigint, order_id uuid, repeated boolean, used integer, phase text,
  after_ms integer)
LANGUAGE plpgsql AS $$
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

ALTER FUNCTION arbiter_hold_many SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION arbiter_hold_many SET enable_seqscan = off;
ALTER FUNCTION arbiter_hold_many SET enable_bitmapscan = off;
