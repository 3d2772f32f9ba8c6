-- Read the numbers of a definition's newest versions that owe items, and the business key and the kind of these items if they have only one.
-- returns: one
-- roles: auditor, operator
-- $1 tenant text
-- $2 name text
-- $3 limit integer
-- $4 version integer
-- index: definition_tenant_name_version_key
-- locks: none
select coalesce(array_agg(v.definition_no), '{}') as definition_nos,
  case when count(distinct v.business_key) = 1 and count(v.business_key) = count(*) then min(v.business_key) end as business_key,
  case when min(v.kind) = max(v.kind) then min(v.kind) end as kind
from (
  select d.definition_no, d.kind, case when d.event_type is null then d.document ->> 'business_key' end as business_key
  from ledger.definition d
  where d.tenant = $1::text and d.name = $2::text and (d.event_type is not null or d.document ? 'when')
    and ($4::integer is null or d.version = $4::integer)
  order by d.version desc
  limit $3::integer
) v
