-- The waiting room's counters: which store issues numbers, ranges that a loss skipped, arrivals of sharded queues (design §4.1).

-- `mode`: who issues numbers. `epoch`: under which Redis may; a new one whenever the store changes or may have lost memory.
ALTER TABLE queue_counters
  ADD COLUMN mode text NOT NULL DEFAULT 'postgres' CHECK (mode IN ('postgres','redis')),
  ADD COLUMN epoch bigint NOT NULL DEFAULT nextval('epochs'),
  ADD COLUMN changed_at timestamptz NOT NULL DEFAULT now();
-- Numbers from `first` to `last` were never issued: a store was lost before it could say how far it came (W1).
CREATE TABLE queue_gaps (
  event_no integer NOT NULL REFERENCES events,
  shard    smallint NOT NULL,
  first    bigint NOT NULL,
  last     bigint NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (event_no, shard, first),
  CHECK (last >= first)
);
