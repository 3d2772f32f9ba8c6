-- Take scheduled definitions behind the horizon, to expand a stride beyond it, and lock them until the transaction ends.
-- returns: zero or more
-- roles: materialiser
-- $1 horizon_seconds double precision
-- $2 stride_seconds double precision
-- $3 retry_seconds double precision
-- $4 limit integer
-- index: materialised_until_idx
-- locks: materialised rows (for update, skip locked)
select d.definition_no, d.tenant, d.name, d.version, d.kind, d.document, d.effective_from, m.materialised_until, m.tzdata,
  ledger.now() as now,
  least(ledger.now() + make_interval(secs => $1::double precision + $2::double precision), m.ends_at) as until,
  nullif(m.ends_at, 'infinity') as ends_at,
  -- As far as older versions were expanded; a fixed delay has no more than one item, so its first pass finds it.
  case when d.version > 1 then (
    select max(case when o.document -> 'when' ? 'after_completion' then d.effective_from + interval '1 microsecond'
      else b.materialised_until end)
    from ledger.definition o join ledger.materialised b on b.definition_no = o.definition_no
    where o.tenant = d.tenant and o.name = d.name and o.version < d.version) end as contested_until
from ledger.materialised m
join ledger.definition d on d.definition_no = m.definition_no
where m.materialised_until < m.ends_at
  and m.materialised_until < ledger.now() + make_interval(secs => $1::double precision)
  and (m.failed_at is null or m.failed_at <= ledger.now() - make_interval(secs => $3::double precision))
  -- One version after the other: two processes would make each other's items and flows, and wait for each other.
  and (d.version = 1 or not exists (
    select from ledger.definition o join ledger.materialised b on b.definition_no = o.definition_no
    where o.tenant = d.tenant and o.name = d.name and o.version < d.version and b.failed_at is null
      and b.materialised_until < least(b.ends_at, ledger.now() + make_interval(secs => $1::double precision))))
order by m.materialised_until
limit $4::integer
for update of m skip locked
