-- List operations with their filters, bounds and progress, newest first; one of them by its number.
-- returns: zero or more
-- roles: auditor, operator
-- $1 operation_no bigint
-- $2 limit integer
-- $3 tenants text[]
-- $4 before_no bigint
-- $5 tenant text
-- index: operation_pkey
-- locks: none
select o.operation_no, o.verb,
  case when o.aborted_by is not null then 'aborted' when o.ended_at is not null then 'done'
    when o.advanced_at is not null then 'running' else 'waiting' end as status,
  o.tenant, o.kind, o.lane, o.parked_reason, o.error, o.since, o.in_flight, o.as_of, o.item_no_max, o.matched, o.matched_capped,
  o.done, o.requested, o.reached_item_no, a.name as requested_by, o.reason, o.advanced_at, o.ended_at, b.name as aborted_by,
  o.abort_reason
from ledger.operation o
join ledger.actor a on a.actor_no = o.actor_no
left join ledger.actor b on b.actor_no = o.aborted_by
where ($1::bigint is null or o.operation_no = $1::bigint) and ($3::text[] is null or o.tenant = any ($3::text[]))
  and ($4::bigint is null or o.operation_no < $4::bigint) and ($5::text is null or o.tenant = $5::text)
order by o.operation_no desc
limit $2::integer
