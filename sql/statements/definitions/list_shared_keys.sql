-- List newest versions of schedules of a kind with the business key of another schedule that is in force or pending beside them.
-- returns: zero or more
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 names text[]
-- index: definition_schedule_key_idx, definition_tenant_name_version_key
-- locks: none
select own.name, own.document ->> 'business_key' as business_key, other.name as other, other.effective_from,
  nullif(other.until_at, 'infinity') as until_at
from unnest($3::text[]) n (name)
cross join lateral (
  select d.* from ledger.definition d
  where d.tenant = $1::text and d.name = n.name order by d.version desc limit 1
) own
cross join lateral (
  select d.name, d.effective_from, newer.until_at
  from ledger.definition d
  cross join lateral (
    select coalesce(min(v.effective_from), 'infinity') as until_at
    from ledger.definition v
    where v.tenant = d.tenant and v.name = d.name and v.version > d.version
  ) newer
  where d.kind = $2::text and d.tenant = $1::text and d.event_type is null and not coalesce((d.document ->> 'ended')::boolean, false)
    and d.document ->> 'business_key' = own.document ->> 'business_key' and d.name <> own.name
    and newer.until_at > greatest(d.effective_from, own.effective_from, ledger.now())
  order by d.effective_from, d.name
  limit 1
) other
where own.kind = $2::text and own.event_type is null and not coalesce((own.document ->> 'ended')::boolean, false)
order by own.name
limit 50
