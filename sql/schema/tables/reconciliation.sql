create table ledger.reconciliation (
  reconciliation_no bigint generated always as identity primary key,
  started_at timestamptz not null,
  as_of timestamptz not null,
  finished_at timestamptz,
  actor_no bigint not null references ledger.actor,
  scope jsonb not null,
  counts jsonb,
  witness_credit_seconds double precision not null default 0
);

comment on table ledger.reconciliation is
  'Reconciliation passes. Upkeep deletes one that has no report, with what it read, after the days of a setting.';
comment on column ledger.reconciliation.as_of is
  'The moment on business time for which expected and actual were compared.';
comment on column ledger.reconciliation.scope is 'What was compared: tenants, kinds and time.';
comment on column ledger.reconciliation.counts is 'What the pass counted; null until it finished.';
comment on column ledger.reconciliation.witness_credit_seconds is
  'CPU time that the witness may take, of which later passes have what this one left; below 0 if it took more.';

create index reconciliation_as_of_idx on ledger.reconciliation (as_of);

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
  constraint population_origin_known check (origin in ('definitions', 'events', 'sql', 'csv', 'evidence', 'kafka')),
  constraint population_counts_positive check (row_count >= 0 and skipped_count >= 0)
);

comment on table ledger.population is
  'What a pass read of each source, with its control total. One row a source and pass.';
comment on column ledger.population.name is 'Name of the source.';
comment on column ledger.population.query_digest is 'Hash of the query, or of the bytes of a file, where the source has one.';
comment on column ledger.population.skipped_count is 'Rows that could not be used.';
comment on column ledger.population.hash_total is 'Control total: a sum of hashes over the rows.';
comment on column ledger.population.failure is 'Why the source could not be read.';

create index population_reconciliation_idx on ledger.population (reconciliation_no);
create index population_name_idx on ledger.population (name, population_no) where failure is null;
