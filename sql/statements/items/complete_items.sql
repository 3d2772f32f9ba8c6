-- Complete items that wait or are parked, because there is evidence outside the ledger that their effect exists.
-- returns: exactly one per input
-- roles: reconciler
-- $1 ids uuid[]
-- $2 details text[]
-- $3 actor_no bigint
-- index: due_item_id_effective_date_key, pending_pkey, review_pkey
-- locks: pending and review rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.detail, a.ord, i.effective_date, i.item_no, i.due_at <= ledger.now() as is_due
  from unnest($1::uuid[], $2::text[]) with ordinality a (id, detail, ord)
  left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
target as materialized (
  select distinct on (a.item_no) a.item_no, a.effective_date, a.detail
  from asked a where a.is_due order by a.item_no, a.ord
),
locked_pending as materialized (
  select p.item_no from target t join ledger.pending p on p.item_no = t.item_no order by p.item_no for update of p
),
locked_review as materialized (
  select r.item_no from target t join ledger.review r on r.item_no = t.item_no order by r.item_no for update of r
),
waiting as (
  delete from ledger.pending p using locked_pending l
  where p.item_no = l.item_no and p.state in (1 /* Scheduled */, 4 /* RetryableFailure */)
  returning p.item_no, p.attempt
),
parked as (
  delete from ledger.review r using locked_review l where r.item_no = l.item_no
  returning r.item_no, r.attempt
),
ended as materialized (
  select item_no, attempt from waiting union all select item_no, attempt from parked
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select t.effective_date, t.item_no, 5 /* completed */, e.attempt, $3::bigint, ledger.now(), t.detail::jsonb
  from ended e join target t on t.item_no = e.item_no
),
obsolete as (
  delete from ledger.withdrawal w where w.item_no = any (array(select e.item_no from ended e))
),
refused as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, item_no)
  select ledger.now(), $3::bigint, 'complete', 'illegal', a.item_no
  from asked a where a.item_no is not null and not exists (select from ended e where e.item_no = a.item_no)
)
select a.id,
  case when a.item_no is null then 'unknown'
    when exists (select from ended e where e.item_no = a.item_no) then 'done' else 'illegal' end as result
from asked a order by a.ord
