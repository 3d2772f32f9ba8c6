-- Record how far each kind is complete, and what blocks it.
-- returns: exactly one per input
-- roles: reconciler
-- $1 tenants text[]
-- $2 kinds text[]
-- $3 complete_befores timestamptz[]
-- $4 blocked_bys text[]
-- $5 as_of timestamptz
-- index: watermark_pkey
-- locks: watermark rows (tenant, kind ascending)
insert into ledger.watermark as w (tenant, kind, complete_before, blocked_by, as_of)
select u.tenant, u.kind, u.complete_before, u.blocked_by, $5::timestamptz
from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[]) u (tenant, kind, complete_before, blocked_by)
order by u.tenant, u.kind
on conflict (tenant, kind) do update set
  complete_before = coalesce(excluded.complete_before, w.complete_before),
  blocked_by = excluded.blocked_by,
  as_of = excluded.as_of
returning w.tenant, w.kind, w.complete_before
