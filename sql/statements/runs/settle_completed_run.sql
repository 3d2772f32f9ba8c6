-- Record that the item of an open run of one item completed (Running to Completed): settle_completed_runs for one such run.
-- returns: zero or one
-- roles: outcome_intake, pull_worker, worker
-- $1 run_no bigint
-- $2 started_at timestamptz
-- $3 claimed_at timestamptz
-- $4 detail text
-- $5 worker_no bigint
-- $6 actor_no bigint
-- $7 or_fail boolean
-- index: run_pkey, claim_pkey
-- locks: run row (for update)
with locked_default as (select from ledger.due_item_default),
accepted as (
  update ledger.run r
  set ended = '1', closed_at = ledger.now()
  where r.run_no = $1::bigint and r.started_at is not distinct from $2::timestamptz and r.started_at between $2::timestamptz and $2::timestamptz
    -- `coalesce`: otherwise a plan made while few runs were open reads all of them.
    and r.claimed_at = $3::timestamptz and coalesce(r.closed_at, 'infinity') = 'infinity' and r.worker_no = $5::bigint and r.ended = '0'
  returning r.run_no, r.fence, r.from_position, r.flow_no
),
completed as (
  insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
  select c.effective_date[a.from_position], c.item_no[a.from_position], 5 /* completed */, c.attempt[a.from_position], a.run_no, $6::bigint,
    ledger.now(), $4::text::jsonb
  from accepted a
  join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from $3::timestamptz
    and c.claimed_at between $3::timestamptz and $3::timestamptz
)
select a.run_no,
  case when a.flow_no is not null then
    ledger.count_outcomes(array[a.flow_no], array[a.run_no], array[1::bigint], array[0::bigint]) end as is_counted
from accepted a
union all
select null, ledger.refuse_completion($1::bigint) where $7::boolean and not exists (select from accepted)
