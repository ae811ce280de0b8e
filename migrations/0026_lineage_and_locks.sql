-- What a Redis is known to have given, so that an older copy of it is known by fewer (design §4.4).

-- `granted`: a number that the partition's Redis is known to have given under `epoch`: every process refuses a store that has
-- given fewer. Written a second behind by the leader, and at once by a process that finds an older copy. `run_ids`: now
-- '<run id>:<replication id>', see src/runtime/redis-run.ts.
ALTER TABLE event_partitions ADD COLUMN granted bigint NOT NULL DEFAULT 0;

-- True for whoever writes it: under one epoch the number only rises. One row and no other lock.
CREATE FUNCTION partition_granted(p_event integer, p_partition smallint, p_epoch bigint, p_granted bigint) RETURNS void
LANGUAGE sql AS $$
  UPDATE event_partitions SET granted = p_granted
   WHERE event_no = p_event AND partition = p_partition AND mode = 'redis' AND epoch = p_epoch AND granted < p_granted
$$;

-- flip: as in 0009; numbers known of an earlier epoch say nothing about this one.
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
      -- A first move is no restore: a store that was never lost is believed lost at once.
      restored_at = CASE WHEN e.reason IS NULL THEN e.restored_at ELSE clock_timestamp() END,
      grace_until = NULL, reason = NULL, changed_at = clock_timestamp()
   WHERE e.event_no = p_event AND e.partition = p_partition;
  -- They are the other store's from here on. What the seats' rows still say names an epoch that is over.
  DELETE FROM holds h WHERE h.event_no = p_event AND h.partition = p_partition;
  DELETE FROM partition_witnesses w WHERE w.event_no = p_event AND w.partition = p_partition;
  PERFORM partition_note(p_event, p_partition, 'restore', p_rebuild, NULL);
END $$;
