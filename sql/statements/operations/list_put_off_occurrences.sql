-- List the occurrences of schedules in a window, before smear, whose items a person snoozed before their first start.
-- returns: zero or more
-- roles: auditor, operator
-- $1 from_at timestamptz
-- $2 until_at timestamptz
-- $3 limit integer
-- index: pending_snoozed_idx, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select d.tenant, d.name as definition, i.cycle
from ledger.pending p
cross join lateral (
  select i.definition_no, i.cycle, i.nominal, i.emitted_at, i.due_at,
    i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) as round_at
  from ledger.due_item i
  where i.effective_date = p.effective_date and i.item_no = p.item_no
  offset 0
) i
join ledger.definition d on d.definition_no = i.definition_no
where p.snoozed_until is not null and p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
  and d.event_type is null and i.nominal is not null and i.round_at >= $1::timestamptz and i.round_at < $2::timestamptz
  and p.available_at <> greatest(i.due_at, i.emitted_at)
order by d.tenant, d.name, i.cycle
limit $3::integer
