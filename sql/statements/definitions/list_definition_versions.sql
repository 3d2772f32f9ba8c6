-- List every version of every definition, in force or not, whether it was changed in place, and how far it is materialised.
-- returns: zero or more
-- roles: auditor, operator, reconciler
-- index: none
-- locks: none
select d.definition_no, d.tenant, d.name, d.version, d.kind, d.event_type, d.document, d.effective_from, d.created_at,
  s.digest is distinct from ledger.row_digest(d) as is_changed, m.materialised_until, m.failure,
  min(d.effective_from) over (
    partition by d.tenant, d.name order by d.version rows between 1 following and unbounded following) as superseded_at
from ledger.definition d
left join ledger.materialised m on m.definition_no = d.definition_no
left join ledger.seal s on s.what = 'definition' and s.number = d.definition_no
order by d.tenant, d.name, d.version
