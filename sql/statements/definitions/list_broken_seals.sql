-- List kinds, versions of calendars and actors that are not as they were sealed, what was sealed and is gone, and flows that are not as their kind, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- index: none
-- locks: none
select coalesce(s.what, c.what) as what, coalesce(s.tenant, c.tenant) as tenant, coalesce(s.kind, c.kind) as kind,
  coalesce(s.name, c.name) as name, c.number is null as is_removed
from (
  select 'kind' as what, k.kind_no::bigint as number, k.tenant, k.name as kind, k.name, ledger.row_digest(k) as digest
  from ledger.kind k
  union all
  select 'calendar', c.calendar_no, c.tenant, null, c.name || ', version ' || c.version, ledger.row_digest(c)
  from ledger.calendar c
  union all
  select 'actor', a.actor_no, '*', null, a.name, ledger.row_digest(a)
  from ledger.actor a
  where a.kind in ('person', 'service', 'api', 'key', 'oidc')
  union all
  -- list_definition_versions compares these.
  select 'definition', d.definition_no, d.tenant, d.kind, d.name, null
  from ledger.definition d
) c
full join ledger.seal s on s.what = c.what and s.number = c.number
where c.number is null or c.what <> 'definition' and s.digest is distinct from c.digest
union all
-- A foreign key holds them together, where no session ignores it.
select 'flow', coalesce(k.tenant, f.tenant), coalesce(k.name, f.kind), f.tenant || '/' || f.kind || '/' || f.lane, false
from ledger.flow f
left join ledger.kind k on k.kind_no = f.kind_no
where (f.tenant, f.kind, f.ordering) is distinct from (k.tenant, k.name, k.ordering)
order by 1, 2, 4
limit $1::integer
