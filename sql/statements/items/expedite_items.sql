-- Make pending items available now, in a named person's name (they stay Scheduled or RetryableFailure); due_at does not change.
-- returns: exactly one per input
-- roles: operator, upkeep
-- $1 ids uuid[]
-- $2 reason text
-- $3 actor_no bigint
-- index: due_item_id_effective_date_key, pending_pkey
-- locks: pending rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.ord, i.item_no, i.effective_date, i.flow_no, i.due_at
  from unnest($1::uuid[]) with ordinality a (id, ord) left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
locked as materialized (
  select p.item_no, p.effective_date, a.flow_no, a.due_at, p.available_at < 'infinity' as free,
    p.state, p.available_at
  from asked a join ledger.pending p on p.item_no = a.item_no
  where p.state in (1 /* Scheduled */, 4 /* RetryableFailure */)
  order by p.item_no for update of p
),
hastened as (
  update ledger.pending p set available_at = ledger.now(), snoozed_until = null
  from locked l where p.item_no = l.item_no and l.free and p.available_at > ledger.now()
),
noted as (
  insert into ledger.expedited (item_no, effective_date, expedited_at, actor_no, reason, flow_no, due_at)
  select distinct l.item_no, l.effective_date, ledger.now(), $3::bigint, $2::text, l.flow_no, l.due_at from locked l where l.free
  on conflict (item_no) do nothing
),
refused as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, item_no)
  select ledger.now(), $3::bigint, 'trigger', 'illegal', a.item_no
  from asked a where a.item_no is not null and not exists (select from locked l where l.item_no = a.item_no and l.free)
)
select a.id,
  case when a.item_no is null then 'unknown'
    when l.item_no is not null then 'done' else 'illegal' end as result, l.state, l.available_at
from asked a
left join (select distinct x.item_no, x.state, x.available_at from locked x where x.free) l on l.item_no = a.item_no
order by a.ord
