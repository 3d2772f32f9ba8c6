-- What the reconciler read, found, repaired and closed. A finding's resolution and a repair's progress move; the rest
-- is append-only.

create table ledger.reconciliation (
  reconciliation_no bigint generated always as identity primary key,
  started_at timestamptz not null,
  as_of timestamptz not null,
  finished_at timestamptz,
  actor_no integer not null references ledger.actor,
  scope jsonb not null,
  counts jsonb
);

-- One row a source a pass: what was read, when, and the control total of it.
create table ledger.population (
  population_no bigint generated always as identity primary key,
  reconciliation_no bigint not null references ledger.reconciliation,
  name text not null,
  origin text not null,
  query_digest text,
  extracted_at timestamptz not null,
  duration_seconds double precision not null,
  row_count bigint not null,
  skipped_count bigint not null,
  hash_total bigint not null,
  failure text,
  constraint population_origin_known check (origin in ('definitions', 'events', 'sql', 'evidence')),
  constraint population_counts_positive check (row_count >= 0 and skipped_count >= 0)
);

create index population_reconciliation_idx on ledger.population (reconciliation_no);

create table ledger.finding (
  id uuid primary key,
  type text not null,
  severity text not null,
  tenant text not null,
  kind text not null,
  subject text not null,
  item_id uuid,
  business_key text,
  effective_date date,
  due_at timestamptz,
  sentence text not null,
  expected jsonb,
  actual jsonb,
  terms jsonb,
  opened_count integer not null default 1,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  closed_at timestamptz,
  reconciliation_no bigint not null references ledger.reconciliation,
  resolution text not null,
  reason text,
  resolved_by integer references ledger.actor,
  constraint finding_type_known check (type in (
    'MISSING', 'UNEXPECTED', 'DUPLICATE', 'WRONG_DATE', 'WRONG_TERMS', 'WITHDRAWN', 'OVERDUE', 'STUCK',
    'PUBLISHED_NO_OUTCOME', 'OUTCOME_REJECTED', 'OUTCOME_CONFLICT', 'EFFECT_MISSING', 'EFFECT_UNRECORDED', 'LATE',
    'LATE_ARRIVING', 'EVENT_UNMATCHED', 'UNBALANCED', 'ORPHAN_RECORD', 'TAMPERED', 'SOURCE_FAILED',
    'DEFINITION_FAILED'
  )),
  constraint finding_severity_known check (severity in ('information', 'warning', 'error', 'critical')),
  constraint finding_resolution_known check (
    resolution in ('open', 'explained', 'repaired', 'accepted', 'carried', 'false_positive')
  ),
  constraint finding_open_is_not_closed check ((resolution = 'open') = (closed_at is null))
);

create index finding_open_idx on ledger.finding (type, tenant, kind) where closed_at is null;
create index finding_item_idx on ledger.finding (item_id) where item_id is not null;
create index finding_seen_idx on ledger.finding (first_seen_at, id);

-- The id is of the finding, the action and the opening, so one repair is applied once an opening.
create table ledger.repair (
  id uuid primary key,
  finding_id uuid not null references ledger.finding,
  action text not null,
  opened_count integer not null,
  status text not null,
  proposed_at timestamptz not null,
  proposed_by integer not null references ledger.actor,
  executed_at timestamptz,
  executed_by integer references ledger.actor,
  command jsonb not null,
  outcome jsonb,
  constraint repair_action_known check (
    action in ('materialise', 'redrive', 'release', 'cancel', 'complete', 'escalate')
  ),
  constraint repair_status_known check (status in ('proposed', 'executed', 'refused')),
  constraint repair_execution_named check ((status = 'proposed') = (executed_at is null)),
  constraint repair_executor_named check ((executed_at is null) = (executed_by is null))
);

create index repair_finding_idx on ledger.repair (finding_id);
create index repair_proposed_idx on ledger.repair (proposed_at, id) where status = 'proposed';

-- Everything expected before complete_before exists and is completed, excused with a reason or an open finding.
create table ledger.watermark (
  tenant text not null,
  kind text not null,
  complete_before timestamptz,
  held_by text,
  as_of timestamptz not null,
  primary key (tenant, kind)
);

create table ledger.close (
  close_no bigint generated always as identity primary key,
  tenant text not null,
  period_from timestamptz not null,
  period_to timestamptz not null,
  zone text not null,
  status text not null,
  prepared_by integer not null references ledger.actor,
  prepared_at timestamptz not null,
  reviewed_by integer references ledger.actor,
  reviewed_at timestamptz,
  superseded_by bigint references ledger.close,
  report jsonb not null,
  constraint close_period_ordered check (period_from < period_to),
  constraint close_status_known check (status in ('draft', 'prepared', 'reviewed', 'sealed', 'superseded')),
  constraint close_review_named check ((reviewed_by is null) = (reviewed_at is null)),
  constraint close_two_persons check (reviewed_by <> prepared_by)
);

create index close_period_idx on ledger.close (tenant, period_from);

-- RFC 6962 roots, each chained to the one before; the checkpoint is the signed note.
create table ledger.seal (
  seal_no bigint generated always as identity primary key,
  close_no bigint references ledger.close,
  leaf_count bigint not null,
  root bytea not null,
  previous_root bytea,
  checkpoint text not null,
  key_id text not null,
  sealed_at timestamptz not null,
  constraint seal_root_length check (octet_length(root) = 32 and octet_length(previous_root) = 32),
  constraint seal_leaves_positive check (leaf_count >= 0)
);

create index seal_close_idx on ledger.seal (close_no);

grant select on
  ledger.reconciliation, ledger.population, ledger.finding, ledger.repair, ledger.watermark, ledger.close, ledger.seal
  to ledger_worker, ledger_auditor;
grant insert, update on
  ledger.reconciliation, ledger.population, ledger.finding, ledger.repair, ledger.watermark, ledger.close
  to ledger_worker;
grant insert on ledger.seal to ledger_worker;
