-- List the inbox events that concern these business keys, of these types, each once; one more than the limit if there are more.
-- returns: zero or more
-- roles: intake
-- $1 tenants text[]
-- $2 business_keys text[]
-- $3 types text[]
-- $4 limit integer
-- index: event_key_idx, event_other_key_pkey
-- locks: none
select e.event_no, e.tenant, e.source, e.id, e.type, e.occurred_at, e.subject, e.business_key, e.body, e.traceparent,
  e.received_at, e.matched
from unnest($1::text[], $2::text[]) u (tenant, business_key)
join ledger.event e on e.tenant = u.tenant and e.business_key = u.business_key
where e.type = any($3::text[])
union all
select e.event_no, e.tenant, e.source, e.id, e.type, e.occurred_at, e.subject, e.business_key, e.body, e.traceparent,
  e.received_at, e.matched
from (
  select distinct o.event_no, o.occurred_at
  from unnest($1::text[], $2::text[]) u (tenant, business_key)
  join ledger.event_other_key o on o.tenant = u.tenant and o.business_key = u.business_key
) o
join ledger.event e on e.event_no = o.event_no and e.occurred_at = o.occurred_at
where e.type = any($3::text[])
  and not exists (
    select from unnest($1::text[], $2::text[]) u (tenant, business_key)
    where u.tenant = e.tenant and u.business_key = e.business_key)
limit $4::integer + 1
