-- List the inbox events of these business keys and types, oldest first.
-- returns: zero or more
-- roles: intake
-- $1 tenants text[]
-- $2 business_keys text[]
-- $3 types text[]
-- index: event_key_idx
-- locks: none
select e.event_no, e.tenant, e.source, e.id, e.type, e.occurred_at, e.subject, e.business_key, e.body, e.traceparent,
  e.received_at, e.matched
from unnest($1::text[], $2::text[]) u (tenant, business_key)
join ledger.event e on e.tenant = u.tenant and e.business_key = u.business_key
where e.type = any($3::text[])
order by e.tenant, e.business_key, e.occurred_at, e.event_no
limit 200000
