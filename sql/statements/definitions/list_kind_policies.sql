-- List the work policies of the newest versions of a kind's other definitions, one definition for each policy.
-- returns: zero or more
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 names text[]
-- index: definition_kind_idx, definition_tenant_name_version_key
-- locks: none
select distinct on (p.policy) d.name, p.policy
from ledger.definition d
cross join lateral (
  select jsonb_build_object(
    'dispatch', d.document -> 'dispatch' #- '{kafka,partition_key}' #- '{http,partition_key}' #- '{direct,partition_key}',
    'retry', d.document -> 'retry', 'deadlines', d.document -> 'deadlines', 'order', d.document -> 'order', 'operations', d.document -> 'operations',
    'redacted_fields', d.document -> 'redacted_fields') as policy
) p
where d.tenant = $1::text and d.kind = $2::text and d.name <> all ($3::text[])
  and not coalesce((d.document ->> 'ended')::boolean, false)
  and d.version = (
    select n.version from ledger.definition n
    where n.tenant = d.tenant and n.name = d.name order by n.version desc limit 1)
order by p.policy, d.name
limit 100
