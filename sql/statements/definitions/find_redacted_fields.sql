-- Find which fields of payloads kinds redact, of those that redact any.
-- returns: zero or more
-- roles: operator
-- $1 tenants text[]
-- $2 kinds text[]
-- index: kind_tenant_name_key
-- locks: none
select k.tenant, k.name as kind, k.redacted_fields
from unnest($1::text[], $2::text[]) w (tenant, kind)
join ledger.kind k on k.tenant = w.tenant and k.name = w.kind
where k.redacted_fields <> '{}'
