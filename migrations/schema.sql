--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: arbiter_answer; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.arbiter_answer AS (
	kind text,
	hold_id uuid,
	visitor text,
	holder text,
	seats integer[],
	granted_at timestamp with time zone,
	deadline timestamp with time zone,
	epoch bigint,
	grant_no bigint,
	order_id uuid,
	repeated boolean,
	used integer,
	phase text,
	after_ms integer
);

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: access_codes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.access_codes (
    code_id uuid DEFAULT gen_random_uuid() NOT NULL,
    event_no integer NOT NULL,
    code text NOT NULL,
    batch uuid NOT NULL,
    label text NOT NULL,
    categories text[] NOT NULL,
    kinds text[] NOT NULL,
    presale boolean NOT NULL,
    uses_max integer,
    seats_max integer,
    used integer DEFAULT 0 NOT NULL,
    until timestamp with time zone,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT access_codes_check CHECK (((used >= 0) AND ((uses_max IS NULL) OR (used <= uses_max)))),
    CONSTRAINT access_codes_check1 CHECK ((presale OR (categories <> '{}'::text[]) OR (kinds <> '{}'::text[]))),
    CONSTRAINT access_codes_seats_max_check CHECK ((seats_max > 0)),
    CONSTRAINT access_codes_uses_max_check CHECK ((uses_max > 0))
);

--
-- Name: admissions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.admissions (
    event_no integer NOT NULL,
    frontier bigint[] DEFAULT '{0}'::bigint[] NOT NULL,
    rate double precision DEFAULT 0 NOT NULL,
    burst double precision DEFAULT 1 NOT NULL,
    tokens double precision DEFAULT 0 NOT NULL,
    refilled_at timestamp with time zone DEFAULT now() NOT NULL,
    issued bigint DEFAULT 0 NOT NULL,
    term bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='20');

--
-- Name: limit_allowances; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.limit_allowances (
    allowance_id uuid DEFAULT gen_random_uuid() NOT NULL,
    event_no integer NOT NULL,
    account text,
    visitor text,
    order_id uuid,
    reason text NOT NULL,
    actor text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    until timestamp with time zone,
    ended_at timestamp with time zone,
    ended_by text,
    CONSTRAINT limit_allowances_check CHECK (((account IS NOT NULL) OR (visitor IS NOT NULL)))
);

--
-- Name: holds; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.holds (
    event_no integer NOT NULL,
    hold_id uuid NOT NULL,
    partition smallint NOT NULL,
    visitor text NOT NULL,
    holder text NOT NULL,
    request text NOT NULL,
    seats integer[] NOT NULL,
    granted_at timestamp with time zone NOT NULL,
    deadline timestamp with time zone NOT NULL,
    epoch bigint NOT NULL,
    grant_no bigint NOT NULL,
    order_id uuid,
    state text NOT NULL,
    receipt_epoch bigint,
    receipt_grant bigint,
    address text,
    CONSTRAINT holds_state_check CHECK ((state = ANY (ARRAY['live'::text, 'ordered'::text, 'ended'::text, 'released'::text, 'replaced'::text, 'expired'::text, 'tombstone'::text])))
)
PARTITION BY LIST (event_no);

--
-- Name: event_cancellations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_cancellations (
    event_no integer NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    fees text NOT NULL,
    seats text NOT NULL,
    per_second double precision NOT NULL,
    tokens double precision DEFAULT 1 NOT NULL,
    refilled_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    claimed_by text,
    claimed_until timestamp with time zone,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT event_cancellations_fees_check CHECK ((fees = ANY (ARRAY['returned'::text, 'kept'::text]))),
    CONSTRAINT event_cancellations_per_second_check CHECK ((per_second > (0)::double precision)),
    CONSTRAINT event_cancellations_seats_check CHECK ((seats = ANY (ARRAY['release'::text, 'block'::text]))),
    CONSTRAINT event_cancellations_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text])))
);

--
-- Name: tickets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tickets (
    ticket_id uuid DEFAULT gen_random_uuid() NOT NULL,
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    order_id uuid NOT NULL,
    status text NOT NULL,
    price bigint NOT NULL,
    fee bigint DEFAULT 0 NOT NULL,
    kind text DEFAULT 'full'::text NOT NULL,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tickets_status_check CHECK ((status = ANY (ARRAY['reserved'::text, 'sold'::text, 'cancelled'::text])))
)
PARTITION BY LIST (event_no);

--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    event_no integer NOT NULL,
    event_id text NOT NULL,
    name text NOT NULL,
    plan_id text NOT NULL,
    currency character(3) NOT NULL,
    performance_at timestamp with time zone,
    on_sale_at timestamp with time zone,
    sale_ends_at timestamp with time zone,
    prices jsonb NOT NULL,
    settings jsonb NOT NULL,
    phase text DEFAULT 'draft'::text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    message text,
    rate_ceiling double precision,
    layout_hash text,
    seat_count integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    published_at timestamp with time zone,
    CONSTRAINT events_event_id_check CHECK ((event_id ~ '^[a-z0-9][a-z0-9-]{0,39}$'::text)),
    CONSTRAINT events_phase_check CHECK ((phase = ANY (ARRAY['draft'::text, 'scheduled'::text, 'pre_queue'::text, 'open'::text, 'paused'::text, 'sold_out'::text, 'closed'::text, 'cancelled'::text])))
);

--
-- Name: money_operations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.money_operations (
    operation_id uuid NOT NULL,
    order_id uuid NOT NULL,
    refund_id uuid,
    kind text NOT NULL,
    state text NOT NULL,
    key text NOT NULL,
    end_key text,
    end_reason text,
    client_key text,
    request text,
    instrument jsonb,
    provider_object text,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    first_sent_at timestamp with time zone,
    due_at timestamp with time zone,
    claimed_by text,
    claimed_until timestamp with time zone,
    asked_times integer DEFAULT 0 NOT NULL,
    asked_until timestamp with time zone,
    answer jsonb,
    attention text,
    decision jsonb,
    check_at timestamp with time zone,
    checks smallint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT money_operations_attention CHECK ((attention = ANY (ARRAY['payment_mismatch'::text, 'captured_amount'::text, 'capture_window'::text, 'void_refused'::text, 'refund_refused'::text, 'captured_after_refusal'::text, 'refund_missing'::text, 'refund_mismatch'::text, 'refunded_twice'::text]))),
    CONSTRAINT money_operations_kind_check CHECK ((kind = ANY (ARRAY['open'::text, 'authorise'::text, 'capture'::text, 'refund'::text]))),
    CONSTRAINT money_operations_state_check CHECK ((state = ANY (ARRAY['open'::text, 'waiting'::text, 'unknown'::text, 'ending'::text, 'done'::text, 'refused'::text, 'voided'::text])))
);

--
-- Name: orders; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.orders (
    order_id uuid NOT NULL,
    event_no integer NOT NULL,
    partition smallint DEFAULT 0 NOT NULL,
    hold_id uuid NOT NULL,
    former_hold_id uuid,
    visitor text NOT NULL,
    holder text NOT NULL,
    account text NOT NULL,
    buyer jsonb NOT NULL,
    forgotten_at timestamp with time zone,
    seats integer[] NOT NULL,
    lines jsonb NOT NULL,
    order_fee bigint DEFAULT 0 NOT NULL,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    state text NOT NULL,
    reason text,
    payment_deadline timestamp with time zone NOT NULL,
    provider_object text,
    instrument jsonb,
    capture_before timestamp with time zone,
    accepted_difference bigint DEFAULT 0 NOT NULL,
    access_code uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT orders_amount_check CHECK ((amount >= 0))
);

--
-- Name: epochs; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.epochs
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

--
-- Name: event_partitions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_partitions (
    event_no integer NOT NULL,
    partition smallint DEFAULT 0 NOT NULL,
    sections text[],
    store text,
    mode text DEFAULT 'postgres'::text NOT NULL,
    epoch bigint DEFAULT nextval('public.epochs'::regclass) NOT NULL,
    run_ids text[] DEFAULT '{}'::text[] NOT NULL,
    granted bigint DEFAULT 0 NOT NULL,
    grace_until timestamp with time zone,
    rebuild_epoch bigint,
    restored_at timestamp with time zone,
    reason text,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT event_partitions_mode_check CHECK ((mode = ANY (ARRAY['postgres'::text, 'moving'::text, 'redis'::text])))
);

--
-- Name: reconcile_runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.reconcile_runs (
    run_id uuid DEFAULT gen_random_uuid() NOT NULL,
    scheduled boolean NOT NULL,
    from_at timestamp with time zone NOT NULL,
    to_at timestamp with time zone NOT NULL,
    step text DEFAULT 'theirs'::text NOT NULL,
    cursor text,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    owner text,
    claimed_until timestamp with time zone,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT reconcile_runs_step_check CHECK ((step = ANY (ARRAY['theirs'::text, 'ours'::text, 'again'::text, 'done'::text])))
);

--
-- Name: refunds; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.refunds (
    refund_id uuid NOT NULL,
    order_id uuid NOT NULL,
    event_no integer NOT NULL,
    cancellation boolean DEFAULT false NOT NULL,
    request_key text,
    request text,
    actor text NOT NULL,
    reason text NOT NULL,
    fees_kept bigint NOT NULL,
    order_fee bigint NOT NULL,
    goodwill bigint NOT NULL,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    state text NOT NULL,
    detail text,
    retry_asked timestamp with time zone,
    check_at timestamp with time zone,
    checks smallint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT refunds_check CHECK (((fees_kept >= 0) AND (order_fee >= 0) AND (amount >= 0))),
    CONSTRAINT refunds_state_check CHECK ((state = ANY (ARRAY['open'::text, 'unknown'::text, 'pending'::text, 'done'::text, 'failed'::text, 'elsewhere'::text])))
);

--
-- Name: reversals; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.reversals (
    reversal_id text NOT NULL,
    kind text NOT NULL,
    order_id uuid NOT NULL,
    object text NOT NULL,
    amount bigint NOT NULL,
    currency character(3) NOT NULL,
    state text NOT NULL,
    taken bigint NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT reversals_kind_check CHECK ((kind = ANY (ARRAY['refund'::text, 'dispute'::text]))),
    CONSTRAINT reversals_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'done'::text, 'failed'::text, 'open'::text, 'won'::text, 'lost'::text]))),
    CONSTRAINT reversals_taken_check CHECK ((taken >= 0))
);

--
-- Name: sales_figures; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sales_figures (
    event_no integer NOT NULL,
    at timestamp with time zone NOT NULL,
    figures jsonb NOT NULL
);

--
-- Name: webhook_endpoints; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_endpoints (
    endpoint_id uuid NOT NULL,
    event_no integer,
    url text NOT NULL,
    happenings text[] NOT NULL,
    note text,
    state text DEFAULT 'active'::text NOT NULL,
    disabled_why text,
    disabled_at timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    failing_since timestamp with time zone,
    rests_until timestamp with time zone,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT webhook_endpoints_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text, 'removed'::text])))
);

--
-- Name: audit_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.audit_log (
    entry bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    event_no integer,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL
);

--
-- Name: audit_log_entry_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.audit_log ALTER COLUMN entry ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.audit_log_entry_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: blocks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.blocks (
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    reason text NOT NULL,
    actor text NOT NULL,
    blocked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: confirmations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.confirmations (
    code_hash text NOT NULL,
    act text NOT NULL,
    event_no integer,
    request text NOT NULL,
    actor text NOT NULL,
    shown jsonb NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone
);

--
-- Name: cooldowns; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.cooldowns (
    event_no integer NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    unpaid integer NOT NULL,
    quick integer DEFAULT 0 NOT NULL,
    last_at timestamp with time zone NOT NULL,
    until timestamp with time zone,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT cooldowns_kind_check CHECK ((kind = ANY (ARRAY['visitor'::text, 'account'::text, 'address'::text])))
);

--
-- Name: entries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.entries (
    event_no integer NOT NULL,
    ticket_id uuid NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    gate text,
    scan text,
    actor text NOT NULL
);

--
-- Name: entry_scans; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.entry_scans (
    entry_scan_no bigint NOT NULL,
    event_no integer NOT NULL,
    ticket_id uuid NOT NULL,
    what text NOT NULL,
    at timestamp with time zone NOT NULL,
    gate text,
    scan text,
    actor text NOT NULL,
    why text,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT entry_scans_what_check CHECK ((what = ANY (ARRAY['double'::text, 'revoked'::text, 'undone'::text])))
);

--
-- Name: entry_scans_entry_scan_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.entry_scans ALTER COLUMN entry_scan_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.entry_scans_entry_scan_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: event_rests; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_rests (
    event_no integer NOT NULL,
    wake_at timestamp with time zone NOT NULL,
    settled boolean DEFAULT false NOT NULL,
    made_as text NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    made_in xid8 DEFAULT pg_current_xact_id() NOT NULL
);

--
-- Name: event_seats; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_seats (
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    seat_guid text NOT NULL,
    section_id text NOT NULL,
    row_label text NOT NULL,
    seat_label text NOT NULL,
    category text NOT NULL,
    removed boolean DEFAULT false NOT NULL
);

--
-- Name: event_wakes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.event_wakes (
    event_no integer NOT NULL
);

--
-- Name: events_event_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.events ALTER COLUMN event_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_event_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: frontier_moves; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.frontier_moves (
    event_no integer NOT NULL,
    shard smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    term bigint NOT NULL,
    frontier bigint NOT NULL
);

--
-- Name: grant_numbers; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.grant_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

--
-- Name: hold_ends; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.hold_ends (
    event_no integer NOT NULL,
    hold_id uuid NOT NULL,
    visitor text NOT NULL,
    account text,
    address text,
    granted_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    quick boolean DEFAULT false NOT NULL
);

--
-- Name: installation; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.installation (
    id text NOT NULL,
    only_row boolean DEFAULT true NOT NULL,
    CONSTRAINT installation_only_row_check CHECK (only_row)
);

--
-- Name: job_outbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_outbox (
    job_no bigint NOT NULL,
    task text NOT NULL,
    payload jsonb NOT NULL,
    key text,
    after_ms integer DEFAULT 0 NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: job_outbox_job_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.job_outbox ALTER COLUMN job_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.job_outbox_job_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: job_workers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.job_workers (
    worker text NOT NULL,
    until timestamp with time zone NOT NULL
);

--
-- Name: layouts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.layouts (
    hash text NOT NULL,
    bytes bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: leases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.leases (
    event_no integer NOT NULL,
    owner text NOT NULL,
    term bigint NOT NULL,
    until timestamp with time zone NOT NULL
);

--
-- Name: limit_counts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.limit_counts (
    event_no integer NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    seats integer NOT NULL,
    CONSTRAINT limit_counts_kind_check CHECK ((kind = ANY (ARRAY['account'::text, 'instrument'::text]))),
    CONSTRAINT limit_counts_seats_check CHECK ((seats >= 0))
);

--
-- Name: mailbox; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mailbox (
    message_id text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    copies integer DEFAULT 1 NOT NULL,
    sender text NOT NULL,
    recipient text NOT NULL,
    subject text NOT NULL,
    body_text text NOT NULL,
    body_html text NOT NULL
);

--
-- Name: mailbox_attachments; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mailbox_attachments (
    message_id text NOT NULL,
    "position" integer NOT NULL,
    filename text NOT NULL,
    mime_type text NOT NULL,
    bytes bytea NOT NULL
);

--
-- Name: mails; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mails (
    mail_id uuid NOT NULL,
    order_id uuid NOT NULL,
    what text NOT NULL,
    copy_of uuid,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    state text DEFAULT 'due'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT mails_state_check CHECK ((state = ANY (ARRAY['due'::text, 'sent'::text, 'refused'::text, 'not_needed'::text])))
);

--
-- Name: provider_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.provider_events (
    provider_event_id text NOT NULL,
    type text NOT NULL,
    object text,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    claimed_by text,
    claimed_until timestamp with time zone,
    processed_at timestamp with time zone,
    note text
);

--
-- Name: reconcile_findings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.reconcile_findings (
    finding_id bigint NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    order_id uuid,
    object text,
    says text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    first_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    settled_at timestamp with time zone,
    settled_by text,
    decision jsonb,
    note text
);

--
-- Name: order_history; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.order_history (
    order_id uuid NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    change text NOT NULL,
    from_state text,
    to_state text,
    detail jsonb
);

--
-- Name: organiser_sessions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.organiser_sessions (
    token_hash text NOT NULL,
    email text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

--
-- Name: partition_witnesses; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.partition_witnesses (
    event_no integer NOT NULL,
    partition smallint NOT NULL,
    reporter text NOT NULL,
    epoch bigint NOT NULL,
    reason text NOT NULL,
    at timestamp with time zone NOT NULL
);

--
-- Name: passes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.passes (
    event_no integer NOT NULL,
    visitor text NOT NULL,
    pass_id uuid NOT NULL,
    shard smallint NOT NULL,
    number bigint NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

--
-- Name: path_signals; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.path_signals (
    owner text NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    requests integer NOT NULL,
    latency_p95_ms double precision NOT NULL,
    error_share double precision NOT NULL
);

--
-- Name: plans; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.plans (
    plan_id text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    hash text NOT NULL,
    plan bytea NOT NULL,
    report jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: process_health; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.process_health (
    process text NOT NULL,
    roles text[] NOT NULL,
    started_at timestamp with time zone NOT NULL,
    reported_at timestamp with time zone NOT NULL,
    parts jsonb NOT NULL
);

--
-- Name: provider_listings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.provider_listings (
    kind text NOT NULL,
    listed_to timestamp with time zone NOT NULL,
    from_at timestamp with time zone,
    to_at timestamp with time zone,
    cursor text,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    owner text,
    claimed_until timestamp with time zone,
    finished_at timestamp with time zone,
    CONSTRAINT provider_listings_kind_check CHECK ((kind = ANY (ARRAY['refund'::text, 'dispute'::text])))
);

--
-- Name: provider_signals; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.provider_signals (
    owner text NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    calls integer NOT NULL,
    refused integer NOT NULL
);

--
-- Name: published; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.published (
    event_no integer NOT NULL,
    name text NOT NULL,
    term bigint NOT NULL,
    count bigint NOT NULL,
    bytes bytea NOT NULL,
    published_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: queue_arrivals; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queue_arrivals (
    event_no integer NOT NULL,
    shard smallint NOT NULL,
    second bigint NOT NULL,
    last bigint NOT NULL
)
WITH (fillfactor='50');

--
-- Name: queue_counters; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queue_counters (
    event_no integer NOT NULL,
    shard smallint DEFAULT 0 NOT NULL,
    last_no bigint DEFAULT 0 NOT NULL,
    ceiling bigint DEFAULT 10000 NOT NULL,
    mode text DEFAULT 'postgres'::text NOT NULL,
    epoch bigint DEFAULT nextval('public.epochs'::regclass) NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    store text,
    run_ids text[] DEFAULT '{}'::text[] NOT NULL,
    lost_at timestamp with time zone,
    reason text,
    reported_by text,
    reported_at timestamp with time zone,
    read_ms double precision,
    skew_ms double precision,
    skew_max_ms double precision,
    CONSTRAINT queue_counters_mode_check CHECK ((mode = ANY (ARRAY['postgres'::text, 'redis'::text])))
)
WITH (fillfactor='20');

--
-- Name: queue_gaps; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.queue_gaps (
    event_no integer NOT NULL,
    shard smallint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    epoch bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT queue_gaps_check CHECK ((last >= first))
);

--
-- Name: queue_recent; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.queue_recent (
    event_no integer NOT NULL,
    visitor text NOT NULL,
    shard smallint NOT NULL,
    number bigint NOT NULL,
    issued_at timestamp with time zone NOT NULL
);

--
-- Name: reconcile_findings_finding_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.reconcile_findings ALTER COLUMN finding_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.reconcile_findings_finding_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: reconcile_seen; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.reconcile_seen (
    run_id uuid NOT NULL,
    object text NOT NULL
);

--
-- Name: refund_tickets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.refund_tickets (
    event_no integer NOT NULL,
    ticket_id uuid NOT NULL,
    refund_id uuid NOT NULL
);

--
-- Name: schema_functions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.schema_functions (
    only_row boolean DEFAULT true NOT NULL,
    hash text NOT NULL,
    program text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT schema_functions_only_row_check CHECK (only_row)
);

--
-- Name: schema_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    file text NOT NULL,
    hash text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

--
-- Name: seats; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.seats (
    event_no integer NOT NULL,
    seat_no integer NOT NULL,
    partition smallint DEFAULT 0 NOT NULL,
    state text DEFAULT 'available'::text NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    order_id uuid,
    hold_id uuid,
    hold_until timestamp with time zone,
    hold_epoch bigint,
    CONSTRAINT seats_state_check CHECK ((state = ANY (ARRAY['available'::text, 'reserved'::text, 'sold'::text, 'blocked'::text])))
)
PARTITION BY LIST (event_no);

--
-- Name: sign_in_budgets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sign_in_budgets (
    budget text NOT NULL,
    email text,
    attempts double precision DEFAULT 0 NOT NULL,
    counted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    next_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: ticket_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ticket_keys (
    key_id text NOT NULL,
    public_key text NOT NULL,
    first_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: undeclared_proxies; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.undeclared_proxies (
    peer_kind text NOT NULL,
    peer text NOT NULL,
    header text NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT undeclared_proxies_peer_kind_check CHECK ((peer_kind = ANY (ARRAY['private'::text, 'public'::text])))
);

--
-- Name: webhook_attempts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_attempts (
    delivery_id uuid NOT NULL,
    attempt integer NOT NULL,
    at timestamp with time zone NOT NULL,
    status integer,
    error text,
    duration_ms integer
);

--
-- Name: webhook_deliveries; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_deliveries (
    delivery_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    event_no integer,
    what text NOT NULL,
    body text NOT NULL,
    state text DEFAULT 'due'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    claimed_until timestamp with time zone,
    first_attempt_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['due'::text, 'delivered'::text, 'failed'::text, 'dropped'::text])))
);

--
-- Name: webhook_secrets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_secrets (
    secret_no bigint NOT NULL,
    endpoint_id uuid NOT NULL,
    secret text NOT NULL,
    until timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

--
-- Name: webhook_secrets_secret_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.webhook_secrets ALTER COLUMN secret_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.webhook_secrets_secret_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: access_codes access_codes_event_no_code_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_codes
    ADD CONSTRAINT access_codes_event_no_code_key UNIQUE (event_no, code);

--
-- Name: access_codes access_codes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_codes
    ADD CONSTRAINT access_codes_pkey PRIMARY KEY (code_id);

--
-- Name: admissions admissions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.admissions
    ADD CONSTRAINT admissions_pkey PRIMARY KEY (event_no);

--
-- Name: audit_log audit_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (entry);

--
-- Name: blocks blocks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.blocks
    ADD CONSTRAINT blocks_pkey PRIMARY KEY (event_no, seat_no);

--
-- Name: confirmations confirmations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.confirmations
    ADD CONSTRAINT confirmations_pkey PRIMARY KEY (code_hash);

--
-- Name: cooldowns cooldowns_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cooldowns
    ADD CONSTRAINT cooldowns_pkey PRIMARY KEY (event_no, kind, subject);

--
-- Name: entries entries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (event_no, ticket_id);

--
-- Name: entry_scans entry_scans_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entry_scans
    ADD CONSTRAINT entry_scans_pkey PRIMARY KEY (entry_scan_no);

--
-- Name: event_cancellations event_cancellations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_cancellations
    ADD CONSTRAINT event_cancellations_pkey PRIMARY KEY (event_no);

--
-- Name: event_partitions event_partitions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_partitions
    ADD CONSTRAINT event_partitions_pkey PRIMARY KEY (event_no, partition);

--
-- Name: event_rests event_rests_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_rests
    ADD CONSTRAINT event_rests_pkey PRIMARY KEY (event_no);

--
-- Name: event_seats event_seats_event_no_seat_guid_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_seats
    ADD CONSTRAINT event_seats_event_no_seat_guid_key UNIQUE (event_no, seat_guid);

--
-- Name: event_seats event_seats_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_seats
    ADD CONSTRAINT event_seats_pkey PRIMARY KEY (event_no, seat_no);

--
-- Name: events events_event_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_event_id_key UNIQUE (event_id);

--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (event_no);

--
-- Name: frontier_moves frontier_moves_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.frontier_moves
    ADD CONSTRAINT frontier_moves_pkey PRIMARY KEY (event_no, shard, frontier);

--
-- Name: hold_ends hold_ends_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hold_ends
    ADD CONSTRAINT hold_ends_pkey PRIMARY KEY (hold_id, event_no);

--
-- Name: holds holds_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (hold_id, event_no);

--
-- Name: installation installation_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (only_row);

--
-- Name: job_outbox job_outbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_outbox
    ADD CONSTRAINT job_outbox_pkey PRIMARY KEY (job_no);

--
-- Name: job_workers job_workers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.job_workers
    ADD CONSTRAINT job_workers_pkey PRIMARY KEY (worker);

--
-- Name: layouts layouts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.layouts
    ADD CONSTRAINT layouts_pkey PRIMARY KEY (hash);

--
-- Name: leases leases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (event_no);

--
-- Name: limit_allowances limit_allowances_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_allowances
    ADD CONSTRAINT limit_allowances_pkey PRIMARY KEY (allowance_id);

--
-- Name: limit_counts limit_counts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_counts
    ADD CONSTRAINT limit_counts_pkey PRIMARY KEY (event_no, kind, subject);

--
-- Name: mailbox_attachments mailbox_attachments_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mailbox_attachments
    ADD CONSTRAINT mailbox_attachments_pkey PRIMARY KEY (message_id, "position");

--
-- Name: mailbox mailbox_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mailbox
    ADD CONSTRAINT mailbox_pkey PRIMARY KEY (message_id);

--
-- Name: mails mails_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mails
    ADD CONSTRAINT mails_pkey PRIMARY KEY (mail_id);

--
-- Name: money_operations money_operations_end_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_end_key_key UNIQUE (end_key);

--
-- Name: money_operations money_operations_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_key_key UNIQUE (key);

--
-- Name: money_operations money_operations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_pkey PRIMARY KEY (operation_id);

--
-- Name: orders orders_hold_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_hold_id_key UNIQUE (hold_id);

--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (order_id);

--
-- Name: orders orders_provider_object_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_provider_object_key UNIQUE (provider_object);

--
-- Name: organiser_sessions organiser_sessions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.organiser_sessions
    ADD CONSTRAINT organiser_sessions_pkey PRIMARY KEY (token_hash);

--
-- Name: partition_witnesses partition_witnesses_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.partition_witnesses
    ADD CONSTRAINT partition_witnesses_pkey PRIMARY KEY (event_no, partition, reporter);

--
-- Name: passes passes_event_no_shard_number_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.passes
    ADD CONSTRAINT passes_event_no_shard_number_key UNIQUE (event_no, shard, number);

--
-- Name: passes passes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.passes
    ADD CONSTRAINT passes_pkey PRIMARY KEY (event_no, visitor);

--
-- Name: path_signals path_signals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.path_signals
    ADD CONSTRAINT path_signals_pkey PRIMARY KEY (owner);

--
-- Name: plans plans_hash_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_hash_key UNIQUE (hash);

--
-- Name: plans plans_name_version_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_name_version_key UNIQUE (name, version);

--
-- Name: plans plans_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.plans
    ADD CONSTRAINT plans_pkey PRIMARY KEY (plan_id);

--
-- Name: process_health process_health_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.process_health
    ADD CONSTRAINT process_health_pkey PRIMARY KEY (process);

--
-- Name: provider_events provider_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_events
    ADD CONSTRAINT provider_events_pkey PRIMARY KEY (provider_event_id);

--
-- Name: provider_listings provider_listings_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_listings
    ADD CONSTRAINT provider_listings_pkey PRIMARY KEY (kind);

--
-- Name: provider_signals provider_signals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_signals
    ADD CONSTRAINT provider_signals_pkey PRIMARY KEY (owner);

--
-- Name: published published_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.published
    ADD CONSTRAINT published_pkey PRIMARY KEY (event_no, name);

--
-- Name: queue_arrivals queue_arrivals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_arrivals
    ADD CONSTRAINT queue_arrivals_pkey PRIMARY KEY (event_no, shard, second);

--
-- Name: queue_counters queue_counters_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_counters
    ADD CONSTRAINT queue_counters_pkey PRIMARY KEY (event_no, shard);

--
-- Name: queue_gaps queue_gaps_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_gaps
    ADD CONSTRAINT queue_gaps_pkey PRIMARY KEY (event_no, shard, epoch);

--
-- Name: queue_recent queue_recent_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_recent
    ADD CONSTRAINT queue_recent_pkey PRIMARY KEY (visitor, event_no);

--
-- Name: reconcile_findings reconcile_findings_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reconcile_findings
    ADD CONSTRAINT reconcile_findings_pkey PRIMARY KEY (finding_id);

--
-- Name: reconcile_runs reconcile_runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reconcile_runs
    ADD CONSTRAINT reconcile_runs_pkey PRIMARY KEY (run_id);

--
-- Name: reconcile_seen reconcile_seen_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reconcile_seen
    ADD CONSTRAINT reconcile_seen_pkey PRIMARY KEY (run_id, object);

--
-- Name: refund_tickets refund_tickets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refund_tickets
    ADD CONSTRAINT refund_tickets_pkey PRIMARY KEY (event_no, ticket_id);

--
-- Name: refunds refunds_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refunds
    ADD CONSTRAINT refunds_pkey PRIMARY KEY (refund_id);

--
-- Name: reversals reversals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reversals
    ADD CONSTRAINT reversals_pkey PRIMARY KEY (reversal_id);

--
-- Name: sales_figures sales_figures_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sales_figures
    ADD CONSTRAINT sales_figures_pkey PRIMARY KEY (event_no);

--
-- Name: schema_functions schema_functions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.schema_functions
    ADD CONSTRAINT schema_functions_pkey PRIMARY KEY (only_row);

--
-- Name: schema_migrations schema_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

--
-- Name: seats seats_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.seats
    ADD CONSTRAINT seats_pkey PRIMARY KEY (seat_no, event_no);

--
-- Name: sign_in_budgets sign_in_budgets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sign_in_budgets
    ADD CONSTRAINT sign_in_budgets_pkey PRIMARY KEY (budget);

--
-- Name: ticket_keys ticket_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ticket_keys
    ADD CONSTRAINT ticket_keys_pkey PRIMARY KEY (key_id);

--
-- Name: tickets tickets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tickets
    ADD CONSTRAINT tickets_pkey PRIMARY KEY (ticket_id, event_no);

--
-- Name: undeclared_proxies undeclared_proxies_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.undeclared_proxies
    ADD CONSTRAINT undeclared_proxies_pkey PRIMARY KEY (peer_kind);

--
-- Name: webhook_attempts webhook_attempts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_pkey PRIMARY KEY (delivery_id, attempt);

--
-- Name: webhook_deliveries webhook_deliveries_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (delivery_id);

--
-- Name: webhook_endpoints webhook_endpoints_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (endpoint_id);

--
-- Name: webhook_secrets webhook_secrets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_pkey PRIMARY KEY (secret_no);

--
-- Name: access_codes_batch; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX access_codes_batch ON public.access_codes USING btree (event_no, batch);

--
-- Name: audit_log_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX audit_log_event ON public.audit_log USING btree (event_no, entry);

--
-- Name: cooldowns_changed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX cooldowns_changed ON public.cooldowns USING btree (changed_at);

--
-- Name: cooldowns_last; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX cooldowns_last ON public.cooldowns USING btree (last_at);

--
-- Name: entry_scans_ticket; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX entry_scans_ticket ON public.entry_scans USING btree (event_no, ticket_id);

--
-- Name: event_wakes_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX event_wakes_event ON public.event_wakes USING btree (event_no);

--
-- Name: frontier_moves_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX frontier_moves_at ON public.frontier_moves USING btree (event_no, shard, at);

--
-- Name: hold_ends_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX hold_ends_due ON public.hold_ends USING btree (ends_at);

--
-- Name: holds_address; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_address ON ONLY public.holds USING btree (address);

--
-- Name: holds_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_due ON ONLY public.holds USING btree (public.hold_due(state, deadline));

--
-- Name: holds_holder; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_holder ON ONLY public.holds USING btree (holder);

--
-- Name: holds_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX holds_visitor ON ONLY public.holds USING btree (visitor);

--
-- Name: limit_allowances_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX limit_allowances_account ON public.limit_allowances USING btree (event_no, account) WHERE (ended_at IS NULL);

--
-- Name: limit_allowances_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX limit_allowances_visitor ON public.limit_allowances USING btree (event_no, visitor) WHERE (ended_at IS NULL);

--
-- Name: mailbox_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mailbox_newest ON public.mailbox USING btree (at DESC);

--
-- Name: mails_attention; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_attention ON public.mails USING btree (updated_at) WHERE ((state = 'refused'::text) OR ((state = 'due'::text) AND (last_error IS NOT NULL)));

--
-- Name: mails_copies; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_copies ON public.mails USING btree (copy_of) WHERE (copy_of IS NOT NULL);

--
-- Name: mails_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_due ON public.mails USING btree (created_at) WHERE (state = 'due'::text);

--
-- Name: mails_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mails_order ON public.mails USING btree (order_id);

--
-- Name: money_attention; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_attention ON public.money_operations USING btree (created_at) WHERE (attention IS NOT NULL);

--
-- Name: money_client_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_client_key ON public.money_operations USING btree (order_id, client_key) WHERE (client_key IS NOT NULL);

--
-- Name: money_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_due ON public.money_operations USING btree (due_at) WHERE (due_at IS NOT NULL);

--
-- Name: money_object; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_object ON public.money_operations USING btree (provider_object) WHERE (provider_object IS NOT NULL);

--
-- Name: money_one_authorisation; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_authorisation ON public.money_operations USING btree (order_id) WHERE ((kind = 'authorise'::text) AND (state <> ALL (ARRAY['refused'::text, 'voided'::text])));

--
-- Name: money_one_refund; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_refund ON public.money_operations USING btree (refund_id) WHERE ((refund_id IS NOT NULL) AND (state <> 'refused'::text));

--
-- Name: money_one_under_way; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX money_one_under_way ON public.money_operations USING btree (order_id) WHERE ((state = ANY (ARRAY['open'::text, 'waiting'::text, 'unknown'::text, 'ending'::text])) AND (kind <> 'refund'::text));

--
-- Name: money_operations_check; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_operations_check ON public.money_operations USING btree (check_at) WHERE (check_at IS NOT NULL);

--
-- Name: money_operations_opened; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_operations_opened ON public.money_operations USING btree (created_at, operation_id) WHERE (kind = 'open'::text);

--
-- Name: money_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_order ON public.money_operations USING btree (order_id, created_at);

--
-- Name: money_refund; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX money_refund ON public.money_operations USING btree (refund_id) WHERE (refund_id IS NOT NULL);

--
-- Name: order_history_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX order_history_order ON public.order_history USING btree (order_id, at);

--
-- Name: orders_access_code; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_access_code ON public.orders USING btree (access_code) WHERE (access_code IS NOT NULL);

--
-- Name: orders_bought_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_bought_visitor ON public.orders USING btree (event_no, visitor) WHERE (state = ANY (ARRAY['confirmed'::text, 'paid'::text]));

--
-- Name: orders_changed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_changed ON public.orders USING btree (updated_at);

--
-- Name: orders_deadline; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_deadline ON public.orders USING btree (payment_deadline) WHERE (state = ANY (ARRAY['reserved'::text, 'authorised'::text, 'confirmed'::text, 'voiding'::text]));

--
-- Name: orders_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_event ON public.orders USING btree (event_no, created_at);

--
-- Name: orders_former_hold; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_former_hold ON public.orders USING btree (former_hold_id) WHERE (former_hold_id IS NOT NULL);

--
-- Name: orders_open_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX orders_open_account ON public.orders USING btree (event_no, account) WHERE (state = ANY (ARRAY['reserved'::text, 'authorised'::text]));

--
-- Name: orders_open_visitor; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX orders_open_visitor ON public.orders USING btree (event_no, visitor) WHERE (state = ANY (ARRAY['reserved'::text, 'authorised'::text]));

--
-- Name: passes_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX passes_expiry ON public.passes USING btree (event_no, expires_at);

--
-- Name: provider_events_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_due ON public.provider_events USING btree (due_at) WHERE (due_at IS NOT NULL);

--
-- Name: provider_events_ended; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_ended ON public.provider_events USING btree (processed_at) WHERE (processed_at IS NOT NULL);

--
-- Name: provider_events_foreign; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_foreign ON public.provider_events USING btree (received_at) WHERE (note = 'foreign'::text);

--
-- Name: provider_events_object; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_object ON public.provider_events USING btree (object) WHERE (due_at IS NOT NULL);

--
-- Name: provider_events_unknown; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_events_unknown ON public.provider_events USING btree (received_at) WHERE (note = 'unknown_object'::text);

--
-- Name: published_since; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX published_since ON public.published USING btree (published_at);

--
-- Name: queue_recent_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX queue_recent_age ON public.queue_recent USING btree (issued_at);

--
-- Name: reconcile_findings_open; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX reconcile_findings_open ON public.reconcile_findings USING btree (kind, subject) WHERE (settled_at IS NULL);

--
-- Name: reconcile_findings_settled; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reconcile_findings_settled ON public.reconcile_findings USING btree (settled_at) WHERE (settled_at IS NOT NULL);

--
-- Name: reconcile_findings_subject; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reconcile_findings_subject ON public.reconcile_findings USING btree (subject);

--
-- Name: reconcile_runs_started; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reconcile_runs_started ON public.reconcile_runs USING btree (started_at);

--
-- Name: refund_tickets_refund; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refund_tickets_refund ON public.refund_tickets USING btree (refund_id);

--
-- Name: refunds_check; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_check ON public.refunds USING btree (check_at) WHERE (check_at IS NOT NULL);

--
-- Name: refunds_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_event ON public.refunds USING btree (event_no, state);

--
-- Name: refunds_failed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_failed ON public.refunds USING btree (created_at) WHERE (state = 'failed'::text);

--
-- Name: refunds_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX refunds_order ON public.refunds USING btree (order_id, created_at);

--
-- Name: refunds_request; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX refunds_request ON public.refunds USING btree (order_id, request_key) WHERE (request_key IS NOT NULL);

--
-- Name: reversals_open; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reversals_open ON public.reversals USING btree (object) WHERE (state = ANY (ARRAY['pending'::text, 'open'::text]));

--
-- Name: reversals_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX reversals_order ON public.reversals USING btree (order_id);

--
-- Name: sign_in_budgets_by_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX sign_in_budgets_by_age ON public.sign_in_budgets USING btree (counted_at);

--
-- Name: tickets_one_owner; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX tickets_one_owner ON ONLY public.tickets USING btree (seat_no, event_no) WHERE ((status = ANY (ARRAY['reserved'::text, 'sold'::text])) IS TRUE);

--
-- Name: tickets_order; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX tickets_order ON ONLY public.tickets USING btree (order_id);

--
-- Name: webhook_deliveries_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_age ON public.webhook_deliveries USING btree (created_at);

--
-- Name: webhook_deliveries_claimed; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_claimed ON public.webhook_deliveries USING btree (endpoint_id, claimed_until) WHERE (claimed_until IS NOT NULL);

--
-- Name: webhook_deliveries_due; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_due ON public.webhook_deliveries USING btree (endpoint_id, due_at) WHERE (state = 'due'::text);

--
-- Name: webhook_deliveries_log; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_deliveries_log ON public.webhook_deliveries USING btree (endpoint_id, created_at DESC);

--
-- Name: webhook_secrets_endpoint; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_secrets_endpoint ON public.webhook_secrets USING btree (endpoint_id);

--
-- Name: access_codes access_codes_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_codes
    ADD CONSTRAINT access_codes_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: admissions admissions_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.admissions
    ADD CONSTRAINT admissions_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: blocks blocks_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.blocks
    ADD CONSTRAINT blocks_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: confirmations confirmations_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.confirmations
    ADD CONSTRAINT confirmations_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: cooldowns cooldowns_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cooldowns
    ADD CONSTRAINT cooldowns_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: entries entries_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: entry_scans entry_scans_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.entry_scans
    ADD CONSTRAINT entry_scans_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: event_cancellations event_cancellations_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_cancellations
    ADD CONSTRAINT event_cancellations_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: event_partitions event_partitions_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.event_partitions
    ADD CONSTRAINT event_partitions_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: events events_plan_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES public.plans(plan_id);

--
-- Name: frontier_moves frontier_moves_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.frontier_moves
    ADD CONSTRAINT frontier_moves_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: leases leases_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: limit_allowances limit_allowances_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_allowances
    ADD CONSTRAINT limit_allowances_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: mailbox_attachments mailbox_attachments_message_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mailbox_attachments
    ADD CONSTRAINT mailbox_attachments_message_id_fkey FOREIGN KEY (message_id) REFERENCES public.mailbox(message_id) ON DELETE CASCADE;

--
-- Name: mails mails_copy_of_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mails
    ADD CONSTRAINT mails_copy_of_fkey FOREIGN KEY (copy_of) REFERENCES public.mails(mail_id);

--
-- Name: mails mails_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mails
    ADD CONSTRAINT mails_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: money_operations money_operations_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: money_operations money_operations_refund_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.money_operations
    ADD CONSTRAINT money_operations_refund_id_fkey FOREIGN KEY (refund_id) REFERENCES public.refunds(refund_id);

--
-- Name: orders orders_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: partition_witnesses partition_witnesses_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.partition_witnesses
    ADD CONSTRAINT partition_witnesses_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: published published_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.published
    ADD CONSTRAINT published_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: queue_counters queue_counters_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_counters
    ADD CONSTRAINT queue_counters_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: queue_gaps queue_gaps_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.queue_gaps
    ADD CONSTRAINT queue_gaps_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: refund_tickets refund_tickets_refund_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refund_tickets
    ADD CONSTRAINT refund_tickets_refund_id_fkey FOREIGN KEY (refund_id) REFERENCES public.refunds(refund_id);

--
-- Name: refunds refunds_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refunds
    ADD CONSTRAINT refunds_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: refunds refunds_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.refunds
    ADD CONSTRAINT refunds_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: reversals reversals_order_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.reversals
    ADD CONSTRAINT reversals_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(order_id);

--
-- Name: sales_figures sales_figures_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sales_figures
    ADD CONSTRAINT sales_figures_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: webhook_attempts webhook_attempts_delivery_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_delivery_id_fkey FOREIGN KEY (delivery_id) REFERENCES public.webhook_deliveries(delivery_id) ON DELETE CASCADE;

--
-- Name: webhook_endpoints webhook_endpoints_event_no_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_event_no_fkey FOREIGN KEY (event_no) REFERENCES public.events(event_no);

--
-- Name: webhook_secrets webhook_secrets_endpoint_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES public.webhook_endpoints(endpoint_id);

--
-- PostgreSQL database dump complete
--
