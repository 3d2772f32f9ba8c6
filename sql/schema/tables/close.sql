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

comment on table ledger.close is 'Closes: the totals of a period, signed off by two persons.';
comment on column ledger.close.zone is 'Time zone in which the period was named.';
comment on column ledger.close.superseded_by is 'The close that takes its place.';
comment on column ledger.close.report is 'The totals.';

create index close_period_idx on ledger.close (tenant, period_from);

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

comment on table ledger.seal is
  'Seals: signed Merkle roots (RFC 6962) of parts of the journal, each chained to the one before.';
comment on column ledger.seal.leaf_count is 'Transitions under the root.';
comment on column ledger.seal.checkpoint is 'The signed note.';
comment on column ledger.seal.key_id is 'The key that signed it.';

create index seal_close_idx on ledger.seal (close_no);
