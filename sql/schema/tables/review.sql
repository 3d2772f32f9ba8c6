create table ledger.review (
  item_no bigint primary key,
  effective_date date not null,
  flow_no integer not null,
  parked_at timestamptz not null,
  attempt smallint not null,
  starts smallint not null,
  reason text not null,
  run_no bigint,
  actor_no bigint not null
);

comment on table ledger.review is 'Parked items: a person redrives them, writes them off or cancels them.';
comment on column ledger.review.run_no is 'Run in which the item failed last.';

create index review_parked_idx on ledger.review (parked_at, item_no);
create index review_flow_idx on ledger.review (flow_no, parked_at, item_no);
