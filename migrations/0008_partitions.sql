-- Partitions: groups of whole sections whose holds one arbiter state decides (design §4.3). One by default.

-- `sections`: those of this partition; null: all that no other partition names (always partition 0).
-- `store`: the configured Redis server that it is pinned to (ONSALE_REDIS_SERVERS); null: the default one (REDIS_URL).
ALTER TABLE event_partitions
  ADD COLUMN sections text[],
  ADD COLUMN store text;
