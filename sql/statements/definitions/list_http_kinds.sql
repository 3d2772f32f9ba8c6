-- List the kinds that are sent to an endpoint, with the endpoint.
-- returns: zero or more
-- roles: worker
-- $1 limit integer
-- index: none
-- locks: none
select tenant, name as kind, topic, http, backoff_base_seconds, backoff_cap_seconds
from ledger.kind
where dispatch = 'http'
order by tenant, name
limit $1::integer
