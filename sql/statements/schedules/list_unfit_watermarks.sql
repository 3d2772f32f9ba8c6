-- List watermarks of materialisation of no version, versions of schedules without one, and those that end at another time than their version, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- index: none
-- locks: none
select coalesce(v.definition_no, m.definition_no) as definition_no, v.tenant, v.kind, v.name, v.version,
  case when v.definition_no is null then 'no_version' when m.definition_no is null then 'no_watermark' else 'end' end as fault
from (
  select d.definition_no, d.tenant, d.kind, d.name, d.version, d.event_type is null and d.document ? 'when' as is_schedule,
    coalesce(min(d.effective_from) over (
      partition by d.tenant, d.name order by d.version rows between 1 following and unbounded following), 'infinity') as ends_at
  from ledger.definition d
) v
full join ledger.materialised m on m.definition_no = v.definition_no
where v.definition_no is null or v.is_schedule and m.ends_at is distinct from v.ends_at
order by 1
limit $1::integer
