-- The record: everything that must survive. Tables that a hot event writes are split by event (LIST on event_no), so that
-- one on-sale harms no other; `create_event_tables` makes an event's own.

CREATE TABLE plans (
  plan_id     text PRIMARY KEY,
  name        text NOT NULL,
  version     integer NOT NULL,
  hash        text NOT NULL UNIQUE,          -- of the imported plan: the same file again is the same plan
  plan        bytea NOT NULL,                -- gzip of the SeatingPlan as JSON
  report      jsonb NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  UNIQUE (name, version)
);

CREATE TABLE events (
  event_no      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event_id      text NOT NULL UNIQUE CHECK (event_id ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
  name          text NOT NULL,
  plan_id       text NOT NULL REFERENCES plans,
  currency      char(3) NOT NULL,
  performance_at timestamptz,
  on_sale_at    timestamptz,                 -- the leader opens the sale then; null: by hand
  sale_ends_at  timestamptz,
  prices        jsonb NOT NULL,              -- category -> minor units
  settings      jsonb NOT NULL,              -- see EventSettings
  phase         text NOT NULL DEFAULT 'draft'
                CHECK (phase IN ('draft','scheduled','pre_queue','open','paused','sold_out','closed','cancelled')),
  version       integer NOT NULL DEFAULT 1,  -- of the operator's controls; every change names the one it replaces
  message       text,
  rate_ceiling  double precision,            -- passes a second at most, operator's; null: no ceiling of his
  layout_hash   text,
  seat_count    integer NOT NULL DEFAULT 0,
  created_at    timestamptz NOT NULL DEFAULT now(),
  published_at  timestamptz
);

CREATE TABLE layouts (
  hash       text PRIMARY KEY,
  bytes      bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- What does not change about an event's seats during a sale.
CREATE TABLE event_seats (
  event_no   integer NOT NULL,
  seat_no    integer NOT NULL,
  seat_guid  text NOT NULL,
  section_id text NOT NULL,
  row_label  text NOT NULL,
  seat_label text NOT NULL,
  category   text NOT NULL,
  removed    boolean NOT NULL DEFAULT false, -- not in the present version of the plan: blocked, and stays so
  PRIMARY KEY (event_no, seat_no),
  UNIQUE (event_no, seat_guid)
);

-- Epochs come from here: a new one per rebuild attempt, never reused.
CREATE SEQUENCE epochs;
CREATE TABLE event_partitions (
  event_no   integer NOT NULL REFERENCES events,
  partition  smallint NOT NULL DEFAULT 0,
  mode       text NOT NULL DEFAULT 'postgres' CHECK (mode IN ('postgres','moving','redis')),
  epoch      bigint NOT NULL DEFAULT nextval('epochs'),
  run_ids    text[] NOT NULL DEFAULT '{}',
  changed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_no, partition)
);

-- One row a seat: what is decided about it (state, version, order), and the lease of the Postgres arbiter.
-- `state` is never 'held': a seat is held while state = 'available' and hold_until lies ahead and hold_epoch is the
-- partition's.
CREATE TABLE seats (
  event_no   integer NOT NULL,
  seat_no    integer NOT NULL,
  partition  smallint NOT NULL DEFAULT 0,
  state      text NOT NULL DEFAULT 'available' CHECK (state IN ('available','reserved','sold','blocked')),
  version    bigint NOT NULL DEFAULT 1,      -- rises with each decision, never with a hold
  order_id   uuid,
  hold_id    uuid,
  hold_until timestamptz,
  hold_epoch bigint,
  -- As in the other tables with a partition for each event: no index begins with event_no, see tickets.
  PRIMARY KEY (seat_no, event_no)
) PARTITION BY LIST (event_no);

CREATE SEQUENCE grant_numbers;
-- Holds of the Postgres arbiter. `ordered`: the lease became an order that is not yet paid (the quota counts it).
-- `tombstone`: released before it was granted.
CREATE TABLE holds (
  event_no   integer NOT NULL,
  hold_id    uuid NOT NULL,
  partition  smallint NOT NULL,
  visitor    text NOT NULL,
  holder     text NOT NULL,
  request    text NOT NULL,
  seats      integer[] NOT NULL,
  granted_at timestamptz NOT NULL,
  deadline   timestamptz NOT NULL,
  epoch      bigint NOT NULL,
  grant_no   bigint NOT NULL,
  order_id   uuid,
  state      text NOT NULL CHECK (state IN ('live','ordered','ended','released','replaced','tombstone')),
  PRIMARY KEY (event_no, hold_id)
) PARTITION BY LIST (event_no);
CREATE INDEX holds_holder ON holds (event_no, partition, holder) WHERE state IN ('live','ordered');
CREATE INDEX holds_visitor ON holds (event_no, partition, visitor) WHERE state = 'live';
CREATE INDEX holds_deadline ON holds (event_no, deadline) WHERE state IN ('live','tombstone');

CREATE TABLE orders (
  order_id         uuid PRIMARY KEY,
  event_no         integer NOT NULL REFERENCES events,
  partition        smallint NOT NULL DEFAULT 0,
  hold_id          uuid NOT NULL UNIQUE,
  visitor          text NOT NULL,
  holder           text NOT NULL,
  account          text NOT NULL,            -- normalised e-mail, or the embedding platform's subject
  buyer            jsonb NOT NULL,           -- {name, email}
  seats            integer[] NOT NULL,       -- ascending
  lines            jsonb NOT NULL,           -- [{seat, category, kind, price, fee}] minor units
  order_fee        bigint NOT NULL DEFAULT 0,
  amount           bigint NOT NULL CHECK (amount >= 0),
  currency         char(3) NOT NULL,
  state            text NOT NULL,            -- see core/order.ts
  reason           text,                     -- why closed or cancelled
  payment_deadline timestamptz NOT NULL,
  provider_object  text UNIQUE,
  instrument       jsonb,
  created_at       timestamptz NOT NULL DEFAULT now(),
  updated_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX orders_event ON orders (event_no, created_at);
CREATE INDEX orders_deadline ON orders (payment_deadline) WHERE state IN ('reserved','authorised','confirmed','voiding');
-- One open order per visitor and event.
CREATE UNIQUE INDEX orders_open_visitor ON orders (event_no, visitor) WHERE state IN ('reserved','authorised');

-- The timeline of a purchase, for support and for the tests.
CREATE TABLE order_history (
  order_id uuid NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  change   text NOT NULL,
  from_state text,
  to_state   text,
  detail   jsonb
);
CREATE INDEX order_history_order ON order_history (order_id, at);

CREATE TABLE tickets (
  ticket_id  uuid NOT NULL DEFAULT gen_random_uuid(),
  event_no   integer NOT NULL,
  seat_no    integer NOT NULL,
  order_id   uuid NOT NULL,
  status     text NOT NULL CHECK (status IN ('reserved','sold','cancelled')),
  price      bigint NOT NULL,
  fee        bigint NOT NULL DEFAULT 0,
  kind       text NOT NULL DEFAULT 'full',
  created_at timestamptz NOT NULL DEFAULT now(),
  changed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (ticket_id, event_no)
) PARTITION BY LIST (event_no);
-- S1: the guarantee, whatever every layer above does: of a seat's tickets one is not cancelled. Its condition is part of what
-- is unique, and no index here is partial or begins with event_no: without statistics, as in the first minutes of a sale, the
-- planner takes an index that fits "event_no = $1" or "status = 'reserved'" for as good as tickets_order, keeps that plan, and
-- reads all of an event's tickets for each order.
CREATE UNIQUE INDEX tickets_one_owner ON tickets ((CASE WHEN status <> 'cancelled' THEN seat_no END), event_no);
CREATE INDEX tickets_order ON tickets (order_id);

-- One provider call each, written before it is made (P5).
CREATE TABLE money_operations (
  operation_id    uuid PRIMARY KEY,
  order_id        uuid NOT NULL REFERENCES orders,
  kind            text NOT NULL CHECK (kind IN ('open','authorise','capture','refund')),
  state           text NOT NULL CHECK (state IN ('open','waiting','unknown','ending','done','refused','voided')),
  key             text NOT NULL UNIQUE,      -- the idempotency key: one per operation, repeated by network retries
  end_key         text UNIQUE,               -- the second one, for the call that ends (voids) it
  client_key      text,                      -- the buyer's Idempotency-Key…
  request         text,                      -- …and the hash of what came with it
  instrument      jsonb,                     -- {paymentMethod} or {confirmationToken}
  provider_object text,
  amount          bigint NOT NULL,
  currency        char(3) NOT NULL,
  attempts        integer NOT NULL DEFAULT 0,
  first_sent_at   timestamptz,               -- a key older than 20 h is never sent again
  due_at          timestamptz,               -- when the reconciler looks next; null: never
  answer          jsonb,                     -- the last view or refusal
  created_at      timestamptz NOT NULL DEFAULT now(),
  updated_at      timestamptz NOT NULL DEFAULT now()
);
-- P1: at most one under way…
CREATE UNIQUE INDEX money_one_under_way ON money_operations (order_id) WHERE state IN ('open','waiting','unknown','ending');
-- …and at most one authorisation under way or standing.
CREATE UNIQUE INDEX money_one_authorisation ON money_operations (order_id)
  WHERE kind = 'authorise' AND state NOT IN ('refused','voided');
CREATE UNIQUE INDEX money_client_key ON money_operations (order_id, client_key) WHERE client_key IS NOT NULL;
CREATE INDEX money_due ON money_operations (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE provider_events (
  provider_event_id text PRIMARY KEY,
  type        text NOT NULL,
  object      text,
  received_at timestamptz NOT NULL DEFAULT now(),
  processed_at timestamptz
);
CREATE INDEX provider_events_open ON provider_events (received_at) WHERE processed_at IS NULL;

-- P7: seats per (event, account) and per (event, payment instrument).
CREATE TABLE limit_counts (
  event_no integer NOT NULL,
  kind     text NOT NULL CHECK (kind IN ('account','instrument')),
  subject  text NOT NULL,
  seats    integer NOT NULL CHECK (seats >= 0),
  PRIMARY KEY (event_no, kind, subject)
);

-- Waiting room.
CREATE TABLE queue_counters (
  event_no integer NOT NULL REFERENCES events,
  shard    smallint NOT NULL DEFAULT 0,
  last_no  bigint NOT NULL DEFAULT 0,
  ceiling  bigint NOT NULL DEFAULT 10000,    -- no store issues above it; raised ahead of use (W1)
  PRIMARY KEY (event_no, shard)
);
-- visitor -> number for 60 s, for lost answers and second tabs. Unlogged: losing it costs a second place, never order.
CREATE UNLOGGED TABLE queue_recent (
  event_no  integer NOT NULL,
  visitor   text NOT NULL,
  shard     smallint NOT NULL,
  number    bigint NOT NULL,
  issued_at timestamptz NOT NULL,
  PRIMARY KEY (visitor, event_no)
);
CREATE INDEX queue_recent_age ON queue_recent (issued_at);

CREATE TABLE passes (
  event_no   integer NOT NULL,
  visitor    text NOT NULL,
  pass_id    uuid NOT NULL,
  shard      smallint NOT NULL,
  number     bigint NOT NULL,
  issued_at  timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (event_no, visitor),
  UNIQUE (event_no, shard, number)
);
CREATE INDEX passes_expiry ON passes (event_no, expires_at);

-- The token bucket through which passes leave, and the frontier. Written by the leader (term) and by redeem.
CREATE TABLE admissions (
  event_no    integer PRIMARY KEY REFERENCES events,
  frontier    bigint[] NOT NULL DEFAULT '{0}',      -- per shard
  rate        double precision NOT NULL DEFAULT 0,  -- passes a second
  burst       double precision NOT NULL DEFAULT 1,
  tokens      double precision NOT NULL DEFAULT 0,
  refilled_at timestamptz NOT NULL DEFAULT now(),
  term        bigint NOT NULL DEFAULT 0
);

CREATE TABLE leases (
  event_no integer PRIMARY KEY REFERENCES events,
  owner    text NOT NULL,
  term     bigint NOT NULL,
  until    timestamptz NOT NULL
);

-- Shared objects of the read path, written by the leader only, conditional on its term.
CREATE TABLE published (
  event_no     integer NOT NULL REFERENCES events,
  name         text NOT NULL,
  term         bigint NOT NULL,
  count        bigint NOT NULL,
  bytes        bytea NOT NULL,
  published_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_no, name)
);

CREATE TABLE audit_log (
  entry    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor    text NOT NULL,
  action   text NOT NULL,
  event_no integer,
  detail   jsonb NOT NULL DEFAULT '{}'
);
-- For those who read the log of one event, newest first.
CREATE INDEX audit_log_event ON audit_log (event_no, entry);

CREATE TABLE organiser_sessions (
  token_hash text PRIMARY KEY,
  email      text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);

-- Makes the tables of one event's own and its first rows; called once at publishing. CREATE … LIKE and ATTACH take no
-- lock that stops other events' sales, which CREATE … PARTITION OF would.
CREATE FUNCTION create_event_tables(p_event integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  parent text;
  child text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['seats','holds','tickets'] LOOP
    child := format('%s_%s', parent, p_event);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
    IF parent = 'seats' THEN
      -- Room on each page, so that a hold's update stays on it and touches no index.
      EXECUTE format('ALTER TABLE %I SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)', child);
    END IF;
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (event_no = %s)', child, child || '_event', p_event);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', parent, child, p_event);
  END LOOP;
  INSERT INTO event_partitions (event_no, partition) VALUES (p_event, 0) ON CONFLICT DO NOTHING;
  INSERT INTO queue_counters (event_no, shard) VALUES (p_event, 0) ON CONFLICT DO NOTHING;
  INSERT INTO admissions (event_no) VALUES (p_event) ON CONFLICT DO NOTHING;
END $$;

-- One event lock for all: claims share it; phase changes, degrade, restore and cancel take it alone, so that nothing
-- granted before a change commits after it.
CREATE FUNCTION event_lock_shared(p_event integer) RETURNS void LANGUAGE sql AS
  $$ SELECT pg_advisory_xact_lock_shared(20260, p_event) $$;
CREATE FUNCTION event_lock_alone(p_event integer) RETURNS void LANGUAGE sql AS
  $$ SELECT pg_advisory_xact_lock(20260, p_event) $$;
