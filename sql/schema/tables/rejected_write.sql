create table ledger.rejected_write (
  rejected_no bigint generated always as identity primary key,
  rejected_at timestamptz not null,
  actor_no bigint not null,
  verb text not null,
  reason text not null,
  fence bigint,
  run_no bigint,
  item_no bigint,
  from_position integer,
  to_position integer,
  detail jsonb
);

comment on table ledger.rejected_write is
  'Stale and illegal writes: what was tried, and why it changed nothing. Append only; upkeep deletes them '
  'after the days of a setting.';
comment on column ledger.rejected_write.verb is 'What was tried, as settle or start.';

create index rejected_write_at_idx on ledger.rejected_write (rejected_at);
