-- Complete all items of effective dates a second after they were due, in claims and runs of an hour and at most a thousand; count these. The load of a benchmark.
-- returns: one
-- roles: owner
-- $1 from_date date
-- $2 to_date date
-- $3 first_fence bigint
-- $4 actor_no bigint
-- index: none
-- locks: none
with due as (
  select i.item_no, i.effective_date, i.due_at, date_trunc('hour', i.due_at) as hour,
    (row_number() over (partition by date_trunc('hour', i.due_at) order by i.due_at, i.item_no) - 1) / 1000 as part
  from ledger.due_item i
  where i.effective_date >= $1::date and i.effective_date < $2::date
),
item as materialized (
  select item_no, effective_date, due_at, $3::bigint + dense_rank() over (order by hour, part) - 1 as fence
  from due
),
claim as materialized (
  select fence, min(due_at) as due_at, count(*)::integer as size, array_agg(item_no order by item_no) as item_no,
    array_agg(effective_date order by item_no) as effective_date
  from item
  group by fence
),
claimed as (
  insert into ledger.claim (
    fence, claimed_at, allocator_no, topic, partition, size, item_no, effective_date, attempt, starts, started, deadline, closed_at,
    lease_seconds, queue_seconds, run_seconds)
  select fence, due_at, $4::bigint, 'due.bench', -1, size, item_no, effective_date, array_fill(1::smallint, array[size]),
    array_fill(1::smallint, array[size]), size, due_at + interval '1 minute', due_at + interval '2 hours', 60, 60, 60
  from claim
),
started as (
  insert into ledger.run (
    run_no, started_at, fence, claimed_at, from_position, to_position, worker_no, lease_until, lease_seconds, ended, closed_at)
    overriding system value
  select fence, due_at, fence, due_at, 1, size, $4::bigint, due_at + interval '1 minute', 60, repeat('1', size)::bit varying,
    due_at + interval '2 hours'
  from claim
),
ended as (
  insert into ledger.transition (effective_date, event, attempt, item_no, run_no, actor_no, at)
  select effective_date, 5 /* completed */, 1, item_no, fence, $4::bigint, due_at + interval '1 second'
  from item
)
select count(*) as claims from claim
