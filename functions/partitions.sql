-- Epochs: which store arbitrates a partition, losing Redis and coming back, one function per step of src/inventory/modes.ts. Each
-- takes the event's lock alone and only then reads the partition's row, in a separate statement: what was granted before a change has
-- been committed by then, and claims that waited read the new row.
--
-- Lock order: witnesses → event (alone) → lease → partition row → orders → holds → seats.

-- Returns whether a row version is newer than a mark, that is, from a transaction that had not committed when the mark was made.
-- Row versions name 32 bits of their transaction, compared as Postgres does. A row frozen long ago may count as new, a new one
-- never counts as old.
CREATE OR REPLACE FUNCTION is_since(p_xmin xid, p_mark bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT p_mark IS NULL OR mod(p_xmin::text::bigint - mod(p_mark, 4294967296) + 4294967296, 4294967296) < 2147483648
$$;

-- Returns an epoch above p_least; all later ones are higher too. After a restore from a backup, stores may know epochs that the
-- sequence has not reached. The extra thousand leaves room for callers that take an epoch meanwhile.
CREATE OR REPLACE FUNCTION next_epoch(p_least bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_epoch bigint := nextval('epochs');
BEGIN
  IF v_epoch > p_least THEN RETURN v_epoch; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('epochs', 0));
  v_epoch := nextval('epochs');
  IF v_epoch <= p_least THEN PERFORM setval('epochs', p_least + 1000); END IF;
  RETURN nextval('epochs');
END $$;

CREATE OR REPLACE FUNCTION partition_note(p_event integer, p_partition smallint, p_action text, p_epoch bigint, p_reason text)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO audit_log (actor, action, event_no, detail)
  VALUES ('controller', p_action, p_event, jsonb_build_object('partition', p_partition, 'epoch', p_epoch, 'reason', p_reason))
$$;

-- Returns the row, locked, if the leader's term is current; otherwise `refused` gives the reason. p_mode is the required mode.
CREATE OR REPLACE FUNCTION partition_lock(p_event integer, p_partition smallint, p_term bigint, p_mode text,
  OUT refused text, OUT p event_partitions) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM event_lock_alone(p_event);
  IF NOT lease_holds(p_event, p_term) THEN refused := 'other_term'; RETURN; END IF;
  SELECT * INTO p FROM event_partitions e WHERE e.event_no = p_event AND e.partition = p_partition FOR UPDATE;
  IF p.mode IS DISTINCT FROM p_mode THEN refused := 'other_mode'; RETURN; END IF;
  IF p.grace_until > clock_timestamp() THEN refused := 'in_grace'; END IF;
END $$;

-- A process reports that the partition's Redis is lost. The leader's report degrades at once; otherwise two processes must report
-- within p_witness_ms. Returns 'degraded', 'noted', 'settling' (restored a moment ago) or 'changed' (no longer this epoch).
CREATE OR REPLACE FUNCTION partition_report(p_event integer, p_partition smallint, p_epoch bigint, p_reporter text, p_reason text,
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
  -- Only reads the lease, so that its renewal does not wait for this call while this call waits for the event's lock.
  v_leads := EXISTS (SELECT FROM leases l WHERE l.event_no = p_event AND l.term = p_term AND l.until > clock_timestamp());
  IF NOT v_leads THEN
    -- One report at a time: of two first reports at once the later one sees the earlier.
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

-- Changes the partition to mode 'postgres'. Returns the new epoch, or null if the change was made already. Called with the event
-- locked alone; locks orders before holds.
CREATE OR REPLACE FUNCTION partition_degrade(p_event integer, p_partition smallint, p_epoch bigint, p_reason text, p_grace_ms integer)
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
  PERFORM FROM orders o WHERE o.event_no = p_event AND o.partition = p_partition AND o.state IN ('reserved','authorised')
   ORDER BY o.order_id FOR SHARE;
  DELETE FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition;
  -- Holds from before do not count (the last flip moved the rows). Unpaid orders still count in the quota (S7). The orders are
  -- locked, so that one which ends just now is either left out or ends its row here afterwards.
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

-- Begins a rebuild; only the last one to begin may move and flip. p_least is an epoch that the store knows; the rebuild's is higher.
CREATE OR REPLACE FUNCTION partition_begin(p_event integer, p_partition smallint, p_term bigint, p_least bigint, OUT refused text,
  OUT rebuild bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT l.refused INTO refused FROM partition_lock(p_event, p_partition, p_term, 'postgres') l;
  IF refused IS NOT NULL THEN RETURN; END IF;
  UPDATE event_partitions e SET rebuild_epoch = next_epoch(p_least) WHERE e.event_no = p_event AND e.partition = p_partition
  RETURNING e.rebuild_epoch INTO rebuild;
END $$;

-- Returns the decided seats of a partition in parallel arrays, ascending, with states as index in seatStates (src/core/hold.ts).
-- `mark` is passed back later to ask for what has changed since.
CREATE OR REPLACE FUNCTION partition_seats(p_event integer, p_partition smallint, p_mark bigint DEFAULT NULL)
RETURNS TABLE (seats integer[], versions double precision[], states smallint[], mark text) LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(s.seat_no ORDER BY s.seat_no), '{}'),
         coalesce(array_agg(s.version::double precision ORDER BY s.seat_no), '{}'),
         coalesce(array_agg((CASE s.state WHEN 'available' THEN 0 WHEN 'reserved' THEN 2 WHEN 'sold' THEN 3 ELSE 4 END)::smallint
                            ORDER BY s.seat_no), '{}'),
         pg_snapshot_xmin(pg_current_snapshot())::text
    FROM seats s WHERE s.event_no = p_event AND s.partition = p_partition AND is_since(s.xmin, p_mark)
$$;

-- Returns the partition's holds with their address ranges, so that the store that is filled goes on counting them.
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
  -- Without a mark this includes all ids that led to an order. A hold that ends between the mark and the move has a row.
  UNION ALL
  SELECT o.event_no, u.hold_id, o.partition, o.visitor, o.holder, '', '{}', o.created_at, o.created_at, 0, 0, o.order_id, 'ended',
         NULL, NULL, NULL
    FROM orders o CROSS JOIN LATERAL (VALUES (o.hold_id), (o.former_hold_id)) u (hold_id)
   WHERE p_mark IS NULL AND o.event_no = p_event AND o.partition = p_partition AND o.state NOT IN ('reserved','authorised')
     AND u.hold_id IS NOT NULL
     AND u.hold_id NOT IN (SELECT hold_id FROM holds h WHERE event_no = p_event AND NOT hold_is_forgotten(h, clock_timestamp()))
$$;

-- Moves the partition: from here on no store grants holds. Returns, with the event still locked, what has changed since the mark.
-- Sales pause while this runs, so it asks as little as possible.
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

-- Ends the move: from this commit on Redis decides. Grant numbers known of an earlier epoch do not apply to the new one.
CREATE OR REPLACE FUNCTION partition_flip(p_event integer, p_partition smallint, p_term bigint, p_rebuild bigint,
  p_run_ids text[], OUT refused text) LANGUAGE plpgsql AS $$
DECLARE
  v record;
BEGIN
  SELECT * INTO v FROM partition_lock(p_event, p_partition, p_term, 'moving');
  refused := CASE WHEN v.refused IS NULL AND (v.p).rebuild_epoch IS DISTINCT FROM p_rebuild THEN 'other_rebuild'
                  ELSE v.refused END;
  IF refused IS NOT NULL THEN RETURN; END IF;
  UPDATE event_partitions e SET mode = 'redis', epoch = p_rebuild, run_ids = p_run_ids, rebuild_epoch = NULL, granted = 0,
      -- A first move is not a restore: a store that was never lost is believed at once when it is reported lost.
      restored_at = CASE WHEN e.reason IS NULL THEN e.restored_at ELSE clock_timestamp() END,
      grace_until = NULL, reason = NULL, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition;
  -- The seats belong to the other store from here on. Lease columns left in the rows name an epoch that is over.
  DELETE FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition;
  DELETE FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition;
  PERFORM partition_note(p_event, p_partition, 'restore', p_rebuild, NULL);
END $$;

-- Ends a move without a flip: Postgres goes on under a new epoch.
CREATE OR REPLACE FUNCTION partition_abort(p_event integer, p_partition smallint, p_term bigint, OUT refused text, OUT new_epoch bigint)
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
  -- Grant numbers are Postgres's own and keep rising, so that later grants outrank the holds carried over here.
  UPDATE holds h SET epoch = new_epoch
   WHERE h.event_no = p_event AND h.partition = p_partition AND h.epoch = (v.p).epoch;
  UPDATE seats s SET hold_epoch = new_epoch
   WHERE s.event_no = p_event AND s.partition = p_partition AND s.hold_epoch = (v.p).epoch AND s.hold_until > clock_timestamp();
  PERFORM partition_note(p_event, p_partition, 'abort_restore', new_epoch, NULL);
END $$;

-- Records the highest grant number that the partition's Redis is known to have given under the epoch; it only rises.
-- Locks only this row.
CREATE OR REPLACE FUNCTION partition_granted(p_event integer, p_partition smallint, p_epoch bigint, p_granted bigint) RETURNS void
LANGUAGE sql AS $$
  UPDATE event_partitions SET granted = p_granted
   WHERE event_no = p_event AND partition = p_partition AND mode = 'redis' AND epoch = p_epoch AND granted < p_granted
$$;

-- For the leader, which updates Redis each second: holds of the orders that changed within p_within_ms and, with p_open, of all unpaid
-- orders. `ordered` are unpaid, `ended` were sold or have ended. Each part can use one index only (`+ 0` excludes the others),
-- whatever Postgres has counted, so that orders that are over are not read. Uses now(), the statement's time, because
-- clock_timestamp() cannot use an index.
CREATE OR REPLACE FUNCTION projection_orders(p_event integer, p_within_ms integer, p_open boolean)
RETURNS TABLE (partition smallint, ordered uuid[], ended uuid[])
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
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
