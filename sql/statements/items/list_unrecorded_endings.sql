-- List items of effective dates that a run had which is over, and of which no transition says how they ended in it.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 run_nos bigint[]
-- $4 item_nos bigint[]
-- $5 limit integer
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select uuid_send(i.id) as id, i.flow_no, i.business_key, i.effective_date, i.due_at, null::smallint as event, r.run_no,
  r.closed_at as at, 'unrecorded' as fault, a.name as actor
from unnest($3::bigint[], $4::bigint[]) u (run_no, item_no)
-- Most items are worked when they fall due, and dates are near that.
join ledger.list_runs($3::bigint[], $1::date - interval '40 days', $2::date + interval '40 days') r on r.run_no = u.run_no
join ledger.due_item i on i.effective_date >= $1::date and i.effective_date < $2::date and i.item_no = u.item_no
left join ledger.actor a on a.actor_no = r.worker_no
where r.closed_at is not null and not exists (
  select from ledger.transition t
  where t.effective_date = i.effective_date and t.item_no = i.item_no and t.run_no = r.run_no)
order by i.effective_date, i.item_no, r.run_no
limit $5::integer
