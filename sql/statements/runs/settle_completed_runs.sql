-- Record that items of open runs completed (Running to Completed), each bit once: settle_runs where no item ended otherwise.
-- returns: one, with the runs that were changed
-- roles: outcome_intake, pull_worker, worker
-- $1 run_nos bigint[]
-- $2 started_ats timestamptz[]
-- $3 masks bit varying[]
-- $4 firsts integer[]
-- $5 details text
-- $6 worker_no bigint
-- $7 first_started_at timestamptz
-- $8 last_started_at timestamptz
-- $9 first_claimed_at timestamptz
-- $10 last_claimed_at timestamptz
-- $11 actor_no bigint
-- $12 or_fail boolean
-- index: run_pkey, claim_pkey
-- locks: run rows (for update, run_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::bit varying[], $4::integer[]) a (run_no, started_at, mask, first)
  order by a.run_no
),
-- As one text, of which none has the separator: of an array the client examines each element.
detail as materialized (
  select string_to_array($5::text, e'\x1f', '') as details
),
accepted as (
  update ledger.run r
  set ended = r.ended | a.mask,
    closed_at = case when (r.ended | a.mask) = ~(r.ended & ~r.ended) then ledger.now() end
  from asked a
  where r.run_no = a.run_no and r.started_at is not distinct from a.started_at and r.started_at between $7::timestamptz and $8::timestamptz
    and r.claimed_at between $9::timestamptz and $10::timestamptz
    and r.closed_at is null and r.worker_no = $6::bigint and (r.ended & a.mask) = (r.ended & ~r.ended)
  returning r.run_no, r.fence, r.claimed_at, r.from_position, r.to_position, r.flow_no, a.first, a.mask
),
completed as (
  insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
  select u.effective_date, u.item_no, 5 /* completed */, u.attempt, u.run_no, $11::bigint, (select ledger.now()), u.detail::jsonb
  from (
    -- Not a lateral unnest, which would copy each column into a store of its own first: a fifth of this CTE.
    select a.run_no, a.mask, unnest(c.item_no[a.from_position:a.to_position]) as item_no,
      unnest(c.effective_date[a.from_position:a.to_position]) as effective_date,
      unnest(c.attempt[a.from_position:a.to_position]) as attempt,
      unnest(d.details[a.first:a.first + a.to_position - a.from_position]) as detail,
      generate_series(0, a.to_position - a.from_position) as place
    from accepted a
    cross join detail d
    join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at
      and c.claimed_at between $9::timestamptz and $10::timestamptz
  ) u
  where get_bit(u.mask, u.place) = 1
)
select array_agg(a.run_no) as run_nos,
  case when count(a.flow_no) > 0 then ledger.count_outcomes(
    array_agg(a.flow_no), array_agg(a.run_no), array_agg(bit_count(a.mask)), array_agg(0::bigint)) end as is_counted,
  case when $12::boolean and count(*) < cardinality($1::bigint[]) then ledger.refuse_completion(($1::bigint[])[1]) end as is_refused
from accepted a
