create table ledger.transition (
  -- In an order without padding: a row for each end of each item.
  effective_date date not null,
  event smallint not null,
  attempt smallint not null,
  item_no bigint not null,
  run_no bigint,
  actor_no bigint not null,
  at timestamptz not null,
  detail jsonb
) partition by range (effective_date);

comment on table ledger.transition is
  'The journal: what ended each attempt and each item. Append only. Partitioned as due_item. '
  'Emission, claim and start are not repeated here: due_item, claim and run have them.';
comment on column ledger.transition.attempt is 'Number of the attempt, from 1; 0 before the first.';
comment on column ledger.transition.detail is 'Reason, evidence, or what a revised item was before.';

-- At most one terminal row an item, whatever a statement does.
create unique index transition_terminal_idx on ledger.transition (item_no, effective_date)
  where event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */);
create index transition_item_idx on ledger.transition (item_no, effective_date)
  where event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */);

create table ledger.transition_default partition of ledger.transition default;
