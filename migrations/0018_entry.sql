-- Entry: a ticket lets its holder in once. Its first use is one row, whoever asks first; all else is read.

CREATE TABLE entries (
  event_no  integer NOT NULL REFERENCES events,
  ticket_id uuid NOT NULL,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  gate      text,                            -- where, as the scanner names itself
  scan      text,                            -- the scanner's key of that scan: a repeat of it has the first answer again
  actor     text NOT NULL,
  PRIMARY KEY (event_no, ticket_id)
);

-- Marks the first use of a ticket whose code was found to be ours. Whether it is valid is judged before whether it was used:
-- a refunded ticket that was used before is told as refunded. The event's lock keeps a cancelling, the ticket's row a refund,
-- from committing in between; gates that ask at once meet at the primary key.
--   'valid'    repeated: the same scan asked before
--   'used'     at, gate: of the first use
--   'revoked'  why: 'refunded', 'event_cancelled', 'not_paid', 'unknown' (no such ticket: of another copy of the database)
CREATE FUNCTION entry_check_in(p_event integer, p_ticket uuid, p_gate text, p_scan text, p_actor text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  t tickets; n entries;
  v_phase text; v_order text; v_why text;
  v_first boolean;
BEGIN
  PERFORM event_lock_shared(p_event);
  SELECT phase INTO v_phase FROM events WHERE event_no = p_event;
  SELECT * INTO t FROM tickets WHERE event_no = p_event AND ticket_id = p_ticket FOR SHARE;
  IF NOT FOUND THEN RETURN '{"kind":"revoked","why":"unknown","seat":null}'; END IF;
  SELECT state INTO v_order FROM orders WHERE order_id = t.order_id;
  v_why := CASE
    WHEN v_phase = 'cancelled' THEN 'event_cancelled'
    WHEN t.revoked_at IS NOT NULL THEN 'refunded'
    WHEN t.status <> 'sold' OR v_order <> 'paid' THEN 'not_paid' END;
  IF v_why IS NOT NULL THEN
    RETURN jsonb_build_object('kind', 'revoked', 'why', v_why, 'seat', t.seat_no, 'ticketKind', t.kind);
  END IF;
  INSERT INTO entries (event_no, ticket_id, gate, scan, actor) VALUES (p_event, p_ticket, p_gate, p_scan, p_actor)
  ON CONFLICT DO NOTHING RETURNING * INTO n;
  v_first := FOUND;
  IF NOT v_first THEN
    SELECT * INTO n FROM entries WHERE event_no = p_event AND ticket_id = p_ticket;
  END IF;
  RETURN jsonb_build_object(
    'kind', CASE WHEN v_first OR n.scan = p_scan THEN 'valid' ELSE 'used' END, 'repeated', NOT v_first,
    'at', epoch_ms(n.at), 'gate', n.gate, 'seat', t.seat_no, 'ticketKind', t.kind);
END $$;

-- How many came in, of how many who may.
CREATE FUNCTION entry_counts(p_event integer) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object(
    'entered', (SELECT count(*) FROM entries WHERE event_no = p_event),
    'tickets', (SELECT count(*) FROM tickets t JOIN orders o USING (order_id)
                WHERE t.event_no = p_event AND t.status = 'sold' AND o.state = 'paid'),
    'gates', (SELECT coalesce(jsonb_agg(jsonb_build_object('gate', gate, 'entered', n, 'lastAt', epoch_ms(last)) ORDER BY gate), '[]')
              FROM (SELECT gate, count(*) AS n, max(at) AS last FROM entries WHERE event_no = p_event GROUP BY gate) g))
$$;
