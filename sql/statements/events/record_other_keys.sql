-- Record the other business keys of events that concern several, so that the events are found by each.
-- returns: zero or more
-- roles: intake
-- $1 tenants text[]
-- $2 business_keys text[]
-- $3 event_nos bigint[]
-- $4 occurred_ats timestamptz[]
-- index: none
-- locks: none
insert into ledger.event_other_key (tenant, business_key, event_no, occurred_at)
select n.tenant, n.business_key, n.event_no, n.occurred_at
from unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[]) n (tenant, business_key, event_no, occurred_at)
returning event_no
