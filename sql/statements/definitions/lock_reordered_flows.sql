-- Lock the flows of kinds that get another ordering: setting it in the kind sets it there, too, and others lock flows in order.
-- returns: zero or more
-- roles: operator
-- $1 tenants text[]
-- $2 kinds text[]
-- $3 orderings text[]
-- index: flow_pkey
-- locks: flow rows (for update, flow_no ascending)
select f.flow_no
from unnest($1::text[], $2::text[], $3::text[]) u (tenant, kind, ordering)
join ledger.flow f on f.tenant = u.tenant and f.kind = u.kind
where f.ordering <> u.ordering
order by f.flow_no
for update of f
