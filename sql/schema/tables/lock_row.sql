create table ledger.lock_row (
  subject text not null,
  key text not null,
  primary key (subject, key)
) with (autovacuum_enabled = false);  -- no row is ever updated or deleted

comment on table ledger.lock_row is
  'Rows that are locked in place of something that has no row. No role may lock them but by ledger.lock_rows and '
  'ledger.lock_name: every login could hold an advisory lock.';
comment on column ledger.lock_row.key is 'A stripe of keys, or a name; added when a name is locked first.';

insert into ledger.lock_row (subject, key)
select 'business_key', n::text from generate_series(0, 3359) n
union all select 'serial', n::text from generate_series(0, 127) n
union all select 'reap_runs', ''
union all select 'past_load', '';
