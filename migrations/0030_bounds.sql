-- Bounds that keep one buyer, one browser or one internet address from taking too much: docs/decisions/0034, operating/limits.md.
-- `address` is the id of an address range (an IPv4 address, an IPv6 /64) in one event, a keyed hash: never the address itself.

-- In the arbiter: seats held, or reserved and unpaid, by an address range in a partition, exact as the holder's quota (S7).
-- A hold that came back by its receipt has no address any more, nor have the entries that a degrade makes of open orders: the
-- loss of a Redis forgives, it never accuses.
ALTER TABLE holds ADD COLUMN address text;
CREATE INDEX holds_address ON holds (address);

CREATE FUNCTION address_lock_key(p_event integer, p_partition smallint, p_address text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
  $$ SELECT hashtextextended(format('a/%s/%s/%s', p_event, p_partition, p_address), 0) $$;

CREATE FUNCTION address_used(p_event integer, p_partition smallint, p_epoch bigint, p_address text, p_replaces uuid)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_now timestamptz := arbiter_now(); v_used integer;
BEGIN
  SELECT coalesce(sum(cardinality(h.seats)), 0) INTO v_used FROM holds h
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.address = p_address AND h.state IN ('live','ordered')
     AND (h.state = 'ordered' OR (h.deadline > v_now AND h.epoch = p_epoch)) AND h.hold_id IS DISTINCT FROM p_replaces;
  RETURN v_used;
END $$;

-- hold, as in 0002, with the address range's quota; its lock comes after the holder's and the visitor's.
DROP FUNCTION arbiter_hold(integer, smallint, bigint, uuid, text, text, text, integer[], integer, boolean, integer[], integer,
  integer, uuid, timestamptz);
CREATE FUNCTION arbiter_hold(p_event integer, p_partition smallint, p_epoch bigint, p_hold uuid, p_visitor text,
  p_holder text, p_request text, p_seats integer[], p_size integer, p_named boolean, p_units integer[], p_ttl_ms integer,
  p_seats_max integer, p_replaces uuid, p_not_after timestamptz, p_address text DEFAULT NULL, p_address_max integer DEFAULT NULL) RETURNS arbiter_answer LANGUAGE plpgsql AS $$
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

-- Holds of one tick in one call, as in 0011, with the quotas of address ranges.
DROP FUNCTION arbiter_hold_many(integer, smallint, bigint, uuid[], text[], text[], text[], text[], integer[], boolean[],
  integer[], integer[], timestamptz[]);
CREATE FUNCTION arbiter_hold_many(p_event integer, p_partition smallint, p_epoch bigint, p_holds uuid[], p_visitors text[],
  p_holders text[], p_requests text[], p_seats text[], p_sizes integer[], p_named boolean[], p_ttls_ms integer[],
  p_seats_max integer[], p_not_after timestamptz[], p_addresses text[] DEFAULT NULL, p_addresses_max integer[] DEFAULT NULL)
RETURNS TABLE (claim integer, kind text, hold_id uuid, visitor text, holder text, seats integer[], granted_at timestamptz,
  deadline timestamptz, epoch bigint, grant_no bigint, order_id uuid, repeated boolean, used integer, phase text,
  after_ms integer)
LANGUAGE plpgsql AS $$
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

ALTER FUNCTION arbiter_hold_many SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off;

-- A partition's holds with their address ranges: a store that is filled goes on counting them.
CREATE OR REPLACE FUNCTION partition_holds(p_event integer, p_partition smallint, p_mark bigint DEFAULT NULL)
RETURNS SETOF holds LANGUAGE sql STABLE SET enable_nestloop = off AS $$
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

CREATE OR REPLACE FUNCTION partition_move(p_event integer, p_partition smallint, p_term bigint, p_rebuild bigint, p_mark bigint)
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
           'grant', h.grant_no, 'order', h.order_id, 'address', h.address, 'state', h.state)), '[]')
    INTO holds FROM partition_holds(p_event, p_partition, p_mark) h;
  SELECT e.phase, e.version INTO phase, phase_version FROM events e WHERE e.event_no = p_event;
  RETURN NEXT;
END $$;

-- Cooldowns, by address range too: new cookies from the same address do not escape. An address is never in a cooldown, since a
-- stranger could lock everybody behind it out: the count of its holds that ended unpaid bounds its seats at once instead
-- (addressSeatsNow in src/orders/limits.ts). `until`: how long the count stands. A purchase halves it: neighbours who buy give an
-- address its seats back, and one cheap ticket does not wipe the slate.
ALTER TABLE hold_ends ADD COLUMN address text, ADD COLUMN quick boolean NOT NULL DEFAULT false;
ALTER TABLE cooldowns ADD COLUMN quick integer NOT NULL DEFAULT 0;  -- given back within a minute, since the last that counted
ALTER TABLE cooldowns DROP CONSTRAINT cooldowns_kind_check;
ALTER TABLE cooldowns ADD CONSTRAINT cooldowns_kind_check CHECK (kind IN ('visitor','account','address'));

-- A hold that is given back within a minute is a changed mind, and every third of them counts as one that ended unpaid: otherwise
-- seats go from cookie to cookie each minute, and nobody has held them.
CREATE FUNCTION hold_end_counts(p_event integer, p_kind text, p_subject text, p_quick boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_quick integer;
BEGIN
  IF NOT p_quick THEN RETURN true; END IF;
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, quick, last_at, changed_at)
  VALUES (p_event, p_kind, p_subject, 0, 1, clock_timestamp(), clock_timestamp())
  ON CONFLICT (event_no, kind, subject) DO UPDATE SET quick = (c.quick + 1) % 3 RETURNING quick INTO v_quick;
  RETURN v_quick = 0;
END $$;

CREATE FUNCTION address_unpaid(p_event integer, p_address text, p_rule jsonb) RETURNS void LANGUAGE sql AS $$
  INSERT INTO cooldowns AS c (event_no, kind, subject, unpaid, last_at, until, changed_at)
  SELECT p_event, 'address', p_address, 1, at, at + (p_rule ->> 'forgetMs')::float8 * interval '1 millisecond', at
  FROM clock_timestamp() at
  ON CONFLICT (event_no, kind, subject) DO UPDATE
    SET unpaid = CASE WHEN c.until > excluded.last_at THEN c.unpaid + 1 ELSE 1 END,
        last_at = excluded.last_at, until = excluded.until, changed_at = excluded.changed_at
$$;
CREATE FUNCTION address_paid(p_event integer, p_address text) RETURNS void LANGUAGE sql AS $$
  UPDATE cooldowns SET unpaid = unpaid / 2, until = CASE WHEN unpaid > 1 THEN until END, changed_at = clock_timestamp()
  WHERE event_no = p_event AND kind = 'address' AND subject = p_address
$$;

DROP FUNCTION hold_ends_note(integer[], uuid[], text[], text[], timestamptz[], timestamptz[], integer[], uuid[], text[]);
CREATE FUNCTION hold_ends_note(
  p_events integer[], p_holds uuid[], p_visitors text[], p_accounts text[], p_granted timestamptz[], p_ends timestamptz[],
  p_over_events integer[], p_over_holds uuid[], p_over_how text[], p_addresses text[] DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
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

-- As in 0014, for address ranges too.
CREATE OR REPLACE FUNCTION cooldown_judge(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
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

-- As in 0014, for all limits of an event.
CREATE OR REPLACE FUNCTION event_limits(p_settings jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_object_agg(name, coalesce(p_settings -> name, 'null'))
  FROM unnest('{accountSeatsMax,instrumentSeatsMax,visitorSeatsMax,addressSeatsMax,joinsPerMinute,claimsPerMinute,cooldown}'::text[]) name
$$;

-- Reserve: what one browser and one holder may have in all parts of the house, and how long a buyer who never pays keeps seats.

CREATE INDEX orders_bought_visitor ON orders (event_no, visitor) WHERE state IN ('confirmed','paid');

-- The refusal of an order that would exceed visitorSeatsMax or, of an account with several browsers, the event's quota over all
-- partitions; null: neither. A visitor's orders are made one after the other (one open order each), an account's behind its
-- limit row, so both hold exactly. Refunded seats do not count.
CREATE FUNCTION order_bounds_reached(p_event integer, p_hold uuid, p_visitor text, p_holder text, p_seats integer)
RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- Until when the order can be paid: ten minutes. A buyer whose last holds ended unpaid gets no second term: what is left of the
-- hold (extend has left it five minutes, within fifteen of its grant), and five minutes at least. Otherwise an invented address
-- would double the life of a hold each time. By visitor and account from the first one, by address range from the sixth.
CREATE FUNCTION order_pay_until(p_event integer, p_hold uuid, p_visitor text, p_holder text, p_deadline timestamptz,
  p_at timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$
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

-- As in 0014, with these bounds.
CREATE OR REPLACE FUNCTION order_reserve(
  p_order uuid, p_hold uuid, p_event integer, p_partition smallint, p_epoch bigint, p_deadline timestamptz,
  p_visitor text, p_holder text, p_account text, p_buyer jsonb, p_lines jsonb, p_order_fee bigint, p_currency text)
RETURNS jsonb LANGUAGE plpgsql AS $$
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
