-- Epochs: which store arbitrates a partition, losing Redis and coming back (design §4.4).

-- `grace_until`: after a degrade only receipts are honoured until then. `rebuild_epoch`: of the rebuild under way; the last
-- attempt to begin wins. `changed_at`: of the last change of mode. `reason`: why it was degraded, for the operator.
-- While a partition is 'moving', `epoch` is still the one before: what Postgres granted under it stands until the flip.
ALTER TABLE event_partitions
  ADD COLUMN grace_until timestamptz,
  ADD COLUMN rebuild_epoch bigint,
  ADD COLUMN restored_at timestamptz,
  ADD COLUMN reason text;
