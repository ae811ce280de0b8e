-- Entry: a ticket lets its holder in once. Its first use is one row, written by the first gate that asks.

-- Returns why a ticket is refused, or null if it is valid. 'unknown' means that there is no such ticket: it is from another copy of
-- the database.
CREATE OR REPLACE FUNCTION entry_refusal(p_phase text, t tickets) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN t.ticket_id IS NULL THEN 'unknown'
    WHEN p_phase = 'cancelled' THEN 'event_cancelled'
    WHEN t.revoked_at IS NOT NULL THEN 'refunded'
    WHEN t.status <> 'sold' OR (SELECT state FROM orders WHERE order_id = t.order_id) <> 'paid' THEN 'not_paid' END
$$;

-- Returns all uses of a ticket that count: the first and its doubles.
CREATE OR REPLACE FUNCTION entry_uses(p_event integer, p_ticket uuid)
RETURNS TABLE (at timestamptz, gate text, scan text, actor text) LANGUAGE sql STABLE AS $$
  SELECT at, gate, scan, actor FROM entries WHERE event_no = p_event AND ticket_id = p_ticket
  UNION ALL
  SELECT at, gate, scan, actor FROM entry_scans WHERE event_no = p_event AND ticket_id = p_ticket AND what = 'double'
$$;

-- Records the first use of a ticket whose code was verified. Validity is checked before use, so a refunded ticket that was used
-- before is reported as refunded. The event's lock keeps cancelling out until the commit, the ticket's row keeps a refund out. Gates
-- that ask at once meet at the primary key.
--   'valid'    repeated: this gate sent the same scan before
--   'used'     at, gate: of the first use
--   'undone'   at, gate: of this scan, which was undone since. A new scan is decided again
--   'revoked'  why: 'refunded', 'event_cancelled', 'not_paid' or 'unknown'
CREATE OR REPLACE FUNCTION entry_check_in(p_event integer, p_ticket uuid, p_gate text, p_scan text, p_actor text)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
  -- A repeat of a scan that was undone since lets no one in: staff have to look at the ticket again.
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
    -- A repeat gets its first result again, even if an earlier use was reported since. At another gate it is not a repeat: two
    -- scanners that happen to share a key let no one in twice.
    SELECT u.at, u.gate INTO n.at, n.gate FROM entry_uses(p_event, p_ticket) u
    WHERE u.scan = p_scan AND u.gate IS NOT DISTINCT FROM p_gate ORDER BY u.at LIMIT 1;
    v_valid := FOUND;
    IF NOT FOUND THEN SELECT * INTO n FROM entries WHERE event_no = p_event AND ticket_id = p_ticket; END IF;
  END IF;
  RETURN jsonb_build_object(
    'kind', CASE WHEN v_valid THEN 'valid' ELSE 'used' END, 'repeated', NOT v_first,
    'at', epoch_ms(n.at), 'gate', n.gate, 'seat', t.seat_no, 'ticketKind', t.kind);
END $$;

-- Undoes the use of a ticket that was let in by mistake, so that it can be used again. If other visitors came in with it at gates
-- without a network, the earliest of these becomes its first use.
--   p_at           only the use of that time, the first or another one, so that a repeated request does not undo a later use
--   'undone'       at, gate: of the use; next: of the ticket's first use after it, or null
--   'not_entered'  the ticket was not used, or not at that time
--   'unknown'      the event has no such ticket
CREATE OR REPLACE FUNCTION entry_undo(p_event integer, p_ticket uuid, p_at timestamptz, p_reason text, p_actor text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  n entries; d entry_scans;
  v_seat integer; v_order uuid;
BEGIN
  PERFORM event_lock_shared(p_event);
  -- The gates wait, because they lock the ticket's row too.
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

-- Returns the scans of an upload as they are after it (see entry_upload). p_known has the positions that were known before.
CREATE OR REPLACE FUNCTION entry_standing(p_event integer, p_scans jsonb, p_known text[]) RETURNS jsonb LANGUAGE sql STABLE AS $$
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

-- Records what gates without a network let in: [{ticket, scan, gate, at (epoch ms)}]. The earliest use of a ticket counts as its
-- first, in whichever order uses are reported; all others are doubles. A ticket that was refunded after it was scanned was rightly
-- let in. A known scan changes nothing, so the same list may be sent again. A time ahead of our clock counts as now. Returns one
-- result per scan, in their order: {scan, kind, at, gate, seat, repeated, why, others}:
--   'entered', 'double'  others: the other uses of the ticket, {at, gate, actor}
--   'revoked'            why: as in entry_check_in
--   'undone'             it is known and was undone
CREATE OR REPLACE FUNCTION entry_upload(p_event integer, p_scans jsonb, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
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
    -- Visitors who came in before the event was cancelled, or before their refund, were rightly let in.
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

-- Returns how many came in, of how many valid tickets. `doubles` and `revoked` were let in at gates without a network.
CREATE OR REPLACE FUNCTION entry_counts(p_event integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'entered', (SELECT count(*) FROM entries WHERE event_no = p_event),
    'doubles', (SELECT count(*) FROM entry_scans WHERE event_no = p_event AND what = 'double'),
    'revoked', (SELECT count(*) FROM entry_scans WHERE event_no = p_event AND what = 'revoked'),
    'tickets', (SELECT count(*) FROM tickets t JOIN orders o USING (order_id)
                WHERE t.event_no = p_event AND t.status = 'sold' AND o.state = 'paid'),
    'gates', (SELECT coalesce(jsonb_agg(jsonb_build_object('gate', gate, 'entered', n, 'lastAt', epoch_ms(last)) ORDER BY gate), '[]')
              FROM (SELECT gate, count(*) AS n, max(at) AS last FROM entries WHERE event_no = p_event GROUP BY gate) g))
$$;

-- Returns tickets with more than one use, newest first: [{ticket, seat, uses: [{at, gate, actor}]}].
CREATE OR REPLACE FUNCTION entry_doubles(p_event integer, p_limit integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('ticket', d.ticket_id, 'seat', t.seat_no, 'uses', (
      SELECT jsonb_agg(jsonb_build_object('at', epoch_ms(u.at), 'gate', u.gate, 'actor', u.actor) ORDER BY u.at)
      FROM entry_uses(p_event, d.ticket_id) u)) ORDER BY d.no DESC), '[]')
  FROM (SELECT ticket_id, max(entry_scan_no) AS no FROM entry_scans WHERE event_no = p_event AND what = 'double'
        GROUP BY ticket_id ORDER BY no DESC LIMIT p_limit) d
  LEFT JOIN tickets t ON t.event_no = p_event AND t.ticket_id = d.ticket_id
$$;

-- Records the key that a process starts with. Returns {first: no process started with it before, others: how many other keys are
-- known}. One call at a time, so that of two new keys at once the later call sees the earlier key.
CREATE OR REPLACE FUNCTION ticket_key_seen(p_key_id text, p_public_key text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_first boolean;
BEGIN
  LOCK TABLE ticket_keys IN SHARE ROW EXCLUSIVE MODE;
  UPDATE ticket_keys SET last_seen_at = clock_timestamp() WHERE key_id = p_key_id;
  v_first := NOT FOUND;
  IF v_first THEN INSERT INTO ticket_keys (key_id, public_key) VALUES (p_key_id, p_public_key); END IF;
  RETURN jsonb_build_object('first', v_first, 'others', (SELECT count(*) FROM ticket_keys WHERE key_id <> p_key_id));
END $$;
