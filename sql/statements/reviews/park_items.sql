-- Park items for a person (RetryableFailure to ManualReview); anything else is refused and recorded.
-- returns: exactly one per input
-- roles: operator, upkeep
-- $1 ids uuid[]
-- $2 reason text
-- $3 actor_no bigint
-- index: due_item_id_effective_date_key, pending_pkey
-- locks: pending rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.ord, i.item_no, i.effective_date, i.flow_no
  from unnest($1::uuid[]) with ordinality a (id, ord) left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
locked as materialized (
  select p.item_no from asked a join ledger.pending p on p.item_no = a.item_no
  where p.state = 4 /* RetryableFailure */ order by p.item_no for update of p
),
taken as (
  delete from ledger.pending p using locked l
  where p.item_no = l.item_no and p.state = 4 /* RetryableFailure */
  returning p.item_no, p.effective_date, p.flow_no, p.attempt, p.starts
),
parked as (
  insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
  select t.item_no, t.effective_date, t.flow_no, ledger.now(), t.attempt, t.starts, $2::text, $3::bigint from taken t
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select t.effective_date, t.item_no, 9 /* parked */, t.attempt, $3::bigint, ledger.now(),
    jsonb_build_object('reason', $2::text)
  from taken t
),
refused as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, item_no)
  select ledger.now(), $3::bigint, 'park', 'illegal', a.item_no
  from asked a where a.item_no is not null and not exists (select from taken t where t.item_no = a.item_no)
)
select a.id,
  case when a.item_no is null then 'unknown'
    when exists (select from taken t where t.item_no = a.item_no) then 'done' else 'illegal' end as result
from asked a order by a.ord
