-- Measure how long a tenant's newest operations with a verb took, of the last of all verbs up to a limit.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 verb text
-- $3 limit integer
-- index: operation_tenant_idx
-- locks: none
select coalesce(sum(o.done + o.requested), 0)::bigint as items, coalesce(sum(o.worked_seconds), 0)::double precision as seconds
from (
  select o.verb, o.done, o.requested, o.worked_seconds from ledger.operation o
  where o.tenant = $1::text
  order by -o.operation_no limit $3::integer  -- ordered like the index
) o
where o.verb = $2::text
