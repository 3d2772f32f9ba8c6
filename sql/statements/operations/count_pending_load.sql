-- Count pending items by the minute of their next attempt and by their source; a null minute is before the window.
-- returns: zero or more
-- roles: auditor, operator
-- $1 from_at timestamptz
-- $2 until_at timestamptz
-- $3 tenant text
-- $4 kind text
-- $5 service text
-- $6 counted_tenants text[]
-- $7 counted_names text[]
-- $8 counted_froms timestamptz[]
-- $9 counted_untils timestamptz[]
-- $10 limit integer
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
counted as materialized (
  select c.tenant, c.name, c.from_at, c.until_at
  from unnest($6::text[], $7::text[], $8::timestamptz[], $9::timestamptz[]) c (tenant, name, from_at, until_at)
)
select case when w.next_at >= $1::timestamptz then date_trunc('minute', w.next_at) end as minute,
  f.tenant, f.kind, d.name as definition, count(*)::integer as items
from (
  select p.item_no, p.effective_date, p.flow_no, p.state, p.attempt, p.starts,
    -- An item that waits for its key counts at its due time.
    case when p.available_at = 'infinity' then p.serial_due_at else p.available_at end as next_at
  from ledger.pending p
  where p.available_at < $2::timestamptz or (p.available_at = 'infinity' and p.serial_due_at < $2::timestamptz)
) w
join ledger.flow f on f.flow_no = w.flow_no
left join lateral (
  select i.definition_no, i.labels, i.nominal, i.emitted_at, i.due_at,
    i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) as round_at
  from ledger.due_item i
  where i.effective_date = w.effective_date and i.item_no = w.item_no
    and (w.next_at >= $1::timestamptz or $5::text is not null)  -- a backlog is counted without being read
  offset 0
) i on true
left join ledger.definition d on d.definition_no = i.definition_no
-- An occurrence before its first attempt, at its own time, is counted with its schedule.
left join counted c on c.tenant = d.tenant and c.name = d.name
  and d.event_type is null and i.nominal is not null and i.round_at >= c.from_at and i.round_at < c.until_at
  and w.state = 1 /* Scheduled */ and w.attempt = 0 and w.starts = 0
  and w.next_at >= $1::timestamptz and w.next_at = greatest(i.due_at, i.emitted_at)
where c.name is null
  and ($3::text is null or f.tenant = $3::text)
  and ($4::text is null or f.kind = $4::text)
  and ($5::text is null or i.labels ->> 'service' = $5::text)
group by 1, 2, 3, 4
order by 1 nulls first, 2, 3, 4
limit $10::integer
