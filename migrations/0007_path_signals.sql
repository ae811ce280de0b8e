-- What each web process saw of the purchase path over its last seconds; read by the leaders, who admit fewer people when it
-- struggles. Unlogged: worth nothing after a crash.
CREATE UNLOGGED TABLE path_signals (
  owner          text PRIMARY KEY,
  measured_at    timestamptz NOT NULL,
  requests       integer NOT NULL,
  latency_p95_ms double precision NOT NULL,
  error_share    double precision NOT NULL
);
