-- List operations with their filters, bounds and progress, oldest first; on request those alone that await approval.
-- returns: zero or more
-- roles: auditor, operator
-- $1 limit integer
-- $2 tenants text[]
-- $3 after_no bigint
-- $4 tenant text
-- $5 awaits_approval boolean
-- $6 kind text
-- index: operation_awaited_idx, operation_pkey, operation_tenant_awaited_idx, operation_tenant_idx
-- locks: none
with scope as materialized (
  select distinct t.tenant
  from unnest(case
    when $4::text is null then $2::text[]
    when $2::text[] is null or $4::text = any ($2::text[]) then array[$4::text] end) t (tenant)
),
chosen as materialized (
  (select o.operation_no from ledger.operation o
   where not $5::boolean and $2::text[] is null and $4::text is null
     and o.operation_no > coalesce($3::bigint, 0)
     and ($6::text is null or o.kind is null or o.kind = $6::text)
   order by o.operation_no limit $1::integer)
  union all
  (select x.operation_no
   from scope s
   cross join lateral (
     select o.operation_no from ledger.operation o
     where not $5::boolean and o.tenant = s.tenant and -o.operation_no < -coalesce($3::bigint, 0)
       and ($6::text is null or o.kind is null or o.kind = $6::text)
     order by -o.operation_no desc limit $1::integer  -- ordered like the index
   ) x
   order by x.operation_no limit $1::integer)
  union all
  (select o.operation_no from ledger.operation o
   where $5::boolean and $2::text[] is null and $4::text is null and o.awaits_approval
     and o.operation_no > coalesce($3::bigint, 0)
     and ($6::text is null or o.kind is null or o.kind = $6::text)
   order by o.operation_no limit $1::integer)
  union all
  (select x.operation_no
   from scope s
   cross join lateral (
     select o.operation_no from ledger.operation o
     where $5::boolean and o.tenant = s.tenant and o.awaits_approval
       and -o.operation_no < -coalesce($3::bigint, 0)
       and ($6::text is null or o.kind is null or o.kind = $6::text)
     order by -o.operation_no desc limit $1::integer  -- ordered like the index
   ) x
   order by x.operation_no limit $1::integer)
)
select o.operation_no, o.verb,
  case when o.aborted_by is not null then 'aborted' when o.ended_at is not null then 'done'
    when o.paused_at is not null then 'paused' when o.advanced_at is not null then 'running' else 'waiting' end as status,
  o.tenant, o.kind, o.lane, o.parked_reason, o.error, o.since, s.name as state, o.due_from, o.due_before, o.until, o.in_flight, o.as_of, o.item_no_max, o.matched, o.matched_capped,
  o.done, o.requested, o.reached_item_no, a.name as requested_by, o.reason, o.advanced_at, o.ended_at, b.name as aborted_by,
  o.abort_reason, o.paused_at, p.name as paused_by, o.pause_reason,
  o.needs_approval, o.awaits_approval, o.approved_at, v.name as approved_by, o.approval_reason, o.worked_seconds,
  case when o.ended_at is null and not o.matched_capped and o.done + o.requested > 0 and o.worked_seconds > 0
    then greatest(0, o.matched - o.done - o.requested) * o.worked_seconds / (o.done + o.requested) end as seconds_left
from chosen c
join ledger.operation o on o.operation_no = c.operation_no
join ledger.actor a on a.actor_no = o.actor_no
left join ledger.state s on s.state = o.state
left join ledger.actor b on b.actor_no = o.aborted_by
left join ledger.actor p on p.actor_no = o.paused_by
left join ledger.actor v on v.actor_no = o.approved_by
order by o.operation_no
