-- What is kept for a while only, and mails that are sent once more.

CREATE INDEX provider_events_ended ON provider_events (processed_at) WHERE processed_at IS NOT NULL;

-- Deletes up to `p_limit` events of the provider that ended at least so long ago, the oldest first; answers how many. What is
-- still looked at stays, however old. Several may run at once.
CREATE FUNCTION provider_events_clean(p_kept_ms double precision, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
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

-- A copy that a person had sent of a mail that had been sent before: a mail of its own, with an id, and so a Message-ID, of
-- its own, because receivers drop what repeats one that they have had.
ALTER TABLE mails ADD COLUMN copy_of uuid REFERENCES mails;
CREATE INDEX mails_copies ON mails (copy_of) WHERE copy_of IS NOT NULL;

-- Sends a mail again because a person asks for it.
--   'again'     it was refused, or tried in vain: owed again, itself
--   'copied'    it was sent before and p_copy asks for another: "mail" is the copy's id
--   'sent'      it was sent before, and no copy was asked for
--   'under_way' it, or a copy of it, is owed and has not failed
--   'not_needed' when it was to be sent, or its buyer was forgotten since
--   'unknown'
CREATE FUNCTION mail_resend(p_mail uuid, p_copy boolean, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
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
