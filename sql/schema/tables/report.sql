create table ledger.report (
  tenant text not null,
  reconciliation_no bigint not null,
  as_of timestamptz not null,
  verdict text not null,
  sentence text not null,
  findings_open bigint not null,
  document json not null,
  primary key (tenant, reconciliation_no),
  constraint report_verdict_known check (verdict in ('complete', 'complete_with_explained', 'not_complete'))
);

comment on table ledger.report is
  'Reports of reconciliations as they were made: of the whole ledger, and of each tenant. A row never changes; upkeep deletes it '
  'after the days of a setting.';
comment on column ledger.report.tenant is 'The tenant that it is about; ''*'' is the whole ledger.';
comment on column ledger.report.as_of is 'As in reconciliation: by it and the number upkeep finds the reports of a pass.';
comment on column ledger.report.findings_open is 'Findings that were open; of a tenant, without those of the whole ledger.';
comment on column ledger.report.document is 'The report as docs/report.schema.json describes it, kept to the letter.';

create index report_as_of_idx on ledger.report (as_of, reconciliation_no, tenant);

create table ledger.report_row (
  reconciliation_no bigint not null references ledger.reconciliation,
  list text not null,
  tenant text not null,
  row_no bigint not null,
  content json not null,
  primary key (reconciliation_no, list, tenant, row_no),
  constraint report_row_list_known check (list in ('findings', 'repairs'))
);

comment on table ledger.report_row is
  'All findings and repairs of a report, of which its document has samples. They count once the report is recorded.';
comment on column ledger.report_row.row_no is 'Order within the list, from 1: oldest first.';
comment on column ledger.report_row.content is 'The finding or repair as the report''s schema describes it.';
