create table ledger.review (
  item_no bigint primary key,
  effective_date date not null,
  flow_no integer not null,
  parked_at timestamptz not null,
  attempt smallint not null,
  starts smallint not null,
  reason text not null,
  run_no bigint,
  actor_no bigint not null,
  taken_by bigint references ledger.actor,
  taken_at timestamptz,
  constraint review_taken_named check ((taken_by is null) = (taken_at is null))
);

comment on table ledger.review is 'Parked items: a person redrives them, writes them off or cancels them.';
comment on column ledger.review.run_no is 'Run in which the item failed last.';
comment on column ledger.review.taken_by is
  'Who decides about the item, as others see; it hinders nobody. Null: nobody has taken it.';

create index review_parked_idx on ledger.review (parked_at, item_no);
create index review_flow_idx on ledger.review (flow_no, parked_at, item_no);
create index review_taken_idx on ledger.review (taken_by, parked_at, item_no) where taken_by is not null;
