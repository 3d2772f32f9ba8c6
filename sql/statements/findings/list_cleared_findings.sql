-- List the open findings that a pass checked and did not find again, with how each is closed: repaired if a repair was executed, else explained.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 reconciliation_no bigint
-- $2 judged_types text[]
-- $3 unjudged_types text[]
-- $4 unjudged_tenants text[]
-- $5 unjudged_kinds text[]
-- $6 from_date date
-- $7 to_date date
-- $8 read_topics text[]
-- $9 read_partitions integer[]
-- $10 read_from_offsets bigint[]
-- index: none
-- locks: none
select f.id,
  case
    when exists (
      select from ledger.repair r
      where r.finding_id = f.id and r.opened_count = f.opened_count and r.status = 'executed')
    then 'repaired' else 'explained' end as resolution
from ledger.finding f
where f.closed_at is null and f.type = any($2::text[])
  -- One that `define` recorded and no pass has seen yet has no number, and is not closed.
  and f.reconciliation_no < coalesce($1::bigint, 9223372036854775807)
  and (f.effective_date is null or f.effective_date >= $6::date and f.effective_date < $7::date)
  and not exists (
    select from unnest($3::text[], $4::text[], $5::text[]) u (type, tenant, kind)
    where u.type = f.type and u.tenant = f.tenant and u.kind = f.kind)
  -- What Kafka has deleted, or was not read, shows nothing about its record.
  and (f.type not in ('ORPHAN_RECORD', 'RECORD_MISSING') or exists (
    select from unnest($8::text[], $9::integer[], $10::bigint[]) k (topic, partition, from_offset)
    cross join lateral (
      select case f.type when 'RECORD_MISSING' then f.expected else f.actual end as place,
        coalesce(f.actual ->> 'missing_from', f.actual ->> 'first_offset', f.actual ->> 'offset')::bigint as at) r
    where k.topic = r.place ->> 'topic' and k.partition = (r.place ->> 'partition')::integer and k.from_offset <= r.at))
order by f.id
