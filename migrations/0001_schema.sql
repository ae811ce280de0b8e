-- Everything that must survive: tables, types, sequences and indexes, by topic. Functions, triggers and views are in functions/,
-- one home each, and are applied again as a whole when they change.
--
-- Tables that a hot event writes (seats, holds, tickets) are partitioned by event, LIST (event_no), so that one on-sale does not
-- harm another; create_event_tables (functions/events.sql) creates an event's own. Other rows name their event by event_no.
-- Amounts are minor units of the row's currency. Nullable columns say what null means, unless it is simply "not yet".

-- Installation.

-- One row: which installation this is. The id is part of each key in Redis, where other installations may have events with the
-- same numbers.
CREATE TABLE installation (
  id       text NOT NULL,
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
INSERT INTO installation (id) VALUES (left(gen_random_uuid()::text, 8));

-- The log of changes and their actors. Holds no personal data of buyers.
CREATE TABLE audit_log (
  entry    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor    text NOT NULL,
  action   text NOT NULL,
  event_no integer,
  detail   jsonb NOT NULL DEFAULT '{}'
);
-- For readers of one event's log, newest first.
CREATE INDEX audit_log_event ON audit_log (event_no, entry);

CREATE TABLE organiser_sessions (
  token_hash text PRIMARY KEY,
  email      text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);

-- Attempts to sign in as the organiser, counted for all web processes together. A budget belongs to an address range ('range:…') or
-- to a browser that has signed in before ('device:' and the hash of its cookie), so that attempts from the organiser's own network
-- cannot lock the organiser out.
CREATE TABLE sign_in_budgets (
  budget     text PRIMARY KEY,
  email      text,                           -- the organiser who signed in with this device; null for an address range
  attempts   double precision NOT NULL DEFAULT 0, -- failed or under way; decreases by one every p_forget_ms
  counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  next_at    timestamptz NOT NULL DEFAULT clock_timestamp() -- when the next attempt may be checked
);
CREATE INDEX sign_in_budgets_by_age ON sign_in_budgets (counted_at);

-- The latest request with a forwarded header although ONSALE_TRUST_PROXY is not set, one row per kind of peer: clients on the
-- public internet can send such a header too, so the table must not grow with what clients send.
CREATE TABLE undeclared_proxies (
  peer_kind text PRIMARY KEY CHECK (peer_kind IN ('private', 'public')),
  peer      text NOT NULL,
  header    text NOT NULL,
  seen_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Events and their seating plans.

CREATE TABLE plans (
  plan_id    text PRIMARY KEY,
  name       text NOT NULL,
  version    integer NOT NULL,
  hash       text NOT NULL UNIQUE,           -- of the imported plan: the same file again is the same plan
  plan       bytea NOT NULL,                 -- gzip of the SeatingPlan as JSON
  report     jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (name, version)
);

CREATE TABLE layouts (
  hash       text PRIMARY KEY,
  bytes      bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE events (
  event_no       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event_id       text NOT NULL UNIQUE CHECK (event_id ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
  name           text NOT NULL,
  plan_id        text NOT NULL REFERENCES plans,
  currency       char(3) NOT NULL,
  performance_at timestamptz,
  on_sale_at     timestamptz,                -- the leader opens the sale then; null means that an operator does
  sale_ends_at   timestamptz,
  prices         jsonb NOT NULL,             -- category → minor units
  settings       jsonb NOT NULL,             -- see EventSettings
  phase          text NOT NULL DEFAULT 'draft'
                 CHECK (phase IN ('draft','scheduled','pre_queue','open','paused','sold_out','closed','cancelled')),
  version        integer NOT NULL DEFAULT 1, -- of the operator's controls; each change names the version that it replaces
  message        text,
  rate_ceiling   double precision,           -- the operator's maximum of passes per second; null means none
  layout_hash    text,
  seat_count     integer NOT NULL DEFAULT 0,
  created_at     timestamptz NOT NULL DEFAULT now(),
  published_at   timestamptz
);

-- The part of an event's seats that does not change during a sale.
CREATE TABLE event_seats (
  event_no   integer NOT NULL,
  seat_no    integer NOT NULL,
  seat_guid  text NOT NULL,
  section_id text NOT NULL,
  row_label  text NOT NULL,
  seat_label text NOT NULL,
  category   text NOT NULL,
  removed    boolean NOT NULL DEFAULT false, -- not in the present version of the plan: the seat stays blocked
  PRIMARY KEY (event_no, seat_no),
  UNIQUE (event_no, seat_guid)
);

-- Seats that the organiser keeps out of the sale.
CREATE TABLE blocks (
  event_no   integer NOT NULL REFERENCES events,
  seat_no    integer NOT NULL,
  reason     text NOT NULL,
  actor      text NOT NULL,
  blocked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (event_no, seat_no)
);

-- An act that has to be confirmed: what was shown, and the hash of the code that a second request has to bring.
CREATE TABLE confirmations (
  code_hash  text PRIMARY KEY,
  act        text NOT NULL,
  event_no   integer REFERENCES events,      -- null for an act that is not about one event
  request    text NOT NULL,                  -- hash of the request: a different request needs another code
  actor      text NOT NULL,
  shown      jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at    timestamptz
);

-- The cancelling of an event: one row, and a run over its orders that any worker may continue by claiming it.
CREATE TABLE event_cancellations (
  event_no      integer PRIMARY KEY REFERENCES events,
  actor         text NOT NULL,
  reason        text NOT NULL,
  fees          text NOT NULL CHECK (fees IN ('returned','kept')),
  seats         text NOT NULL CHECK (seats IN ('release','block')),
  per_second    double precision NOT NULL CHECK (per_second > 0),
  tokens        double precision NOT NULL DEFAULT 1, -- orders that may be handled now; refilled at per_second
  refilled_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  state         text NOT NULL DEFAULT 'running' CHECK (state IN ('running','done')),
  claimed_by    text,
  claimed_until timestamptz,
  started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at   timestamptz
);

-- An event's figures for the organiser, counted by a job.
CREATE TABLE sales_figures (
  event_no integer PRIMARY KEY REFERENCES events,
  at       timestamptz NOT NULL,             -- when they were counted
  figures  jsonb NOT NULL                    -- in the shape of src/catalogue/figures.ts
);

-- Seats and holds.

-- A new epoch per rebuild attempt and per change of store, never reused.
CREATE SEQUENCE epochs;

-- Partitions are groups of whole sections whose holds one arbiter decides (one by default), and which store does.
CREATE TABLE event_partitions (
  event_no      integer NOT NULL REFERENCES events,
  partition     smallint NOT NULL DEFAULT 0,
  sections      text[],                      -- null means all that no other partition names, always partition 0
  store         text,                        -- the Redis server from ONSALE_REDIS_SERVERS; null means the default (REDIS_URL)
  mode          text NOT NULL DEFAULT 'postgres' CHECK (mode IN ('postgres','moving','redis')),
  -- While 'moving', still the epoch before: what Postgres granted under it is valid until the flip.
  epoch         bigint NOT NULL DEFAULT nextval('epochs'),
  run_ids       text[] NOT NULL DEFAULT '{}', -- trusted in mode 'redis': '<run id>:<replication id>', see src/redis/run.ts
  -- A grant number that the Redis is known to have given under the epoch. Processes reject a store that has given fewer, since it
  -- is an older copy. Written a second late by the leader, at once by a process that finds an older copy.
  granted       bigint NOT NULL DEFAULT 0,
  grace_until   timestamptz,                 -- after a degrade only receipts count until then
  rebuild_epoch bigint,                      -- of the rebuild under way; the last attempt to begin wins
  restored_at   timestamptz,
  reason        text,                        -- why it was degraded, for the operator
  changed_at    timestamptz NOT NULL DEFAULT now(), -- of the last change of mode
  PRIMARY KEY (event_no, partition)
);

-- Reports that a partition's Redis is lost, the last one of each reporter.
CREATE TABLE partition_witnesses (
  event_no  integer NOT NULL REFERENCES events,
  partition smallint NOT NULL,
  reporter  text NOT NULL,
  epoch     bigint NOT NULL,
  reason    text NOT NULL,
  at        timestamptz NOT NULL,
  PRIMARY KEY (event_no, partition, reporter)
);

-- Indexes of the three partitioned tables do not begin with event_no and are not partial in a way that a query's conditions imply.
-- Without statistics, as in the first minutes of a sale, the planner rates every index that fits "event_no = $1" or a condition on
-- the state as good as the right one, keeps that plan, and reads all of an event's rows in each claim (decision 0029 has figures).

-- One row per seat: what is decided about it (state, version, order) and the lease of the Postgres arbiter. The state is never
-- 'held': a seat is held while it is 'available', hold_until is in the future and hold_epoch is the partition's epoch.
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
  PRIMARY KEY (seat_no, event_no)
) PARTITION BY LIST (event_no);

CREATE SEQUENCE grant_numbers;

-- Holds of the Postgres arbiter. partition_holds returns rows of this table by position, so new columns go to the end, there too.
--   live       a lease until its deadline
--   ordered    became an order that is not paid yet; the quota still counts it
--   ended      its order was sold or closed. Remembered for good, because the id led to an order
--   released, replaced, expired  over; `deadline` is when it was released or replaced, or when the lease ran out
--   tombstone  released before it was granted
-- A row in one of the last four states is a memory that its id is used up, kept for a hold's longest life (arbiter_life_max).
CREATE TABLE holds (
  event_no      integer NOT NULL,
  hold_id       uuid NOT NULL,
  partition     smallint NOT NULL,
  visitor       text NOT NULL,
  holder        text NOT NULL,
  request       text NOT NULL,
  seats         integer[] NOT NULL,
  granted_at    timestamptz NOT NULL,
  deadline      timestamptz NOT NULL,
  epoch         bigint NOT NULL,
  grant_no      bigint NOT NULL,
  order_id      uuid,
  state         text NOT NULL CHECK (state IN ('live','ordered','ended','released','replaced','expired','tombstone')),
  -- From the receipt that recovered the hold, null otherwise. Receipts are compared by these; the hold's own epoch and grant number
  -- are new, so that all grants made later under that epoch outrank it.
  receipt_epoch bigint,
  receipt_grant bigint,
  address       text,                        -- id of the address range, a keyed hash; null means that none is counted
  PRIMARY KEY (hold_id, event_no)
) PARTITION BY LIST (event_no);
CREATE INDEX holds_holder ON holds (holder);
CREATE INDEX holds_visitor ON holds (visitor);
CREATE INDEX holds_address ON holds (address);

-- When the sweep has to handle a hold: its lease ends, or its memory does. Here and not in functions/, because an index is built
-- on it: a change needs a new function and a new index in a numbered migration.
CREATE FUNCTION hold_due(p_state text, p_deadline timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_state WHEN 'live' THEN p_deadline WHEN 'ordered' THEN NULL WHEN 'ended' THEN NULL
                      ELSE p_deadline + interval '15 minutes' END
$$;
CREATE INDEX holds_due ON holds (hold_due(state, deadline));

-- The result of a function of the arbiter; `kind` decides which of the others are set. A list of columns in this order is cast to it
-- (arbiter_say), so new attributes go to the end.
CREATE TYPE arbiter_answer AS (
  kind       text,
  hold_id    uuid,
  visitor    text,
  holder     text,
  seats      integer[],
  granted_at timestamptz,
  deadline   timestamptz,
  epoch      bigint,
  grant_no   bigint,
  order_id   uuid,
  repeated   boolean,
  used       integer,
  phase      text,
  after_ms   integer                         -- with 'retry': when it makes sense to ask again; null means shortly
);

-- Orders and tickets.

CREATE TABLE orders (
  order_id            uuid PRIMARY KEY,
  event_no            integer NOT NULL REFERENCES events,
  partition           smallint NOT NULL DEFAULT 0,
  hold_id             uuid NOT NULL UNIQUE,
  former_hold_id      uuid,                  -- the first hold, if the seats had to be held a second time
  visitor             text NOT NULL,
  holder              text NOT NULL,
  account             text NOT NULL,         -- normalised e-mail, or the embedding platform's subject
  buyer               jsonb NOT NULL,        -- {name, email}
  forgotten_at        timestamptz,           -- when its buyer was forgotten
  seats               integer[] NOT NULL,    -- ascending
  lines               jsonb NOT NULL,        -- [{seat, category, kind, price, fee}]
  order_fee           bigint NOT NULL DEFAULT 0,
  amount              bigint NOT NULL CHECK (amount >= 0),
  currency            char(3) NOT NULL,
  state               text NOT NULL,         -- see src/core/order.ts
  reason              text,                  -- why it was closed or cancelled
  payment_deadline    timestamptz NOT NULL,
  provider_object     text UNIQUE,
  instrument          jsonb,
  capture_before      timestamptz,           -- the reserved money can be captured until then; null if the provider did not say
  accepted_difference bigint NOT NULL DEFAULT 0, -- accepted by an operator: kept at the provider beyond what is due, or less
  access_code         uuid,                  -- the code that it uses; a foreign key would lock the row of a popular code
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now()
);
-- P1: one open order per visitor and event.
CREATE UNIQUE INDEX orders_open_visitor ON orders (event_no, visitor) WHERE state IN ('reserved','authorised');
CREATE INDEX orders_open_account ON orders (event_no, account) WHERE state IN ('reserved','authorised');
CREATE INDEX orders_bought_visitor ON orders (event_no, visitor) WHERE state IN ('confirmed','paid');
CREATE INDEX orders_event ON orders (event_no, created_at);
CREATE INDEX orders_deadline ON orders (payment_deadline) WHERE state IN ('reserved','authorised','confirmed','voiding');
CREATE INDEX orders_changed ON orders (updated_at);
CREATE INDEX orders_former_hold ON orders (former_hold_id) WHERE former_hold_id IS NOT NULL;
CREATE INDEX orders_access_code ON orders (access_code) WHERE access_code IS NOT NULL;

-- The timeline of a purchase, for support and for tests.
CREATE TABLE order_history (
  order_id   uuid NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  change     text NOT NULL,
  from_state text,
  to_state   text,
  detail     jsonb
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
  -- When a sold ticket's code stopped being valid. Tickets of orders that were never paid have no code and no revocation.
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  changed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (ticket_id, event_no)
) PARTITION BY LIST (event_no);
-- S1: a seat has at most one ticket that is not cancelled, whatever the layers above do. "IS TRUE" does not change which rows are in
-- the index, because status is never null; it only keeps the planner from using this index for "status = 'reserved'" (see above).
CREATE UNIQUE INDEX tickets_one_owner ON tickets (seat_no, event_no) WHERE (status IN ('reserved','sold')) IS TRUE;
CREATE INDEX tickets_order ON tickets (order_id);

-- P7: seats per (event, account) and per (event, payment instrument).
CREATE TABLE limit_counts (
  event_no integer NOT NULL,
  kind     text NOT NULL CHECK (kind IN ('account','instrument')),
  subject  text NOT NULL,
  seats    integer NOT NULL CHECK (seats >= 0),
  PRIMARY KEY (event_no, kind, subject)
);

-- An organiser's exceptions: while one is in force, every limit and cooldown of the event is lifted for one buyer. The quota of what
-- is held at once (S7) is not lifted, because it protects the other buyers.
CREATE TABLE limit_allowances (
  allowance_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  event_no     integer NOT NULL REFERENCES events,
  account      text,                         -- as orders.account
  visitor      text,
  order_id     uuid,                         -- the order that named the buyer, if one did
  reason       text NOT NULL,
  actor        text NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  until        timestamptz,                  -- null means until it is ended
  ended_at     timestamptz,
  ended_by     text,
  CHECK (account IS NOT NULL OR visitor IS NOT NULL)
);
CREATE INDEX limit_allowances_account ON limit_allowances (event_no, account) WHERE ended_at IS NULL;
CREATE INDEX limit_allowances_visitor ON limit_allowances (event_no, visitor) WHERE ended_at IS NULL;

-- Holds granted in events with a cooldown, as web processes report them, until it is known how they ended. Unlogged: losing it only
-- forgives.
CREATE UNLOGGED TABLE hold_ends (
  event_no   integer NOT NULL,
  hold_id    uuid NOT NULL,
  visitor    text NOT NULL,
  account    text,                           -- the holder, if it is not the visitor
  address    text,
  granted_at timestamptz NOT NULL,
  ends_at    timestamptz NOT NULL,           -- when to look how it ended
  quick      boolean NOT NULL DEFAULT false, -- given back within a minute
  PRIMARY KEY (hold_id, event_no)
);
CREATE INDEX hold_ends_due ON hold_ends (ends_at);

CREATE TABLE cooldowns (
  event_no   integer NOT NULL REFERENCES events,
  kind       text NOT NULL CHECK (kind IN ('visitor','account','address')),
  subject    text NOT NULL,
  unpaid     integer NOT NULL,               -- holds that ended unpaid in a row
  quick      integer NOT NULL DEFAULT 0,     -- holds given back within a minute since the last one that counted
  last_at    timestamptz NOT NULL,
  until      timestamptz,                    -- no new hold before, for an address: how long the count is valid; null means none
  changed_at timestamptz NOT NULL,
  PRIMARY KEY (event_no, kind, subject)
);
CREATE INDEX cooldowns_changed ON cooldowns (changed_at);
CREATE INDEX cooldowns_last ON cooldowns (last_at);

-- Codes that open locked categories, ticket types or the presale.
CREATE TABLE access_codes (
  code_id    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  event_no   integer NOT NULL REFERENCES events,
  code       text NOT NULL,                  -- in canonical form, see canonicalCode in src/core/prices.ts
  batch      uuid NOT NULL,                  -- codes created together
  label      text NOT NULL,                  -- the batch's name for people
  categories text[] NOT NULL,                -- locked categories that it opens
  kinds      text[] NOT NULL,                -- locked ticket types that it opens
  presale    boolean NOT NULL,               -- opens the time before the sale is open to everyone
  uses_max   integer CHECK (uses_max > 0),   -- orders; null means any number
  seats_max  integer CHECK (seats_max > 0),  -- seats per order; null means as many as anyone may hold
  used       integer NOT NULL DEFAULT 0,     -- counted only where uses_max is set, so that a popular code has no hot row
  until      timestamptz,                    -- not accepted from then on; null means as long as the sale
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (event_no, code),
  -- Never used more often than allowed, whatever the layers above do.
  CHECK (used >= 0 AND (uses_max IS NULL OR used <= uses_max)),
  CHECK (presale OR categories <> '{}' OR kinds <> '{}')
);
CREATE INDEX access_codes_batch ON access_codes (event_no, batch);

-- Money.

-- amount = prices of its tickets + their fees − fees_kept + order_fee + goodwill (src/core/money-due.ts has the rule).
CREATE TABLE refunds (
  refund_id    uuid PRIMARY KEY,
  order_id     uuid NOT NULL REFERENCES orders,
  event_no     integer NOT NULL REFERENCES events,
  cancellation boolean NOT NULL DEFAULT false, -- made because the event was cancelled
  request_key  text,                         -- the organiser's Idempotency-Key…
  request      text,                         -- …and the hash of its request
  actor        text NOT NULL,
  reason       text NOT NULL,
  fees_kept    bigint NOT NULL,              -- part of the tickets' fees that is not given back
  order_fee    bigint NOT NULL,              -- part of the order's fee that is given back
  -- On top, including what rounding up to a payable sum adds. Negative if goodwill that was given before is deducted, because no
  -- more is left.
  goodwill     bigint NOT NULL,
  amount       bigint NOT NULL,
  currency     char(3) NOT NULL,
  -- The state of the last attempt. 'pending': accepted, the provider or the bank is working on it. 'failed': the money is still owed.
  -- 'elsewhere': given back by other means than the provider.
  state        text NOT NULL CHECK (state IN ('open','unknown','pending','done','failed','elsewhere')),
  detail       text,                         -- why it waits or failed, in the provider's words, or how it was given back elsewhere
  retry_asked  timestamptz,                  -- it failed, and the event's run is to try it again
  check_at     timestamptz,                  -- when to ask the provider whether it is still done; null means not any more
  checks       smallint NOT NULL DEFAULT 0,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK (fees_kept >= 0 AND order_fee >= 0 AND amount >= 0)
);
CREATE UNIQUE INDEX refunds_request ON refunds (order_id, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX refunds_event ON refunds (event_no, state);
CREATE INDEX refunds_order ON refunds (order_id, created_at);
CREATE INDEX refunds_failed ON refunds (created_at) WHERE state = 'failed';
CREATE INDEX refunds_check ON refunds (check_at) WHERE check_at IS NOT NULL;

-- A ticket is refunded once.
CREATE TABLE refund_tickets (
  event_no  integer NOT NULL,
  ticket_id uuid NOT NULL,
  refund_id uuid NOT NULL REFERENCES refunds,
  PRIMARY KEY (event_no, ticket_id)
);
CREATE INDEX refund_tickets_refund ON refund_tickets (refund_id);

-- One call to the provider each, written before it is made (P5).
CREATE TABLE money_operations (
  operation_id    uuid PRIMARY KEY,
  order_id        uuid NOT NULL REFERENCES orders,
  refund_id       uuid REFERENCES refunds,   -- the refund that this is an attempt of
  kind            text NOT NULL CHECK (kind IN ('open','authorise','capture','refund')),
  state           text NOT NULL CHECK (state IN ('open','waiting','unknown','ending','done','refused','voided')),
  key             text NOT NULL UNIQUE,      -- the idempotency key, repeated by network retries
  end_key         text UNIQUE,               -- the key of the call that ends (voids) it
  end_reason      text,                      -- why it is being ended, see OrderEnd
  client_key      text,                      -- the buyer's Idempotency-Key…
  request         text,                      -- …and the hash of its request
  instrument      jsonb,                     -- {paymentMethod} or {confirmationToken}
  provider_object text,
  amount          bigint NOT NULL,
  currency        char(3) NOT NULL,
  attempts        integer NOT NULL DEFAULT 0,
  first_sent_at   timestamptz,               -- a key older than 20 h is never sent again
  due_at          timestamptz,               -- when the reconciler looks next; null means never
  -- Which process works on it and until when others keep off. A claim only saves work: keys make repeats harmless.
  claimed_by      text,
  claimed_until   timestamptz,
  asked_times     integer NOT NULL DEFAULT 0, -- looks before it was due, so far. Each doubles the gap to the next…
  asked_until     timestamptz,               -- …which may not come before this, for all processes and tabs together
  answer          jsonb,                     -- the last view or refusal
  attention       text CONSTRAINT money_operations_attention CHECK (attention IN ('payment_mismatch','captured_amount',
                    'capture_window','void_refused','refund_refused','captured_after_refusal','refund_missing','refund_mismatch',
                    'refunded_twice')),      -- for the operator's list: what does not fit
  decision        jsonb,                     -- the operator's last action, {action, actor, at}; its note is in the audit log
  -- Money that went back when the operation was ended: when to ask the provider whether it is still back; null means not any more.
  check_at        timestamptz,
  checks          smallint NOT NULL DEFAULT 0,
  created_at      timestamptz NOT NULL DEFAULT now(),
  updated_at      timestamptz NOT NULL DEFAULT now()
);
-- P1: at most one under way, not counting refunds…
CREATE UNIQUE INDEX money_one_under_way ON money_operations (order_id)
  WHERE state IN ('open','waiting','unknown','ending') AND kind <> 'refund';
-- …and at most one authorisation under way or in force.
CREATE UNIQUE INDEX money_one_authorisation ON money_operations (order_id)
  WHERE kind = 'authorise' AND state NOT IN ('refused','voided');
-- At most one attempt per refund that is under way or done; different refunds run at the same time.
CREATE UNIQUE INDEX money_one_refund ON money_operations (refund_id) WHERE refund_id IS NOT NULL AND state <> 'refused';
CREATE INDEX money_operations_check ON money_operations (check_at) WHERE check_at IS NOT NULL;
CREATE UNIQUE INDEX money_client_key ON money_operations (order_id, client_key) WHERE client_key IS NOT NULL;
CREATE INDEX money_order ON money_operations (order_id, created_at);
CREATE INDEX money_refund ON money_operations (refund_id) WHERE refund_id IS NOT NULL;
CREATE INDEX money_object ON money_operations (provider_object) WHERE provider_object IS NOT NULL;
CREATE INDEX money_due ON money_operations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX money_attention ON money_operations (created_at) WHERE attention IS NOT NULL;
CREATE INDEX money_operations_opened ON money_operations (created_at, operation_id) WHERE kind = 'open';

-- The inbox of the provider's events.
CREATE TABLE provider_events (
  provider_event_id text PRIMARY KEY,
  type              text NOT NULL,
  object            text,
  received_at       timestamptz NOT NULL DEFAULT now(),
  due_at            timestamptz,             -- when to look at its payment; null means never
  attempts          integer NOT NULL DEFAULT 0,
  claimed_by        text,
  claimed_until     timestamptz,
  processed_at      timestamptz,
  note              text                     -- how it ended if not by its payment: 'no_payment', 'unknown_object', 'foreign' …
);
CREATE INDEX provider_events_due ON provider_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX provider_events_object ON provider_events (object) WHERE due_at IS NOT NULL;
CREATE INDEX provider_events_unknown ON provider_events (received_at) WHERE note = 'unknown_object';
CREATE INDEX provider_events_foreign ON provider_events (received_at) WHERE note = 'foreign';
CREATE INDEX provider_events_ended ON provider_events (processed_at) WHERE processed_at IS NOT NULL;

-- Money that leaves a payment without us: refunds made at the provider, and disputes of the buyer's bank.
CREATE TABLE reversals (
  reversal_id text PRIMARY KEY,              -- the provider's id of the refund or the dispute
  kind        text NOT NULL CHECK (kind IN ('refund','dispute')),
  order_id    uuid NOT NULL REFERENCES orders,
  object      text NOT NULL,                 -- the payment
  amount      bigint NOT NULL,
  currency    char(3) NOT NULL,
  -- A refund is 'pending', 'done' or 'failed'; a dispute 'open', 'won' or 'lost'.
  state       text NOT NULL CHECK (state IN ('pending','done','failed','open','won','lost')),
  -- The part that can no longer be refunded, in the order's currency: 0 for a failed refund and for a dispute that was won.
  taken       bigint NOT NULL CHECK (taken >= 0),
  detail      jsonb NOT NULL DEFAULT '{}',   -- the provider's status, reason and fee, and until when to respond
  created_at  timestamptz NOT NULL,          -- by the provider's clock
  seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX reversals_order ON reversals (order_id);
CREATE INDEX reversals_open ON reversals (object) WHERE state IN ('pending','open');

-- Refunds and disputes of the account are listed by their own creation, to find what a lost event would have reported. One row per
-- kind.
CREATE TABLE provider_listings (
  kind          text PRIMARY KEY CHECK (kind IN ('refund','dispute')),
  listed_to     timestamptz NOT NULL,        -- everything created before was read
  from_at       timestamptz,                 -- the window being listed…
  to_at         timestamptz,
  cursor        text,                        -- …and where its next page begins
  counts        jsonb NOT NULL DEFAULT '{}', -- of the window being listed, or of the last one
  owner         text,
  claimed_until timestamptz,
  finished_at   timestamptz
);
INSERT INTO provider_listings (kind, listed_to)
SELECT kind, clock_timestamp() - interval '30 days' FROM unnest(ARRAY['refund','dispute']) kind;

-- One comparison of the provider's payments with the record over a window of time, resumable by its cursor. Steps: 'theirs' against
-- ours, 'ours' against theirs, then 'again' what was found before and not seen on the way.
CREATE TABLE reconcile_runs (
  run_id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  scheduled     boolean NOT NULL,
  from_at       timestamptz NOT NULL,
  to_at         timestamptz NOT NULL,
  step          text NOT NULL DEFAULT 'theirs' CHECK (step IN ('theirs','ours','again','done')),
  cursor        text,
  counts        jsonb NOT NULL DEFAULT '{}',
  owner         text,
  claimed_until timestamptz,
  started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at   timestamptz
);
CREATE INDEX reconcile_runs_started ON reconcile_runs (started_at);

-- Objects that a run saw at the provider. Unlogged: lost ones are looked up one by one.
CREATE UNLOGGED TABLE reconcile_seen (
  run_id uuid NOT NULL,
  object text NOT NULL,
  PRIMARY KEY (run_id, object)
);

-- Differences for the operator's list. A finding itself changes no order and no payment.
CREATE TABLE reconcile_findings (
  finding_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind          text NOT NULL,               -- see FindingKind in src/orders/reconcile-findings.ts
  subject       text NOT NULL,               -- the provider's object, or the order if there is none
  order_id      uuid,
  object        text,
  says          text NOT NULL,
  detail        jsonb NOT NULL DEFAULT '{}',
  first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at    timestamptz,
  settled_by    text,                        -- an operator, or 'reconcile' because it matches by now
  decision      jsonb,                       -- the operator's, {action, actor, at}; written in one step with its work
  note          text
);
CREATE UNIQUE INDEX reconcile_findings_open ON reconcile_findings (kind, subject) WHERE settled_at IS NULL;
CREATE INDEX reconcile_findings_subject ON reconcile_findings (subject);
CREATE INDEX reconcile_findings_settled ON reconcile_findings (settled_at) WHERE settled_at IS NOT NULL;

-- How the provider takes each process's calls, over its last seconds. Leaders admit fewer buyers while it refuses calls. Unlogged:
-- worthless after a crash.
CREATE UNLOGGED TABLE provider_signals (
  owner       text PRIMARY KEY,
  measured_at timestamptz NOT NULL,
  calls       integer NOT NULL,
  refused     integer NOT NULL               -- because there were too many per second
);

-- Waiting room.

-- The counter of a shard's numbers. The rows are updated with every batch: room on the page keeps the update off the index.
CREATE TABLE queue_counters (
  event_no    integer NOT NULL REFERENCES events,
  shard       smallint NOT NULL DEFAULT 0,
  last_no     bigint NOT NULL DEFAULT 0,
  -- No store issues this number or a higher one; raised before it is reached (W1). It belongs to the epoch: a process that reads both
  -- together may let Redis issue below it, whatever happens to this row, since the next epoch begins at it.
  ceiling     bigint NOT NULL DEFAULT 10000,
  mode        text NOT NULL DEFAULT 'postgres' CHECK (mode IN ('postgres','redis')), -- the store that issues
  epoch       bigint NOT NULL DEFAULT nextval('epochs'), -- a new one when the store changes or may have lost memory
  changed_at  timestamptz NOT NULL DEFAULT now(),
  store       text,                          -- in mode 'redis' the configured server…
  run_ids     text[] NOT NULL DEFAULT '{}',  -- …and the run ids that may issue
  lost_at     timestamptz,                   -- when and why the numbering last came back without Redis's cooperation
  reason      text,
  reported_by text,
  reported_at timestamptz,
  read_ms     double precision,              -- Redis's clock (Unix time, ms) when the leader last read what it had issued
  skew_ms     double precision,              -- by how much our clock was ahead of Redis's then, including the way of the reading…
  skew_max_ms double precision,              -- …and the largest difference so far
  PRIMARY KEY (event_no, shard)
) WITH (fillfactor = 20);

-- Ranges of numbers of which it is not known how many were issued, because their store was lost (W1). Issued ones stay valid. The
-- frontier passes a range in one move, so that no visitor waits for numbers that do not exist, and holders of its numbers are called
-- at that moment.
CREATE TABLE queue_gaps (
  event_no integer NOT NULL REFERENCES events,
  shard    smallint NOT NULL,
  first    bigint NOT NULL,
  last     bigint NOT NULL,
  epoch    bigint NOT NULL,                  -- under which they may have been issued
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (event_no, shard, epoch),
  CHECK (last >= first)
);

-- The last number issued at the end of each second with arrivals, kept for the report after the sale. No foreign key: joining must not
-- wait for the event's row.
CREATE TABLE queue_arrivals (
  event_no integer NOT NULL,
  shard    smallint NOT NULL,
  second   bigint NOT NULL,                  -- Unix time by the issuing store's clock
  last     bigint NOT NULL,
  PRIMARY KEY (event_no, shard, second)
) WITH (fillfactor = 50);

-- visitor → number for 60 s, for lost responses and second tabs. Unlogged: losing it costs a second place, never the order.
CREATE UNLOGGED TABLE queue_recent (
  event_no  integer NOT NULL,
  visitor   text NOT NULL,
  shard     smallint NOT NULL,
  number    bigint NOT NULL,
  issued_at timestamptz NOT NULL,
  PRIMARY KEY (visitor, event_no)
);
CREATE INDEX queue_recent_age ON queue_recent (issued_at);

-- The token bucket through which passes leave, and the frontier. Written by the leader (in its term) and by redeem, which updates the
-- row each time: room on the page keeps the update off the index.
CREATE TABLE admissions (
  event_no    integer PRIMARY KEY REFERENCES events,
  frontier    bigint[] NOT NULL DEFAULT '{0}', -- per shard
  rate        double precision NOT NULL DEFAULT 0, -- passes per second
  burst       double precision NOT NULL DEFAULT 1,
  tokens      double precision NOT NULL DEFAULT 0,
  refilled_at timestamptz NOT NULL DEFAULT now(),
  issued      bigint NOT NULL DEFAULT 0,     -- passes so far: the leader takes the difference of two readings as the rate
  term        bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

-- Every move of the frontier (W6): when a number was called, and the source of the public log.
CREATE TABLE frontier_moves (
  event_no integer NOT NULL REFERENCES events,
  shard    smallint NOT NULL,
  at       timestamptz NOT NULL,
  term     bigint NOT NULL,
  frontier bigint NOT NULL,
  PRIMARY KEY (event_no, shard, frontier)
);
CREATE INDEX frontier_moves_at ON frontier_moves (event_no, shard, at);

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

-- Leading an event, and events without a leader.

CREATE TABLE leases (
  event_no integer PRIMARY KEY REFERENCES events,
  owner    text NOT NULL,
  term     bigint NOT NULL,
  until    timestamptz NOT NULL
);

-- Shared objects of the read path, written by the leader only, in its term.
CREATE TABLE published (
  event_no     integer NOT NULL REFERENCES events,
  name         text NOT NULL,
  term         bigint NOT NULL,
  count        bigint NOT NULL,
  bytes        bytea NOT NULL,
  published_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_no, name)
);
-- Readers ask for what was published since their last reading.
CREATE INDEX published_since ON published (published_at);

-- Events that no leader leads because nothing changes (functions/event-rests.sql). Written alongside all other tables, so neither of
-- the two has a foreign key.
CREATE TABLE event_rests (
  event_no integer PRIMARY KEY,
  wake_at  timestamptz NOT NULL,             -- when something happens without a change: a start, an end, a hold that lapses
  settled  boolean NOT NULL DEFAULT false,
  made_as  text NOT NULL,                    -- the settings and the program that the published objects were made with
  made_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  made_in  xid8 NOT NULL DEFAULT pg_current_xact_id()
);
-- A table instead of a column: buyers who wake one event at once must not wait for each other's commits, and a wake that is rolled
-- back must not remove another's.
CREATE TABLE event_wakes (
  event_no integer NOT NULL
);
CREATE INDEX event_wakes_event ON event_wakes (event_no);

-- Measurements of the purchase path by each web process, over its last seconds. Leaders admit fewer buyers when it struggles. Unlogged:
-- worthless after a crash.
CREATE UNLOGGED TABLE path_signals (
  owner          text PRIMARY KEY,
  measured_at    timestamptz NOT NULL,
  requests       integer NOT NULL,
  latency_p95_ms double precision NOT NULL,
  error_share    double precision NOT NULL
);

-- Entry.

-- The first use of a ticket: one row, written by the first gate that asks.
CREATE TABLE entries (
  event_no  integer NOT NULL REFERENCES events,
  ticket_id uuid NOT NULL,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  gate      text,                            -- the scanner's name for itself
  scan      text,                            -- the scanner's key of the scan: a repeat at that gate gets the first result again
  actor     text NOT NULL,
  PRIMARY KEY (event_no, ticket_id)
);

-- Other scans: of gates without a network that let in a ticket which was used before or no longer valid, and uses that were undone.
CREATE TABLE entry_scans (
  entry_scan_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event_no      integer NOT NULL REFERENCES events,
  ticket_id     uuid NOT NULL,
  what          text NOT NULL CHECK (what IN ('double','revoked','undone')),
  at            timestamptz NOT NULL,        -- by the gate's clock
  gate          text,
  scan          text,
  actor         text NOT NULL,
  why           text,                        -- for 'revoked', as in entry_refusal
  recorded_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX entry_scans_ticket ON entry_scans (event_no, ticket_id);

-- Public keys that this installation's tickets were signed with, so that tickets sold under a key that was lost since, or on another
-- machine, stay valid.
CREATE TABLE ticket_keys (
  key_id        text PRIMARY KEY,            -- hex, as in the codes
  public_key    text NOT NULL,               -- PEM (SPKI)
  first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_seen_at  timestamptz NOT NULL DEFAULT clock_timestamp() -- when a process last started with it
);

-- Jobs, mails, webhooks, process reports.

-- Jobs on their way to the job queue (functions/jobs.sql).
CREATE TABLE job_outbox (
  job_no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task        text NOT NULL,
  payload     jsonb NOT NULL,
  key         text,                          -- at most one job per key waits in the queue: a later one replaces it
  after_ms    integer NOT NULL DEFAULT 0,    -- how long it waits before it runs
  enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The queue's workers and until when their leases last, by this clock. The queue alone would keep a dead worker's jobs locked for 4 h.
CREATE TABLE job_workers (
  worker text PRIMARY KEY,                   -- as in the queue's locked_by
  until  timestamptz NOT NULL
);

-- A mail that is owed to a buyer. Its id makes the Message-ID, so that receivers recognise a repeat. Address and text are made from the
-- order when it is sent, so nothing personal is stored here.
CREATE TABLE mails (
  mail_id    uuid PRIMARY KEY,
  order_id   uuid NOT NULL REFERENCES orders,
  what       text NOT NULL,                  -- the step that it reports, such as order.confirmed
  -- The mail that a person asked to be sent again. A copy has its own id, because receivers drop a Message-ID that they have had.
  copy_of    uuid REFERENCES mails,
  detail     jsonb NOT NULL DEFAULT '{}',
  state      text NOT NULL DEFAULT 'due' CHECK (state IN ('due','sent','refused','not_needed')),
  attempts   integer NOT NULL DEFAULT 0,
  last_error text,                           -- of the last attempt, as the mail server put it
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX mails_order ON mails (order_id);
CREATE INDEX mails_copies ON mails (copy_of) WHERE copy_of IS NOT NULL;
-- For mails that are overdue.
CREATE INDEX mails_due ON mails (created_at) WHERE state = 'due';
-- For the operator's list: refused for good, or attempts that failed.
CREATE INDEX mails_attention ON mails (updated_at) WHERE state = 'refused' OR (state = 'due' AND last_error IS NOT NULL);

-- The local mailbox, which receives all mails while no mail server is configured.
CREATE TABLE mailbox (
  message_id text PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  copies     integer NOT NULL DEFAULT 1,     -- a repeat adds one: a receiver shows the mail once
  sender     text NOT NULL,
  recipient  text NOT NULL,
  subject    text NOT NULL,
  body_text  text NOT NULL,
  body_html  text NOT NULL
);
CREATE INDEX mailbox_newest ON mailbox (at DESC);
CREATE TABLE mailbox_attachments (
  message_id text NOT NULL REFERENCES mailbox ON DELETE CASCADE,
  position   integer NOT NULL,
  filename   text NOT NULL,
  mime_type  text NOT NULL,
  bytes      bytea NOT NULL,
  PRIMARY KEY (message_id, position)
);

CREATE TABLE webhook_endpoints (
  endpoint_id   uuid PRIMARY KEY,
  event_no      integer REFERENCES events,   -- null means every event
  url           text NOT NULL,
  happenings    text[] NOT NULL,             -- the event types that it receives, such as order.confirmed
  note          text,                        -- the organiser's, for people
  state         text NOT NULL DEFAULT 'active' CHECK (state IN ('active','disabled','removed')),
  disabled_why  text,                        -- a sentence for the operator's list; null while active
  disabled_at   timestamptz,
  failures      integer NOT NULL DEFAULT 0,  -- failed attempts since the last success
  failing_since timestamptz,
  rests_until   timestamptz,                 -- nothing is sent before, because it failed several times in a row
  created_by    text NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A delivery is signed with each valid secret; a replaced secret stays valid for a while.
CREATE TABLE webhook_secrets (
  secret_no   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  endpoint_id uuid NOT NULL REFERENCES webhook_endpoints,
  secret      text NOT NULL,
  until       timestamptz,                   -- null means until it is replaced
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX webhook_secrets_endpoint ON webhook_secrets (endpoint_id);

-- No foreign key to the endpoint: each step of an order would share-lock the endpoint's row. Endpoints are never deleted.
CREATE TABLE webhook_deliveries (
  delivery_id      uuid PRIMARY KEY,         -- the same in every attempt, so that receivers recognise a repeat
  endpoint_id      uuid NOT NULL,
  event_no         integer,
  what             text NOT NULL,
  body             text NOT NULL,            -- the bytes sent in every attempt; no personal data of buyers
  state            text NOT NULL DEFAULT 'due' CHECK (state IN ('due','delivered','failed','dropped')),
  attempts         integer NOT NULL DEFAULT 0,
  due_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
  claimed_until    timestamptz,              -- a worker is sending it; after that it is due again
  first_attempt_at timestamptz,              -- since it was written, or last requested by hand
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, due_at) WHERE state = 'due';
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (endpoint_id, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX webhook_deliveries_log ON webhook_deliveries (endpoint_id, created_at DESC);
CREATE INDEX webhook_deliveries_age ON webhook_deliveries (created_at);

-- Written when an attempt begins: an attempt without a result is one whose process died.
CREATE TABLE webhook_attempts (
  delivery_id uuid NOT NULL REFERENCES webhook_deliveries ON DELETE CASCADE,
  attempt     integer NOT NULL,
  at          timestamptz NOT NULL,
  status      integer,                       -- of the HTTP response; null if there was none
  error       text,                          -- in our words: no text of a response is stored
  duration_ms integer,
  PRIMARY KEY (delivery_id, attempt)
);

-- The report of each process about its loops, renewed every few seconds and deleted on an orderly stop.
CREATE TABLE process_health (
  process     text PRIMARY KEY,              -- new with each start: host, process id and a random part
  roles       text[] NOT NULL,
  started_at  timestamptz NOT NULL,
  reported_at timestamptz NOT NULL,
  parts       jsonb NOT NULL                 -- per loop: name, state, since, last success, error; no personal data
);
