-- How long each step of a kind's work may take, what happens when it takes longer, and who settles it.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation, constraint-missing-not-valid, ban-drop-function, adding-field-with-default, prefer-text-field

alter table ledger.kind
  add column dispatch text not null default 'kafka',
  add column http jsonb,
  add column settled_by text not null default 'worker',
  add column dispatch_seconds integer not null default 30,
  add column run_seconds double precision,
  add column total_seconds double precision,
  add column queue_late text not null default 'retry',
  add column run_late text not null default 'retry',
  add column ordering text not null default 'none',
  add column failure_holds boolean not null default true,
  add column streak_max smallint not null default 3,
  add constraint kind_dispatch_known check (dispatch in ('kafka', 'direct', 'http')),
  add constraint kind_http_given check ((dispatch = 'http') = (http is not null)),
  add constraint kind_settled_by_known check (settled_by in ('worker', 'topic')),
  add constraint kind_policy_positive check (
    dispatch_seconds > 0 and run_seconds > 0 and total_seconds > 0 and streak_max > 0),
  add constraint kind_late_known check (queue_late in ('retry', 'park') and run_late in ('retry', 'park')),
  add constraint kind_ordering_known check (ordering in ('none', 'key'));

-- flow_no: all items are of this limited flow. holder_no: who settles it by topic, in any order, under lease_seconds.
alter table ledger.claim
  add column flow_no integer,
  add column holder_no integer,
  add column lease_seconds double precision,
  add column queue_seconds double precision,
  add column run_seconds double precision;

create index claim_flow_idx on ledger.claim (flow_no) where closed_at is null and flow_no is not null;

-- run_until is the hard end: no heartbeat extends the lease beyond it.
alter table ledger.run
  add column flow_no integer,
  add column run_until timestamptz;

create index run_flow_idx on ledger.run (flow_no) where closed_at is null and flow_no is not null;

-- Failures of one business key in a row, over attempts and cycles; a completion ends the row of them.
create table ledger.failure_streak (
  flow_no integer not null,
  business_key text not null,
  failures integer not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  reason text,
  flagged_at timestamptz,
  primary key (flow_no, business_key)
);

create index failure_streak_unflagged_idx on ledger.failure_streak (failures) where flagged_at is null;

-- An item that a named person started before its time. What is owed, its due_at, stays.
create table ledger.expedited (
  item_no bigint primary key,
  effective_date date not null,
  expedited_at timestamptz not null,
  actor_no integer not null,
  reason text not null
);

-- Before when an item may not be handed out again.
create function ledger.not_before(item_no bigint, due_at timestamptz) returns timestamptz
  language sql stable parallel safe
  return case
    when exists (select from ledger.expedited e where e.item_no = not_before.item_no) then ledger.now()
    else greatest(due_at, ledger.now())
  end;

grant select on ledger.failure_streak, ledger.expedited to ledger_worker, ledger_auditor;
grant insert, update on ledger.failure_streak to ledger_worker;
grant insert on ledger.expedited to ledger_worker;

-- Whether an item of the business key was completed after an instant: that ends a row of failures.
create function ledger.completed_since(flow_no integer, business_key text, since timestamptz) returns boolean
  language sql stable parallel safe
  return exists (
    select from ledger.due_item i
    join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
    where i.business_key = completed_since.business_key and i.flow_no = completed_since.flow_no
      and t.event = 5 /* completed */ and t.at > since);
