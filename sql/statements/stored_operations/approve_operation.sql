-- Approve an operation that awaits it in the name of a person who did not ask for it; upkeep carries it out.
-- returns: one
-- roles: approver
-- $1 operation_no bigint
-- $2 reason text
-- $3 actor_no bigint
-- $4 tenants text[]
-- index: operation_pkey
-- locks: operation row (for update)
with locked as materialized (
  select o.operation_no, o.actor_no, o.ended_at, o.needs_approval, o.awaits_approval
  from ledger.operation o
  where o.operation_no = $1::bigint and ($4::text[] is null or o.tenant = any ($4::text[]))
  for update
),
approved as (
  update ledger.operation o
  set approved_at = ledger.now(), approved_by = $3::bigint, approval_reason = $2::text
  from locked l
  where o.operation_no = l.operation_no and l.awaits_approval and l.actor_no <> $3::bigint
  returning o.operation_no
)
select coalesce((
  select case
    when a.operation_no is not null then 'done'
    when l.ended_at is not null then 'ended'
    when not l.needs_approval then 'unasked'
    when l.awaits_approval then 'own'
    else 'approved'
  end
  from locked l left join approved a on true), 'unknown') as result
