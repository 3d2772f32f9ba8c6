-- Take versions that an older tz database expanded up to their end, and that ended not long ago; lock them until the transaction ends.
-- returns: zero or more
-- roles: materialiser
-- $1 tzdata text
-- $2 ended_seconds double precision
-- $3 retry_seconds double precision
-- $4 limit integer
-- index: materialised_ends_at_idx
-- locks: materialised rows (for update, skip locked)
select d.definition_no, d.tenant, d.name, d.version, d.kind, d.document, d.effective_from, m.ends_at as materialised_until, m.tzdata,
  ledger.now() as now, m.ends_at as until, m.ends_at
from ledger.materialised m
join ledger.definition d on d.definition_no = m.definition_no
where m.materialised_until >= m.ends_at and m.ends_at > ledger.now() - make_interval(secs => $2::double precision)
  and d.effective_from < m.ends_at
  and m.tzdata < $1::text collate "C"  -- a process that still has the older one changes nothing
  -- After a newer version has withdrawn the items that it does not owe: some of them may be owed by this one now.
  and not exists (
    select from ledger.definition n join ledger.materialised b on b.definition_no = n.definition_no
    where n.tenant = d.tenant and n.name = d.name and n.version > d.version and b.failed_at is null
      and b.materialised_until < least(m.materialised_until, b.ends_at))
  and (m.failed_at is null or m.failed_at <= ledger.now() - make_interval(secs => $3::double precision))
order by m.ends_at
limit $4::integer
for update of m skip locked
