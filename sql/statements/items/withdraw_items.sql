-- Cancel or supersede: pending and parked items end now, items in flight get a request, ended items do not change.
-- returns: exactly one per input
-- roles: intake, operator, reconciler, upkeep
-- $1 ids uuid[]
-- $2 event smallint
-- $3 reason text
-- $4 actor_no bigint
-- $5 replacements uuid[]
-- index: due_item_id_effective_date_key, pending_pkey, review_pkey, transition_terminal_idx
-- locks: pending and review rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.replacement, a.ord, i.effective_date, i.item_no
  from unnest($1::uuid[], $5::uuid[]) with ordinality a (id, replacement, ord)
  left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
target as materialized (
  select distinct on (a.item_no) a.item_no, a.effective_date, a.replacement
  from asked a where a.item_no is not null order by a.item_no, a.ord
),
finished as materialized (
  select t.item_no
  from target t
  join ledger.transition j on j.item_no = t.item_no and j.effective_date = t.effective_date
    and j.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
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
  returning p.item_no, p.attempt, p.state
),
parked as (
  delete from ledger.review r using locked_review l where r.item_no = l.item_no
  returning r.item_no, r.attempt, 5::smallint /* ManualReview */ as state
),
ended as materialized (
  select item_no, attempt, state from waiting union all select item_no, attempt, state from parked
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select t.effective_date, t.item_no, $2::smallint, e.attempt, $4::bigint, ledger.now(),
    jsonb_strip_nulls(jsonb_build_object('reason', $3::text, 'replacement', t.replacement))
  from ended e join target t on t.item_no = e.item_no
),
obsolete as (
  delete from ledger.withdrawal w where w.item_no = any (array(select e.item_no from ended e))
),
requested as (
  insert into ledger.withdrawal (item_no, effective_date, event, reason, replacement, actor_no, requested_at)
  select t.item_no, t.effective_date, $2::smallint, $3::text, t.replacement, $4::bigint, ledger.now()
  from target t
  where not exists (select from ended e where e.item_no = t.item_no)
    and not exists (select from finished f where f.item_no = t.item_no)
  order by t.item_no
  on conflict (item_no) do nothing
)
select a.id,
  case
    when a.item_no is null then 'unknown'
    when e.item_no is not null then 'done'
    when exists (select from finished f where f.item_no = a.item_no) then 'finished'
    else 'requested'
  end as result, e.state
from asked a
left join ended e on e.item_no = a.item_no
order by a.ord
