-- The latest request with a forwarded header although ONSALE_TRUST_PROXY is not set, one row a kind of peer: a client on the
-- public internet can send such a header too, so the table must not grow with what clients send.
CREATE TABLE undeclared_proxies (
  peer_kind text PRIMARY KEY CHECK (peer_kind IN ('private', 'public')),
  peer text NOT NULL,
  header text NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
