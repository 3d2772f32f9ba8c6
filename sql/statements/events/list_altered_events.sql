-- Of the next keys of events by when they were received: list those of which the inbox has no such event, and events around them that have no key.
-- returns: one or more, each with the time and the number to continue after, no time after the last keys; without a fault if all are as they came
-- roles: auditor, reconciler
-- $1 after_received_at timestamptz
-- $2 after_event_no bigint
-- $3 limit integer
-- $4 row_max integer
-- index: event_key_received_at_idx, event_key_pkey, event_pkey
-- locks: none
with page as materialized (
  select k.event_no, k.tenant, k.source, k.id, k.occurred_at, k.received_at
  from ledger.event_key k
  where k.received_at > $1::timestamptz
  order by k.received_at
  fetch first ($3::integer) rows with ties
),
span as materialized (
  select case when count(*) >= $3::integer then max(p.received_at) end as reached, min(p.event_no) as first_no,
    greatest(max(p.event_no), $2::bigint) as last_no, (select min(k.received_at) from ledger.event_key k) as known_since
  from page p
),
-- Those of the numbers since the page before; after the last keys, all that follow.
inbox as materialized (
  select e.event_no, e.tenant, e.source, e.id, e.occurred_at, e.received_at
  from ledger.event e
  where e.event_no >= (select least(s.first_no, $2::bigint + 1) from span s)
    and e.event_no <= (select case when s.reached is null then 9223372036854775807 else s.last_no end from span s)
),
compared as (
  select coalesce(k.event_no, e.event_no) as event_no, coalesce(k.tenant, e.tenant) as tenant,
    coalesce(k.source, e.source) as source, coalesce(k.id, e.id) as id, coalesce(k.received_at, e.received_at) as received_at,
    case when e.event_no is null then 'removed' when k.event_no is null then 'unkeyed' else 'changed' end as fault, k.occurred_at
  from page k
  full join inbox e on e.event_no = k.event_no
  where k.event_no is null or e.event_no is null
    or (k.tenant, k.source, k.id, k.occurred_at, k.received_at) is distinct from (e.tenant, e.source, e.id, e.occurred_at, e.received_at)
)
select s.reached, s.last_no, c.event_no, c.tenant, c.source, c.id, c.received_at, c.fault
from span s
left join compared c on case c.fault
  -- Its month may have been dropped.
  when 'removed' then exists (
    select from ledger.partition_span p join pg_inherits h on h.inhrelid = p.leaf
    where p.parent = 'event' and (c.occurred_at at time zone 'UTC')::date >= p.starts_on
      and (c.occurred_at at time zone 'UTC')::date < p.ends_before)
  -- Another page may have its key, and keys are forgotten some at a time.
  when 'unkeyed' then c.received_at > s.known_since and c.event_no is distinct from (
    select k.event_no from ledger.event_key k where k.tenant = c.tenant and k.source = c.source and k.id = c.id)
  else true end
order by c.event_no
limit $4::integer
