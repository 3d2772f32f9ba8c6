-- Take scheduled definitions behind the horizon, a stride beyond it to expand, and hold them until the transaction ends.
-- returns: zero or more
-- $1 horizon_seconds double precision
-- $2 stride_seconds double precision
-- $3 retry_seconds double precision
-- $4 limit integer
-- index: materialised_until_idx
-- locks: materialised rows (for update, skip locked)
select d.definition_no, d.tenant, d.name, d.version, d.kind, d.document, d.effective_from, m.materialised_until,
  ledger.now() as now,
  least(
    ledger.now() + make_interval(secs => $1::double precision + $2::double precision),
    (select min(v.effective_from) from ledger.definition v
     where v.tenant = d.tenant and v.name = d.name and v.version > d.version)
  ) as until
from ledger.materialised m
join ledger.definition d on d.definition_no = m.definition_no
where m.materialised_until < ledger.now() + make_interval(secs => $1::double precision)
  and (m.failed_at is null or m.failed_at <= ledger.now() - make_interval(secs => $3::double precision))
  and not exists (
    select from ledger.definition v
    where v.tenant = d.tenant and v.name = d.name and v.version > d.version
      and v.effective_from <= m.materialised_until)
order by m.materialised_until
limit $4::integer
for update of m skip locked
